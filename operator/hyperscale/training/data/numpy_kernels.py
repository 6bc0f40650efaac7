"""What `_kernels` computes, without a compiler: the same answers, a hundred times slower where loops cannot be avoided."""

from __future__ import annotations

import numpy as np

from hyperscale.model.adjacency import Array


def csr(sources: Array, destinations: Array, vertices: int, both: bool) -> tuple[Array, Array]:
    """By sorting 64-bit keys, with ten times the memory."""
    if both:
        sources, destinations = np.concatenate([sources, destinations]), np.concatenate([destinations, sources])
    keep = sources != destinations
    keys = np.unique(destinations[keep].astype(np.int64) * vertices + sources[keep])
    rows, indices = np.divmod(keys, max(vertices, 1))
    indptr = np.zeros(vertices + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=vertices), out=indptr[1:])
    return indptr, indices.astype(np.int32)


def stream(
    indptr: Array,
    indices: Array,
    order: Array,
    capacity: Array,
    entry_capacity: Array,
    alpha: float,
    assignment: Array,
    load: Array,
    entry_load: Array,
) -> int:
    """One pass of Fennel in place, vertex by vertex."""
    parts, moved = len(capacity), 0
    share = np.cumsum(capacity / parts)[-1]
    share = capacity / share
    for vertex in order.tolist():
        row = indices[indptr[vertex] : indptr[vertex + 1]]
        old, degree = int(assignment[vertex]), len(row)
        if old >= 0:
            load[old] -= 1
            entry_load[old] -= degree
        placed = assignment[row]
        near = np.bincount(placed[placed >= 0], minlength=parts)
        price = (alpha * 1.5 * np.sqrt(load / share)).tolist()
        best = _best(near, price, (load + 1 <= capacity) & (entry_load + degree <= entry_capacity), old)
        if best < 0:
            best = old if old >= 0 else int(np.argmin(load / capacity))
        assignment[vertex] = best
        load[best] += 1
        entry_load[best] += degree
        moved += best != old
    return moved


def _best(near: Array, price: list[float], open_parts: Array, old: int) -> int:
    """The open part with the highest score, the old one of equals, else the first; -1 where none is open."""
    best, best_score = -1, 0.0
    for part in np.flatnonzero(open_parts).tolist():
        score = float(near[part]) - price[part]
        if best < 0 or score > best_score or (score == best_score and part == old):
            best, best_score = part, score
    return best


def cut(indptr: Array, indices: Array, assignment: Array, parts: int) -> tuple[int, Array]:
    """Undirected edges between parts, and copies that each part needs."""
    rows = np.repeat(assignment, np.diff(indptr))
    owners = np.repeat(np.arange(len(assignment), dtype=np.int64), np.diff(indptr))
    across = rows != assignment[indices]
    copies = np.unique(owners[across] * parts + assignment[indices][across]) % parts
    return int(across.sum()) // 2, np.bincount(copies, minlength=parts).astype(np.int64)
