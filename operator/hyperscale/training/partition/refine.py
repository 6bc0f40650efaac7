"""Better parts from given ones: V-cycles with local search on every level, and annealing that lowers the largest halo.

A V-cycle joins vertices inside their parts, moves the joined ones, then finer and finer pieces (Walshaw 2004; Sanders and Schulz 2011).
Each cycle prices the edges of parts with a large halo higher than the others, so that the search takes them out of where they hurt most.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hyperscale.model.adjacency import Array
from hyperscale.training.partition.compiled_search import halos, search
from hyperscale.training.partition.levels import Hierarchy, Level, boundary, coarsen

TOLERANCE = 1.03
"""No part gets more than this of its share, where whole vertices allow it."""
TRAIN_TOLERANCE = 1.10
"""The same for training vertices."""
UNEVEN = 1.3
"""Largest halo over the mean above which halos are uneven."""
TOTAL_WORTH = 0.25
"""Of the copies of all parts beside the largest halo: the slowest part sets the pace, but links are shared."""
CUT_WORTH = 0.1
"""Of the cut beside the largest halo: what neighbour sampling fetches goes over cut edges."""
LOOSE = 2
"""Times its limit that a part may hold while another column is balanced."""
EXCESS = 1.03
"""Of the reference's cut: what refinement takes back."""
EXCESS_WORTH = 4.0
COARSEST_PER_PART = 20
COARSEST = 200
CLUSTERS_PER_PART = 10
"""No vertex of a coarse level is heavier than this fraction of a part."""
PRICE = 16
"""Of an edge at a part with an average halo."""
PRICES = (PRICE // 2, PRICE * 3)
COARSE_CUT_WORTH = 2 * CUT_WORTH
LAST_HEAT, LAST_SHARE, LAST_OVER_WORTH = 0.3, 4, 3.0
"""Of the annealing after cuts had to be taken back: times the heat before, the work before over its own, as `RefineEffort.over_worth`."""
COARSE_SHARE = 3
"""The work over that of the annealing of one coarse level."""
COARSE_OVER_WORTH = 0.5
"""As `RefineEffort.over_worth`, where a copy stands for several."""


@dataclass(frozen=True)
class RefineEffort:
    """How long the search continues; every figure is a count, so that the result does not depend on the machine."""

    cycles: int = 1
    """V-cycles, each followed by annealing; 0: only annealing."""
    passes: int = 1
    starts: int = 10
    """Border vertices that one climb begins from."""
    patience: int = 30
    """Moves without gain before a climb gives up."""
    work: int = 0
    """Moves that all annealing looks at, and their neighbours."""
    heat: float = 1.0
    """Copies more than the largest halo that are often taken at the beginning of the annealing."""
    over_worth: float = 3.0
    """Copies that an edge above the cut's budget counts for until the annealing's end."""
    spend: float = 1.0
    """Of what the cycle took from the reference's cut, how much annealing may give back."""
    coarse_heats: tuple[float, ...] = ()
    """As `heat`, on levels 1, 2, ... of a cycle, each with a third of `work`; 0: none. What is joined moves whole stretches of a border."""
    priced: bool = True
    """Whether edges of parts with a large halo cost a cycle more."""


@dataclass(frozen=True)
class VisitedParts:
    """Parts and what was counted of them."""

    part: Array
    """(n,) int32, not to be changed."""
    cut: int
    """Weight of the edges between parts."""
    copies: Array
    """(k,) int64 vertices of other parts that each part needs a copy of."""

    @classmethod
    def of(cls, level: Level, part: Array, parts: int) -> VisitedParts:
        """Counted."""
        return cls(part, *boundary(level, part, parts))


@dataclass(frozen=True)
class Reference:
    """What the search is judged against: METIS's own parts, or the first that a partitioner made."""

    cut: int
    """Weight of edges between parts that is not to be exceeded."""
    largest: int
    """Largest halo."""
    total: int
    """Copies of all parts."""
    even: bool
    """Whether the largest halo is near the mean: it must not grow then, whatever else is won."""

    @classmethod
    def of(cls, first: VisitedParts, more: float = 1.0) -> Reference:
        """Of given parts; the cut may be `more` times theirs."""
        largest, copies = int(first.copies.max()), first.copies
        return cls(int(first.cut * more), max(largest, 1), max(int(copies.sum()), 1), largest <= UNEVEN * float(copies.mean()))

    def worth(self, visited: VisitedParts) -> float:
        """Smaller is better: largest halo, all copies and the cut, each over the reference's."""
        copies = visited.copies
        return int(copies.max()) / self.largest + TOTAL_WORTH * int(copies.sum()) / self.total + CUT_WORTH * visited.cut / max(self.cut, 1)


def limits_of(weights: Array, target: Array, train: bool) -> Array:
    """(k, c) int64 what each part may weigh: its share with tolerance, or the share rounded up where that is more."""
    share = np.outer(target, weights.sum(axis=0))
    tolerance = np.full(weights.shape[1], TOLERANCE)
    if train:
        tolerance[-1] = TRAIN_TOLERANCE
    limits: Array = np.maximum(np.floor(share * tolerance), np.ceil(share - 1e-9)).astype(np.int64)
    return limits


def refine(
    level: Level, start: VisitedParts, limits: Array, reference: Reference, *, seed: int, effort: RefineEffort | None = None
) -> VisitedParts:
    """Parts within `limits` (k, c), or as near as moves bring them: the smallest halos found with a cut within the reference's.

    Where no cut is within it the smallest cut counts.
    """
    effort = effort or RefineEffort()
    parts = len(limits)
    if parts == 1 or level.vertices <= parts:
        return start
    whole, level = level, without_isolated(level)
    now = best = balanced(level, start, limits, seed)
    least = score(level, best, limits, reference)
    for cycle in range(max(effort.cycles, 1)):
        candidates = []
        if effort.cycles:
            part = _cycle(level, now, limits, reference, seed=seed + 7919 * cycle, effort=effort)
            now = VisitedParts.of(level, part, parts)
            candidates.append(now)
        candidates.append(_annealed(level, now, limits, reference, seed=seed + cycle, effort=effort))
        for candidate in candidates:
            reached = score(level, candidate, limits, reference)
            if reached < least:
                best, least = candidate, reached
    if level is whole or (search.weigh(whole.weights, best.part, parts) <= limits).all():
        return best
    part = best.part.copy()
    search.balance(*whole.arrays, limits, part, seed)
    return VisitedParts.of(whole, part, parts)


def _annealed(level: Level, now: VisitedParts, limits: Array, reference: Reference, *, seed: int, effort: RefineEffort) -> VisitedParts:
    """With a smaller largest halo, and about the reference's cut at most."""
    part = now.part.copy()
    work = effort.work // max(effort.cycles, 1)
    budget = reference.cut - int((1.0 - effort.spend) * max(reference.cut - now.cut, 0))
    cut, copies = halos.anneal(*level.arrays, limits, part, seed, work, effort.heat, CUT_WORTH, effort.over_worth, budget)
    if cut <= reference.cut:
        return VisitedParts(part, cut, copies)
    # Single moves found no way back below the cut; several at a time may, and what they take below it goes to the halos.
    even = np.full(len(limits), PRICE, dtype=np.int64)
    search.improve(*level.arrays, limits, even, part, seed, effort.passes, effort.starts, effort.patience)
    cool, work = LAST_HEAT * effort.heat, work // LAST_SHARE
    return VisitedParts(part, *halos.anneal(*level.arrays, limits, part, seed, work, cool, CUT_WORTH, LAST_OVER_WORTH, reference.cut))


def promising(starts: tuple[VisitedParts, ...], reference: Reference) -> VisitedParts:
    """Of parts yet to be refined those with the smallest halos, unless their cut is too far above the reference's to come down."""

    def worth(start: VisitedParts) -> float:
        return reference.worth(start) + EXCESS_WORTH * max(start.cut / max(reference.cut, 1) - EXCESS, 0.0)

    return min(starts, key=worth)


def balanced(level: Level, start: VisitedParts, limits: Array, seed: int) -> VisitedParts:
    """Within the limits, one column after the other: training vertices go where room is made for them afterwards."""
    if (search.weigh(level.weights, start.part, len(limits)) <= limits).all():
        return start
    part = start.part.copy()
    for column in range(limits.shape[1] - 1, 0, -1):
        loose = limits * LOOSE
        loose[:, column] = limits[:, column]
        search.balance(*level.arrays, loose, part, seed)
    search.balance(*level.arrays, limits, part, seed)
    return VisitedParts.of(level, part, len(limits))


def _cycle(level: Level, now: VisitedParts, limits: Array, reference: Reference, *, seed: int, effort: RefineEffort) -> Array:
    """Down and up once; (n,) int32 parts."""
    parts = len(limits)
    most = np.maximum(limits.min(axis=0) // CLUSTERS_PER_PART, 1)
    price = _prices(now, parts, reference.cut if effort.priced else 0)
    hierarchy, coarse = coarsen(level, now.part.copy(), stop=max(COARSEST, COARSEST_PER_PART * parts), most=most, seed=seed)
    return climb(hierarchy, coarse, limits, price, seed=seed, effort=effort, budget=reference.cut)


def climb(hierarchy: Hierarchy, part: Array, limits: Array, price: Array, *, seed: int, effort: RefineEffort, budget: int = 0) -> Array:
    """From parts of the coarsest level, (n',), to those of the finest, with local search on each; annealing keeps the cut in `budget`."""
    work = effort.work // (COARSE_SHARE * max(effort.cycles, 1))
    heats = dict(enumerate(effort.coarse_heats, start=1))
    for number in range(len(hierarchy.levels) - 1, -1, -1):
        if number < len(hierarchy.groups):
            part = part[hierarchy.groups[number]]
        arrays = hierarchy.levels[number].arrays
        search.improve(*arrays, limits, price, part, seed + number, effort.passes, effort.starts, effort.patience)
        if heats.get(number):
            halos.anneal(*arrays, limits, part, seed, work, heats[number], COARSE_CUT_WORTH, COARSE_OVER_WORTH, budget)
    return part


def score(level: Level, visited: VisitedParts, limits: Array, reference: Reference) -> tuple[float, int, float, int]:
    """Smaller is better: how far above a limit, the cut above the reference, halos against the reference's, the cut."""
    over = float(np.maximum(search.weigh(level.weights, visited.part, len(limits)) / np.maximum(limits, 1), 1.0).max())
    grown = 1.0 if reference.even and int(visited.copies.max()) > reference.largest else 0.0
    return over, max(visited.cut - reference.cut, 0), grown + reference.worth(visited), visited.cut


def _prices(now: VisitedParts, parts: int, budget: int) -> Array:
    """(k,) edges of a part with a larger halo cost more, within bounds; all the same while the cut is above its budget."""
    if now.cut > budget:
        return np.full(parts, PRICE, dtype=np.int64)
    price: Array = np.clip(PRICE * now.copies / max(float(now.copies.mean()), 1.0), *PRICES).astype(np.int64)
    return price


def without_isolated(level: Level) -> Level:
    """Vertices without edges weigh nothing while the others move: they fill what is left afterwards, at no cost for the cut."""
    isolated = np.diff(level.indptr) == 0
    if not isolated.any():
        return level
    weights = np.ascontiguousarray(np.where(isolated[:, None], 0, level.weights))
    return Level(level.indptr, level.indices, level.edge_weights, weights)
