"""The operator's event loop and memory with many objects on a real API server: 12 jobs of 1,000 workers, 10,000 finished ones, 5,000 nodes.

Every step of the event loop is timed while the operator starts, lists everything several times, and sees pods end. See control_plane.py.
One module, though longer than 300 lines, so that the whole measurement can be read at once.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from benchmarks import common
from e2e.cluster import cluster, components
from e2e.cluster.api import Api, ApiError
from e2e.cluster.binaries import ensure_all
from e2e.cluster.control_plane import wait_until
from e2e.cluster.ports import free_ports
from hyperscale.control.render.mpijob import render
from hyperscale.model import constants
from hyperscale.model.api.condition import Condition
from hyperscale.model.api.job import JobSpec
from hyperscale.model.meta import JobMetadata, RenderDefaults
from hyperscale.model.plan import Plan, Prediction, WorkerPlacement, gpus_by_node
from hyperscale.model.status import SUMMARY_CONDITION, JobStatus, ObjectReference, to_wire

ROOT: Final = Path(__file__).resolve().parent.parent
OURS: Final = "hyperscale"
NAMESPACE: Final = "bench-many"
STEP_LIMIT_MS: Final = 50.0
MEMORY_LIMIT_MIB: Final = 1024.0
LISTINGS: Final = 3
"""Full listings that are timed after the start."""
ENDED_PODS: Final = 20
"""Pods that go one after the other: after each, jobs that wait are asked."""
PATIENCE_SECONDS: Final = 600.0
AT_ONCE: Final = 16
GPUS: Final = 8
JOBS: Final = f"/apis/hyperscale.dev/v1alpha1/namespaces/{NAMESPACE}/gnntrainingjobs"
MPIJOBS: Final = f"/apis/kubeflow.org/v2beta1/namespaces/{NAMESPACE}/mpijobs"
PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"


class Size(NamedTuple):
    """How many there are of what."""

    jobs: int
    workers: int
    finished: int
    waiting: int
    """Jobs that ask for more GPUs a worker than any node has."""
    nodes: int
    resync_seconds: int


FULL: Final = Size(jobs=12, workers=1000, finished=10_000, waiting=100, nodes=5000, resync_seconds=20)
QUICK: Final = Size(jobs=2, workers=200, finished=300, waiting=10, nodes=200, resync_seconds=5)


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the event loop."""

    began: float
    """time.monotonic() of this machine."""
    cpu_seconds: float
    seconds: float


def measure(size: Size) -> list[common.Row]:
    """Rows and goals."""
    with tempfile.TemporaryDirectory(prefix="hyperscale-bench-") as scratch, _control_plane(Path(scratch) / "cluster") as running:
        api = running.api("hyperscale-bench")
        _fill(api, running, size)
        return _measured(api, running, Path(scratch), size)


def _measured(api: Api, running: cluster.Cluster, scratch: Path, size: Size) -> list[common.Row]:
    began = time.monotonic()
    log, steps, (health,) = scratch / "operator.log", scratch / "steps.txt", free_ports(1)
    with _operator(running, log, steps, health, size.resync_seconds) as process:
        wait_until(lambda: _is_ready(process, log, health), PATIENCE_SECONDS, f"the operator is not ready:\n{_tail(log)}")
        ready = time.monotonic()
        time.sleep(LISTINGS * size.resync_seconds)
        ending = time.monotonic()
        for number in range(ENDED_PODS):
            api.delete(f"{PODS}/other-{number}", gracePeriodSeconds="0")
            time.sleep(0.5)  # longer than the operator gathers such news
        ended = time.monotonic()
        if not _is_ready(process, log, health):
            raise RuntimeError(f"the operator is no longer ready:\n{_tail(log)}")
        memory = {name: _memory_mib(process.pid, name) for name in ("VmRSS", "VmHWM")}
        planner = sum(_memory_mib(child, "VmHWM") for child in _children(process.pid))
        known = [Step(*map(float, line.split())) for line in steps.read_text().splitlines()]
    case = f"{size.jobs} jobs x {size.workers} workers, {size.finished} finished, {size.waiting} that never fit, {size.nodes} nodes"
    rows = [common.Row("control_plane", case, OURS, "start to ready", ready - began, "s")]
    for name, first, last in (("start", began, ready), ("full listings", ready, ending), ("pods that end", ending, ended)):
        rows += _longest(case, name, [step for step in known if first <= step.began < last])
    rows += [common.Row("control_plane", case, OURS, f"{name}, operator", value, "MiB") for name, value in memory.items()]
    rows.append(common.Row("control_plane", case, OURS, "VmHWM, planner", planner, "MiB"))
    wall = max((step.seconds for step in known), default=0.0) * 1e3  # on two idle cores; elsewhere it holds other work too
    longest, highest = max((step.cpu_seconds for step in known), default=0.0) * 1e3, memory["VmHWM"] + planner
    rows.append(common.goal("control_plane", f"{case}: longest step of the event loop", OURS, wall, STEP_LIMIT_MS, "ms"))
    rows.append(
        common.goal("control_plane", f"{case}: longest step of the event loop, processor time", OURS, longest, STEP_LIMIT_MS, "CPU ms")
    )
    rows.append(common.goal("control_plane", f"{case}: highest RSS, planner included", OURS, highest, MEMORY_LIMIT_MIB, "MiB"))
    return rows


