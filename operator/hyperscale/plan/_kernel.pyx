"""Compiled objective, greedy and local search of one job; the same figures as objective.py, which is the oracle.

An order is k candidates in ring order, one worker each; a candidate may come several times where it has the slots. With w the weights, W
their sum and D = W^2 - sum(w^2):
    compute_r = F / W * w_r / speed_r
    halo_r    = rounds * max_j lat_rj + H / D * w_r * sum_j w_j spb_rj
    objective = max(compute_r + halo_r) + overhead + lambda * max(halo_r) + (1 + lambda) * (A * max lat + B * max spb over the ring's hops)
Pairs that cannot talk have a latency so large that no placement with one can be mistaken for another; whatever exceeds CANNOT_WORK is +inf
outside. Every loop runs in the order of its indices and nothing depends on addresses or time: same input, same output.
"""

from libc.math cimport INFINITY
from libc.stdlib cimport calloc, free as release
from libc.string cimport memcpy, memset

cdef double BLOCKED_SECONDS = 1e100
cdef double LEAST_ROUNDS = 1e-50
cdef double CANNOT_WORK = 1e40
cdef double IMPROVES = 1.0 - 1e-9
cdef int MAX_REPAIRS = 64
cdef int MAX_RING_MOVES = 4_000_000
cdef enum:
    MOST_RING = 32  # members of which the best ring is sought exactly
cdef int REPAIR_STEPS = 8
cdef int REPAIR_WORK = 6
cdef int HOPS_RATIO = 4
cdef int PLACE_WORK = 4


cdef Workspace *workspace_new(int m, int k) noexcept nogil:
    """Zeroed scratch memory; NULL when there is none."""
    cdef Workspace *ws = <Workspace *> calloc(1, sizeof(Workspace))
    if ws == NULL:
        return NULL
    ws.m, ws.k = m, k
    ws.usable = <int *> calloc(4 * m + 4 * k + 8, sizeof(int))
    ws.psum = <double *> calloc(5 * m + 5 * k + 8, sizeof(double))
    if ws.usable == NULL or ws.psum == NULL:
        workspace_free(ws)
        return NULL
    ws.room, ws.used, ws.rank = ws.usable + m, ws.usable + 2 * m, ws.usable + 3 * m
    ws.A = ws.usable + 4 * m
    ws.tour, ws.spare, ws.found = ws.A + k, ws.A + 2 * k, ws.A + 3 * k
    ws.lmax, ws.hlat, ws.hspb, ws.score = ws.psum + m, ws.psum + 2 * m, ws.psum + 3 * m, ws.psum + 4 * m
    ws.P = ws.psum + 5 * m
    ws.L, ws.L2, ws.hl, ws.hb = ws.P + k, ws.P + 2 * k, ws.P + 3 * k, ws.P + 4 * k
    return ws


cdef void workspace_free(Workspace *ws) noexcept nogil:
    if ws != NULL:
        release(ws.usable)
        release(ws.psum)
        release(ws)


cdef void workspace_room(Workspace *ws, const Instance *q, const unsigned char *free) noexcept nogil:
    """Say which candidates the next search may use: those with slots, and of them the ones where `free` (m,) is set, unless it is NULL."""
    cdef int c
    ws.u = 0
    for c in range(q.m):
        ws.room[c] = (1 if q.slots == NULL else q.slots[c]) if free == NULL or free[c] else 0
        ws.used[c] = 0
        if ws.room[c] > 0:
            ws.usable[ws.u] = c
            ws.u += 1


cdef double set_cost(const Instance *q, const int *order) noexcept nogil:
    """The part of the objective that does not depend on the ring's order."""
    cdef int r, j, k = q.k
    cdef double total = 0.0, squares = 0.0, scale, rate, weighted, latency, halo, slowest = 0.0, worst = 0.0
    cdef const double *lat
    cdef const double *spb
    for r in range(k):
        total += q.weight[order[r]]
        squares += q.weight[order[r]] * q.weight[order[r]]
    rate = q.epoch_flops / total
    scale = q.halo_bytes / max(total * total - squares, 1e-12 * total * total)
    for r in range(k):
        lat, spb = q.lat + <size_t> order[r] * q.m, q.spb + <size_t> order[r] * q.m
        weighted = latency = 0.0
        for j in range(k):
            if j != r:
                weighted += q.weight[order[j]] * spb[order[j]]
                latency = max(latency, lat[order[j]])
        halo = q.rounds * latency + scale * q.weight[order[r]] * weighted
        worst = max(worst, halo)
        slowest = max(slowest, halo + rate * q.weight[order[r]] / q.speed[order[r]])
    return slowest + q.overhead_seconds + q.communication_weight * worst


cdef double ring_cost(const Instance *q, const int *order) noexcept nogil:
    """Allreduce seconds of an epoch; 0 for one worker."""
    cdef int r, k = q.k
    cdef double latency, per_byte
    if k == 1:
        return 0.0
    latency = q.lat[<size_t> order[k - 1] * q.m + order[0]]
    per_byte = q.spb[<size_t> order[k - 1] * q.m + order[0]]
    for r in range(k - 1):
        latency = max(latency, q.lat[<size_t> order[r] * q.m + order[r + 1]])
        per_byte = max(per_byte, q.spb[<size_t> order[r] * q.m + order[r + 1]])
    return q.ring_latency_factor * latency + q.ring_byte_factor * per_byte


