"""Compiled beam search: paths of members grow by one at a time, and of all that are one longer the best different ones go on.

A path is scored as if it were a fair sample of the whole job: its slowest worker, the dearest boundary and the slowest of its hops, which are
the ring's; the last member closes it. Two paths of the same members that end alike are one. Candidates fall out as soon as what is known of
them is no better than the worst that would go on.
"""

from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free as release
from libc.string cimport memcpy

from hyperscale.plan._kernel cimport CANNOT_WORK, Instance, Kernel, Workspace

cdef int SPARE = 3      # children kept for every one that goes on: the same path's end comes from several parents


cdef struct Child:
    double score
    uint64_t key
    int state
    int candidate


cdef struct Beam:
    const Instance *q
    Workspace *ws
    int width
    int states
    double *hop           # (width, 2) the slowest hop of each path, latency and seconds per byte
    uint64_t *keys        # (width,) sum of the members' numbers, mixed
    int *members          # (width, k)
    double *sums          # (width, 2) of the weights and of their squares
    double *pay           # (width, k) weighted seconds per byte of each member to the others
    double *far           # (width, k) largest latency
    double *all_pay       # (width, m) the same as `pay` of every candidate
    double *all_far       # (width, m)
    Child *heap           # (SPARE * width,) the worst on top
    int heaped
    uint64_t *seen        # table of keys, twice as large as the heap, a power of two
    int table


cdef inline uint64_t _mixed(uint64_t number) noexcept nogil:
    """splitmix64 (Steele, Lea and Flood 2014), never 0."""
    cdef uint64_t z = (number + 1) * <uint64_t> 0x9E3779B97F4A7C15
    z = (z ^ (z >> 30)) * <uint64_t> 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * <uint64_t> 0x94D049BB133111EB
    return (z ^ (z >> 31)) | 1


cdef inline bint _worse(const Child *a, const Child *b) noexcept nogil:
    if a.score != b.score:
        return a.score > b.score
    if a.state != b.state:
        return a.state > b.state
    return a.candidate > b.candidate


cdef void _sink(Child *heap, int size, int at) noexcept nogil:
    cdef int child
    cdef Child moved = heap[at]
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and _worse(&heap[child + 1], &heap[child]):
            child += 1
        if not _worse(&heap[child], &moved):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = moved


cdef void _push(Beam *s, const Child *child) noexcept nogil:
    cdef int at, parent
    if s.heaped == SPARE * s.width:
        s.heap[0] = child[0]
        _sink(s.heap, s.heaped, 0)
        return
    at = s.heaped
    s.heaped += 1
    while at > 0:
        parent = (at - 1) // 2
        if not _worse(child, &s.heap[parent]):
            break
        s.heap[at] = s.heap[parent]
        at = parent
    s.heap[at] = child[0]


cdef double _score(const Beam *s, int state, int now, int c, double most) noexcept nogil:
    """Objective of the whole job as if the path and `c`, `now` members, were its fair sample; some value from `most` on where it is no less."""
    cdef const Instance *q = s.q
    cdef int j
    cdef size_t at = <size_t> state * q.k
    cdef const int *members = s.members + at
    cdef const double *lat = q.lat + <size_t> c * q.m
    cdef const double *spb = q.spb + <size_t> c * q.m
    cdef double w = q.weight[c], total = s.sums[2 * state] + w, squares = s.sums[2 * state + 1] + w * w, tax = q.communication_weight
    cdef double scale = q.halo_bytes * now / (q.k * max(total * total - squares, 1e-12 * total * total)), rate = q.epoch_flops * now / (total * q.k)
    cdef double halo = q.rounds * s.all_far[<size_t> state * q.m + c] + scale * w * s.all_pay[<size_t> state * q.m + c]
    cdef double worst = halo, slowest = halo + rate * w / q.speed[c], hop_lat = s.hop[2 * state], hop_spb = s.hop[2 * state + 1], ring, v
    if now > 1:
        hop_lat, hop_spb = max(hop_lat, lat[members[now - 2]]), max(hop_spb, spb[members[now - 2]])
    if now == q.k and now > 2:
        hop_lat, hop_spb = max(hop_lat, lat[members[0]]), max(hop_spb, spb[members[0]])
    ring = (1.0 + tax) * (q.ring_latency_factor * hop_lat + q.ring_byte_factor * hop_spb)
    if slowest + tax * worst + ring >= most:
        return most
    for j in range(now - 1):
        v = q.weight[members[j]]
        halo = q.rounds * max(s.far[at + j], lat[members[j]]) + scale * v * (s.pay[at + j] + w * spb[members[j]])
        worst = max(worst, halo)
        slowest = max(slowest, halo + rate * v / q.speed[members[j]])
        if slowest + tax * worst + ring >= most:
            return most
    return slowest + tax * worst + ring


cdef int _room(const Beam *s, int state, int now, int c) noexcept nogil:
    cdef int j, left = s.ws.room[c]
    for j in range(now - 1):
        if s.members[<size_t> state * s.q.k + j] == c:
            left -= 1
    return left


cdef void _expand(Beam *s, int now) noexcept nogil:
    """The best children of all paths, with `now` members each, into the heap."""
    cdef int state, i, c, capacity = SPARE * s.width
    cdef Child child
    cdef double most = CANNOT_WORK
    s.heaped = 0
    for state in range(s.states):
        for i in range(s.ws.u):
            c = s.ws.usable[i]
            child.score = _score(s, state, now, c, most)
            if child.score >= most or _room(s, state, now, c) <= 0:
                continue
            child.key, child.state, child.candidate = s.keys[state] + _mixed(c), state, c
            _push(s, &child)
            if s.heaped == capacity:
                most = min(most, s.heap[0].score)


