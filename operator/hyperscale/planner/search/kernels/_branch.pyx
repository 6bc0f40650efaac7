"""Compiled branch and bound: the best placement of one job and the proof, or the best bound when it had to stop.

Sets of members are built one by one. At every step each candidate gets a lower bound of all placements with the members so far, itself and any
rest; those that cannot beat the best placement known drop out for the whole subtree. Take a member i on a node with n members, X_i the
weighted seconds per byte from there to the members elsewhere, g ranks a worker, and a rest R of total weight t. Each of the rest adds at
least b_i times its weight to n X_i + inside_i w_i (n - 1/g) / g: n times the least seconds per byte to any candidate elsewhere, or, on
the same node, X_i / w_i + inside_i / g. So
    halo_i  >=  w_i (n X_i + inside_i w_i (n - 1/g) / g + t b_i) / ((W_S + t)^2 - (S2_S + t^2 / |R|) / g),
which over an interval of t is least at one of its ends (a quotient of a line and a parabola that first may rise and then falls). Latency: the
farthest of |R| partners is no nearer than the |R|-th nearest candidate. Where n workers do not fill the node's cards, the number that does
stands for n, and a further one of the node may add nothing; uplinks are left out. Ring: it leaves the node of every member and comes back,
from two different workers where there are two elsewhere, and cards are never faster than for one hop; all workers on one node are apart. An
allreduce over at least that number of nodes takes no less than the least of each of its figures over all these numbers (`floors`).
Nodes that nothing tells apart (twins) are interchangeable: once one of them has been tried at a place, the others need not be.
"""

from libc.math cimport INFINITY
from libc.stdlib cimport calloc, free as release
from libc.string cimport memcpy

from hyperscale.planner.search.kernels._kernel cimport (
    Instance, Kernel, Workspace, cards, class_row, forget_slow, hop_bytes, hop_lat, hop_spb, least_class, node_bytes, reduce_seconds, repeats,
    ring_cost, ring_polish, set_cost, set_slow, workspace_free, workspace_new,
)

cdef double SAME = 1.0 - 1e-10
cdef long long CHECK_WORK = 1 << 21


cdef struct Search:
    const Instance *q
    Workspace *ws
    double upper          # best objective known
    int *best             # (k,) its order
    double limit          # what a placement must be below
    double open           # least bound of what was not explored
    long long work        # inner steps so far
    long long most        # and at most
    long long check       # when to ask whether time is up
    bint stopped
    bint relaxed          # leaves are bounds only: their ring is not theirs to choose
    bint shared           # some node has several members of the set whose rings are tried
    int *twin             # (m,) number of the first node like it
    int *left             # (m,) slots
    int *here             # (m,) members
    int *member           # (k,) set so far
    double *near_lat      # (m, k) j-th smallest latency to anyone, rising
    double *near_spb      # (m, k) sum of the j smallest seconds per byte to other nodes
    double *ring_lat      # (m,) of a hop of the ring that leaves its node, where it has more than one node
    double *ring_spb      # (m,)
    int nodes             # different nodes of the members
    int least_nodes       # that hold all workers
    int sharp             # class of the members: that of the whole set is no higher, and a higher one is never slower
    double inside         # largest latency inside a node of the members that has several ranks
    double inside_spb     # and seconds per byte
    const double *row     # of the collectives for the set whose rings are tried
    int *cand             # (k + 1, m) candidates of each depth
    double *bound         # (k + 1, m) their bounds
    double *P             # (k + 1, m) weighted seconds per byte of each candidate to the members elsewhere
    double *L             # (k + 1, m) largest latency
    double *MP            # (k + 1, k) the same of the members to the other members
    double *ML            # (k + 1, k)
    double *small         # (8 k,) scratch
    double *stat          # (4 k,) of members: rest latency, what the rest adds by its weight, ring latency, ring seconds per byte
    int *tour             # (k,)
    void *expired         # a Python callable, alive for the whole search


cdef bint _time_is_up(void *expired) noexcept with gil:
    return bool((<object> expired)())


cdef inline int _insert(double *smallest, int count, int room, double value) noexcept nogil:
    """Keep the `room` smallest values, rising; how many there are."""
    cdef int at
    if count == room:
        if room == 0 or value >= smallest[room - 1]:
            return count
        at = room - 1
    else:
        at = count
        count += 1
    while at > 0 and smallest[at - 1] > value:
        smallest[at] = smallest[at - 1]
        at -= 1
    smallest[at] = value
    return count


