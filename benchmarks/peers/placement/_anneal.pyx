"""Compiled simulated annealing of one job: replace a worker's node, swap two ranks, turn a part of the ring.

The threshold is drawn first, so that most moves are turned down before they are fully evaluated. What a step does follows from the seed and its
number alone, never from the time; the caller runs it in slices and may stop between two.
"""

from libc.math cimport exp, log
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free as release
from libc.string cimport memcpy

from hyperscale.planner.search.kernels._kernel cimport (
    Instance, Kernel, Workspace, class_row, hop_bytes, hop_lat, hop_spb, node_bytes, objective, reduce_seconds, ring_cost, set_cost,
)
from hyperscale.util._splitmix cimport draw, unit

cdef int NEAR = 16
cdef int REFRESH = 512
cdef double BETTER = 1.0 - 1e-12


cdef inline int below(uint64_t *random, int count) noexcept nogil:
    """A number in [0, count)."""
    return <int> (((draw(random) >> 32) * <uint64_t> count) >> 32)


cdef struct Walk:
    const Instance *q
    Workspace *ws
    const unsigned char *fixed
    uint64_t random
    int moves             # accepted since the sums were last made afresh
    int nears             # neighbours listed for each candidate
    const int *near       # (m, nears)
    double total          # of the weights
    double squares
    double inner          # the part of the objective that the ring does not change
    double ring
    int *order            # (k,)


cdef void _farthest(Walk *a, int r) noexcept nogil:
    """The two largest latencies of rank r, and whose the largest is."""
    cdef int j
    cdef double value
    cdef const double *lat = a.q.lat + <size_t> a.order[r] * a.q.m
    a.ws.L[r] = a.ws.L2[r] = 0.0
    a.ws.A[r] = -1
    for j in range(a.q.k):
        if j == r:
            continue
        value = lat[a.order[j]]
        if a.ws.A[r] < 0 or value > a.ws.L[r]:
            a.ws.L2[r] = a.ws.L[r]
            a.ws.L[r], a.ws.A[r] = value, j
        elif value > a.ws.L2[r]:
            a.ws.L2[r] = value


cdef void _afresh(Walk *a) noexcept nogil:
    """All sums from nothing."""
    cdef int r, j, k = a.q.k
    cdef double weighted
    cdef const double *spb
    a.total = a.squares = 0.0
    a.moves = 0
    for r in range(k):
        a.total += a.q.weight[a.order[r]]
        a.squares += a.q.weight[a.order[r]] * a.q.weight[a.order[r]]
        spb = a.q.spb + <size_t> a.order[r] * a.q.m
        weighted = 0.0
        for j in range(k):
            if j != r:
                weighted += a.q.weight[a.order[j]] * spb[a.order[j]]
        a.ws.P[r] = weighted
        _farthest(a, r)
    a.inner = set_cost(a.q, a.order)
    a.ring = ring_cost(a.q, a.order)


cdef double _replaced(Walk *a, int p, int c, double limit, double *ring) noexcept nogil:
    """The part of the objective without the ring, with c at position p; some value from `limit` on where the whole would be no less than it."""
    cdef const Instance *q = a.q
    cdef int r, b, k = q.k, before = (p + k - 1) % k, after = (p + 1) % k, old = a.order[p]
    cdef double w = q.weight[c], gone = q.weight[old], t = a.total - gone + w, tax = q.communication_weight
    cdef double squares = a.squares - gone * gone + w * w, rate = q.epoch_flops / t, scale, base
    cdef const double *lat = q.lat + <size_t> c * q.m
    cdef const double *spb = q.spb + <size_t> c * q.m
    cdef const double *old_spb = q.spb + <size_t> old * q.m
    cdef double halo, slowest, worst = 0.0, own = 0.0, own_lat = lat[c] if q.inner else 0.0, far, mates = 1.0, between, hop_byte
    cdef int nodes
    between = max(hop_lat(q, c, a.order[before]), hop_lat(q, c, a.order[after]))
    hop_byte = max(hop_bytes(q, c, a.order[before]), hop_bytes(q, c, a.order[after]))
    nodes = 1 if between == 0.0 else k if a.ws.single and a.fixed == NULL else 2
    base = q.overhead_seconds + rate * w / q.speed[c]
    if k > 1 and base + (1.0 + tax) * reduce_seconds(q, class_row(q, q.floors, q.classes - 1, nodes), between, 0.0, hop_byte, 0.0) >= limit:
        return limit
    a.order[p] = c
    ring[0] = ring_cost(q, a.order)
    a.order[p] = old
    base = q.overhead_seconds + (1.0 + tax) * ring[0]
    slowest = rate * w / q.speed[c]
    scale = q.halo_bytes / max(t * t - squares * q.part, 1e-12 * t * t)
    for r in range(k):
        q.times[a.order[r]] += r != p
    mates = q.times[c] + 1.0
    for r in range(k):
        if r == p:
            continue
        b = a.order[r]
        own += q.weight[b] * spb[b]
        own_lat = max(own_lat, lat[b])
        far = max(a.ws.L2[r] if a.ws.A[r] == p else a.ws.L[r], lat[b])
        if q.inner:
            far = max(far, q.lat[<size_t> b * q.m + b])
        halo = q.rounds * far + scale * node_bytes(q, b, q.times[b] + (b == c), a.ws.P[r] - gone * old_spb[b] + w * spb[b])
        worst = max(worst, halo)
        slowest = max(slowest, halo + rate * q.weight[b] / q.speed[b])
        if base + slowest + tax * worst >= limit:
            break
    else:
        halo = q.rounds * own_lat + scale * node_bytes(q, c, mates, own)
        worst = max(worst, halo)
        slowest = max(slowest, halo + rate * w / q.speed[c])
        limit = q.overhead_seconds + slowest + tax * worst
    for r in range(k):
        q.times[a.order[r]] = 0
    return limit


