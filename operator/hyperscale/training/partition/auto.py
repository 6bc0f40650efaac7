"""Auto: the method whose parts give the shortest predicted epoch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from hyperscale.model.adjacency import Adjacency, Array
from hyperscale.model.api.choices import PartitioningMethod
from hyperscale.training.partition.partition_result import PartitionError, Parts, weight_columns
from hyperscale.training.partition.split import EVEN_EDGES, split
from hyperscale.util.float_sums import sum_in_order

CANDIDATES = (PartitioningMethod.METIS, PartitioningMethod.INDEPENDENT_SET_SPECTRAL)
MOST_WORTH = 1e6
"""Of an edge beside a vertex; beyond it vertices weigh nothing."""


@dataclass(frozen=True)
class EpochCost:
    """What an epoch costs each rank: its weight, its copies, and what all ranks wait for together."""

    weight_seconds: tuple[float, ...]
    """Seconds per unit of vertex weight (the first column), by part."""
    link_seconds_per_byte: tuple[float, ...]
    """Seconds per byte that a part receives, by part."""
    copy_bytes: float
    """Bytes of one copied vertex in an epoch: all layers, forward and backward."""
    overlap: float = 0.0
    """0..1 of the smaller of both that hides behind the larger."""
    edge_seconds: tuple[float, ...] = ()
    """Seconds per neighbour of a vertex, by part, where every epoch aggregates over all edges; none where edges cost nothing."""

    @property
    def edge_worth(self) -> float:
        """What a neighbour costs beside the vertex itself, over all parts."""
        return min(sum_in_order(self.edge_seconds) / max(sum_in_order(self.weight_seconds), 1e-300), MOST_WORTH)


def choose(
    adjacency: Adjacency,
    shares: tuple[float, ...],
    candidates: Iterable[PartitioningMethod | str],
    cost: EpochCost,
    *,
    seed: int = 0,
    train: Array | None = None,
) -> Parts:
    """The candidate with the shortest predicted epoch; of equal ones the first.

    Where edges cost time and the parts hold unequal numbers of them, METIS is also tried with edges among the weights: of a graph with
    hubs, parts of equal vertices differ several times in edges.
    """
    methods = list(candidates)
    tried = [split(adjacency, shares, method, seed=seed, train=train) for method in methods]
    if not tried:
        raise PartitionError("candidates: none; name at least one partitioner")
    if PartitioningMethod.METIS in methods and cost.edge_worth > 0.0:
        plain = tried[methods.index(PartitioningMethod.METIS)]
        if plain.measures.edge_imbalance > EVEN_EDGES:
            tried.append(split(adjacency, shares, PartitioningMethod.METIS, seed=seed, train=train, edge_worth=cost.edge_worth))
    seconds = [epoch_seconds(adjacency, parts, cost) for parts in tried]
    return tried[int(np.argmin(seconds))]


def epoch_seconds(adjacency: Adjacency, parts: Parts, cost: EpochCost) -> float:
    """Predicted seconds of one epoch: the slowest rank's work and its copies."""
    weight = np.asarray(cost.weight_seconds, dtype=np.float64)
    link = np.asarray(cost.link_seconds_per_byte, dtype=np.float64)
    if len(weight) != parts.parts or len(link) != parts.parts:
        raise PartitionError(f"cost: {len(weight)} speeds and {len(link)} links for {parts.parts} parts; name one of each for every part")
    if cost.edge_seconds and len(cost.edge_seconds) != parts.parts:
        raise PartitionError(f"cost: {len(cost.edge_seconds)} speeds for edges of {parts.parts} parts; name one for every part, or none")
    load = np.bincount(parts.assignment, weights=weight_columns(adjacency)[:, 0], minlength=parts.parts)
    compute = load * weight
    if cost.edge_seconds:
        compute += np.bincount(parts.assignment, weights=np.diff(adjacency.indptr), minlength=parts.parts) * np.asarray(cost.edge_seconds)
    copies = parts.measures.halo * link * cost.copy_bytes
    ranks = compute + copies - cost.overlap * np.minimum(compute, copies)
    return float(ranks.max())
