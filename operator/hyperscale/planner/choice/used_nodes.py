"""The nodes of one placement, with their costs and links: each is looked up once for all that a plan says. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from msgspec import structs

from hyperscale.model.graph import IntArray, LinkCosts
from hyperscale.planner.cost.objective import Costs, predict
from hyperscale.planner.problem.placement_problem import Problem
from hyperscale.planner.search.heuristic import Heuristic

NOTABLY_FASTER: Final = 0.95
"""Objective over the plan's, from which on a faster network is worth a word."""


class FabricGain(NamedTuple):
    """A placement on the fast network that the pods ask no device of; a first one, a search would find better ones."""

    epoch_seconds: float
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
        problem = self.problem
        if problem.fabric_graph is None:
            return None
        faster = replace(problem, graph=problem.fabric_graph, fabric_graph=None)
        gains = []
        for order in (self.order, *_first_placements(faster, len(self.order))):
            over = used_nodes(faster, order)
            figures = predict(over.costs, over.places)
            gains.append((figures.objective, FabricGain(figures.epoch_seconds, len(order), len(over.members), order is self.order)))
        objective, gain = min(gains, key=lambda each: each[0])
        return gain if objective < NOTABLY_FASTER * predict(self.costs, self.places).objective else None

    def uncorrected(self) -> UsedNodes:
        """The same placement by tables and measurements alone; itself where nothing corrects it."""
        return self._with(self.problem.uncorrected())

    def expected(self) -> UsedNodes:
        """The same placement without hope for what was not tried; itself where there is none."""
        return self._with(self.problem.expected())

    def _with(self, problem: Problem) -> UsedNodes:
        return self if problem is self.problem else UsedNodes(problem, self.order, self.members, self.places, self.workers)


def _first_placements(problem: Problem, workers: int) -> Iterator[IntArray]:
    """A quick placement (k,) of the plan's worker count, of twice as many and of the most, also where the question fixes one of several."""
    possible = replace(problem, request=structs.replace(problem.request, workers_fixed=None)).counts() if not problem.pinned else ()
    for count in sorted({workers, 2 * workers, *possible[-1:]} & set(possible)):
        of_count = replace(problem, request=structs.replace(problem.request, workers_fixed=count))
        for candidate in Heuristic().candidates(of_count, lambda: True):
            yield np.array(candidate.order, dtype=np.int64)


def used_nodes(problem: Problem, order: IntArray) -> UsedNodes:
    """Return the nodes that a placement uses; order: (k,) candidates in ring order."""
    members, places, workers = np.unique(order, return_inverse=True, return_counts=True)
    return UsedNodes(problem, order, members, places, workers)