cdef double _with_uplinks(Walk *a, int p, int c) noexcept nogil:
    """The same in full: `_replaced` leaves out the uplinks that boundary data shares."""
    cdef int old = a.order[p]
    cdef double inner
    a.order[p] = c
    inner = set_cost(a.q, a.order)
    a.order[p] = old
    return inner


cdef void _replace(Walk *a, int p, int c, double inner, double ring) noexcept nogil:
    """Put c at position p."""
    cdef const Instance *q = a.q
    cdef int r, b, k = q.k, old = a.order[p]
    cdef double own = 0.0, w = q.weight[c], gone = q.weight[old], was
    cdef const double *lat = q.lat + <size_t> c * q.m
    cdef const double *spb = q.spb + <size_t> c * q.m
    a.order[p] = c
    a.ws.used[old] -= 1
    a.ws.used[c] += 1
    a.moves += 1
    if a.moves >= REFRESH:
        _afresh(a)
        return
    for r in range(k):
        if r == p:
            continue
        b = a.order[r]
        own += q.weight[b] * spb[b]
        a.ws.P[r] += w * spb[b] - gone * q.spb[<size_t> old * q.m + b]
        was = q.lat[<size_t> old * q.m + b]
        if a.ws.A[r] == p or was >= a.ws.L2[r]:
            _farthest(a, r)
        elif lat[b] > a.ws.L[r]:
            a.ws.L2[r] = a.ws.L[r]
            a.ws.L[r], a.ws.A[r] = lat[b], p
        elif lat[b] > a.ws.L2[r]:
            a.ws.L2[r] = lat[b]
    a.ws.P[p] = own
    _farthest(a, p)
    a.total += w - gone
    a.squares += w * w - gone * gone
    a.inner, a.ring = inner, ring


cdef void _turn(Walk *a, double limit) noexcept nogil:
    """Swap two ranks or reverse a part of the ring, if the objective then is below `limit`."""
    cdef int i, j, t, k = a.q.k
    cdef double ring
    cdef bint reverse = a.fixed == NULL and k > 4 and below(&a.random, 2) == 0
    i, j = below(&a.random, k), below(&a.random, k)
    if i == j or (a.fixed != NULL and (a.fixed[i] or a.fixed[j])):
        return
    if i > j:
        i, j = j, i
    _flip(a.order, i, j, reverse)
    ring = ring_cost(a.q, a.order)
    if not a.inner + (1.0 + a.q.communication_weight) * ring < limit:
        _flip(a.order, i, j, reverse)
        return
    a.ring = ring
    _flip_sums(a, i, j, reverse)


cdef inline void _flip(int *order, int i, int j, bint reverse) noexcept nogil:
    cdef int t
    while i < j:
        t = order[i]
        order[i] = order[j]
        order[j] = t
        if not reverse:
            return
        i += 1
        j -= 1


cdef void _flip_sums(Walk *a, int i, int j, bint reverse) noexcept nogil:
    """What ranks i..j know of themselves moves with them."""
    cdef int r, low = i, high = j, at
    cdef double t
    while i < j:
        t = a.ws.P[i]
        a.ws.P[i], a.ws.P[j] = a.ws.P[j], t
        t = a.ws.L[i]
        a.ws.L[i], a.ws.L[j] = a.ws.L[j], t
        t = a.ws.L2[i]
        a.ws.L2[i], a.ws.L2[j] = a.ws.L2[j], t
        at = a.ws.A[i]
        a.ws.A[i], a.ws.A[j] = a.ws.A[j], at
        if not reverse:
            break
        i += 1
        j -= 1
    for r in range(a.q.k):
        at = a.ws.A[r]
        if reverse:
            if low <= at <= high:
                a.ws.A[r] = low + high - at
        elif at == low or at == high:
            a.ws.A[r] = low + high - at


