"""Compiled objective, greedy and local search of one job; the same figures as planner/cost/objective.py, which is the oracle.

An order is k candidates in ring order, one worker each; a candidate may come several times where it has the slots. With w the weights, W
their sum, g the ranks of a worker, D = W^2 - sum(w^2) / g, and n_r the workers on the node of r:
    compute_r = F / W * w_r / speed_r
    halo_r    = rounds * max_j lat_rj + H / D * w_r * (c_r * sum_j w_j spb_rj + inside_r * w_r / g * (n_r - 1 / g))    j on other nodes
    objective = max(compute_r + halo_r) + overhead + lambda * max(halo_r) + (1 + lambda) * allreduce
c_r is n_r, and no less than the workers that fill the node's cards. What leaves a domain shares its uplinks: M (W - M) times their seconds
per byte, M the weights inside, instead of the bracket where that is more. The allreduce is the least of some algorithms, each linear in the
largest latency between nodes, the largest inside one with several ranks, and the seconds per byte of the most loaded hop between nodes or of
the slowest such inside: a node that the ring leaves c times gives each of these hops 1 / c of its cards, and so do uplinks. Bounds and estimates leave uplinks out. Pairs that cannot talk have a latency so large that no
placement with one can be mistaken for another; whatever exceeds CANNOT_WORK is +inf outside. Every loop runs in the order of its indices
and nothing depends on addresses or time: same input, same output.
"""

from libc.math cimport INFINITY
from libc.stdlib cimport calloc, free as release
from libc.string cimport memcpy, memset

import numpy as np

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
    ws.usable = <int *> calloc(5 * <size_t> m + 5 * <size_t> k + 8, sizeof(int))
    ws.psum = <double *> calloc(5 * <size_t> m + 5 * <size_t> k + 8, sizeof(double))
    if ws.usable == NULL or ws.psum == NULL:
        workspace_free(ws)
        return NULL
    ws.room, ws.used, ws.rank, ws.here = ws.usable + m, ws.usable + 2 * m, ws.usable + 3 * m, ws.usable + 4 * m
    ws.A = ws.usable + 5 * m
    ws.tour, ws.spare, ws.found, ws.trial = ws.A + k, ws.A + 2 * k, ws.A + 3 * k, ws.A + 4 * k
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
    ws.u, ws.single = 0, True
    for c in range(q.m):
        ws.room[c] = (1 if q.slots == NULL else q.slots[c]) if free == NULL or free[c] else 0
        ws.used[c] = 0
        ws.single = ws.single and ws.room[c] <= 1
        if ws.room[c] > 0:
            ws.usable[ws.u] = c
            ws.u += 1


cdef void _weigh_domains(const Instance *q, const int *order, double by) noexcept nogil:
    """Add the weights of `order` (k,), times `by`, to the domains of every level; by 0: forget them."""
    cdef int level, r, at
    for level in range(q.levels):
        for r in range(q.k):
            at = q.domain[<size_t> level * q.m + order[r]]
            if at >= 0:
                at += level * q.domains
                q.mass[at] = q.mass[at] + by * q.weight[order[r]] if by > 0.0 else 0.0


cdef double _uplink_bytes(const Instance *q, int c, double total) noexcept nogil:
    """Seconds of what leaves the domains of node c over the bytes of two weights of 1; q.mass has the weights, `total` all together."""
    cdef int level, at
    cdef double most = 0.0
    for level in range(q.levels):
        at = q.domain[<size_t> level * q.m + c]
        if at >= 0:
            at += level * q.domains
            most = max(most, q.mass[at] * (total - q.mass[at]) * q.uplink[at])
    return most


cdef double _uplink_path(const Instance *q, const int *order, int k) noexcept nogil:
    """Seconds per byte of the most loaded uplink of the ring of nodes in `order` (k,)."""
    cdef int level, r, a, b, at
    cdef double most = 0.0
    for level in range(q.levels):
        for r in range(k):
            a, b = order[r], order[r + 1 if r + 1 < k else 0]
            at = q.domain[<size_t> level * q.m + a]
            if at >= 0 and at != q.domain[<size_t> level * q.m + b]:
                at += level * q.domains
                q.mass[at] += 1.0
                most = max(most, q.mass[at] * q.uplink[at])
        for r in range(k):
            at = q.domain[<size_t> level * q.m + order[r]]
            if at >= 0:
                q.mass[level * q.domains + at] = 0.0
    return most


cdef double set_cost(const Instance *q, const int *order) noexcept nogil:
    """The part of the objective that does not depend on the ring's order."""
    cdef int r, j, b, k = q.k
    cdef double total = 0.0, squares = 0.0, scale, rate, weighted, latency, halo, slowest = 0.0, worst = 0.0
    cdef const double *lat
    cdef const double *spb
    for r in range(k):
        total += q.weight[order[r]]
        squares += q.weight[order[r]] * q.weight[order[r]]
        q.times[order[r]] += 1
    if q.levels > 0:
        _weigh_domains(q, order, 1.0)
    rate = q.epoch_flops / total
    squares *= q.part
    scale = q.halo_bytes / max(total * total - squares, 1e-12 * total * total)
    for r in range(k):
        b = order[r]
        lat, spb = q.lat + <size_t> b * q.m, q.spb + <size_t> b * q.m
        weighted, latency = 0.0, (lat[b] if q.inner else 0.0)
        for j in range(k):
            if j != r:
                weighted += q.weight[order[j]] * spb[order[j]]
                latency = max(latency, lat[order[j]])
        weighted = node_bytes(q, b, q.times[b], weighted)
        if q.levels > 0:
            weighted = max(weighted, _uplink_bytes(q, b, total))
        halo = q.rounds * latency + scale * weighted
        worst = max(worst, halo)
        slowest = max(slowest, halo + rate * q.weight[b] / q.speed[b])
    if q.levels > 0:
        _weigh_domains(q, order, 0.0)
    for r in range(k):
        q.times[order[r]] = 0
    return slowest + q.overhead_seconds + q.communication_weight * worst


cdef inline double _load(const Instance *q, int c) noexcept nogil:
    """By how much longer a byte takes through the cards of node c, which q.times hops of the ring leave and q.held workers fill."""
    if q.railed and q.held[c] < q.filling[c]:
        return q.times[c] * (q.filling[c] / q.held[c])
    return q.times[c]