cdef inline int _leaving(const Search *s, int most) noexcept nogil:
    """Different workers elsewhere that the hops lead to which leave a node with at most that number of the workers."""
    return 1 if s.q.k - min(most, s.q.k - 1) < 2 else 2


cdef void _prepare(Search *s) noexcept nogil:
    """What holds for every node wherever it is placed."""
    cdef int c, d, j, copies, lats, bytes, hop_lats, hop_bytes, hops, m = s.q.m, k = s.q.k
    cdef double *lat = s.small
    cdef double *spb = s.small + k
    cdef double hop[2]
    cdef double far[2]
    for c in range(m):
        lats = bytes = hop_lats = hop_bytes = 0
        hops = _leaving(s, s.left[c])
        for d in range(m):
            copies = s.left[d] - (1 if d == c else 0)
            for j in range(min(copies, k - 1)):
                lats = _insert(lat, lats, k - 1, s.q.lat[<size_t> c * m + d])
                if d == c:
                    continue
                bytes = _insert(spb, bytes, k - 1, s.q.spb[<size_t> c * m + d])
                if j < hops:
                    hop_lats = _insert(far, hop_lats, hops, s.q.lat[<size_t> c * m + d])
                    hop_bytes = _insert(hop, hop_bytes, hops, hop_spb(s.q, c, d))
        s.near_lat[c * k] = s.near_spb[c * k] = 0.0
        for j in range(1, k):
            s.near_lat[c * k + j] = lat[j - 1] if j <= lats else INFINITY
            s.near_spb[c * k + j] = s.near_spb[c * k + j - 1] + spb[j - 1] if j <= bytes else INFINITY
        s.ring_lat[c] = far[hops - 1] if hop_lats == hops else INFINITY
        s.ring_spb[c] = hop[hops - 1] if hop_bytes == hops else INFINITY
        s.twin[c] = c
        for d in range(c):
            if s.twin[d] == d and _twins(s.q, s.left, c, d):
                s.twin[c] = d
                break


cdef int _fewest_nodes(const Search *s) noexcept nogil:
    """Nodes that hold all workers, at least; more than all where they do not."""
    cdef int c, size, count, nodes = 0, held = 0
    for size in range(s.q.k, 0, -1):
        count = 0
        for c in range(s.q.m):
            count += min(s.left[c], s.q.k) == size
        while count > 0 and held < s.q.k:
            held += size
            nodes += 1
            count -= 1
    return nodes if held >= s.q.k else s.q.k


cdef bint _twins(const Instance *q, const int *left, int c, int d) noexcept nogil:
    cdef int x
    cdef size_t a = <size_t> c * q.m, b = <size_t> d * q.m
    if q.speed[c] != q.speed[d] or left[c] != left[d] or q.filling[c] != q.filling[d]:
        return False
    if least_class(q, q.classes, c) != least_class(q, q.classes, d):
        return False
    for x in range(q.levels):
        if q.domain[<size_t> x * q.m + c] != q.domain[<size_t> x * q.m + d]:
            return False
    if (left[c] > 1 or q.inner) and (q.lat[a + c] != q.lat[b + d] or q.inside[c] != q.inside[d]):
        return False
    for x in range(q.m):
        if x != c and x != d and (q.lat[a + x] != q.lat[b + x] or q.spb[a + x] != q.spb[b + x]):
            return False
    return True


