"""The nodes of one placement, with their costs and links: each is looked up once for all that a plan says. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hyperscale.model.graph import IntArray, LinkCosts
from hyperscale.planner.cost.objective import Costs
from hyperscale.planner.problem.placement_problem import Problem


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

    def uncorrected(self) -> UsedNodes:
        """The same placement by tables and measurements alone; itself where nothing corrects it."""
        return self._with(self.problem.uncorrected())

    def expected(self) -> UsedNodes:
        """The same placement without hope for what was not tried; itself where there is none."""
        return self._with(self.problem.expected())

    def _with(self, problem: Problem) -> UsedNodes:
        return self if problem is self.problem else UsedNodes(problem, self.order, self.members, self.places, self.workers)


def used_nodes(problem: Problem, order: IntArray) -> UsedNodes:
    """Return the nodes that a placement uses; order: (k,) candidates in ring order."""
    members, places, workers = np.unique(order, return_inverse=True, return_counts=True)
    return UsedNodes(problem, order, members, places, workers)
