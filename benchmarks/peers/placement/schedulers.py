"""What schedulers do, none of which knows the job's cost: random, pack, spread, fastest, kube-scheduler, topology tiers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from benchmarks.families import Instance
from benchmarks.peers.placement.arena import Arena
from hyperscale.model.graph import FloatArray, IntArray

Method = Callable[[Instance, int], IntArray]
"""Instance and seed to candidates, (k,)."""

ZONE_LABEL: Final = "topology.kubernetes.io/zone"
HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
DEFAULT_CPU_CORES: Final = 0.1
DEFAULT_MEMORY_BYTES: Final = 200 * 1024**2
"""Requests that kube-scheduler's scoring takes for a container without any (DefaultMilliCPURequest, DefaultMemoryRequest)."""
ZONE_SKEW, HOSTNAME_SKEW = 5, 3
"""Built-in constraints of PodTopologySpread (defaultingType System)."""
SPREAD_WEIGHT: Final = 2.0
"""Weight of PodTopologySpread in the default profile; NodeResourcesFit and NodeResourcesBalancedAllocation have 1."""


def random_nodes(instance: Arena, seed: int) -> IntArray:
    """Free slots in random order."""
    slots = _every_slot(instance)
    return np.random.default_rng([seed, 1]).permutation(slots)[: instance.workers]


def pack(instance: Instance, _: int) -> IntArray:
    """The fewest nodes: most free GPUs first, ties by name."""
    return _first(instance, np.argsort(-instance.slots, kind="stable"))


def spread(instance: Instance, _: int) -> IntArray:
    """One worker a node, in turn over the widest domains and inside them over nodes with most free GPUs."""
    taken = np.zeros(len(instance.slots), dtype=np.int64)
    domains = _codes(instance)[:, 0] if _codes(instance).shape[1] else np.arange(len(taken))
    chosen: list[int] = []
    for _rank in range(instance.workers):
        load = np.array([taken[domains == code].sum() for code in domains])
        order = np.lexsort((np.arange(len(taken)), -(instance.slots - taken), taken, load, taken >= instance.slots))
        chosen.append(int(order[0]))
        taken[order[0]] += 1
    return np.array(chosen, dtype=np.int64)


def fastest(instance: Instance, _: int) -> IntArray:
    """The fastest free GPUs, wherever they are."""
    return _first(instance, np.argsort(-instance.costs.flops_per_second, kind="stable"))


def kube_scheduler(instance: Instance, seed: int) -> IntArray:
    """The default profile of kube-scheduler, pod by pod.

    Filter: free GPUs. Score 0..100 each: NodeResourcesFit LeastAllocated over cpu and memory, NodeResourcesBalancedAllocation (1 − standard
    deviation of both fractions), PodTopologySpread with the built-in soft constraints, which apply because the MPI operator's
    headless Service selects the pods. The other default plugins score all nodes alike here. Ties are broken at random.
    """
    rng = np.random.default_rng([seed, 2])
    nodes = [instance.graph.nodes[position] for position in instance.problem.nodes]
    zones = _labels(instance, ZONE_LABEL)
    room = np.array(
        [(node.allocatable_cpu_cores or 64.0, float(node.allocatable_memory_bytes or 256 * 1024**3)) for node in nodes], dtype=np.float64
    )
    used = np.array([(node.requested_cpu_cores, float(node.requested_memory_bytes)) for node in nodes], dtype=np.float64)
    demand = np.array([DEFAULT_CPU_CORES, DEFAULT_MEMORY_BYTES])
    pods = np.zeros(len(nodes), dtype=np.int64)
    chosen: list[int] = []
    for _rank in range(instance.workers):
        fraction = np.minimum((used + demand) / room, 1.0)
        least = np.floor((1.0 - fraction) * 100).mean(axis=1)
        balanced = np.floor((1.0 - fraction.std(axis=1)) * 100)
        feasible = pods < instance.slots
        score = least + balanced + SPREAD_WEIGHT * _spread_score(pods, zones, feasible)
        score = np.where(feasible, score, -np.inf)
        best = int(rng.choice(np.flatnonzero(score == score.max())))
        chosen.append(best)
        pods[best] += 1
        used[best] += demand
    return np.array(chosen, dtype=np.int64)


def kueue_tiers(instance: Instance, _: int) -> IntArray:
    """Kueue's topology-aware scheduling, algorithm BestFit.

    The lowest level with a domain that fits all workers, there the domain with least room; downwards the fewest domains, the largest
    first, the last one by best fit. Where no domain fits: the largest of the widest level, as many as needed.
    """
    return np.array(_kueue(instance, np.arange(len(instance.slots)), 0, instance.workers), dtype=np.int64)


def kai_tiers(instance: Instance, _: int) -> IntArray:
    """KAI's topology plugin: the fullest domain of the lowest level that fits all; inside it bin-packing, fewest free GPUs first."""
    members = _tightest_domain(instance)
    return _first(instance, members[np.lexsort((members, instance.slots[members]))])


def tiers_by_speed(instance: Instance, _: int) -> IntArray:
    """What a careful administrator adds: the lowest level with a domain that fits all, the fastest such domain, fastest nodes first."""
    speed = instance.costs.flops_per_second
    best: tuple[int, float, IntArray] | None = None
    for level, members in _fitting_domains(instance):
        slots = np.repeat(speed[members], np.minimum(instance.slots[members], instance.workers))
        total = -float(np.sort(slots)[::-1][: instance.workers].sum())
        if best is None or (-level, total) < best[:2]:
            best = (-level, total, members)
    chosen = best[2] if best is not None else np.arange(len(speed))
    return _first(instance, chosen[np.argsort(-speed[chosen], kind="stable")])


