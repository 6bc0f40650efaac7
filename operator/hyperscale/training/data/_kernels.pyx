"""Compiled loops over edges: CSR from edge lists, and a streaming partitioner for graphs that METIS has no memory for.

The callers (`edges_to_csr.py`, `streaming.py`) check shapes and ranges; nothing here looks at a clock, and chance comes in as an order.
"""

import numpy as np

from libc.math cimport sqrt
from libc.stdint cimport int32_t, int64_t


def csr(const int32_t[::1] sources, const int32_t[::1] destinations, int64_t vertices, bint both):
    """In-neighbours of each vertex, ascending, without loops and repetitions: (n + 1,) int64 and (e,) int32.

    Two counting sorts, by source, then by destination: linear whatever the degrees. Ids must be within 0..vertices-1.
    """
    cdef int64_t edges = sources.shape[0]
    first_np, out_np = np.zeros(vertices + 2, np.int64), np.zeros(vertices + 2, np.int64)
    cdef int64_t[::1] first = first_np, out = out_np
    cdef int64_t i
    with nogil:
        for i in range(edges):
            if sources[i] != destinations[i]:
                first[sources[i] + 2] += 1
                out[destinations[i] + 2] += 1
                if both:
                    first[destinations[i] + 2] += 1
                    out[sources[i] + 2] += 1
        for i in range(vertices):
            first[i + 2] += first[i + 1]
            out[i + 2] += out[i + 1]
    by_source_np = np.empty(first_np[vertices + 1], np.int32)
    cdef int32_t[::1] by_source = by_source_np
    with nogil:
        # After this loop first[v + 1] is the end of row v: the offsets by 2 above make first the row pointers again.
        for i in range(edges):
            if sources[i] != destinations[i]:
                by_source[first[sources[i] + 1]] = destinations[i]
                first[sources[i] + 1] += 1
                if both:
                    by_source[first[destinations[i] + 1]] = sources[i]
                    first[destinations[i] + 1] += 1
    indices_np = np.empty(len(by_source_np), np.int32)
    cdef int32_t[::1] indices = indices_np
    cdef int64_t v, at
    with nogil:
        for v in range(vertices):
            for at in range(first[v], first[v + 1]):
                indices[out[by_source[at] + 1]] = <int32_t> v
                out[by_source[at] + 1] += 1
    del by_source_np
    by_source = None
    indptr_np = np.zeros(vertices + 1, np.int64)
    cdef int64_t[::1] indptr = indptr_np
    cdef int64_t kept = 0
    cdef int32_t last
    with nogil:
        for v in range(vertices):
            last = -1
            for at in range(out[v], out[v + 1]):
                if indices[at] != last:
                    last = indices[at]
                    indices[kept] = last
                    kept += 1
            indptr[v + 1] = kept
    del indices
    if kept < len(indices_np):
        # In place where nobody else holds it; a copy would need the memory twice.
        indices_np.resize(kept, refcheck=False)
    return indptr_np, indices_np


def stream(
    const int64_t[::1] indptr,
    const int32_t[::1] indices,
    const int32_t[::1] order,
    const double[::1] capacity,
    const double[::1] entry_capacity,
    double alpha,
    int32_t[::1] assignment,
    int64_t[::1] load,
    int64_t[::1] entry_load,
):
    """One pass of Fennel (Tsourakakis et al., WSDM 2014) over `order`, in place; a vertex that has a part already leaves it first (restreaming).

    capacity, entry_capacity: (k,) most vertices and most entries of rows (both ends of edges) of each part; alpha: price of a
    vertex in a part is 3/2 alpha × sqrt(load / share), Fennel's with its exponent 3/2; a root is the same on every machine, a power need not be;
    with share = capacity over its mean. Returns how many vertices changed their part.
    """
    cdef int64_t n = order.shape[0], parts = capacity.shape[0], moved = 0
    near_np, price_np = np.zeros(parts, np.int64), np.zeros(parts, np.float64)
    cdef int64_t[::1] near = near_np
    cdef double[::1] price = price_np
    cdef double mean = 0.0, score, best_score
    cdef int64_t i, at, p, best, v, old, degree
    with nogil:
        for p in range(parts):
            mean += capacity[p] / parts
        for p in range(parts):
            price[p] = _price(load[p], capacity[p] / mean, alpha)
        for i in range(n):
            v = order[i]
            old = assignment[v]
            degree = indptr[v + 1] - indptr[v]
            if old >= 0:
                load[old] -= 1
                entry_load[old] -= degree
                price[old] = _price(load[old], capacity[old] / mean, alpha)
            for p in range(parts):
                near[p] = 0
            for at in range(indptr[v], indptr[v + 1]):
                p = assignment[indices[at]]
                if p >= 0:
                    near[p] += 1
            best = -1
            best_score = 0.0
            for p in range(parts):
                if load[p] + 1 > capacity[p] or entry_load[p] + degree > entry_capacity[p]:
                    continue
                score = near[p] - price[p]
                if best < 0 or score > best_score or (score == best_score and p == old):
                    best = p
                    best_score = score
            if best < 0:  # a hub that fits nowhere: where most room is
                best = old if old >= 0 else 0
                if old < 0:
                    for p in range(parts):
                        if load[p] / capacity[p] < load[best] / capacity[best]:
                            best = p
            assignment[v] = <int32_t> best
            load[best] += 1
            entry_load[best] += degree
            price[best] = _price(load[best], capacity[best] / mean, alpha)
            if best != old:
                moved += 1
    return moved


cdef inline double _price(int64_t load, double share, double alpha) noexcept nogil:
    return alpha * 1.5 * sqrt(load / share)


def cut(const int64_t[::1] indptr, const int32_t[::1] indices, const int32_t[::1] assignment, int64_t parts):
    """Undirected edges between parts, and (k,) int64 copies of foreign vertices that each part needs; parts ≤ 64."""
    cdef int64_t n = indptr.shape[0] - 1, v, at, crossing = 0
    cdef unsigned long long seen
    halo_np = np.zeros(parts, np.int64)
    cdef int64_t[::1] halo = halo_np
    cdef int32_t own, other
    with nogil:
        for v in range(n):
            own = assignment[v]
            seen = 0
            for at in range(indptr[v], indptr[v + 1]):
                other = assignment[indices[at]]
                if other != own:
                    crossing += 1
                    if not (seen >> other) & 1:
                        seen |= (<unsigned long long> 1) << other
                        halo[other] += 1
    return crossing // 2, halo_np
