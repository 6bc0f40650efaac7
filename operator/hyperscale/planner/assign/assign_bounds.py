"""What no assignment of machines to tasks can undercut, and exact answers for small cases (HiGHS). Pure.

Four bounds of the sum of link costs inside tasks, each at least as good as the one before and taking longer:

* `row_bound`: every task has its cheapest rows, half the sum of the size − 1 cheapest links of each; machines may serve several tasks;
* `seat_bound`: the same with every machine in one task at most, an assignment problem;
* `linear_bound`: the linear programme of `program`;
* `linear_bound` with rounds of cuts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Final

import numpy as np

from hyperscale.model.graph import FloatArray
from hyperscale.planner.assign.assign_problem import Tasks
from hyperscale.planner.assign.program import Program, dear_crowds
from hyperscale.planner.assign.search import Assigned, answer, never

SLACK: Final = 1e-6
"""Relative rounding of the solver that is taken off its bound."""


def _halves(tasks: Tasks) -> FloatArray:
    """(machines, tasks): half the sum of the size − 1 cheapest links of each machine."""
    others = np.sort(tasks.cost + np.diag(np.full(len(tasks.cost), np.inf)), axis=1)
    return np.stack([others[:, : max(size - 1, 0)].sum(axis=1) / 2.0 for size in tasks.low], axis=1)


def row_bound(tasks: Tasks) -> float:
    """Every task has its cheapest rows."""
    halves = np.sort(_halves(tasks), axis=0)
    return float(sum(halves[:size, task].sum() for task, size in enumerate(tasks.low)))


def seat_bound(tasks: Tasks) -> float:
    """Every task has its cheapest rows, no machine in two tasks."""
    from scipy.optimize import linear_sum_assignment

    seats = np.repeat(np.arange(tasks.idle), tasks.low)
    halves = _halves(tasks)[:, seats]
    chosen = linear_sum_assignment(halves)
    return float(halves[chosen].sum())


def linear_bound(tasks: Tasks, rounds: int = 0, expired: Callable[[], bool] = never) -> float:
    """The linear programme's value after `rounds` rounds of cuts, fewer where `expired` says so; memory counts, sizes must be fixed.

    47 machines and 4 tasks: about 3 s a round. Raises ValueError where sizes are not fixed, RuntimeError
    where the solver fails.
    """
    program = Program(tasks)
    crowds = dear_crowds(tasks, float(tasks.cost.max())) if rounds else []
    solved = program.solve()
    bound = float(solved.fun)
    for _ in range(rounds):
        if expired() or not program.cut(np.asarray(solved.x), crowds):
            break
        solved = program.solve()
        bound = max(bound, float(solved.fun))
    return bound * (1.0 - SLACK)


@dataclasses.dataclass(frozen=True)
class Proven:
    """An answer with what the solver proved about it."""

    incumbent: Assigned | None
    """None where the time was too short for any."""
    bound: float

    @property
    def gap(self) -> float:
        """(cost - bound) / cost; 0 is proven optimal but for the solver's rounding."""
        return 1.0 if self.incumbent is None else max(0.0, (self.incumbent.cost - self.bound) / max(self.incumbent.cost, 1e-300))


def solve_exactly(tasks: Tasks, limit_seconds: float) -> Proven:
    """The cheapest assignment that has its memory, by branch and cut; for small cases. Raises like `linear_bound`."""
    solved = Program(tasks).solve(integral=True, limit_seconds=limit_seconds)
    bound = float(solved.mip_dual_bound) * (1.0 - SLACK)
    if solved.x is None:
        return Proven(None, bound)
    member = np.asarray(solved.x[: tasks.idle * len(tasks.memory)]).reshape(tasks.idle, -1)
    group = np.where(member.max(axis=0) > 0.5, member.argmax(axis=0), tasks.idle).astype(np.int64)
    return Proven(answer(tasks, group), bound)