def _longest(case: str, name: str, steps: list[Step]) -> Iterator[common.Row]:
    """Steps shorter than telemetry_watch.LEAST_SECONDS are not known, and count as 0."""
    for unit, values in (("CPU ms", [step.cpu_seconds for step in steps]), ("ms", [step.seconds for step in steps])):
        yield common.Row("control_plane", case, OURS, f"longest step, {name}", max(values, default=0.0) * 1e3, unit)


@contextlib.contextmanager
def _control_plane(directory: Path) -> Iterator[cluster.Cluster]:
    try:
        yield cluster.up(directory, parts="control-plane")
    finally:
        cluster.down(directory)


@contextlib.contextmanager
def _operator(running: cluster.Cluster, log: Path, steps: Path, health: int, resync_seconds: int) -> Iterator[subprocess.Popen[bytes]]:
    environment = {
        **os.environ,
        "MALLOC_ARENA_MAX": "2",  # as in the image
        "KUBECONFIG": str(running.kubeconfig),
        "HYPERSCALE_HEALTH_PORT": str(health),
        "HYPERSCALE_METRICS_PORT": str(free_ports(1)[0]),
        "HYPERSCALE_RESYNC_SECONDS": str(resync_seconds),
        "WATCH_FILE": str(steps),
    }
    steps.touch()
    command = [sys.executable, str(ROOT / "benchmarks" / "telemetry_watch.py")]
    process = subprocess.Popen(command, env=environment, stdout=log.open("wb"), stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


def _is_ready(process: subprocess.Popen[bytes], log: Path, health: int) -> bool:
    if process.poll() is not None:
        raise RuntimeError(f"the operator ended with {process.returncode}:\n{_tail(log)}")
    with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{health}/readyz", timeout=10) as answer:
        return bool(answer.status == 200)
    return False


def _fill(api: Api, running: cluster.Cluster, size: Size) -> None:
    """Create everything."""
    kubectl = str(ensure_all()["kubectl"])
    for definition in [*sorted((ROOT / "crds").glob("*.yaml")), ensure_all()["kubeflow.org_mpijobs.yaml"]]:
        command = [kubectl, "--kubeconfig", str(running.kubeconfig), "apply", "--server-side", "-f", str(definition)]
        subprocess.run(command, check=True, capture_output=True)
    for namespace in ("hyperscale-system", NAMESPACE):
        components.ensure_namespace(api, namespace)
    api.apply(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default", _object("v1", "ServiceAccount", "default"))
    for path in (JOBS, MPIJOBS):
        wait_until(functools.partial(_listable, api, path), PATIENCE_SECONDS, f"{path} cannot be listed")
    nodes = [f"node-{number:04d}" for number in range(size.nodes)]
    _each(nodes, lambda name: _create_node(api, name))
    _each(range(ENDED_PODS), lambda number: api.create(PODS, _pod(f"other-{number}", nodes[-1 - number], {}, [])))
    _each(range(size.finished), lambda number: _create_job(api, f"finished-{number:05d}", {"minReplicas": 2, "maxReplicas": 2}, _finished))
    _each(
        range(size.waiting),
        lambda number: _create_job(
            api, f"never-{number:03d}", {"minReplicas": 2, "maxReplicas": 2, "resources": {"limits": {"nvidia.com/gpu": 2 * GPUS}}}
        ),
    )
    for number in range(size.jobs):
        _create_running(api, number, size.workers, nodes)
        print(f"{number + 1} of {size.jobs} jobs", file=sys.stderr, flush=True)


def _each(items: Iterable[Any], make: Callable[[Any], object]) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(make, items))


def _listable(api: Api, path: str) -> bool:
    """An established CRD answers 429 until its watch cache is filled."""
    try:
        api.get(path)
    except ApiError:
        return False
    return True


def _object(version: str, kind: str, name: str, **more: object) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **more}}


