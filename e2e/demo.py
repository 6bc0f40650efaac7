"""`make demo`: local cluster, operator, one job; prints the plan, why it was chosen, and each pod on the node that the plan names.

As root with cgroup v1 the pods are real: the job then trains a GCN on Cora through the MPI Operator and Horovod, and its result is shown.
Elsewhere the demo says why not, and places the job on simulated nodes; its ranks train as processes of this machine (e2e/hostranks.py).

Exit codes: 0 every worker is on its planned node and the training reached its accuracy, 1 it did not, or something did not get ready.
The cluster and the operator stay.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import yaml

from e2e import first_run, horovod, hostranks, training
from e2e.cluster import cluster, operator
from e2e.cluster.__main__ import EXPECTED
from e2e.cluster.api import Api, Object
from e2e.cluster.binaries import ensure_all
from e2e.cluster.control_plane import wait_until
from e2e.cluster.real import ground
from e2e.cluster.topology import DEFAULT_FILE, load, with_real
from e2e.demo_output import conditions, print_plan, print_pods
from e2e.jobs import state_of

EXAMPLE: Final = Path(__file__).resolve().parents[1] / "examples" / "cora-gcn.yaml"
TRAINING_EXAMPLE: Final = EXAMPLE.with_name("cora-train.yaml")
JOBS: Final = "/apis/hyperscale.dev/v1alpha1"
_BOUND_SECONDS: Final = 60.0
_GONE_SECONDS: Final = 60.0
"""The garbage collector learns of new CRDs only every 30 s."""
_RUNNING_SECONDS: Final = 20.0
_LOG_LINES: Final = 5
LEAST_WORKERS: Final = 2
LEFT_OUT: Final = (
    "\nLeft out without nodes that run containers: pods, their images and network policies, the agent's measurements, GPUs.\n"
    "Planning, placing, the MPI Operator, the operator and Prometheus are real."
)
_MANAGER: Final = "kubectl"


class DemoError(Exception):
    """The demo did not show what it should; the message says what was seen."""


class Demo:
    """One job on one cluster."""

    def __init__(self, api: Api, job: Object) -> None:
        self._api = api
        self._job = job
        self.name = job["metadata"]["name"]
        self.namespace = job["metadata"].get("namespace", "default")
        self._path = f"{JOBS}/namespaces/{self.namespace}/gnntrainingjobs/{self.name}"

    @property
    def claim(self) -> str:
        """Name of the volume claim for its checkpoints."""
        name: str = self._job["spec"]["checkpoint"]["claimName"]
        return name

    def remove_old(self) -> None:
        """Take away what an earlier demo left, and wait until it is gone."""
        if self._api.find(self._path) is None:
            return
        self._api.delete(self._path, propagationPolicy="Foreground")
        wait_until(lambda: self._api.find(self._path) is None and not self.pods(), _GONE_SECONDS, "the job of an earlier demo does not go")

    def apply(self) -> None:
        """Like `kubectl apply --server-side`."""
        if self.namespace != "default":
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
            self._api.apply(f"/api/v1/namespaces/{self.namespace}", namespace)
        self._api.apply(self._path, self._job, _MANAGER)

    def status(self) -> Object:
        """The job's status; empty before the operator wrote one."""
        found: Object = self._api.get(self._path).get("status") or {}
        return found

    def pods(self) -> dict[int, Object]:
        """Worker pods by index."""
        selector = f"training.kubeflow.org/job-name={self.name},training.kubeflow.org/job-role=worker"
        pods = self._api.items(f"/api/v1/namespaces/{self.namespace}/pods", labelSelector=selector)
        return {int(pod["metadata"]["labels"]["training.kubeflow.org/replica-index"]): pod for pod in pods}

    def wait_bound(self) -> None:
        """Until every planned worker has a pod on a node; raises NotReadyError with the conditions seen."""

        def bound() -> bool:
            planned = len((self.status().get("plan") or {}).get("workers", ()))
            pods = self.pods()
            return planned > 0 and len(pods) == planned and all(pod["spec"].get("nodeName") for pod in pods.values())

        wait_until(bound, _BOUND_SECONDS, f"not every worker of {self.namespace}/{self.name} is bound")

    def all_running(self) -> bool:
        """Whether every worker pod runs."""
        return all(pod["status"].get("phase") == "Running" for pod in self.pods().values())

    def wait_launcher(self) -> Object:
        """The launcher's pod, once its gate is open and it runs; raises NotReadyError."""
        selector = f"training.kubeflow.org/job-name={self.name},training.kubeflow.org/job-role=launcher"

        def running() -> list[Object]:
            pods = self._api.items(f"/api/v1/namespaces/{self.namespace}/pods", labelSelector=selector)
            return [pod for pod in pods if pod["status"].get("phase") == "Running"]

        wait_until(lambda: bool(running()), _RUNNING_SECONDS, "the launcher does not start")
        return running()[0]

    def plan_file(self) -> str:
        """What workers read of the plan."""
        text: str = self._api.get(f"/api/v1/namespaces/{self.namespace}/configmaps/{self.name}-plan")["data"]["plan.json"]
        return text

    def end_launcher(self, launcher: Object, status: Object) -> None:
        """Report its end, as the kubelet of its node would."""
        self._api.patch(f"/api/v1/namespaces/{self.namespace}/pods/{launcher['metadata']['name']}/status", status)

    def misplaced(self) -> list[str]:
        """One line for each worker that is not on its planned node."""
        pods = self.pods()
        return [
            f"worker {worker['index']}: planned {worker['node']}, pod on {pods[worker['index']]['spec'].get('nodeName')}"
            for worker in self.status()["plan"]["workers"]
            if worker["index"] not in pods or pods[worker["index"]]["spec"].get("nodeName") != worker["node"]
        ]


