"""Compiled search by pairs: two workers are taken away and the best two candidates for both places are found exactly, again and again.

The rest of the placement bounds what any pair can give: of a hundred candidates few survive beside it, of their pairs fewer still, so that
the best of thousands of pairs costs some tens of microseconds. Like annealing, a pair that is somewhat worse may be taken; the set that was
taken away may not, so that the walk moves on. What a step does follows from the seed and the work spent, never from the time.
"""

from libc.math cimport INFINITY, log
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free as release
from libc.string cimport memcpy

from hyperscale.plan._kernel cimport Instance, Kernel, Workspace, objective, ring_repair

cdef int MOST_WORK = 8000
cdef int TRIAL_WORK = 16
cdef int LIST_RATIO = 6
cdef int PAIR_RATIO = 8
cdef int RING_WORK = 4
cdef int RING_STEPS = 8
cdef double BETTER = 1.0 - 1e-12


cdef struct Pairs:
    const Instance *q
    Workspace *ws
    const unsigned char *fixed
    uint64_t random
    int *order            # (k,) where the walk stands
    int *places           # (k,) ranks that may change
    int free              # how many
    int *rest             # (k,) members that stay in this trial, the one with the highest cost first
    int *list             # (m,) candidates that can stand beside them, lowest bound first
    int listed
    int *tried            # (k,)
    int *found            # (k,)
    int at[2]             # ranks that are taken away
    double *cost          # (k,) seconds of each rank, without the ring
    double *pay           # (k,) seconds per byte of each of the rest to the others of it, weighted
    double *far           # (k,) its largest latency to them
    double *least         # (k,) the least that one candidate adds to `pay`
    double *pay1          # (k,) the same with the first of the pair
    double *far1          # (k,)
    double *bound         # (m,) by position in `list`
    double *own_pay       # (m,)
    double *own_far       # (m,)
    double weight         # of the rest
    double squares
    double ring           # seconds of the objective that any ring takes
    double limit          # a pair must be below
    long long work


cdef inline uint64_t _draw(Pairs *s) noexcept nogil:
    """splitmix64 (Steele, Lea and Flood 2014)."""
    cdef uint64_t z
    s.random += <uint64_t> 0x9E3779B97F4A7C15
    z = s.random
    z = (z ^ (z >> 30)) * <uint64_t> 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * <uint64_t> 0x94D049BB133111EB
    return z ^ (z >> 31)


cdef inline int _below(Pairs *s, int count) noexcept nogil:
    return <int> (((_draw(s) >> 32) * <uint64_t> count) >> 32)


cdef inline double _unit(Pairs *s) noexcept nogil:
    """Above 0, at most 1."""
    return ((_draw(s) >> 11) + 1) * (1.0 / 9007199254740992.0)


cdef void _rank_costs(Pairs *s) noexcept nogil:
    """Arithmetic and boundary seconds of every rank into s.cost."""
    cdef const Instance *q = s.q
    cdef int r, j, k = q.k
    cdef double total = 0.0, squares = 0.0, weighted, latency
    cdef const double *lat
    cdef const double *spb
    for r in range(k):
        total += q.weight[s.order[r]]
        squares += q.weight[s.order[r]] * q.weight[s.order[r]]
    for r in range(k):
        lat, spb = q.lat + <size_t> s.order[r] * q.m, q.spb + <size_t> s.order[r] * q.m
        weighted = latency = 0.0
        for j in range(k):
            if j != r:
                weighted += q.weight[s.order[j]] * spb[s.order[j]]
                latency = max(latency, lat[s.order[j]])
        s.cost[r] = q.rounds * latency + q.weight[s.order[r]] * (
            q.halo_bytes / max(total * total - squares, 1e-12 * total * total) * weighted + q.epoch_flops / total / q.speed[s.order[r]])


cdef void _choose(Pairs *s) noexcept nogil:
    """Two ranks to take away: any; or one is the slowest, an expensive partner of it, or at an end of the ring's slowest hop."""
    cdef const Instance *q = s.q
    cdef int i, r, first = -1, slowest = s.places[0], kind = _below(s, 4), k = q.k
    cdef double value, most = -1.0
    cdef const double *hops
    for r in range(k):
        if s.cost[r] > s.cost[slowest]:
            slowest = r
    if kind == 0:
        first = slowest
    elif kind == 1:
        for r in range(k):
            value = q.weight[s.order[r]] * q.spb[<size_t> s.order[slowest] * q.m + s.order[r]] * (0.5 + 0.5 * _unit(s))
            if r != slowest and value > most:
                most, first = value, r
    elif kind == 2:
        hops = q.lat if _below(s, 2) else q.spb
        for r in range(k):
            value = hops[<size_t> s.order[r] * q.m + s.order[(r + 1) % k]]
            if value > most:
                most, first = value, r
        first = (first + _below(s, 2)) % k
    if first < 0 or (s.fixed != NULL and s.fixed[first]):
        first = s.places[_below(s, s.free)]
    s.at[0] = s.at[1] = first
    while s.at[1] == first:
        s.at[1] = s.places[_below(s, s.free)]


