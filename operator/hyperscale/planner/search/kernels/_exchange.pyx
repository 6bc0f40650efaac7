"""Compiled search by pairs: two workers are taken away and the best two candidates for both places are found exactly, again and again.

The rest of the placement bounds what any pair can give: of a hundred candidates few survive beside it, of their pairs fewer still, so that
the best of thousands of pairs costs some tens of microseconds. Like annealing, a pair that is somewhat worse may be taken; the set that was
taken away may not, so that the walk moves on. What a step does follows from the seed and the work spent, never from the time.
"""

from libc.math cimport INFINITY, log
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free as release
from libc.string cimport memcpy

from hyperscale.planner.search.kernels._kernel cimport Instance, Kernel, Workspace, gather, hop_spb, node_bytes, objective, ring_cost, ring_within
from hyperscale.planner.search.kernels._walks cimport below, free_ranks, halo_scale, ring_seconds
from hyperscale.util._splitmix cimport unit

cdef int MOST_WORK = 1000
cdef int TRIAL_WORK = 24
cdef int LIST_RATIO = 8
cdef int TRIAL_RATIO = 4
cdef int PAIR_RATIO = 8
cdef int TURN_WORK = 5
cdef int MOST_RINGS = 4     # sought in a trial
cdef int RING_PLACES = 50   # tried for each
cdef int LAST_PLACES = 200  # tried for the ring of the pair that is taken
cdef double BETTER = 1.0 - 1e-12
cdef int IN_PLACE = 20      # percent of the trials that leave the ring as it is
cdef int ALIKE = 50         # percent of the trials that choose the second rank as the first


cdef struct Pairs:
    const Instance *q
    Workspace *ws
    const unsigned char *fixed
    uint64_t random
    int *order            # (k,) where the walk stands
    int *places           # (k,) ranks that may change
    int free              # how many
    int *rest             # (k,) members that stay in this trial, the one with the highest cost first
    int *place            # (k,) where each rank is among them, -1 for the two that are taken away
    int *list             # (m,) candidates that can stand beside them, lowest bound first
    int *row              # (m,) by position in `list`: its row in what follows
    int listed
    int *tried            # (k,)
    int *found            # (k,)
    int *spare            # (k,)
    int at[2]             # ranks that are taken away
    bint adjacent         # they are neighbours in the ring
    bint shared           # a node may take several workers
    int rings             # that may still be sought in this trial
    bint in_place         # none: the ring stays as it is
    double *cost          # (k,) seconds of each rank, without the ring
    double *weigh         # (k,) weight of each of the rest
    double *slow          # (k,) weight / speed
    double *count         # (k,) workers of the rest on the node of each
    double *count1        # (k,) the same with the first of the pair
    double *pay           # (k,) seconds per byte of each of the rest to the others of it on other nodes, weighted
    double *far           # (k,) its largest latency to them
    double *least         # (k,) the least that one candidate adds to `pay`
    double *pay1          # (k,) the same with the first of the pair
    double *far1          # (k,)
    double *near          # (k, 4) the two least latencies of each of the rest to the others of it, the two least seconds per byte
    double *near1         # (k, 4) the same with the first of the pair
    double *bound         # (m,) by position in `list`
    double *lat           # (m, k - 2) by row: latency to each of the rest
    double *spb           # (m, k - 2)
    double *own           # (m, OWN) by row
    double weight         # of the rest
    double squares
    double floor_lat      # the slowest hop inside a worker that stays
    double floor_spb
    double hop_lat        # the slowest hop of the ring that stays
    double hop_spb
    double ring_lat       # no ring is better
    double ring_spb
    double limit          # a pair must be below
    long long work


cdef enum:
    # What a listed candidate has to do with the rest.
    OWN_PAY = 0      # weighted seconds per byte
    OWN_FAR = 1      # largest latency
    OWN_LAT = 2      # two: the least latencies
    OWN_SPB = 4      # two: the least seconds per byte
    OWN_HOP_LAT = 6  # two: the slowest hop at each rank that is taken away
    OWN_HOP_SPB = 8  # two
    OWN_COUNT = 10   # workers of the rest on its node
    OWN = 11


