"""How much the operator costs the control plane: latency from job to MPIJob, API writes, idle writes, memory.

Peers in the same run, on the same API server: a kopf operator with one handler that creates one fixed MPIJob
(benchmarks/peers/bare_kopf.py), once the very MPIJob that HyperScale makes of the job, once the smallest that the API server takes:
an MPIJob with hardened pods costs the API server itself three times as much as that. The goals are judged against both.
Steps of the event loop and memory with many objects are timed apart (control_plane_many.py).
All jobs are alike, so that after the first the planner answers from its memory of solved problems; even rounds begin with HyperScale.
Nodes are static objects; neither mpi-operator nor scheduler run, so that nothing but the operators is measured.
One file, though longer than others, so that the whole measurement can be read at once.

Example: python benchmarks/control_plane.py --json rows.json
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import common, control_plane_many  # noqa: E402 - a script's own folder, not the repository, is on the path
from e2e.cluster import audit, cluster, components  # noqa: E402
from e2e.cluster.api import Api, ApiError  # noqa: E402
from e2e.cluster.binaries import ensure_all  # noqa: E402
from e2e.cluster.control_plane import wait_until  # noqa: E402
from e2e.cluster.ports import free_ports  # noqa: E402

BENCHMARK: Final = "control_plane"
OURS: Final = "hyperscale"
BARE: Final = "bare kopf"
SMALLEST: Final = "bare kopf, smallest MPIJob"
NAMESPACES: Final = {OURS: "bench-hyperscale", BARE: "bench-bare", SMALLEST: "bench-smallest"}
SMALLEST_TEMPLATE: Final = {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}
SMALLEST_SPEC: Final = {
    "mpiReplicaSpecs": {
        "Launcher": {"replicas": 1, "template": SMALLEST_TEMPLATE},
        "Worker": {"replicas": 2, "template": SMALLEST_TEMPLATE},
    }
}
PEER: Final = ROOT / "benchmarks" / "peers" / "bare_kopf.py"
ROUNDS: Final = {1: 20, 10: 6, 100: 2, 500: 2}
QUICK_ROUNDS: Final = {1: 3, 10: 1, 100: 1}
NODE_COUNT: Final = 50
GPUS_PER_NODE: Final = 64
PATIENCE_SECONDS: Final = 180.0
JOBS_PATH: Final = "/apis/hyperscale.dev/v1alpha1/namespaces/{}/gnntrainingjobs"
MPIJOBS_PATH: Final = "/apis/kubeflow.org/v2beta1/namespaces/{}/mpijobs"


@dataclass(frozen=True, slots=True)
class Bench:
    """The API server and the two operators on it."""

    api: Api
    audit_log: Path
    processes: dict[str, subprocess.Popen[bytes]]

    def memory_bytes(self, method: str) -> int:
        """Resident memory of an operator and its child processes."""
        pid = self.processes[method].pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return sum(_resident_bytes(one) for one in (pid, *map(int, children)))

    def writes(self, namespace: str, since: int) -> list[audit.Entry]:
        """Successful writes in a namespace by operators, not by this program; dry runs are none."""
        return [
            entry
            for entry in audit.settled(self.api, self.audit_log, since)
            if entry.namespace == namespace and entry.verb in audit.WRITES and 200 <= entry.code < 300
        ]


def main() -> int:
    """Run, print the table, write JSON."""
    parser = common.parser(__doc__ or "")
    parser.add_argument("--only", choices=("latency", "many"), help="one half: latency beside the peers, or many objects")
    arguments = parser.parse_args()
    rows: list[common.Row] = []
    if arguments.only != "latency":
        rows += control_plane_many.measure(control_plane_many.QUICK if arguments.quick else control_plane_many.FULL)
    if arguments.only != "many":
        rows += _beside_peers(arguments.quick)
    common.report(rows, arguments.json)
    return 0


def _beside_peers(quick: bool) -> list[common.Row]:
    """Latency, writes and memory of the operators in turn."""
    rows: list[common.Row] = []
    with tempfile.TemporaryDirectory(prefix="hyperscale-bench-") as scratch, _bench(Path(scratch)) as bench:
        rows += _memory(bench, 0)
        for jobs, repeats in (QUICK_ROUNDS if quick else ROUNDS).items():
            print(f"{jobs} jobs, {repeats} rounds", file=sys.stderr, flush=True)
            rows += _latency(bench, jobs, repeats)
        rows += _idle(bench, seconds=10.0 if quick else 60.0)
    return rows


def _latency(bench: Bench, jobs: int, repeats: int) -> list[common.Row]:
    """Seconds from the creation of a job to its MPIJob, all jobs created at once; the operators take turns."""
    seconds: dict[str, list[float]] = {method: [] for method in NAMESPACES}
    writes: dict[str, float] = {}
    rows: list[common.Row] = []
    for seed in range(repeats):
        for method in sorted(NAMESPACES, reverse=seed % 2 == 0):
            since = audit.position(bench.audit_log)
            seconds[method] += _one_round(bench, method, jobs)
            made = [entry for entry in bench.writes(NAMESPACES[method], since) if not _is_ours(entry)]
            writes[method] = len(made) / jobs
            if jobs == max(ROUNDS):
                rows += [row for row in _memory(bench, jobs) if row.method == method]
            _clean(bench, method, jobs)
    return rows + _latency_rows(f"{jobs} jobs", seconds, writes) + _latency_goals(f"{jobs} jobs", seconds, writes)


def _latency_rows(case: str, seconds: dict[str, list[float]], writes: dict[str, float]) -> list[common.Row]:
    rows: list[common.Row] = []
    for method, values in seconds.items():
        for name, part in (("p50", 0.5), ("p99", 0.99)):
            rows.append(common.Row(BENCHMARK, case, method, f"create-to-MPIJob {name}", common.percentile(values, part), "s"))
        rows.append(common.Row(BENCHMARK, case, method, "API writes a job", writes[method], "writes"))
    return rows


def _latency_goals(case: str, seconds: dict[str, list[float]], writes: dict[str, float]) -> list[common.Row]:
    """Our latency as a ratio to both peers, and our writes."""
    rows: list[common.Row] = []
    for name, part, limit in (("p50", 0.5, 1.5), ("p99", 0.99, 2.0)):
        ours, bare, smallest = (common.percentile(seconds[method], part) for method in NAMESPACES)
        rows.append(common.goal(BENCHMARK, f"{case}: create-to-MPIJob {name}, ratio to {SMALLEST}", OURS, ours / smallest, limit, "ratio"))
        rows.append(common.goal(BENCHMARK, f"{case}: create-to-MPIJob {name}, ratio to bare kopf", OURS, ours / bare, limit, "ratio"))
    rows.append(common.goal(BENCHMARK, f"{case}: API writes a job", OURS, writes[OURS], 4, "writes"))
    return rows


def _is_ours(entry: audit.Entry) -> bool:
    """Whether it is the creation or deletion of a job by the benchmark itself."""
    return entry.verb == "delete" or (entry.resource == "gnntrainingjobs" and entry.verb == "create")


def _one_round(bench: Bench, method: str, jobs: int) -> list[float]:
    """Create `jobs` jobs at once and watch for their MPIJobs."""
    namespace = NAMESPACES[method]
    created: dict[str, float] = {}
    appeared: dict[str, float] = {}
    watching = threading.Event()
    done = threading.Event()

    def watch() -> None:
        version = bench.api.get(MPIJOBS_PATH.format(namespace))["metadata"]["resourceVersion"]
        watching.set()
        for event in bench.api.watch(MPIJOBS_PATH.format(namespace), PATIENCE_SECONDS, resourceVersion=version):
            if event["type"] == "ADDED":
                appeared[event["object"]["metadata"]["name"]] = time.monotonic()
            if len(appeared) == jobs:
                break
        done.set()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    if not watching.wait(PATIENCE_SECONDS / 6):
        raise TimeoutError("the API server does not answer the watch of MPIJobs")

    def create(number: int) -> None:
        name = f"job-{number:04d}"
        created[name] = time.monotonic()
        bench.api.create(JOBS_PATH.format(namespace), _job(name))

    with ThreadPoolExecutor(min(16, jobs)) as pool:
        list(pool.map(create, range(jobs)))
    if not done.wait(PATIENCE_SECONDS):
        raise TimeoutError(f"{method}: {len(appeared)} of {jobs} MPIJobs after {PATIENCE_SECONDS:g} s")
    _settle(bench, namespace)
    return [appeared[name] - created[name] for name in sorted(created)]


def _settle(bench: Bench, namespace: str) -> None:
    """Wait until no process has written in the namespace for a while, so that all writes of the round are counted."""
    while True:
        since = audit.position(bench.audit_log)
        if not bench.writes(namespace, since):
            return


def _clean(bench: Bench, method: str, jobs: int) -> None:
    """Take the round's objects away; no garbage collector runs here."""
    namespace = NAMESPACES[method]

    def remove(number: int) -> None:
        for path in (JOBS_PATH, MPIJOBS_PATH):
            bench.api.delete(f"{path.format(namespace)}/job-{number:04d}")
        bench.api.delete(f"/api/v1/namespaces/{namespace}/configmaps/job-{number:04d}-plan")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(remove, range(jobs)))
    for path in (JOBS_PATH, MPIJOBS_PATH):
        while bench.api.items(path.format(namespace)):
            time.sleep(0.05)


