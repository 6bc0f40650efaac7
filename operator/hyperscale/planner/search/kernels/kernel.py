"""The search kernel: compiled where it can be, numpy elsewhere, with the same answers. Pure and deterministic.

Candidates are 0..m-1 of a `Costs`; an order is (k,) candidates in ring order; slots are (m,) workers that each candidate can take, not
counting ranks that stay. `_kernel.pxd` is the same for other compiled modules.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from hyperscale.model.api.job import Balance
from hyperscale.model.graph import BoolArray, FloatArray, IntArray
from hyperscale.planner.cost.bounds import memory_may_limit
from hyperscale.planner.cost.costs import compiled_tables
from hyperscale.planner.cost.objective import Costs, volumes
from hyperscale.planner.search.kernels import kernel_numpy

if TYPE_CHECKING:
    from hyperscale.planner.search.kernels._kernel import Kernel

try:
    from hyperscale.planner.search.kernels import _kernel

    COMPILED: Final = True
except ImportError:  # pragma: no cover - a machine without a compiler
    COMPILED = False  # type: ignore[misc] # one of the two
    warnings.warn("the compiled search kernel is missing: plans come from numpy, slower and somewhat worse", RuntimeWarning, stacklevel=1)

SWEEPS: Final = 12
"""Passes of local search; nearly every start is at its optimum after three."""
IMPROVES: Final = 1.0 - 1e-9
"""A pass must win by more than rounding, as in the compiled search."""
KEPT_KERNELS: Final = 12
"""Kernels and tables of one cluster's costs: a search asks for few worker counts at a time."""
NO_SLOTS: Final = b"tables"
"""Of tables, which serve all slots; no array of slots has these bytes."""
CANNOT_WORK: Final = 1e40
"""Seconds beyond which a compiled figure means +inf."""
NO_START: Final[IntArray] = np.zeros(0, dtype=np.int64)


def kernel_for(costs: Costs, slots: IntArray, workers: int) -> Kernel | None:
    """The compiled kernel of one worker count; None where numpy must answer: it is missing, or memory may limit shares.

    The costs keep it for the next search with these slots: all that a search leaves behind in it is the memory that it worked in.
    """
    key = workers, slots.tobytes()
    if key not in costs.compiled:
        if len(costs.compiled) >= KEPT_KERNELS:
            costs.compiled.clear()
        costs.compiled[key] = own_kernel(costs, slots, workers)
    kept: Kernel | None = costs.compiled[key]
    return kept


def own_kernel(costs: Costs, slots: IntArray, workers: int) -> Kernel | None:
    """Return a kernel of the caller's own, who may let it use other slots (`Kernel.use_slots`); None as in `kernel_for`."""
    if not COMPILED or memory_may_limit(costs, np.arange(len(slots)), workers):
        return None
    volume = volumes(costs, workers)
    tables: tuple[FloatArray, FloatArray] | None = costs.compiled.get((workers, NO_SLOTS))
    if tables is None:
        tables = costs.compiled[workers, NO_SLOTS] = compiled_tables(costs, workers)
    return _kernel.Kernel(
        np.ascontiguousarray(costs.flops_per_second, dtype=np.float64),
        np.ascontiguousarray(costs.weight, dtype=np.float64),
        costs.reach_seconds,
        costs.apart_seconds_per_byte,
        costs.inside_seconds_per_byte,
        slots.astype(np.int32),
        workers,
        costs.gpus_per_worker,
        costs.balance is Balance.EQUAL,
        volume.rounds,
        volume.halo_bytes,
        volume.ring_latency_factor,
        volume.ring_byte_factor,
        costs.workload.epoch_flops,
        volume.steps * costs.workload.step_overhead_seconds,
        costs.communication_weight,
        *tables,
        costs.filling_workers,
        np.ascontiguousarray(costs.uplink_domains, dtype=np.int32),
        np.ascontiguousarray(costs.uplink_seconds_per_byte, dtype=np.float64),
        costs.compiled_sharp_class,
    )


def objectives(costs: Costs, orders: IntArray) -> FloatArray:
    """(B,) objective of each row of `orders` (B, k); +inf where a placement cannot work."""
    kernel = kernel_for(costs, np.ones(len(costs.weight), dtype=np.int64), orders.shape[1]) if len(orders) else None
    if kernel is None:
        return kernel_numpy.objectives(costs, orders)
    seconds = np.empty(len(orders))
    kernel.objectives(_rows(orders), seconds)
    return _finite(seconds)


