"""Quadratic assignment: things that talk to each other on places some of which are near each other. Pure, and the same for a seed.

A memetic search (Merz & Freisleben 2000): a population of permutations, each improved by robust tabu search; children keep what both
parents agree on. Effort counts operations, never seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from hyperscale.model.adjacency import Array

if TYPE_CHECKING:
    from hyperscale.training.rankmap.quadratic_numpy import tabu_search

    COMPILED = True
else:
    try:
        from hyperscale.training.rankmap._quadratic import tabu_search

        COMPILED = True
    except ImportError:
        from hyperscale.training.rankmap.quadratic_numpy import tabu_search

        COMPILED = False

OPERATIONS: Final = 80_000_000 if COMPILED else 200_000
"""Pairs looked at in all: about a second on one core, up to 256 things; more take the first improvement whole."""
IMPROVEMENTS: Final = 2_000
"""Improved permutations at most: of few things there are no more that differ."""
STEPS: Final = 2
"""Swaps of one improvement, for each thing."""
POPULATION: Final = 24
EQUAL_SUMS: Final = 1e-9
"""Sums that differ by no more than this part are equal: the order of additions decides below it."""
PATIENCE: Final = 30
"""Children without a better one, after which all but the best are drawn again."""


def assign_places(
    flow: Array,
    cost: Array,
    kind: Array | None = None,
    *,
    seed: int = 0,
    operations: int = OPERATIONS,
    worst: Callable[[Array], float] | None = None,
) -> Array:
    """Return the place (n,) of each thing with the least sum of flow[p, q] · cost[place[p], place[q]] that was found.

    It is never above that of the identity, which is among the first.

    flow: (n, n) from thing to thing, any unit
    cost: (n, n) from place to place, finite, any unit
    kind: (n,) int64; a thing takes only places whose own thing is of its kind; None: all are of one
    worst: second figure of a place (n,): never above the identity's, and the lower one of two equal sums; None: sums alone count
    ValueError where the shapes do not fit or a figure is not finite.
    """
    count = len(flow)
    given = np.zeros(count, dtype=np.int64) if kind is None else np.ascontiguousarray(kind, dtype=np.int64)
    if flow.shape != (count, count) or cost.shape != (count, count) or given.shape != (count,):
        raise ValueError("flow, cost and kind need as many rows as things")
    if not (np.isfinite(flow).all() and np.isfinite(cost).all()):
        raise ValueError("flow and cost must be finite")
    search = _Search(np.ascontiguousarray(flow, dtype=np.float64), np.ascontiguousarray(cost, dtype=np.float64), given, seed, worst)
    return search.best(operations)


def assignment_cost(flow: Array, cost: Array, place: Array) -> float:
    """Return the sum of flow[p, q] · cost[place[p], place[q]]."""
    return float((flow * cost[np.ix_(place, place)]).sum())


class _Judged(NamedTuple):
    """A permutation with its sum and its second figure."""

    total: float
    worst: float
    place: Array

    def beats(self, other: _Judged) -> bool:
        """By the sum; by the second figure where sums differ by rounding only."""
        if abs(self.total - other.total) <= EQUAL_SUMS * abs(other.total):
            return (self.worst, self.total) < (other.worst, other.total)
        return self.total < other.total


class _Search:
    """One search; its generator is its own."""

    def __init__(self, flow: Array, cost: Array, kind: Array, seed: int, worst: Callable[[Array], float] | None) -> None:
        self._flow, self._cost, self._kind, self._seed, self._worst = flow, cost, kind, seed, worst
        self._chance = np.random.default_rng(seed)
        self._groups = [np.flatnonzero(kind == one) for one in np.unique(kind)]
        self._improved = 0
        self._left = 0
        identity = np.arange(len(kind), dtype=np.int64)
        self._chosen = self._judged(assignment_cost(flow, cost, identity), identity)
        self._limit = self._chosen.worst

    def best(self, operations: int) -> Array:
        identity = self._chosen.place
        if all(len(group) < 2 for group in self._groups):
            return identity
        self._left = operations
        members = self._drawn([self._improve(identity)])
        stalled = 0
        while self._left > 0 and self._improved < IMPROVEMENTS:
            child = self._improve(self._child(*self._parents(members)))
            if child[0] < members[-1][0] and all(child[0] != other[0] for other in members):
                members[-1] = child
                members.sort(key=lambda member: member[0])
                stalled = 0
            else:
                stalled += 1
            if stalled == PATIENCE:
                members, stalled = self._drawn(members[:1]), 0
        return self._chosen.place

    def _drawn(self, members: list[tuple[float, Array]]) -> list[tuple[float, Array]]:
        """These and fresh ones, the best first."""
        while len(members) < POPULATION and (self._left > 0 or not members):
            place = np.arange(len(self._kind), dtype=np.int64)
            for group in self._groups:
                place[group] = self._chance.permutation(group)
            members.append(self._improve(place))
        return sorted(members, key=lambda member: member[0])

    def _improve(self, place: Array) -> tuple[float, Array]:
        count = len(place)
        # The first table of all swaps costs as much as `count` steps.
        steps = min(STEPS * count, max(count // 8, self._left // count**2 - count))
        self._left -= (steps + count) * count * count
        self._improved += 1
        better = tabu_search(self._flow, self._cost, self._kind, place, steps, self._seed * 1_000_003 + self._improved)
        total = assignment_cost(self._flow, self._cost, better)
        if total <= self._chosen.total * (1.0 + EQUAL_SUMS):
            judged = self._judged(total, better)
            if judged.worst <= self._limit and judged.beats(self._chosen):
                self._chosen = judged
        return total, better

    def _judged(self, total: float, place: Array) -> _Judged:
        return _Judged(total, 0.0 if self._worst is None else self._worst(place), place)

    def _parents(self, members: list[tuple[float, Array]]) -> tuple[Array, Array]:
        if len(members) < 2:
            return members[0][1], members[0][1]
        one, other = self._chance.choice(len(members), 2, replace=False).tolist()
        return members[one][1], members[other][1]

    def _child(self, one: Array, other: Array) -> Array:
        """What both parents agree on, then places of either, then free ones; parents that hardly differ give a shaken copy."""
        child = np.where(one == other, one, -1)
        taken = np.zeros(len(one), dtype=np.bool_)
        taken[child[child >= 0]] = True
        open_things = np.flatnonzero(child < 0)
        if len(open_things) <= 3:
            return self._shaken(one)
        for thing in self._chance.permutation(open_things).tolist():
            pair = (one[thing], other[thing]) if self._chance.random() < 0.5 else (other[thing], one[thing])
            for place in pair:
                if child[thing] < 0 and not taken[place]:
                    child[thing], taken[place] = place, True
        for group in self._groups:
            rest = group[child[group] < 0]
            child[rest] = self._chance.permutation(group[~taken[group]])
        return child.astype(np.int64)

    def _shaken(self, place: Array) -> Array:
        """A third of the largest kind's things in a cycle."""
        group = max(self._groups, key=len)
        chosen = self._chance.choice(group, max(2, len(group) // 3), replace=False)
        shaken = place.copy()
        shaken[chosen] = place[np.roll(chosen, 1)]
        return shaken
