"""How long a plan takes from 50 to 60,000 nodes and on Hulk's 47 machines, and how good it is against what schedulers do.

Run: python benchmarks/planner_scale.py [--quick] [--json FILE]

Peers are scored by the same objective in the same run; a ratio above 1 is a peer's objective over ours, below 1 is our loss:
  random          nodes in random order
  fastest         the fastest free GPUs, wherever they are
  pack            the fewest nodes: most free GPUs first
  label tiers (Kueue)  the smallest topology domain that has room, the fewest nodes inside it
  label tiers + speed  the same, among equal domains the one with the fastest GPUs, fastest nodes first inside it
  long search     the best of 40 polished random starts, up to 200 nodes: not a scheduler, but what more time would find
All placements get the same repair of their ring. Goals are wall time; processor time, which other work on the machine does not lengthen,
stands beside them.
"""

from __future__ import annotations

import contextlib
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import common, generate  # noqa: E402 - a script's own folder, not the repository, is on the path
from benchmarks.families import Instance  # noqa: E402
from benchmarks.peers.placement.schedulers import SCHEDULERS, random_nodes  # noqa: E402
from benchmarks.productsjob import products_job  # noqa: E402
from hyperscale.model.api.job import JobSpec  # noqa: E402
from hyperscale.model.api.policy import PolicySpec  # noqa: E402
from hyperscale.model.cluster import ClusterSnapshot  # noqa: E402
from hyperscale.model.plan import Plan  # noqa: E402
from hyperscale.model.planning import PlanRequest  # noqa: E402
from hyperscale.observe.files.snapshot_files import read_snapshot, write_snapshot  # noqa: E402
from hyperscale.planner.choice.portfolio import make_plan  # noqa: E402
from hyperscale.planner.graph.cluster_graph import build  # noqa: E402
from hyperscale.planner.problem.placement_problem import pose  # noqa: E402
from hyperscale.planner.search.kernels import kernel  # noqa: E402
from hyperscale.planner.workload.profile import profile  # noqa: E402

BENCHMARK: Final = "planner_scale"
OURS: Final = "hyperscale"
HULK: Final = ROOT.parent / "shared" / "data" / "hulk"
SIZES: Final = (50, 100, 200, 500, 1000, 2000, 5000)
MOST_NODES: Final = 60_000
SEARCH_PART: Final = 0.8
"""Part of the deadline for the search itself, as in the planner process; the rest is for check and reasons."""
HULK_LIMIT_SECONDS: Final = 1.0
LARGEST_LIMIT_SECONDS: Final = 5.0
PROCESSOR_TIME: Final = "processor time"
LONG_SEARCH: Final = "long search"
LONG_SEARCH_NODES: Final = 200
LONG_SEARCH_STARTS: Final = 40
PEERS: Final = ("random", "fastest", "pack", "label tiers (Kueue)", "label tiers + speed")
WILD: Final = "links without structure"
WILD_SIZES: Final = (24, 48, 96)
LOSS_RATIO: Final = 1e-6
"""A smaller difference is the rounding of our figures."""
POLICY: Final = PolicySpec(tolerance_percent=0)
MODELS: Final[dict[str, dict[str, Any]]] = {
    "full graph": {"architecture": "GraphSAGE", "layers": 3, "hiddenSize": 256},
    "sampled": {"architecture": "GraphSAGE", "layers": 3, "hiddenSize": 256, "fanouts": [5, 10, 15], "batchSize": 1024},
}


class Took(NamedTuple):
    """Seconds of the clock and of the processor."""

    wall: float
    processor: float


class Stopwatch:
    """Both since it was made."""

    def __init__(self) -> None:
        """Start now."""
        self._wall, self._processor = time.perf_counter(), time.process_time()

    def took(self) -> Took:
        """Return the seconds so far."""
        return Took(time.perf_counter() - self._wall, time.process_time() - self._processor)


def seeds_rows(size: int, seeds: Sequence[int]) -> tuple[list[common.Row], Took]:
    """Every model on each seed's cluster of a size, and the median seconds of a plan."""
    rows: list[common.Row] = []
    each: list[Took] = []
    for seed in seeds:
        snapshot = generate.cluster(size, seed)
        for kind in MODELS:
            found, took = size_rows(snapshot, f"{size} nodes, {kind}", seed, kind)
            rows += found
            each.append(took)
    wall, processor = (common.median(seconds) for seconds in zip(*each, strict=True))
    rows.append(common.Row(BENCHMARK, f"{size} nodes", OURS, "plan, in process, median", wall, "s"))
    rows.append(common.Row(BENCHMARK, f"{size} nodes", OURS, PROCESSOR_TIME, processor, "s"))
    return rows, Took(wall, processor)