SCHEDULERS: Final[dict[str, Method]] = {
    "random": random_nodes,
    "pack": pack,
    "spread": spread,
    "fastest": fastest,
    "kube-scheduler": kube_scheduler,
    "label tiers (Kueue)": kueue_tiers,
    "label tiers (KAI)": kai_tiers,
    "label tiers + speed": tiers_by_speed,
}
LABEL_TIERS: Final = ("label tiers (Kueue)", "label tiers (KAI)", "label tiers + speed")


def _spread_score(pods: IntArray, zones: IntArray, feasible: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> FloatArray:
    """PodTopologySpread: 0..100, fewer pods of the job in the node's zone and on the node are better."""
    raw = np.zeros(len(pods))
    for domain, skew in ((zones, ZONE_SKEW), (np.arange(len(pods)), HOSTNAME_SKEW)):
        if (domain < 0).all():
            continue
        size = len(np.unique(domain[feasible & (domain >= 0)]))
        count = np.array([pods[domain == code].sum() if code >= 0 else 0 for code in domain]) if domain is zones else pods
        raw += np.where(domain >= 0, count * np.log(size + 2.0) + (skew - 1), 0.0)
    raw = np.round(raw)
    low, high = raw[feasible].min(), raw[feasible].max()
    if high == 0:
        return np.full(len(pods), 100.0)
    score: FloatArray = np.floor(100.0 * (high + low - raw) / high)
    return score


def _kueue(instance: Instance, members: IntArray, level: int, workers: int) -> list[int]:
    """Candidates for `workers` workers among `members`, which share a domain of the level above `level`."""
    levels = _codes(instance).shape[1]
    for depth in range(levels, level - 1, -1):
        fitting = [domain for domain in _domains(instance, members, depth) if instance.slots[domain].sum() >= workers]
        if fitting:
            tightest = min(fitting, key=lambda domain: (int(instance.slots[domain].sum()), int(domain[0])))
            return _kueue_down(instance, tightest, depth + 1, workers)
    return _kueue_down(instance, members, level, workers)


def _kueue_down(instance: Instance, members: IntArray, depth: int, workers: int) -> list[int]:
    """The fewest domains of `depth`, largest first, the last by best fit; below the last level the slots themselves."""
    if depth > _codes(instance).shape[1]:
        return [int(members[0])] * workers
    rest = sorted(_domains(instance, members, depth), key=lambda domain: (-int(instance.slots[domain].sum()), int(domain[0])))
    chosen: list[int] = []
    while workers > 0 and rest:
        fitting = [domain for domain in rest if instance.slots[domain].sum() >= workers]
        taken = min(fitting, key=lambda domain: (int(instance.slots[domain].sum()), int(domain[0]))) if fitting else rest[0]
        rest = [domain for domain in rest if domain is not taken]
        here = min(workers, int(instance.slots[taken].sum()))
        chosen += _kueue_down(instance, taken, depth + 1, here)
        workers -= here
    return chosen


def _domains(instance: Instance, members: IntArray, depth: int) -> list[IntArray]:
    """Domains of a level among `members`; the level after the last is the nodes themselves; without a label a node is alone."""
    codes = _codes(instance)
    if depth >= codes.shape[1]:
        return [members[at : at + 1] for at in range(len(members))]
    found = codes[members, depth]
    alone = [members[at : at + 1] for at in np.flatnonzero(found < 0)]
    return [members[found == code] for code in np.unique(found[found >= 0])] + alone


def _fitting_domains(instance: Instance) -> list[tuple[int, IntArray]]:
    """(level, members) of every domain that can host all workers."""
    everything = np.arange(len(instance.slots))
    return [
        (level, domain)
        for level in range(_codes(instance).shape[1])
        for domain in _domains(instance, everything, level)
        if instance.slots[domain].sum() >= instance.workers
    ]


def _tightest_domain(instance: Instance) -> IntArray:
    """Members of the narrowest domain with room, least room first; everything where none has it."""
    fitting = _fitting_domains(instance)
    if not fitting:
        return np.arange(len(instance.slots))
    return min(fitting, key=lambda found: (-found[0], int(instance.slots[found[1]].sum()), int(found[1][0])))[1]


def _codes(instance: Instance) -> IntArray:
    """(m, levels) domain of each candidate."""
    return instance.graph.domains[instance.problem.nodes]


def _labels(instance: Instance, label: str) -> IntArray:
    """(m,) number of each candidate's value of a label, -1 without it."""
    values = [instance.graph.nodes[position].labels.get(label, "") for position in instance.problem.nodes]
    numbers = {value: number for number, value in enumerate(sorted(set(values) - {""}))}
    return np.array([numbers.get(value, -1) for value in values], dtype=np.int64)


def _every_slot(instance: Arena) -> IntArray:
    return np.repeat(np.arange(len(instance.slots)), instance.slots)


def _first(instance: Instance, ranking: IntArray) -> IntArray:
    """The first slots in order of `ranking`."""
    return np.repeat(ranking, instance.slots[ranking])[: instance.workers]