cdef double ring_cost(const Instance *q, const int *order) noexcept nogil:
    """Allreduce seconds of an epoch; 0 for one rank."""
    cdef int r, a, b, k = q.k, nodes = 0, sharp = q.classes - 1
    cdef bint again = q.railed
    cdef double between = 0.0, inside = 0.0, per_byte = 0.0, inside_spb = 0.0
    if k == 1 and not q.inner:
        return 0.0
    for r in range(k):
        a = order[r]
        if q.inner or q.held[a] > 0:
            inside, inside_spb = max(inside, q.lat[<size_t> a * q.m + a]), max(inside_spb, q.inside[a])
        nodes += q.held[a] == 0
        q.held[a] += 1
        sharp = least_class(q, sharp, a)
    b = order[0]
    for r in range(k):
        a = b
        b = order[r + 1 if r + 1 < k else 0]
        if a == b:
            continue
        between = max(between, q.lat[<size_t> a * q.m + b])
        per_byte = max(per_byte, q.spb[<size_t> a * q.m + b])
        again = again or q.times[a] > 0
        q.times[a] += 1
    if again:
        b = order[0]
        for r in range(k):
            a = b
            b = order[r + 1 if r + 1 < k else 0]
            if a != b:
                per_byte = max(per_byte, q.spb[<size_t> a * q.m + b] * max(_load(q, a), _load(q, b)))
    for r in range(k):
        q.times[order[r]] = q.held[order[r]] = 0
    if q.levels > 0:
        per_byte = max(per_byte, _uplink_path(q, order, k))
    return reduce_seconds(q, class_row(q, q.collectives, sharp, nodes), between, inside, per_byte, inside_spb)


cdef void set_slow(const Instance *q, const int *order, int without) noexcept nogil:
    """Say how slow the cards of the members of `order` (k,) are, all workers but the one at `without` counted; see `forget_slow`."""
    cdef int r
    if not q.railed:
        return
    for r in range(q.k):
        q.held[order[r]] += r != without
    for r in range(q.k):
        q.slow[order[r]] = max(1.0, q.filling[order[r]] / max(q.held[order[r]], 1))
    for r in range(q.k):
        q.held[order[r]] = 0


cdef void forget_slow(const Instance *q, const int *order) noexcept nogil:
    """Cards are again no slower than with all workers that a node can take."""
    cdef int r
    if q.railed:
        for r in range(q.k):
            q.slow[order[r]] = q.least_slow[order[r]]


cdef bint repeats(const Instance *q, const int *order) noexcept nogil:
    """Whether some node has two of the workers."""
    cdef int r
    cdef bint again = False
    for r in range(q.k):
        again = again or q.times[order[r]] > 0
        q.times[order[r]] += 1
    for r in range(q.k):
        q.times[order[r]] = 0
    return again


cdef bint gather(const Instance *q, int *order, int *spare) noexcept nogil:
    """Put the workers of each node where its first one is; whether that moved any."""
    cdef int r, c, at = 0
    cdef bint moved = False
    for r in range(q.k):
        q.times[order[r]] += 1
    for r in range(q.k):
        c = order[r]
        while q.times[c] > 0:
            spare[at] = c
            at += 1
            q.times[c] -= 1
    for r in range(q.k):
        moved = moved or order[r] != spare[r]
    memcpy(order, spare, q.k * sizeof(int))
    return moved


cdef bint _beside_its_like(const int *order, int k, int position, int *out) noexcept nogil:
    """`order` with the worker at `position` moved to the next one of its node into `out`; False where there is none."""
    cdef int step, r, at = 0, like = -1
    for step in range(1, k):
        r = position + step if position + step < k else position + step - k
        if order[r] == order[position]:
            like = r
            break
    if like < 0:
        return False
    for r in range(k):
        if r == position:
            continue
        out[at] = order[r]
        at += 1
        if r == like:
            out[at] = order[position]
            at += 1
    return True


cdef double objective(const Instance *q, const int *order) noexcept nogil:
    """Seconds; beyond CANNOT_WORK where two of `order` cannot talk."""
    return set_cost(q, order) + (1.0 + q.communication_weight) * ring_cost(q, order)


cdef inline double _pair_bytes(const Instance *q) noexcept nogil:
    """Boundary bytes between two workers with equal shares."""
    cdef double pairs = q.k * (q.k - q.part)
    return q.halo_bytes / pairs if pairs > 0.0 else 0.0


cdef void seed_scores(const Instance *q, Workspace *ws) noexcept nogil:
    """ws.score[c]: the objective as if all workers were like c and as near as its k - 1 cheapest partners; ws.rank: usable, best first."""
    cdef int i, j, c, d, copy, count, at, k = q.k, partners = max(1, q.k - 1)
    cdef double halo = _pair_bytes(q), value, own, sum
    cdef double wait = (q.rounds + q.ring_latency_factor) / partners, byte = halo + q.ring_byte_factor / partners
    cdef double work = q.epoch_flops / k
    cdef double *nearest = ws.P
    for i in range(ws.u):
        c = ws.usable[i]
        own = work / q.speed[c]
        count = 0
        for j in range(ws.u if k > 1 else 0):
            d = ws.usable[j]
            # The partner's own speed counts as well: a near but slow node is no good partner.
            value = byte * hop_spb(q, c, d) + wait * q.lat[<size_t> c * q.m + d] + max(own, work / q.speed[d]) / partners
            for copy in range(min(partners, ws.room[d] - (1 if d == c else 0))):
                if count == partners and value >= nearest[count - 1]:
                    break
                at = count if count < partners else count - 1
                while at > 0 and nearest[at - 1] > value:
                    nearest[at] = nearest[at - 1]
                    at -= 1
                nearest[at] = value
                count = min(count + 1, partners)
        sum = 0.0
        if k == 1:
            value = q.lat[<size_t> c * q.m + c]
            sum = own + halo * q.inside[c] * q.part * (1.0 - q.part) + q.rounds * value * q.inner
            sum += reduce_seconds(q, class_row(q, q.collectives, least_class(q, q.classes - 1, c), 1), 0.0, value, 0.0, q.inside[c])
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


cdef struct Sample:
    # The members so far, were they a fair sample of the whole job, and their ring.
    double speed           # the sum, or the least where all parts are equal
    double workers         # of the whole job for each of theirs with one more; all where all parts are equal
    double links           # by which the links of one more count
    double pair            # boundary bytes between two workers with equal shares
    double tax
    double halo            # the worst boundary
    int nodes
    int sharp              # their class
    const double *joined   # of the collectives, where one more member joins their nodes
    const double *apart    # where it is on another node
    double least_joined    # seconds of the ring, whoever that is
    double least_apart
    double between
    double inside
    double spb
    double inside_spb