def run(directory: Path) -> None:
    """The whole demo; raises DemoError or one of EXPECTED."""
    here = _cluster(directory)
    real = bool(here.real_nodes)
    example = TRAINING_EXAMPLE if real else EXAMPLE
    operator.install(here)
    process = operator.start_operator(here)
    cluster.say(f"operator ready (pid {process.pid}), acting as {operator.USER}")
    demo = Demo(here.api(), _job(example, real))
    demo.remove_old()
    if real:
        training.fresh_claim(here, demo.namespace, demo.claim)
    _horovod(here, example, needed=real)
    started = time.monotonic()
    demo.apply()
    cluster.say(f"applied {example.relative_to(example.parents[1])}")
    try:
        demo.wait_bound()
    except EXPECTED as error:
        raise DemoError("\n".join([str(error), *conditions(demo.status()), *_log_end(process)])) from error
    seconds = time.monotonic() - started
    wait_until(demo.all_running, _RUNNING_SECONDS, "the workers do not start")
    print_plan(demo.status())
    print_pods(demo.pods())
    misplaced = demo.misplaced()
    if misplaced:
        raise DemoError("\n".join(["pods are not where the plan says:", *misplaced]))
    print(f"\nEvery worker is on its planned node. From apply to all workers bound: {seconds:.2f} s", flush=True)
    (_train if real else _train_here)(here, demo, process)
    print(f"\nLook around:   export KUBECONFIG={here.kubeconfig} HYPERSCALE_PROMETHEUS_URL={here.prometheus_url}")
    print(f"               {_kubectl()} get gnntj,mpijobs,pods -A -o wide")
    print(f"Prometheus:    {here.prometheus_url}\nOperator log:  {process.log}\nClean up:      {_clean_up(directory)}")


def _cluster(directory: Path) -> cluster.Cluster:
    """The one that runs there, else a new one, with nodes that run containers where this machine can."""
    found = cluster.find(directory)
    if found is not None and not found.faults():
        if not found.real_nodes:
            cluster.say("the cluster that runs has simulated nodes only: pods run without containers, ranks as processes of this machine")
        return found
    reason = ground.obstacle()
    if reason is not None:
        cluster.say(f"no nodes that run containers: {reason}; the demo places on simulated nodes, and ranks are processes of this machine")
        first_run.announce(first_run.parts(real=False))
        return cluster.up(directory)
    first_run.announce(first_run.parts(real=True))
    return cluster.up(directory, topology=with_real(load(DEFAULT_FILE)))


def _horovod(here: cluster.Cluster, example: Path, *, needed: bool) -> None:
    """What only the training needs. Where it has to be compiled, the plan is shown first; nothing of the job is in the cluster yet.

    needed: raise BuildError where it cannot be had; otherwise one process can train instead
    """
    if horovod.installed() or (horovod.absent() and not needed):
        return
    if not horovod.built():
        command = [str(Path(sys.executable).with_name("hyperscale")), "plan", "-f", str(example)]
        environment = {**os.environ, "KUBECONFIG": str(here.kubeconfig), "HYPERSCALE_PROMETHEUS_URL": here.prometheus_url}
        print(f"\n$ hyperscale plan -f {example.relative_to(example.parents[1])}", flush=True)
        subprocess.run(command, env=environment, check=False)
        print(flush=True)
        first_run.announce(first_run.parts(real=bool(here.real_nodes)))
    try:
        horovod.ensure()
    except horovod.BuildError as error:
        if needed:
            raise
        cluster.say(f"no Horovod: {error}")