def _memory(bench: Bench, jobs: int) -> list[common.Row]:
    return [
        common.Row(BENCHMARK, f"{jobs} jobs", method, "RSS, with child processes", bench.memory_bytes(method) / 2**20, "MiB")
        for method in NAMESPACES
    ]


def _idle(bench: Bench, seconds: float) -> list[common.Row]:
    """Writes an hour while nothing happens, ten unfinished jobs present; the Lease is the operator's one exception."""
    for number in range(10):
        bench.api.create(JOBS_PATH.format(NAMESPACES[OURS]), _job(f"job-{number:04d}"))
    time.sleep(3.0)
    _settle(bench, NAMESPACES[OURS])
    since = audit.position(bench.audit_log)
    time.sleep(seconds)
    made = [entry for entry in audit.settled(bench.api, bench.audit_log, since) if entry.verb in audit.WRITES and entry.user == "admin"]
    ours = [entry for entry in made if entry.resource != "leases"]
    hourly = len(ours) * 3600 / seconds
    leases = (len(made) - len(ours)) * 3600 / seconds
    case = f"idle {seconds:g} s, 10 jobs"
    return [
        common.Row(BENCHMARK, case, OURS, "Lease renewals an hour", leases, "writes"),
        common.Row(BENCHMARK, case, OURS, "other writes an hour", hourly, "writes"),
        common.goal(BENCHMARK, f"{case}: writes an hour beside the Lease", OURS, hourly, 0, "writes"),
    ]