cdef inline void _sample(const Instance *q, Sample *s, int now) noexcept nogil:
    """What holds for every further member, `now` workers together."""
    s.workers = q.k if q.equal else <double> q.k / now
    s.links = (q.k - 1.0) / (now - 1.0)
    s.joined = class_row(q, q.collectives, s.sharp, (s.nodes * q.k + now - 1) // now)
    s.apart = class_row(q, q.collectives, s.sharp, ((s.nodes + 1) * q.k + now - 1) // now)
    s.least_joined = reduce_seconds(q, s.joined, s.between, s.inside, s.spb, s.inside_spb)
    s.least_apart = reduce_seconds(q, s.apart, s.between, s.inside, s.spb, s.inside_spb)


cdef inline double greedy_score(const Instance *q, const Workspace *ws, int c, const Sample *s, double least) noexcept nogil:
    """Objective of the whole job as if the members so far and candidate c were its fair sample; some value from `least` on if it is no less."""
    cdef double inside = s.inside, inside_spb = s.inside_spb, halo, work, value
    cdef bint joins = ws.here[c] > 0
    cdef const double *row = s.joined if joins else s.apart
    work = q.epoch_flops / ((min(s.speed, q.speed[c]) if q.equal else s.speed + q.speed[c]) * s.workers)
    halo = max(_greedy_halo(q, ws, c, s.pair, s.links), s.halo)
    value = work + s.tax * (halo + (s.least_joined if joins else s.least_apart))
    if value >= least:
        return value
    if q.inner or joins:
        inside, inside_spb = max(inside, q.lat[<size_t> c * q.m + c]), max(inside_spb, q.inside[c])
    if q.sharp != NULL and q.sharp[c] < s.sharp:
        row -= <size_t> (s.sharp - q.sharp[c]) * (q.k + 1) * q.stride
    return work + s.tax * (halo + reduce_seconds(q, row, max(s.between, ws.hlat[c]), inside, max(s.spb, ws.hspb[c]), inside_spb))


cdef inline double _greedy_halo(const Instance *q, const Workspace *ws, int c, double pair, double scale) noexcept nogil:
    """Boundary seconds of c beside the members, whose links count `scale` times; the workers of its node share a card."""
    cdef double count = ws.here[c] + 1.0
    return pair * (scale * cards(q, c, count) * ws.psum[c] + q.inside[c] * q.part * (count - q.part)) + q.rounds * ws.lmax[c]


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
    if q.railed:
        for i in range(ws.u):
            ws.hspb[ws.usable[i]] = min(ws.hspb[ws.usable[i]], hop_spb(q, c, ws.usable[i]))
    else:
        for i in range(ws.u):
            ws.hspb[ws.usable[i]] = min(ws.hspb[ws.usable[i]], spb[ws.usable[i]])
    ws.hlat[c] = ws.hspb[c] = 0.0  # one more there has no hop to another node
    ws.here[c] += 1


cdef inline void _blank(const Instance *q, Workspace *ws, int c) noexcept nogil:
    """Candidate c beside no member."""
    ws.psum[c], ws.lmax[c] = 0.0, (q.lat[<size_t> c * q.m + c] if q.inner else 0.0)
    ws.hlat[c] = ws.hspb[c] = INFINITY
    ws.used[c] = ws.here[c] = 0


cdef int greedy(const Instance *q, int *order, int start, bint seed_takes_slot, Workspace *ws) noexcept nogil:
    """Fill `order` (k,) after its first `start` members, always the cheapest; how many it then has, k unless it got stuck."""
    cdef int i, c, now, best
    cdef double value, least
    cdef Sample s = Sample(INFINITY if q.equal else 0.0, 0.0, 0.0, _pair_bytes(q), 1.0 + q.communication_weight, 0.0, 0, q.classes - 1,
                           NULL, NULL, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    for i in range(ws.u):
        _blank(q, ws, ws.usable[i])
    for now in range(start):
        ws.here[order[now]] = 0
    now = 0
    while now < q.k:
        if now < start:
            best = order[now]
        else:
            best, least = -1, CANNOT_WORK
            _sample(q, &s, now + 1)
            for i in range(ws.u):
                c = ws.usable[i]
                if ws.used[c] < ws.room[c]:
                    value = greedy_score(q, ws, c, &s, least)
                    if value < least:
                        best, least = c, value
            if best < 0:
                return now
            s.between, s.spb = max(s.between, ws.hlat[best]), max(s.spb, ws.hspb[best])
            order[now] = best
        if now >= start or seed_takes_slot:
            ws.used[best] += 1
        s.speed = min(s.speed, q.speed[best]) if q.equal else s.speed + q.speed[best]
        s.nodes += ws.here[best] == 0
        s.sharp = least_class(q, s.sharp, best)
        if q.inner or ws.here[best] > 0:
            s.inside = max(s.inside, q.lat[<size_t> best * q.m + best])
            s.inside_spb = max(s.inside_spb, q.inside[best])
        if ws.room[best] > 0:
            s.halo = max(s.halo, _greedy_halo(q, ws, best, s.pair, 1.0))
        else:  # a pinned worker on a node that takes no others
            s.halo = max(s.halo, _pinned_halo(q, ws, order, now))
        _absorb(q, ws, best)
        now += 1
    return now


cdef double _pinned_halo(const Instance *q, const Workspace *ws, const int *order, int worker) noexcept nogil:
    """`_greedy_halo` of a member whose node is not among the usable ones."""
    cdef int j, c = order[worker]
    cdef double bytes = 0.0, latency = q.lat[<size_t> c * q.m + c] if q.inner else 0.0, count = ws.here[c] + 1.0
    for j in range(worker):
        bytes += q.spb[<size_t> c * q.m + order[j]]
        latency = max(latency, q.lat[<size_t> c * q.m + order[j]])
    return _pair_bytes(q) * (cards(q, c, count) * bytes + q.inside[c] * q.part * (count - q.part)) + q.rounds * latency


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
    cdef double best = ring_cost(q, order), least
    cdef bint shared = k > 3 and (repeats(q, order) or q.levels > 0)
    if k <= 3:
        steps[0] = 0
        return best
    if shared and fixed == NULL:
        memcpy(ws.trial, order, k * sizeof(int))
        if gather(q, ws.trial, ws.tour):
            least = ring_cost(q, ws.trial)
            if least <= best:
                best = least
                memcpy(order, ws.trial, k * sizeof(int))
    _set_floor(q, order, -1, ws)
    set_slow(q, order, -1)
    for repairs in range(steps[0]):
        for r in range(k):
            other = order[r + 1 if r + 1 < k else 0]
            ws.hl[r], ws.hb[r] = hop_lat(q, order[r], other), hop_bytes(q, order[r], other)
        _slowest_hops(ws.hl, k, slow_lat, 5)
        _slowest_hops(ws.hb, k, slow_spb, 5)
        least, move[0], move[1], move[2] = best * IMPROVES, -1, 0, 0
        for h in range(1 if slow_lat[0] == slow_spb[0] else 2):
            r = slow_spb[0] if h else slow_lat[0]
            if fixed == NULL:
                least = _best_reversal(q, order, slow_lat, slow_spb, r, shared, least, move, ws)
                least = _best_shift(q, order, slow_lat, slow_spb, r, shared, least, move, ws)
            for kind in range(2, 4):
                least = _best_swap(q, order, fixed, slow_lat, slow_spb, r, kind, shared, least, move, ws)
        if move[0] < 0:
            steps[0] = repairs + 1
            break
        _ring_move(order, fixed, k, move[0], move[1], move[2], ws.tour)
        best = least
        memcpy(order, ws.tour, k * sizeof(int))
    forget_slow(q, order)
    return best


cdef void _set_floor(const Instance *q, const int *order, int without, Workspace *ws) noexcept nogil:
    """Say of `order` (k,) but the worker at `without`: its nodes, their row of the collectives, and the slowest inside of its nodes."""
    cdef int r, c
    ws.nodes, ws.sharp, ws.inside_lat, ws.inside_spb = 0, q.classes - 1, 0.0, 0.0
    for r in range(q.k):
        if r == without:
            continue
        c = order[r]
        if q.inner or q.held[c] > 0:
            ws.inside_lat, ws.inside_spb = max(ws.inside_lat, q.lat[<size_t> c * q.m + c]), max(ws.inside_spb, q.inside[c])
        ws.nodes += q.held[c] == 0
        ws.sharp = least_class(q, ws.sharp, c)
        q.held[c] = 1
    for r in range(q.k):
        q.held[order[r]] = 0
    ws.row = class_row(q, q.collectives, ws.sharp, ws.nodes)


cdef double _moved_ring(const Instance *q, const int *order, const unsigned char *fixed, int kind, int hop, int other, bint shared,
                        double latency, double per_byte, double least, Workspace *ws) noexcept nogil:
    """Seconds after a move whose ring has these slowest hops; where nodes have several workers, their cards counted, unless that is too much."""
    cdef double seconds
    seconds = reduce_seconds(q, ws.row, latency, ws.inside_lat, per_byte, ws.inside_spb)
    if not shared or seconds >= least:
        return seconds
    _ring_move(order, fixed, q.k, kind, hop, other, ws.trial)
    return ring_cost(q, ws.trial)


cdef struct Ring:
    # A search for the fastest ring of a few members, each a node, or each a worker where some node has several of them.
    const Instance *q
    bint shared
    int k
    int places                     # that may still be tried
    unsigned long long taken       # members of the path, a bit each
    const double *row              # of the collectives
    double inside_lat
    double inside_spb
    double room                    # seconds that a ring must be below
    bint found
    double lat[MOST_RING * MOST_RING]
    double spb[MOST_RING * MOST_RING]
    int near[MOST_RING * MOST_RING]  # of each member those that a hop below `room` leads to, cheapest first
    int nears[MOST_RING]
    int path[MOST_RING]
    int best[MOST_RING]
    int node[MOST_RING]


cdef inline bint _fits(const Ring *s, int a, int b, double latency, double per_byte) noexcept nogil:
    """A ring with these slowest hops may have this one as well."""
    cdef int at = a * MOST_RING + b
    return reduce_seconds(s.q, s.row, max(latency, s.lat[at]), s.inside_lat, max(per_byte, s.spb[at]), s.inside_spb) < s.room


cdef bint _list_hops(Ring *s) noexcept nogil:
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
            s.lat[i * MOST_RING + j] = hop_lat(s.q, s.node[i], s.node[j])
            s.spb[i * MOST_RING + j] = hop_bytes(s.q, s.node[i], s.node[j])
            seconds = reduce_seconds(s.q, s.row, s.lat[i * MOST_RING + j], s.inside_lat, s.spb[i * MOST_RING + j], s.inside_spb)
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


cdef bint _tried(const Ring *s, int last, int at) noexcept nogil:
    """Whether another worker of the same node came before it in the list of hops and is free as well."""
    cdef int i, u, node = s.node[s.near[last * MOST_RING + at]]
    for i in range(at):
        u = s.near[last * MOST_RING + i]
        if s.node[u] == node and not s.taken >> u & 1:
            return True
    return False


cdef double _shared_hops(const Ring *s, double per_byte) noexcept nogil:
    """Seconds per byte of the slowest hop of the ring in s.path where hops share cards and uplinks; `per_byte` if each had its own."""
    cdef int i, a, b
    cdef int order[MOST_RING]
    for i in range(s.k):
        a, b = s.node[s.path[i]], s.node[s.path[i + 1 if i + 1 < s.k else 0]]
        s.q.times[a] += a != b
        order[i] = a
    for i in range(s.k if s.shared else 0):
        a, b = order[i], order[i + 1 if i + 1 < s.k else 0]
        if a != b:
            if s.q.railed:
                per_byte = max(per_byte, s.q.spb[<size_t> a * s.q.m + b] * max(s.q.times[a] * s.q.slow[a], s.q.times[b] * s.q.slow[b]))
            else:
                per_byte = max(per_byte, s.q.spb[<size_t> a * s.q.m + b] * max(s.q.times[a], s.q.times[b]))
    for i in range(s.k):
        s.q.times[order[i]] = 0
    return max(per_byte, _uplink_path(s.q, order, s.k)) if s.q.levels > 0 else per_byte


cdef void _extend(Ring *s, int count, double latency, double per_byte) noexcept nogil:
    """Depth first over the rings that start as the first `count` of s.path do."""
    cdef int i, at, u, last = s.path[count - 1]
    cdef double seconds
    s.places -= 1
    if count == s.k:
        at = last * MOST_RING + s.path[0]
        if _fits(s, last, s.path[0], latency, per_byte):
            per_byte = max(per_byte, s.spb[at])
            if s.shared or s.q.levels > 0:
                per_byte = _shared_hops(s, per_byte)
            seconds = reduce_seconds(s.q, s.row, max(latency, s.lat[at]), s.inside_lat, per_byte, s.inside_spb)
            if seconds < s.room:
                s.room, s.found = seconds, True
                memcpy(s.best, s.path, s.k * sizeof(int))
        return
    if not _closable(s, last, latency, per_byte):
        return
    for i in range(s.nears[last]):
        u = s.near[last * MOST_RING + i]
        if s.places <= 0:
            return
        if s.taken >> u & 1 or not _fits(s, last, u, latency, per_byte) or (s.shared and _tried(s, last, i)):
            continue
        at = last * MOST_RING + u
        s.path[count] = u
        s.taken |= <unsigned long long> 1 << u
        _extend(s, count + 1, max(latency, s.lat[at]), max(per_byte, s.spb[at]))
        s.taken &= ~(<unsigned long long> 1 << u)


cdef double ring_below(const Instance *q, int *order, double room, int places, long long *work) noexcept nogil:
    """Seconds of the best ring of the members of `order` (k,) that takes less than `room`, then in `order`; infinite where none was found.

    Exact where it ends within `places` tried; more than MOST_RING members stay as they are. Rings that pass every node once come first,
    then those that come back to one. work: gets the inner steps that it took
    """
    cdef Ring s
    cdef int i, c, copy, at, count = 0, sharp = q.classes - 1
    cdef int nodes[MOST_RING]
    cdef int copies[MOST_RING]
    cdef bint found = False
    cdef double seconds
    if q.k <= 3 or q.k > MOST_RING:
        seconds = ring_cost(q, order)
        return seconds if seconds < room else INFINITY
    s.inside_lat = s.inside_spb = 0.0
    set_slow(q, order, -1)
    for i in range(q.k):
        q.times[order[i]] += 1
    for i in range(q.k):
        c = order[i]
        if q.times[c] > 0:
            sharp = least_class(q, sharp, c)
            nodes[count], copies[count] = c, q.times[c]
            if q.inner or copies[count] > 1:
                s.inside_lat, s.inside_spb = max(s.inside_lat, q.lat[<size_t> c * q.m + c]), max(s.inside_spb, q.inside[c])
            count += 1
            q.times[c] = 0
    s.q, s.row, s.room, s.places = q, class_row(q, q.collectives, sharp, count), room, places
    work[0] += <long long> q.k * q.k // HOPS_RATIO
    if _search_ring(&s, nodes, count, False):
        found, at = True, 0
        for i in range(count):
            for copy in range(copies[s.best[i]]):
                order[at] = nodes[s.best[i]]
                at += 1
    if count < q.k:
        memcpy(nodes, order, q.k * sizeof(int))
        if _search_ring(&s, nodes, q.k, True):
            found = True
            for i in range(q.k):
                order[i] = nodes[s.best[i]]
    forget_slow(q, order)
    work[0] += <long long> PLACE_WORK * (places - s.places)
    return s.room if found else INFINITY


cdef bint _search_ring(Ring *s, const int *nodes, int count, bint shared) noexcept nogil:
    """True where a ring of `count` members on these nodes is below s.room, which then is what it takes; the members' order is in s.best."""
    cdef int i, c, first = 0
    cdef double latency = 0.0, per_byte = 0.0
    s.k, s.shared, s.found = count, shared, False
    if reduce_seconds(s.q, s.row, 0.0, s.inside_lat, 0.0, s.inside_spb) >= s.room:
        return False
    memcpy(s.node, nodes, count * sizeof(int))
    if count <= 3:
        for i in range(count):
            s.best[i] = s.path[i] = i
            c = nodes[(i + 1) % count]
            latency = max(latency, hop_lat(s.q, nodes[i], c))
            per_byte = max(per_byte, hop_bytes(s.q, nodes[i], c))
        if s.q.levels > 0:
            per_byte = _shared_hops(s, per_byte)
        latency = reduce_seconds(s.q, s.row, latency, s.inside_lat, per_byte, s.inside_spb)
        s.found = latency < s.room
        if s.found:
            s.room = latency
    elif s.places > 0 and _list_hops(s):
        for i in range(count):
            if s.nears[i] < s.nears[first]:
                first = i
        s.path[0], s.taken = first, <unsigned long long> 1 << first
        _extend(s, 1, 0.0, 0.0)
    return s.found


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


cdef double _best_reversal(const Instance *q, const int *order, const int *slow_lat, const int *slow_spb, int hop, bint shared, double least,
                           int *move, Workspace *ws) noexcept nogil:
    """Allreduce seconds below `least` after the best move of kind 0, which goes to `move`; two hops change, the rest is in the tables.

    ws.hl, ws.hb: latency and seconds per byte of every hop · slow_lat, slow_spb: positions of the five slowest of them
    shared: some node has several workers
    """
    cdef int other, p, next, k = q.k, first = hop + 1 if hop + 1 < k else 0
    cdef int gone[2]
    cdef double latency, per_byte, seconds
    gone[0] = hop
    for other in range(1, k - 2):
        p = first + other if first + other < k else first + other - k
        next = p + 1 if p + 1 < k else 0
        gone[1] = p
        latency = max(hop_lat(q, order[hop], order[p]), hop_lat(q, order[first], order[next]))
        if reduce_seconds(q, ws.row, latency, ws.inside_lat, 0.0, ws.inside_spb) >= least:
            continue
        latency = max(latency, _slowest_but(ws.hl, slow_lat, gone, 2))
        per_byte = max(hop_bytes(q, order[hop], order[p]), hop_bytes(q, order[first], order[next]))
        per_byte = max(per_byte, _slowest_but(ws.hb, slow_spb, gone, 2))
        seconds = _moved_ring(q, order, NULL, 0, hop, other, shared, latency, per_byte, least, ws)
        if seconds < least:
            least = seconds
            move[0], move[1], move[2] = 0, hop, other
    return least


cdef double _best_shift(const Instance *q, const int *order, const int *slow_lat, const int *slow_spb, int hop, bint shared, double least,
                        int *move, Workspace *ws) noexcept nogil:
    """The same for moves of kind 1: three hops change."""
    cdef int other, p, next, k = q.k, first = hop + 1 if hop + 1 < k else 0, second = first + 1 if first + 1 < k else 0
    cdef int gone[3]
    cdef double latency, per_byte, bridge_lat, bridge_spb, seconds
    bridge_lat, bridge_spb = hop_lat(q, order[hop], order[second]), hop_bytes(q, order[hop], order[second])
    if reduce_seconds(q, ws.row, bridge_lat, ws.inside_lat, bridge_spb, ws.inside_spb) >= least:
        return least
    gone[0], gone[1] = hop, first
    for other in range(1, k - 1):
        p = first + other if first + other < k else first + other - k
        next = p + 1 if p + 1 < k else 0
        gone[2] = p
        latency = max(bridge_lat, max(hop_lat(q, order[first], order[p]), hop_lat(q, order[first], order[next])))
        if reduce_seconds(q, ws.row, latency, ws.inside_lat, 0.0, ws.inside_spb) >= least:
            continue
        latency = max(latency, _slowest_but(ws.hl, slow_lat, gone, 3))
        per_byte = max(bridge_spb, max(hop_bytes(q, order[first], order[p]), hop_bytes(q, order[first], order[next])))
        per_byte = max(per_byte, _slowest_but(ws.hb, slow_spb, gone, 3))
        seconds = _moved_ring(q, order, NULL, 1, hop, other, shared, latency, per_byte, least, ws)
        if seconds < least:
            least = seconds
            move[0], move[1], move[2] = 1, hop, other
    return least


cdef double _best_swap(const Instance *q, const int *order, const unsigned char *fixed, const int *slow_lat, const int *slow_spb, int hop,
                       int kind, bint shared, double least, int *move, Workspace *ws) noexcept nogil:
    """The same for moves of kind 2 and 3: up to four hops change."""
    cdef int i, p, other, from_, to, k = q.k, a = hop if kind == 2 else hop + 1 if hop + 1 < k else 0
    cdef int gone[4]
    cdef double latency, per_byte, seconds
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
            latency = max(latency, hop_lat(q, from_, to))
            per_byte = max(per_byte, hop_bytes(q, from_, to))
            if reduce_seconds(q, ws.row, latency, ws.inside_lat, per_byte, ws.inside_spb) >= least:
                break
        else:
            latency = max(latency, _slowest_but(ws.hl, slow_lat, gone, 4))
            per_byte = max(per_byte, _slowest_but(ws.hb, slow_spb, gone, 4))
            seconds = _moved_ring(q, order, fixed, kind, hop, other, shared, latency, per_byte, least, ws)
            if seconds < least:
                least = seconds
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


cdef struct Rest:
    # The ring of all workers but one, whose place is open.
    double lat             # its slowest hop between two nodes
    double plain_spb       # its slowest hop as if each node's cards were full and there for one of them
    double spb             # with the cards shared, where the open place gets a node that the ring does not pass
    double before_share    # by which the hops to the open place share the cards of the node before it, and of the one after it
    double after_share


cdef Rest _rest_of(const Instance *q, const int *order, int position, Workspace *ws) noexcept nogil:
    """The ring without the worker at `position`; ws.here: workers of the others on each node, zero for those of the order before."""
    cdef Rest s
    cdef int r, a, b, k = q.k
    cdef int before = order[(position + k - 1) % k], after = order[(position + 1) % k]
    s.lat = s.plain_spb = s.spb = 0.0
    _set_floor(q, order, position, ws)
    for r in range(k):
        if r == position:
            continue
        a, b = order[r], order[(r + 1) % k]
        ws.here[a] += 1
        if (r + 1) % k == position:
            q.times[a] += 1
            continue
        if a == b:
            continue
        s.lat, s.plain_spb = max(s.lat, q.lat[<size_t> a * q.m + b]), max(s.plain_spb, q.spb[<size_t> a * q.m + b])
        q.times[a] += 1
    for r in range(k):
        a, b = order[r], order[(r + 1) % k]
        if r != position and (r + 1) % k != position and a != b:
            s.spb = max(s.spb, q.spb[<size_t> a * q.m + b] * max(_share(q, ws, a), _share(q, ws, b)))
    s.before_share, s.after_share = max(_share(q, ws, before), 1.0), max(_share(q, ws, after), 1.0)
    for r in range(k):
        q.times[order[r]] = 0
    return s


cdef inline double _share(const Instance *q, const Workspace *ws, int c) noexcept nogil:
    """`_load` with ws.here workers on the node."""
    if q.railed and 0 < ws.here[c] < q.filling[c]:
        return q.times[c] * (q.filling[c] / ws.here[c])
    return q.times[c]


cdef double _ring_with(const Instance *q, const int *order, int position, int c, bint gathers, Workspace *ws) noexcept nogil:
    """Allreduce seconds with c, whose node the ring passes already, at `position`, or beside its like where that is faster and allowed."""
    cdef double seconds
    memcpy(ws.trial, order, q.k * sizeof(int))
    ws.trial[position] = c
    seconds = ring_cost(q, ws.trial)
    if gathers and _beside_its_like(ws.trial, q.k, position, ws.tour):
        seconds = min(seconds, ring_cost(q, ws.tour))
    return seconds


cdef double replace_all(const Instance *q, const int *order, int position, double limit, bint gathers, int *choice,
                        Workspace *ws) noexcept nogil:
    """The least objective below `limit` with another candidate at `position`, which goes to `choice` (-1: none is below).

    ws.used: workers elsewhere than at `position`
    gathers: a worker that joins others of its node may take a place in the ring beside them instead
    """
    cdef int r, j, i, c, b, before, after, k = q.k
    cdef double total = 0.0, squares = 0.0, weighted, latency, w, t, rate, scale, base, ring, own_compute
    cdef double hop_latency, hop_byte, inside, inside_spb
    cdef const double *row
    cdef double own, own_lat, halo, slowest, worst, value, now = limit
    cdef double tax = q.communication_weight
    cdef const double *lat
    cdef const double *spb
    cdef Rest rest
    choice[0] = -1
    for r in range(k):
        ws.here[order[r]] = 0
    for i in range(ws.u):
        ws.here[ws.usable[i]] = 0
    for r in range(k):
        if r == position:
            continue
        w = q.weight[order[r]]
        total += w
        squares += w * w
        lat, spb = q.lat + <size_t> order[r] * q.m, q.spb + <size_t> order[r] * q.m
        weighted, latency = 0.0, (lat[order[r]] if q.inner else 0.0)
        for j in range(k):
            if j != r and j != position:
                weighted += q.weight[order[j]] * spb[order[j]]
                latency = max(latency, lat[order[j]])
        ws.P[r], ws.L[r] = weighted, latency
    rest = _rest_of(q, order, position, ws)
    for r in range(k):  # what stays the same wherever the worker goes, unless it joins the node
        b = order[r]
        ws.hl[r] = q.weight[b] * cards(q, b, ws.here[b])
        ws.hb[r] = q.inside[b] * q.part * q.weight[b] * (ws.here[b] - q.part) * q.weight[b]
        ws.L2[r] = q.weight[b] / q.speed[b]
    before, after = order[(position + k - 1) % k], order[(position + 1) % k]
    for i in range(ws.u):
        c = ws.usable[i]
        if ws.used[c] >= ws.room[c] or c == order[position]:
            continue
        lat, spb = q.lat + <size_t> c * q.m, q.spb + <size_t> c * q.m
        w = q.weight[c]
        t = total + w
        rate = q.epoch_flops / t
        base = q.overhead_seconds
        if k == 1:
            row = class_row(q, q.collectives, least_class(q, q.classes - 1, c), 1)
            ring = reduce_seconds(q, row, 0.0, lat[c], 0.0, q.inside[c]) if q.inner else 0.0
        else:
            hop_latency, hop_byte, inside, inside_spb, row = rest.lat, rest.plain_spb, ws.inside_lat, ws.inside_spb, ws.row
            if ws.here[c] == 0:
                hop_latency = max(hop_latency, max(lat[before], lat[after]))
                hop_byte = cards(q, c, 1.0)
                hop_byte = max(rest.spb, max(spb[before] * max(rest.before_share, hop_byte), spb[after] * max(rest.after_share, hop_byte)))
                row += q.stride
            if q.sharp != NULL and q.sharp[c] < ws.sharp:
                row -= <size_t> (ws.sharp - q.sharp[c]) * (k + 1) * q.stride
            if q.inner or ws.here[c] > 0:
                inside, inside_spb = max(inside, lat[c]), max(inside_spb, q.inside[c])
            ring = reduce_seconds(q, row, hop_latency, inside, hop_byte, inside_spb)
        base += (1.0 + tax) * ring
        own_compute = rate * w / q.speed[c]
        slowest, worst, own, own_lat = own_compute, 0.0, 0.0, (lat[c] if q.inner else 0.0)
        if base + slowest >= now:
            continue
        scale = q.halo_bytes / max(t * t - (squares + w * w) * q.part, 1e-12 * t * t)
        for r in range(k):
            if r == position:
                continue
            b = order[r]
            own += q.weight[b] * spb[b]
            own_lat = max(own_lat, lat[b])
            if b == c:
                halo = node_bytes(q, b, ws.here[b] + 1, ws.P[r])
            else:
                halo = ws.hl[r] * (ws.P[r] + w * spb[b]) + ws.hb[r]
            halo = q.rounds * max(ws.L[r], lat[b]) + scale * halo
            worst = max(worst, halo)
            slowest = max(slowest, halo + rate * ws.L2[r])
            if base + slowest + tax * worst >= now:
                break
        else:
            halo = q.rounds * own_lat + scale * node_bytes(q, c, ws.here[c] + 1, own)
            slowest, worst = max(slowest, halo + own_compute), max(worst, halo)
            if ws.here[c] and k > 1 and base + slowest + tax * worst < now:
                # Below its true cost so far: the cards that the ring then shares were left out.
                base = q.overhead_seconds + (1.0 + tax) * _ring_with(q, order, position, c, gathers, ws)
            value = base + slowest + tax * worst
            if q.levels > 0 and value < now:  # below its true cost so far: uplinks were left out
                memcpy(ws.trial, order, k * sizeof(int))
                ws.trial[position] = c
                value = set_cost(q, ws.trial) + (1.0 + tax) * _ring_with(q, order, position, c, gathers and k > 1, ws)
            if value < now:
                now, choice[0] = value, c
    return now


cdef void _count_used(const Instance *q, const int *order, const unsigned char *fixed, Workspace *ws) noexcept nogil:
    """ws.used: slots that the workers of `order` (k,) take; those where `fixed` (k,; may be NULL) take none."""
    cdef int r
    for r in range(ws.u):
        ws.used[ws.usable[r]] = 0
    for r in range(q.k):
        if fixed == NULL or not fixed[r]:
            ws.used[order[r]] += 1


cdef double _replace_some(const Instance *q, int *order, const unsigned char *fixed, int first, int end, double best, Workspace *ws) noexcept nogil:
    """Best replacement at each of the positions from `first` to before `end`; the objective, `best` where none improves it."""
    cdef int r, choice
    for r in range(first, end):
        if fixed != NULL and fixed[r]:
            continue
        ws.used[order[r]] -= 1
        best = min(best, replace_all(q, order, r, best * IMPROVES, fixed == NULL, &choice, ws))
        if choice >= 0:
            order[r] = choice
        ws.used[order[r]] += 1
        if choice >= 0 and fixed == NULL and _beside_its_like(order, q.k, r, ws.tour) and ring_cost(q, ws.tour) < ring_cost(q, order):
            memcpy(order, ws.tour, q.k * sizeof(int))
    return best


cdef double local_search(const Instance *q, int *order, const unsigned char *fixed, int sweeps, Workspace *ws) noexcept nogil:
    """Best replacement position by position, then the ring, until nothing improves or `sweeps` passes are over; the objective.

    fixed: (k,) ranks that stay and take no slot; may be NULL.
    """
    cdef int sweep
    cdef double best, before
    _count_used(q, order, fixed, ws)
    ring_polish(q, order, fixed, ws)
    best = objective(q, order)
    for sweep in range(sweeps):
        before = best
        _replace_some(q, order, fixed, 0, q.k, best, ws)
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

    speed, weight, inside: (m,) · latency, per_byte: (m, m) symmetric, BLOCKED_SECONDS where two nodes cannot talk; per_byte 0 on its diagonal
    slots: (m,) int32 · gpus: ranks of a worker · filling: (m,) workers of a node that fill its cards
    collectives, floors: (classes (k + 1), fours, 5, 4) of four algorithms at a time by class and number of nodes, and the least of that number
    or more · sharp: (m,) int32 class of each
    domains: (levels, m) int32 · uplinks: (levels, domains). All others float64; the caller does not change them while this lives.
    Raises MemoryError, and ValueError where sizes do not fit. Every method raises ValueError where an array has another length than it
    says, and IndexError where an order names no candidate.
    """

    def __cinit__(self, const double[::1] speed, const double[::1] weight, const double[:, ::1] latency, const double[:, ::1] per_byte,
                  const double[::1] inside, const int[::1] slots, int workers, int gpus, bint equal, double rounds, double halo_bytes,
                  double ring_latency_factor, double ring_byte_factor, double epoch_flops, double overhead_seconds,
                  double communication_weight, const double[:, :, :, ::1] collectives, const double[:, :, :, ::1] floors,
                  const double[::1] filling, const int[:, ::1] domains, const double[:, ::1] uplinks, const int[::1] sharp):
        cdef Py_ssize_t m = len(speed), levels = domains.shape[0], c, classes = collectives.shape[0] // (workers + 1)
        if workers < 1 or gpus < 1 or m < 1:
            raise ValueError("a placement has at least one worker with one GPU, and one candidate")
        if (len(weight) != m or len(inside) != m or len(slots) != m or latency.shape[0] != m or latency.shape[1] != m
                or per_byte.shape[0] != m or per_byte.shape[1] != m):
            raise ValueError(f"figures of other than {m} candidates")
        if (classes < 1 or collectives.shape[0] != classes * (workers + 1) or collectives.shape[1] < 1 or collectives.shape[2] != 5
                or collectives.shape[3] != 4 or floors.shape[0] != collectives.shape[0] or floors.shape[2] != 5 or floors.shape[3] != 4):
            raise ValueError(f"algorithms of an allreduce of other than {workers} workers")
        if floors.shape[1] != collectives.shape[1]:
            raise ValueError("the least of the figures is of other algorithms")
        if len(filling) != m or uplinks.shape[0] != levels or (levels and domains.shape[1] != m):
            raise ValueError(f"cards or uplinks of other than {m} candidates")
        if levels > 0 and not -1 <= np.min(domains) <= np.max(domains) < uplinks.shape[1]:
            raise ValueError(f"a domain is none of {uplinks.shape[1]}")
        if len(sharp) != m:
            raise ValueError(f"classes of switches of other than {m} candidates")
        for c in range(m):
            if not 0 <= sharp[c] < classes:
                raise ValueError(f"class {sharp[c]} of switches is none of {classes}")
        self._kept = ((speed, weight, latency, per_byte, inside, collectives, floors, filling, domains, uplinks, sharp), slots)
        self.q = Instance(m=m, k=workers, equal=equal, inner=gpus > 1, part=1.0 / gpus, speed=&speed[0], weight=&weight[0],
                          lat=&latency[0, 0], spb=&per_byte[0, 0], inside=&inside[0], slots=&slots[0], rounds=max(rounds, LEAST_ROUNDS),
                          halo_bytes=halo_bytes, ring_latency_factor=ring_latency_factor, ring_byte_factor=ring_byte_factor,
                          epoch_flops=epoch_flops, overhead_seconds=overhead_seconds, communication_weight=communication_weight,
                          fours=<int> collectives.shape[1], stride=<int> (20 * collectives.shape[1]), collectives=&collectives[0, 0, 0, 0],
                          floors=&floors[0, 0, 0, 0], classes=<int> classes, sharp=NULL, railed=False, filling=&filling[0], levels=<int> levels, domains=<int> uplinks.shape[1],
                          domain=NULL, uplink=NULL, times=NULL)
        if classes > 1:
            self.q.sharp = &sharp[0]
        if levels > 0 and uplinks.shape[1] > 0:
            self.q.domain, self.q.uplink = &domains[0, 0], &uplinks[0, 0]
        self.q.times = <int *> calloc(2 * m, sizeof(int))
        self.figures = <double *> calloc(2 * m + levels * uplinks.shape[1], sizeof(double))
        self.ws = workspace_new(self.q.m, self.q.k)
        if self.ws == NULL or self.q.times == NULL or self.figures == NULL:
            raise MemoryError()
        self.q.held, self.q.slow, self.q.least_slow, self.q.mass = self.q.times + m, self.figures, self.figures + m, self.figures + 2 * m
        for c in range(m):
            self.q.railed = self.q.railed or filling[c] > 1.0
            self.figures[c] = self.figures[m + c] = max(1.0, filling[c] / workers)
        workspace_room(self.ws, &self.q, NULL)

    def __dealloc__(self):
        workspace_free(self.ws)
        release(self.q.times)
        release(self.figures)

    cdef int _check(self, const int[:, ::1] orders, Py_ssize_t rows, int members) except -1:
        """Raise where `orders` are not `rows` rows of k, or one of the first `members` of a row is no candidate."""
        cdef Py_ssize_t row
        cdef int r
        if orders.shape[1] != self.q.k or orders.shape[0] != rows:
            raise ValueError(f"{orders.shape[0]} rows of {orders.shape[1]} where {rows} of {self.q.k} workers are needed")
        for row in range(rows):
            for r in range(members):
                if not 0 <= orders[row, r] < self.q.m:
                    raise IndexError(f"worker {r} of row {row} is on candidate {orders[row, r]}, of {self.q.m}")
        return 0

    cdef int _fits(self, Py_ssize_t length, Py_ssize_t wanted) except -1:
        if length != wanted:
            raise ValueError(f"an array of {length} where {wanted} are needed")
        return 0

    def use_slots(self, const int[::1] slots):
        """Search with these slots (m,) from now on; the caller does not change them while they are in use."""
        self._fits(len(slots), self.q.m)
        self._kept = (self._kept[0], slots)
        self.q.slots = &slots[0]
        workspace_room(self.ws, &self.q, NULL)

    def objectives(self, const int[:, ::1] orders, double[::1] seconds):
        """Objective of every row of `orders` (B, k) into `seconds` (B,); beyond CANNOT_WORK where a placement cannot work."""
        cdef Py_ssize_t row
        self._check(orders, len(seconds), self.q.k)
        with nogil:
            for row in range(orders.shape[0]):
                seconds[row] = objective(&self.q, &orders[row, 0])

    def seed_ranking(self, int[::1] ranking):
        """Usable candidates, the most promising first member first, into `ranking` (m,); how many there are."""
        cdef int i
        self._fits(len(ranking), self.q.m)
        with nogil:
            seed_scores(&self.q, self.ws)
            for i in range(self.ws.u):
                ranking[i] = self.ws.rank[i]
        return self.ws.u

    def greedy(self, int[:, ::1] orders, int start, bint seed_takes_slot, int[::1] filled):
        """Fill every row of `orders` (B, k) after its first `start` members; how many members each has then, into `filled` (B,)."""
        cdef Py_ssize_t row
        if not 1 <= start <= self.q.k:
            raise ValueError(f"{start} first members of {self.q.k} workers")
        self._check(orders, len(filled), start)
        with nogil:
            for row in range(orders.shape[0]):
                filled[row] = greedy(&self.q, &orders[row, 0], start, seed_takes_slot, self.ws)

    def local_search(self, int[:, ::1] orders, const unsigned char[::1] fixed, int sweeps, double[::1] seconds):
        """Improve every row of `orders` (B, k) in place; workers where `fixed` (k,) stay. Objectives into `seconds` (B,)."""
        cdef Py_ssize_t row
        cdef const unsigned char *stays = self._staying(fixed)
        self._check(orders, len(seconds), self.q.k)
        with nogil:
            for row in range(orders.shape[0]):
                seconds[row] = local_search(&self.q, &orders[row, 0], stays, sweeps, self.ws)

    def replace(self, int[:, ::1] orders, const unsigned char[::1] fixed, int first, int end, double best):
        """A part of one pass of `local_search` of `orders` (1, k): positions from `first` to before `end`, in place; the objective.

        best: what it was before
        """
        cdef const unsigned char *stays = self._staying(fixed)
        self._check(orders, 1, self.q.k)
        if not 0 <= first <= end <= self.q.k:
            raise ValueError(f"positions {first} to {end} of {self.q.k}")
        with nogil:
            _count_used(&self.q, &orders[0, 0], stays, self.ws)
            best = _replace_some(&self.q, &orders[0, 0], stays, first, end, best, self.ws)
        return best

    cdef const unsigned char *_staying(self, const unsigned char[::1] fixed) except? NULL:
        """`fixed`, NULL where no worker stays."""
        cdef int r
        self._fits(len(fixed), self.q.k)
        for r in range(self.q.k):
            if fixed[r]:
                return &fixed[0]
        return NULL

    def rings(self, int[:, ::1] orders, const unsigned char[::1] fixed):
        """Improve the ring of every row of `orders` (B, k) in place."""
        cdef Py_ssize_t row
        cdef const unsigned char *stays = self._staying(fixed)
        self._check(orders, orders.shape[0], self.q.k)
        with nogil:
            for row in range(orders.shape[0]):
                ring_polish(&self.q, &orders[row, 0], stays, self.ws)

    def close(self, int[:, ::1] orders, double[::1] seconds, int places, long long most):
        """Objective of every row of `orders` (B, k) into `seconds` (B,), rows that can be better than all before them with their best ring.

        places: tried for one ring · most: inner steps in all, after which rows stay as they are.
        """
        cdef Py_ssize_t row
        cdef long long work = 0
        cdef double apart, ring, best = INFINITY, tax = 1.0 + self.q.communication_weight
        self._check(orders, len(seconds), self.q.k)
        with nogil:
            for row in range(orders.shape[0]):
                apart, ring = set_cost(&self.q, &orders[row, 0]), ring_cost(&self.q, &orders[row, 0])
                if best > apart and work < most:
                    ring = min(ring, ring_below(&self.q, &orders[row, 0], min(ring, (best - apart) / tax), places, &work))
                seconds[row] = apart + tax * ring
                best = min(best, seconds[row])