cdef void _member_stats(Search *s, int depth, const int *cand, int count) noexcept nogil:
    """Of every member: latency of the farthest of the rest at least, what the rest adds by its weight, its second best hop."""
    cdef int i, j, c, b, copies, rest = s.q.k - depth - 1, lats, bytes, hops_lat, hops_spb, hops, least = rest if s.q.equal else min(rest, 1)
    cdef double *lat = s.small
    cdef double *adds = s.small + s.q.k
    cdef double far[2]
    cdef double hop_byte[2]
    cdef double same, value, wait, filled, hop
    cdef const double *row_lat
    cdef const double *row_spb
    for i in range(depth):
        b = s.member[i]
        row_lat = s.q.lat + <size_t> b * s.q.m
        row_spb = s.q.spb + <size_t> b * s.q.m
        hops = _leaving(s, s.here[b] + s.left[b])
        filled = cards(s.q, b, s.here[b])
        same = s.MP[<size_t> depth * s.q.k + i] / s.q.weight[b] * (cards(s.q, b, s.here[b] + 1.0) - filled)
        same += s.q.inside[b] * s.q.part
        lats = bytes = hops_lat = hops_spb = 0
        for j in range(depth):
            if s.member[j] != b:
                hops_lat = _insert(far, hops_lat, hops, row_lat[s.member[j]])
                hops_spb = _insert(hop_byte, hops_spb, hops, hop_spb(s.q, b, s.member[j]))
        for j in range(count):
            c = cand[j]
            wait = row_lat[c]
            value = same if c == b else filled * row_spb[c]
            for copies in range(min(s.left[c], max(rest, hops))):
                lats = _insert(lat, lats, rest, wait)
                bytes = _insert(adds, bytes, least, value)
            if c != b:
                hop = hop_spb(s.q, b, c)
                for copies in range(min(s.left[c], hops)):
                    hops_lat = _insert(far, hops_lat, hops, wait)
                    hops_spb = _insert(hop_byte, hops_spb, hops, hop)
        s.stat[4 * i] = lat[rest - 1] if rest > 0 else 0.0
        s.stat[4 * i + 1] = 0.0
        if rest > 0:
            if s.q.equal:
                for j in range(rest):
                    s.stat[4 * i + 1] += adds[j] / rest
            else:
                s.stat[4 * i + 1] = adds[0]
        s.stat[4 * i + 2] = far[hops - 1] if hops_lat == hops else INFINITY
        s.stat[4 * i + 3] = hop_byte[hops - 1] if hops_spb == hops else INFINITY
    s.work += depth * count


cdef double _rest_beside(const Search *s, int c, double count, double pay, int rest) noexcept nogil:
    """What a rest of that number adds at least, by its weight, to the node of candidate c, which then has `count` members and pays `pay`."""
    cdef int same
    cdef double each = pay / s.q.weight[c] * (cards(s.q, c, count + 1.0) - cards(s.q, c, count)) + s.q.inside[c] * s.q.part, least, value
    cdef const double *near = s.near_spb + <size_t> c * s.q.k
    if rest == 0:
        return 0.0
    count = cards(s.q, c, count)
    if not s.q.equal:
        return min(count * near[1], each if s.left[c] > 1 else INFINITY)
    least = count * near[rest] / rest
    for same in range(1, min(rest, s.left[c] - 1) + 1):
        value = (same * each + count * near[rest - same]) / rest
        least = min(least, value)
    return least


cdef double _ring_bound(const Search *s, int c, double between, double spb) noexcept nogil:
    """Least seconds of allreduce with the members, c and any rest; between, spb: of a hop that every ring over two nodes or more has."""
    cdef const Instance *q = s.q
    cdef int nodes = max(s.nodes + (s.here[c] == 0), s.least_nodes), sharp = least_class(q, s.sharp, c)
    cdef double inside = s.inside, inside_spb = s.inside_spb, least = INFINITY
    if q.inner or s.here[c] > 0:
        inside, inside_spb = max(inside, q.lat[<size_t> c * q.m + c]), max(inside_spb, q.inside[c])
    if nodes == 1:
        if s.here[c] + s.left[c] >= q.k:
            least = reduce_seconds(q, class_row(q, q.collectives, sharp, 1), 0.0, inside, 0.0, q.inside[c]) if q.k > 1 or q.inner else 0.0
        nodes = 2
    if nodes <= q.k and between < INFINITY and spb < INFINITY:
        least = min(least, reduce_seconds(q, class_row(q, q.floors, sharp, nodes), between, inside, spb, inside_spb))
    return least


