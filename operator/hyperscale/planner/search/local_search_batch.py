"""Local improvement of many placements in lockstep: replace one worker's node at a time, then order the rings. Pure and deterministic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from hyperscale.model.graph import BoolArray, FloatArray, IntArray
from hyperscale.planner.cost.bounds import memory_may_limit
from hyperscale.planner.cost.costs import ExchangeVolumes
from hyperscale.planner.cost.objective import Costs, objectives, ring_costs, volumes
from hyperscale.planner.search.ring import ring_orders

SWEEPS: Final = 6
"""Passes over all positions; nearly every start is at its optimum after three."""
IMPROVES: Final = 1.0 - 1e-9
"""A move must win by more than rounding."""
CHECKED_MOVES: Final = 3
"""Best estimates per position that are evaluated exactly where memory may limit shares."""
BATCH_ELEMENTS: Final = 400_000
"""Numbers of one intermediate, starts × workers × candidates; more starts go in several batches."""
RACE_DIVISOR: Final = 3
"""After every pass the best third of the starts stays in the race."""
RACE_LEAST: Final = 4
"""The least number that always does."""


def polish_all(
    costs: Costs, slots: IntArray, orders: IntArray, fixed: BoolArray, sweeps: int = SWEEPS, stop: Callable[[], bool] = lambda: False
) -> tuple[IntArray, FloatArray]:
    """Improve every row of `orders` (B, k) by single replacements: placements (B, k) and objectives (B,). A row that drops out stays.

    costs: of m candidates · slots: (m,) of each, pinned ranks not counted · fixed: (k,) positions that stay
    stop: ends the search between two moves
    """
    best_orders = ring_orders(costs, orders, fixed)
    best = objectives(costs, best_orders)
    if not sweeps or not len(orders):
        return best_orders, best
    workers = orders.shape[1]
    certain = not memory_may_limit(costs, np.unique(np.concatenate((np.flatnonzero(slots > 0), orders.ravel()))), workers)
    racing = _distinct_rows(best_orders)
    step = max(1, BATCH_ELEMENTS // (workers * len(slots)))
    for _ in range(sweeps):
        before = best[racing]
        for start in range(0, len(racing), step):
            rows = racing[start : start + step]
            best_orders[rows], best[rows] = _sweep(costs, slots, best_orders[rows], best[rows], fixed, certain, stop)
        racing = _still_racing(best_orders, best, before, racing)
        if not len(racing) or stop():
            break
    return best_orders, best


def _distinct_rows(orders: IntArray) -> IntArray:
    """Positions of the first of every group of rows that are the same set, rising."""
    _, first = np.unique(np.sort(orders, axis=1), axis=0, return_index=True)
    return np.sort(first)


def _still_racing(orders: IntArray, best: FloatArray, before: FloatArray, racing: IntArray) -> IntArray:
    """Rows worth another pass: still improving, different, and among the best."""
    improved = racing[best[racing] < before * IMPROVES]
    if not len(improved):
        return improved
    different = improved[_distinct_rows(orders[improved])]
    ranking = different[np.argsort(best[different], kind="stable")]
    kept: IntArray = np.sort(ranking[: max(RACE_LEAST, len(racing) // RACE_DIVISOR)])
    return kept


def _sweep(
    costs: Costs, slots: IntArray, orders: IntArray, best: FloatArray, fixed: BoolArray, certain: bool, stop: Callable[[], bool]
) -> tuple[IntArray, FloatArray]:
    """One pass over all free positions of all rows, then the rings."""
    orders, best = orders.copy(), best.copy()
    rows = np.arange(len(orders))
    free = np.flatnonzero(~fixed)
    used = np.zeros((len(orders), len(slots)), dtype=np.int64)
    np.add.at(used, (np.repeat(rows, len(free)), orders[:, free].ravel()), 1)
    for position in free:
        if stop():
            break
        replaced = orders[:, position].copy()
        used[rows, replaced] -= 1
        chosen, seconds = _best_move(costs, orders, int(position), used >= slots, best, certain)
        better = seconds < best * IMPROVES
        orders[better, position] = chosen[better]
        best = np.where(better, seconds, best)
        used[rows, orders[:, position]] += 1
    turned = ring_orders(costs, orders, fixed)
    seconds = objectives(costs, turned)
    better = (seconds < best * IMPROVES) | ~np.isfinite(best)
    return np.where(better[:, None], turned, orders), np.where(better, seconds, best)


def _best_move(
    costs: Costs, orders: IntArray, position: int, forbidden: BoolArray, best: FloatArray, certain: bool
) -> tuple[IntArray, FloatArray]:
    """(B,) candidate for one position of every row and the objective with it."""
    estimates = replacements(costs, orders, position)
    estimates[forbidden] = np.inf
    rows = np.arange(len(orders))
    if certain:
        choice: IntArray = np.argmin(estimates, axis=1)
        return choice, estimates[rows, choice]
    tried = np.argsort(estimates, axis=1, kind="stable")[:, :CHECKED_MOVES]
    promising = np.take_along_axis(estimates, tried, axis=1) < best[:, None] * IMPROVES
    seconds = np.full(tried.shape, np.inf)
    row, column = np.nonzero(promising)
    moves = orders[row]
    moves[:, position] = tried[row, column]
    seconds[row, column] = objectives(costs, moves)
    first = np.argmin(seconds, axis=1)
    return tried[rows, first], seconds[rows, first]


def replacement_estimates(costs: Costs, order: IntArray, position: int) -> FloatArray:
    """(m,) objective with each candidate at `position` of `order` (k,); exact where memory limits no share."""
    estimates: FloatArray = replacements(costs, order[None, :], position)[0]
    return estimates


def replacements(costs: Costs, orders: IntArray, position: int | IntArray) -> FloatArray:
    """(B, m) the same for every row of `orders` (B, k); position: one for all rows, or (B,)."""
    workers = orders.shape[1]
    volume = volumes(costs, workers)
    weight, gpus = costs.weight, costs.gpus_per_worker
    stays = np.arange(workers) != np.broadcast_to(position, len(orders))[:, None]
    others = orders[stays].reshape(len(orders), workers - 1)
    theirs = weight[others]
    total = theirs.sum(axis=1)[:, None] + weight
    rate = costs.workload.epoch_flops / total
    overhead = volume.steps * costs.workload.step_overhead_seconds
    if costs.ranks(workers) == 1:
        alone: FloatArray = rate * (weight / costs.flops_per_second) + overhead
        return alone
    pairs = total**2 - ((theirs**2).sum(axis=1)[:, None] + weight**2) / gpus
    stay, come = _halo_with_each(costs, others, volume.halo_bytes / np.maximum(pairs, 1e-300), volume)
    halo = np.maximum(stay.max(axis=1, initial=0.0), come)
    idle = weight / costs.flops_per_second
    slowest = np.maximum((stay + rate[:, None, :] * idle[others][:, :, None]).max(axis=1, initial=0.0), come + rate * idle)
    ring = ring_with_each(costs, orders, position, volume)
    seconds: FloatArray = slowest + ring + overhead + costs.communication_weight * (halo + ring)
    if costs.any_blocked:
        # The diagonal of `blocked` is False, so that the others are not held against themselves.
        apart: BoolArray = np.any(costs.blocked[others[:, :, None], others[:, None, :]], axis=(1, 2), keepdims=True)[:, :, 0]
        return np.where(np.any(costs.blocked[others], axis=1) | apart, np.inf, seconds)
    return seconds


def _halo_with_each(costs: Costs, others: IntArray, scale: FloatArray, volume: ExchangeVolumes) -> tuple[FloatArray, FloatArray]:
    """Halo seconds with each candidate as the last worker: of the others (B, k - 1, m), and of the candidate (B, m)."""
    weight, gpus = costs.weight, costs.gpus_per_worker
    theirs, members = weight[others], np.arange(len(weight))
    pairs, same = (others[:, :, None], others[:, None, :]), others[:, :, None] == members
    alike = others[:, :, None] == others[:, None, :]
    apart, latency = costs.apart_seconds_per_byte[pairs], costs.latency_seconds[pairs]
    waits = costs.waits(volume.rounds)[others]
    own_wait = volume.rounds * costs.inside_latency_seconds if gpus > 1 else np.zeros(len(weight))
    if gpus == 1:
        itself = np.arange(others.shape[1])
        latency[:, itself, itself] = 0.0
    with_them = np.einsum("br,brm->bm", theirs, same.astype(np.float64)) + weight
    come = with_them * np.einsum("br,brm->bm", theirs, costs.apart_seconds_per_byte[others])
    if costs.railed:
        come *= costs.card_slowness(members, same.sum(axis=1) + 1)
    come += costs.inside_seconds_per_byte * (weight / gpus) * (with_them - weight / gpus)
    uplinks = _uplinks_with_each(costs, others) if len(costs.uplink_domains) else None
    come = (come if uplinks is None else np.maximum(come, uplinks[1])) * scale + np.maximum(waits.max(axis=1, initial=0.0), own_wait)
    of_node = (alike * theirs[:, None, :]).sum(axis=2)[:, :, None] + same * weight
    stay = costs.weighted_seconds_per_byte[others] + (apart * theirs[:, None, :]).sum(axis=2)[:, :, None]
    stay *= of_node * costs.card_slowness(others[:, :, None], alike.sum(axis=2)[:, :, None] + same) if costs.railed else of_node
    rank = (theirs / gpus)[:, :, None]
    stay += costs.inside_seconds_per_byte[others][:, :, None] * rank * (of_node - rank)
    stay = stay if uplinks is None else np.maximum(stay, uplinks[0])
    stay *= scale[:, None, :]
    stay += np.maximum(waits, volume.rounds * latency.max(axis=2, initial=0.0)[:, :, None])
    return stay, come


def _uplinks_with_each(costs: Costs, others: IntArray) -> tuple[FloatArray, FloatArray]:
    """Seconds per byte of what leaves a domain, times the weights exchanged: of the others (B, k - 1, m), of the candidate (B, m)."""
    weight = costs.weight
    theirs = weight[others]
    total = theirs.sum(axis=1)[:, None] + weight
    stay, come = np.zeros((*others.shape, len(weight))), np.zeros((len(others), len(weight)))
    for domains, uplinks in zip(costs.uplink_domains, costs.uplink_seconds_per_byte, strict=True):
        own, slow = domains[others], np.where(domains >= 0, uplinks[domains], 0.0)
        joins = own[:, :, None] == domains
        mass = ((own[:, :, None] == own[:, None, :]) * theirs[:, None, :]).sum(axis=2)[:, :, None] + joins * weight
        stay = np.maximum(stay, mass * (total[:, None, :] - mass) * slow[others][:, :, None])
        mass = (joins * theirs[:, :, None]).sum(axis=1) + weight
        come = np.maximum(come, mass * (total - mass) * slow)
    return stay, come


def ring_with_each(costs: Costs, orders: IntArray, position: int | IntArray, volume: ExchangeVolumes) -> FloatArray:
    """(B, m) allreduce seconds with each candidate at `position` of the ring; position: one for all rows, or (B,)."""
    positions = np.broadcast_to(position, len(orders))
    workers = orders.shape[1]
    seconds = np.empty((len(orders), len(costs.weight)))
    shares = _shares_nodes(costs, orders, positions)
    rows, candidates = np.nonzero(shares)
    # Which hops share a card, how many nodes there are and which inside counts all follow from the candidate: each ring is reckoned whole.
    step = max(1, BATCH_ELEMENTS // (workers * (workers if costs.railed else 1)))
    for start in range(0, len(rows), step):
        chosen, each = rows[start : start + step], candidates[start : start + step]
        joined = orders[chosen]
        joined[np.arange(len(chosen)), positions[chosen]] = each
        seconds[chosen, each] = ring_costs(costs, joined, volume)
    if len(rows) < seconds.size:
        apart = _ring_apart(costs, orders, positions, volume)
        np.copyto(seconds, apart, where=~shares)
    return seconds


def _shares_nodes(costs: Costs, orders: IntArray, positions: IntArray) -> BoolArray:
    """(B, m) True where a ring with the candidate at its position may share cards or uplinks; else each node has one worker."""
    rows, workers = orders.shape
    shares = np.zeros((rows, len(costs.weight)), dtype=np.bool_)
    if costs.railed or len(costs.uplink_domains) or workers == 1:
        shares[:] = True
        return shares
    others = orders[np.arange(workers) != positions[:, None]].reshape(rows, workers - 1)
    shares[np.arange(rows)[:, None], others] = True
    shares[shares.sum(axis=1) < workers - 1] = True
    return shares


def _ring_apart(costs: Costs, orders: IntArray, positions: IntArray, volume: ExchangeVolumes) -> FloatArray:
    """(B, m) allreduce seconds where each worker is on a node of its own, whichever candidate comes to the position."""
    rows, workers = orders.shape
    row, following = np.arange(rows), np.roll(orders, -1, axis=1)
    before, after = orders[row, positions - 1], following[row, positions]
    stays = np.ones(orders.shape, dtype=np.bool_)
    stays[row, positions] = stays[row, positions - 1] = False

    def slowest(hops: FloatArray) -> FloatArray:
        rest = np.where(stays, hops[orders, following], 0.0).max(axis=1)
        most: FloatArray = np.maximum(np.maximum(hops[before], hops[:, after].T), rest[:, None])
        return most

    staying = np.arange(workers) != positions[:, None]

    def widest(figures: FloatArray) -> FloatArray:
        """Of the insides of all members; only they have several ranks."""
        if costs.gpus_per_worker == 1:
            return np.zeros((rows, len(figures)))
        most: FloatArray = np.maximum(np.where(staying, figures[orders], 0.0).max(axis=1)[:, None], figures)
        return most

    return volume.allreduce_seconds(
        np.full((rows, len(costs.weight)), workers),
        slowest(costs.latency_seconds),
        widest(costs.inside_latency_seconds),
        slowest(costs.apart_seconds_per_byte),
        widest(costs.inside_seconds_per_byte),
        np.minimum(np.where(staying, costs.sharp_class[orders], len(costs.sharp_efficiencies)).min(axis=1)[:, None], costs.sharp_class),
    )
