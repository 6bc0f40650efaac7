"""Compiled first parts: independent sets by least degree with the groups around them, and a stream of vertices one by one."""

import numpy as np

from libc.math cimport sqrt
from libc.stdint cimport int32_t, int64_t, uint8_t

from hyperscale.training.partition._parts cimport NONE


cdef struct Buckets:
    int32_t *head     # (degrees,) first vertex of each degree
    int32_t *next     # (n,)
    int32_t *last     # (n,)
    int32_t *degree   # (n,) of what is left; NONE: decided


cdef inline void _link(Buckets *b, int32_t v) noexcept nogil:
    cdef int32_t first = b.head[b.degree[v]]
    b.next[v] = first
    b.last[v] = NONE
    if first != NONE:
        b.last[first] = v
    b.head[b.degree[v]] = v


cdef inline void _unlink(Buckets *b, int32_t v) noexcept nogil:
    if b.last[v] != NONE:
        b.next[b.last[v]] = b.next[v]
    else:
        b.head[b.degree[v]] = b.next[v]
    if b.next[v] != NONE:
        b.last[b.next[v]] = b.last[v]


def greedy(const int64_t[::1] indptr, const int32_t[::1] indices, uint8_t[::1] chosen):
    """Again and again a vertex with the fewest undecided neighbours; sets `chosen` (n,), returns how many. O(n + m)."""
    cdef int64_t n = indptr.shape[0] - 1, i, e, f, size = 0, lowest = 0, most = 0
    cdef int32_t v, u, w
    cdef Buckets b
    for i in range(n):
        most = max(most, indptr[i + 1] - indptr[i])
    cdef int32_t[::1] head = np.full(most + 1, NONE, np.int32)
    cdef int32_t[:, ::1] numbers = np.empty((3, n), np.int32)
    b.head, b.next, b.last, b.degree = &head[0], &numbers[0, 0], &numbers[1, 0], &numbers[2, 0]
    with nogil:
        for i in range(n - 1, -1, -1):
            chosen[i] = 0
            b.degree[i] = <int32_t> (indptr[i + 1] - indptr[i])
            _link(&b, <int32_t> i)
        while lowest <= most:
            v = b.head[lowest]
            if v == NONE:
                lowest += 1
                continue
            _unlink(&b, v)
            b.degree[v] = NONE
            chosen[v] = 1
            size += 1
            for e in range(indptr[v], indptr[v + 1]):
                u = indices[e]
                if b.degree[u] == NONE:
                    continue
                _unlink(&b, u)
                b.degree[u] = NONE
                for f in range(indptr[u], indptr[u + 1]):
                    w = indices[f]
                    if b.degree[w] == NONE:
                        continue
                    _unlink(&b, w)
                    b.degree[w] -= 1
                    _link(&b, w)
                    lowest = min(lowest, b.degree[w])
    return size


def gather(
    const int64_t[::1] indptr,
    const int32_t[::1] indices,
    const int32_t[::1] edge_weights,
    const int64_t[:, ::1] weights,
    const uint8_t[::1] chosen,
    const int64_t[::1] most,
    int32_t[::1] group,
):
    """Each vertex to the chosen neighbour it is bound to most, per weight gathered there; alone where none has room. Returns the groups."""
    cdef int64_t n = indptr.shape[0] - 1, i, e
    cdef int columns = weights.shape[1], j
    cdef int32_t u, best, groups = 0
    cdef double rating, highest
    cdef bint weighted = edge_weights.shape[0] > 0, fits
    cdef int32_t[::1] number = np.empty(n, np.int32)
    cdef int64_t[:, ::1] heavy = np.array(weights, np.int64)
    with nogil:
        for i in range(n):
            group[i] = <int32_t> i
        for i in range(n):
            if chosen[i]:
                continue
            best = NONE
            highest = 0
            for e in range(indptr[i], indptr[i + 1]):
                u = indices[e]
                if not chosen[u]:
                    continue
                rating = (<double> edge_weights[e] if weighted else 1.0) / (heavy[u, 0] + 1)
                if rating <= highest:
                    continue
                fits = True
                for j in range(columns):
                    if heavy[u, j] + weights[i, j] > most[j]:
                        fits = False
                if fits:
                    best = u
                    highest = rating
            if best != NONE:
                group[i] = best
                for j in range(columns):
                    heavy[best, j] += weights[i, j]
        for i in range(n):
            if group[i] == i:
                number[i] = groups
                groups += 1
        for i in range(n):
            group[i] = number[group[i]]
    return groups


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