cdef double _candidate_bound(Search *s, int depth, int c, double total, double squares, double low, double high,
                             double ring_lat, double ring_spb) noexcept nogil:
    """Least objective of any placement with the members, c, and a rest whose weights sum to low..high; INFINITY where s.limit is no more."""
    cdef const Instance *q = s.q
    cdef int i, b, rest = q.k - depth - 1
    cdef double w = q.weight[c], own, latency, halo, adds, first, second, slowest = 0.0, worst = 0.0, base, need, rate
    cdef const double *lat = q.lat + <size_t> c * q.m
    cdef const double *spb = q.spb + <size_t> c * q.m
    cdef const double *P = s.MP + <size_t> depth * q.k
    cdef const double *L = s.ML + <size_t> depth * q.k
    cdef double spread = 1.0 - q.part / rest if rest > 0 else 0.0
    total += w
    squares += w * w
    base = q.overhead_seconds + (1.0 + q.communication_weight) * _ring_bound(s, c, max(ring_lat, s.ring_lat[c]), max(ring_spb, s.ring_spb[c]))
    if base >= s.limit:
        return INFINITY
    if not q.equal:
        need = s.limit - base
        if need <= 0.0 or q.epoch_flops / need > total + high:
            return INFINITY
        low = max(low, q.epoch_flops / need - total)
    # Weighted pairs: (total + t)^2 - (squares + t^2 / rest) / g.
    own = total * total - squares * q.part
    first = 1.0 / max(own + low * (2.0 * total + low * spread), 1e-300)
    second = 1.0 / max(own + high * (2.0 * total + high * spread), 1e-300)
    rate = q.epoch_flops / (total + high)
    for i in range(depth):
        b = s.member[i]
        own, adds = node_bytes(q, b, s.here[b] + (b == c), P[i] + w * spb[b]), q.weight[b] * s.stat[4 * i + 1]
        latency = max(max(L[i], lat[b]), s.stat[4 * i])
        halo = q.rounds * latency + q.halo_bytes * min((own + low * adds) * first, (own + high * adds) * second)
        worst = max(worst, halo)
        slowest = max(slowest, halo + rate * q.weight[b] / q.speed[b])
        if base + slowest + q.communication_weight * worst >= s.limit:
            return INFINITY
    own = s.P[<size_t> depth * q.m + c]
    adds = w * _rest_beside(s, c, s.here[c] + 1.0, own, rest)
    own = node_bytes(q, c, s.here[c] + 1.0, own)
    latency = max(s.L[<size_t> depth * q.m + c], s.near_lat[c * q.k + rest])
    halo = q.rounds * latency + q.halo_bytes * min((own + low * adds) * first, (own + high * adds) * second)
    worst = max(worst, halo)
    slowest = max(slowest, halo + rate * w / q.speed[c])
    return base + slowest + q.communication_weight * worst


cdef int _filter(Search *s, int depth, int *cand, double *bound, int count, double total, double squares) noexcept nogil:
    """Bound every candidate and keep those that may still win; how many."""
    cdef int i, j, c, copies, kept = 0, rest = s.q.k - depth - 1, tops = 0, lows = 0
    cdef double *top = s.small
    cdef double *bottom = s.small + s.q.k
    cdef double high = 0.0, low = 0.0, ring_lat = 0.0, ring_spb = 0.0, value
    _member_stats(s, depth, cand, count)
    for j in range(0 if s.q.equal else count):
        c = cand[j]
        for copies in range(min(s.left[c], rest)):
            tops = _insert(top, tops, rest, -s.q.weight[c])
            lows = _insert(bottom, lows, rest, s.q.weight[c])
    if s.q.equal:
        high = low = rest
    for j in range(0 if s.q.equal else rest):
        high -= top[j]
        low += bottom[j]
    s.inside = s.inside_spb = 0.0
    s.sharp = s.q.classes - 1
    for i in range(depth):
        s.sharp = least_class(s.q, s.sharp, s.member[i])
        ring_lat, ring_spb = max(ring_lat, s.stat[4 * i + 2]), max(ring_spb, s.stat[4 * i + 3])
        if s.q.inner or s.here[s.member[i]] > 1:
            s.inside = max(s.inside, s.q.lat[<size_t> s.member[i] * s.q.m + s.member[i]])
            s.inside_spb = max(s.inside_spb, s.q.inside[s.member[i]])
    for j in range(count):
        value = _candidate_bound(s, depth, cand[j], total, squares, low, high, ring_lat, ring_spb)
        if value < s.limit:
            cand[kept], bound[kept] = cand[j], value
            kept += 1
    s.work += count * (depth + 1)
    return kept


cdef void _sort(int *cand, double *bound, int count) noexcept nogil:
    """Highest bound first, then the higher number: what is nearly out goes first, while it is cheap to refute."""
    cdef int i, at, c
    cdef double value
    for i in range(1, count):
        c, value, at = cand[i], bound[i], i
        while at > 0 and (bound[at - 1] < value or (bound[at - 1] == value and cand[at - 1] < c)):
            cand[at], bound[at] = cand[at - 1], bound[at - 1]
            at -= 1
        cand[at], bound[at] = c, value