def main() -> int:
    """Measure, print, and fail where a goal is missed."""
    arguments = common.parser(__doc__ or "").parse_args()
    seeds = (0, 1) if arguments.quick else (0, 1, 2, 3, 4)
    rows = hulk_rows()
    medians: dict[int, Took] = {}
    for size in SIZES:
        found, medians[size] = seeds_rows(size, seeds if size < max(SIZES) else seeds[:2])
        rows += found
    for seed, size in product(seeds, WILD_SIZES):
        rows += size_rows(generate.wild(size, seed), f"{size} nodes, {WILD}", seed, "full graph")[0]
    rows += growth_rows({size: took.processor for size, took in medians.items()})
    rows += ratio_rows(rows)
    rows.append(common.goal(BENCHMARK, f"{SIZES[-1]} nodes, in process", OURS, medians[SIZES[-1]].wall, LARGEST_LIMIT_SECONDS, "s"))
    rows += command_rows(f"{SIZES[-1]} nodes", generate.cluster(SIZES[-1], 0), LARGEST_LIMIT_SECONDS)
    rows += deadline_rows()
    common.report([row for row in rows if not row.metric.startswith("objective")], None)
    if arguments.json is not None:
        with contextlib.redirect_stdout(None):
            common.report(rows, arguments.json)
    return 0 if all(row.holds is not False for row in rows) else 1


def job(kind: str, gpus_per_worker: int = 4, workers: int = 8) -> JobSpec:
    """A GraphSAGE job on ogbn-products; 4 GPUs a worker keep it from hiding inside one machine."""
    return msgspec.convert(spec_of(kind, gpus_per_worker, workers), JobSpec)


def spec_of(kind: str, gpus_per_worker: int, workers: int) -> dict[str, Any]:
    """The same as a user writes it."""
    return products_job(MODELS[kind], (workers, workers), gpus_per_worker)


def size_rows(snapshot: ClusterSnapshot, case: str, seed: int, kind: str) -> tuple[list[common.Row], Took]:
    """Objective of ours and of every peer on one cluster, and the seconds that ours took."""
    asked = job(kind)
    request = PlanRequest(job_key="bench/gnn", job=asked, seed=seed)
    watch = Stopwatch()
    graph, workload = build(snapshot, POLICY), profile(asked)
    plan = make_plan(request, graph, workload, POLICY)
    took = watch.took()
    if not isinstance(plan, Plan):
        return [common.Row(BENCHMARK, case, OURS, "no plan", 1.0, plan.reason, seed)], took
    rows = [common.Row(BENCHMARK, case, OURS, "objective", plan.objective, "s", seed)]
    problem = pose(request, graph, workload, POLICY)
    instance = Instance(case, seed, problem, asked.workers.max_replicas)
    for name in PEERS:
        seconds = instance.score(SCHEDULERS[name](instance, seed))[0]
        rows.append(common.Row(BENCHMARK, case, name, "objective", seconds, "s", seed))
    if len(snapshot.nodes) <= LONG_SEARCH_NODES:
        rows.append(common.Row(BENCHMARK, case, LONG_SEARCH, "objective", long_search(instance, seed), "s", seed))
    return rows, took


def long_search(instance: Instance, seed: int) -> float:
    """The best of many polished random starts: what more time would find."""
    starts = np.array([random_nodes(instance, seed * LONG_SEARCH_STARTS + at) for at in range(LONG_SEARCH_STARTS)])
    polished, _ = kernel.local_search(instance.costs, instance.slots, starts)
    return min(instance.score(order)[0] for order in polished)


def growth_rows(medians: dict[int, float]) -> list[common.Row]:
    """Exponent of the growth between neighbouring sizes and over all."""
    sizes = sorted(medians)
    pairs = [*pairwise(sizes), (sizes[0], sizes[-1])]
    return [
        common.Row(
            BENCHMARK,
            f"{low} to {high} nodes",
            OURS,
            "growth, exponent of n",
            math.log(medians[high] / medians[low]) / math.log(high / low),
            "",
        )
        for low, high in pairs
    ]


def ratio_rows(rows: list[common.Row]) -> list[common.Row]:
    """Peers' objective over ours, by kind of job and peer."""
    objectives = [row for row in rows if row.metric == "objective"]
    ours = {(row.case, row.seed): row.value for row in objectives if row.method == OURS}
    made: list[common.Row] = []
    for kind, name in product((*MODELS, WILD), (*PEERS, LONG_SEARCH)):
        theirs = [row for row in objectives if row.method == name and row.case.endswith(kind)]
        ratios = [row.value / ours[row.case, row.seed] for row in theirs if math.isfinite(row.value)]
        made += peer_rows(kind, name, ratios) if ratios else []
    return made