@contextlib.contextmanager
def _bench(directory: Path) -> Iterator[Bench]:
    """A control plane of its own with static nodes, and both operators ready."""
    running = cluster.up(directory / "cluster", parts="control-plane")
    processes: dict[str, subprocess.Popen[bytes]] = {}
    try:
        api = running.api("hyperscale-bench")
        _prepare(running, api)
        environment = {**os.environ, "KUBECONFIG": str(running.kubeconfig)}
        health, metrics = free_ports(2)
        ours = {
            "HYPERSCALE_WATCH_NAMESPACES": NAMESPACES[OURS],
            "HYPERSCALE_HEALTH_PORT": str(health),
            "HYPERSCALE_METRICS_PORT": str(metrics),
        }
        processes[OURS] = _start([sys.executable, "-m", "hyperscale"], environment | ours, directory / "hyperscale.log")
        bench = Bench(api, running.audit_log, processes)
        _one_round(bench, OURS, 1)
        same = api.items(MPIJOBS_PATH.format(NAMESPACES[OURS]))[0]["spec"]
        _clean(bench, OURS, 1)
        for method, spec in ((BARE, same), (SMALLEST, SMALLEST_SPEC)):
            file = directory / f"{NAMESPACES[method]}.json"
            file.write_text(json.dumps(spec))
            peer = [sys.executable, "-m", "kopf", "run", "--standalone", "--quiet", "--namespace", NAMESPACES[method], str(PEER)]
            processes[method] = _start(peer, environment | {"BARE_MPIJOB": str(file)}, directory / f"{NAMESPACES[method]}.log")
        for method in NAMESPACES:
            _one_round(bench, method, 1)
            _clean(bench, method, 1)
        yield bench
    finally:
        for process in processes.values():
            process.terminate()
        for process in processes.values():
            process.wait(30)
        cluster.down(directory / "cluster")