cdef void _rank_costs(Pairs *s) noexcept nogil:
    """Arithmetic and boundary seconds of every rank into s.cost."""
    cdef const Instance *q = s.q
    cdef int r, j, b, k = q.k
    cdef double total = 0.0, squares = 0.0, weighted, latency, scale
    cdef const double *lat
    cdef const double *spb
    for r in range(k):
        total += q.weight[s.order[r]]
        squares += q.weight[s.order[r]] * q.weight[s.order[r]]
        q.times[s.order[r]] += 1
    scale = halo_scale(q, total, squares)
    for r in range(k):
        b = s.order[r]
        lat, spb = q.lat + <size_t> b * q.m, q.spb + <size_t> b * q.m
        weighted = latency = 0.0
        for j in range(k):
            if j != r:
                weighted += q.weight[s.order[j]] * spb[s.order[j]]
                latency = max(latency, lat[s.order[j]])
        s.cost[r] = q.rounds * latency + scale * node_bytes(q, b, q.times[b], weighted) + q.epoch_flops / total * q.weight[b] / q.speed[b]
    for r in range(k):
        q.times[s.order[r]] = 0


cdef int _one(Pairs *s) noexcept nogil:
    """A rank to take away: any; or the slowest, an expensive partner of it, or at an end of the ring's slowest hop."""
    cdef const Instance *q = s.q
    cdef int r, first = -1, slowest = s.places[0], kind = below(&s.random, 4), k = q.k
    cdef double value, most = -1.0
    cdef const double *hops
    for r in range(k):
        if s.cost[r] > s.cost[slowest]:
            slowest = r
    if kind == 0:
        first = slowest
    elif kind == 1:
        for r in range(k):
            value = q.weight[s.order[r]] * q.spb[<size_t> s.order[slowest] * q.m + s.order[r]] * (0.5 + 0.5 * unit(&s.random))
            if r != slowest and value > most:
                most, first = value, r
    elif kind == 2:
        hops = q.lat if below(&s.random, 2) else q.spb
        for r in range(k):
            value = hops[<size_t> s.order[r] * q.m + s.order[(r + 1) % k]]
            if value > most:
                most, first = value, r
        first = (first + below(&s.random, 2)) % k
    if first < 0 or (s.fixed != NULL and s.fixed[first]):
        first = s.places[below(&s.random, s.free)]
    return first


cdef void _choose(Pairs *s) noexcept nogil:
    """Two ranks to take away, the second of them half the time any."""
    s.at[0] = s.at[1] = _one(s)
    if below(&s.random, 100) < ALIKE:
        s.at[1] = _one(s)
    while s.at[1] == s.at[0]:
        s.at[1] = s.places[below(&s.random, s.free)]


cdef inline void _two_least(double *least, double value) noexcept nogil:
    if value < least[1]:
        if value < least[0]:
            least[1] = least[0]
            least[0] = value
        else:
            least[1] = value


cdef inline double _second_of(const double *least, double value) noexcept nogil:
    """The second least of two and a third."""
    return least[1] if value >= least[1] else max(least[0], value)


cdef inline double _either_way(const double *first, const double *second) noexcept nogil:
    """The slowest hop of two candidates at two ranks, whichever goes where; first, second: (2,) hops of each at the ranks."""
    return min(max(first[0], second[1]), max(second[0], first[1]))


