"""Auto: the partitioner whose parts give the shortest epoch by what the plan predicts of ranks and links."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hyperscale.model.adjacency import Adjacency, Array
from hyperscale.model.api.job import PartitioningMethod
from hyperscale.planner.workload.layer_costs import Layer, layer_work, layers
from hyperscale.training import partition
from hyperscale.training.partition.auto import CANDIDATES, EpochCost
from hyperscale.training.runtime.contract import Run

MAX_TRIED_EDGES: Final = 2_000_000
"""Directed; on larger graphs the hybrid is not tried: that takes longer than its parts can win back."""
_COPY_BYTES = 8.0
"""Of one column of one copied vertex: four there, four of its gradient back."""


def parts(run: Run, adjacency: Adjacency, train: Array, features: int, classes: int) -> partition.Parts:
    """By the job's method; Auto takes the partitioner's own choice where nothing is predicted. Raises PartitionError."""
    edges = len(adjacency.indices)
    cost = epoch_cost(run, adjacency.vertices, features, classes, edges) if run.method is PartitioningMethod.AUTO else None
    if cost is None:
        return partition.split(adjacency, run.shares, run.method, seed=run.seed, train=train)
    candidates = CANDIDATES if edges <= MAX_TRIED_EDGES else (PartitioningMethod.METIS,)
    return partition.choose(adjacency, run.shares, candidates, cost, seed=run.seed, train=train)


def epoch_cost(run: Run, vertices: int, features: int, classes: int, messages: int = 0) -> EpochCost | None:
    """Seconds of a vertex on each rank and of a byte between ranks; None where the plan says nothing of either.

    messages: edges in both directions. An epoch over the whole graph passes one along each: their part of the work is the edges'.
    """
    plan = run.plan
    if plan is None or plan.predicted is None or plan.allreduce is None:
        return None
    compute = max(plan.predicted.epoch_seconds - plan.predicted.communication_seconds, 0.0)
    # A rank gets the share that lets it end with the others: all need about the same time for their own vertices.
    stack = layers(run.model, features, classes)
    along = _along_edges(run, stack, vertices, messages)
    seconds = tuple((1.0 - along) * compute / (share * vertices) for share in run.shares)
    edges = tuple(along * compute / (share * messages) for share in run.shares) if along > 0.0 else ()
    columns = sum(min(layer.inputs, layer.outputs) for layer in stack)
    # An allreduce sends each byte 2 (k - 1) / k times over every hop of the ring of k ranks, a copy passes one link once.
    hop = plan.allreduce.seconds_per_byte * run.size / (2 * (run.size - 1)) if run.size > 1 else 0.0
    # Between nodes all ranks of a node share its card, and each waits for the copies of all.
    sharing = [plan.sharing(rank) for rank in range(run.size)]
    return EpochCost(seconds, tuple(hop * ranks for ranks in sharing), columns * _COPY_BYTES, overlap=1.0, edge_seconds=edges)


def _along_edges(run: Run, stack: Sequence[Layer], vertices: int, messages: int) -> float:
    """Fraction of an epoch's operations that grows with the edges, not with the vertices; 0 for batches, whose edges are drawn."""
    if not messages or run.model.batch_size is not None:
        return 0.0
    whole, rest = (
        sum(layer_work(run.model, layer, vertices, vertices, edges, first=layer is stack[0]) for layer in stack) for edges in (messages, 0)
    )
    return 1.0 - rest / whole if whole > 0.0 else 0.0
