"""Method Auto: the partitioner whose parts give the shortest predicted epoch on the plan's own figures."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from hyperscale import partition
from hyperscale.model.adjacency import Adjacency, Array
from hyperscale.model.job import PartitioningMethod
from hyperscale.partition import EpochCost, Parts
from hyperscale.worker.contract import Run

LINK_SECONDS_PER_BYTE: Final = 1 / 125e6
"""1 Gbit/s, where the plan knows nothing of its links."""
FLOPS: Final = 5e9
"""A second, of one core or a small share of a GPU on sparse products, where the plan predicts nothing."""
BACKWARD: Final = 3.0
"""Forward and backward pass cost about three times the forward pass."""
MAX_HYBRID_EDGES: Final = 2_000_000
"""Directed; beyond, the spectral step of the hybrid takes longer than it can win back in an epoch or two."""


def choose(run: Run, adjacency: Adjacency, features: int, classes: int, shares: tuple[float, ...], train: Array | None) -> Parts:
    """Cut by every candidate, predict, take the best; METIS alone on graphs too large to try more. Raises PartitionError."""
    if len(shares) == 1 or len(adjacency.indices) > MAX_HYBRID_EDGES:
        return partition.split(adjacency, shares, PartitioningMethod.METIS, seed=run.seed, train=train)
    cost = epoch_cost(run, adjacency, features, classes, shares)
    return partition.choose(adjacency, shares, partition.CANDIDATES, cost, seed=run.seed, train=train)


def epoch_cost(run: Run, adjacency: Adjacency, features: int, classes: int, shares: tuple[float, ...]) -> EpochCost:
    """Seconds of a vertex by part, of a byte, and bytes of a copy: from the plan where it says them, else from the model's widths."""
    vertices = max(adjacency.vertices, 1)
    widths = [features, *[run.model.hidden_size] * (run.model.layers - 1), classes]
    predicted = run.plan.predicted if run.plan is not None else None
    if predicted is not None and predicted.epoch_seconds > predicted.communication_seconds:
        # The plan's shares are those at which all parts take equally long.
        seconds = [(predicted.epoch_seconds - predicted.communication_seconds) / (vertices * share) for share in shares]
    else:
        degree = len(adjacency.indices) / vertices
        work = sum(2.0 * before * after + 2.0 * degree * after for before, after in pairwise(widths))
        seconds = [BACKWARD * work / (FLOPS * share * len(shares)) for share in shares]
    # Each layer's input crosses forward, but for the features, and its gradient back.
    copy_bytes = 4.0 * (features + 2 * sum(widths[1:-1]))
    return EpochCost(tuple(seconds), (_byte_seconds(run, len(shares)),) * len(shares), copy_bytes)


def _byte_seconds(run: Run, parts: int) -> float:
    """Of one link: a ring allreduce moves each byte 2 (P - 1) / P times over it."""
    if run.plan is None or run.plan.allreduce is None or parts < 2:
        return LINK_SECONDS_PER_BYTE
    return run.plan.allreduce.seconds_per_byte * parts / (2 * (parts - 1))