cdef void _take_away(Pairs *s) noexcept nogil:
    """The rest, dearest first, its sums, its part of the ring, and how many workers of it each candidate has."""
    cdef const Instance *q = s.q
    cdef int i, j, r, c, at, before, n = 0
    cdef double w
    cdef const double *lat
    cdef const double *spb
    for i in range(s.ws.u):
        s.ws.used[s.ws.usable[i]] = 0
    s.weight = s.squares = s.hop_lat = s.hop_spb = 0.0
    s.adjacent = False
    before = q.k - 1
    for r in range(q.k):
        c = s.order[r]
        if r == s.at[0] or r == s.at[1]:
            s.adjacent = s.adjacent or before == s.at[0] or before == s.at[1]
            before = r
            continue
        if before != s.at[0] and before != s.at[1]:
            s.hop_lat = max(s.hop_lat, q.lat[<size_t> c * q.m + s.order[before]])
            s.hop_spb = max(s.hop_spb, hop_spb(q, c, s.order[before]))
        before = r
        at = n
        n += 1
        while at > 0 and s.pay1[at - 1] < s.cost[r]:
            s.pay1[at], s.tried[at] = s.pay1[at - 1], s.tried[at - 1]
            at -= 1
        s.pay1[at], s.tried[at] = s.cost[r], r
        w = q.weight[c]
        s.weight += w
        s.squares += w * w
        if s.fixed == NULL or not s.fixed[r]:
            s.ws.used[c] += 1
    s.place[s.at[0]] = s.place[s.at[1]] = -1
    s.floor_lat = s.floor_spb = 0.0
    for i in range(n):
        s.place[s.tried[i]] = i
        c = s.rest[i] = s.order[s.tried[i]]
        q.times[c] += 1
        s.weigh[i] = q.weight[c]
        s.slow[i] = q.weight[c] / q.speed[c]
        s.pay[i], s.far[i] = 0.0, (q.lat[<size_t> c * q.m + c] if q.inner else 0.0)
        if q.inner:
            s.floor_lat, s.floor_spb = max(s.floor_lat, s.far[i]), max(s.floor_spb, q.inside[c])
        s.near[4 * i] = s.near[4 * i + 1] = s.near[4 * i + 2] = s.near[4 * i + 3] = s.least[i] = INFINITY
    for i in range(n):
        s.count[i] = q.times[s.rest[i]]
    for i in range(n):
        q.times[s.rest[i]] = 0
    s.hop_lat, s.hop_spb = max(s.hop_lat, s.floor_lat), max(s.hop_spb, s.floor_spb)
    for i in range(n):
        lat, spb = q.lat + <size_t> s.rest[i] * q.m, q.spb + <size_t> s.rest[i] * q.m
        for j in range(i):
            c = s.rest[j]
            s.pay[i] += s.weigh[j] * spb[c]
            s.pay[j] += s.weigh[i] * spb[c]
            s.far[i] = max(s.far[i], lat[c])
            s.far[j] = max(s.far[j], lat[c])
            _two_least(s.near + 4 * i, lat[c])
            _two_least(s.near + 4 * j, lat[c])
            _two_least(s.near + 4 * i + 2, hop_spb(q, s.rest[i], c))
            _two_least(s.near + 4 * j + 2, hop_spb(q, s.rest[i], c))


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
    cdef int i, j, b, c, at, n = q.k - 2
    cdef double w, total, scale, rate, heavy = _heaviest(s, s.ws.usable, s.ws.u), halo, slowest, worst, pay, far, count
    cdef const double *from_lat
    cdef const double *from_spb
    cdef double *lat
    cdef double *spb
    s.listed = 0
    for i in range(s.ws.u):
        c = s.ws.usable[i]
        if s.ws.used[c] >= s.ws.room[c]:
            continue
        w, from_lat, from_spb = q.weight[c], q.lat + <size_t> c * q.m, q.spb + <size_t> c * q.m
        lat, spb = s.lat + <size_t> s.listed * n, s.spb + <size_t> s.listed * n
        total = s.weight + w + heavy
        rate = q.epoch_flops / total
        scale = halo_scale(q, total, s.squares + w * w + heavy * heavy)
        slowest = worst = pay = count = 0.0
        far = from_lat[c] if q.inner else 0.0
        for j in range(n):
            b = s.rest[j]
            lat[j], spb[j] = from_lat[b], from_spb[b]
            pay += s.weigh[j] * spb[j]
            far = max(far, lat[j])
            count += b == c
            halo = q.rounds * max(s.far[j], lat[j]) + scale * node_bytes(q, b, s.count[j] + (b == c), s.pay[j] + w * spb[j])
            worst = max(worst, halo)
            slowest = max(slowest, halo + rate * s.slow[j])
            if q.overhead_seconds + slowest + q.communication_weight * worst >= s.limit:
                break
        else:
            halo = q.rounds * far + scale * node_bytes(q, c, count + 1.0, pay)
            worst = max(worst, halo)
            slowest = q.overhead_seconds + max(slowest, halo + rate * w / q.speed[c]) + q.communication_weight * worst
            if slowest >= s.limit:
                continue
            s.own[OWN * s.listed + OWN_PAY], s.own[OWN * s.listed + OWN_FAR] = pay, far
            s.own[OWN * s.listed + OWN_COUNT] = count
            at = s.listed
            s.listed += 1
            while at > 0 and s.bound[at - 1] > slowest:
                s.bound[at], s.list[at], s.row[at] = s.bound[at - 1], s.list[at - 1], s.row[at - 1]
                at -= 1
            s.bound[at], s.list[at], s.row[at] = slowest, c, s.listed - 1


