"""The nodes of one placement, with their costs and links: each is looked up once for all that a plan says. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from msgspec import structs

from hyperscale.model.graph import IntArray, LinkCosts
from hyperscale.planner.cost.objective import Costs, predict
from hyperscale.planner.problem.placement_problem import Problem

NOTABLY_FASTER: Final = 0.95
"""Seconds of an epoch over the plan's, from which on a faster network is worth a word."""
DIGITS: Final = 3
"""Of ratios that differ: of two placements as fast the plan's own is named."""
MOST_COMPARED: Final = 64
"""Workers up to which other placements than the plan's own are looked at: every plan that a question compares pays for it."""


class FabricGain(NamedTuple):
    """A placement on the fast network that the pods ask no device of; a simple one, a search would find better ones."""

    ratio: float
    """Seconds of an epoch over those of the plan."""
    workers: int
    nodes: int
    same: bool
    """The plan's own."""


@dataclass(frozen=True)
class UsedNodes:
    """A placement among the p different nodes that it uses."""

    problem: Problem
    order: IntArray
    """(k,) candidates in ring order."""
    members: IntArray
    """(p,) the different ones, rising."""
    places: IntArray
    """(k,) of `order` in `members`."""
    workers: IntArray
    """(p,) on each of `members`."""

    @cached_property
    def costs(self) -> Costs:
        """Of `members`."""
        return self.problem.costs(self.members)

    @cached_property
    def links(self) -> LinkCosts:
        """Of `members`, by tables and measurements alone."""
        return self.problem.graph.link_costs(self.problem.nodes[self.members])

    @cached_property
    def fabric_gain(self) -> FabricGain | None:
        """What a device of the nodes' fast network would give at least; None where the pods ask for one, or none would help notably."""
        fabric = self.problem.fabric_graph
        if fabric is None:
            return None
        faster = replace(self.problem, graph=fabric, fabric_graph=None)
        now, gains = _epoch_seconds(self), []
        for order in (self.order, *_on_fabric(faster, len(self.order))):
            over, beside = used_nodes(faster, order), used_nodes(self.problem, order)
            seconds = _epoch_seconds(over)
            # More workers may be faster on either network: the device gives nothing then.
            if seconds < NOTABLY_FASTER * min(now, now if order is self.order else _epoch_seconds(beside)):
                gains.append(FabricGain(seconds / now, len(order), len(over.members), order is self.order))
        return min(gains, key=lambda gain: (round(gain.ratio, DIGITS), not gain.same), default=None)

    def uncorrected(self) -> UsedNodes:
        """The same placement by tables and measurements alone; itself where nothing corrects it."""
        return self._with(self.problem.uncorrected())

    def expected(self) -> UsedNodes:
        """The same placement without hope for what was not tried; itself where there is none."""
        return self._with(self.problem.expected())

    def _with(self, problem: Problem) -> UsedNodes:
        return self if problem is self.problem else UsedNodes(problem, self.order, self.members, self.places, self.workers)


def _epoch_seconds(used: UsedNodes) -> float:
    """By the cost model; +inf where the placement cannot work."""
    figures = predict(used.costs, used.places)
    return math.inf if figures.reason else figures.epoch_seconds


def _on_fabric(problem: Problem, workers: int) -> Iterator[IntArray]:
    """The fastest nodes of the largest fast network, full, for the plan's worker count, for twice as many and for the most; (k,) each."""
    possible = replace(problem, request=structs.replace(problem.request, workers_fixed=None)).counts() if not problem.pinned else ()
    counts = {workers, 2 * workers, *possible[-1:]} & set(possible)
    fabric = problem.graph.machine.fabric
    numbers = np.zeros(0, dtype=np.int64) if fabric is None else fabric.network[problem.nodes]
    room = np.bincount(numbers, weights=problem.slots) if len(numbers) else np.zeros(0)
    if len(room) < 2 or not counts:
        return
    members = np.flatnonzero(numbers == 1 + int(np.argmax(room[1:])))
    members = members[np.argsort(-problem.flops_per_second[members], kind="stable")]
    slots = np.repeat(members, problem.slots[members])
    yield from (slots[:count] for count in sorted(counts) if count <= min(len(slots), MOST_COMPARED))


def used_nodes(problem: Problem, order: IntArray) -> UsedNodes:
    """Return the nodes that a placement uses; order: (k,) candidates in ring order."""
    members, places, workers = np.unique(order, return_inverse=True, return_counts=True)
    return UsedNodes(problem, order, members, places, workers)
