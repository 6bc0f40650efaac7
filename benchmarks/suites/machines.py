"""Eight nodes of eight H100: where ranks go that share NVSwitch and a node's cards, against every placement by a model of its own.

With one card a node, sixteen ranks whose workers have fewer than 8 GPUs are spread: 8 of 16 parts on one node send 8 × 8 pairs through its
card, 2 of 16 only 2 × 14. With a card for every GPU two full nodes are best: fewer ranks leave cards idle. What two full nodes would cost
instead is printed.

One file, though longer than others, so that the whole measurement can be read at once.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

import msgspec
import numpy as np

from benchmarks.common import Row, goal
from benchmarks.productsjob import PRODUCTS_SIZE
from benchmarks.suites import Options
from hyperscale.model.api.job import JobSpec
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot, Gpu, Link, MetricsState, Node, Quality, Sample
from hyperscale.model.graph import FloatArray, IntArray, plain_machine
from hyperscale.model.plan import Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.model.workload import WorkloadProfile
from hyperscale.planner.choice.portfolio import make_plan
from hyperscale.planner.cost.collectives import allreduce
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.workload.profile import profile

BENCHMARK: Final = "machines"
OURS: Final = "hyperscale"
EVERY: Final = "every placement"
NODES: Final = 8
GPUS: Final = 8
CARDS: Final = {"400 Gb/s": 50e9, "25 GbE": 3.125e9, "8 × 400 Gb/s": 400e9}
"""Bytes a second, one way, of all cards of a node together."""
RAILS: Final = {"8 × 400 Gb/s": 8}
"""Ranks that fill a node's cards; one where not listed. Links of nodes with several are all alike, which leaves the ring no choice."""
NVSWITCH: Final = 0.8 * 18 * 25e9
NVSWITCH_SECONDS: Final = 5e-6
SLOWEST: Final = 0.8
"""Seeds draw every pair's bandwidth from this part of the card's to all of the card's."""
AGREES: Final = 1e-6
POLICY: Final = PolicySpec()
WITHIN: Final = 1.0 + POLICY.tolerance_percent / 100.0
SEEDS: Final = 5
QUICK_SEEDS: Final = 2
CHUNK: Final = 50_000
"""Placements judged at a time."""
SAGE: Final[dict[str, Any]] = {"architecture": "GraphSAGE", "layers": 3, "hiddenSize": 256}
JOBS: Final[dict[str, tuple[dict[str, int], dict[str, Any]]]] = {
    "products, GraphSAGE": (PRODUCTS_SIZE, SAGE),
    "arxiv, GraphSAGE": ({"vertices": 169_343, "edges": 2_332_486, "featureSize": 128, "classes": 40}, SAGE),
    "Reddit, GCN": (
        {"vertices": 232_965, "edges": 114_615_892, "featureSize": 602, "classes": 41},
        {"architecture": "GCN", "layers": 2, "hiddenSize": 16},
    ),
    "arxiv, sampled": (
        {"vertices": 169_343, "edges": 2_332_486, "featureSize": 128, "classes": 40},
        {**SAGE, "fanouts": [15, 10, 5], "batchSize": 1024},
    ),
}
SHAPES: Final = ((2, 1), (4, 1), (8, 1), (1, 8), (16, 1), (4, 4), (2, 8), (64, 1), (8, 8))
"""Workers, GPUs of each."""


@dataclass(frozen=True, eq=False)
class Case:
    """One job on one cluster."""

    name: str
    card: str
    seed: int
    workers: int
    gpus: int
    job: JobSpec
    seen: ClusterSnapshot
    latency: FloatArray
    """(n, n) seconds one way; the diagonal is the inside of a node."""
    per_byte: FloatArray
    """(n, n) seconds a byte; likewise."""

    @property
    def ranks(self) -> int:
        """One a GPU."""
        return self.workers * self.gpus

    @property
    def rails(self) -> int:
        """Ranks that fill a node's cards."""
        return RAILS.get(self.card, 1)