cdef void _take_away(Pairs *s) noexcept nogil:
    """The rest, dearest first, its sums, and how many workers of it each candidate has."""
    cdef const Instance *q = s.q
    cdef int i, j, r, c, at, n = 0
    cdef double most
    for i in range(s.ws.u):
        s.ws.used[s.ws.usable[i]] = 0
    s.weight = s.squares = 0.0
    for r in range(q.k):
        if r == s.at[0] or r == s.at[1]:
            continue
        c = s.order[r]
        at = n
        n += 1
        while at > 0 and s.pay1[at - 1] < s.cost[r]:
            s.pay1[at], s.rest[at] = s.pay1[at - 1], s.rest[at - 1]
            at -= 1
        s.pay1[at], s.rest[at] = s.cost[r], c
        s.weight += q.weight[c]
        s.squares += q.weight[c] * q.weight[c]
        if s.fixed == NULL or not s.fixed[r]:
            s.ws.used[c] += 1
    for i in range(n):
        s.pay[i] = s.far[i] = 0.0
        for j in range(n):
            if j != i:
                s.pay[i] += q.weight[s.rest[j]] * q.spb[<size_t> s.rest[i] * q.m + s.rest[j]]
                s.far[i] = max(s.far[i], q.lat[<size_t> s.rest[i] * q.m + s.rest[j]])


cdef double _heaviest(const Pairs *s, const int *candidates, int count) noexcept nogil:
    """Largest weight among those that have room."""
    cdef int i
    cdef double most = 0.0
    for i in range(count):
        if s.ws.used[candidates[i]] < s.ws.room[candidates[i]]:
            most = max(most, s.q.weight[candidates[i]])
    return most


cdef void _list(Pairs *s) noexcept nogil:
    """Candidates that could stand beside the rest with the best of partners, the lowest bound first."""
    cdef const Instance *q = s.q
    cdef int i, j, c, at, n = q.k - 2
    cdef double w, total, scale, rate, heavy = _heaviest(s, s.ws.usable, s.ws.u), halo, slowest, worst, own, own_far
    cdef const double *lat
    cdef const double *spb
    s.listed = 0
    for i in range(s.ws.u):
        c = s.ws.usable[i]
        if s.ws.used[c] >= s.ws.room[c]:
            continue
        w, lat, spb = q.weight[c], q.lat + <size_t> c * q.m, q.spb + <size_t> c * q.m
        total = s.weight + w + heavy
        rate = q.epoch_flops / total
        scale = q.halo_bytes / max(total * total - s.squares - w * w - heavy * heavy, 1e-12 * total * total)
        slowest = worst = own = own_far = 0.0
        for j in range(n):
            own += q.weight[s.rest[j]] * spb[s.rest[j]]
            own_far = max(own_far, lat[s.rest[j]])
            halo = q.rounds * max(s.far[j], lat[s.rest[j]]) + scale * q.weight[s.rest[j]] * (s.pay[j] + w * spb[s.rest[j]])
            worst = max(worst, halo)
            slowest = max(slowest, halo + rate * q.weight[s.rest[j]] / q.speed[s.rest[j]])
            if q.overhead_seconds + slowest + q.communication_weight * worst >= s.limit:
                break
        else:
            halo = q.rounds * own_far + scale * w * own
            worst = max(worst, halo)
            slowest = q.overhead_seconds + max(slowest, halo + rate * w / q.speed[c]) + q.communication_weight * worst
            if slowest >= s.limit:
                continue
            at = s.listed
            s.listed += 1
            while at > 0 and s.bound[at - 1] > slowest:
                s.bound[at], s.list[at] = s.bound[at - 1], s.list[at - 1]
                s.own_pay[at], s.own_far[at] = s.own_pay[at - 1], s.own_far[at - 1]
                at -= 1
            s.bound[at], s.list[at], s.own_pay[at], s.own_far[at] = slowest, c, own, own_far


