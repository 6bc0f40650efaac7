"""Compiled annealing of the largest halo: single moves across borders, accepted by a temperature that falls, never above the cut's budget.

All of it follows from the arguments: chance is a seed, nothing looks at a clock, no function of the C library is asked for a number.
Somewhat long: C inlines the steps of a move only within one file.
Notation as in `_parts.pxd`.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint64_t

from hyperscale.training.partition._parts cimport NONE, Parts, _borrow, _carry, _fits, _give_back
from hyperscale.util._splitmix cimport draw

cdef double LOG2 = 0.6931471805599453
cdef int64_t BLOCK = 256
cdef uint64_t LOW = 4294967295
cdef double LEAST_TRIED = 0.1   # of the moves between parts whose halos do not matter: room and cut are won there
cdef double SOFT = 0.9          # of the work, in which the cut may be above its budget at a cost
cdef double NEVER = 1e9         # what an edge above the budget costs after that

cdef extern from *:
    int __builtin_clzll(unsigned long long) nogil


cdef struct State:
    Parts of
    int32_t *count                # (n, k) neighbours in each part
    int32_t *bond                 # (n, k) weight of the edges to them; `count` itself where edges have no weights
    int64_t *copies               # (k,)
    double *power                 # (k,) the potential of each part
    int32_t *border               # vertices with neighbours in other parts
    int32_t *place                # (n,) where in `border`, NONE outside
    int64_t borders
    int64_t cut
    uint64_t *tried               # (k,) chance that a move out of the part or into it is looked at, of 2^32
    double top                    # the largest halo, as of the last look


cdef inline double _exponential(State *s) noexcept nogil:
    """About -log(u) of a uniform u: exact at powers of two, straight between them, the same on every machine."""
    cdef uint64_t drawn = draw(&s.of.random) | 1
    cdef int zeros = __builtin_clzll(drawn)
    cdef double part = <double> ((drawn << zeros) >> 11) / 4503599627370496.0   # [1, 2)
    return (zeros + 2.0 - part) * LOG2


cdef inline double _potential(State *s, int64_t copies) noexcept nogil:
    """The eighth power, with slope 1 at the largest halo: what a copy less is worth there."""
    cdef double x = copies / s.top
    x = x * x
    x = x * x
    return x * x * s.top / 8.0


cdef inline void _stand(State *s, int32_t v) noexcept nogil:
    """Into the border or out of it."""
    cdef int64_t degree = s.of.indptr[v + 1] - s.of.indptr[v]
    cdef bint at_border = s.count[<int64_t> v * s.of.k + s.of.part[v]] < degree
    cdef int32_t last
    if at_border == (s.place[v] != NONE):
        return
    if at_border:
        s.place[v] = <int32_t> s.borders
        s.border[s.borders] = v
        s.borders += 1
        return
    s.borders -= 1
    last = s.border[s.borders]
    s.border[s.place[v]] = last
    s.place[last] = s.place[v]
    s.place[v] = NONE


cdef inline void _shift(State *s, int32_t v, int to) noexcept nogil:
    """Move a vertex; loads, neighbours' counts and the border follow, copies do not."""
    cdef int own = s.of.part[v]
    cdef int64_t e
    cdef int32_t u, w
    s.cut += s.bond[<int64_t> v * s.of.k + own] - s.bond[<int64_t> v * s.of.k + to]
    _carry(&s.of, v, to)
    for e in range(s.of.indptr[v], s.of.indptr[v + 1]):
        u = s.of.indices[e]
        s.count[<int64_t> u * s.of.k + own] -= 1
        s.count[<int64_t> u * s.of.k + to] += 1
        if s.of.edge_weights != NULL:
            w = s.of.edge_weights[e]
            s.bond[<int64_t> u * s.of.k + own] -= w
            s.bond[<int64_t> u * s.of.k + to] += w
        _stand(s, u)
    _stand(s, v)


cdef inline double _worse(State *s, int32_t v, int own, int to, int64_t *out, int64_t *into) noexcept nogil:
    """What a move adds to the potential; fills what it adds to the copies of both parts."""
    cdef int64_t e
    cdef int32_t *theirs
    cdef int there
    out[0] = 1 if s.count[<int64_t> v * s.of.k + own] > 0 else 0
    into[0] = -1
    for e in range(s.of.indptr[v], s.of.indptr[v + 1]):
        theirs = s.count + <int64_t> s.of.indices[e] * s.of.k
        there = s.of.part[s.of.indices[e]]
        out[0] -= there != own and theirs[own] == 1
        into[0] += there != to and theirs[to] == 0
    return _potential(s, s.copies[own] + out[0]) + _potential(s, s.copies[to] + into[0]) - s.power[own] - s.power[to]


