"""Numpy twin of the compiled `_assign`: the same numbers in the same order of operations. The oracle of the property tests. Pure."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from hyperscale.model.graph import BoolArray, FloatArray, IntArray
from hyperscale.planner.assign.kernel_limits import least_gain, sums_fit
from hyperscale.util.splitmix import SplitMix64

IMPROVES: Final = -1e-9
"""A change must win by more than rounding."""
RELATIVE: Final = 1e-12
"""And by more than this part of the cost: costs may be of any unit, and a descent has an end."""


class SumSearch:
    """Sets of machines under the sum of pair costs inside each set."""

    def __init__(
        self,
        cost: FloatArray,
        memory: FloatArray,
        need: FloatArray,
        penalty: float,
        weight: FloatArray,
        low: IntArray,
        high: IntArray,
        group: IntArray,
    ) -> None:
        if not sums_fit(cost, memory, need, weight, low, high, group):
            raise ValueError("costs, memory, sets and the assignment do not fit")
        self._improves = -least_gain(cost, memory, penalty)
        self._cost, self._memory, self._need, self._penalty, self._weight = cost, memory, need, penalty, weight
        self._low, self._high = low, high
        self.group: IntArray = np.array(group, dtype=np.int64)
        self._near = np.zeros((len(cost), len(weight)))
        self._held = np.zeros(len(weight))
        self._members = np.bincount(self.group, minlength=len(weight)).astype(np.int64)
        for i in range(len(cost)):
            self._held[self.group[i]] += memory[i]
            self._near[:, self.group[i]] += cost[:, i]

    def _short(self, g: IntArray | int, change: FloatArray | float) -> FloatArray:
        after = self._need[g] - (self._held[g] + change)
        before = self._need[g] - self._held[g]
        return np.asarray(self._penalty * (np.maximum(after, 0.0) - np.maximum(before, 0.0)))

    def swap_delta(self, i: int, j: int) -> float:
        """Change of the cost when machines i and j, of different sets, change places."""
        return float(self._swaps(i)[j])

    def move_delta(self, i: int, b: int) -> float:
        """Change of the cost when machine i goes to set b, another than its own."""
        return float(self._moves(i)[b])

    def cycle_delta(self, i: int, j: int, k: int) -> float:
        """Change of the cost when i takes the place of j, j that of k, k that of i, all of different sets."""
        return float(self._cycles(i, j)[k])

    def _swaps(self, i: int) -> FloatArray:
        """Change of the cost by every exchange with machine i, (machines,); of no meaning inside its own set."""
        a, b = int(self.group[i]), self.group
        near_b = self._near[np.arange(len(b)), b]
        gain = self._memory - self._memory[i]
        return np.asarray(
            self._weight[a] * (self._near[:, a] - self._cost[i] - self._near[i, a])
            + self._weight[b] * (self._near[i, b] - self._cost[i] - near_b)
            + self._short(a, gain)
            + self._short(b, -gain)
        )

    def _moves(self, i: int) -> FloatArray:
        """Change of the cost by moving machine i to every set, (sets,)."""
        a = int(self.group[i])
        sets = np.arange(len(self._weight))
        return np.asarray(
            self._weight * self._near[i]
            - self._weight[a] * self._near[i, a]
            + self._short(a, -self._memory[i])
            + self._short(sets, self._memory[i])
        )

    def _cycles(self, i: int, j: int) -> FloatArray:
        """Change of the cost by the cycle of i, j and every third machine, (machines,)."""
        a, b, c = int(self.group[i]), int(self.group[j]), self.group
        near_c = self._near[np.arange(len(c)), c]
        return np.asarray(
            self._weight[a] * (self._near[:, a] - self._cost[i] - self._near[i, a])
            + self._weight[b] * (self._near[i, b] - self._cost[i, j] - self._near[j, b])
            + self._weight[c] * (self._near[j, c] - self._cost[j] - near_c)
            + self._short(a, self._memory - self._memory[i])
            + self._short(b, self._memory[i] - self._memory[j])
            + self._short(c, self._memory[j] - self._memory)
        )

    def _may_move(self, i: int) -> BoolArray:
        a = int(self.group[i])
        allowed: BoolArray = (self._members < self._high) & (self._members[a] > self._low[a])
        allowed[a] = False
        return allowed

    def _put(self, i: int, b: int) -> None:
        a = int(self.group[i])
        self.group[i] = b
        self._held[a] -= self._memory[i]
        self._held[b] += self._memory[i]
        self._members[a] -= 1
        self._members[b] += 1
        self._near[:, a] -= self._cost[:, i]
        self._near[:, b] += self._cost[:, i]

    def descend(self, cycles: bool) -> int:
        """Take the best improving move or exchange until none is left; the number taken."""
        taken = 0
        while self._best_pair() or (cycles and self._best_cycle()):
            taken += 1
        return taken

    def _best_pair(self) -> bool:
        lowest, at, moves = self._improves, (-1, -1), False
        for i in range(len(self.group)):
            changes = np.where(self.group[i + 1 :] != self.group[i], self._swaps(i)[i + 1 :], np.inf)
            if changes.size and changes.min() < lowest:
                lowest, at = float(changes.min()), (i, i + 1 + int(changes.argmin()))
        for i in range(len(self.group)):
            changes = np.where(self._may_move(i), self._moves(i), np.inf)
            if changes.min() < lowest:
                lowest, at, moves = float(changes.min()), (i, int(changes.argmin())), True
        i, j = at
        if i < 0:
            return False
        if moves:
            self._put(i, j)
        else:
            self._exchange(i, j)
        return True

    def _exchange(self, i: int, j: int) -> None:
        to = int(self.group[i])
        self._put(i, int(self.group[j]))
        self._put(j, to)

    def _best_cycle(self) -> bool:
        lowest, at = self._improves, (-1, -1, -1)
        group = self.group
        for i in range(len(group)):
            for j in range(i + 1, len(group)):
                if group[i] == group[j]:
                    continue
                others = (group[i + 1 :] != group[i]) & (group[i + 1 :] != group[j])
                changes = np.where(others, self._cycles(i, j)[i + 1 :], np.inf)
                if changes.min() < lowest:
                    lowest, at = float(changes.min()), (i, j, i + 1 + int(changes.argmin()))
        i, j, k = at
        if i < 0:
            return False
        to = int(group[i])
        self._put(i, int(group[j]))
        self._put(j, int(group[k]))
        self._put(k, to)
        return True

    def anneal(self, steps: int, hot: float, cold: float, seed: int) -> float:
        """Return the change of the cost after `steps` proposals between two temperatures; `group` becomes the best assignment met."""
        chance, machines = SplitMix64(seed), len(self.group)
        temperature, ratio, now, lowest = hot, (cold / hot) ** (1.0 / max(steps, 1)), 0.0, 0.0
        best = self.group.copy()
        for _ in range(steps if machines else 0):
            temperature *= ratio
            i, j = chance.below(machines), chance.below(machines + len(self._weight))
            if not (self.group[i] != self.group[j] if j < machines else self._may_move(i)[j - machines]):
                continue
            delta = self.swap_delta(i, j) if j < machines else self.move_delta(i, j - machines)
            if delta > 0.0 and delta > -temperature * math.log(chance.unit()):
                continue
            if j < machines:
                self._exchange(i, j)
            else:
                self._put(i, j - machines)
            now += delta
            if now < lowest + IMPROVES:
                lowest, best = now, self.group.copy()
        for x in np.flatnonzero(self.group != best):
            self._put(int(x), int(best[x]))
        return lowest
