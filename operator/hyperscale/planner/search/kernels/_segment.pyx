"""Compiled search by segments: workers that follow each other in the ring are taken away, and the best path for their places is found.

Where the slowest hop of the ring decides, good hops are rare: of a hundred candidates hardly one is near to both neighbours of a place. Of
paths of three or four between two that stay there are many, and few of their first hops are cheap enough to go on from. Like the search by
pairs, a path that is somewhat worse may be taken; the nodes that were taken away only in a better order, so that the walk moves on. A search
of paths is exact unless its work is spent before; bounds leave uplinks out, so that it is where they are loosest. What a step does follows
from the seed and the work spent, never from the time; the clock only ends a search.
"""

from libc.math cimport log
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free as release
from libc.string cimport memcpy

from hyperscale.planner.search.kernels._kernel cimport (
    Instance, Kernel, Workspace, class_row, gather, hop_bytes, hop_lat, least_class, node_bytes, objective, repeats, ring_cost, ring_within,
)
from hyperscale.planner.search.kernels._walks cimport below, free_ranks, halo_scale, ring_seconds
from hyperscale.util._splitmix cimport unit

cdef enum:
    LONGEST = 5      # workers of a segment
    OWN = 3
cdef int MOST_WORK = 1200     # for one search of paths, in which there are
cdef int FEW_SEGMENTS = 24    # or more that may be taken away; where there are fewer each comes again soon, and is searched longer
cdef int NODE_WORK = 2
cdef int TRIAL_WORK = 16
cdef int TRIAL_RATIO = 4
cdef int LIST_RATIO = 8
cdef int REACH_RATIO = 16
cdef int LAST_PLACES = 200  # tried for the ring of the path that is taken
cdef long long LOOK_ELEMENTS = 400_000  # numbers touched between two looks at the clock: less than a millisecond
cdef double BETTER = 1.0 - 1e-12
cdef int AIMED = 50      # percent of the trials that take away the slowest hop or the slowest worker


cdef struct Segment:
    const Instance *q
    Workspace *ws
    const unsigned char *fixed
    uint64_t random
    int *order            # (k,) where the walk stands
    int *found            # (k,)
    int *tried            # (k,)
    int *spare            # (k,)
    int *member           # (k,) the rest, then the path as far as it goes
    int *list             # (m,) candidates that can stand beside the rest, lowest bound first
    int *row              # (m,)
    int start             # the first rank that is taken away
    int length
    int n                 # members of the rest
    int dearest           # the member of it that costs most, which rules most candidates out
    int listed
    int before            # the candidate that the path starts from
    int after             # the one that it leads to
    double *weigh         # (k,) weight of each member
    double *slow          # (k,) weight / speed
    double *pay           # (LONGEST + 1, k) by length of the path: seconds per byte of each member to others on other nodes, weighted
    double *far           # (LONGEST + 1, k) its largest latency to all others
    double *count         # (LONGEST + 1, k) members on its node
    double *bound         # (m,) by position in `list`
    double *own           # (m, OWN) by row: pay and far to the rest, and how many of it are on the node
    unsigned char *reach  # (LONGEST, m) by place and position in `list`: the rest of the path may lead to its end
    double heavy          # the largest weight
    double between        # the slowest hop of the ring that stays
    double hop_byte
    double inside         # the largest latency inside a node of the rest that has several ranks
    double inside_spb     # and seconds per byte
    double stays          # seconds of the objective that a ring takes which is no slower
    const double *figures # of the collectives, for no more nodes than the whole has
    bint exact            # for as many
    double now            # the objective where the walk stands
    double limit          # a path must be below
    long long work
    long long until
    long long most        # work of one search of paths
    void *expired         # a Python callable, alive for the whole search; NULL where nothing ends it
    long long touched     # numbers since the last look at the clock: steps of equal work take unequal time
    bint stopped


cdef bint _has_expired(void *expired) noexcept with gil:
    return bool((<object> expired)())


cdef inline bint _time_is_up(Segment *s, long long touched) noexcept nogil:
    """Whether the search must end; `touched` more numbers were read or written."""
    s.touched += touched
    if s.touched > LOOK_ELEMENTS and s.expired != NULL:
        s.touched = 0
        s.stopped = s.stopped or _has_expired(s.expired)
    return s.stopped