def _create_node(api: Api, name: str) -> None:
    resources = {"cpu": "128", "memory": "2048Gi", "pods": "250", constants.GPU_RESOURCE: str(GPUS)}
    labels = {
        constants.HOSTNAME_LABEL: name,
        "topology.kubernetes.io/zone": f"zone-{name[-1]}",
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        "nvidia.com/gpu.memory": "81559",
    }
    status = {"capacity": resources, "allocatable": resources, "conditions": [{"type": "Ready", "status": "True"}]}
    api.create("/api/v1/nodes", _object("v1", "Node", name, labels=labels) | {"status": status})
    api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": None}})


def _spec(workers: dict[str, int]) -> dict[str, Any]:
    return {"model": {"architecture": "GCN"}, "dataset": {"source": {"builtin": {"name": "Cora"}}}, "workers": workers}


def _create_job(
    api: Api, name: str, workers: dict[str, Any], status: Callable[[dict[str, Any]], JobStatus] | None = None
) -> dict[str, Any]:
    made = api.create(JOBS, _object(constants.API_VERSION, constants.JOB_KIND, name) | {"spec": _spec(workers)})
    if status is not None:
        api.patch(f"{JOBS}/{name}/status", {"status": to_wire(status(made))})
    return made


def _finished(made: dict[str, Any]) -> JobStatus:
    """Of a job whose MPIJob is gone."""
    return JobStatus(
        observed_generation=made["metadata"]["generation"],
        conditions=(Condition(SUMMARY_CONDITION, "True", "Succeeded"),),
        plan=_plan(["node-0000", "node-0001"]),
        mpi_job_ref=ObjectReference(made["metadata"]["name"], f"mpi-{made['metadata']['uid']}"),
    )


def _plan(nodes: list[str]) -> Plan:
    workers = tuple(
        WorkerPlacement(index=index, first_rank=index, node=node, gpus=1, product="NVIDIA-H100-80GB-HBM3", share=1 / len(nodes))
        for index, node in enumerate(nodes)
    )
    return Plan(
        planner="Heuristic",
        seed=0,
        plan_id="0123456789abcdef",
        partitions=len(nodes),
        workers=workers,
        ranks_by_node=gpus_by_node(workers),
        predicted=Prediction(epoch_seconds=1.0, communication_seconds=0.1),
        objective=1.01,
    )


def _create_running(api: Api, number: int, count: int, nodes: list[str]) -> None:
    """A job with its MPIJob and all its workers bound."""
    name = f"large-{number:02d}"
    workers = {"minReplicas": count, "maxReplicas": count}
    made = _create_job(api, name, workers)
    places = [nodes[(number * count + index) // GPUS % len(nodes)] for index in range(count)]
    plan, metadata = _plan(places), JobMetadata(namespace=NAMESPACE, name=name, uid=made["metadata"]["uid"])
    mpijob = api.create(
        MPIJOBS, render(metadata, msgspec.convert(_spec(workers), JobSpec), plan, RenderDefaults("hyperscale/worker:0.1.0"))
    )
    uid = mpijob["metadata"]["uid"]
    status = JobStatus(observed_generation=made["metadata"]["generation"], plan=plan, mpi_job_ref=ObjectReference(name, uid))
    api.patch(f"{JOBS}/{name}/status", {"status": to_wire(status)})
    owner = {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "name": name, "uid": uid, "controller": True}

    def create(index: int) -> None:
        labels = {
            constants.MPI_JOB_NAME_LABEL: name,
            constants.MPI_JOB_ROLE_LABEL: "worker",
            constants.MPI_REPLICA_INDEX_LABEL: str(index),
            constants.JOB_NAME_LABEL: name,
            constants.JOB_UID_LABEL: metadata.uid,
        }
        api.create(PODS, _pod(f"{name}-worker-{index}", places[index], labels, [owner]))

    _each(range(count), create)


def _pod(name: str, node: str, labels: dict[str, str], owners: list[dict[str, Any]]) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "resources": {"limits": {constants.GPU_RESOURCE: "1", "cpu": "2", "memory": "8Gi"}}}
    spec = {"nodeName": node, "automountServiceAccountToken": False, "containers": [container]}
    return _object("v1", "Pod", name, labels=labels, ownerReferences=owners) | {"spec": spec}


def _memory_mib(pid: int, field: str) -> float:
    found = re.search(rf"^{field}:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(found.group(1)) / 1024 if found else 0.0


def _children(pid: int) -> list[int]:
    """Processes that this one has started."""
    return [int(child) for task in Path(f"/proc/{pid}/task").glob("*/children") for child in task.read_text().split()]


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-2000:]
