"""What a predicted epoch is spent on, as history learns from it: products, tiers, insides, cards. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from hyperscale.model.graph import BoolArray, FloatArray, IntArray
from hyperscale.model.history.corrections import MAX_CARDS, MAX_NAME_LENGTH, MAX_PARTS, PartKind, PredictedPart
from hyperscale.planner.check.artifact import rounded
from hyperscale.planner.cost.objective import Costs, halo_seconds, ring_costs, volumes
from hyperscale.planner.problem.corrections import link_groups, product_name
from hyperscale.planner.problem.placement_problem import Problem
from hyperscale.planner.repair.fixed_shares import held_epochs
from hyperscale.util.float_sums import sum_in_order

STEP: Final = 1e-4
"""Relative change of a group's seconds that shows its part: the epoch is linear until another worker is slowest."""
MIN_PART: Final = 1e-6
"""Of the epoch: smaller parts teach nothing."""
MIN_REMAINDER: Final = 1e-5
"""Of an exchange: less is the error of its derivatives."""


@dataclass(frozen=True)
class _Placed:
    """A placement by tables and measurements alone."""

    problem: Problem
    order: IntArray
    """(k,) candidates in ring order."""
    members: IntArray
    """(p,) the different ones, rising."""
    places: IntArray
    """(k,) of `order` in `members`."""
    share: FloatArray
    """(k,)"""
    costs: Costs
    """Of `members`."""

    def epoch_seconds(self, costs: Costs) -> float:
        """Return seconds of the placement at other costs; +inf where it cannot work."""
        return float(held_epochs(costs, self.places[None, :], self.share)[0])


class StatedEpoch(NamedTuple):
    """An epoch by tables and measurements alone, and as history expects it."""

    seconds: float
    """Without corrections; +inf where the placement cannot work."""
    expected_seconds: float
    """With corrections, without hope for what was not tried."""
    parts: tuple[PredictedPart, ...]
    """Of `seconds`, the largest first."""


def stated_epoch(problem: Problem, order: IntArray, share: FloatArray) -> StatedEpoch:
    """Return what a placement costs without corrections and by what, and what history expects.

    order: (k,) candidates in ring order; share: (k,) parts of the graph
    A part of the network is the derivative of the epoch by the logarithm of that group's seconds. The epoch is homogeneous in the
    seconds of all groups (Euler), so the parts add up to it: one product's arithmetic, links, insides, overhead, and what is left of the
    exchange, which hangs on no group: shared uplinks and NCCL's own time.
    """
    members, places = np.unique(order, return_inverse=True)
    stated = problem.uncorrected()
    placed = _Placed(stated, order, members, places, share, stated.costs(members))
    epoch = placed.epoch_seconds(placed.costs)
    if not np.isfinite(epoch):
        return StatedEpoch(np.inf, np.inf, ())
    arithmetic = _arithmetic(placed)
    exchange = _exchange(placed, epoch) if placed.costs.ranks(len(order)) > 1 else []
    parts = [*arithmetic, *exchange, _uncorrected(arithmetic, exchange), _overhead(placed)]
    large = sorted((part for part in parts if part.seconds > MIN_PART * epoch), key=lambda part: (-part.seconds, part.kind, part.name))
    expected = epoch if stated is problem else placed.epoch_seconds(problem.expected().costs(members))
    return StatedEpoch(epoch, expected, tuple(large[:MAX_PARTS]))


def _arithmetic(placed: _Placed) -> list[PredictedPart]:
    """The slowest worker of each product, with what it exchanges."""
    problem, costs, order = placed.problem, placed.costs, placed.places[None, :]
    seconds = placed.share * costs.workload.epoch_flops / costs.flops_per_second[placed.places]
    exchange = np.zeros(len(seconds))
    if costs.ranks(len(seconds)) > 1:
        volume = volumes(costs, len(seconds))
        exchange = halo_seconds(costs, order, placed.share, volume)[0][0] + ring_costs(costs, order, volume)[0]
    slowest: dict[str, int] = {}
    for worker, member in enumerate(placed.order.tolist()):
        name = product_name(problem.graph.nodes[problem.nodes[member]])
        if name not in slowest or seconds[worker] + exchange[worker] > seconds[slowest[name]] + exchange[slowest[name]]:
            slowest[name] = worker
    return [
        PredictedPart(
            PartKind.COMPUTE,
            rounded(float(seconds[worker])),
            name[:MAX_NAME_LENGTH],
            problem.speeds[int(placed.order[worker])].flops_per_second,
            rounded(float(exchange[worker])),
        )
        for name, worker in slowest.items()
    ]


def _uncorrected(arithmetic: list[PredictedPart], exchange: list[PredictedPart]) -> PredictedPart:
    """What the slowest worker exchanges beyond the seconds of tiers and insides."""
    slowest = max(arithmetic, key=lambda part: part.seconds + part.exchange_seconds)
    grouped = sum_in_order(part.seconds for part in exchange if part.kind is not PartKind.CARD)
    left = slowest.exchange_seconds - grouped
    return PredictedPart(PartKind.UNCORRECTED, rounded(left) if left > MIN_REMAINDER * slowest.exchange_seconds else 0.0)


def _overhead(placed: _Placed) -> PredictedPart:
    volume = volumes(placed.costs, len(placed.order))
    return PredictedPart(PartKind.OVERHEAD, rounded(volume.steps * placed.costs.workload.step_overhead_seconds))


def _exchange(placed: _Placed, epoch: float) -> list[PredictedPart]:
    """Seconds of each tier, inside and, on few nodes, card."""
    problem, positions = placed.problem, placed.problem.nodes[placed.members]
    nodes = [problem.graph.nodes[position] for position in positions]
    itself = np.eye(len(positions), dtype=np.bool_)
    measured = problem.graph.link_costs(positions).measured
    names, codes = link_groups(problem.graph, positions, measured)
    products = np.array([product_name(node) for node in nodes])
    groups: list[tuple[PartKind, str, BoolArray]] = [
        (PartKind.LINK, names[code], (codes == code) & ~itself) for code in np.unique(codes[~itself]).tolist()
    ]
    groups += [(PartKind.INSIDE, str(name), itself & (products == name)) for name in np.unique(products)]
    if 1 < len(nodes) <= MAX_CARDS:
        groups += [(PartKind.CARD, node.name, (itself[place] | itself[place][:, None]) & ~itself) for place, node in enumerate(nodes)]
    parts = []
    for kind, name, chosen in groups:
        seconds = (placed.epoch_seconds(placed.costs.slower(np.asarray(1.0 + STEP * chosen, dtype=np.float64))) - epoch) / STEP
        parts.append(PredictedPart(kind, float(f"{max(0.0, seconds):.6g}"), name[:MAX_NAME_LENGTH]))
    return parts
