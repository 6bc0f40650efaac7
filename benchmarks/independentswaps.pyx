# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Larger independent sets: swaps of one for two and small kicks (Andrade, Resende and Werneck, J. Heuristics 2012).

What it does follows from the seed and the steps alone. Nothing that is shipped needs more than the greedy sets of
`hyperscale.training.partition._independent`.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc

from hyperscale.util._splitmix cimport draw

cdef enum:
    NONE = -1


cdef struct Swaps:
    const int64_t *indptr
    const int32_t *indices
    uint8_t *chosen
    int32_t *tight       # (n,) chosen neighbours
    int32_t *free_ones   # (n,) stack of vertices that may have none
    int64_t frees
    int32_t *doubtful    # (n,) stack of chosen vertices whose swap is to be looked at
    uint8_t *waiting     # (n,) on that stack
    int64_t doubts
    int32_t *mark        # (n,) stamp of the last look
    int32_t stamp
    int32_t *history     # what was done, v + 1 chosen, -(v + 1) given up
    int64_t done
    int64_t room
    uint64_t random
    int64_t size


cdef inline void _doubt(Swaps *s, int32_t v) noexcept nogil:
    if not s.waiting[v]:
        s.waiting[v] = 1
        s.doubtful[s.doubts] = v
        s.doubts += 1


cdef inline void _choose(Swaps *s, int32_t v) noexcept nogil:
    cdef int64_t e
    s.chosen[v] = 1
    s.size += 1
    if s.done < s.room:
        s.history[s.done] = v + 1
    s.done += 1
    for e in range(s.indptr[v], s.indptr[v + 1]):
        s.tight[s.indices[e]] += 1


cdef inline void _give_up(Swaps *s, int32_t v) noexcept nogil:
    cdef int64_t e, f
    cdef int32_t u
    s.chosen[v] = 0
    s.size -= 1
    if s.done < s.room:
        s.history[s.done] = -(v + 1)
    s.done += 1
    for e in range(s.indptr[v], s.indptr[v + 1]):
        u = s.indices[e]
        s.tight[u] -= 1
        if s.tight[u] == 0:
            if s.frees < s.room:
                s.free_ones[s.frees] = u
                s.frees += 1
        elif s.tight[u] == 1:
            # Its only chosen neighbour may now be worth two.
            for f in range(s.indptr[u], s.indptr[u + 1]):
                if s.chosen[s.indices[f]]:
                    _doubt(s, s.indices[f])
                    break


cdef void _take_free(Swaps *s) noexcept nogil:
    cdef int32_t v
    while s.frees > 0:
        s.frees -= 1
        v = s.free_ones[s.frees]
        if not s.chosen[v] and s.tight[v] == 0:
            _choose(s, v)
            _doubt(s, v)


cdef bint _swap(Swaps *s, int32_t x) noexcept nogil:
    """Give up x for two neighbours of it that hang on x alone and not on each other."""
    cdef int64_t e, f, loose = 0, near
    cdef int32_t v, w
    s.stamp += 1
    for e in range(s.indptr[x], s.indptr[x + 1]):
        if s.tight[s.indices[e]] == 1:
            loose += 1
            s.mark[s.indices[e]] = s.stamp
    if loose < 2:
        return False
    for e in range(s.indptr[x], s.indptr[x + 1]):
        v = s.indices[e]
        if s.tight[v] != 1:
            continue
        near = 1
        for f in range(s.indptr[v], s.indptr[v + 1]):
            if s.mark[s.indices[f]] == s.stamp:
                near += 1
        if near == loose:
            continue
        s.mark[v] = 0
        for f in range(s.indptr[v], s.indptr[v + 1]):
            s.mark[s.indices[f]] = 0
        for f in range(s.indptr[x], s.indptr[x + 1]):
            w = s.indices[f]
            if s.mark[w] == s.stamp:
                _give_up(s, x)
                _choose(s, v)
                _choose(s, w)
                _doubt(s, v)
                _doubt(s, w)
                _take_free(s)
                return True
    return False


cdef void _settle(Swaps *s) noexcept nogil:
    """Swaps until none is left."""
    cdef int32_t x
    while s.doubts > 0:
        s.doubts -= 1
        x = s.doubtful[s.doubts]
        s.waiting[x] = 0
        if s.chosen[x]:
            _swap(s, x)


