"""What the classifier of nodes to jobs is shown: figures of every (job, node) and of the nearest links. Pure.

All figures are ratios, mostly as decades, so that no unit and no size of the cluster matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from hyperscale.model.graph import FloatArray, IntArray
from hyperscale.planner.cost.objective import Costs, volumes
from hyperscale.planner.together.shared_nodes import SharedNodes

VERSION: Final = 1
"""Of the features; weights of another version are refused."""
PAIR_FEATURES: Final = 10
EDGE_FEATURES: Final = 2
NEIGHBOURS: Final = 8
"""Nearest links of a node."""
DECADES: Final = 3.0
"""Ratios beyond are cut."""
TINY: Final = 1e-300


@dataclass(frozen=True)
class ClassFeatures:
    """J jobs, P nodes, N links of each node."""

    pair: FloatArray
    """(J, P, PAIR_FEATURES)"""
    edge: FloatArray
    """(P, N, EDGE_FEATURES)"""
    neighbours: IntArray
    """(P, N) nodes at the other ends."""
    usable: FloatArray
    """(J, P) 1 where the job can use the node, else 0."""


def pair_seconds(costs: Costs, workers: int) -> FloatArray:
    """(m, m) seconds that a pair of workers adds to an epoch of the job."""
    volume = volumes(costs, workers)
    partners = max(1, workers - 1)
    waits: FloatArray = (volume.rounds + volume.ring_latency_factor) / partners * costs.latency_seconds
    seconds: FloatArray = waits + (volume.halo_bytes / workers + volume.ring_byte_factor) / partners * costs.seconds_per_byte
    return seconds


def class_features(shared: SharedNodes, base: Sequence[IntArray] | None = None) -> ClassFeatures:
    """The features of a question, placements of its jobs among them; `base` None: those one after the other."""
    orders = shared.one_by_one if base is None else base
    jobs, nodes = len(shared.workers), len(shared.nodes)
    pair = np.zeros((jobs, nodes, PAIR_FEATURES))
    usable = np.zeros((jobs, nodes))
    near = np.zeros((nodes, nodes))
    counted = np.zeros((nodes, nodes))
    seconds = shared.weights * (shared.seconds_before if base is None else shared.seconds(base))
    part = seconds / max(float(seconds.sum()), TINY)
    holder = np.zeros(nodes)
    for index, order in enumerate(orders):
        holder[shared.of_job[index].nodes[order]] = part[index]
    for index, each in enumerate(shared.of_job):
        between = _of_job(shared, index, orders[index], part, holder, pair[index], usable[index])
        near[np.ix_(each.nodes, each.nodes)] += between
        counted[np.ix_(each.nodes, each.nodes)] += 1.0
    mean = np.where(counted > 0.0, near / np.maximum(counted, 1.0), DECADES)
    np.fill_diagonal(mean, np.inf)
    count = min(NEIGHBOURS, max(1, nodes - 1))
    neighbours: IntArray = np.argsort(mean, axis=1, kind="stable")[:, :count]
    distance = np.minimum(np.take_along_axis(mean, neighbours, axis=1), DECADES)
    edge = np.stack((distance, holder[neighbours] - holder[:, None]), axis=2)
    return ClassFeatures(pair, edge, neighbours, usable)


def _of_job(
    shared: SharedNodes, index: int, order: IntArray, part: FloatArray, holder: FloatArray, pair: FloatArray, usable: FloatArray
) -> FloatArray:
    """Fill a job's rows of `pair` and `usable`; (m, m) decades of its pair seconds over their median."""
    each, workers = shared.of_job[index], shared.workers[index]
    costs = each.search_costs
    compute = costs.workload.epoch_flops / (workers * costs.flops_per_second)
    links = np.where(costs.blocked, np.inf, pair_seconds(costs, workers))
    between = _decades(links, float(np.median(links)))
    members = np.unique(order)
    away = between[:, members].mean(axis=1)
    own = np.isin(np.arange(len(compute)), members)
    rank = (part >= part[index]).sum() / len(part)
    usable[each.nodes] = each.slots > 0
    pair[each.nodes] = np.stack(
        (
            usable[each.nodes],
            _decades(compute, float(np.median(compute))),
            away,
            own.astype(np.float64),
            np.full(len(compute), part[index]),
            holder[each.nodes],
            np.full(len(compute), workers / max(1.0, float(sum(shared.workers)))),
            np.full(len(compute), rank),
            _decades(compute, float(compute[members].max())),
            away - float(away[members].max()),
        ),
        axis=1,
    )
    return between


def _decades(figures: FloatArray, unit: float) -> FloatArray:
    """Logarithm of figures over a unit, cut to DECADES."""
    logarithms: FloatArray = np.log10(np.maximum(figures, TINY) / max(unit if np.isfinite(unit) else TINY, TINY))
    return np.clip(logarithms, -DECADES, DECADES)
