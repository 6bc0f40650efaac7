"""Compiled twin of `quadratic_numpy`: the same numbers in the same order of operations, hence the same bits."""

from libc.stdint cimport int64_t, uint64_t

import numpy as np

from hyperscale.util._splitmix cimport draw


cdef double _delta(double[:, ::1] flow, double[:, ::1] cost, int64_t[::1] place, Py_ssize_t r, Py_ssize_t s) noexcept nogil:
    """Change of the sum when r and s change places, in full."""
    cdef Py_ssize_t k, at, pr = place[r], ps = place[s]
    cdef double change
    change = (flow[r, r] - flow[s, s]) * (cost[ps, ps] - cost[pr, pr]) + (flow[r, s] - flow[s, r]) * (cost[ps, pr] - cost[pr, ps])
    for k in range(place.shape[0]):
        if k != r and k != s:
            at = place[k]
            change += (flow[k, r] - flow[k, s]) * (cost[at, ps] - cost[at, pr]) + (flow[r, k] - flow[s, k]) * (cost[ps, at] - cost[pr, at])
    return change


def tabu_search(double[:, ::1] flow, double[:, ::1] cost, int64_t[::1] kind, int64_t[::1] start, Py_ssize_t steps, seed):
    """Best places (n,) found by robust tabu search; `quadratic_numpy.tabu_search` says what is what."""
    cdef Py_ssize_t count = start.shape[0], step, i, j, r, s, least, spread
    cdef double now = 0.0, best = 0.0, change, chosen_change
    cdef bint barred, wanted, aspired, found
    cdef uint64_t state = <uint64_t> int(seed)
    place_array = np.array(start, dtype=np.int64)
    best_array = np.array(start, dtype=np.int64)
    cdef int64_t[::1] place = place_array, best_place = best_array
    cdef double[:, ::1] delta = np.zeros((count, count))
    cdef int64_t[:, ::1] until = np.zeros((count, count), dtype=np.int64)
    cdef Py_ssize_t patience = 5 * count * count
    least = 9 * count // 10
    spread = count // 5 + 2
    for i in range(count):
        for j in range(count):
            until[i, j] = -(count * i + j)
    with nogil:
        for i in range(count):
            for j in range(i + 1, count):
                delta[i, j] = _delta(flow, cost, place, i, j)
        for step in range(1, steps + 1):
            found = False
            wanted = False
            r = s = -1
            chosen_change = 0.0
            for i in range(count):
                for j in range(i + 1, count):
                    if kind[i] != kind[j]:
                        continue
                    change = delta[i, j]
                    barred = until[i, place[j]] >= step and until[j, place[i]] >= step
                    aspired = (until[i, place[j]] < step - patience and until[j, place[i]] < step - patience) or now + change < best
                    if (aspired and not wanted) or (aspired == wanted and (aspired or not barred) and (not found or change < chosen_change)):
                        found = True
                        wanted = aspired
                        r, s, chosen_change = i, j, change
            if not found:
                continue
            until[r, place[r]] = step + least + <Py_ssize_t>((draw(&state) >> 33) % <uint64_t>spread)
            until[s, place[s]] = step + least + <Py_ssize_t>((draw(&state) >> 33) % <uint64_t>spread)
            place[r], place[s] = place[s], place[r]
            now += chosen_change
            if now < best:
                best = now
                best_place[:] = place
            for i in range(count):
                for j in range(i + 1, count):
                    if i != r and i != s and j != r and j != s:
                        delta[i, j] += (
                            (flow[r, i] - flow[r, j] + flow[s, j] - flow[s, i])
                            * (cost[place[s], place[i]] - cost[place[s], place[j]] + cost[place[r], place[j]] - cost[place[r], place[i]])
                            + (flow[i, r] - flow[j, r] + flow[j, s] - flow[i, s])
                            * (cost[place[i], place[s]] - cost[place[j], place[s]] + cost[place[j], place[r]] - cost[place[i], place[r]])
                        )
                    else:
                        delta[i, j] = _delta(flow, cost, place, i, j)
    return best_array
