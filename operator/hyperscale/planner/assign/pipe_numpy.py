"""Numpy twin of the compiled `_assign.PipeSearch`: DT-FM's cost of groups in a pipeline. The oracle of the property tests. Pure."""

from __future__ import annotations

import math

import numpy as np

from hyperscale.model.graph import FloatArray, IntArray
from hyperscale.planner.assign.assign_numpy import IMPROVES, RELATIVE
from hyperscale.planner.assign.kernel_limits import pipes_fit
from hyperscale.planner.assign.order import shortest_path
from hyperscale.util.float_sums import sum_in_order
from hyperscale.util.splitmix import SplitMix64


class PipeSearch:
    """Groups of equal size under DT-FM's cost: the slowest member's gradient exchange plus the way there and back through the groups."""

    def __init__(self, gradient: FloatArray, rank: IntArray, level: FloatArray, kind: IntArray, group: IntArray, groups: int) -> None:
        if not pipes_fit(gradient, rank, level, kind, group, groups):
            raise ValueError("costs, ranks, kinds and the groups do not fit")
        self._gradient, self._rank, self._level, self._kind = gradient, rank, level, kind
        self._groups = groups
        self.group: IntArray = np.array(group, dtype=np.int64)
        self._sort()
        self._now = self._full()

    def _sort(self) -> None:
        self._members = [[int(i) for i in np.flatnonzero(self.group == a)] for a in range(self._groups)]

    def _full(self) -> float:
        """The cost of `group` from nothing but the order of the members, in which their sums are taken."""
        self._load = [self._slowest(a) for a in range(self._groups)]
        self._pair = np.zeros((self._groups, self._groups), dtype=np.int64)
        for a in range(self._groups):
            for b in range(a):
                self._pair[a, b] = self._pair[b, a] = self._match(a, b)
        return max(self._load) + 2.0 * shortest_path(self.pair_costs())[1]

    def _slowest(self, a: int) -> float:
        """The slowest member's gradient exchange, seconds."""
        return max(sum_in_order(float(self._gradient[i, j]) for j in self._members[a] if j != i) for i in self._members[a])

    def _match(self, a: int, b: int) -> int:
        """Rank of the bottleneck matching of two groups."""
        ranks = self._rank[np.ix_(self.group == a, self.group == b)]
        return next(int(limit) for limit in np.unique(ranks) if _perfect(ranks <= limit))

    def score(self) -> float:
        """The cost of `group`, seconds."""
        return self._now

    def pair_costs(self) -> FloatArray:
        """Bottleneck matching cost of every pair of groups, (groups, groups), seconds."""
        return np.asarray(self._level[self._pair] * (1.0 - np.eye(self._groups)))

    def swap_score(self, i: int, j: int) -> float:
        """The cost after an exchange of devices i and j of different groups; nothing is changed."""
        before = self._now
        self._try(i, j, math.inf)
        after = self._now
        self._try(j, i, math.inf)
        self._now = before
        return after

    def _try(self, i: int, j: int, limit: float) -> bool:
        """Exchange devices i and j if the cost is then no more than `limit`; whether it was done."""
        load, pair = self._load, self._pair
        self._exchange(i, j)
        cost = self._full()
        if cost <= limit:
            self._now = cost
            return True
        self._exchange(j, i)
        self._load, self._pair = load, pair
        return False

    def _exchange(self, i: int, j: int) -> None:
        a, b = self._members[self.group[i]], self._members[self.group[j]]
        a[a.index(i)], b[b.index(j)] = j, i
        self.group[[i, j]] = self.group[[j, i]]

    def descend(self) -> int:
        """Take improving exchanges, first found first, until none is left; the number taken."""
        taken, better = 0, True
        while better:
            better = False
            for i in range(len(self.group)):
                for j in range(i + 1, len(self.group)):
                    if self._differ(i, j) and self._try(i, j, self._now - max(-IMPROVES, RELATIVE * self._now)):
                        better = True
                        taken += 1
        return taken

    def _differ(self, i: int, j: int) -> bool:
        return bool(self.group[i] != self.group[j] and self._kind[i] != self._kind[j])

    def anneal(self, steps: int, hot: float, cold: float, seed: int) -> float:
        """Return the least cost in seconds after `steps` proposals between two temperatures; `group` becomes the assignment that has it."""
        chance, devices = SplitMix64(seed), len(self.group)
        temperature, ratio, lowest = hot, (cold / hot) ** (1.0 / max(steps, 1)), self._now
        best = self.group.copy()
        for _ in range(steps):
            temperature *= ratio
            i, j = chance.below(devices), chance.below(devices)
            if not self._differ(i, j):
                continue
            if self._try(i, j, self._now - temperature * math.log(chance.unit())) and self._now < lowest + IMPROVES:
                lowest, best = self._now, self.group.copy()
        self.group[:] = best
        self._sort()
        self._now = self._full()
        return self._now


def _perfect(allowed: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> bool:
    """Whether rows and columns can be matched one to one (Kuhn)."""
    taken = [-1] * allowed.shape[1]
    return all(_augment(allowed, taken, row, set()) for row in range(allowed.shape[0]))


def _augment(allowed: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], taken: list[int], row: int, visited: set[int]) -> bool:
    for column in np.flatnonzero(allowed[row]):
        if column not in visited:
            visited.add(int(column))
            if taken[column] < 0 or _augment(allowed, taken, taken[column], visited):
                taken[column] = row
                return True
    return False