cdef int _aim(Segment *s) noexcept nogil:
    """A rank that the segment should hold: any, at an end of the ring's slowest hop, or the slowest."""
    cdef const Instance *q = s.q
    cdef int r, j, aim = below(&s.random, q.k), kind = below(&s.random, 3)
    cdef double value, most = -1.0
    cdef const double *hops
    if below(&s.random, 100) >= AIMED:
        return aim
    if kind == 2:
        for r in range(q.k):
            value = 0.0
            for j in range(q.k):
                if j != r:
                    value += q.weight[s.order[j]] * q.spb[<size_t> s.order[r] * q.m + s.order[j]]
            value *= q.weight[s.order[r]]
            if value > most:
                most, aim = value, r
        return aim
    hops = q.lat if kind else q.spb
    for r in range(q.k):
        value = hops[<size_t> s.order[r] * q.m + s.order[(r + 1) % q.k]]
        if value > most:
            most, aim = value, r
    return (aim + below(&s.random, 2)) % q.k


cdef bint _choose(Segment *s) noexcept nogil:
    """Places of a path; False where one of them may not change."""
    cdef int i, k = s.q.k
    s.length = 2 + below(&s.random, min(LONGEST, k - 2) - 1)
    s.start = (_aim(s) + k - below(&s.random, s.length)) % k
    if s.fixed != NULL:
        for i in range(s.length):
            if s.fixed[(s.start + i) % k]:
                return False
    s.before, s.after = s.order[(s.start + k - 1) % k], s.order[(s.start + s.length) % k]
    return True


cdef void _take_away(Segment *s) noexcept nogil:
    """The rest, its sums, its part of the ring, and how many workers of it each candidate has."""
    cdef const Instance *q = s.q
    cdef int i, j, r, c, nodes = 0, sharp = q.classes - 1, k = q.k
    cdef const double *lat
    cdef const double *spb
    for i in range(s.ws.u):
        s.ws.used[s.ws.usable[i]] = 0
    s.n = k - s.length
    s.between = s.hop_byte = s.inside = s.inside_spb = 0.0
    for i in range(s.n):
        r = (s.start + s.length + i) % k
        c = s.member[i] = s.order[r]
        if q.inner or q.times[c] > 0:
            s.inside, s.inside_spb = max(s.inside, q.lat[<size_t> c * q.m + c]), max(s.inside_spb, q.inside[c])
        nodes += q.times[c] == 0
        sharp = least_class(q, sharp, c)
        q.times[c] += 1
        s.weigh[i], s.slow[i] = q.weight[c], q.weight[c] / q.speed[c]
        s.pay[i], s.far[i] = 0.0, (q.lat[<size_t> c * q.m + c] if q.inner else 0.0)
        if s.fixed == NULL or not s.fixed[r]:
            s.ws.used[c] += 1
        lat, spb = q.lat + <size_t> c * q.m, q.spb + <size_t> c * q.m
        if i:
            s.between, s.hop_byte = max(s.between, hop_lat(q, c, s.member[i - 1])), max(s.hop_byte, hop_bytes(q, c, s.member[i - 1]))
        for j in range(i):
            r = s.member[j]
            s.pay[i] += s.weigh[j] * spb[r]
            s.pay[j] += s.weigh[i] * spb[r]
            s.far[i] = max(s.far[i], lat[r])
            s.far[j] = max(s.far[j], lat[r])
    for i in range(s.n):
        s.count[i] = q.times[s.member[i]]
    if s.ws.single:  # workers that join no node of the rest are on nodes of their own
        nodes += s.length
        for i in range(s.ws.u):
            c = s.ws.usable[i]
            nodes -= q.times[c] > 0 and s.ws.used[c] < s.ws.room[c]
    for i in range(s.n):
        q.times[s.member[i]] = 0
    s.exact = nodes == k and not q.railed and (q.sharp == NULL or sharp == 0)
    s.figures = class_row(q, q.floors, sharp, max(1, nodes))
    s.stays = ring_seconds(q, s.figures, s.between, s.inside, s.hop_byte, s.inside_spb)


cdef void _find_dearest(Segment *s, double weight, double squares) noexcept nogil:
    """Put the dearest member of the rest into s.dearest."""
    cdef int j
    cdef double cost, most = -1.0, scale = halo_scale(s.q, weight, squares), rate = s.q.epoch_flops / weight
    s.dearest = 0
    for j in range(s.n):
        cost = s.q.rounds * s.far[j] + scale * node_bytes(s.q, s.member[j], s.count[j], s.pay[j]) + rate * s.slow[j]
        if cost > most:
            most, s.dearest = cost, j