def _train(here: cluster.Cluster, demo: Demo, process: operator.OperatorProcess) -> None:
    """Follow the training to its end and show its result; raises DemoError where it fails or learns too little."""
    command = [_kubectl(), "--kubeconfig", str(here.kubeconfig), "--namespace", demo.namespace, "get", "gnntj", demo.name, "--watch"]
    print(f"\n$ kubectl get gnntj {demo.name} -w", flush=True)
    with subprocess.Popen(command) as watch:
        try:
            status = training.wait_finished(process, demo.status)
        except EXPECTED as error:
            raise DemoError("\n".join([str(error), *conditions(demo.status()), *_log_end(process)])) from error
        finally:
            watch.terminate()
    _show(here, demo, status)


def _show(here: cluster.Cluster, demo: Demo, status: Object) -> None:
    """The result; raises DemoError where the training failed or learned too little."""
    if state_of(status) != "Succeeded":
        raise DemoError(
            "\n".join(["the training failed", *conditions(demo.status()), training.launcher_log(here, demo.namespace, demo.name)])
        )
    print("\n".join(["", *training.summary(status)]))
    accuracy = (status.get("measured") or {}).get("accuracy")
    if accuracy is None or accuracy < training.CORA_ACCURACY:
        raise DemoError(f"the test accuracy is {accuracy}, at least {training.CORA_ACCURACY} was expected")


def _train_here(here: cluster.Cluster, demo: Demo, process: operator.OperatorProcess) -> None:
    """Train the job's ranks on this machine, and end its simulated launcher with their result; raises DemoError as `_train`."""
    one_process = not horovod.installed()
    launcher = demo.wait_launcher()
    container = launcher["spec"]["containers"][0]
    with tempfile.TemporaryDirectory(prefix="hyperscale-demo-") as scratch:
        folder = Path(scratch)
        (folder / "plan.json").write_text(demo.plan_file(), encoding="utf-8")
        ranks = hostranks.of_launcher(container, folder, one_process=one_process)
        if one_process:
            missing = " ".join(horovod.absent()) or "horovod"
            cluster.say(f"{missing} missing: one process trains on the whole graph; it cannot follow the plan's ranks")
        else:
            cluster.say(f"{len(demo.status()['plan']['workers'])} ranks train on this machine, through Open MPI and Horovod, as planned")
        code, message = hostranks.train(ranks, folder)
    if code != 0:
        raise DemoError(f"the ranks ended with {code}: {message}")
    demo.end_launcher(launcher, hostranks.ended(container["name"], code, message, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")))
    try:
        status = training.wait_finished(process, demo.status)
    except EXPECTED as error:
        raise DemoError("\n".join([str(error), *conditions(demo.status()), *_log_end(process)])) from error
    _show(here, demo, status)
    print(LEFT_OUT)


def _job(example: Path, real: bool) -> Object:
    """The example; on simulated nodes of at least two workers, so that there are ranks to place and to talk to each other."""
    job: Object = yaml.safe_load(example.read_text())
    if not real:
        job["spec"]["workers"]["minReplicas"] = LEAST_WORKERS
    return job


def _log_end(process: operator.OperatorProcess) -> list[str]:
    return [f"the end of {process.log}:", process.table.tail("operator", _LOG_LINES)]


def _clean_up(directory: Path) -> str:
    return "make cluster-down" if directory == cluster.DEFAULT_DIRECTORY else f"python -m e2e.cluster down --directory {directory}"


def _kubectl() -> str:
    """The machine's kubectl, else the one that was built for the cluster."""
    return "kubectl" if shutil.which("kubectl") else str(ensure_all()["kubectl"])


def main() -> int:
    """Run the demo; one line for what went wrong."""
    parser = argparse.ArgumentParser(prog="python -m e2e.demo", description="One job on the local cluster.")
    parser.add_argument("--directory", type=Path, default=cluster.DEFAULT_DIRECTORY, help="of the cluster (%(default)s)")
    arguments = parser.parse_args()
    try:
        run(arguments.directory)
    except (DemoError, horovod.BuildError, *EXPECTED) as error:
        cluster.say(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
