"""One entrance to all partitioners."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from hyperscale.model.adjacency import Adjacency, Array
from hyperscale.model.api.choices import PartitioningMethod
from hyperscale.training.partition.baselines import along, degree_parts, random_parts
from hyperscale.training.partition.compiled_search import COMPILED
from hyperscale.training.partition.hubs import refine_hubs, skewed
from hyperscale.training.partition.hybrid import hybrid
from hyperscale.training.partition.kahypar import kahypar
from hyperscale.training.partition.levels import Level, finest
from hyperscale.training.partition.measures import imbalance, measure
from hyperscale.training.partition.metis import metis, metis_mixed
from hyperscale.training.partition.partition_result import PartitionError, Parts, checked_graph, checked_shares, weight_columns
from hyperscale.training.partition.refine import (
    Reference,
    RefineEffort,
    VisitedParts,
    balanced,
    limits_of,
    promising,
    refine,
    score,
    without_isolated,
)
from hyperscale.training.partition.streaming import FENNEL, fennel

SMALL = 5_000
"""Vertices below which METIS's own start-up outweighs what it does with them."""
COARSE_HEATS = (0.0, 3.0, 6.0, 12.0)
"""Where a level joins some 3, 7, 17 and 43 vertices; not on the first, which has few fewer than the graph."""
SMALL_HEATS = (2.0, 4.0)
RECURSIVE = 8
"""Parts up to which pymetis bisects recursively, which takes it about twice as long as its k-way method."""
FEW = 4
"""Parts up to which more annealing did not make the halos smaller."""
SPEND = 0.3
"""Of the cut that refinement saves, what the largest halo may take back with few equal parts."""
EVEN_EDGES = 1.1
"""Largest (share of the edges) / (share of the capacity) of parts that need no edges among their weights."""
EDGE_WORTH = 0.1
"""Work of a neighbour beside that of a vertex where the model is unknown; GCN has 0.05 with layers of 256 numbers, 0.15 with 64."""
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

    edge_worth: what a neighbour of a vertex weighs beside the vertex itself, where both are work; the measures have both apart
    PartitionError where shares, graph and method do not go together. The same arguments give the same parts.
    """
    checked_graph(adjacency)
    target = checked_shares(adjacency, shares)
    if train is not None and len(train) != adjacency.vertices:
        raise PartitionError(f"train: need {adjacency.vertices} values, one for each vertex")
    partitioner = _PARTITIONERS.get(str(method))
    if partitioner is None:
        raise PartitionError(_no_partitioner(str(method)))
    weighed = with_edges(adjacency, edge_worth) if edge_worth > 0.0 else adjacency
    assignment = partitioner(weighed, target, seed, train)
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
    methods = ", ".join(sorted(_PARTITIONERS.keys() - {FENNEL}))
    return f"spec.partitioning.method: {method} is no partitioner; write one of {methods}"


def _named(method: PartitioningMethod | str) -> PartitioningMethod | str:
    if str(method) == PartitioningMethod.AUTO:
        return PartitioningMethod.METIS
    return method


def _metis(adjacency: Adjacency, target: Array, seed: int, train: Array | None) -> Array:
    """METIS with target weights, then refined: the cut is never above METIS's own unless METIS left a part above its limit."""
    parts = metis(adjacency, target, seed=seed)
    if len(target) == 1 or not COMPILED:
        return parts
    level = finest(adjacency, train)
    limits = limits_of(level.weights, target, train is not None)
    first = VisitedParts.of(level, parts, len(target))
    reference = Reference.of(first)
    if skewed(level):
        effort = RefineEffort(passes=2 if len(target) > 2 else 1, patience=60, work=5 * len(level.indices), spend=0.0)
        return refine_hubs(level, first, limits, reference, seed=seed, effort=effort).part
    start = balanced(without_isolated(level), first, limits, seed)
    twice = _second_start(level, target, repaired=start is not first)
    effort = _effort(level, target, reference, twice)
    chosen = promising((start, _mixed(level, adjacency, target, seed)), reference) if twice else start
    refined = refine(level, chosen, limits, reference, seed=seed, effort=effort)
    if refined.cut <= reference.cut:
        return refined.part
    # The cut had too far to come down, or METIS left a part above its limit and the repair cut more.
    other = _mixed(level, adjacency, target, seed) if chosen is start else start
    again = refine(level, other, limits, reference, seed=seed, effort=effort)
    return min((refined, again), key=lambda each: score(level, each, limits, reference)).part


def _auto(adjacency: Adjacency, target: Array, seed: int, train: Array | None) -> Array:
    """METIS by vertices; where hubs leave its parts with unequal edges, also with edges weighed in, and the parts with the least work."""
    ends = np.diff(adjacency.indptr)
    plain = _metis(adjacency, target, seed, train)
    if imbalance(ends, plain, target) <= EVEN_EDGES:
        return plain
    weighed = _metis(with_edges(adjacency, EDGE_WORTH), target, seed, train)
    work = weight_columns(adjacency)[:, 0] + EDGE_WORTH * ends
    return min((plain, weighed), key=lambda parts: imbalance(work, parts, target))


