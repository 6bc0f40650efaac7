"""The search where GPU memory may limit shares: first as if it did not, which the compiled kernel can do, then as it is. Pure.

Good placements seldom run into the limit: their members are alike. What the first search finds is judged with the limits, and only where
they cost something the slower one follows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from hyperscale.model.api.job import Balance
from hyperscale.model.graph import IntArray
from hyperscale.planner.cost.bounds import memory_may_limit
from hyperscale.planner.cost.objective import Costs, largest_shares
from hyperscale.planner.search.kernels.kernel import COMPILED

ROUNDING: Final = 1.0 + 1e-9


def ways(costs: Costs, slots: IntArray, workers: int) -> list[tuple[Costs, IntArray]]:
    """Costs of m candidates and their slots (m,) to search with, one after the other; the last are the true ones."""
    true = (costs, slots)
    if not COMPILED or not memory_may_limit(costs, np.arange(len(slots)), workers):
        return [true]
    # Equal shares are fixed in advance: a node that cannot hold one has no slot.
    least = 1.0 / workers if costs.balance is Balance.EQUAL else 0.0
    true_slots = np.where(largest_shares(costs, workers) >= least, slots, 0)
    return [(replace(costs, memory_bytes=np.full(len(slots), np.inf)), true_slots), true]
