"""The linear programme of several tasks over machines and pairs, with cuts, solved by HiGHS. Pure.

Variables: member(t, i), then pair(t, i < j), all in [0, 1]; pair(t, i, j) is the product of its two members. Constraints: sizes, memory, a
machine in one task at most, pair ≤ member, and Σ_j pair(t, i, j) = (size_t − 1) · member(t, i).
Cuts, all true of products of 0-1 numbers, added where the last solution breaks them:

* star and triangle: pair(i, j) + pair(i, k) − pair(j, k) ≤ member(i); member(i) + member(j) + member(k) − their three pairs ≤ 1;
* crowd: of machines Q with m members in a task there are m (m − 1) / 2 pairs ≥ s · m − s (s + 1) / 2 for every whole s. Q are the largest
  sets of machines all pairs of which are dear, e.g. without a link: few may be in one task, which the programme alone does not see.
"""

from __future__ import annotations

import itertools
from typing import Any, Final

import networkx as nx
import numpy as np

from hyperscale.model.graph import FloatArray, IntArray
from hyperscale.planner.assign.assign_problem import Tasks

METHOD: Final = "highs-ipm"
"""Interior point: 3 s a round on Hulk's graph whatever the cuts, where the simplex grows to 25 s."""
BROKEN: Final = 0.02
"""Cuts broken by less wait."""
MOST_CUTS: Final = 3000
"""Stars and triangles added in one round, the most broken first."""
MOST_CROWDS: Final = 400
"""Dear sets that are looked at."""


