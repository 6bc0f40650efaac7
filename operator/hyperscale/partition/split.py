"""One entrance to all partitioners."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from hyperscale.model.adjacency import Adjacency, Array
from hyperscale.model.job import PartitioningMethod
from hyperscale.partition.baselines import along, degree_parts, random_parts
from hyperscale.partition.compiled import COMPILED
from hyperscale.partition.hubs import refine_hubs, skewed
from hyperscale.partition.hybrid import hybrid
from hyperscale.partition.levels import Level, boundary, finest
from hyperscale.partition.measures import measure
from hyperscale.partition.metis import metis, metis_mixed
from hyperscale.partition.refine import Effort, Reference, limits_of, promising, refine
from hyperscale.partition.types import PartitionError, Parts, checked_graph, checked_shares, weight_columns

DEGREE = "Degree"
"""AGPCS's baseline: for benchmarks, no job can ask for it."""
SMALL = 10_000
"""Vertices below which METIS's own start-up outweighs what it does with them."""
RECURSIVE = 8
"""Parts up to which pymetis bisects recursively, which takes it about twice as long as its k-way method."""
SPEND = 0.3
"""Of the cut that refinement saves, what the largest halo may take back with few equal parts."""
WEIGHT_STEPS = 64
"""Of the mean weight where edges weigh too: fine enough for any tolerance, and sums of a billion vertices stay far below 64 bits."""


def split(
    adjacency: Adjacency,
    shares: tuple[float, ...],
    method: PartitioningMethod | str,
    *,
    seed: int = 0,
    train: Array | None = None,
    edge_worth: float = 0.0,
) -> Parts:
    """Every vertex to one part; part i gets about shares[i] of the weight (any positive numbers) and of the training vertices, (n,) bool.

    edge_worth: what a neighbour of a vertex weighs beside the vertex itself, where both are work; the measures are of these weights
    PartitionError where shares, graph and method do not go together. The same arguments give the same parts.
    """
    checked_graph(adjacency)
    target = checked_shares(adjacency, shares)
    if train is not None and len(train) != adjacency.vertices:
        raise PartitionError(f"train: need {adjacency.vertices} values, one for each vertex")
    partitioner = _PARTITIONERS.get(str(method))
    if partitioner is None:
        raise PartitionError(_no_partitioner(str(method)))
    if edge_worth > 0.0:
        adjacency = with_edges(adjacency, edge_worth)
    assignment = partitioner(adjacency, target, seed, train)
    return Parts(assignment, len(target), _named(method), measure(adjacency, assignment, shares, train))


def with_edges(adjacency: Adjacency, edge_worth: float) -> Adjacency:
    """The same graph whose vertices weigh (first column) `edge_worth` more for each neighbour, as integers, WEIGHT_STEPS on average."""
    columns = weight_columns(adjacency)
    work = columns[:, 0] + edge_worth * np.diff(adjacency.indptr)
    mean = float(work.mean()) if len(work) else 0.0
    weights = columns.copy()
    weights[:, 0] = np.maximum(np.rint(work * (WEIGHT_STEPS / mean if mean > 0.0 else 1.0)), 1)
    return replace(adjacency, vertex_weights=weights)


def precomputed(adjacency: Adjacency, assignment: Array, shares: tuple[float, ...], train: Array | None = None) -> Parts:
    """Parts that came with the data set, checked and measured."""
    checked_graph(adjacency)
    whole = np.ascontiguousarray(assignment, dtype=np.int32)
    return Parts(whole, len(shares), PartitioningMethod.PRECOMPUTED, measure(adjacency, whole, shares, train))


def _no_partitioner(method: str) -> str:
    if method == PartitioningMethod.PRECOMPUTED:
        return "spec.partitioning.method: Precomputed takes the parts of the data set, and it has none; write Auto or METIS"
    known = ", ".join(sorted(name for name in _PARTITIONERS if name != DEGREE))
    return f"spec.partitioning.method: {method} is no partitioner; write one of {known}"


def _named(method: PartitioningMethod | str) -> PartitioningMethod | str:
    if str(method) == PartitioningMethod.AUTO:
        return PartitioningMethod.METIS
    return method


