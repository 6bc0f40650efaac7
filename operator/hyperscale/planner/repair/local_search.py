"""Small local search around one placement: some positions take other nodes or change places, the others stay. Pure and deterministic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from hyperscale.model.graph import BoolArray, FloatArray, IntArray
from hyperscale.planner.cost.objective import Costs, objectives, volumes
from hyperscale.planner.repair.fixed_shares import held_objectives, held_replacements
from hyperscale.planner.search.improve import THOROUGH, improve, seated
from hyperscale.planner.search.kernels import kernel
from hyperscale.planner.search.local_search_batch import replacement_estimates

IMPROVES: Final = 1.0 - 1e-9
"""A change must win by more than rounding."""
CHECKED: Final = 3
"""Best estimates per position that are evaluated exactly: estimates do not know where GPU memory shifts work to others."""
SWEEPS: Final = 4
"""Passes over the free positions; nearly every placement is at its optimum after two."""
MOST_SWAPS: Final = 300
"""Pairs of free positions tried in one pass."""
ELEMENTS: Final = 24_000_000
"""Numbers that one call may touch, about 0.1 s: jobs of hundreds of workers get fewer passes and swaps, or none."""
WHOLE_ELEMENTS: Final = 200_000_000
"""The same where nodes share cards or uplinks: every estimate follows a ring whole. Beyond it lost ranks are filled by compiled greedy."""
GROWN: Final = THOROUGH._replace(elements=600_000_000)
"""Effort of that greedy's local search: one pass for 1,000 workers, several for 300; the deadline ends it before."""


