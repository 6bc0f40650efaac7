"""From a plan in force to a better one that moves few workers: lost ranks first, others only where that pays. Pure and deterministic.

A rank keeps its place in the ring, so that a worker that stays keeps node, rank and data. A move has a price in seconds; the search
minimises objective × remaining epochs + prices, and never moves more workers than it may.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from hyperscale.model.graph import IntArray
from hyperscale.model.plan import Plan
from hyperscale.planner.cost.objective import predict
from hyperscale.planner.problem.placement_problem import Problem
from hyperscale.planner.repair.fixed_shares import held_epochs
from hyperscale.planner.repair.reassign import LOST_ONLY, Expired, Prices, Task, placements, regions_of, seated
from hyperscale.planner.search.heuristic import Heuristic
from hyperscale.planner.search.search_result import Candidate

__all__ = ["LOST_ONLY", "Move", "Prices", "Repair", "replan"]


@dataclass(frozen=True)
class Move:
    """A placement for the same ranks, and what it does to the plan in force."""

    candidate: Candidate
    """Where the ranks run then; its objective is as on the problem's graph."""
    moved: tuple[int, ...]
    """Ranks whose node differs from the old plan's, rising; empty where staying is best."""
    lost: tuple[int, ...]
    """Those of them whose old node cannot be used: these had to move."""
    stay_objective: float
    """Of the old placement on the problem's graph; +inf where ranks are lost or the placement has become impossible."""
    gain_seconds_per_epoch: float
    """Predicted epoch of the old placement minus that of the new one; 0 where the old one cannot run."""
    epoch_seconds: float
    """Predicted epoch of the new placement."""


def replan(
    problem: Problem,
    old: Plan,
    prices: Prices = LOST_ONLY,
    expired: Expired = lambda: False,
    keep_shares: bool = False,
    heuristic: Heuristic | None = None,
) -> Move | None:
    """The cheapest placement of the old plan's ranks on the cluster as it is now; None where there is none.

    problem:     posed for as many workers as `old` has, on a cluster where the GPUs of its ranks count as free (`drained_snapshot`);
                 ranks that it pins stay whatever their price
    expired:     turns true when time is up; the best found so far is used then
    heuristic:   finds whole plans; one that has planned the same problem before answers at once
    keep_shares: every rank keeps the part of the vertices that `old` gives it, as those of a running job do
    Ranks whose node is no candidate of the problem are lost: removed, cordoned, tainted, faulty or full.
    """
    place = {name: position for position, name in enumerate(problem.names)}
    assigned = np.array([place.get(worker.node, -1) for worker in old.workers], dtype=np.int64)
    share = np.array([worker.share for worker in old.workers]) if keep_shares else None
    task = Task(problem, assigned, seated(problem, assigned), prices, share, heuristic or Heuristic())
    best: Candidate | None = None
    for region in regions_of(problem, task.seats):
        for order in placements(task, region, expired):
            candidate = task.candidate(order)
            if best is None or (task.cost(candidate), candidate) < (task.cost(best), best):
                best = candidate
    return _move(task, best) if best is not None else None


class Repair:
    """The heuristic for a job whose other ranks stay: new nodes for those that are not pinned, in a few milliseconds."""

    name = Heuristic.name

    def __init__(self, heuristic: Heuristic) -> None:
        """Take whole plans from this heuristic."""
        self._heuristic = heuristic

    def candidates(self, problem: Problem, expired: Expired) -> Iterable[Candidate]:
        """Placements of all ranks with the pinned ones where they are; none where some of the others find no node."""
        seats = np.full(problem.request.workers_fixed or 0, -1, dtype=np.int64)
        for rank, candidate in problem.pinned:
            seats[rank] = candidate
        task = Task(problem, seats, seats, LOST_ONLY, None, self._heuristic)
        orders = (order for region in regions_of(problem, seats) for order in placements(task, region, expired))
        candidates = {task.candidate(order) for order in orders}
        return sorted(candidate for candidate in candidates if np.isfinite(candidate.objective))


def _move(task: Task, best: Candidate) -> Move | None:
    """The answer in the old plan's terms; None where even the best cannot work."""
    if not np.isfinite(best.objective):
        return None
    order = np.array(best.order, dtype=np.int64)
    epoch = _epoch_seconds(task, order)
    stay = float("inf") if len(task.lost) else task.candidate(task.seats).objective
    gain = _epoch_seconds(task, task.seats) - epoch if np.isfinite(stay) else 0.0
    return Move(
        candidate=best,
        moved=tuple(int(rank) for rank in np.flatnonzero(order != task.assigned)),
        lost=tuple(int(rank) for rank in task.lost),
        stay_objective=stay,
        gain_seconds_per_epoch=gain,
        epoch_seconds=epoch,
    )


def _epoch_seconds(task: Task, order: IntArray) -> float:
    members, positions = np.unique(order, return_inverse=True)
    costs = task.problem.costs(members)
    if task.share is None:
        return predict(costs, positions).epoch_seconds
    return float(held_epochs(costs, positions[None, :], task.share)[0])