cdef int _slots_of(Search *s, const int *cand, int count) noexcept nogil:
    cdef int j, slots = 0
    for j in range(count):
        slots += s.left[cand[j]]
    return slots


cdef void _join(Search *s, int depth, int c) noexcept nogil:
    """Make c a member: everyone's sums at the next depth."""
    cdef int d, m = s.q.m
    cdef double w = s.q.weight[c]
    cdef const double *lat = s.q.lat + <size_t> c * m
    cdef const double *spb = s.q.spb + <size_t> c * m
    cdef double *P = s.P + <size_t> depth * m
    cdef double *L = s.L + <size_t> depth * m
    cdef double *MP = s.MP + <size_t> depth * s.q.k
    cdef double *ML = s.ML + <size_t> depth * s.q.k
    s.member[depth] = c
    s.nodes += s.here[c] == 0
    s.here[c] += 1
    MP[s.q.k + depth], ML[s.q.k + depth] = P[c], L[c]
    for d in range(depth):
        MP[s.q.k + d] = MP[d] + w * spb[s.member[d]]
        ML[s.q.k + d] = max(ML[d], lat[s.member[d]])
    for d in range(m):
        P[m + d] = P[d] + w * spb[d]
        L[m + d] = max(L[d], lat[d])
    s.work += m


cdef void _explore(Search *s, int depth, int count, double total, double squares, double own) noexcept nogil:
    """All placements with the members so far and the rest among the `count` candidates of this depth; `own`: their bound."""
    cdef int *cand = s.cand + <size_t> depth * s.q.m
    cdef double *bound = s.bound + <size_t> depth * s.q.m
    cdef int i, j, c, at, before, rest = s.q.k - depth
    cdef double w
    if s.work > s.check:
        s.check = s.work + CHECK_WORK
        s.stopped = s.stopped or _time_is_up(s.expired)
    if s.stopped or s.work > s.most:
        s.stopped = True
        s.open = min(s.open, own)
        return
    before = count + 1
    while count < before and _slots_of(s, cand, count) >= rest:
        before = count
        count = _filter(s, depth, cand, bound, count, total, squares)
    if _slots_of(s, cand, count) < rest:
        return
    _sort(cand, bound, count)
    for i in range(count):
        c = cand[i]
        if c < 0 or not bound[i] < s.limit:
            continue
        if s.stopped:
            s.open = min(s.open, bound[i])
            continue
        w = s.q.weight[c]
        if rest == 1:
            s.member[depth] = c
            _leaf(s, bound[i])
            continue
        # Its own further slots come first of the rest.
        s.left[c] -= 1
        at = 0
        for j in range(i if s.left[c] > 0 else i + 1, count):
            if cand[j] >= 0:
                s.cand[(<size_t> depth + 1) * s.q.m + at] = cand[j]
                at += 1
        if _slots_of(s, s.cand + (<size_t> depth + 1) * s.q.m, at) >= rest - 1:
            _join(s, depth, c)
            _explore(s, depth + 1, at, total + w, squares + w * w, bound[i])
            s.here[c] -= 1
            s.nodes -= s.here[c] == 0
        s.left[c] += 1
        _drop_twins(s, depth, cand, i, count)


cdef void _drop_twins(Search *s, int depth, int *cand, int i, int count) noexcept nogil:
    """What c = cand[i] was tried for need not be tried for its twins: two that are no members can change places."""
    cdef int j, c = cand[i]
    if s.here[c]:
        return
    for j in range(i + 1, count):
        if cand[j] >= 0 and s.twin[cand[j]] == s.twin[c] and not s.here[cand[j]]:
            cand[j] = -1


cdef void _leaf(Search *s, double own) noexcept nogil:
    """One complete set: its best ring, exactly."""
    cdef int r, k = s.q.k
    cdef double without, seconds, tax = 1.0 + s.q.communication_weight, cap
    memcpy(s.tour, s.member, k * sizeof(int))
    without = set_cost(s.q, s.tour)
    s.work += k * k
    if not without + tax * _ring_floor(s, s.tour) < s.limit:
        return
    seconds = ring_polish(s.q, s.tour, NULL, s.ws)
    s.work += 8 * k * k
    if without + tax * seconds < s.limit and not s.relaxed:
        _better(s, without + tax * seconds, s.tour)
    _best_ring(s, without)


cdef void _better(Search *s, double seconds, const int *order) noexcept nogil:
    s.upper = seconds
    s.limit = seconds * SAME
    memcpy(s.best, order, s.q.k * sizeof(int))


