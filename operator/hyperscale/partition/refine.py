"""Better parts from given ones: V-cycles with local search on every level, and annealing that lowers the largest halo.

A V-cycle joins vertices inside their parts, moves the joined ones, then finer and finer pieces (Walshaw 2004; Sanders and Schulz 2011).
Each cycle prices the edges of parts with a large halo higher than the others, so that the search takes them out of where they hurt most.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hyperscale.model.adjacency import Array
from hyperscale.partition.compiled import halos, search
from hyperscale.partition.levels import Hierarchy, Level, boundary, coarsen

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


@dataclass(frozen=True)
class Effort:
    """How long the search goes on; every figure is a count, so that the result does not depend on the machine."""

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
    priced: bool = True
    """Whether edges of parts with a large halo cost a cycle more."""


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
    def of(cls, level: Level, part: Array, parts: int, more: float = 1.0) -> Reference:
        """Of given parts; the cut may be `more` times theirs."""
        cut, copies = boundary(level, part, parts)
        largest = int(copies.max())
        return cls(int(cut * more), max(largest, 1), max(int(copies.sum()), 1), largest <= UNEVEN * float(copies.mean()))

    def worth(self, cut: int, copies: Array) -> float:
        """Smaller is better: largest halo, all copies, (k,), and the cut, each over the reference's."""
        return int(copies.max()) / self.largest + TOTAL_WORTH * int(copies.sum()) / self.total + CUT_WORTH * cut / max(self.cut, 1)


def limits_of(weights: Array, target: Array, train: bool) -> Array:
    """(k, c) int64 what each part may weigh: its share with tolerance, or the share rounded up where that is more."""
    share = np.outer(target, weights.sum(axis=0))
    tolerance = np.full(weights.shape[1], TOLERANCE)
    if train:
        tolerance[-1] = TRAIN_TOLERANCE
    limits: Array = np.maximum(np.floor(share * tolerance), np.ceil(share - 1e-9)).astype(np.int64)
    return limits


def refine(level: Level, part: Array, limits: Array, reference: Reference, *, seed: int, effort: Effort | None = None) -> Array:
    """(n,) int32 parts within `limits` (k, c), or as near as moves bring them: the smallest halos found with a cut within the reference's.

    Where no cut is within it the smallest cut counts.
    """
    effort = effort or Effort()
    parts = len(limits)
    found = np.array(part, dtype=np.int32)
    if parts == 1 or level.vertices <= parts:
        return found
    whole, level = level, without_isolated(level)
    balanced(level, found, limits, seed)
    best, best_score = found, score(level, found, limits, reference)
    for cycle in range(max(effort.cycles, 1)):
        candidates = []
        if effort.cycles:
            price = _prices(level, found, parts, reference.cut if effort.priced else 0)
            found = _cycle(level, found, limits, price, seed=seed + 7919 * cycle, effort=effort)
            candidates.append(found)
        candidates.append(_annealed(level, found, limits, reference, seed=seed + cycle, effort=effort))
        for candidate in candidates:
            seen = score(level, candidate, limits, reference)
            if seen < best_score:
                best, best_score = candidate.copy(), seen
    if level is not whole:
        search.balance(*whole.arrays, limits, best, seed)
    return best


def _annealed(level: Level, part: Array, limits: Array, reference: Reference, *, seed: int, effort: Effort) -> Array:
    """A copy with a smaller largest halo, and about the reference's cut at most."""
    found = part.copy()
    work = effort.work // max(effort.cycles, 1)
    saved = max(reference.cut - boundary(level, part, len(limits))[0], 0)
    budget = reference.cut - int((1.0 - effort.spend) * saved)
    halos.anneal(*level.arrays, limits, found, seed, work, effort.heat, CUT_WORTH, effort.over_worth, budget)
    if boundary(level, found, len(limits))[0] > reference.cut:
        # Single moves found no way back below the cut; several at a time may.
        even = np.full(len(limits), PRICE, dtype=np.int64)
        search.improve(*level.arrays, limits, even, found, seed, effort.passes, effort.starts, effort.patience)
    return found


def promising(level: Level, starts: tuple[Array, ...], parts: int, reference: Reference) -> Array:
    """Of parts yet to be refined those with the smallest halos, unless their cut is too far above the reference's to come down."""

    def worth(part: Array) -> float:
        cut, copies = boundary(level, part, parts)
        return reference.worth(cut, copies) + EXCESS_WORTH * max(cut / max(reference.cut, 1) - EXCESS, 0.0)

    return min(starts, key=worth)


def balanced(level: Level, part: Array, limits: Array, seed: int) -> None:
    """Into the limits, one column after the other: training vertices go where room is made for them afterwards."""
    for column in range(limits.shape[1] - 1, 0, -1):
        loose = limits * LOOSE
        loose[:, column] = limits[:, column]
        search.balance(*level.arrays, loose, part, seed)
    search.balance(*level.arrays, limits, part, seed)


def _cycle(level: Level, part: Array, limits: Array, price: Array, *, seed: int, effort: Effort) -> Array:
    """Down and up once."""
    parts = len(limits)
    most = np.maximum(limits.min(axis=0) // CLUSTERS_PER_PART, 1)
    hierarchy, coarse = coarsen(level, part.copy(), stop=max(COARSEST, COARSEST_PER_PART * parts), most=most, seed=seed)
    return climb(hierarchy, coarse, limits, price, seed=seed, effort=effort)


def climb(hierarchy: Hierarchy, part: Array, limits: Array, price: Array, *, seed: int, effort: Effort) -> Array:
    """From parts of the coarsest level, (n',), to those of the finest, with local search on each."""
    for number in range(len(hierarchy.levels) - 1, -1, -1):
        if number < len(hierarchy.groups):
            part = part[hierarchy.groups[number]]
        arrays = hierarchy.levels[number].arrays
        search.improve(*arrays, limits, price, part, seed + number, effort.passes, effort.starts, effort.patience)
    return part


def score(level: Level, part: Array, limits: Array, reference: Reference) -> tuple[float, int, float, int]:
    """Smaller is better: how far above a limit, the cut above the reference, halos against the reference's, the cut."""
    load = np.stack([np.bincount(part, weights=column, minlength=len(limits)) for column in level.weights.T], axis=1)
    over = float(np.maximum(load / np.maximum(limits, 1), 1.0).max())
    cut, copies = boundary(level, part, len(limits))
    grown = 1.0 if reference.even and int(copies.max()) > reference.largest else 0.0
    return over, max(cut - reference.cut, 0), grown + reference.worth(cut, copies), cut


def _prices(level: Level, part: Array, parts: int, budget: int) -> Array:
    """(k,) edges of a part with a larger halo cost more, within bounds; all the same while the cut is above its budget."""
    cut, copies = boundary(level, part, parts)
    if cut > budget:
        return np.full(parts, PRICE, dtype=np.int64)
    price: Array = np.clip(PRICE * copies / max(float(copies.mean()), 1.0), *PRICES).astype(np.int64)
    return price


def without_isolated(level: Level) -> Level:
    """Vertices without edges weigh nothing while the others move: they fill what is left afterwards, at no cost for the cut."""
    isolated = np.diff(level.indptr) == 0
    if not isolated.any():
        return level
    weights = np.ascontiguousarray(np.where(isolated[:, None], 0, level.weights))
    return Level(level.indptr, level.indices, level.edge_weights, weights)