cdef void _list(Segment *s, double weight, double squares) noexcept nogil:
    """Candidates that could stand beside the rest with the best of partners, the lowest bound first."""
    cdef const Instance *q = s.q
    cdef int i, j, b, c, at, more = s.length - 1
    cdef double w, total, scale, rate, halo, slowest, worst, pay, far, count, base = q.overhead_seconds + s.stays
    cdef const double *lat
    cdef const double *spb
    s.heavy = 0.0
    for i in range(s.ws.u):
        c = s.ws.usable[i]
        if s.ws.used[c] < s.ws.room[c]:
            s.heavy = max(s.heavy, q.weight[c])
    s.listed = 0
    for i in range(s.ws.u):
        c = s.ws.usable[i]
        if s.ws.used[c] >= s.ws.room[c]:
            continue
        w, lat, spb = q.weight[c], q.lat + <size_t> c * q.m, q.spb + <size_t> c * q.m
        total = weight + w + more * s.heavy
        rate, scale = q.epoch_flops / total, halo_scale(s.q, total, squares + w * w + more * s.heavy * s.heavy)
        j = s.dearest
        b = s.member[j]
        halo = q.rounds * max(s.far[j], lat[b]) + scale * node_bytes(q, b, s.count[j] + (b == c), s.pay[j] + w * spb[b])
        if base + (halo + rate * s.slow[j]) + q.communication_weight * halo >= s.limit:
            continue
        slowest = worst = pay = count = 0.0
        far = lat[c] if q.inner else 0.0
        for j in range(s.n):
            b = s.member[j]
            pay += s.weigh[j] * spb[b]
            far = max(far, lat[b])
            count += b == c
            halo = q.rounds * max(s.far[j], lat[b]) + scale * node_bytes(q, b, s.count[j] + (b == c), s.pay[j] + w * spb[b])
            worst = max(worst, halo)
            slowest = max(slowest, halo + rate * s.slow[j])
            if base + slowest + q.communication_weight * worst >= s.limit:
                break
        else:
            halo = q.rounds * far + scale * node_bytes(q, c, count + 1.0, pay)
            worst = max(worst, halo)
            slowest = base + max(slowest, halo + rate * w / q.speed[c]) + q.communication_weight * worst
            if slowest >= s.limit:
                continue
            s.own[OWN * s.listed], s.own[OWN * s.listed + 1], s.own[OWN * s.listed + 2] = pay, far, count
            at = s.listed
            s.listed += 1
            while at > 0 and s.bound[at - 1] > slowest:
                s.bound[at], s.list[at], s.row[at] = s.bound[at - 1], s.list[at - 1], s.row[at - 1]
                at -= 1
            s.bound[at], s.list[at], s.row[at] = slowest, c, s.listed - 1


cdef inline double _over(const Segment *s, int a, int b) noexcept nogil:
    """Seconds that a hop between two candidates adds to the ring that stays."""
    cdef double between = max(s.between, hop_lat(s.q, a, b)), spb = max(s.hop_byte, hop_bytes(s.q, a, b))
    return ring_seconds(s.q, s.figures, between, s.inside, spb, s.inside_spb) - s.stays


cdef bint _reach(Segment *s) noexcept nogil:
    """From which candidates at which places the path may lead to its end; False where there is none."""
    cdef int x, y, place, m = s.q.m, last = s.length - 1
    cdef bint some = False
    for x in range(s.listed):
        s.reach[last * m + x] = s.bound[x] + _over(s, s.list[x], s.after) < s.limit
        some = some or s.reach[last * m + x]
    for place in range(last - 1, -1, -1):
        if not some:
            return False
        some = False
        for x in range(s.listed):
            s.reach[place * m + x] = 0
            if place == 0 and s.bound[x] + _over(s, s.before, s.list[x]) >= s.limit:
                continue
            if _time_is_up(s, s.listed):
                return False
            for y in range(s.listed):
                if s.reach[(place + 1) * m + y] and max(s.bound[x], s.bound[y]) + _over(s, s.list[x], s.list[y]) < s.limit:
                    s.reach[place * m + x] = some = True
                    break
            s.work += 1 if x % REACH_RATIO == 0 else 0
    return some


cdef int _places(const Segment *s) noexcept nogil:
    """Workers that the listed candidates can take."""
    cdef int x, places = 0
    for x in range(s.listed):
        places += s.ws.room[s.list[x]] - s.ws.used[s.list[x]]
    return places


cdef bint _room(const Segment *s, int c, int place) noexcept nogil:
    cdef int i, left = s.ws.room[c] - s.ws.used[c]
    for i in range(place):
        left -= s.member[s.n + i] == c
    return left > 0