def run(options: Options) -> list[Row]:
    """Rows by shape and card, and the goals."""
    rows: list[Row] = []
    spread: list[bool] = []
    other: list[bool] = []
    worst: dict[str, float] = dict.fromkeys(CARDS, 0.0)
    furthest = 0.0
    returns = 0
    idle: list[bool] = []
    for case in _cases(range(QUICK_SEEDS if options.quick else SEEDS)):
        started = time.perf_counter()
        plan = _planned(case)
        seconds = time.perf_counter() - started
        held = tuple(plan.ranks_by_node.get(f"dgx-{at}", 0) for at in range(NODES))
        order = [int(one.node.removeprefix("dgx-")) for one in plan.workers]
        ours = float(objective(case, np.array([held]))[0]) + _ring_beyond(case, order)
        returns += _returns(case, order)
        best = _best(case)
        furthest = max(furthest, abs(ours / plan.objective - 1.0))
        label = f"{case.ranks} ranks, {case.workers} × {case.gpus}, {case.card}"
        rows.append(Row(BENCHMARK, label, OURS, "nodes", float(np.count_nonzero(held)), "nodes", case.seed))
        rows.append(Row(BENCHMARK, label, OURS, "objective over the best of every placement", ours / best, "ratio", case.seed))
        rows.append(Row(BENCHMARK, label, OURS, "plan with check and reasons", seconds * 1e3, "ms", case.seed))
        if case.ranks <= GPUS:
            spread.append(bool(np.count_nonzero(held) > 1))
        elif case.gpus == GPUS:
            other.append(sorted(held)[-2:] != [GPUS, GPUS])
        elif case.ranks == 2 * GPUS:
            idle.append(_idle(case, held))
            packed = float(objective(case, np.array([[GPUS, GPUS] + [0] * (NODES - 2)]))[0])
            rows.append(Row(BENCHMARK, label, OURS, "two full nodes over the plan", packed / ours, "ratio", case.seed))
        worst[case.card] = max(worst[case.card], ours / best)
        options.dump_assignment(f"machines {case.name} {label} {case.seed}", OURS, {case.name: [one.node for one in plan.workers]})
    return [
        *rows,
        goal(BENCHMARK, f"2, 4, 8 ranks beyond one node, of {len(spread)}", OURS, float(sum(spread)), 0.0, "plans"),
        goal(BENCHMARK, f"2 workers of 8 GPUs not on two full nodes, of {len(other)}", OURS, float(sum(other)), 0.0, "plans"),
        goal(BENCHMARK, f"16 ranks not on two full nodes where every GPU has a card, of {len(idle)}", OURS, float(sum(idle)), 0.0, "plans"),
        goal(BENCHMARK, "rings that enter a node twice, all links alike", OURS, float(returns), 0.0, "plans"),
        *(goal(BENCHMARK, f"{card}: over the best of every placement, worst case", OURS, worst[card], WITHIN, "ratio") for card in CARDS),
        goal(BENCHMARK, "the model against the plan's own objective, largest difference", EVERY, furthest, AGREES, "ratio"),
    ]


def _best(case: Case) -> float:
    """The least objective of every placement."""
    every = placements(case.workers, case.gpus)
    return min(float(objective(case, every[at : at + CHUNK]).min()) for at in range(0, len(every), CHUNK))


def _returns(case: Case, order: list[int]) -> bool:
    """Whether a ring comes back to a node though all links are alike."""
    hops = sum(order[at - 1] != order[at] for at in range(len(order)))
    return case.seed == 0 and hops > len(set(order)) > 1


def _idle(case: Case, held: tuple[int, ...]) -> bool:
    """Whether 16 ranks leave cards idle that two full nodes would fill."""
    return case.rails > 1 and sorted(held)[-2:] != [GPUS, GPUS]


def objective(case: Case, held: IntArray) -> FloatArray:
    """(B,) seconds of the objective with that number of ranks on each node, `held` (B, n), by plain counting, without code of the planner.

    All ranks have equal parts. What a node's ranks send to other nodes goes through its cards one after the other, of which r ranks fill
    min(r, cards); what they send each other goes through NVSwitch. Rings enter every node once; see `_ring_beyond`.
    """
    work, ranks, nodes = profile(case.job), case.ranks, np.arange(NODES)
    steps = work.steps(case.workers, case.gpus)
    part = 1.0 / ranks
    pair = work.halo_bytes(ranks, case.workers, case.gpus) / (1.0 - part) * part * part
    apart = np.where(np.eye(NODES, dtype=bool), 0.0, case.per_byte)
    card = held * _slower(case, held) * (held @ apart.T)
    inside = (held - 1) * case.per_byte[nodes, nodes]
    there = held > 0
    partner = there[:, None, :] & (~np.eye(NODES, dtype=bool) | (held > 1)[:, :, None])
    farthest = np.where(partner, case.latency, 0.0).max(axis=2)
    halo = np.where(there, pair * (card + inside) + steps * work.exchanges_per_step * farthest, 0.0).max(axis=1)
    ring = _best_rings(case, held)
    compute = part * work.epoch_flops / (_speed(case, work) / case.gpus)
    seconds: FloatArray = compute + halo + ring + steps * work.step_overhead_seconds + POLICY.communication_weight * (halo + ring)
    return seconds


