"""Compiled annealing of several jobs' placements at once: their workers move to free nodes, change places, and turn in their rings.

Figures of one job are those of its search kernel (`planner/search/kernels/_kernel.pyx`); only the jobs that a move touches are figured
again. Nothing depends on addresses or time: same input, same output.
"""

from libc.math cimport exp, log
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free as release
from libc.string cimport memcpy

from hyperscale.planner.search.kernels._kernel cimport Instance, Kernel, ring_cost, set_cost
from hyperscale.planner.search.kernels._walks cimport below
from hyperscale.util._splitmix cimport draw, unit

cdef enum:
    RING_PERCENT = 12      # moves that only turn a part of a ring
    TRADE_PERCENT = 3      # moves that exchange all nodes of two jobs
    NEAR_PERCENT = 60      # of the other moves: the node is near to another worker of the job
cdef double BETTER = 1.0 - 1e-12


cdef struct Joint:
    int jobs
    int nodes
    int resources
    int near              # partners in a list
    Instance **q          # (J,)
    int *first            # (J + 1,) of each job's workers in `order`
    int *base             # (J + 1,) of each job's candidates in `node_of`
    const int *node_of    # node of each candidate
    const int *back       # (J, P) candidate of each node, -1 where the job cannot use it
    const int *partners   # (candidates, near) candidates of the same job, nearest first
    const double *weight  # (J,)
    const double *limit   # (J,) most seconds of the objective
    const double *demand  # (J, R) of a worker
    const int *most       # (J,) workers of a job on one node
    double *left          # (P, R) free now
    int *order            # candidates in ring order, all jobs
    int *here             # (J, P) workers of a job on a node
    double *apart         # (J,) seconds of the objective without the ring
    double *ring          # (J,) seconds of the objective in the ring
    int *trial            # scratch: two orders
    int *holders          # scratch (J,)


cdef inline double _ring(const Instance *q, const int *order) noexcept nogil:
    return (1.0 + q.communication_weight) * ring_cost(q, order)


cdef inline bint _has_room(const Joint *s, int j, int p, int out) noexcept nogil:
    """Whether node p can take a worker of job j, where a worker of job `out` (-1: none) leaves it."""
    cdef int r
    cdef double free
    if s.here[j * s.nodes + p] - (1 if out == j else 0) >= s.most[j]:
        return False
    for r in range(s.resources):
        free = s.left[p * s.resources + r]
        if out >= 0:
            free += s.demand[out * s.resources + r]
        if s.demand[j * s.resources + r] > free:
            return False
    return True


cdef inline void _put(Joint *s, int j, int p, int workers) noexcept nogil:
    cdef int r
    s.here[j * s.nodes + p] += workers
    for r in range(s.resources):
        s.left[p * s.resources + r] -= workers * s.demand[j * s.resources + r]


cdef int _holder(Joint *s, uint64_t *random, int j, int p) noexcept nogil:
    """A job other than j with a worker on node p; -1 where there is none."""
    cdef int i, count = 0
    for i in range(s.jobs):
        if i != j and s.here[i * s.nodes + p]:
            s.holders[count] = i
            count += 1
    return s.holders[below(random, count)] if count else -1


cdef bint _turn(Joint *s, uint64_t *random, double heat) noexcept nogil:
    """Reverse a part of one ring, or exchange two of its workers; whether that was done."""
    cdef int j = below(random, s.jobs), k = s.q[j].k, a, b, i, swap
    cdef double ring
    if k < 4:
        return False
    memcpy(s.trial, s.order + s.first[j], k * sizeof(int))
    a, b = below(random, k), below(random, k)
    if a == b:
        return False
    if a > b:
        a, b = b, a
    if below(random, 2):
        swap = s.trial[a]
        s.trial[a], s.trial[b] = s.trial[b], swap
    else:
        i = b
        while a < i:
            swap = s.trial[a]
            s.trial[a], s.trial[i] = s.trial[i], swap
            a, i = a + 1, i - 1
    ring = _ring(s.q[j], s.trial)
    if s.weight[j] * (ring - s.ring[j]) > heat or s.apart[j] + ring > s.limit[j]:
        return False
    s.ring[j] = ring
    memcpy(s.order + s.first[j], s.trial, k * sizeof(int))
    return True