cdef double _walk(Walk *a, long long steps, double hot, double cold, double best, int *best_order) noexcept nogil:
    """So many steps, cooling from `hot` to `cold` seconds; the best objective and order seen."""
    cdef long long step
    cdef int p, c, k = a.q.k
    cdef double heat = hot, now, limit, inner, ring = 0.0, tax = 1.0 + a.q.communication_weight
    cdef double cooling = exp(log(cold / hot) * 64.0 / max(steps, 1))
    for step in range(steps):
        if step & 63 == 63:
            heat *= cooling
        now = a.inner + tax * a.ring
        limit = now - heat * log(unit(&a.random))
        if k > 3 and below(&a.random, 5) == 0:
            _turn(a, limit)
        else:
            p = below(&a.random, k)
            if a.fixed != NULL and a.fixed[p]:
                continue
            if a.nears > 0 and below(&a.random, 2) == 0:
                c = a.near[a.order[below(&a.random, k)] * a.nears + below(&a.random, a.nears)]
            else:
                c = a.ws.usable[below(&a.random, a.ws.u)]
            if c == a.order[p] or a.ws.used[c] >= a.ws.room[c]:
                continue
            inner = _replaced(a, p, c, limit, &ring)
            if a.q.levels > 0 and inner + tax * ring < limit:
                inner = _with_uplinks(a, p, c)
            if not inner + tax * ring < limit:
                continue
            _replace(a, p, c, inner, ring)
        if a.inner + tax * a.ring < best * BETTER:
            best = a.inner + tax * a.ring
            memcpy(best_order, a.order, k * sizeof(int))
    return best


def neighbours(Kernel kernel, int count):
    """(m * count,) int32 the usable candidates that are cheapest beside each candidate, as greedy's seed score sees them, as bytes."""
    cdef const Instance *q = &kernel.q
    cdef Workspace *ws = kernel.ws
    cdef int c, d, i, at, found, m = q.m, partners = max(1, q.k - 1)
    cdef double byte = q.halo_bytes / max(1.0, q.k * (q.k - q.part)) + q.ring_byte_factor / partners
    cdef double wait = (q.rounds + q.ring_latency_factor) / partners, work = q.epoch_flops / q.k / partners, value
    cdef int *near = <int *> calloc(<size_t> m * count + 1, sizeof(int))
    cdef double *cost = <double *> calloc(count + 1, sizeof(double))
    if near == NULL or cost == NULL:
        release(near)
        release(cost)
        raise MemoryError()
    with nogil:
        for c in range(m):
            found = 0
            for i in range(ws.u):
                d = ws.usable[i]
                value = byte * hop_spb(q, c, d) + wait * q.lat[<size_t> c * m + d] + work / q.speed[d]
                if (d == c and ws.room[c] < 2) or (found == count and value >= cost[count - 1]):
                    continue
                at = found if found < count else count - 1
                while at > 0 and cost[at - 1] > value:
                    cost[at], near[c * count + at] = cost[at - 1], near[c * count + at - 1]
                    at -= 1
                cost[at], near[c * count + at] = value, d
                found = min(found + 1, count)
            for i in range(found, count):
                near[c * count + i] = ws.usable[i % ws.u]
    answer = (<char *> near)[:m * count * sizeof(int)]
    release(near)
    release(cost)
    return answer


def anneal(Kernel kernel, int[::1] order, const unsigned char[::1] fixed, const int[::1] near, uint64_t random, long long steps,
           double hot, double cold, double best, int[::1] best_order):
    """(best objective, state of the random numbers) after `steps` steps from `order` (k,), which is where the walk then stands.

    near: (m * n,) neighbours of each candidate, may be empty · hot, cold: seconds · best_order: (k,) of the objective `best`
    """
    cdef Walk a
    cdef int r, stay = 0, k = kernel.q.k
    a.q, a.ws, a.random, a.fixed, a.order = &kernel.q, kernel.ws, random, NULL, &order[0]
    a.nears = len(near) // a.q.m
    a.near = &near[0] if a.nears else NULL
    for r in range(a.q.m):
        a.ws.used[r] = 0
    for r in range(k):
        if fixed[r]:
            a.fixed = &fixed[0]
            stay += 1
        else:
            a.ws.used[order[r]] += 1
    if stay == k or a.ws.u == 0:
        return best, random
    with nogil:
        _afresh(&a)
        best = _walk(&a, steps, hot, cold, best, &best_order[0])
    return best, a.random