cdef void _hops(Pairs *s) noexcept nogil:
    """What is known of the ring: the hops of every listed candidate, and hops that no ring beside the rest is without.

    Every member has two hops. Of any two others at most two are new, so that the second least to the rest, or the least to a candidate,
    holds.
    """
    cdef const Instance *q = s.q
    cdef int x, y, i, j, r, beside, n = q.k - 2
    cdef double w, lat, spb
    cdef double *own
    for j in range(n):
        s.pay1[j] = s.far1[j] = INFINITY  # the least latency and seconds per byte of a listed one
    for x in range(s.listed):
        y, w = s.row[x], q.weight[s.list[x]]
        own = s.own + OWN * y
        own[OWN_LAT] = own[OWN_LAT + 1] = own[OWN_SPB] = own[OWN_SPB + 1] = INFINITY
        for j in range(n):
            lat, spb = s.lat[<size_t> y * n + j], s.spb[<size_t> y * n + j]
            s.least[j] = min(s.least[j], w * spb)
            if s.rest[j] == s.list[x]:
                spb = q.inside[s.list[x]]
            if not s.in_place:
                _two_least(own + OWN_LAT, lat)
                _two_least(own + OWN_SPB, spb)
            s.far1[j] = min(s.far1[j], lat)
            s.pay1[j] = min(s.pay1[j], spb)
        for i in range(2):
            own[OWN_HOP_LAT + i] = q.lat[<size_t> s.list[x] * q.m + s.list[x]] if q.inner else 0.0
            own[OWN_HOP_SPB + i] = q.inside[s.list[x]] if q.inner else 0.0
            for r in range(2):
                beside = s.place[(s.at[i] + (1 if r else q.k - 1)) % q.k]
                if beside >= 0:
                    own[OWN_HOP_LAT + i] = max(own[OWN_HOP_LAT + i], s.lat[<size_t> y * n + beside])
                    own[OWN_HOP_SPB + i] = max(own[OWN_HOP_SPB + i], hop_spb(q, s.list[x], s.rest[beside]))
    s.ring_lat = s.ring_spb = 0.0
    for j in range(n if q.k > 3 else 0):
        s.ring_lat = max(s.ring_lat, min(s.near[4 * j + 1], s.far1[j]))
        s.ring_spb = max(s.ring_spb, min(s.near[4 * j + 3], s.pay1[j]))
    if s.rings == 0:  # the ring stays as it is
        s.ring_lat, s.ring_spb = max(s.ring_lat, s.hop_lat), max(s.ring_spb, s.hop_spb)
        for x in range(s.listed):
            own = s.own + OWN * x
            own[OWN_LAT], own[OWN_LAT + 1] = min(own[OWN_HOP_LAT], own[OWN_HOP_LAT + 1]), INFINITY
            own[OWN_SPB], own[OWN_SPB + 1] = min(own[OWN_HOP_SPB], own[OWN_HOP_SPB + 1]), INFINITY


cdef void _sharpen(Pairs *s) noexcept nogil:
    """Drop those of the list that cannot stand beside the rest with any other of it, sort the others by what they cost at least."""
    cdef const Instance *q = s.q
    cdef int x, y, j, c, at, n = q.k - 2, left = 0
    cdef double w, heavy = _heaviest(s, s.list, s.listed), total, scale, rate, halo, slowest, worst, ring
    cdef const double *lat
    cdef const double *spb
    for x in range(s.listed):
        c, y = s.list[x], s.row[x]
        w, lat, spb = q.weight[c], s.lat + <size_t> y * n, s.spb + <size_t> y * n
        ring = q.overhead_seconds + ring_seconds(s.q, max(s.ring_lat, s.own[OWN * y + OWN_LAT]), max(s.ring_spb, s.own[OWN * y + OWN_SPB]))
        total = s.weight + w + heavy
        rate = q.epoch_flops / total
        scale = halo_scale(q, total, s.squares + w * w + heavy * heavy)
        slowest = worst = 0.0
        for j in range(n):
            halo = q.rounds * max(s.far[j], lat[j]) + scale * node_bytes(
                q, s.rest[j], s.count[j] + (s.rest[j] == c), s.pay[j] + w * spb[j] + s.least[j])
            worst = max(worst, halo)
            slowest = max(slowest, halo + rate * s.slow[j])
            if ring + slowest + q.communication_weight * worst >= s.limit:
                break
        else:
            slowest = max(s.bound[x] + ring - q.overhead_seconds, ring + slowest + q.communication_weight * worst)
            if slowest >= s.limit:
                continue
            at = left
            left += 1
            while at > 0 and s.bound[at - 1] > slowest:
                s.bound[at], s.list[at], s.row[at] = s.bound[at - 1], s.list[at - 1], s.row[at - 1]
                at -= 1
            s.bound[at], s.list[at], s.row[at] = slowest, c, y
    s.listed = left