def seed_ranking(costs: Costs, slots: IntArray, workers: int) -> IntArray:
    """(u,) candidates with a slot, the most promising first member first (objective as if all were like it and its nearest)."""
    kernel = kernel_for(costs, slots, workers)
    if kernel is None:
        return kernel_numpy.seed_ranking(costs, slots, workers)
    ranking = np.empty(len(slots), dtype=np.int32)
    ranked: IntArray = ranking[: kernel.seed_ranking(ranking)].astype(np.int64)
    return ranked


def greedy_all(costs: Costs, slots: IntArray, workers: int, seeds: IntArray | None = None, start: IntArray = NO_START) -> IntArray:
    """(B, k) greedy from each of `seeds` (None: every candidate with a slot), or one row from `start` (p,), whose slots are not counted.

    Rows that got stuck, where no node had a slot or could reach all members, are left out.
    """
    seeds = np.flatnonzero(slots > 0) if seeds is None else seeds
    kernel = kernel_for(costs, slots, workers)
    if kernel is None or workers <= len(start):
        return kernel_numpy.greedy_all(costs, slots, workers, seeds, start)
    first = start[None, :] if len(start) else seeds[:, None]
    orders = np.zeros((len(first), workers), dtype=np.int32)
    orders[:, : first.shape[1]] = first
    filled = np.zeros(len(orders), dtype=np.int32)
    kernel.greedy(orders, first.shape[1], not len(start), filled)
    complete: IntArray = orders[filled == workers].astype(np.int64)
    return complete


def local_search(
    costs: Costs, slots: IntArray, orders: IntArray, fixed: BoolArray | None = None, sweeps: int = SWEEPS
) -> tuple[IntArray, FloatArray]:
    """Rows of `orders` (B, k) that neither a replacement of one worker nor a turn of the ring improves, and their objectives (B,).

    fixed: (k,) ranks that stay and take no slot
    """
    stays = np.zeros(orders.shape[1], dtype=np.bool_) if fixed is None else fixed
    kernel = kernel_for(costs, slots, orders.shape[1]) if len(orders) else None
    if kernel is None:
        return kernel_numpy.local_search(costs, slots, orders, stays, sweeps)
    rows, seconds = _rows(orders), np.empty(len(orders))
    kernel.local_search(rows, stays.view(np.uint8), sweeps, seconds)
    return rows.astype(np.int64), _finite(seconds)


def local_search_until(
    costs: Costs, slots: IntArray, order: IntArray, fixed: BoolArray, sweeps: int, elements: int, stop: Callable[[], bool]
) -> tuple[IntArray, FloatArray]:
    """`local_search` of one `order` (k,) that may end in the middle of a pass: placement (1, k) and objective (1,).

    elements: numbers to touch between two questions to `stop`, positions × workers × candidates
    """
    kernel = kernel_for(costs, slots, len(order))
    if kernel is None:
        raise ValueError("no compiled kernel answers for these costs")
    stays, step = fixed.view(np.uint8), max(1, elements // (len(order) * len(slots)))
    row, seconds = _rows(order[None, :]), np.empty(1)
    kernel.local_search(row, stays, 0, seconds)
    for _ in range(sweeps):
        before = best = float(seconds[0])
        for first in range(0, len(order), step):
            if stop():
                break
            best = kernel.replace(row, stays, first, min(len(order), first + step), best)
        kernel.local_search(row, stays, 0, seconds)
        if seconds[0] >= before * IMPROVES or stop():
            break
    return row.astype(np.int64), _finite(seconds)


def rings(costs: Costs, orders: IntArray, fixed: BoolArray | None = None) -> IntArray:
    """Every row of `orders` (B, k) in a better ring order; ranks where `fixed` (k,) stay."""
    stays = np.zeros(orders.shape[1], dtype=np.bool_) if fixed is None else fixed
    kernel = kernel_for(costs, np.ones(len(costs.weight), dtype=np.int64), orders.shape[1]) if len(orders) else None
    if kernel is None:
        return kernel_numpy.rings(costs, orders, stays)
    rows = _rows(orders)
    kernel.rings(rows, stays.view(np.uint8))
    return rows.astype(np.int64)


def _rows(orders: IntArray) -> np.ndarray[tuple[int, ...], np.dtype[np.int32]]:
    return np.array(orders, dtype=np.int32, order="C")


def _finite(seconds: FloatArray) -> FloatArray:
    seconds[seconds > CANNOT_WORK] = np.inf
    return seconds