cdef bint _trade(Joint *s, uint64_t *random, double heat) noexcept nogil:
    """Exchange all nodes of two jobs with as many workers that take as much; whether that was done."""
    cdef int i = below(random, s.jobs), j = below(random, s.jobs), k = s.q[i].k, r, p
    cdef int *one = s.trial
    cdef int *other = s.trial + k
    cdef double apart_i, apart_j, ring_i, ring_j
    if i == j or s.q[j].k != k or s.most[i] != s.most[j]:
        return False
    for r in range(s.resources):
        if s.demand[i * s.resources + r] != s.demand[j * s.resources + r]:
            return False
    for r in range(k):
        one[r] = s.back[i * s.nodes + s.node_of[s.base[j] + s.order[s.first[j] + r]]]
        other[r] = s.back[j * s.nodes + s.node_of[s.base[i] + s.order[s.first[i] + r]]]
        if one[r] < 0 or other[r] < 0:
            return False
    apart_i, ring_i = set_cost(s.q[i], one), _ring(s.q[i], one)
    apart_j, ring_j = set_cost(s.q[j], other), _ring(s.q[j], other)
    if (s.weight[i] * (apart_i + ring_i - s.apart[i] - s.ring[i]) + s.weight[j] * (apart_j + ring_j - s.apart[j] - s.ring[j]) > heat
            or apart_i + ring_i > s.limit[i] or apart_j + ring_j > s.limit[j]):
        return False
    memcpy(s.order + s.first[i], one, k * sizeof(int))
    memcpy(s.order + s.first[j], other, k * sizeof(int))
    for p in range(s.nodes):
        r = s.here[i * s.nodes + p]
        s.here[i * s.nodes + p] = s.here[j * s.nodes + p]
        s.here[j * s.nodes + p] = r
    s.apart[i], s.ring[i], s.apart[j], s.ring[j] = apart_i, ring_i, apart_j, ring_j
    return True


cdef bint _move(Joint *s, uint64_t *random, double heat) noexcept nogil:
    """Put one worker on another node, in place of another job's worker where it is full; whether that was done."""
    cdef int j = below(random, s.jobs), k = s.q[j].k, m = s.q[j].m, r = below(random, k), c, p, old, i, at, x, d, count
    cdef int *one = s.trial
    cdef int *other
    cdef double apart, ring, apart_i = 0.0, ring_i = 0.0, change
    old = s.node_of[s.base[j] + s.order[s.first[j] + r]]
    if k > 1 and below(random, 100) < NEAR_PERCENT:
        x = (r + 1 + below(random, k - 1)) % k
        c = s.partners[(s.base[j] + s.order[s.first[j] + x]) * s.near + below(random, s.near)]
    else:
        c = below(random, m)
    p = s.node_of[s.base[j] + c]
    if p == old:
        return False
    memcpy(one, s.order + s.first[j], k * sizeof(int))
    one[r] = c
    i = -1
    if not _has_room(s, j, p, -1):
        i = _holder(s, random, j, p)
        if i < 0:
            return False
        d = s.back[i * s.nodes + old]
        if d < 0 or not _has_room(s, j, p, i) or not _has_room(s, i, old, j):
            return False
    apart, ring = set_cost(s.q[j], one), _ring(s.q[j], one)
    if apart + ring > s.limit[j]:
        return False
    change = s.weight[j] * (apart + ring - s.apart[j] - s.ring[j])
    if i >= 0:
        other = s.trial + k
        memcpy(other, s.order + s.first[i], s.q[i].k * sizeof(int))
        count = 1 + below(random, s.here[i * s.nodes + p])
        for at in range(s.q[i].k):
            if s.node_of[s.base[i] + other[at]] == p:
                count -= 1
                if count == 0:
                    other[at] = d
                    break
        apart_i, ring_i = set_cost(s.q[i], other), _ring(s.q[i], other)
        if apart_i + ring_i > s.limit[i]:
            return False
        change += s.weight[i] * (apart_i + ring_i - s.apart[i] - s.ring[i])
    if change > heat:
        return False
    memcpy(s.order + s.first[j], one, k * sizeof(int))
    s.apart[j], s.ring[j] = apart, ring
    _put(s, j, old, -1)
    _put(s, j, p, 1)
    if i >= 0:
        memcpy(s.order + s.first[i], other, s.q[i].k * sizeof(int))
        s.apart[i], s.ring[i] = apart_i, ring_i
        _put(s, i, p, -1)
        _put(s, i, old, 1)
    return True


cdef double _total(const Joint *s) noexcept nogil:
    cdef int j
    cdef double total = 0.0
    for j in range(s.jobs):
        total += s.weight[j] * (s.apart[j] + s.ring[j])
    return total