def peer_rows(kind: str, name: str, ratios: Sequence[float]) -> list[common.Row]:
    """One peer's ratios: geometric mean, worst for us, and how often we lost."""
    mean = math.exp(sum(math.log(ratio) for ratio in ratios) / len(ratios))
    lost = float(sum(ratio < 1 - LOSS_RATIO for ratio in ratios))
    return [
        common.Row(BENCHMARK, kind, name, "peer / ours, geometric mean", mean, "ratio"),
        common.Row(BENCHMARK, kind, name, "peer / ours, lowest", min(ratios), "ratio"),
        common.Row(BENCHMARK, kind, name, f"our losses of {len(ratios)}", lost, "cases"),
    ]


def hulk_rows() -> list[common.Row]:
    """Hulk's graph with 8 workers, in process and as a command; a row that says so where the data are absent."""
    if not HULK.is_dir():
        return [common.Row(BENCHMARK, "Hulk, 47 machines", OURS, "skipped: ../shared/data/hulk is absent", 0.0, "")]
    asked = job("full graph", gpus_per_worker=1)
    watch = Stopwatch()
    snapshot = read_snapshot(HULK)
    plan = make_plan(PlanRequest(job_key="bench/gnn", job=asked), build(snapshot, POLICY), profile(asked), POLICY)
    took = watch.took()
    assert isinstance(plan, Plan), plan  # noqa: S101 - a benchmark without a plan measures nothing
    rows = both_rows("Hulk, 47 machines, 8 workers, in process", took, HULK_LIMIT_SECONDS)
    return rows + command_rows("Hulk, 47 machines, 8 workers", snapshot, HULK_LIMIT_SECONDS, gpus_per_worker=1)


def both_rows(case: str, took: Took, limit: float) -> list[common.Row]:
    """The goal, in wall time, and the processor time."""
    return [
        common.goal(BENCHMARK, case, OURS, took.wall, limit, "s"),
        common.Row(BENCHMARK, case, OURS, PROCESSOR_TIME, took.processor, "s"),
    ]


def deadline_rows() -> list[common.Row]:
    """A plan on `MOST_NODES` nodes within the deadline of its request; the graph, which the planner process keeps, has a row of its own."""
    case, asked = f"{MOST_NODES} nodes", job("full graph")
    request = PlanRequest(job_key="bench/gnn", job=asked)
    snapshot = generate.cluster(MOST_NODES, 0)
    watch = Stopwatch()
    graph = build(snapshot, POLICY)
    rows = [common.Row(BENCHMARK, f"{case}, graph", OURS, PROCESSOR_TIME, watch.took().processor, "s")]
    watch = Stopwatch()
    ends = SEARCH_PART * request.deadline_seconds
    plan = make_plan(request, graph, profile(asked), POLICY, expired=lambda: watch.took().wall > ends)
    took = watch.took()
    assert isinstance(plan, Plan), plan  # noqa: S101 - a benchmark without a plan measures nothing
    return [*rows, *both_rows(f"{case}, in process", took, request.deadline_seconds)]


def command_rows(case: str, snapshot: ClusterSnapshot, limit: float, gpus_per_worker: int = 4) -> list[common.Row]:
    """`hyperscale plan` as a user runs it: start of Python, reading of the file and printing included; the median of three."""
    with tempfile.TemporaryDirectory() as folder:
        file, manifest = Path(folder) / "snapshot.json", Path(folder) / "job.yaml"
        write_snapshot(file, snapshot)
        document = {
            "apiVersion": "hyperscale.dev/v1alpha1",
            "kind": "GNNTrainingJob",
            "metadata": {"name": "bench"},
            "spec": spec_of("full graph", gpus_per_worker, 8),
        }
        manifest.write_bytes(msgspec.json.encode(document))
        command = [sys.executable, "-m", "hyperscale.cli.main", "plan", "-f", str(manifest), "--snapshot", str(file), "-o", "json"]
        wall, processor = (common.median(seconds) for seconds in zip(*(_timed(command) for _ in range(3)), strict=True))
    return both_rows(f"{case}, as `hyperscale plan`", Took(wall, processor), limit)


def _timed(command: list[str]) -> Took:
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=60)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Took(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


if __name__ == "__main__":
    sys.exit(main())