def _slower(case: Case, held: IntArray) -> FloatArray:
    """By how much `held` ranks of each node are slower than what fills its cards."""
    slower: FloatArray = np.maximum(1.0, case.rails / np.maximum(held, 1))
    return slower


def _best_rings(case: Case, held: IntArray) -> FloatArray:
    """(B,) seconds of an epoch's allreduces over the best ring that enters each node once."""
    keys = ((held > 0) << np.arange(NODES)).sum(axis=1)
    if case.rails == 1:
        chosen: FloatArray = _rings(case)[keys]
        return chosen
    # All links are alike: any ring will do, and the node with the fewest ranks is its slowest.
    nodes = (held > 0).sum(axis=1)
    per_byte = case.per_byte[0, 1] * np.where(held > 0, _slower(case, held), 1.0).max(axis=1)
    pairs, which = np.unique(np.stack((nodes, per_byte), axis=1), axis=0, return_inverse=True)
    seconds = np.array([_allreduce(case, int(count), float(case.latency[0, 1]), float(byte)) for count, byte in pairs])
    best: FloatArray = seconds[which.ravel()]
    return best


def _allreduce(case: Case, nodes: int, latency: float, per_byte: float) -> float:
    """Seconds of an epoch's allreduces with these slowest hops between nodes, by NCCL's fastest way; its constants are an input."""
    work = profile(case.job)
    several = case.ranks > nodes
    inside = (NVSWITCH_SECONDS, 1.0 / NVSWITCH) if several else (0.0, 0.0)
    between = (latency, per_byte) if nodes > 1 else (0.0, 0.0)
    ways = allreduce(case.ranks, nodes, _sharp(case))
    return work.steps(case.workers, case.gpus) * min(way.seconds(work.gradient_bytes, between, inside) for way in ways)


@cache
def _sharp(case: Case) -> float:
    """Of NVLink SHARP, an input as well."""
    return float(build(case.seen, POLICY).inside.sharp_efficiency.min())


@cache
def _rings(case: Case) -> FloatArray:
    """(2 ** n,) seconds of the best ring through each set of nodes, a bit a node. Every ring is tried."""
    best = np.full(1 << NODES, np.inf)
    work, sharp = profile(case.job), _sharp(case)
    steps, size = work.steps(case.workers, case.gpus), work.gradient_bytes
    for count in range(1, min(NODES, case.workers) + 1):
        ways = allreduce(case.ranks, count, sharp)
        inside = (NVSWITCH_SECONDS, 1.0 / NVSWITCH) if case.ranks > count else (0.0, 0.0)
        turns = np.array([(0, *rest) for rest in itertools.permutations(range(1, count)) if len(rest) < 2 or rest[0] <= rest[-1]])
        for members in itertools.combinations(range(NODES), count):
            rings = np.array(members)[turns]
            hops = rings, np.roll(rings, -1, axis=1)
            latency, per_byte = (figure[hops].max(axis=1) * (count > 1) for figure in (case.latency, case.per_byte))
            seconds = [
                way.base_seconds
                + way.between_hops * latency
                + way.inside_hops * inside[0]
                + size * np.maximum(way.byte_factor * per_byte, way.inside_byte_factor * inside[1])
                for way in ways
            ]
            best[sum(1 << node for node in members)] = steps * np.min(seconds)
    return best


def _ring_beyond(case: Case, order: list[int]) -> float:
    """Seconds of the objective that a ring over the workers' nodes costs beyond the best one that enters every node once.

    Hops of a node that is left c times share its cards. Below 0 where latency decides and a ring that enters a node twice is better.
    """
    hops = [(order[at - 1], order[at]) for at in range(len(order)) if order[at - 1] != order[at]]
    left, ranks = Counter(source for source, _ in hops), Counter(order)
    held = np.array([[ranks[node] * case.gpus for node in range(NODES)]])
    load = {node: left[node] * float(_slower(case, held)[0, node]) for node in left}
    latency = max((float(case.latency[hop]) for hop in hops), default=0.0)
    per_byte = max((float(case.per_byte[a, b]) * max(load[a], load[b]) for a, b in hops), default=0.0)
    seconds = _allreduce(case, len(ranks), latency, per_byte)
    return (1.0 + POLICY.communication_weight) * (seconds - float(_best_rings(case, held)[0]))