def _metis(adjacency: Adjacency, target: Array, seed: int, train: Array | None) -> Array:
    """METIS with target weights, then refined: the cut is never above METIS's own unless METIS left a part above its limit."""
    start = metis(adjacency, target, seed=seed)
    if len(target) == 1 or not COMPILED:
        return start
    level = finest(adjacency, train)
    limits = limits_of(level.weights, target, train is not None)
    reference = Reference.of(level, start, len(target))
    effort = _effort(level, target, reference)
    if skewed(level):
        return refine_hubs(level, start, limits, reference, seed=seed, effort=effort)
    if _second_start(level, target):
        chosen = promising(level, (start, metis_mixed(adjacency, target, seed=seed + 1)), len(target), reference)
        brief = len(target) > RECURSIVE or (level.vertices < SMALL and boundary(level, chosen, len(target))[0] <= reference.cut)
        found = refine(level, chosen, limits, reference, seed=seed, effort=replace(effort, cycles=0) if brief else effort)
        if boundary(level, found, len(target))[0] <= reference.cut:
            return found
    return refine(level, start, limits, reference, seed=seed, effort=effort)


def _second_start(level: Level, target: Array) -> bool:
    """Whether there is time for METIS twice: up to RECURSIVE parts, more than four on small graphs, and where shares may be reordered."""
    if len(target) > RECURSIVE:
        return bool((target != target[0]).any())
    return len(target) > (2 if level.vertices >= SMALL else 4)


def _effort(level: Level, target: Array, reference: Reference) -> Effort:
    """As much as fits into about three times METIS's own time; that grows with k beyond eight parts, and with its logarithm up to there."""
    edges, parts = len(level.indices) // 2, len(target)
    equal = bool((target == target[0]).all())
    if skewed(level):
        return Effort(passes=2 if parts > 2 else 1, patience=60, work=10 * edges, spend=0.0)
    if reference.even and level.vertices >= SMALL:
        return Effort(passes=3, patience=200, work=edges, spend=0.0)  # no halo is far above the others: the time is for the cut
    bisections = (parts - 1).bit_length()
    if level.vertices < SMALL:
        return _small_effort(level, parts, _second_start(level, target))
    if parts > RECURSIVE:
        return Effort(work=4 * edges + 12_000 * parts, over_worth=1.0)
    work = bisections * (2 * edges + 20_000)
    spend = SPEND if equal else 1.0
    return Effort(passes=2, patience=60, work=work, spend=spend) if parts > 2 else Effort(work=work, spend=spend)


def _small_effort(level: Level, parts: int, twice: bool) -> Effort:
    """The same where METIS takes milliseconds, which it needs fewer of the fewer circles a graph has."""
    edges = len(level.indices) // 2
    if parts <= RECURSIVE:
        work = (parts - 1).bit_length() * (2 * edges + 18_000 if twice else 3 * edges + 35_000)
    else:
        work = parts * max(2 * edges - level.vertices, edges) * 6 // (4 if twice else 1)
    return Effort(cycles=1 if twice or parts <= RECURSIVE else 2, work=work, heat=2.0, over_worth=1.0)


def _hybrid(adjacency: Adjacency, target: Array, seed: int, train: Array | None) -> Array:
    """Independent-set seeds, spectral embedding, refinement."""
    if len(target) == 1 or not COMPILED:
        return metis(adjacency, target, seed=seed)
    level = finest(adjacency, train)
    effort = Effort(work=2 * len(level.indices))
    return hybrid(level, target, limits_of(level.weights, target, train is not None), seed=seed, effort=effort)


def _random(adjacency: Adjacency, target: Array, seed: int, train: Array | None) -> Array:
    return random_parts(adjacency, target, seed=seed)


def _degree(adjacency: Adjacency, target: Array, seed: int, train: Array | None) -> Array:
    return degree_parts(adjacency, target)


def _contiguous(adjacency: Adjacency, target: Array, seed: int, train: Array | None) -> Array:
    """None: vertices in the order of the data set, as a loader without partitioner would share them out."""
    return along(np.arange(adjacency.vertices), weight_columns(adjacency)[:, 0], target)


_PARTITIONERS: dict[str, Callable[[Adjacency, Array, int, Array | None], Array]] = {
    PartitioningMethod.AUTO.value: _metis,
    PartitioningMethod.METIS.value: _metis,
    PartitioningMethod.INDEPENDENT_SET_SPECTRAL.value: _hybrid,
    PartitioningMethod.RANDOM.value: _random,
    PartitioningMethod.NONE.value: _contiguous,
    DEGREE: _degree,
}
