"""Numpy twin of the compiled `_quadratic`, and what both are: robust tabu search for quadratic assignment. Pure."""

from __future__ import annotations

import numpy as np

from hyperscale.model.adjacency import Array
from hyperscale.util.splitmix import SplitMix64


def tabu_search(flow: Array, cost: Array, kind: Array, start: Array, steps: int, seed: int) -> Array:
    """Places (n,) of the least sum of flow[p, q] · cost[place[p], place[q]] that were found (Taillard 1991, robust tabu search).

    flow:  (n, n) float64, of things
    cost:  (n, n) float64, of places
    kind:  (n,) int64; only things of one kind change places
    start: (n,) int64, a permutation
    steps: swaps; a step takes n² operations
    """
    count = len(start)
    place, best_place = start.copy(), start.copy()
    now = best = 0.0
    state = SplitMix64(seed)
    least, spread, patience = 9 * count // 10, count // 5 + 2, 5 * count * count
    until = -(count * np.arange(count)[:, None] + np.arange(count)[None, :])
    rows, columns = np.triu_indices(count, 1)
    same = kind[rows] == kind[columns]
    rows, columns = rows[same], columns[same]
    delta = np.array([_delta(flow, cost, place, int(i), int(j)) for i, j in zip(rows, columns, strict=True)])
    for step in range(1, steps + 1):
        there, back = until[rows, place[columns]], until[columns, place[rows]]
        aspired = ((there < step - patience) & (back < step - patience)) | (now + delta < best)
        open_moves = aspired if aspired.any() else ~((there >= step) & (back >= step))
        if not open_moves.any():
            continue
        chosen = int(np.argmin(np.where(open_moves, delta, np.inf)))
        r, s = int(rows[chosen]), int(columns[chosen])
        until[r, place[r]] = step + least + state.below(spread)
        until[s, place[s]] = step + least + state.below(spread)
        place[r], place[s] = place[s], place[r]
        now += float(delta[chosen])
        if now < best:
            best, best_place = now, place.copy()
        _update(flow, cost, place, (r, s), (rows, columns), delta)
    return best_place


def _delta(flow: Array, cost: Array, place: Array, r: int, s: int) -> float:
    """Change of the sum when r and s change places, in full, in the order of the compiled twin."""
    pr, ps = place[r], place[s]
    change = (flow[r, r] - flow[s, s]) * (cost[ps, ps] - cost[pr, pr]) + (flow[r, s] - flow[s, r]) * (cost[ps, pr] - cost[pr, ps])
    for k, at in enumerate(place):
        if k not in (r, s):
            change += (flow[k, r] - flow[k, s]) * (cost[at, ps] - cost[at, pr]) + (flow[r, k] - flow[s, k]) * (cost[ps, at] - cost[pr, at])
    return float(change)


def _update(flow: Array, cost: Array, place: Array, moved: tuple[int, int], pairs: tuple[Array, Array], delta: Array) -> None:
    """Changes of all swaps after r and s changed places: four differences for a pair without them (Taillard 1991, section 2.2)."""
    (r, s), (i, j) = moved, pairs
    apart = ~np.isin(i, moved) & ~np.isin(j, moved)
    a, b = i[apart], j[apart]
    pa, pb, pr, ps = place[a], place[b], place[r], place[s]
    delta[apart] += (flow[r, a] - flow[r, b] + flow[s, b] - flow[s, a]) * (cost[ps, pa] - cost[ps, pb] + cost[pr, pb] - cost[pr, pa]) + (
        flow[a, r] - flow[b, r] + flow[b, s] - flow[a, s]
    ) * (cost[pa, ps] - cost[pb, ps] + cost[pb, pr] - cost[pa, pr])
    for at in np.flatnonzero(~apart).tolist():
        delta[at] = _delta(flow, cost, place, int(i[at]), int(j[at]))