@cache
def placements(workers: int, gpus: int) -> IntArray:
    """(P, n) every number of ranks by node: 217,001 for 16 workers of one GPU."""
    most = min(workers, GPUS // gpus)
    held = np.zeros((1, 0), dtype=np.int64)
    for left in range(NODES - 1, -1, -1):
        counts = np.arange(most + 1)
        held = np.concatenate((np.repeat(held, most + 1, axis=0), np.tile(counts, len(held))[:, None]), axis=1)
        rest = workers - held.sum(axis=1)
        held = held[(rest >= 0) & (rest <= left * most)]
    return held * gpus


def _speed(case: Case, work: WorkloadProfile) -> float:
    """Operations a second of one worker, as the planner's table has them: an input, not a part of either model."""
    from hyperscale.planner.problem.placement_problem import pose

    return float(pose(PlanRequest(job_key="a/b", job=case.job), build(case.seen, POLICY), work, POLICY).flops_per_second[0])


def _cases(seeds: range) -> Iterator[Case]:
    for seed, card, (workers, gpus), (name, (data, model)) in itertools.product(seeds, CARDS, SHAPES, JOBS.items()):
        if seed and card in RAILS:
            continue
        latency, per_byte = _figures(CARDS[card], seed)
        yield Case(name, card, seed, workers, gpus, _job(data, model, workers, gpus), _snapshot(latency, per_byte), latency, per_byte)


def _figures(card: float, seed: int) -> tuple[FloatArray, FloatArray]:
    """Latency and seconds per byte of every pair, alike in both directions; seed 0 has all links alike."""
    rng = np.random.default_rng([seed, 8])
    drawn = np.triu(rng.uniform(SLOWEST, 1.0, (NODES, NODES)), 1) if seed else np.triu(np.ones((NODES, NODES)), 1)
    far = np.triu(rng.uniform(8e-6, 2e-5, (NODES, NODES)), 1) if seed else np.triu(np.full((NODES, NODES), 1e-5), 1)
    bandwidth, latency = (drawn + drawn.T) * card, far + far.T
    np.fill_diagonal(bandwidth, NVSWITCH)
    np.fill_diagonal(latency, NVSWITCH_SECONDS)
    return latency, 1.0 / bandwidth


def _snapshot(latency: FloatArray, per_byte: FloatArray) -> ClusterSnapshot:
    def sample(value: float) -> Sample:
        return Sample(value=value, age_seconds=1.0, quality=Quality.MEASURED)

    names = [f"dgx-{at}" for at in range(NODES)]
    links = tuple(
        Link(names[a], names[b], sample(float(latency[a, b])), sample(float(1.0 / per_byte[a, b])))
        for a, b in itertools.permutations(range(NODES), 2)
    )
    gpus = {name: tuple(Gpu(uuid=f"GPU-{name}-{at}", utilization_ratio=sample(0.0)) for at in range(GPUS)) for name in names}
    nodes = tuple(Node(name, "NVIDIA-H100-80GB-HBM3", 80 * 2**30, GPUS, 0, gpus=gpus[name]) for name in names)
    return ClusterSnapshot(taken_at=1.0, nodes=nodes, links=links, metrics=MetricsState(available=True))


def _job(data: dict[str, int], model: dict[str, Any], workers: int, gpus: int) -> JobSpec:
    spec = {
        "model": model,
        "dataset": {"source": {"persistentVolumeClaim": {"claimName": "graph"}}, **data},
        "workers": {"minReplicas": workers, "maxReplicas": workers, "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}},
    }
    return msgspec.convert(spec, JobSpec)


def _planned(case: Case) -> Plan:
    graph = build(case.seen, POLICY)
    graph = replace(graph, machine=replace(plain_machine(NODES), rails=np.full(NODES, case.rails)))
    answer = make_plan(PlanRequest(job_key="a/b", job=case.job), graph, profile(case.job), POLICY)
    if not isinstance(answer, Plan):
        raise TypeError(f"{case.name}: {answer.message}")
    return answer