cdef double _ring_floor(Search *s, const int *order) noexcept nogil:
    """Seconds of allreduce that no ring of these members is below: it leaves each of their nodes, and comes back."""
    cdef int r, j, k = s.q.k, hops, lats, bytes
    cdef double far[2]
    cdef double hop_byte[2]
    cdef double between = 0.0, per_byte = 0.0
    if k == 1:
        return ring_cost(s.q, order)
    _row_of(s, order)
    set_slow(s.q, order, -1)
    for r in range(k):
        lats = bytes = 0
        for j in range(k):
            if order[j] != order[r]:
                lats = _insert(far, lats, 2, s.q.lat[<size_t> order[r] * s.q.m + order[j]])
                bytes = _insert(hop_byte, bytes, 2, hop_spb(s.q, order[r], order[j]))
        if lats > 0:
            hops = min(2, lats)
            between, per_byte = max(between, far[hops - 1]), max(per_byte, hop_byte[hops - 1])
    forget_slow(s.q, order)
    s.work += k * k
    return reduce_seconds(s.q, s.row, between, s.inside, per_byte, s.inside_spb)


cdef void _row_of(Search *s, const int *order) noexcept nogil:
    """s.row, s.inside: of the collectives for these members, and the largest latency inside a node of them with several ranks."""
    cdef int r, c, nodes = 0, sharp = s.q.classes - 1
    s.inside = s.inside_spb = 0.0
    for r in range(s.q.k):
        c = order[r]
        sharp = least_class(s.q, sharp, c)
        if s.q.inner or s.q.held[c] > 0:
            s.inside, s.inside_spb = max(s.inside, s.q.lat[<size_t> c * s.q.m + c]), max(s.inside_spb, s.q.inside[c])
        nodes += s.q.held[c] == 0
        s.q.held[c] = 1
    for r in range(s.q.k):
        s.q.held[order[r]] = 0
    s.row = class_row(s.q, s.q.collectives, sharp, nodes)


cdef void _best_ring(Search *s, double without) noexcept nogil:
    """Try every ring of the members in s.tour that can beat the limit."""
    cdef int r, k = s.q.k
    cdef double floor = without + (1.0 + s.q.communication_weight) * _ring_floor(s, s.tour)
    if k <= 3 or not floor < s.limit:
        if s.relaxed:
            s.open = min(s.open, floor)
        return
    memcpy(s.ws.spare, s.tour, k * sizeof(int))
    s.shared = repeats(s.q, s.tour)
    _row_of(s, s.tour)
    set_slow(s.q, s.tour, -1)
    _extend_ring(s, 1, 0.0, 0.0, without, floor)
    forget_slow(s.q, s.tour)


cdef void _extend_ring(Search *s, int placed, double latency, double per_byte, double without, double floor) noexcept nogil:
    """Depth first over the rings that start as s.ws.spare[:placed] does; the rest of it are the members that are left."""
    cdef int j, k = s.q.k, c
    cdef int *ring = s.ws.spare
    cdef double tax = 1.0 + s.q.communication_weight, lat, spb, value
    if s.stopped:
        s.open = min(s.open, floor)
        return
    s.work += k - placed + 1
    if s.work > s.most:
        s.stopped = True
        s.open = min(s.open, floor)
        return
    if placed == k:
        lat, spb = max(latency, hop_lat(s.q, ring[placed - 1], ring[0])), max(per_byte, hop_bytes(s.q, ring[placed - 1], ring[0]))
        value = without + tax * reduce_seconds(s.q, s.row, lat, s.inside, spb, s.inside_spb)
        if (s.shared or s.q.levels > 0) and not s.relaxed and value < s.limit:  # so far as if each hop had cards and uplinks for itself
            s.work += k
            value = without + tax * ring_cost(s.q, ring)
        if value < s.limit:
            if s.relaxed:
                s.open = min(s.open, value)
            else:
                _better(s, value, ring)
        return
    for j in range(placed, k):
        c = ring[j]
        if s.shared and _tried(ring, placed, j):
            continue
        lat, spb = max(latency, hop_lat(s.q, ring[placed - 1], c)), max(per_byte, hop_bytes(s.q, ring[placed - 1], c))
        if without + tax * reduce_seconds(s.q, s.row, lat, s.inside, spb, s.inside_spb) < s.limit:
            ring[j], ring[placed] = ring[placed], c
            _extend_ring(s, placed + 1, lat, spb, without, floor)
            ring[placed], ring[j] = ring[j], c
        if not floor < s.limit:
            return