cdef int _different(Beam *s, int now) noexcept nogil:
    """Sort the heap, best first, and move the best different paths of `now` members to its front, at the end different sets; how many."""
    cdef int i, size, kept = 0, slot
    cdef uint64_t key
    cdef Child moved
    for size in range(s.heaped - 1, 0, -1):
        moved = s.heap[0]
        s.heap[0] = s.heap[size]
        s.heap[size] = moved
        _sink(s.heap, size, 0)
    for i in range(s.table):
        s.seen[i] = 0
    for i in range(s.heaped):
        key = s.heap[i].key
        if now < s.q.k:  # where a path ends decides how it goes on
            key = _mixed(key + <uint64_t> s.heap[i].candidate)
        slot = <int> (key & <uint64_t> (s.table - 1))
        while s.seen[slot] != 0 and s.seen[slot] != key:
            slot = (slot + 1) & (s.table - 1)
        if s.seen[slot] == 0:
            s.seen[slot] = key
            s.heap[kept] = s.heap[i]
            kept += 1
            if kept == s.width:
                break
    return kept


cdef void _grow(const Beam *old, Beam *new, int now, int kept) noexcept nogil:
    """The paths that go on, with their sums."""
    cdef const Instance *q = old.q
    cdef int i, j, c, d, state
    cdef size_t at, before
    cdef double w
    cdef const double *lat
    cdef const double *spb
    new.states = kept
    for i in range(kept):
        state, c = old.heap[i].state, old.heap[i].candidate
        at, before, w = <size_t> i * q.k, <size_t> state * q.k, q.weight[c]
        lat, spb = q.lat + <size_t> c * q.m, q.spb + <size_t> c * q.m
        new.hop[2 * i], new.hop[2 * i + 1] = old.hop[2 * state], old.hop[2 * state + 1]
        if now > 1:
            d = old.members[before + now - 2]
            new.hop[2 * i], new.hop[2 * i + 1] = max(new.hop[2 * i], lat[d]), max(new.hop[2 * i + 1], spb[d])
        new.keys[i] = old.heap[i].key
        new.sums[2 * i], new.sums[2 * i + 1] = old.sums[2 * state] + w, old.sums[2 * state + 1] + w * w
        memcpy(new.members + at, old.members + before, (now - 1) * sizeof(int))
        new.members[at + now - 1] = c
        new.pay[at + now - 1], new.far[at + now - 1] = old.all_pay[<size_t> state * q.m + c], old.all_far[<size_t> state * q.m + c]
        for j in range(now - 1):
            d = new.members[at + j]
            new.pay[at + j], new.far[at + j] = old.pay[before + j] + w * spb[d], max(old.far[before + j], lat[d])
        for j in range(q.m):
            new.all_pay[<size_t> i * q.m + j] = old.all_pay[<size_t> state * q.m + j] + w * spb[j]
            new.all_far[<size_t> i * q.m + j] = max(old.all_far[<size_t> state * q.m + j], lat[j])


cdef bint _allocate(Beam *s, int width) noexcept nogil:
    cdef size_t m = s.q.m, k = s.q.k, w = width
    s.width, s.states, s.table = width, 0, 1
    while s.table < 2 * SPARE * width:
        s.table *= 2
    s.keys = <uint64_t *> calloc(w + s.table, sizeof(uint64_t))
    s.members = <int *> calloc(w * k, sizeof(int))
    s.sums = <double *> calloc(w * (4 + 2 * k + 2 * m), sizeof(double))
    s.heap = <Child *> calloc(SPARE * w, sizeof(Child))
    if s.keys == NULL or s.members == NULL or s.sums == NULL or s.heap == NULL:
        return False
    s.seen, s.pay = s.keys + w, s.sums + 2 * w
    s.far, s.all_pay, s.all_far, s.hop = s.pay + w * k, s.pay + 2 * w * k, s.pay + w * (2 * k + m), s.pay + w * (2 * k + 2 * m)
    return True


cdef void _free(Beam *s) noexcept nogil:
    release(s.keys)
    release(s.members)
    release(s.sums)
    release(s.heap)


def beam(Kernel kernel, int[:, ::1] orders):
    """How many rows of `orders` (width, k) were filled with different sets of candidates, each as a ring, most promising first; as wide as it has rows.

    Raises MemoryError, and ValueError where a row is not as long as the job has workers.
    """
    cdef Beam a, b
    cdef int now, kept = 0, i, k = kernel.q.k, width = orders.shape[0]
    if orders.shape[1] != k or width < 1:
        raise ValueError("the rows have another length than the job has workers")
    a.q = b.q = &kernel.q
    a.ws = b.ws = kernel.ws
    a.keys = b.keys = NULL
    a.members = b.members = NULL
    a.sums = b.sums = NULL
    a.heap = b.heap = NULL
    if not _allocate(&a, width) or not _allocate(&b, width):
        _free(&a)
        _free(&b)
        raise MemoryError()
    with nogil:
        a.states = 1
        for now in range(1, k + 1):
            _expand(&a, now)
            kept = _different(&a, now)
            _grow(&a, &b, now, kept)
            a, b = b, a
            if kept == 0:
                break
        for i in range(kept):
            memcpy(&orders[i, 0], a.members + <size_t> i * k, k * sizeof(int))
    _free(&a)
    _free(&b)
    return kept