cdef bint _both(Pairs *s) noexcept nogil:
    """The best pair of the list below the limit, in ring order in s.found; False where there is none."""
    cdef const Instance *q = s.q
    cdef int x, y, j, c, n = q.k - 2
    cdef long long until = s.work + MOST_WORK
    cdef double w
    cdef const double *lat
    cdef const double *spb
    cdef bint found = False
    for x in range(s.listed):
        if s.bound[x] >= s.limit or s.work > until:
            break
        s.work += 1
        c = s.list[x]
        w, lat, spb = q.weight[c], s.lat + <size_t> s.row[x] * n, s.spb + <size_t> s.row[x] * n
        for j in range(n):
            s.pay1[j], s.far1[j], s.count1[j] = s.pay[j] + w * spb[j], max(s.far[j], lat[j]), s.count[j] + (s.rest[j] == c)
        if not s.in_place:
            memcpy(s.near1, s.near, 4 * n * sizeof(double))
            for j in range(n):
                _two_least(s.near1 + 4 * j, lat[j])
                _two_least(s.near1 + 4 * j + 2, q.inside[c] if s.rest[j] == c else spb[j])
        y = x if s.ws.used[c] + 1 < s.ws.room[c] else x + 1
        while y < s.listed and s.bound[y] < s.limit and s.work <= until:
            s.work += 1
            found = _second(s, x, y) or found
            y += 1
    return found


cdef bint _second(Pairs *s, int x, int y) noexcept nogil:
    """True and the limit lower where the pair of the candidates at x and y of the list is below it."""
    cdef const Instance *q = s.q
    cdef int j, c = s.list[x], d = s.list[y], n = q.k - 2
    cdef double v = q.weight[c], w = q.weight[d], total = s.weight + v + w, tax = q.communication_weight, base = q.overhead_seconds
    cdef double rate = q.epoch_flops / total, scale, halo, slowest, worst, hop_lat = s.ring_lat, hop_byte = s.ring_spb
    cdef double between_lat = q.lat[<size_t> c * q.m + d], between_spb = q.spb[<size_t> c * q.m + d], between_hop = hop_spb(q, c, d)
    cdef bint same = c == d
    cdef const double *lat = s.lat + <size_t> s.row[y] * n
    cdef const double *spb = s.spb + <size_t> s.row[y] * n
    cdef const double *first = s.own + OWN * s.row[x]
    cdef const double *second = s.own + OWN * s.row[y]
    if q.k > 3 and not s.in_place:
        hop_lat = max(hop_lat, max(_second_of(first + OWN_LAT, between_lat), _second_of(second + OWN_LAT, between_lat)))
        hop_byte = max(hop_byte, max(_second_of(first + OWN_SPB, between_hop), _second_of(second + OWN_SPB, between_hop)))
    if s.rings == 0:  # the ring stays as it is
        hop_lat = max(max(hop_lat, s.hop_lat), _either_way(first + OWN_HOP_LAT, second + OWN_HOP_LAT))
        hop_byte = max(max(hop_byte, s.hop_spb), _either_way(first + OWN_HOP_SPB, second + OWN_HOP_SPB))
        if s.adjacent:
            hop_lat, hop_byte = max(hop_lat, between_lat), max(hop_byte, between_hop)
    base += ring_seconds(s.q, hop_lat, hop_byte)
    scale = halo_scale(q, total, s.squares + v * v + w * w)
    worst = q.rounds * max(second[OWN_FAR], between_lat)
    worst += scale * node_bytes(q, d, second[OWN_COUNT] + 1.0 + same, second[OWN_PAY] + v * between_spb)
    slowest = worst + rate * w / q.speed[d]
    halo = q.rounds * max(first[OWN_FAR], between_lat)
    halo += scale * node_bytes(q, c, first[OWN_COUNT] + 1.0 + same, first[OWN_PAY] + w * between_spb)
    worst, slowest = max(worst, halo), max(slowest, halo + rate * v / q.speed[c])
    if base + slowest + tax * worst >= s.limit:
        return False
    for j in range(n):
        halo = q.rounds * max(s.far1[j], lat[j]) + scale * node_bytes(
            q, s.rest[j], s.count1[j] + (s.rest[j] == d), s.pay1[j] + w * spb[j])
        worst, slowest = max(worst, halo), max(slowest, halo + rate * s.slow[j])
        if base + slowest + tax * worst >= s.limit:
            return False
    for j in range(n if q.k > 3 and s.rings else 0):
        hop_lat = max(hop_lat, _second_of(s.near1 + 4 * j, lat[j]))
        hop_byte = max(hop_byte, _second_of(s.near1 + 4 * j + 2, q.inside[d] if s.rest[j] == d else spb[j]))
    return _seat(s, x, y, s.limit - q.overhead_seconds - slowest - tax * worst, hop_lat, hop_byte)