cdef int64_t _try(State *s, double heat, double cut_worth, double over_worth, int64_t budget) noexcept nogil:
    """One drawn move of a vertex at the border into a part beside it; returns the work it took: 1, and its neighbours where they were looked at.

    One draw serves for vertex, neighbour and whether the parts matter: high half, low half, and what the low half leaves over.
    """
    cdef uint64_t drawn = draw(&s.of.random), low, chance
    cdef int32_t v = s.border[((drawn >> 32) * <uint64_t> s.borders) >> 32]
    cdef int64_t first = s.of.indptr[v], degree = s.of.indptr[v + 1] - first, dearer, out, into
    cdef int own = s.of.part[v], to
    cdef double worse
    low = (drawn & LOW) * <uint64_t> degree
    to = s.of.part[s.of.indices[first + <int64_t> (low >> 32)]]
    if to == own:
        return 1
    chance = s.tried[own] if s.tried[own] > s.tried[to] else s.tried[to]
    if (low & LOW) >= chance or s.of.members[own] < 2 or not _fits(&s.of, v, to):
        return 1
    dearer = <int64_t> s.bond[<int64_t> v * s.of.k + own] - s.bond[<int64_t> v * s.of.k + to]
    worse = _worse(s, v, own, to, &out, &into) + cut_worth * dearer
    worse += over_worth * (max(s.cut + dearer - budget, 0) - max(s.cut - budget, 0))
    if worse <= 0 or worse <= heat * _exponential(s):
        s.copies[own] += out
        s.copies[to] += into
        s.power[own] = _potential(s, s.copies[own])
        s.power[to] = _potential(s, s.copies[to])
        _shift(s, v, to)
    return 1 + degree


cdef int64_t _largest(State *s) noexcept nogil:
    cdef int p
    cdef int64_t found = 0
    for p in range(s.of.k):
        found = max(found, s.copies[p])
    return found


cdef void _look(State *s) noexcept nogil:
    """Potentials as the largest halo now is; parts far below it are seldom tried."""
    cdef int p
    cdef double share
    s.top = max(_largest(s), 1)
    for p in range(s.of.k):
        s.power[p] = _potential(s, s.copies[p])
        share = s.copies[p] / s.top
        share = share * share
        s.tried[p] = <uint64_t> ((LEAST_TRIED + (1.0 - LEAST_TRIED) * share * share) * 4294967296.0)


cdef void _anneal(State *s, int64_t work, double hot, double cut_worth, double over_worth, int64_t budget) noexcept nogil:
    """Until the work is done, and up to a quarter longer while the cut is above its budget; the heat falls to a twentieth, about geometrically."""
    cdef int64_t left = work, number
    cdef double heat, done
    cdef int p
    while s.borders > 0 and (left > 0 or (s.cut > budget and left > -(work // 4))):
        _look(s)
        done = 1.0 - <double> left / work
        heat = 1.0 - 0.45 * min(done, 1.0)
        heat = hot * heat * heat * heat * heat * heat
        if done > SOFT:
            over_worth = NEVER
            if s.cut > budget:
                for p in range(s.of.k):
                    s.tried[p] = LOW + 1
        for number in range(BLOCK):
            if s.borders == 0:
                break
            left -= _try(s, heat, cut_worth, over_worth, budget)


cdef void _count(State *s) noexcept nogil:
    """Everything from the parts."""
    cdef int64_t v, e
    cdef int p
    cdef int32_t u
    s.borders = 0
    s.cut = 0
    for v in range(s.of.n):
        s.place[v] = NONE
        for e in range(s.of.indptr[v], s.of.indptr[v + 1]):
            u = s.of.indices[e]
            s.count[v * s.of.k + s.of.part[u]] += 1
            if s.of.edge_weights != NULL:
                s.bond[v * s.of.k + s.of.part[u]] += s.of.edge_weights[e]
            if s.of.part[u] != s.of.part[v]:
                s.cut += s.of.edge_weights[e] if s.of.edge_weights != NULL else 1
        _stand(s, <int32_t> v)
        if s.place[v] == NONE:
            continue
        for p in range(s.of.k):
            if p != s.of.part[v] and s.count[v * s.of.k + p] > 0:
                s.copies[p] += 1
    s.cut //= 2


def anneal(
    const int64_t[::1] indptr,
    const int32_t[::1] indices,
    const int32_t[::1] edge_weights,
    const int64_t[:, ::1] weights,
    const int64_t[:, ::1] limits,
    int32_t[::1] part,
    uint64_t seed,
    int64_t work,
    double hot,
    double cut_worth,
    double over_worth,
    int64_t budget,
):
    """Lower the largest halo and keep the cut (weight of edges between parts) within `budget`; changes `part` (n,).

    Returns (the cut, (k,) int64 vertices of other parts that each part needs a copy of).
    work: moves looked at, and their neighbours; hot: temperature at first, in copies of the largest halo, as are the worths of a cut edge
    (`cut_worth`) and of one above the budget (`over_worth`), which the cut may exceed for most of the time. A move never takes a part above
    its limits (k, c).
    """
    cdef State s
    cdef int64_t n = indptr.shape[0] - 1, k = limits.shape[0]
    found = np.zeros(k, dtype=np.int64)
    cdef int64_t[::1] copies = found
    if n < 1 or indices.shape[0] == 0:
        return 0, found
    cdef int32_t[::1] count = np.zeros(n * k, np.int32), border = np.empty(n, np.int32), place = np.empty(n, np.int32)
    cdef int32_t[::1] bond = np.zeros(n * k, np.int32) if edge_weights.shape[0] else count
    cdef double[::1] power = np.zeros(k)
    cdef uint64_t[::1] tried = np.zeros(k, np.uint64)
    if not _borrow(&s.of, indptr, indices, edge_weights, weights, limits, part, seed):
        raise MemoryError
    s.count, s.bond, s.border, s.place = &count[0], &bond[0], &border[0], &place[0]
    s.copies, s.power, s.tried = &copies[0], &power[0], &tried[0]
    with nogil:
        _count(&s)
        _anneal(&s, work, hot, cut_worth, over_worth, budget)
    _give_back(&s.of)
    return s.cut, found
