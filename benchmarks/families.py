"""Seeded placement problems as the product sees them: snapshot, job, graph, problem, costs.

Five families: geo, fattree, zones and random of `hyperscale.learn.topologies`, and hulk: machines drawn from Hulk's 47 where its graph is
at hand and has enough of them, else the generated family wan, which has its traits. Benchmark seeds are small numbers; training and
validation take theirs elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from msgspec.structs import replace

from hyperscale.learn.streams.own_cluster import most_together
from hyperscale.learn.topologies import GIB, GPUS_PER_WORKER, PRODUCTS, Topology, generate
from hyperscale.learn.workloads import Scale, scale_of, workload_at
from hyperscale.model.api.job import Balance, JobSpec
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import AbsentLink, ClusterSnapshot, Gpu, GpuPaths, Link, MetricsState, Node, Quality, Sample
from hyperscale.model.graph import ClusterGraph, IntArray
from hyperscale.model.planning import PlanRequest
from hyperscale.model.workload import WorkloadProfile
from hyperscale.observe.files.snapshot_files import read_snapshot
from hyperscale.planner.cost.objective import Costs, objectives
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.problem.placement_problem import Problem, pose
from hyperscale.planner.search.ring import ring_order

DATA: Final = Path(__file__).resolve().parents[2] / "shared" / "data"
HULK: Final = DATA / "hulk"
HULK_MACHINES: Final = 47
NAMES: Final = ("geo", "fattree", "zones", "random", "hulk")
POLICY: Final = PolicySpec(tolerance_percent=0)
"""Without a tolerance, so that the search is judged and not the choice among plans that are nearly equal."""
JOB_KEY: Final = "bench/gnn"
IDLE: Final = WorkloadProfile(1, 1, 1.0, 0.0, 0.0, 0.0, None, 0, 0.0, 0.0, 0.0, 0.0)
"""A job that does nothing, to look at a cluster before its job is known."""


@dataclass(frozen=True)
class Instance:
    """One job on one cluster, with a fixed worker count."""

    case: str
    seed: int
    problem: Problem
    workers: int

    @cached_property
    def costs(self) -> Costs:
        """Of all candidates."""
        return self.problem.costs(np.arange(len(self.problem.nodes)))

    @property
    def slots(self) -> IntArray:
        """(m,) workers that each candidate can take."""
        return self.problem.slots

    @property
    def graph(self) -> ClusterGraph:
        """The cluster."""
        return self.problem.graph

    def names(self, order: IntArray) -> list[str]:
        """Node names of a placement."""
        return [self.problem.names[candidate] for candidate in order]

    def score(self, order: IntArray) -> tuple[float, IntArray]:
        """Objective of a placement (k,) after the ring repair that every method gets, and the repaired order; +inf where it cannot work."""
        members, positions = np.unique(order, return_inverse=True)
        if len(order) != self.workers or (np.bincount(positions) > self.slots[members]).any():
            return float("inf"), order
        costs = self.problem.costs(members)
        repaired = ring_order(costs, positions.astype(np.int64), np.zeros(len(positions), dtype=np.bool_))
        seconds = objectives(costs, np.stack((positions, repaired)))
        best = repaired if seconds[1] <= seconds[0] else positions
        return float(seconds.min()), members[best]


def instance(
    family: str, nodes: int, workers: int, seed: int, counts: tuple[int, int] | None = None, *, memory_free: bool = False
) -> Instance:
    """A job for `workers` workers on `nodes` nodes of a family; `counts` lets the planner choose between two worker counts.

    Odd seeds balance Equal, even ones Capacity; in every fourth GPU memory may matter, in none where `memory_free`.
    Raises KeyError for an unknown family.
    """
    balance = Balance.EQUAL if seed % 2 else Balance.CAPACITY
    snapshot, gpus = _snapshot(family, nodes, workers, seed)
    return placed(f"{label(family, nodes)} n={nodes} k={workers}", snapshot, workers, seed, gpus, balance, counts, memory_free=memory_free)


def placed(
    case: str,
    snapshot: ClusterSnapshot | ClusterGraph,
    workers: int,
    seed: int,
    gpus: int,
    balance: Balance = Balance.CAPACITY,
    counts: tuple[int, int] | None = None,
    workload: WorkloadProfile | None = None,
    memory_free: bool = False,
) -> Instance:
    """A job on a given cluster; its volumes are drawn by `seed` unless given."""
    job = job_spec(counts or (workers, workers), gpus, balance)
    request = PlanRequest(job_key=JOB_KEY, job=job, seed=seed)
    graph = build(snapshot, POLICY) if isinstance(snapshot, ClusterSnapshot) else snapshot
    if workload is None:
        scale = _scale(graph, request)
        workload = workload_at(scale._replace(memory_bytes=np.inf) if memory_free else scale, workers, seed)
    return Instance(case, seed, pose(request, graph, workload, POLICY), workers)


def job_spec(counts: tuple[int, int], gpus: int, balance: Balance) -> JobSpec:
    """A job as a user writes it; its volumes are replaced by a profile where the benchmark draws them."""
    document: dict[str, Any] = {
        "model": {"architecture": "GraphSAGE", "layers": 3, "hiddenSize": 256},
        "dataset": {
            "source": {"persistentVolumeClaim": {"claimName": "graphs"}},
            "vertices": 1_000_000,
            "edges": 20_000_000,
            "featureSize": 100,
            "classes": 47,
        },
        "workers": {"minReplicas": counts[0], "maxReplicas": counts[1], "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}},
        "partitioning": {"balance": balance.value},
    }
    return msgspec.convert(document, JobSpec)


def snapshot_of(topology: Topology) -> ClusterSnapshot:
    """A generated topology as an observed cluster: every pair measured, blocked pairs absent."""
    names = [f"node-{index:05d}" for index in range(len(topology.slots))]
    blocked = bool(topology.blocked.any())
    return ClusterSnapshot(
        taken_at=0.0,
        nodes=tuple(_node(topology, index, name) for index, name in enumerate(names)),
        links=tuple(_links(topology, names)),
        levels=topology.levels,
        absent_links=AbsentLink.UNREACHABLE if blocked else AbsentLink.ESTIMATE,
        metrics=MetricsState(available=True),
        source="generated",
    )


def label(family: str, nodes: int) -> str:
    """What a family stands for with `nodes` nodes: itself; wan for hulk where its graph is absent or too small."""
    return "wan" if family == "hulk" and not (nodes <= HULK_MACHINES and HULK.is_dir()) else family


def _snapshot(family: str, nodes: int, workers: int, seed: int) -> tuple[ClusterSnapshot, int]:
    """The cluster and the GPUs of a worker there."""
    if label(family, nodes) == "hulk":
        return _part_of_hulk(nodes, workers, seed), 1
    return snapshot_of(generate(label(family, nodes), nodes, seed)), GPUS_PER_WORKER


def _part_of_hulk(nodes: int, workers: int, seed: int) -> ClusterSnapshot:
    """Some of Hulk's machines, all links among them; drawn again until `workers` of them can all talk to each other."""
    whole = read_snapshot(HULK)
    graph = build(whole, POLICY)
    talks = graph.link_costs(np.arange(len(graph.nodes))).reachable
    rng = np.random.default_rng([seed, nodes, HULK_MACHINES])
    while True:
        chosen = np.sort(rng.choice(len(graph.nodes), size=nodes, replace=False))
        if most_together(talks[np.ix_(chosen, chosen)]) >= workers:
            break
    kept = {graph.nodes[index].name for index in chosen}
    return replace(
        whole,
        nodes=tuple(node for node in whole.nodes if node.name in kept),
        links=tuple(link for link in whole.links if link.source in kept and link.destination in kept),
    )


