"""Large-neighbourhood search by segments of the ring, whose best paths are found exactly. Pure and deterministic; the seed decides.

It climbs out of what single moves cannot. Where the slowest hop of the ring decides, hardly a candidate is near to both neighbours of a
place: paths for several places at once are.

One search of paths is exact where its work suffices: for some 600 steps along paths, and for more where few segments are free. Three free
neighbours in the ring get the best of all paths among 16 candidates. Bounds leave shared uplinks out: where those decide, few paths are
ruled out early, and a longer search ends before it has seen all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from hyperscale.model.graph import BoolArray, IntArray
from hyperscale.planner.cost.objective import Costs, objectives
from hyperscale.planner.search.kernels.kernel import kernel_for

if TYPE_CHECKING:
    from hyperscale.planner.search.kernels._kernel import Kernel

Int32Array = npt.NDArray[np.int32]

try:
    from hyperscale.planner.search.kernels import _segment
except ImportError:  # pragma: no cover - planner/search/kernels/kernel.py has warned
    _segment = None  # type: ignore[assignment] # `tournament` asks

HOT: Final = 0.02
"""First heat, part of the objective by which a path may be worse."""
COLD: Final = 5e-3
"""Last heat."""
SLICE_WORK: Final = 2_500
"""Work between two looks at the clock: some hundred microseconds. Where that takes longer, the compiled search looks at it, too."""
MIN_WORKERS: Final = 4
"""Fewer have one ring, and local search finds their best places."""
SEEDS: Final = 1000
"""Seeds of two rounds of a tournament differ by so much."""


def tournament(
    costs: Costs,
    slots: IntArray,
    orders: IntArray,
    fixed: BoolArray | None = None,
    *,
    seed: int,
    work: int,
    expired: Callable[[], bool] = lambda: False,
) -> tuple[IntArray, float]:
    """The best placement (k,) of walks from each of `orders` (B, k), best first, and its objective; never worse than any of them.

    Successive halving (Jamieson & Talwalkar 2016): the walks share the work of a round, and the better half continues to the next. Which
    start leads where is not known beforehand, but soon shows.

    fixed: (k,) ranks that stay and take no slot
    With fewer than two others, fewer than MIN_WORKERS or without the compiled kernel nothing is done.
    work:  inner steps of all rounds together
    """
    starts = objectives(costs, orders)
    first = int(np.argmin(starts))
    stays = np.zeros(orders.shape[1], dtype=np.bool_) if fixed is None else fixed
    if not math.isfinite(starts[first]) or starts[first] <= 0.0 or (~stays).sum() < 2 or orders.shape[1] < MIN_WORKERS:
        return orders[first], float(starts[first])
    kernel = kernel_for(costs, slots, orders.shape[1]) if _segment is not None else None
    if kernel is None:  # numpy is too slow for it
        return orders[first], float(starts[first])
    field = [
        _Walker(float(seconds), number, order.astype(np.int32))
        for number, (order, seconds) in enumerate(zip(orders, starts, strict=True))
        if math.isfinite(seconds)
    ]
    rounds = len(field).bit_length()
    for number in range(rounds):
        for walker in field:
            walker.walk(kernel, stays, seed + SEEDS * number, work // (rounds * len(field)), expired)
        field = sorted(field, key=lambda walker: (walker.seconds, walker.number))[: (len(field) + 1) // 2]
    best_order: IntArray = field[0].order.astype(np.int64)
    return best_order, float(objectives(costs, best_order[None, :])[0])


class _Walker:
    """One start of a tournament and the best that was found from it."""

    def __init__(self, seconds: float, number: int, order: Int32Array) -> None:
        self.seconds, self.number, self.order = seconds, number, order

    def walk(self, kernel: Kernel, stays: BoolArray, seed: int, work: int, expired: Callable[[], bool]) -> None:
        """So much work from the best so far, cooling from HOT to COLD."""
        at, best, seconds, done = self.order.copy(), self.order.copy(), self.seconds, 0
        state, rows = seed + self.number & 0xFFFFFFFFFFFFFFFF, stays.view(np.uint8)
        while done < work and not expired():
            heat = HOT * math.pow(COLD / HOT, done / work)
            most = min(SLICE_WORK, work - done)
            seconds, state, spent = _segment.segments(kernel, at, rows, state, most, heat, seconds, best, expired)
            done += spent
        self.order, self.seconds = best, seconds