cdef bint _same(const Segment *s) noexcept nogil:
    """The path has as many workers on every node as were taken away there."""
    cdef int i, j, c, more, k = s.q.k
    for i in range(s.length):
        c, more = s.member[s.n + i], 0
        for j in range(s.length):
            more += (s.member[s.n + j] == c) - (s.order[(s.start + j) % k] == c)
        if more != 0:
            return False
    return True


cdef bint _path(Segment *s, int place, double weight, double squares, double between, double hop_byte, double inside,
                double inside_spb) noexcept nogil:
    """True where paths from `place` on are found below the limit; the best is in s.found, and the limit is what it costs."""
    cdef const Instance *q = s.q
    cdef int x, c, i, last = s.member[s.n + place - 1] if place else s.before, k = q.k
    cdef double w, lat, spb, most, bar, ring, own, own_spb
    cdef bint found = False
    for x in range(s.listed):
        if s.bound[x] >= s.limit or s.work > s.until or _time_is_up(s, s.n):
            break
        c = s.list[x]
        if not s.reach[place * q.m + x] or not _room(s, c, place):
            continue
        lat, spb, own = max(between, hop_lat(q, last, c)), max(hop_byte, hop_bytes(q, last, c)), inside
        own_spb = inside_spb
        if place == s.length - 1:
            lat, spb = max(lat, hop_lat(q, s.after, c)), max(spb, hop_bytes(q, s.after, c))
        if q.inner:
            own, own_spb = max(own, q.lat[<size_t> c * q.m + c]), max(own_spb, q.inside[c])
        ring = ring_seconds(s.q, s.figures, lat, own, spb, own_spb)
        if s.bound[x] + (ring - s.stays) >= s.limit:
            continue
        s.work += NODE_WORK
        w = q.weight[c]
        most = _beside(s, x, place, weight + w, squares + w * w, ring)
        if most >= s.limit:
            continue
        if place < s.length - 1:
            found = _path(s, place + 1, weight + w, squares + w * w, lat, spb, own, own_spb) or found
        else:
            bar = min(s.limit, s.now * BETTER) if _same(s) else s.limit
            if most >= bar:
                continue
            memcpy(s.tried, s.order, k * sizeof(int))
            for i in range(s.length):
                s.tried[(s.start + i) % k] = s.member[s.n + i]
            if not s.exact or q.levels > 0 or repeats(q, s.tried):  # so far as if each hop had cards and uplinks for itself
                if s.fixed == NULL:
                    gather(q, s.tried, s.spare)
                s.touched += <long long> k * k
                if q.levels > 0:
                    most = objective(q, s.tried)
                else:
                    most += (1.0 + q.communication_weight) * ring_cost(q, s.tried) - ring
                if most >= bar:
                    continue
            s.limit, found = most * BETTER, True
            memcpy(s.found, s.tried, k * sizeof(int))
    return found


cdef double _beside(Segment *s, int x, int place, double weight, double squares, double ring) noexcept nogil:
    """The least objective with the candidate at x of the list at the path's `place`; some value from the limit on where it is no less."""
    cdef const Instance *q = s.q
    cdef int j, c = s.list[x], b, more = s.length - 1 - place, n = s.n + place
    cdef const double *lat = q.lat + <size_t> c * q.m
    cdef const double *spb = q.spb + <size_t> c * q.m
    cdef double *pay = s.pay + place * q.k
    cdef double *far = s.far + place * q.k
    cdef double *count = s.count + place * q.k
    cdef double w = q.weight[c], total = weight + more * s.heavy, scale = halo_scale(s.q, total, squares + more * s.heavy * s.heavy)
    cdef double rate = q.epoch_flops / total, own = s.own[OWN * s.row[x]], most = s.own[OWN * s.row[x] + 1], halo, slowest = 0.0, worst = 0.0
    cdef double mates = s.own[OWN * s.row[x] + 2] + 1.0
    cdef double base = q.overhead_seconds + ring, tax = q.communication_weight
    j = s.dearest
    b = s.member[j]
    halo = q.rounds * max(far[j], lat[b]) + scale * node_bytes(q, b, count[j] + (b == c), pay[j] + w * spb[b])
    if base + (halo + rate * s.slow[j]) + tax * halo >= s.limit:
        return s.limit
    for j in range(n):
        b = s.member[j]
        if j >= s.n:
            own += s.weigh[j] * spb[b]
            most = max(most, lat[b])
            mates += b == c
        pay[q.k + j], far[q.k + j], count[q.k + j] = pay[j] + w * spb[b], max(far[j], lat[b]), count[j] + (b == c)
        halo = q.rounds * far[q.k + j] + scale * node_bytes(q, b, count[q.k + j], pay[q.k + j])
        worst = max(worst, halo)
        slowest = max(slowest, halo + rate * s.slow[j])
        if base + slowest + tax * worst >= s.limit:
            return s.limit
    s.member[n], s.weigh[n], s.slow[n], pay[q.k + n], far[q.k + n], count[q.k + n] = c, w, w / q.speed[c], own, most, mates
    halo = q.rounds * most + scale * node_bytes(q, c, mates, own)
    return base + max(slowest, halo + rate * s.slow[n]) + tax * max(worst, halo)