def _scale(graph: ClusterGraph, request: PlanRequest) -> Scale:
    problem = pose(request, graph, IDLE, POLICY)
    return scale_of(problem.costs(_sample(len(problem.nodes))))


def _sample(size: int, most: int = 512) -> IntArray:
    """Evenly spread positions: medians of a large cluster need not look at every pair."""
    return np.unique(np.linspace(0, size - 1, min(size, most)).astype(np.int64))


def _node(topology: Topology, index: int, name: str) -> Node:
    product = PRODUCTS[topology.products[index]]
    gpus = int(topology.slots[index]) * GPUS_PER_WORKER
    use = _measured(float(topology.utilization[index]))
    domains = [f"{level}-{topology.domains[index, at]}" for at, level in enumerate(_short(topology.levels))]
    return Node(
        name=name,
        gpu_product=product.name,
        # The families count the inside of a V100 as PCIe whatever its board, so that judged streams stay as they were sealed.
        gpu_paths=GpuPaths("PcieSwitch") if "V100" in product.name else None,
        gpu_memory_bytes=product.memory_gib * GIB,
        allocatable_gpus=gpus,
        requested_gpus=0,
        labels={"kubernetes.io/hostname": name, **dict(zip(topology.levels, domains, strict=True))},
        domains=tuple("/".join(domains[: at + 1]) for at in range(len(domains))),
        gpus=tuple(Gpu(uuid=f"GPU-{index}-{device}", utilization_ratio=use, last_xid=_measured(0.0)) for device in range(gpus)),
        allocatable_cpu_cores=64.0,
        allocatable_memory_bytes=512 * GIB,
        requested_cpu_cores=round(48.0 * float(topology.utilization[index]), 3),
        requested_memory_bytes=int(384 * GIB * float(topology.utilization[index])),
    )


def _short(levels: Sequence[str]) -> list[str]:
    return [level.rpartition("/")[2] for level in levels]


def _links(topology: Topology, names: list[str]) -> list[Link]:
    rows, columns = np.nonzero(~topology.blocked & ~np.eye(len(names), dtype=np.bool_))
    latency = topology.latency_seconds[rows, columns].tolist()
    bandwidth = (1.0 / topology.seconds_per_byte[rows, columns]).tolist()
    return [
        Link(names[row], names[column], _measured(wait), _measured(rate))
        for row, column, wait, rate in zip(rows.tolist(), columns.tolist(), latency, bandwidth, strict=True)
    ]


def _measured(value: float) -> Sample:
    return Sample(value=value, age_seconds=5.0, quality=Quality.MEASURED)