def _prepare(running: cluster.Cluster, api: Api) -> None:
    """CRDs, namespaces and ready nodes."""
    kubectl = str(ensure_all()["kubectl"])
    definitions = [*sorted((ROOT / "crds").glob("*.yaml")), ensure_all()["kubeflow.org_mpijobs.yaml"]]
    for definition in definitions:
        command = [kubectl, "--kubeconfig", str(running.kubeconfig), "apply", "--server-side", "-f", str(definition)]
        subprocess.run(command, check=True, capture_output=True)
    for plural, group in (("gnntrainingjobs", "hyperscale.dev"), ("plannerpolicies", "hyperscale.dev"), ("mpijobs", "kubeflow.org")):
        components.wait_established(api, f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.{group}")
    for path in (JOBS_PATH, MPIJOBS_PATH):
        wait_until(functools.partial(_listable, api, path), PATIENCE_SECONDS / 6, f"{path} cannot be listed")
    for namespace in (*NAMESPACES.values(), "hyperscale-system"):
        components.ensure_namespace(api, namespace)
    for number in range(NODE_COUNT):
        api.create("/api/v1/nodes", _node(number))
        status = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        api.patch(f"/api/v1/nodes/node-{number:03d}/status", status)
        api.patch(f"/api/v1/nodes/node-{number:03d}", {"spec": {"taints": None}})


def _listable(api: Api, path: str) -> bool:
    """An established CRD answers 429 until its watch cache is filled."""
    try:
        api.get(path.format("default"))
    except ApiError:
        return False
    return True


def _node(number: int) -> dict[str, Any]:
    resources = {"cpu": "256", "memory": "2048Gi", "pods": "250", "nvidia.com/gpu": str(GPUS_PER_NODE)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": f"node-{number:03d}",
            "labels": {
                "kubernetes.io/hostname": f"node-{number:03d}",
                "topology.kubernetes.io/region": f"region-{number % 2}",
                "topology.kubernetes.io/zone": f"zone-{number % 5}",
                "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
                "nvidia.com/gpu.memory": "81920",
            },
        },
        "status": {"capacity": resources, "allocatable": resources},
    }


def _job(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "hyperscale.dev/v1alpha1",
        "kind": "GNNTrainingJob",
        "metadata": {"name": name},
        "spec": {
            "model": {"architecture": "GCN"},
            "dataset": {"source": {"builtin": {"name": "Cora"}}},
            "workers": {"minReplicas": 2, "maxReplicas": 4},
        },
    }


def _start(command: list[str], environment: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, env=environment, stdout=log.open("wb"), stderr=subprocess.STDOUT)


def _resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    sys.exit(main())