cdef bint _tried(const int *ring, int placed, int at) noexcept nogil:
    """Whether a worker of the same node came before at this place."""
    cdef int j
    for j in range(placed, at):
        if ring[j] == ring[at]:
            return True
    return False


def branch_and_bound(Kernel kernel, const int[::1] pinned, int[::1] order, double upper, long long most, object expired):
    """(objective, lower bound, work) of the job in `kernel`; `order` (k,) gets a placement of that objective if one better than `upper` was found.

    pinned: (p,) members that are there already and take no slots; the ring is theirs to disturb, so that only the bound is answered then.
    most:   inner steps; with those used up, or expired() true, the bound is of what was not explored
    Raises MemoryError, and ValueError where nothing is left to place or a size or a candidate is wrong.
    """
    cdef const Instance *q = &kernel.q
    cdef int c, m = q.m, k = q.k, i, count = 0
    cdef Search s
    if len(pinned) >= k or len(order) != k:
        raise ValueError("no place is left, or the order has another length")
    for i in range(len(pinned)):
        if not 0 <= pinned[i] < m:
            raise ValueError("a pinned rank is on no candidate")
    cdef double total = 0.0, squares = 0.0
    cdef double *numbers = <double *> calloc(<size_t> m * (2 * k + 2 + 3 * (k + 1)) + 2 * k * (k + 1) + 16 * k + 16, sizeof(double))
    cdef int *ints = <int *> calloc(<size_t> m * (k + 4) + 8 * k + 8, sizeof(int))
    s.ws = workspace_new(m, k)
    if numbers == NULL or ints == NULL or s.ws == NULL:
        release(numbers)
        release(ints)
        workspace_free(s.ws)
        raise MemoryError()
    s.q, s.upper, s.limit, s.open = q, upper, upper * SAME, INFINITY
    s.work, s.most, s.check, s.stopped, s.relaxed = 0, most, CHECK_WORK, False, len(pinned) > 0
    s.nodes, s.sharp, s.inside, s.inside_spb, s.row = 0, q.classes - 1, 0.0, 0.0, q.collectives
    s.near_lat, s.near_spb = numbers, numbers + m * k
    s.ring_lat, s.ring_spb = numbers + 2 * m * k, numbers + 2 * m * k + m
    s.P = numbers + 2 * m * k + 2 * m
    s.L, s.bound = s.P + m * (k + 1), s.P + 2 * m * (k + 1)
    s.small = s.P + 3 * m * (k + 1)
    s.stat = s.small + 8 * k
    s.MP, s.ML = s.stat + 4 * k, s.stat + 4 * k + k * (k + 1)
    s.cand = ints
    s.twin, s.left, s.here = ints + m * (k + 1), ints + m * (k + 2), ints + m * (k + 3)
    s.member, s.tour, s.best = ints + m * (k + 4), ints + m * (k + 4) + k, ints + m * (k + 4) + 2 * k
    for c in range(m):
        s.left[c] = min(k, q.slots[c])
        s.L[c] = q.lat[<size_t> c * m + c] if q.inner else 0.0
    for i in range(len(pinned)):
        s.left[pinned[i]] += 1
    s.expired = <void *> expired
    for c in range(m):  # no more workers than have room fill its cards
        kernel.figures[c] = kernel.figures[m + c] = max(1.0, q.filling[c] / max(1, min(k, s.left[c])))
    s.least_nodes = _fewest_nodes(&s)
    with nogil:
        _prepare(&s)
    for i in range(len(pinned)):
        c = pinned[i]
        s.left[c] -= 1
        _join(&s, i, c)
        total += q.weight[c]
        squares += q.weight[c] * q.weight[c]
    for c in range(m):
        if s.left[c] > 0:
            s.cand[len(pinned) * m + count] = c
            count += 1
    with nogil:
        if s.upper > 0.0:
            _explore(&s, len(pinned), count, total, squares, 0.0)
    if s.upper < upper:
        for i in range(k):
            order[i] = s.best[i]
    found = (s.upper, min(s.upper, s.open), s.work)
    for c in range(m):
        kernel.figures[c] = kernel.figures[m + c] = max(1.0, q.filling[c] / k)
    release(numbers)
    release(ints)
    workspace_free(s.ws)
    return found