class Program:
    """One programme; rows can be added between solutions. Raises ValueError unless all sizes are fixed."""

    def __init__(self, tasks: Tasks) -> None:
        if tasks.low != tasks.high:
            raise ValueError("sizes must be fixed")
        self.tasks = tasks
        self.machines = len(tasks.memory)
        self.members = tasks.idle * self.machines
        self.first, self.second = np.triu_indices(self.machines, 1)
        self.pairs = len(self.first)
        self._columns: list[IntArray] = []
        self._values: list[FloatArray] = []
        self._low: list[float] = []
        self._high: list[float] = []
        self._place = np.zeros((self.machines, self.machines), dtype=np.int64)
        self._place[self.first, self.second] = self._place[self.second, self.first] = np.arange(self.pairs)
        self._basis()

    def member(self, task: int, machines: Any) -> Any:  # noqa: ANN401 - a number or an array of them
        """Columns of members."""
        return task * self.machines + machines

    def pair(self, task: int, i: Any, j: Any) -> Any:  # noqa: ANN401 - numbers or arrays of them
        """Columns of pairs."""
        return self.members + task * self.pairs + self._place[i, j]

    def add(self, columns: Any, values: Any, low: float, high: float) -> None:  # noqa: ANN401 - anything numpy takes
        """One row: low ≤ Σ values · columns ≤ high."""
        self._columns.append(np.asarray(columns, dtype=np.int64))
        self._values.append(np.asarray(values, dtype=np.float64))
        self._low.append(low)
        self._high.append(high)

    def _basis(self) -> None:
        everyone = np.arange(self.machines)
        for task, size in enumerate(self.tasks.low):
            self.add(self.member(task, everyone), np.ones(self.machines), size, size)
            if self.tasks.need[task] > 0:
                self.add(self.member(task, everyone), self.tasks.memory, self.tasks.need[task], np.inf)
            for i in range(self.machines):
                others = np.delete(everyone, i)
                columns = np.append(self.pair(task, i, others), self.member(task, i))
                self.add(columns, [1.0] * len(others) + [1.0 - size], 0.0, 0.0)
            for i, j in zip(self.first.tolist(), self.second.tolist(), strict=True):
                for end in (i, j):
                    self.add([self.pair(task, i, j), self.member(task, end)], [1.0, -1.0], -np.inf, 0.0)
        for i in range(self.machines):
            self.add([self.member(task, i) for task in range(self.tasks.idle)], [1.0] * self.tasks.idle, 0.0, 1.0)

    def solve(self, integral: bool = False, limit_seconds: float | None = None) -> Any:  # noqa: ANN401 - scipy's result has no public type
        """HiGHS' result. Raises RuntimeError where it fails."""
        from scipy.optimize import Bounds, LinearConstraint, linprog, milp
        from scipy.sparse import csr_array, vstack

        rows = np.repeat(np.arange(len(self._columns)), [len(columns) for columns in self._columns])
        columns = self.members + self.tasks.idle * self.pairs
        matrix = csr_array((np.concatenate(self._values), (rows, np.concatenate(self._columns))), shape=(len(self._low), columns))
        low, high = np.array(self._low), np.array(self._high)
        cost = np.concatenate([np.zeros(self.members), np.tile(self.tasks.cost[self.first, self.second], self.tasks.idle)])
        if integral:
            solved = milp(
                cost,
                constraints=LinearConstraint(matrix, low, high),
                integrality=np.arange(columns) < self.members,
                bounds=Bounds(0.0, 1.0),
                # HiGHS' own default calls a solution optimal from 1e-4 above its bound on.
                options={"mip_rel_gap": 0.0} | ({} if limit_seconds is None else {"time_limit": limit_seconds}),
            )
        else:
            equal, above, below = low == high, (low != high) & (high < np.inf), (low != high) & (low > -np.inf)
            solved = linprog(
                cost,
                A_ub=vstack([matrix[above], -matrix[below]]),
                b_ub=np.concatenate([high[above], -low[below]]),
                A_eq=matrix[equal],
                b_eq=low[equal],
                bounds=(0.0, 1.0),
                method=METHOD,
            )
        if solved.status not in (0, 1):
            raise RuntimeError(f"HiGHS: {solved.message}")
        return solved

    def cut(self, solution: FloatArray, crowds: list[IntArray]) -> int:
        """Add the rows that a solution breaks; their number."""
        before = len(self._low)
        for task in range(self.tasks.idle):
            members = solution[self.member(task, np.arange(self.machines))]
            pairs = np.zeros((self.machines, self.machines))
            pairs[self.first, self.second] = solution[self.pair(task, self.first, self.second)]
            pairs += pairs.T
            for crowd in crowds:
                self._crowd(task, crowd, members, pairs)
            self._triples(task, members, pairs)
        return len(self._low) - before

    def _crowd(self, task: int, crowd: IntArray, members: FloatArray, pairs: FloatArray) -> None:
        inside = np.ix_(crowd, crowd)
        total, inner = float(members[crowd].sum()), float(np.triu(pairs[inside], 1).sum())
        i, j = (crowd[place] for place in np.triu_indices(len(crowd), 1))
        for whole in {max(1, int(total)), int(total) + 1}:
            least = whole * (whole + 1) / 2
            if whole * total - least - inner > BROKEN:
                columns = np.concatenate([self.pair(task, i, j), self.member(task, crowd)])
                self.add(columns, [1.0] * len(i) + [-float(whole)] * len(crowd), -least, np.inf)

    def _triples(self, task: int, members: FloatArray, pairs: FloatArray) -> None:
        """The most broken stars and triangles of one task."""
        star = pairs[:, :, None] + pairs[:, None, :] - pairs[None, :, :] - members[:, None, None]
        sums = members[:, None, None] + members[None, :, None] + members[None, None, :]
        triangle = sums - pairs[:, :, None] - pairs[:, None, :] - pairs[None, :, :] - 1.0
        violated: list[tuple[float, bool, int, int, int]] = []
        for kind, broken in ((False, star), (True, triangle)):
            for i, j, k in np.argwhere(broken > BROKEN).tolist():
                if j < k and i not in (j, k) and (not kind or i < j):
                    violated.append((-float(broken[i, j, k]), kind, i, j, k))
        for _, kind, i, j, k in sorted(violated)[: MOST_CUTS // self.tasks.idle]:
            pairs_of = [self.pair(task, i, j), self.pair(task, i, k), self.pair(task, j, k)]
            if kind:
                columns = [*pairs_of, *(self.member(task, end) for end in (i, j, k))]
                self.add(columns, [-1.0, -1.0, -1.0, 1.0, 1.0, 1.0], -np.inf, 1.0)
            else:
                self.add([*pairs_of, self.member(task, i)], [1.0, 1.0, -1.0, -1.0], -np.inf, 0.0)


def dear_crowds(tasks: Tasks, level: float) -> list[IntArray]:
    """The largest sets of three machines and more all pairs of which cost `level` or more, at most `MOST_CROWDS`."""
    dear = nx.from_numpy_array(tasks.cost >= level)
    dear.remove_edges_from(list(nx.selfloop_edges(dear)))
    cliques = [sorted(clique) for clique in itertools.islice(nx.find_cliques(dear), 10 * MOST_CROWDS) if len(clique) > 2]
    return [np.array(clique, dtype=np.int64) for clique in sorted(cliques, key=lambda clique: (-len(clique), clique))[:MOST_CROWDS]]