cdef double _walk(Joint *s, uint64_t random, long long steps, double hot, double cold, int *best_order) noexcept nogil:
    """Least total on the way, and its orders."""
    cdef long long step
    cdef int kind
    cdef double best = _total(s), now = best, heat = 0.0, ratio = log(cold / hot) if hot > 0.0 else 0.0, unit_heat = best / s.jobs
    cdef bint moved
    for step in range(steps):
        if hot > 0.0:
            if not step & 63:
                heat = unit_heat * hot * exp(ratio * step / steps)
        kind = below(&random, 100)
        # A move may make the sum worse by heat × −ln(u): that is Metropolis's rule.
        if kind < RING_PERCENT:
            moved = _turn(s, &random, -heat * log(unit(&random)))
        elif kind < RING_PERCENT + TRADE_PERCENT:
            moved = _trade(s, &random, -heat * log(unit(&random)))
        else:
            moved = _move(s, &random, -heat * log(unit(&random)))
        if moved:
            now = _total(s)
            if now < best * BETTER:
                best = now
                memcpy(best_order, s.order, s.first[s.jobs] * sizeof(int))
    return best


def anneal(list kernels, const int[::1] node_of, const int[:, ::1] back, const int[:, ::1] partners, const double[::1] weight,
           const double[::1] limit, const double[:, ::1] demand, const int[::1] most, double[:, ::1] left, int[::1] order, double[::1] seconds,
           uint64_t seed, long long steps, double hot, double cold):
    """Least weighted sum of the objectives after `steps` moves from `order`, which becomes the placements of that sum.

    node_of: node of each job's candidates, one job after the other · back: (J, P) the candidate of each node, -1: none
    partners: (candidates, near) nearest candidates of the same job · limit: (J,) most seconds of each objective
    demand: (J, R) of a worker · most: (J,) workers of one job on a node · left: (P, R) free beside `order`; it is changed
    seconds: (J,) objective of each of these placements, written
    hot, cold: first and last temperature, part of the mean job's weighted objective.
    Raises MemoryError, and ValueError where sizes do not fit.
    """
    cdef Joint s
    cdef int jobs = len(kernels), j, at, total = 0, candidates = 0, widest = 0, p
    cdef Kernel kernel
    cdef double best
    for item in kernels:
        kernel = item
        total += kernel.q.k
        candidates += kernel.q.m
        widest = max(widest, kernel.q.k)
    if (not jobs or len(order) != total or len(node_of) != candidates or back.shape[0] != jobs or partners.shape[0] != candidates
            or len(weight) != jobs or len(seconds) != jobs or len(limit) != jobs or demand.shape[0] != jobs or len(most) != jobs
            or left.shape[0] != back.shape[1] or left.shape[1] != demand.shape[1] or not partners.shape[1] or not left.shape[0]
            or not left.shape[1]):
        raise ValueError("sizes of jobs, candidates and nodes do not fit")
    s.jobs, s.nodes, s.resources, s.near = jobs, back.shape[1], demand.shape[1], partners.shape[1]
    s.q = <Instance **> calloc(jobs, sizeof(void *))
    s.first = <int *> calloc(3 * jobs + 2 + 2 * total + 2 * widest + <size_t> jobs * s.nodes + 8, sizeof(int))
    s.apart = <double *> calloc(2 * jobs, sizeof(double))
    if s.q == NULL or s.first == NULL or s.apart == NULL:
        release(s.q)
        release(s.first)
        release(s.apart)
        raise MemoryError()
    s.base = s.first + jobs + 1
    s.holders = s.base + jobs + 1
    s.order = s.holders + jobs
    cdef int *found = s.order + total
    s.trial = found + total
    s.here = s.trial + 2 * widest
    s.ring = s.apart + jobs
    s.node_of, s.back, s.partners = &node_of[0], &back[0, 0], &partners[0, 0]
    s.weight, s.limit, s.demand, s.most, s.left = &weight[0], &limit[0], &demand[0, 0], &most[0], &left[0, 0]
    for j in range(jobs):
        kernel = kernels[j]
        s.q[j] = &kernel.q
        s.first[j + 1], s.base[j + 1] = s.first[j] + kernel.q.k, s.base[j] + kernel.q.m
    try:
        for j in range(jobs):
            for at in range(s.first[j], s.first[j + 1]):
                if not 0 <= order[at] < s.q[j].m:
                    raise ValueError("a worker is on no candidate")
                s.order[at] = found[at] = order[at]
                p = s.node_of[s.base[j] + order[at]]
                if not 0 <= p < s.nodes:
                    raise ValueError("a candidate is on no node")
                s.here[j * s.nodes + p] += 1
            s.apart[j], s.ring[j] = set_cost(s.q[j], s.order + s.first[j]), _ring(s.q[j], s.order + s.first[j])
        with nogil:
            best = _walk(&s, seed, steps, hot, cold, found)
        for at in range(total):
            order[at] = found[at]
        for j in range(jobs):
            seconds[j] = set_cost(s.q[j], found + s.first[j]) + _ring(s.q[j], found + s.first[j])
    finally:
        release(s.q)
        release(s.first)
        release(s.apart)
    return best
