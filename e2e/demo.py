"""`make demo`: local cluster, operator, one job; prints the plan, why it was chosen, and each pod on the node that the plan names.

As root with cgroup v1 the pods are real: the job then trains a GCN on Cora through the MPI Operator and Horovod, and its result is shown.
Elsewhere the demo says why not, and places a larger job on simulated nodes.

Exit codes: 0 every worker is on its planned node and the training reached its accuracy, 1 it did not, or something did not get ready.
The cluster and the operator stay.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import yaml

from e2e import first_run, horovod, training
from e2e.cluster import cluster, operator
from e2e.cluster.__main__ import EXPECTED
from e2e.cluster.api import Api, Object
from e2e.cluster.binaries import ensure_all
from e2e.cluster.control_plane import wait_until
from e2e.cluster.real import ground
from e2e.cluster.topology import DEFAULT_FILE, load, with_real
from e2e.jobs import state_of

EXAMPLE: Final = Path(__file__).resolve().parents[1] / "examples" / "cora-gcn.yaml"
TRAINING_EXAMPLE: Final = EXAMPLE.with_name("cora-train.yaml")
JOBS: Final = "/apis/hyperscale.dev/v1alpha1"
_BOUND_SECONDS: Final = 60.0
_GONE_SECONDS: Final = 60.0
"""The garbage collector learns of new CRDs only every 30 s."""
_RUNNING_SECONDS: Final = 20.0
_LOG_LINES: Final = 5
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

    def misplaced(self) -> list[str]:
        """One line for each worker that is not on its planned node."""
        pods = self.pods()
        return [
            f"worker {worker['index']}: planned {worker['node']}, pod on {pods[worker['index']]['spec'].get('nodeName')}"
            for worker in self.status()["plan"]["workers"]
            if worker["index"] not in pods or pods[worker["index"]]["spec"].get("nodeName") != worker["node"]
        ]


def print_plan(status: Object) -> None:
    """The plan and its reasons."""
    plan = status["plan"]
    predicted = plan["predicted"]
    print(f"\nPlan {plan['id']} by the {plan['planner']} planner: {len(plan['workers'])} workers, {plan['partitions']} partitions")
    print(f"predicted epoch {predicted['epochSeconds']:.4g} s, of it communication {predicted['communicationSeconds']:.4g} s\n")
    print(f"{'WORKER':<8}{'NODE':<16}{'GPUS':<6}{'SHARE':<9}PRODUCT")
    for worker in plan["workers"]:
        print(f"{worker['index']:<8}{worker['node']:<16}{worker['gpus']:<6}{worker['share']:<9.4f}{worker.get('product', '')}")
    for title, lines in (("Why", plan.get("reasons", ())), ("Fallbacks", plan.get("fallbacks", ()))):
        if lines:
            print(f"\n{title}")
            print("\n".join(f"  - {line}" for line in lines))
    if plan.get("rejected"):
        print("\nNot used")
        print("\n".join(f"  - {one['node']}: {one['reason']}. {one.get('message', '')}".rstrip() for one in plan["rejected"]))


def print_pods(pods: dict[int, Object]) -> None:
    """Rank, pod, node and phase."""
    print(f"\n{'WORKER':<8}{'POD':<28}{'NODE':<16}PHASE")
    for index, pod in sorted(pods.items()):
        print(f"{index:<8}{pod['metadata']['name']:<28}{pod['spec'].get('nodeName', '-'):<16}{pod['status'].get('phase', '')}")


def run(directory: Path) -> None:
    """The whole demo; raises DemoError or one of EXPECTED."""
    here = _cluster(directory)
    trains = bool(here.real_nodes)
    example = TRAINING_EXAMPLE if trains else EXAMPLE
    operator.install(here)
    process = operator.start_operator(here)
    cluster.say(f"operator ready (pid {process.pid}), acting as {operator.USER}")
    demo = Demo(here.api(), yaml.safe_load(example.read_text()))
    demo.remove_old()
    if trains:
        training.fresh_claim(here, demo.namespace, demo.claim)
        _horovod(here, example)
    started = time.monotonic()
    demo.apply()
    cluster.say(f"applied {example.relative_to(example.parents[1])}")
    try:
        demo.wait_bound()
    except EXPECTED as error:
        raise DemoError("\n".join([str(error), *_conditions(demo), *_log_end(process)])) from error
    seconds = time.monotonic() - started
    wait_until(lambda: _all_running(demo.pods()), _RUNNING_SECONDS, "the workers do not start")
    print_plan(demo.status())
    print_pods(demo.pods())
    misplaced = demo.misplaced()
    if misplaced:
        raise DemoError("\n".join(["pods are not where the plan says:", *misplaced]))
    print(f"\nEvery worker is on its planned node. From apply to all workers bound: {seconds:.2f} s", flush=True)
    if trains:
        _train(here, demo, process)
    print(f"\nLook around:   export KUBECONFIG={here.kubeconfig} HYPERSCALE_PROMETHEUS_URL={here.prometheus_url}")
    print(f"               {_kubectl()} get gnntj,mpijobs,pods -A -o wide")
    print(f"Prometheus:    {here.prometheus_url}\nOperator log:  {process.log}\nClean up:      {_clean_up(directory)}")


def _cluster(directory: Path) -> cluster.Cluster:
    """The one that runs there, else a new one, with nodes that run containers where this machine can."""
    found = cluster.find(directory)
    if found is not None and not found.faults():
        if not found.real_nodes:
            cluster.say("the cluster that runs has simulated nodes only: pods run without containers, nothing trains")
        return found
    reason = ground.obstacle()
    if reason is not None:
        cluster.say(f"no nodes that run containers: {reason}; the demo plans and places on simulated nodes, nothing trains")
        first_run.announce(first_run.parts(trains=False))
        return cluster.up(directory)
    first_run.announce(first_run.parts(trains=True))
    return cluster.up(directory, topology=with_real(load(DEFAULT_FILE)))


def _horovod(here: cluster.Cluster, example: Path) -> None:
    """What only the training needs. Where it has to be compiled, the plan is shown first; nothing of the job is in the cluster yet."""
    if horovod.installed():
        return
    if not horovod.built():
        command = [str(Path(sys.executable).with_name("hyperscale")), "plan", "-f", str(example)]
        environment = {**os.environ, "KUBECONFIG": str(here.kubeconfig), "HYPERSCALE_PROMETHEUS_URL": here.prometheus_url}
        print(f"\n$ hyperscale plan -f {example.relative_to(example.parents[1])}", flush=True)
        subprocess.run(command, env=environment, check=False)
        print(flush=True)
        first_run.announce(first_run.parts(trains=True))
    horovod.ensure()


def _train(here: cluster.Cluster, demo: Demo, process: operator.OperatorProcess) -> None:
    """Follow the training to its end and show its result; raises DemoError where it fails or learns too little."""
    command = [_kubectl(), "--kubeconfig", str(here.kubeconfig), "--namespace", demo.namespace, "get", "gnntj", demo.name, "--watch"]
    print(f"\n$ kubectl get gnntj {demo.name} -w", flush=True)
    with subprocess.Popen(command) as watch:
        try:
            status = training.wait_finished(process, demo.status)
        except EXPECTED as error:
            raise DemoError("\n".join([str(error), *_conditions(demo), *_log_end(process)])) from error
        finally:
            watch.terminate()
    if state_of(status) != "Succeeded":
        raise DemoError("\n".join(["the training failed", *_conditions(demo), training.launcher_log(here, demo.namespace, demo.name)]))
    print("\n".join(["", *training.summary(status)]))
    accuracy = (status.get("measured") or {}).get("accuracy")
    if accuracy is None or accuracy < training.CORA_ACCURACY:
        raise DemoError(f"the test accuracy is {accuracy}, at least {training.CORA_ACCURACY} was expected")


def _conditions(demo: Demo) -> list[str]:
    return [f"{one['type']}={one['status']} {one['reason']}: {one.get('message', '')}" for one in demo.status().get("conditions", ())]


def _log_end(process: operator.OperatorProcess) -> list[str]:
    return [f"the end of {process.log}:", process.table.tail("operator", _LOG_LINES)]


def _clean_up(directory: Path) -> str:
    return "make cluster-down" if directory == cluster.DEFAULT_DIRECTORY else f"python -m e2e.cluster down --directory {directory}"


def _kubectl() -> str:
    """The machine's kubectl, else the one that was built for the cluster."""
    return "kubectl" if shutil.which("kubectl") else str(ensure_all()["kubectl"])


def _all_running(pods: dict[int, Object]) -> bool:
    return all(pod["status"].get("phase") == "Running" for pod in pods.values())


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