cdef double objective(const Instance *q, const int *order) noexcept nogil:
    """Seconds; beyond CANNOT_WORK where two of `order` cannot talk."""
    return set_cost(q, order) + (1.0 + q.communication_weight) * ring_cost(q, order)


cdef void seed_scores(const Instance *q, Workspace *ws) noexcept nogil:
    """ws.score[c]: the objective as if all workers were like c and as near as its k - 1 cheapest partners; ws.rank: usable, best first."""
    cdef int i, j, c, d, count, at, k = q.k, partners = max(1, q.k - 1)
    cdef double halo = q.halo_bytes / max(1, k * partners), value, own, sum
    cdef double wait = (q.rounds + q.ring_latency_factor) / partners, byte = halo + q.ring_byte_factor / partners
    cdef double work = q.epoch_flops / k
    cdef double *nearest = ws.P
    for i in range(ws.u):
        c = ws.usable[i]
        own = work / q.speed[c]
        count = 0
        for j in range(ws.u if k > 1 else 0):
            d = ws.usable[j]
            if d == c and ws.room[c] < 2:
                continue
            # The partner's own speed counts as well: a near but slow node is no good partner.
            value = byte * q.spb[<size_t> c * q.m + d] + wait * q.lat[<size_t> c * q.m + d] + max(own, work / q.speed[d]) / partners
            if count == partners and value >= nearest[count - 1]:
                continue
            at = count if count < partners else count - 1
            while at > 0 and nearest[at - 1] > value:
                nearest[at] = nearest[at - 1]
                at -= 1
            nearest[at] = value
            count = min(count + 1, partners)
        sum = own if k == 1 else 0.0
        for j in range(count):
            sum += nearest[j]
        if 0 < count < partners:
            sum *= <double> partners / count
        ws.score[c] = sum
        at = i
        while at > 0 and ws.score[ws.rank[at - 1]] > sum:
            ws.rank[at] = ws.rank[at - 1]
            at -= 1
        ws.rank[at] = c


cdef double greedy_score(const Instance *q, const Workspace *ws, int c, int now, double speed_sum, double speed_min, double halo_worst,
                         double ring_lat, double ring_spb) noexcept nogil:
    """Objective of the whole job as if the placement so far and candidate c, `now` workers together, were its fair sample."""
    cdef double speed, own, ring
    if q.equal:
        speed = min(speed_min, q.speed[c]) * q.k
    else:
        speed = (speed_sum + q.speed[c]) * (<double> q.k / now)
    own = q.halo_bytes / (q.k * (q.k - 1.0)) * ((q.k - 1.0) / (now - 1.0)) * ws.psum[c] + q.rounds * ws.lmax[c]
    ring = q.ring_latency_factor * max(ring_lat, ws.hlat[c]) + q.ring_byte_factor * max(ring_spb, ws.hspb[c])
    return q.epoch_flops / speed + (1.0 + q.communication_weight) * (max(own, halo_worst) + ring)


cdef inline void _absorb(const Instance *q, Workspace *ws, int c) noexcept nogil:
    """Every candidate's links to one more member."""
    cdef int i, d
    cdef const double *lat = q.lat + <size_t> c * q.m
    cdef const double *spb = q.spb + <size_t> c * q.m
    for i in range(ws.u):
        d = ws.usable[i]
        ws.psum[d] += spb[d]
        ws.lmax[d] = max(ws.lmax[d], lat[d])
        ws.hlat[d] = min(ws.hlat[d], lat[d])
        ws.hspb[d] = min(ws.hspb[d], spb[d])


cdef int greedy(const Instance *q, int *order, int start, bint seed_takes_slot, Workspace *ws) noexcept nogil:
    """Fill `order` (k,) after its first `start` members, always the cheapest; how many it then has, k unless it got stuck."""
    cdef int i, c, now, best
    cdef double value, least, own, share = q.halo_bytes / max(1.0, q.k * (q.k - 1.0))
    cdef double speed_sum = 0.0, speed_min = INFINITY, halo_worst = 0.0, ring_lat = 0.0, ring_spb = 0.0
    for i in range(ws.u):
        c = ws.usable[i]
        ws.psum[c] = ws.lmax[c] = 0.0
        ws.hlat[c] = ws.hspb[c] = INFINITY
        ws.used[c] = 0
    now = 0
    while now < q.k:
        if now < start:
            best = order[now]
        else:
            best, least = -1, CANNOT_WORK
            for i in range(ws.u):
                c = ws.usable[i]
                if ws.used[c] < ws.room[c]:
                    value = greedy_score(q, ws, c, now + 1, speed_sum, speed_min, halo_worst, ring_lat, ring_spb)
                    if value < least:
                        best, least = c, value
            if best < 0:
                return now
            ring_lat, ring_spb = max(ring_lat, ws.hlat[best]), max(ring_spb, ws.hspb[best])
            order[now] = best
        if now >= start or seed_takes_slot:
            ws.used[best] += 1
        speed_sum += q.speed[best]
        speed_min = min(speed_min, q.speed[best])
        if ws.room[best] > 0:
            own = share * ws.psum[best] + q.rounds * ws.lmax[best]
        else:  # a pinned rank on a node that takes nobody else
            own = _own_halo(q, order, now, share)
        halo_worst = max(halo_worst, own)
        _absorb(q, ws, best)
        now += 1
    return now


