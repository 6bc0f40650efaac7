"""Search by pairs: two workers at a time go where both are best, found exactly. Pure and deterministic; the seed decides.

It climbs out of what single moves cannot. Beside a placement of which two are missing few candidates can stand at all, so that every trial
looks at thousands of pairs; where links have no structure that finds in a fraction of the time what annealing finds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from hyperscale.model.graph import BoolArray, IntArray
from hyperscale.plan.anneal import anneal
from hyperscale.plan.kernel import kernel_for
from hyperscale.plan.objective import Costs, objectives

try:
    from hyperscale.plan import _exchange
except ImportError:  # pragma: no cover - kernel.py has warned
    _exchange = None  # type: ignore[assignment] # the numpy path asks

HOT: Final = 0.02
"""First heat, part of the objective by which a pair may be worse."""
COLD: Final = 1e-3
"""Last heat."""
SLICE_WORK: Final = 20_000
"""Work between two looks at the clock, a millisecond or two."""


def exchange(
    costs: Costs,
    slots: IntArray,
    order: IntArray,
    fixed: BoolArray | None = None,
    *,
    seed: int,
    work: int,
    expired: Callable[[], bool] = lambda: False,
) -> tuple[IntArray, float]:
    """The best placement (k,) on a walk of `work` inner steps from `order` (k,), and its objective; never worse than `order`.

    fixed: (k,) ranks that stay and take no slot; with fewer than two others nothing is done
    """
    start = float(objectives(costs, order[None, :])[0])
    stays = np.zeros(len(order), dtype=np.bool_) if fixed is None else fixed
    if not math.isfinite(start) or start <= 0.0 or (~stays).sum() < 2:
        return order, start
    kernel = kernel_for(costs, slots, len(order)) if _exchange is not None else None
    if kernel is None:  # annealing is what numpy has for it
        return anneal(costs, slots, order, stays, seed=seed, iterations=work, expired=expired)
    walker, best_order, best, state = order.astype(np.int32), order.astype(np.int32), start, seed & 0xFFFFFFFFFFFFFFFF
    done, rows = 0, stays.view(np.uint8)
    while done < work and not expired():
        heat, slice_work = HOT * math.pow(COLD / HOT, done / work), min(SLICE_WORK, work - done)
        best, state, spent = _exchange.exchange(kernel, walker, rows, state, slice_work, heat, best, best_order)
        done += spent
    found: IntArray = best_order.astype(np.int64)
    return found, float(objectives(costs, found[None, :])[0])