def _mixed(level: Level, adjacency: Adjacency, target: Array, seed: int) -> VisitedParts:
    """METIS's parts by its other method: for many parts of a small graph bisection takes half the time of the k-way method, else twice."""
    recursive = level.vertices < SMALL and len(target) > RECURSIVE
    return VisitedParts.of(level, metis_mixed(adjacency, target, seed=seed + 1, recursive=recursive), len(target))


def _second_start(level: Level, target: Array, repaired: bool) -> bool:
    """Whether there is time for METIS twice: with 3 to RECURSIVE parts; on small graphs with more of unequal shares.

    There also, above four, where METIS's own parts had to be repaired, which costs more of the cut than refinement takes back.
    """
    if level.vertices < SMALL:
        return (repaired and len(target) > 4) or (len(target) > RECURSIVE and bool((target != target[0]).any()))
    return 2 < len(target) <= RECURSIVE


def _effort(level: Level, target: Array, reference: Reference, twice: bool) -> RefineEffort:
    """As much as fits into about three times METIS's own time; that grows with k beyond eight parts, and with its logarithm up to there."""
    edges, parts = len(level.indices) // 2, len(target)
    bisections = (parts - 1).bit_length()
    if level.vertices < SMALL:
        return _small_effort(level, parts, twice)
    if reference.even:
        # No halo is far above the others: the time is for the cut.
        if parts == 2:
            return RefineEffort(passes=3, patience=200, work=edges, spend=0.0)
        passes, patience = (3, 200) if parts <= RECURSIVE else (2, 100)
        work = min(bisections, 3) * edges if parts <= RECURSIVE else 3 * edges // 2
        return RefineEffort(passes=passes, patience=patience, work=work, coarse_heats=COARSE_HEATS, spend=0.0)
    equal = bool((target == target[0]).all())
    if parts > RECURSIVE:
        work = 2 * level.vertices + edges // 2 + (14_500 * parts - 2_000 if equal else 6_750 * parts + 204_000)
        return RefineEffort(passes=2 if equal else 1, work=work, coarse_heats=COARSE_HEATS, over_worth=1.0)
    work = (1 if parts <= FEW else bisections) * (edges + 2 * level.vertices)
    return RefineEffort(passes=2, patience=60, work=work, coarse_heats=COARSE_HEATS, spend=SPEND if equal else 1.0)


def _small_effort(level: Level, parts: int, twice: bool) -> RefineEffort:
    """The same where METIS takes milliseconds, which it needs fewer of the fewer circles a graph has."""
    edges, bisections = len(level.indices) // 2, (parts - 1).bit_length()
    if parts <= RECURSIVE:
        work = bisections * (edges + 5_000) if twice else bisections * (5 * edges + 45_000) - 40_000
        return RefineEffort(work=work, heat=2.0, coarse_heats=() if twice else SMALL_HEATS, over_worth=1.0)
    if twice:
        circles = max(edges - level.vertices, edges // 4)
        return RefineEffort(cycles=0, work=20 * circles * (parts - 6), heat=2.0, over_worth=1.0)
    return RefineEffort(cycles=2, work=(5 * parts + 16) * max(2 * edges - level.vertices, edges), heat=2.0, over_worth=1.0)


def _kahypar(adjacency: Adjacency, target: Array, seed: int, train: Array | None) -> Array:
    """Mt-KaHyPar's parts with smaller halos, within its own cut."""
    level = finest(adjacency, train)
    limits = limits_of(level.weights, target, train is not None)
    parts = kahypar(level, limits, seed=seed)
    if len(target) == 1 or not COMPILED:
        return parts
    first = VisitedParts.of(level, parts, len(target))
    start, reference = balanced(without_isolated(level), first, limits, seed), Reference.of(first)
    return refine(level, start, limits, reference, seed=seed, effort=_effort(level, target, reference, twice=False)).part


def _hybrid(adjacency: Adjacency, target: Array, seed: int, train: Array | None) -> Array:
    """Independent-set seeds, spectral embedding, refinement."""
    if len(target) == 1 or not COMPILED:
        return metis(adjacency, target, seed=seed)
    level = finest(adjacency, train)
    effort = RefineEffort(work=2 * len(level.indices))
    return hybrid(level, target, limits_of(level.weights, target, train is not None), seed=seed, effort=effort)


def _contiguous(adjacency: Adjacency, target: Array) -> Array:
    """None: vertices in the order of the data set, as a loader without partitioner would share them out."""
    return along(np.arange(adjacency.vertices), weight_columns(adjacency)[:, 0], target)


_PARTITIONERS: dict[str, Callable[[Adjacency, Array, int, Array | None], Array]] = {
    PartitioningMethod.AUTO.value: _auto,
    PartitioningMethod.METIS.value: _metis,
    PartitioningMethod.INDEPENDENT_SET_SPECTRAL.value: _hybrid,
    PartitioningMethod.MT_KAHYPAR.value: _kahypar,
    PartitioningMethod.RANDOM.value: lambda adjacency, target, seed, _: random_parts(adjacency, target, seed=seed),
    PartitioningMethod.DEGREE.value: lambda adjacency, target, *_: degree_parts(adjacency, target),
    PartitioningMethod.NONE.value: lambda adjacency, target, *_: _contiguous(adjacency, target),
    FENNEL: lambda adjacency, target, *_: fennel(adjacency, target),
}