cdef double _shared_ring(Pairs *s) noexcept nogil:
    """Seconds of the objective that the ring of s.spare takes with the cards shared, its nodes gathered where that may be and is faster."""
    cdef double ring = ring_cost(s.q, s.spare), gathered
    if s.fixed == NULL and not s.in_place:
        memcpy(s.ws.trial, s.spare, s.q.k * sizeof(int))
        if gather(s.q, s.ws.trial, s.ws.tour):
            gathered = ring_cost(s.q, s.ws.trial)
            if gathered < ring:
                ring = gathered
                memcpy(s.spare, s.ws.trial, s.q.k * sizeof(int))
    return (1.0 + s.q.communication_weight) * ring


cdef bint _seat(Pairs *s, int x, int y, double room, double hop_lat, double hop_byte) noexcept nogil:
    """True where a ring is found that leaves the objective below the limit; `room` seconds of it are left for the ring.

    hop_lat, hop_byte: no ring has a better slowest hop
    """
    cdef const Instance *q = s.q
    cdef int i, k = q.k, c = s.list[x], d = s.list[y], first = s.order[s.at[0]], second = s.order[s.at[1]]
    cdef double ring, tax, least = INFINITY
    cdef const double *own
    cdef const double *other
    if (c == first and d == second) or (c == second and d == first):
        return False
    s.work += k // PAIR_RATIO
    if ring_seconds(s.q, hop_lat, hop_byte) >= room:
        return False
    for i in range(2):
        own, other = s.own + OWN * s.row[y if i else x], s.own + OWN * s.row[x if i else y]
        hop_lat = max(s.hop_lat, max(own[OWN_HOP_LAT], other[OWN_HOP_LAT + 1]))
        hop_byte = max(s.hop_spb, max(own[OWN_HOP_SPB], other[OWN_HOP_SPB + 1]))
        if s.adjacent:
            hop_lat, hop_byte = max(hop_lat, q.lat[<size_t> c * q.m + d]), max(hop_byte, hop_spb(q, c, d))
        ring = ring_seconds(s.q, hop_lat, hop_byte)
        if s.shared:  # so far as if each hop had its cards for itself
            memcpy(s.spare, s.order, k * sizeof(int))
            s.spare[s.at[0]], s.spare[s.at[1]] = (d, c) if i else (c, d)
            ring = _shared_ring(s)
        if ring < least:
            least = ring
            memcpy(s.tried, s.order, k * sizeof(int))
            s.tried[s.at[0]], s.tried[s.at[1]] = (d, c) if i else (c, d)
            if s.shared:
                memcpy(s.tried, s.spare, k * sizeof(int))
    if least >= room:
        if s.rings == 0:
            return False
        s.rings -= 1
        tax = 1.0 + q.communication_weight
        least = tax * ring_within(q, s.tried, s.fixed, room / tax, RING_PLACES, &s.work, s.ws)
        if least >= room:
            return False
    s.limit = (s.limit - room + least) * BETTER
    memcpy(s.found, s.tried, k * sizeof(int))
    return True