cdef double _own_halo(const Instance *q, const int *order, int rank, double share) noexcept nogil:
    cdef int j
    cdef double bytes = 0.0, latency = 0.0
    for j in range(rank):
        bytes += q.spb[<size_t> order[rank] * q.m + order[j]]
        latency = max(latency, q.lat[<size_t> order[rank] * q.m + order[j]])
    return share * bytes + q.rounds * latency


cdef double ring_polish(const Instance *q, int *order, const unsigned char *fixed, Workspace *ws) noexcept nogil:
    """2-opt, moves of one rank and swaps of two on the hops that set the pace, best first, until none improves; the ring's seconds.

    Ranks where `fixed` (k,; may be NULL) stay; then only swaps are tried.
    """
    cdef int steps = min(MAX_REPAIRS, 1 + MAX_RING_MOVES // (8 * <long long> q.k * q.k))
    return ring_repair(q, order, fixed, &steps, ws)


cdef double ring_repair(const Instance *q, int *order, const unsigned char *fixed, int *steps, Workspace *ws) noexcept nogil:
    """The same with at most `steps` moves, which is then how many moves were looked for."""
    cdef int r, h, kind, other, repairs, k = q.k
    cdef int slow_lat[5]
    cdef int slow_spb[5]
    cdef int move[3]
    cdef double best = ring_cost(q, order), value, least
    if k <= 3:
        steps[0] = 0
        return best
    for repairs in range(steps[0]):
        for r in range(k):
            other = order[r + 1 if r + 1 < k else 0]
            ws.hl[r], ws.hb[r] = q.lat[<size_t> order[r] * q.m + other], q.spb[<size_t> order[r] * q.m + other]
        _slowest_hops(ws.hl, k, slow_lat, 5)
        _slowest_hops(ws.hb, k, slow_spb, 5)
        least, move[0], move[1], move[2] = best * IMPROVES, -1, 0, 0
        for h in range(1 if slow_lat[0] == slow_spb[0] else 2):
            r = slow_spb[0] if h else slow_lat[0]
            if fixed == NULL:
                least = _best_reversal(q, order, slow_lat, slow_spb, r, least, move, ws)
                least = _best_shift(q, order, slow_lat, slow_spb, r, least, move, ws)
            for kind in range(2, 4):
                least = _best_swap(q, order, fixed, slow_lat, slow_spb, r, kind, least, move, ws)
        if move[0] < 0:
            steps[0] = repairs + 1
            break
        _ring_move(order, fixed, k, move[0], move[1], move[2], ws.tour)
        best = least
        memcpy(order, ws.tour, k * sizeof(int))
    return best


cdef struct Ring:
    # A search for the fastest ring of a few members.
    int k
    int places                     # that may still be tried
    unsigned long long taken       # members of the path, a bit each
    double latency_factor
    double byte_factor
    double room                    # seconds that a ring must be below
    bint found
    double lat[MOST_RING * MOST_RING]
    double spb[MOST_RING * MOST_RING]
    int near[MOST_RING * MOST_RING]  # of each member those that a hop below `room` leads to, cheapest first
    int nears[MOST_RING]
    int path[MOST_RING]
    int best[MOST_RING]


cdef inline bint _fits(const Ring *s, int a, int b, double latency, double per_byte) noexcept nogil:
    """A ring with these slowest hops may have this one as well."""
    cdef int at = a * MOST_RING + b
    return s.latency_factor * max(latency, s.lat[at]) + s.byte_factor * max(per_byte, s.spb[at]) < s.room


cdef bint _list_hops(Ring *s, const Instance *q, const int *order) noexcept nogil:
    """List the hops of every member that are below the room; False where one has less than two, and so no ring is."""
    cdef int i, j, at, count
    cdef double seconds
    cdef double cost[MOST_RING]
    cdef int *near
    for i in range(s.k):
        near, count = s.near + i * MOST_RING, 0
        for j in range(s.k):
            if j == i:
                continue
            s.lat[i * MOST_RING + j] = q.lat[<size_t> order[i] * q.m + order[j]]
            s.spb[i * MOST_RING + j] = q.spb[<size_t> order[i] * q.m + order[j]]
            seconds = s.latency_factor * s.lat[i * MOST_RING + j] + s.byte_factor * s.spb[i * MOST_RING + j]
            if seconds >= s.room:
                continue
            at = count
            count += 1
            while at > 0 and cost[at - 1] > seconds:
                cost[at], near[at] = cost[at - 1], near[at - 1]
                at -= 1
            cost[at], near[at] = seconds, j
        s.nears[i] = count
        if count < 2:
            return False
    return True


cdef bint _closable(const Ring *s, int last, double latency, double per_byte) noexcept nogil:
    """Every member that is left still has two hops, to others that are left or to an end of the path."""
    cdef int v, i, u, hops
    for v in range(s.k):
        if s.taken >> v & 1:
            continue
        hops = 0
        for i in range(s.nears[v]):
            u = s.near[v * MOST_RING + i]
            if (u == last or u == s.path[0] or not s.taken >> u & 1) and _fits(s, v, u, latency, per_byte):
                hops += 1
                if hops == 2:
                    break
        if hops < 2:
            return False
    return True


cdef void _extend(Ring *s, int count, double latency, double per_byte) noexcept nogil:
    """Depth first over the rings that start as the first `count` of s.path do."""
    cdef int i, at, u, last = s.path[count - 1]
    s.places -= 1
    if count == s.k:
        at = last * MOST_RING + s.path[0]
        if _fits(s, last, s.path[0], latency, per_byte):
            s.room = s.latency_factor * max(latency, s.lat[at]) + s.byte_factor * max(per_byte, s.spb[at])
            s.found = True
            memcpy(s.best, s.path, s.k * sizeof(int))
        return
    if not _closable(s, last, latency, per_byte):
        return
    for i in range(s.nears[last]):
        u = s.near[last * MOST_RING + i]
        if s.places <= 0:
            return
        if s.taken >> u & 1 or not _fits(s, last, u, latency, per_byte):
            continue
        at = last * MOST_RING + u
        s.path[count] = u
        s.taken |= <unsigned long long> 1 << u
        _extend(s, count + 1, max(latency, s.lat[at]), max(per_byte, s.spb[at]))
        s.taken &= ~(<unsigned long long> 1 << u)


cdef double ring_below(const Instance *q, int *order, double room, int places, long long *work) noexcept nogil:
    """Seconds of the best ring of the members of `order` (k,) that takes less than `room`, then in `order`; infinite where none was found.

    Exact where it ends within `places` tried; more than MOST_RING members stay as they are. work: gets the inner steps that it took
    """
    cdef Ring s
    cdef int i, first = 0
    cdef int members[MOST_RING]
    cdef double seconds
    if q.k <= 3 or q.k > MOST_RING:
        seconds = ring_cost(q, order)
        return seconds if seconds < room else INFINITY
    s.k, s.places, s.latency_factor, s.byte_factor, s.room, s.found = q.k, places, q.ring_latency_factor, q.ring_byte_factor, room, False
    work[0] += <long long> q.k * q.k // HOPS_RATIO
    if not _list_hops(&s, q, order):
        return INFINITY
    for i in range(s.k):
        if s.nears[i] < s.nears[first]:
            first = i
    s.path[0], s.taken = first, <unsigned long long> 1 << first
    _extend(&s, 1, 0.0, 0.0)
    work[0] += <long long> PLACE_WORK * (places - s.places)
    if not s.found:
        return INFINITY
    memcpy(members, order, q.k * sizeof(int))
    for i in range(q.k):
        order[i] = members[s.best[i]]
    return s.room


cdef double ring_within(const Instance *q, int *order, const unsigned char *fixed, double room, int places, long long *work,
                        Workspace *ws) noexcept nogil:
    """The same with ranks that stay (`fixed` (k,), NULL for none) and for any number of members: then moves look for it."""
    cdef int steps = REPAIR_STEPS
    cdef double seconds
    if fixed == NULL and q.k <= MOST_RING:
        return ring_below(q, order, room, places, work)
    seconds = ring_repair(q, order, fixed, &steps, ws)
    work[0] += <long long> REPAIR_WORK * q.k * (1 + steps)
    return seconds if seconds < room else INFINITY


cdef double _best_reversal(const Instance *q, const int *order, const int *slow_lat, const int *slow_spb, int hop, double least, int *move,
                           const Workspace *ws) noexcept nogil:
    """Allreduce seconds below `least` after the best move of kind 0, which goes to `move`; two hops change, the rest is in the tables.

    ws.hl, ws.hb: latency and seconds per byte of every hop · slow_lat, slow_spb: positions of the five slowest of them
    """
    cdef int other, p, next, k = q.k, first = hop + 1 if hop + 1 < k else 0
    cdef int gone[2]
    cdef double latency, per_byte
    cdef const double *lat = q.lat + <size_t> order[hop] * q.m
    cdef const double *spb = q.spb + <size_t> order[hop] * q.m
    cdef const double *end_lat = q.lat + <size_t> order[first] * q.m
    cdef const double *end_spb = q.spb + <size_t> order[first] * q.m
    gone[0] = hop
    for other in range(1, k - 2):
        p = first + other if first + other < k else first + other - k
        next = p + 1 if p + 1 < k else 0
        gone[1] = p
        latency = max(lat[order[p]], end_lat[order[next]])
        if q.ring_latency_factor * latency >= least:
            continue
        latency = max(latency, _slowest_but(ws.hl, slow_lat, gone, 2))
        per_byte = max(max(spb[order[p]], end_spb[order[next]]), _slowest_but(ws.hb, slow_spb, gone, 2))
        if q.ring_latency_factor * latency + q.ring_byte_factor * per_byte < least:
            least = q.ring_latency_factor * latency + q.ring_byte_factor * per_byte
            move[0], move[1], move[2] = 0, hop, other
    return least


cdef double _best_shift(const Instance *q, const int *order, const int *slow_lat, const int *slow_spb, int hop, double least, int *move,
                        const Workspace *ws) noexcept nogil:
    """The same for moves of kind 1: three hops change."""
    cdef int other, p, next, k = q.k, first = hop + 1 if hop + 1 < k else 0, second = first + 1 if first + 1 < k else 0
    cdef int gone[3]
    cdef double latency, per_byte, bridge_lat, bridge_spb
    cdef const double *lat = q.lat + <size_t> order[first] * q.m
    cdef const double *spb = q.spb + <size_t> order[first] * q.m
    bridge_lat = q.lat[<size_t> order[hop] * q.m + order[second]]
    bridge_spb = q.spb[<size_t> order[hop] * q.m + order[second]]
    if q.ring_latency_factor * bridge_lat + q.ring_byte_factor * bridge_spb >= least:
        return least
    gone[0], gone[1] = hop, first
    for other in range(1, k - 1):
        p = first + other if first + other < k else first + other - k
        next = p + 1 if p + 1 < k else 0
        gone[2] = p
        latency = max(bridge_lat, max(lat[order[p]], lat[order[next]]))
        if q.ring_latency_factor * latency >= least:
            continue
        latency = max(latency, _slowest_but(ws.hl, slow_lat, gone, 3))
        per_byte = max(max(bridge_spb, max(spb[order[p]], spb[order[next]])), _slowest_but(ws.hb, slow_spb, gone, 3))
        if q.ring_latency_factor * latency + q.ring_byte_factor * per_byte < least:
            least = q.ring_latency_factor * latency + q.ring_byte_factor * per_byte
            move[0], move[1], move[2] = 1, hop, other
    return least


cdef double _best_swap(const Instance *q, const int *order, const unsigned char *fixed, const int *slow_lat, const int *slow_spb, int hop,
                       int kind, double least, int *move, const Workspace *ws) noexcept nogil:
    """The same for moves of kind 2 and 3: up to four hops change."""
    cdef int i, p, other, from_, to, k = q.k, a = hop if kind == 2 else hop + 1 if hop + 1 < k else 0
    cdef int gone[4]
    cdef double latency, per_byte
    if fixed != NULL and fixed[a]:
        return least
    gone[0], gone[1] = a - 1 if a else k - 1, a
    for other in range(k):
        if other == a or (fixed != NULL and fixed[other]):
            continue
        gone[2], gone[3] = other - 1 if other else k - 1, other
        latency = per_byte = 0.0
        for i in range(4):
            p = gone[i]
            from_ = order[other if p == a else a if p == other else p]
            p = p + 1 if p + 1 < k else 0
            to = order[other if p == a else a if p == other else p]
            latency = max(latency, q.lat[<size_t> from_ * q.m + to])
            per_byte = max(per_byte, q.spb[<size_t> from_ * q.m + to])
            if q.ring_latency_factor * latency + q.ring_byte_factor * per_byte >= least:
                break
        else:
            latency = max(latency, _slowest_but(ws.hl, slow_lat, gone, 4))
            per_byte = max(per_byte, _slowest_but(ws.hb, slow_spb, gone, 4))
            if q.ring_latency_factor * latency + q.ring_byte_factor * per_byte < least:
                least = q.ring_latency_factor * latency + q.ring_byte_factor * per_byte
                move[0], move[1], move[2] = kind, hop, other
    return least


cdef inline double _slowest_but(const double *hops, const int *slow, const int *gone, int count) noexcept nogil:
    """The slowest hop that is not among the `count` <= 4 that are gone; `slow` has the five slowest, largest first."""
    cdef int i, j
    for i in range(5):
        if slow[i] < 0:
            return 0.0
        for j in range(count):
            if slow[i] == gone[j]:
                break
        else:
            return hops[slow[i]]
    return 0.0


cdef bint _ring_move(const int *order, const unsigned char *fixed, int k, int kind, int hop, int other, int *out) noexcept nogil:
    """One neighbour of a ring that does away with the hop after position `hop`; False where there is none.

    kind 0: reverse from the hop's end up to `other` steps on · 1: put the hop's end `other` places on · 2, 3: swap its start, its end
    """
    cdef int r, a, first = (hop + 1) % k
    if kind == 0:
        if other < 1 or other > k - 3:
            return False
        for r in range(k):
            out[(first + r) % k] = order[(first + (other - r if r <= other else r)) % k]
        return True
    if kind == 1:
        if other < 1 or other > k - 2:
            return False
        for r in range(k):
            out[(first + r) % k] = order[(first + (r + 1 if r < other else 0 if r == other else r)) % k]
        return True
    a = hop if kind == 2 else first
    if other == a or (fixed != NULL and (fixed[a] or fixed[other])):
        return False
    memcpy(out, order, k * sizeof(int))
    out[a], out[other] = order[other], order[a]
    return True


cdef void _slowest_hops(const double *hops, int k, int *slowest, int count) noexcept nogil:
    """Positions of the `count` largest of `hops` (k,), largest first, into `slowest`; -1 where there are fewer."""
    cdef int r, at, known = 0
    for at in range(count):
        slowest[at] = -1
    for r in range(k):
        at = known if known < count else count
        while at > 0 and hops[slowest[at - 1]] < hops[r]:
            if at < count:
                slowest[at] = slowest[at - 1]
            at -= 1
        if at < count:
            slowest[at] = r
        known = min(known + 1, count)


cdef double exchanged_ring(const Instance *q, const int *order, const int *slow_lat, const int *slow_spb, const int *places, int n,
                           const Workspace *ws) noexcept nogil:
    """Allreduce seconds after the nodes at `places` (n <= 3) moved on in a circle, in constant time: only the hops beside them change.

    ws.hl, ws.hb: latency and seconds per byte of every hop · slow_lat, slow_spb: positions of the 2 n + 1 slowest of them
    """
    cdef int i, j, r, end, k = q.k, count = 2 * n + 1
    cdef int ends[2]
    cdef double latency = 0.0, per_byte = 0.0
    cdef bint touched
    for i in range(count):
        r = slow_lat[i]
        touched = r < 0
        for j in range(n):
            touched = touched or r == places[j] or (r + 1) % k == places[j]
        if not touched:
            latency = ws.hl[r]
            break
    for i in range(count):
        r = slow_spb[i]
        touched = r < 0
        for j in range(n):
            touched = touched or r == places[j] or (r + 1) % k == places[j]
        if not touched:
            per_byte = ws.hb[r]
            break
    for i in range(2 * n):
        r = places[i // 2] if i & 1 else (places[i // 2] + k - 1) % k
        for end in range(2):
            ends[end] = order[(r + end) % k]
            for j in range(n):
                if places[j] == (r + end) % k:
                    ends[end] = order[places[(j + 1) % n]]
        latency = max(latency, q.lat[<size_t> ends[0] * q.m + ends[1]])
        per_byte = max(per_byte, q.spb[<size_t> ends[0] * q.m + ends[1]])
    return q.ring_latency_factor * latency + q.ring_byte_factor * per_byte


cdef double replace_all(const Instance *q, const int *order, int position, double limit, double *values, int *choice,
                        Workspace *ws) noexcept nogil:
    """The least objective below `limit` with another candidate at `position`, which goes to `choice` (-1: none is below).

    values: (m,) gets the objective with each usable candidate unless NULL, room or not; ws.used: workers elsewhere than at `position`.
    """
    cdef int r, j, i, c, b, before, after, k = q.k
    cdef double total = 0.0, squares = 0.0, rest_lat = 0.0, rest_spb = 0.0, weighted, latency, w, t, rate, scale, base
    cdef double own, own_lat, halo, slowest, worst, value, now = limit
    cdef double tax = q.communication_weight
    cdef const double *lat
    cdef const double *spb
    choice[0] = -1
    for r in range(k):
        if r == position:
            continue
        w = q.weight[order[r]]
        total += w
        squares += w * w
        lat, spb = q.lat + <size_t> order[r] * q.m, q.spb + <size_t> order[r] * q.m
        weighted = latency = 0.0
        for j in range(k):
            if j != r and j != position:
                weighted += q.weight[order[j]] * spb[order[j]]
                latency = max(latency, lat[order[j]])
        ws.P[r], ws.L[r] = weighted, latency
        j = (r + 1) % k
        if j != position:
            rest_lat, rest_spb = max(rest_lat, lat[order[j]]), max(rest_spb, spb[order[j]])
    before, after = order[(position + k - 1) % k], order[(position + 1) % k]
    for i in range(ws.u):
        c = ws.usable[i]
        if values == NULL and (ws.used[c] >= ws.room[c] or c == order[position]):
            continue
        lat, spb = q.lat + <size_t> c * q.m, q.spb + <size_t> c * q.m
        w = q.weight[c]
        t = total + w
        rate = q.epoch_flops / t
        scale = q.halo_bytes / max(t * t - squares - w * w, 1e-12 * t * t)
        base = q.overhead_seconds
        if k > 1:
            base += (1.0 + tax) * (q.ring_latency_factor * max(rest_lat, max(lat[before], lat[after]))
                                   + q.ring_byte_factor * max(rest_spb, max(spb[before], spb[after])))
        slowest, worst, own, own_lat = rate * w / q.speed[c], 0.0, 0.0, 0.0
        for r in range(k):
            if r == position:
                continue
            b = order[r]
            own += q.weight[b] * spb[b]
            own_lat = max(own_lat, lat[b])
            halo = q.rounds * max(ws.L[r], lat[b]) + scale * q.weight[b] * (ws.P[r] + w * spb[b])
            worst = max(worst, halo)
            slowest = max(slowest, halo + rate * q.weight[b] / q.speed[b])
            if values == NULL and base + slowest + tax * worst >= now:
                break
        else:
            halo = q.rounds * own_lat + scale * w * own
            value = base + max(slowest, halo + rate * w / q.speed[c]) + tax * max(worst, halo)
            if values != NULL:
                values[c] = value
            if value < now and ws.used[c] < ws.room[c] and c != order[position]:
                now, choice[0] = value, c
    return now


cdef double local_search(const Instance *q, int *order, const unsigned char *fixed, int sweeps, Workspace *ws) noexcept nogil:
    """Best replacement position by position, then the ring, until nothing improves or `sweeps` passes are over; the objective.

    fixed: (k,) ranks that stay and take no slot; may be NULL.
    """
    cdef int r, sweep, choice, k = q.k
    cdef double best, before
    for r in range(ws.u):
        ws.used[ws.usable[r]] = 0
    for r in range(k):
        if fixed == NULL or not fixed[r]:
            ws.used[order[r]] += 1
    ring_polish(q, order, fixed, ws)
    best = objective(q, order)
    for sweep in range(sweeps):
        before = best
        for r in range(k):
            if fixed != NULL and fixed[r]:
                continue
            ws.used[order[r]] -= 1
            best = min(best, replace_all(q, order, r, best * IMPROVES, NULL, &choice, ws))
            if choice >= 0:
                order[r] = choice
            ws.used[order[r]] += 1
        ring_polish(q, order, fixed, ws)
        best = objective(q, order)
        if not best < before * IMPROVES:
            break
    return best


cdef double place(const Instance *q, const unsigned char *free, int seeds, int sweeps, int *out_order, Workspace *ws) noexcept nogil:
    """Greedy from the `seeds` most promising first candidates, each then improved locally; the best goes to `out_order` (k,).

    free: (m,) candidates that may be used, NULL for all. Beyond CANNOT_WORK, out_order untouched, where no placement was found.
    """
    cdef int i, tried
    cdef double value, best = INFINITY
    workspace_room(ws, q, free)
    seed_scores(q, ws)
    tried = min(seeds, ws.u)
    for i in range(tried):
        ws.found[0] = ws.rank[i]
        if greedy(q, ws.found, 1, True, ws) < q.k:
            continue
        value = local_search(q, ws.found, NULL, sweeps, ws)
        if value < best:
            best = value
            memcpy(out_order, ws.found, q.k * sizeof(int))
    return best


cdef class Kernel:
    """One job with one worker count among m candidates, for Python: arrays in, arrays out. Not for two threads at once.

    speed, weight: (m,) · latency, per_byte: (m, m) symmetric, BLOCKED_SECONDS where two nodes cannot talk · slots: (m,) int32
    All float64 and contiguous; the caller does not change them while this lives. Raises MemoryError.
    """

    def __cinit__(self, const double[::1] speed, const double[::1] weight, const double[:, ::1] latency, const double[:, ::1] per_byte,
                  const int[::1] slots, int workers, bint equal, double rounds, double halo_bytes, double ring_latency_factor,
                  double ring_byte_factor, double epoch_flops, double overhead_seconds, double communication_weight):
        if workers < 1 or len(speed) < 1:
            raise ValueError("a placement has at least one worker and one candidate")
        self._kept = (speed, weight, latency, per_byte, slots)
        self.q = Instance(m=len(speed), k=workers, equal=equal, speed=&speed[0], weight=&weight[0], lat=&latency[0, 0], spb=&per_byte[0, 0],
                          slots=&slots[0], rounds=max(rounds, LEAST_ROUNDS), halo_bytes=halo_bytes, ring_latency_factor=ring_latency_factor,
                          ring_byte_factor=ring_byte_factor, epoch_flops=epoch_flops, overhead_seconds=overhead_seconds,
                          communication_weight=communication_weight)
        self.ws = workspace_new(self.q.m, self.q.k)
        if self.ws == NULL:
            raise MemoryError()
        workspace_room(self.ws, &self.q, NULL)

    def __dealloc__(self):
        workspace_free(self.ws)

    def objectives(self, const int[:, ::1] orders, double[::1] seconds):
        """Objective of every row of `orders` (B, k) into `seconds` (B,); beyond CANNOT_WORK where a placement cannot work."""
        cdef Py_ssize_t row
        with nogil:
            for row in range(orders.shape[0]):
                seconds[row] = objective(&self.q, &orders[row, 0])

    def seed_ranking(self, int[::1] ranking):
        """Usable candidates, the most promising first member first, into `ranking` (m,); how many there are."""
        cdef int i
        with nogil:
            seed_scores(&self.q, self.ws)
            for i in range(self.ws.u):
                ranking[i] = self.ws.rank[i]
        return self.ws.u

    def greedy(self, int[:, ::1] orders, int start, bint seed_takes_slot, int[::1] filled):
        """Fill every row of `orders` (B, k) after its first `start` members; how many members each has then, into `filled` (B,)."""
        cdef Py_ssize_t row
        with nogil:
            for row in range(orders.shape[0]):
                filled[row] = greedy(&self.q, &orders[row, 0], start, seed_takes_slot, self.ws)

    def greedy_deltas(self, const int[::1] chosen, double[::1] seconds):
        """Greedy's score of every candidate after `chosen` (p,), 1 <= p < k, into `seconds` (m,); +inf without room or beyond reach."""
        cdef int c, now, p = len(chosen)
        cdef double speed_sum = 0.0, speed_min = INFINITY, halo_worst = 0.0, ring_lat = 0.0, ring_spb = 0.0
        cdef double share = self.q.halo_bytes / max(1.0, self.q.k * (self.q.k - 1.0))
        if not 1 <= p < self.q.k:
            raise ValueError("greedy's score needs at least one member and one place left")
        for c in range(self.q.m):
            self.ws.psum[c] = self.ws.lmax[c] = 0.0
            self.ws.hlat[c] = self.ws.hspb[c] = INFINITY
            self.ws.used[c] = 0
            # Members without room have links as well.
            self.ws.usable[c] = c
        self.ws.u = self.q.m
        for now in range(p):
            c = chosen[now]
            self.ws.used[c] += 1
            if now:
                ring_lat, ring_spb = max(ring_lat, self.ws.hlat[c]), max(ring_spb, self.ws.hspb[c])
            speed_sum, speed_min = speed_sum + self.q.speed[c], min(speed_min, self.q.speed[c])
            halo_worst = max(halo_worst, _own_halo(&self.q, &chosen[0], now, share))
            _absorb(&self.q, self.ws, c)
        for c in range(self.q.m):
            seconds[c] = INFINITY
            if self.ws.used[c] < self.ws.room[c]:
                seconds[c] = greedy_score(&self.q, self.ws, c, p + 1, speed_sum, speed_min, halo_worst, ring_lat, ring_spb)
                if seconds[c] > CANNOT_WORK:
                    seconds[c] = INFINITY
        workspace_room(self.ws, &self.q, NULL)

    def local_search(self, int[:, ::1] orders, const unsigned char[::1] fixed, int sweeps, double[::1] seconds):
        """Improve every row of `orders` (B, k) in place; ranks where `fixed` (k,) stay. Objectives into `seconds` (B,)."""
        cdef Py_ssize_t row
        cdef int r
        cdef const unsigned char *stays = NULL
        for r in range(self.q.k):
            if fixed[r]:
                stays = &fixed[0]
        with nogil:
            for row in range(orders.shape[0]):
                seconds[row] = local_search(&self.q, &orders[row, 0], stays, sweeps, self.ws)

    def rings(self, int[:, ::1] orders, const unsigned char[::1] fixed):
        """Improve the ring of every row of `orders` (B, k) in place."""
        cdef Py_ssize_t row
        cdef int r
        cdef const unsigned char *stays = NULL
        for r in range(self.q.k):
            if fixed[r]:
                stays = &fixed[0]
        with nogil:
            for row in range(orders.shape[0]):
                ring_polish(&self.q, &orders[row, 0], stays, self.ws)

    def close(self, int[:, ::1] orders, double[::1] seconds, int places, long long most):
        """Objective of every row of `orders` (B, k) into `seconds` (B,), rows that can be better than all before them with their best ring.

        places: tried for one ring · most: inner steps in all, after which rows stay as they are.
        Raises ValueError where a row is not as long as the job has workers, or `seconds` not as long as there are rows.
        """
        cdef Py_ssize_t row
        cdef long long work = 0
        cdef double apart, ring, best = INFINITY, tax = 1.0 + self.q.communication_weight
        if orders.shape[1] != self.q.k or len(seconds) != orders.shape[0]:
            raise ValueError("the rows have another length than the job has workers, or there are more than seconds")
        with nogil:
            for row in range(orders.shape[0]):
                apart, ring = set_cost(&self.q, &orders[row, 0]), ring_cost(&self.q, &orders[row, 0])
                if best > apart and work < most:
                    ring = min(ring, ring_below(&self.q, &orders[row, 0], min(ring, (best - apart) / tax), places, &work))
                seconds[row] = apart + tax * ring
                best = min(best, seconds[row])

    def replacements(self, const int[::1] order, int position, double[::1] seconds):
        """Objective with each candidate at `position` of `order` (k,), room or not, into `seconds` (m,)."""
        cdef int c, choice
        for c in range(self.q.m):
            # Candidates without room count as well: this is a question, not a move.
            self.ws.usable[c] = c
        self.ws.u = self.q.m
        replace_all(&self.q, &order[0], position, 0.0, &seconds[0], &choice, self.ws)
        workspace_room(self.ws, &self.q, NULL)

    def exchanges(self, const int[::1] order, const int[:, ::1] places, double[::1] seconds):
        """Objective of `order` (k,) after the nodes at each row of `places` (B, 2 or 3; different ranks) moved on in a circle.

        Into `seconds` (B,). Raises ValueError for other widths.
        """
        cdef int slow_lat[7]
        cdef int slow_spb[7]
        cdef int r, n = places.shape[1], k = self.q.k
        cdef Py_ssize_t row
        cdef double inner = set_cost(&self.q, &order[0])
        if not 2 <= n <= min(3, k):
            raise ValueError("an exchange is of two or three ranks")
        for r in range(k):
            self.ws.hl[r] = self.q.lat[<size_t> order[r] * self.q.m + order[(r + 1) % k]]
            self.ws.hb[r] = self.q.spb[<size_t> order[r] * self.q.m + order[(r + 1) % k]]
        _slowest_hops(self.ws.hl, k, slow_lat, 2 * n + 1)
        _slowest_hops(self.ws.hb, k, slow_spb, 2 * n + 1)
        for row in range(places.shape[0]):
            seconds[row] = inner + (1.0 + self.q.communication_weight) * exchanged_ring(
                &self.q, &order[0], slow_lat, slow_spb, &places[row, 0], n, self.ws)

    def place(self, int seeds, int sweeps, int[::1] order):
        """Greedy from the best seeds and local search, into `order` (k,); the objective, beyond CANNOT_WORK where nothing was found."""
        cdef double found
        with nogil:
            found = place(&self.q, NULL, seeds, sweeps, &order[0], self.ws)
        return found
