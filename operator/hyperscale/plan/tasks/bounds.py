"""What no assignment of machines to tasks can undercut, and exact answers for small cases (HiGHS). Pure.

Three bounds of the sum of link costs inside tasks, each at least as good as the one before:

* `row_bound`: every task has its k cheapest rows, half the sum of the k - 1 cheapest links of each; machines may serve several tasks.
* `seat_bound`: the same with every machine in one task at most, an assignment problem.
* `linear_bound`: the linear programme over pairs with Σ_j pair(i, j, t) = (k_t - 1) · member(i, t), solved by HiGHS.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final

import numpy as np

from hyperscale.model.graph import FloatArray
from hyperscale.plan.tasks.problem import Tasks
from hyperscale.plan.tasks.search import Assigned, answer

SLACK: Final = 1e-6
"""Relative rounding of the solver that is taken off its bound."""


def _halves(tasks: Tasks) -> FloatArray:
    """(machines, tasks): half the sum of the k - 1 cheapest links of each machine, k the task's smallest size."""
    others = np.sort(tasks.cost + np.diag(np.full(len(tasks.cost), np.inf)), axis=1)
    return np.stack([others[:, : max(size - 1, 0)].sum(axis=1) / 2.0 for size in tasks.low], axis=1)


def row_bound(tasks: Tasks) -> float:
    """Every task has its cheapest rows."""
    halves = np.sort(_halves(tasks), axis=0)
    return float(sum(halves[:size, task].sum() for task, size in enumerate(tasks.low)))


def seat_bound(tasks: Tasks) -> float:
    """Every task has its cheapest rows, no machine in two tasks."""
    from scipy.optimize import linear_sum_assignment  # type: ignore[import-untyped] # scipy ships no annotations

    seats = np.repeat(np.arange(tasks.idle), tasks.low)
    halves = _halves(tasks)[:, seats]
    chosen = linear_sum_assignment(halves)
    return float(halves[chosen].sum())


def linear_bound(tasks: Tasks) -> float:
    """The linear programme's value; needs fixed sizes. Raises ValueError for others, RuntimeError where the solver fails."""
    solved = _solve(tasks, integral=False, limit_seconds=None)
    return float(solved.fun) * (1.0 - SLACK)


@dataclasses.dataclass(frozen=True)
class Proven:
    """An answer with what the solver proved about it."""

    found: Assigned | None
    """None where the time was too short for any."""
    bound: float

    @property
    def gap(self) -> float:
        """(cost - bound) / cost; 0 is proven optimal."""
        return 1.0 if self.found is None else max(0.0, (self.found.cost - self.bound) / max(self.found.cost, 1e-300))


def solve_exactly(tasks: Tasks, limit_seconds: float) -> Proven:
    """The cheapest assignment that has its memory, by branch and cut; for small cases. Raises like `linear_bound`."""
    solved = _solve(tasks, integral=True, limit_seconds=limit_seconds)
    bound = float(solved.mip_dual_bound) * (1.0 - SLACK)
    if solved.x is None:
        return Proven(None, bound)
    member = np.asarray(solved.x[: tasks.idle * len(tasks.memory)]).reshape(tasks.idle, -1)
    group = np.where(member.max(axis=0) > 0.5, member.argmax(axis=0), tasks.idle).astype(np.int64)
    return Proven(answer(tasks, group), bound)


def _solve(tasks: Tasks, integral: bool, limit_seconds: float | None) -> Any:  # noqa: ANN401 - scipy's result has no public type
    """Variables: member(t, i), then pair(t, i < j)."""
    from scipy.optimize import Bounds, LinearConstraint, milp  # type: ignore[import-untyped] # scipy ships no annotations
    from scipy.sparse import csr_array  # type: ignore[import-untyped] # scipy ships no annotations

    if tasks.low != tasks.high:
        raise ValueError("sizes must be fixed")
    machines, sets = len(tasks.memory), tasks.idle
    first, second = np.triu_indices(machines, 1)
    pairs = len(first)
    members = sets * machines
    rows: list[tuple[Any, Any, FloatArray, float, float]] = []
    for task, size in enumerate(tasks.low):
        own = task * machines + np.arange(machines)
        of = members + task * pairs + np.arange(pairs)
        ones = np.ones(pairs)
        at = np.concatenate([first, second, np.arange(machines)])
        rows.append((at, np.concatenate([of, of, own]), np.concatenate([ones, ones, np.full(machines, 1.0 - size)]), 0.0, 0.0))
        for ends in (first, second):
            at = np.concatenate([np.arange(pairs), np.arange(pairs)])
            rows.append((at, np.concatenate([of, own[ends]]), np.concatenate([ones, -ones]), -np.inf, 0.0))
        rows.append((np.zeros(machines), own, np.ones(machines), size, size))
        rows.append((np.zeros(machines), own, tasks.memory, tasks.need[task], np.inf))
    at = np.tile(np.arange(machines), sets)
    rows.append((at, np.arange(members), np.ones(members), 0.0, 1.0))
    constraints = [
        LinearConstraint(csr_array((values, (at.astype(np.int64), columns)), shape=(int(at.max()) + 1, members + sets * pairs)), low, high)
        for at, columns, values, low, high in rows
    ]
    solved = milp(
        np.concatenate([np.zeros(members), np.tile(tasks.cost[first, second], sets)]),
        constraints=constraints,
        integrality=np.concatenate([np.full(members, int(integral)), np.zeros(sets * pairs)]),
        bounds=Bounds(0.0, 1.0),
        options={} if limit_seconds is None else {"time_limit": limit_seconds},
    )
    if solved.status not in (0, 1):
        raise RuntimeError(f"HiGHS: {solved.message}")
    return solved
