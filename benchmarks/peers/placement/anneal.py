"""Simulated annealing of one placement: what local search cannot climb out of. Pure; the seed decides, the time only cuts off."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from hyperscale.model.graph import BoolArray, IntArray
from hyperscale.planner.cost.objective import Costs, objectives
from hyperscale.planner.search.kernels.kernel import kernel_for

try:
    from benchmarks.peers.placement import _anneal
except ImportError:  # pragma: no cover - not compiled
    _anneal = None  # type: ignore[assignment] # None: it is not built, and numpy anneals instead

HOT: Final = 0.05
"""First temperature, part of the objective."""
COLD: Final = 5e-4
"""Last temperature."""
SLICE_STEPS: Final = 20_000
"""Steps between two looks at the clock, a few milliseconds."""
NEIGHBOURS: Final = 16
"""Half of the replacements come from this number of nodes with cheap links to one of the members."""
NUMPY_STEPS_RATIO: Final = 100
"""Time of one step of numpy in compiled steps."""


def anneal(
    costs: Costs,
    slots: IntArray,
    order: IntArray,
    fixed: BoolArray | None = None,
    *,
    seed: int,
    iterations: int,
    expired: Callable[[], bool] = lambda: False,
    hot: float = HOT,
    cold: float = COLD,
) -> tuple[IntArray, float]:
    """The best placement (k,) on a walk of `iterations` steps from `order` (k,), and its objective; never worse than `order`.

    fixed: (k,) ranks that stay and take no slot · hot, cold: first and last temperature, parts of the objective of `order`
    """
    start = float(objectives(costs, order[None, :])[0])
    stays = np.zeros(len(order), dtype=np.bool_) if fixed is None else fixed
    if not math.isfinite(start) or not (slots > 0).any() or stays.all() or start <= 0.0:
        return order, start
    kernel = kernel_for(costs, slots, len(order)) if _anneal is not None else None
    if kernel is None:
        return _anneal_numpy(costs, slots, order, stays, seed, max(1, iterations // NUMPY_STEPS_RATIO), expired)
    near = np.frombuffer(_anneal.neighbours(kernel, NEIGHBOURS), dtype=np.int32)
    walker, best_order, best, state = order.astype(np.int32), order.astype(np.int32), start, seed & 0xFFFFFFFFFFFFFFFF
    slices = max(1, math.ceil(iterations / SLICE_STEPS))
    heat = [start * hot * math.pow(cold / hot, part / slices) for part in range(slices + 1)]
    for part in range(slices):
        if expired():
            break
        steps = min(SLICE_STEPS, iterations - part * SLICE_STEPS)
        best, state = _anneal.anneal(kernel, walker, stays.view(np.uint8), near, state, steps, heat[part], heat[part + 1], best, best_order)
    solution: IntArray = best_order.astype(np.int64)
    return solution, float(objectives(costs, solution[None, :])[0])


def _anneal_numpy(
    costs: Costs, slots: IntArray, order: IntArray, fixed: BoolArray, seed: int, steps: int, expired: Callable[[], bool]
) -> tuple[IntArray, float]:
    """The same walk, one evaluation of the reference a step."""
    rng = np.random.default_rng(seed)
    free, usable = np.flatnonzero(~fixed), np.flatnonzero(slots > 0)
    now = best = float(objectives(costs, order[None, :])[0])
    walker, best_order, first = order.copy(), order.copy(), best * HOT
    for step in range(steps):
        if step % 64 == 0 and expired():
            break
        heat = first * math.pow(COLD / HOT, step / steps)
        moved = _moved(walker, free, usable, slots, rng)
        seconds = float(objectives(costs, moved[None, :])[0])
        if seconds < now - heat * math.log(1.0 - rng.random()):
            walker, now = moved, seconds
        if now < best:
            best_order, best = walker.copy(), now
    return best_order, best


def _moved(order: IntArray, free: IntArray, usable: IntArray, slots: IntArray, rng: np.random.Generator) -> IntArray:
    """A copy with one free rank elsewhere, or two of them swapped."""
    moved = order.copy()
    position = int(rng.choice(free))
    if len(free) > 1 and rng.random() < 0.2:
        other = int(rng.choice(free))
        moved[position], moved[other] = order[other], order[position]
        return moved
    candidate = int(rng.choice(usable))
    if int((order[free] == candidate).sum()) < slots[candidate]:
        moved[position] = candidate
    return moved
