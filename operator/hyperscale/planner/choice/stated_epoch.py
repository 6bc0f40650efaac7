"""What a predicted epoch is spent on, as history learns from it: products, tiers, insides, cards. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from hyperscale.model.graph import BoolArray, FloatArray
from hyperscale.model.history.corrections import MAX_CARDS, MAX_NAME_LENGTH, MAX_PARTS, PartKind, PredictedPart
from hyperscale.planner.check.artifact import rounded
from hyperscale.planner.choice.used_nodes import UsedNodes
from hyperscale.planner.cost.objective import halo_seconds, ring_costs, volumes
from hyperscale.planner.problem.corrections import link_groups, product_name
from hyperscale.planner.repair.fixed_shares import held_epochs
from hyperscale.util.float_sums import sum_in_order

STEP: Final = 1e-4
"""Relative change of a group's seconds that shows its part: the epoch is linear until another worker is slowest."""
MAX_COPIES: Final = 128
"""Nodes of all copies of a placement whose epochs are worked out together: their pairs stay in the processor's cache."""
MIN_PART: Final = 1e-6
"""Of the epoch: smaller parts teach nothing."""
MIN_REMAINDER: Final = 1e-5
"""Of an exchange: less is the error of its derivatives."""


class StatedEpoch(NamedTuple):
    """An epoch by tables and measurements alone, and as history expects it."""

    seconds: float
    """Without corrections; +inf where the placement cannot work."""
    expected_seconds: float
    """With corrections, without hope for what was not tried."""
    parts: tuple[PredictedPart, ...]
    """Of `seconds`, the largest first."""


def stated_epoch(used: UsedNodes, share: FloatArray) -> StatedEpoch:
    """Return what a placement costs without corrections and by what, and what history expects.

    share: (k,) parts of the graph, by worker
    A part of the network is the derivative of the epoch by the logarithm of that group's seconds. The epoch is homogeneous in the
    seconds of all groups (Euler), so the parts add up to it: one product's arithmetic, links, insides, overhead, and what is left of the
    exchange, which hangs on no group: shared uplinks and NCCL's own time.
    """
    stated = used.uncorrected()
    groups = _groups(stated) if stated.costs.ranks(len(share)) > 1 else []
    epoch, *slower = _epochs(stated, share, [pairs for _, _, pairs in groups])
    if not np.isfinite(epoch):
        return StatedEpoch(np.inf, np.inf, ())
    arithmetic = _arithmetic(stated, share)
    exchange = [_exchanged(kind, name, (seconds - epoch) / STEP) for (kind, name, _), seconds in zip(groups, slower, strict=True)]
    parts = [*arithmetic, *exchange, _uncorrected(arithmetic, exchange), _overhead(stated)]
    large = sorted((part for part in parts if part.seconds > MIN_PART * epoch), key=lambda part: (-part.seconds, part.kind, part.name))
    expected = epoch if stated is used else _epochs(used.expected(), share, [])[0]
    return StatedEpoch(epoch, expected, tuple(large[:MAX_PARTS]))


def _epochs(used: UsedNodes, share: FloatArray, groups: Sequence[BoolArray]) -> list[float]:
    """Seconds of an epoch, +inf where the placement cannot work; then with the pairs of each of `groups` (p, p) slower by STEP."""
    nodes = len(used.members)
    factors = 1.0 + STEP * np.array([np.zeros((nodes, nodes), dtype=np.bool_), *groups])
    at_once = max(1, MAX_COPIES // nodes)
    epochs: list[float] = []
    for start in range(0, len(factors), at_once):
        copies = factors[start : start + at_once]
        places = used.places + nodes * np.arange(len(copies))[:, None]
        epochs += held_epochs(used.costs.slower_copies(copies), places, share).tolist()
    return epochs


def _exchanged(kind: PartKind, name: str, seconds: float) -> PredictedPart:
    return PredictedPart(kind, float(f"{max(0.0, seconds):.6g}"), name[:MAX_NAME_LENGTH])


def _arithmetic(used: UsedNodes, share: FloatArray) -> list[PredictedPart]:
    """The slowest worker of each product, with what it exchanges."""
    problem, costs, order = used.problem, used.costs, used.places[None, :]
    seconds = share * costs.workload.epoch_flops / costs.flops_per_second[used.places]
    exchange = np.zeros(len(seconds))
    if costs.ranks(len(seconds)) > 1:
        volume = volumes(costs, len(seconds))
        exchange = halo_seconds(costs, order, share, volume)[0][0] + ring_costs(costs, order, volume)[0]
    slowest: dict[str, int] = {}
    for worker, member in enumerate(used.order.tolist()):
        name = product_name(problem.graph.nodes[problem.nodes[member]])
        if name not in slowest or seconds[worker] + exchange[worker] > seconds[slowest[name]] + exchange[slowest[name]]:
            slowest[name] = worker
    return [
        PredictedPart(
            PartKind.COMPUTE,
            rounded(float(seconds[worker])),
            name[:MAX_NAME_LENGTH],
            problem.speeds[int(used.order[worker])].flops_per_second,
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


def _overhead(used: UsedNodes) -> PredictedPart:
    volume = volumes(used.costs, len(used.order))
    return PredictedPart(PartKind.OVERHEAD, rounded(volume.steps * used.costs.workload.step_overhead_seconds))


def _groups(used: UsedNodes) -> list[tuple[PartKind, str, BoolArray]]:
    """Each tier, inside and, on few nodes, card that an exchange passes, with its name and True at its pairs (p, p) of nodes."""
    problem, positions = used.problem, used.problem.nodes[used.members]
    nodes = [problem.graph.nodes[position] for position in positions]
    itself = np.eye(len(positions), dtype=np.bool_)
    names, codes = link_groups(problem.graph, positions, used.links.measured)
    products = np.array([product_name(node) for node in nodes])
    groups: list[tuple[PartKind, str, BoolArray]] = [
        (PartKind.LINK, names[code], (codes == code) & ~itself) for code in np.unique(codes[~itself]).tolist()
    ]
    groups += [(PartKind.INSIDE, str(name), itself & (products == name)) for name in np.unique(products)]
    if 1 < len(nodes) <= MAX_CARDS:
        groups += [(PartKind.CARD, node.name, (itself[place] | itself[place][:, None]) & ~itself) for place, node in enumerate(nodes)]
    return groups