cdef double _walk(Segment *s, long long work, double heat, double best, int *best_order) noexcept nogil:
    """Trials until so much work is done; a path may be worse by `heat` of the objective or so. The best objective and order seen."""
    cdef double weight, squares
    cdef int i
    s.now = objective(s.q, s.order)
    while s.work < work and not s.stopped:
        s.work += TRIAL_WORK + 2 * s.ws.u + <long long> s.q.k * s.q.k // TRIAL_RATIO
        if not _choose(s):
            continue
        s.limit = s.now * (1.0 - heat * log(unit(&s.random)))
        _take_away(s)
        weight = squares = 0.0
        for i in range(s.n):
            weight += s.weigh[i]
            squares += s.weigh[i] * s.weigh[i]
        _find_dearest(s, weight, squares)
        _list(s, weight, squares)
        s.work += <long long> s.listed * s.q.k // LIST_RATIO
        s.until = s.work + s.most
        if _places(s) < s.length or not _reach(s) or not _path(s, 0, weight, squares, s.between, s.hop_byte, s.inside, s.inside_spb):
            continue
        memcpy(s.order, s.found, s.q.k * sizeof(int))
        ring_within(s.q, s.order, s.fixed, ring_cost(s.q, s.order), LAST_PLACES, &s.work, s.ws)
        s.now = objective(s.q, s.order)
        if s.now < best * BETTER:
            best = s.now
            memcpy(best_order, s.order, s.q.k * sizeof(int))
    return best


cdef int _segments(const Segment *s) noexcept nogil:
    """How many different segments may be taken away."""
    cdef int start, length, count = 0, k = s.q.k
    for start in range(k):
        for length in range(min(LONGEST, k - 2)):
            if s.fixed != NULL and s.fixed[(start + length) % k]:
                break
            count += length > 0
    return count


def segments(Kernel kernel, int[::1] order, const unsigned char[::1] fixed, uint64_t random, long long work, double heat, double best,
             int[::1] best_order, object expired=None):
    """(best objective, state of the random numbers, work done) after about `work` from `order` (k,), which is where the walk then stands.

    heat: part of the objective by which a path may be worse · best_order: (k,) of the objective `best` · expired: ends the search where true.
    Raises MemoryError, and ValueError where a size or a candidate is wrong.
    """
    cdef Segment s
    cdef int free = free_ranks(kernel, order, fixed, best_order), k = kernel.q.k, m = kernel.q.m
    cdef int *whole = <int *> calloc(4 * <size_t> k + 2 * m + 8, sizeof(int))
    cdef double *seconds = <double *> calloc((5 + 3 * LONGEST) * <size_t> k + (1 + OWN) * <size_t> m + 8, sizeof(double))
    cdef unsigned char *reach = <unsigned char *> calloc(LONGEST * <size_t> m + 8, 1)
    if whole == NULL or seconds == NULL or reach == NULL:
        release(whole)
        release(seconds)
        release(reach)
        raise MemoryError()
    s.q, s.ws, s.random, s.order, s.work, s.reach = &kernel.q, kernel.ws, random, &order[0], 0, reach
    s.expired, s.touched, s.stopped = (<void *> expired if expired is not None else NULL), 0, False
    s.fixed = &fixed[0] if free < k else NULL
    s.found, s.member, s.tried, s.spare = whole, whole + k, whole + 2 * k, whole + 3 * k
    s.list, s.row = whole + 4 * k, whole + 4 * k + m
    s.weigh, s.slow, s.pay = seconds, seconds + k, seconds + 2 * k
    s.far = s.pay + (LONGEST + 1) * k
    s.count = s.far + (LONGEST + 1) * k
    s.bound, s.own = s.count + (LONGEST + 1) * k, s.count + (LONGEST + 1) * k + m
    s.most = MOST_WORK * max(1, FEW_SEGMENTS // max(1, _segments(&s)))
    if k >= 4 and free > 0 and s.ws.u > 0:
        with nogil:
            best = _walk(&s, work, heat, best, &best_order[0])
    release(whole)
    release(seconds)
    release(reach)
    return best, s.random, s.work