cdef void _cheapest(Pairs *s) noexcept nogil:
    """What a listed candidate adds to every one of the rest at least, and the seconds that the ring takes at least."""
    cdef const Instance *q = s.q
    cdef int i, j, x, n = q.k - 2
    cdef double latency = 0.0, per_byte = 0.0
    cdef double near[2]
    cdef double cheap[2]
    cdef const double *lat
    cdef const double *spb
    for i in range(n):
        lat, spb = q.lat + <size_t> s.rest[i] * q.m, q.spb + <size_t> s.rest[i] * q.m
        near[0] = near[1] = cheap[0] = cheap[1] = s.least[i] = INFINITY
        for j in range(n + s.listed):
            if j == i:
                continue
            x = s.rest[j] if j < n else s.list[j - n]
            if j >= n:
                s.least[i] = min(s.least[i], q.weight[x] * spb[x])
                if s.ws.used[x] + 1 < s.ws.room[x]:  # both of the pair may go there
                    _two_least(near, lat[x])
                    _two_least(cheap, spb[x])
            _two_least(near, lat[x])
            _two_least(cheap, spb[x])
        latency, per_byte = max(latency, near[1]), max(per_byte, cheap[1])
    s.ring = (1.0 + q.communication_weight) * (q.ring_latency_factor * latency + q.ring_byte_factor * per_byte)


cdef inline void _two_least(double *least, double value) noexcept nogil:
    if value < least[1]:
        if value < least[0]:
            least[1] = least[0]
            least[0] = value
        else:
            least[1] = value


cdef bint _both(Pairs *s) noexcept nogil:
    """The best pair of the list below the limit, in ring order in s.found; False where there is none."""
    cdef const Instance *q = s.q
    cdef int x, y, j, c, n = q.k - 2
    cdef long long until = s.work + MOST_WORK
    cdef double w, heavy = _heaviest(s, s.list, s.listed), total, scale, rate, halo, slowest, worst
    cdef const double *lat
    cdef const double *spb
    cdef bint found = False
    for x in range(s.listed):
        if s.bound[x] >= s.limit or s.work > until:
            break
        s.work += 1
        c = s.list[x]
        w, lat, spb = q.weight[c], q.lat + <size_t> c * q.m, q.spb + <size_t> c * q.m
        total = s.weight + w + heavy
        rate = q.epoch_flops / total
        scale = q.halo_bytes / max(total * total - s.squares - w * w - heavy * heavy, 1e-12 * total * total)
        slowest = worst = 0.0
        for j in range(n):
            s.pay1[j], s.far1[j] = s.pay[j] + w * spb[s.rest[j]], max(s.far[j], lat[s.rest[j]])
            halo = q.rounds * s.far1[j] + scale * q.weight[s.rest[j]] * (s.pay1[j] + s.least[j])
            worst = max(worst, halo)
            slowest = max(slowest, halo + rate * q.weight[s.rest[j]] / q.speed[s.rest[j]])
            if q.overhead_seconds + s.ring + slowest + q.communication_weight * worst >= s.limit:
                break
        else:
            y = x if s.ws.used[c] + 1 < s.ws.room[c] else x + 1
            while y < s.listed and s.bound[y] < s.limit and s.work <= until:
                s.work += 1
                found = _second(s, x, y) or found
                y += 1
    return found


cdef bint _second(Pairs *s, int x, int y) noexcept nogil:
    """True and the limit lower where the pair of the candidates at x and y of the list is below it."""
    cdef const Instance *q = s.q
    cdef int j, c = s.list[x], d = s.list[y], b, n = q.k - 2
    cdef double v = q.weight[c], w = q.weight[d], total = s.weight + v + w, tax = q.communication_weight
    cdef double rate = q.epoch_flops / total, scale, halo, slowest, worst
    cdef double between_lat = q.lat[<size_t> c * q.m + d], between_spb = q.spb[<size_t> c * q.m + d]
    cdef const double *lat = q.lat + <size_t> d * q.m
    cdef const double *spb = q.spb + <size_t> d * q.m
    scale = q.halo_bytes / max(total * total - s.squares - v * v - w * w, 1e-12 * total * total)
    worst = q.rounds * max(s.own_far[y], between_lat) + scale * w * (s.own_pay[y] + v * between_spb)
    slowest = worst + rate * w / q.speed[d]
    halo = q.rounds * max(s.own_far[x], between_lat) + scale * v * (s.own_pay[x] + w * between_spb)
    worst, slowest = max(worst, halo), max(slowest, halo + rate * v / q.speed[c])
    if q.overhead_seconds + s.ring + slowest + tax * worst >= s.limit:
        return False
    for j in range(n):
        b = s.rest[j]
        halo = q.rounds * max(s.far1[j], lat[b]) + scale * q.weight[b] * (s.pay1[j] + w * spb[b])
        worst, slowest = max(worst, halo), max(slowest, halo + rate * q.weight[b] / q.speed[b])
        if q.overhead_seconds + s.ring + slowest + tax * worst >= s.limit:
            return False
    return _seat(s, c, d, s.limit - q.overhead_seconds - slowest - tax * worst)