@dataclass(frozen=True)
class AssignmentState:
    """Where ranks may go."""

    costs: Costs
    """Of m candidates."""
    room: IntArray
    """(m,) workers of this job that each candidate can host, those there now counted."""
    fixed: BoolArray
    """(k,) positions that stay whatever happens."""
    share: FloatArray | None = None
    """(k,) part of the vertices that each rank holds and keeps; None: dealt out again for every placement."""

    @property
    def size(self) -> int:
        """Candidates."""
        return len(self.room)

    @property
    def whole(self) -> bool:
        """Whether nodes share cards or uplinks, so that an estimate of one move follows the ring of all workers."""
        return self.costs.railed or len(self.costs.uplink_domains) > 0

    def objectives(self, orders: IntArray) -> FloatArray:
        """(B,) exact objective of every row of `orders` (B, k)."""
        return objectives(self.costs, orders) if self.share is None else held_objectives(self.costs, orders, self.share)

    def _estimates(self, order: IntArray, position: int, share: FloatArray | None) -> FloatArray:
        if share is None:
            return replacement_estimates(self.costs, order, position)
        return held_replacements(self.costs, order, position, share)

    def replacements(self, order: IntArray, position: int, count: int, without: int | None = None) -> tuple[IntArray, FloatArray]:
        """The `count` best candidates for one position of `order` (k,) and the exact objectives with them, best first.

        without: a candidate that is not wanted there, beside those that are full and the one that is there.
        """
        estimates = self._estimates(order, position, self.share)
        full = np.bincount(np.delete(order, position), minlength=self.size) >= self.room
        estimates[full] = np.inf
        estimates[order[position]] = np.inf
        if without is not None:
            estimates[without] = np.inf
        tried = np.argsort(estimates, kind="stable")[: max(count, CHECKED)]
        tried = tried[np.isfinite(estimates[tried])]
        if self.share is not None:
            return tried[:count], estimates[tried[:count]]  # exact: nothing shifts
        moves = np.repeat(order[None, :], len(tried), axis=0)
        moves[:, position] = tried
        seconds = self.objectives(moves)
        ranking = np.argsort(seconds, kind="stable")[:count]
        ranking = ranking[np.isfinite(seconds[ranking])]
        return tried[ranking], seconds[ranking]

    def rank_seconds(self, order: IntArray) -> FloatArray:
        """(k,) rough seconds of each rank: its arithmetic as if all parts were equal, and its part of the boundary data."""
        workers, costs = len(order), self.costs
        volume = volumes(costs, workers)
        pairs = np.ix_(order, order)
        compute: FloatArray = costs.workload.epoch_flops / (workers * costs.flops_per_second[order])
        traffic = volume.halo_bytes / workers * costs.seconds_per_byte[pairs].mean(axis=1)
        waits: FloatArray = (volume.rounds + volume.ring_latency_factor) * costs.latency_seconds[pairs].max(axis=1)
        seconds: FloatArray = compute + traffic + waits
        return seconds

    def filled(self, seats: IntArray, starts: int, stop: Callable[[], bool] = lambda: False) -> list[IntArray]:
        """Up to `starts` placements in which every position of `seats` (k,) that is -1 has a node, added one by one where it costs least.

        The first of them begins with the best node for the first gap, the others with the next best ones.
        stop: asked where the job is so large that compiled local search follows instead of `settle`
        """
        gaps = np.flatnonzero(seats < 0)
        if self.whole and len(gaps) * len(seats) ** 2 * self.size > WHOLE_ELEMENTS:
            return self._grown(seats, stop)
        affordable = max(1, ELEMENTS // (len(gaps) * len(seats) * self.size))
        first, _ = self._joined(seats, int(gaps[0]), min(starts, affordable))
        orders: list[IntArray] = []
        for choice in first.tolist():
            order = seats.copy()
            order[gaps[0]] = choice
            for gap in gaps[1:]:
                best, _ = self._joined(order, int(gap), 1)
                if not len(best):
                    break
                order[gap] = best[0]
            if (order >= 0).all():
                orders.append(order)
        return orders

    def _grown(self, seats: IntArray, stop: Callable[[], bool]) -> list[IntArray]:
        """The same by compiled greedy and local search, one placement or none."""
        ranks = np.flatnonzero(seats >= 0)
        left = self.room - np.bincount(seats[ranks], minlength=self.size)
        seeds = kernel.NO_START if len(ranks) else np.flatnonzero(left > 0)[:1]
        grown = kernel.greedy_all(self.costs, left, len(seats), seeds, seats[ranks])
        if not len(grown):
            return []
        return list(improve(self.costs, left, seated(grown, ranks, len(seats)), seats >= 0, GROWN, stop)[0])

    def _joined(self, order: IntArray, gap: int, count: int) -> tuple[IntArray, FloatArray]:
        """The best candidates to join those placed so far, judged as a job of that many workers."""
        placed = np.flatnonzero((order >= 0) | (np.arange(len(order)) == gap))
        partial = order[placed]
        position = int(np.searchsorted(placed, gap))
        seated = np.delete(partial, position)
        free = np.flatnonzero(np.bincount(seated, minlength=self.size) < self.room)
        if not len(free):
            return free, np.zeros(0)
        partial[position] = free[0]
        share = None if self.share is None else self.share[placed] / self.share[placed].sum()
        estimates = self._estimates(partial, position, share)[free]
        # A part of the job may not fit the memory that the whole one does: then everything is +inf and the order decides.
        ranking = np.argsort(estimates, kind="stable")[:count]
        return free[ranking], estimates[ranking]

    def swapped(self, order: IntArray, free: BoolArray) -> IntArray:
        """`order` (k,) after the best swaps among the positions where `free` (k,), until none improves."""
        positions = np.flatnonzero(free)
        left, right = np.triu_indices(len(positions), 1)
        affordable = min(MOST_SWAPS, ELEMENTS // (len(order) ** 2 * max(1, len(positions))))
        left, right = positions[left][:affordable], positions[right][:affordable]
        if not len(left):
            return order
        best = float(self.objectives(order[None, :])[0])
        rows = np.arange(len(left))
        for _ in range(len(positions)):
            moves = np.repeat(order[None, :], len(left), axis=0)
            moves[rows, left], moves[rows, right] = order[right], order[left]
            seconds = self.objectives(moves)
            choice = int(np.argmin(seconds))
            if not seconds[choice] < best * IMPROVES:
                break
            best, order = float(seconds[choice]), moves[choice]
        return order


def settle(board: AssignmentState, order: IntArray, free: BoolArray) -> IntArray:
    """A placement that no single replacement or swap of the positions where `free` (k,) improves; the others stay."""
    positions = np.flatnonzero(free & ~board.fixed)
    best = float(board.objectives(order[None, :])[0])
    one = max(1, len(positions) * len(order) * (board.size + CHECKED * len(order)))
    affordable = WHOLE_ELEMENTS // (one * len(order)) if board.whole else ELEMENTS // one
    for _ in range(min(SWEEPS, affordable)):
        before = best
        for position in positions:
            choices, seconds = board.replacements(order, int(position), 1)
            if len(choices) and (seconds[0] < best * IMPROVES or not np.isfinite(best)):
                order = order.copy()
                order[position], best = choices[0], float(seconds[0])
        order = board.swapped(order, free & ~board.fixed)
        best = float(board.objectives(order[None, :])[0])
        if not best < before * IMPROVES:
            break
    return order
