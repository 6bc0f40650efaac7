"""`make demo`: local cluster, operator, one job; prints the plan, why it was chosen, and each pod on the node that the plan names.

As root with cgroup v1 the pods are real: operator and agents are installed by Helm from their images, the MPI Operator from its manifest;
the job then trains a GCN on Cora through Horovod, and its result is shown. Elsewhere the demo says why not, runs the operator as a process,
and places the job on simulated nodes; its ranks train as processes of this machine (e2e/hostranks.py).

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

from e2e import first_run, horovod, hostranks, release, training
from e2e.cluster import cluster, operator
from e2e.cluster.__main__ import EXPECTED
from e2e.cluster.api import Object
from e2e.cluster.control_plane import wait_until
from e2e.cluster.real import ground
from e2e.cluster.topology import DEFAULT_FILE, load, with_agents, with_real
from e2e.demo_job import RUNNING_SECONDS, Demo
from e2e.demo_output import conditions, print_plan, print_pods
from e2e.jobs import state_of
from e2e.training import RunningOperator

EXAMPLE: Final = Path(__file__).resolve().parents[1] / "examples" / "cora-gcn.yaml"
TRAINING_EXAMPLE: Final = EXAMPLE.with_name("cora-train.yaml")
_LOG_LINES: Final = 5
LEAST_WORKERS: Final = 2
LEFT_OUT: Final = (
    "\nLeft out without nodes that run containers: pods, their images and network policies, the agent's measurements, GPUs.\n"
    "Planning, placing, the MPI Operator, the operator and Prometheus are real."
)


class DemoError(Exception):
    """The demo did not show what it should; the message says what was seen."""


def run(directory: Path) -> None:
    """The whole demo; raises DemoError or one of EXPECTED."""
    here = _cluster(directory)
    real = bool(here.real_nodes)
    example = TRAINING_EXAMPLE if real else EXAMPLE
    demo = Demo(here.api(), _job(example, real))
    demo.remove_old()
    if real:
        training.fresh_claim(here, demo.namespace, demo.claim)
    _first_plan(here, example)
    process = release.install(here) if real else _operator_process(here)
    _horovod(needed=real)
    started = time.monotonic()
    demo.apply()
    cluster.say(f"applied {example.relative_to(example.parents[1])}")
    try:
        demo.wait_bound()
    except EXPECTED as error:
        raise DemoError("\n".join([str(error), *conditions(demo.status()), *_log_end(process)])) from error
    seconds = time.monotonic() - started
    wait_until(demo.all_running, RUNNING_SECONDS, "the workers do not start")
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
    return cluster.up(directory, topology=with_agents(with_real(load(DEFAULT_FILE))), node_images=())


def _first_plan(here: cluster.Cluster, example: Path) -> None:
    """Where something is to be built yet, show the plan before: nothing of the release is in the cluster, and no agent has measured."""
    left = first_run.parts(real=bool(here.real_nodes))
    if not left:
        return
    command = [str(Path(sys.executable).with_name("hyperscale")), "plan", "-f", str(example)]
    environment = {**os.environ, "KUBECONFIG": str(here.kubeconfig), "HYPERSCALE_PROMETHEUS_URL": here.prometheus_url}
    print(f"\n$ hyperscale plan -f {example.relative_to(example.parents[1])}", flush=True)
    subprocess.run(command, env=environment, check=False)
    print(flush=True)
    first_run.announce(left)


def _operator_process(here: cluster.Cluster) -> operator.OperatorProcess:
    """The operator as a process of this machine, ready."""
    operator.install(here)
    process = operator.start_operator(here)
    cluster.say(f"operator ready (pid {process.pid}), acting as {operator.USER}")
    return process


def _horovod(*, needed: bool) -> None:
    """What only the training needs.

    needed: raise BuildError where it cannot be had; otherwise one process can train instead
    """
    if horovod.installed() or (horovod.absent() and not needed):
        return
    try:
        horovod.ensure()
    except horovod.BuildError as error:
        if needed:
            raise
        cluster.say(f"no Horovod: {error}")


def _train(here: cluster.Cluster, demo: Demo, process: RunningOperator) -> None:
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


def _train_here(here: cluster.Cluster, demo: Demo, process: RunningOperator) -> None:
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


def _log_end(process: RunningOperator) -> list[str]:
    return ["the end of the operator's log:", process.tail(_LOG_LINES)]


def _clean_up(directory: Path) -> str:
    return "make cluster-down" if directory == cluster.DEFAULT_DIRECTORY else f"python -m e2e.cluster down --directory {directory}"


def _kubectl() -> str:
    """The machine's kubectl, else the one that was built for the cluster."""
    return "kubectl" if shutil.which("kubectl") else str(operator.tool("kubectl"))


def main() -> int:
    """Run the demo; one line for what went wrong."""
    parser = argparse.ArgumentParser(prog="python -m e2e.demo", description="One job on the local cluster.")
    parser.add_argument("--directory", type=Path, default=cluster.DEFAULT_DIRECTORY, help="of the cluster (%(default)s)")
    arguments = parser.parse_args()
    try:
        run(arguments.directory)
    except (DemoError, horovod.BuildError, release.CommandError, *EXPECTED) as error:
        cluster.say(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