cdef void _undo(Swaps *s) noexcept nogil:
    cdef int64_t e
    cdef int32_t v, step
    while s.done > 0:
        s.done -= 1
        step = s.history[s.done]
        v = (step if step > 0 else -step) - 1
        s.chosen[v] = step < 0
        s.size += 1 if step < 0 else -1
        for e in range(s.indptr[v], s.indptr[v + 1]):
            s.tight[s.indices[e]] += 1 if step < 0 else -1


cdef bint _kick(Swaps *s, int64_t n, int64_t number, int64_t best, int64_t *out) noexcept nogil:
    """Force in one of four drawn vertices, the one that has been out longest, and settle; a loss is kept at times, less likely the larger."""
    cdef int32_t v = NONE, u
    cdef int64_t e, before = s.size, loss
    for e in range(4):
        u = <int32_t> (draw(&s.random) % <uint64_t> n)
        if not s.chosen[u] and (v == NONE or out[u] < out[v]):
            v = u
    if v == NONE:
        return False
    s.done = 0
    for e in range(s.indptr[v], s.indptr[v + 1]):
        u = s.indices[e]
        if s.chosen[u]:
            _give_up(s, u)
            out[u] = number
    _choose(s, v)
    _doubt(s, v)
    _take_free(s)
    _settle(s)
    if s.size >= before or s.done > s.room:
        return True
    loss = (before - s.size) * (best - s.size)
    # On a large graph losses in many places would never be made good again.
    if draw(&s.random) % <uint64_t> ((1 + loss) * (1 + n / 500 * 4)) == 0:
        return True
    _undo(s)
    return True


def improve(const int64_t[::1] indptr, const int32_t[::1] indices, uint8_t[::1] chosen, uint64_t seed, int64_t kicks):
    """Swaps of one for two until none is left, then `kicks` tries; `chosen` (n,) never gets smaller. Returns its size."""
    cdef int64_t n = indptr.shape[0] - 1, i, e, best
    cdef Swaps s
    cdef uint8_t *kept
    cdef int64_t *out
    if n == 0:
        return 0
    s.indptr = &indptr[0]
    s.indices = &indices[0] if indices.shape[0] else NULL
    s.chosen = &chosen[0]
    s.room = 8 * n + 64
    s.tight = <int32_t *> calloc(n, sizeof(int32_t))
    s.free_ones = <int32_t *> malloc(s.room * sizeof(int32_t))
    s.doubtful = <int32_t *> malloc(n * sizeof(int32_t))
    s.waiting = <uint8_t *> calloc(n, 1)
    s.mark = <int32_t *> calloc(n, sizeof(int32_t))
    s.history = <int32_t *> malloc(s.room * sizeof(int32_t))
    kept = <uint8_t *> malloc(n)
    out = <int64_t *> calloc(n, sizeof(int64_t))
    if (s.tight == NULL or s.free_ones == NULL or s.doubtful == NULL or s.waiting == NULL or s.mark == NULL or s.history == NULL or kept == NULL
            or out == NULL):
        free(s.tight); free(s.free_ones); free(s.doubtful); free(s.waiting); free(s.mark); free(s.history); free(kept); free(out)
        raise MemoryError
    s.frees = 0
    s.doubts = 0
    s.stamp = 0
    s.done = 0
    s.size = 0
    s.random = seed
    with nogil:
        for i in range(n):
            if chosen[i]:
                s.size += 1
                _doubt(&s, <int32_t> i)
                for e in range(indptr[i], indptr[i + 1]):
                    s.tight[indices[e]] += 1
        _settle(&s)
        best = s.size
        for i in range(n):
            kept[i] = chosen[i]
        for i in range(kicks):
            _kick(&s, n, i + 1, best, out)
            if s.stamp > 2000000000:
                break
            if s.size > best:
                best = s.size
                for e in range(n):
                    kept[e] = chosen[e]
        for i in range(n):
            chosen[i] = kept[i]
    free(s.tight); free(s.free_ones); free(s.doubtful); free(s.waiting); free(s.mark); free(s.history); free(kept); free(out)
    return best