cdef double _turn(Pairs *s, double now, double heat) noexcept nogil:
    """The objective after two ranks were swapped or a part of the ring was turned, where that is not much worse."""
    cdef int i = below(&s.random, s.q.k), j = below(&s.random, s.q.k), low, high, x
    cdef bint reverse = s.fixed == NULL and below(&s.random, 2) == 0
    cdef double was, ring, tax = 1.0 + s.q.communication_weight
    if i == j or (s.fixed != NULL and (s.fixed[i] or s.fixed[j])):
        return now
    low, high = min(i, j), max(i, j)
    was = ring_cost(s.q, s.order)
    _flip(s.order, low, high, reverse)
    ring = ring_cost(s.q, s.order)
    s.work += TURN_WORK
    if now + tax * (ring - was) >= now * (1.0 - heat * log(unit(&s.random))):
        _flip(s.order, low, high, reverse)
        return now
    return now + tax * (ring - was)


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


cdef double _walk(Pairs *s, long long work, double heat, double best, int *best_order) noexcept nogil:
    """Trials until so much work is done; a pair may be worse by `heat` of the objective or so. The best objective and order seen."""
    cdef double now = objective(s.q, s.order)
    while s.work < work:
        s.work += TRIAL_WORK + 2 * s.ws.u + <long long> s.q.k * s.q.k // TRIAL_RATIO
        now = _turn(s, now, heat)
        s.in_place = below(&s.random, 100) < IN_PLACE
        s.rings = 0 if s.in_place else MOST_RINGS
        _rank_costs(s)
        _choose(s)
        s.limit = now * (1.0 - heat * log(unit(&s.random)))
        _take_away(s)
        _list(s)
        s.work += <long long> s.listed * s.q.k // LIST_RATIO
        _hops(s)
        _sharpen(s)
        if s.listed == 0 or not _both(s):
            continue
        memcpy(s.order, s.found, s.q.k * sizeof(int))
        ring_within(s.q, s.order, s.fixed, ring_cost(s.q, s.order), LAST_PLACES, &s.work, s.ws)
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
    cdef int r, c, places = 0, free = free_ranks(kernel, order, fixed, best_order), k = kernel.q.k, m = kernel.q.m
    cdef int *whole = <int *> calloc(6 * <size_t> k + 2 * m + 8, sizeof(int))
    cdef double *seconds = <double *> calloc(18 * <size_t> k + (1 + OWN + 2 * <size_t> max(k, 2)) * m + 8, sizeof(double))
    if whole == NULL or seconds == NULL:
        release(whole)
        release(seconds)
        raise MemoryError()
    s.q, s.ws, s.random, s.order, s.free, s.work = &kernel.q, kernel.ws, random, &order[0], free, 0
    s.fixed = &fixed[0] if free < k else NULL
    s.places, s.rest, s.place, s.tried, s.found = whole, whole + k, whole + 2 * k, whole + 3 * k, whole + 4 * k
    s.spare, s.list, s.row = whole + 5 * k, whole + 6 * k, whole + 6 * k + m
    s.cost, s.weigh, s.slow, s.pay, s.far = seconds, seconds + k, seconds + 2 * k, seconds + 3 * k, seconds + 4 * k
    s.least, s.pay1, s.far1, s.near, s.near1 = seconds + 5 * k, seconds + 6 * k, seconds + 7 * k, seconds + 8 * k, seconds + 12 * k
    s.count, s.count1 = seconds + 16 * k, seconds + 17 * k
    s.bound, s.own = seconds + 18 * k, seconds + 18 * k + m
    s.lat, s.spb = s.own + OWN * <size_t> m, s.own + OWN * <size_t> m + <size_t> k * m
    s.shared = False
    for r in range(m):
        s.shared = s.shared or kernel.ws.room[r] > 1
    for r in range(k):
        if not fixed[r]:
            s.places[places] = r
            places += 1
        elif kernel.ws.room[order[r]] > 0:
            s.shared = True
        for c in range(r):
            s.shared = s.shared or order[c] == order[r]
    if free >= 2 and s.ws.u > 0:
        with nogil:
            best = _walk(&s, work, heat, best, &best_order[0])
    release(whole)
    release(seconds)
    return best, s.random, s.work