cdef bint _seat(Pairs *s, int c, int d, double room) noexcept nogil:
    """True where a ring is found that leaves the objective below the limit; `room` seconds of it are left for the ring."""
    cdef const Instance *q = s.q
    cdef int r, j, i, steps, k = q.k, first = s.order[s.at[0]], second = s.order[s.at[1]]
    cdef double latency = 0.0, per_byte = 0.0, ring, tax = 1.0 + q.communication_weight
    cdef double near[2]
    cdef double cheap[2]
    if (c == first and d == second) or (c == second and d == first):
        return False
    s.work += <long long> k * k // PAIR_RATIO
    memcpy(s.tried, s.order, k * sizeof(int))
    s.tried[s.at[0]], s.tried[s.at[1]] = c, d
    for i in range(k):
        # The new members first: they are the likeliest to have no two good hops.
        r = s.at[i] if i < 2 else i - 2
        near[0] = near[1] = cheap[0] = cheap[1] = INFINITY
        for j in range(k):
            if j != r:
                _two_least(near, q.lat[<size_t> s.tried[r] * q.m + s.tried[j]])
                _two_least(cheap, q.spb[<size_t> s.tried[r] * q.m + s.tried[j]])
        if k > 2:
            latency, per_byte = max(latency, near[1]), max(per_byte, cheap[1])
        if tax * (q.ring_latency_factor * latency + q.ring_byte_factor * per_byte) >= room:
            return False
    steps = RING_STEPS
    ring = ring_repair(q, s.tried, s.fixed, &steps, s.ws)
    s.work += <long long> RING_WORK * k * (1 + steps)
    if tax * ring >= room:
        return False
    s.limit = (s.limit - room + tax * ring) * BETTER
    memcpy(s.found, s.tried, k * sizeof(int))
    return True


cdef double _walk(Pairs *s, long long work, double heat, double best, int *best_order) noexcept nogil:
    """Trials until so much work is done; a pair may be worse by `heat` of the objective or so. The best objective and order seen."""
    cdef double now = objective(s.q, s.order)
    while s.work < work:
        s.work += TRIAL_WORK + s.ws.u + <long long> s.q.k * s.q.k // PAIR_RATIO
        _rank_costs(s)
        _choose(s)
        s.limit = now * (1.0 - heat * log(_unit(s)))
        _take_away(s)
        _list(s)
        s.work += <long long> s.listed * s.q.k // LIST_RATIO
        _cheapest(s)
        if s.listed == 0 or not _both(s):
            continue
        memcpy(s.order, s.found, s.q.k * sizeof(int))
        now = objective(s.q, s.order)
        if now < best * BETTER:
            best = now
            memcpy(best_order, s.order, s.q.k * sizeof(int))
    return best


def exchange(Kernel kernel, int[::1] order, const unsigned char[::1] fixed, uint64_t random, long long work, double heat, double best,
             int[::1] best_order):
    """(best objective, state of the random numbers, work done) after about `work` from `order` (k,), which is where the walk then stands.

    heat: part of the objective by which a pair may be worse · best_order: (k,) of the objective `best`.
    Raises MemoryError, and ValueError where a size or a candidate is wrong.
    """
    cdef Pairs s
    cdef int r, k = kernel.q.k, m = kernel.q.m
    if len(order) != k or len(best_order) != k or len(fixed) != k:
        raise ValueError("the order has another length than the job has workers")
    for r in range(k):
        if not 0 <= order[r] < m:
            raise ValueError("a rank is on no candidate")
    cdef int *whole = <int *> calloc(4 * <size_t> k + m + 8, sizeof(int))
    cdef double *seconds = <double *> calloc(6 * <size_t> k + 3 * m + 8, sizeof(double))
    if whole == NULL or seconds == NULL:
        release(whole)
        release(seconds)
        raise MemoryError()
    s.q, s.ws, s.random, s.fixed, s.order, s.free, s.work = &kernel.q, kernel.ws, random, NULL, &order[0], 0, 0
    s.places, s.rest, s.tried, s.found, s.list = whole, whole + k, whole + 2 * k, whole + 3 * k, whole + 4 * k
    s.cost, s.pay, s.far, s.least, s.pay1, s.far1 = seconds, seconds + k, seconds + 2 * k, seconds + 3 * k, seconds + 4 * k, seconds + 5 * k
    s.bound, s.own_pay, s.own_far = seconds + 6 * k, seconds + 6 * k + m, seconds + 6 * k + 2 * m
    for r in range(k):
        if fixed[r]:
            s.fixed = &fixed[0]
        else:
            s.places[s.free] = r
            s.free += 1
    if s.free >= 2 and s.ws.u > 0:
        with nogil:
            best = _walk(&s, work, heat, best, &best_order[0])
    release(whole)
    release(seconds)
    return best, s.random, s.work
