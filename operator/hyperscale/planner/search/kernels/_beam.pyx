"""Compiled beam search: paths of members grow by one at a time, and of all that are one longer the best different ones go on.

A path is scored as if it were a fair sample of the whole job: its slowest worker, the dearest boundary and the slowest of its hops, which
are the ring's; the last member closes it. What few members say of a boundary counts the less: first links are the cheapest there are. Two paths of the same members that end alike are one. Candidates fall out as soon as what is known of
them is no better than the worst that would go on. Workers of one node follow each other: a path comes back to no node.
"""

from libc.math cimport INFINITY
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free as release
from libc.string cimport memcpy, memset

from hyperscale.planner.search.kernels._kernel cimport (
    CANNOT_WORK, Instance, Kernel, Workspace, cards, class_row, hop_bytes, least_class, reduce_seconds,
)
from hyperscale.util._splitmix cimport hashed

cdef extern from *:
    """
    #include <math.h>

    /* Loops over candidates that compilers turn into vector code, for each kind of x86 its own; without contraction and with maxima as the
       only reductions all give the same bits. */
    #if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
    #define BEAM_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
    #else
    #define BEAM_CLONES
    #endif

    static inline double beam_max(double a, double b) { return a > b ? a : b; }
    static inline double beam_min(double a, double b) { return a < b ? a : b; }

    /* The ring of a path with each candidate, by four more algorithms: the fastest counts. */
    #define BEAM_WAY(at) beam_max(way[8 + at] * spb, way[12 + at] * within) + (way[16 + at] + way[at] * lat + way[4 + at] * inside)
    #define BEAM_RINGS(latency, per_byte) \
        for (int at = 0; at < fours; at++, row += 20) { \
            double way[20]; \
            for (int i = 0; i < 20; i++) \
                way[i] = row[i]; \
            for (int c = 0; c < m; c++) { \
                double lat = latency, spb = per_byte; \
                double inside = beam_max(hop_inside, inner_lat[c]), within = beam_max(hop_inside_byte, inner_spb[c]); \
                double one = beam_min(BEAM_WAY(0), BEAM_WAY(1)), other = beam_min(BEAM_WAY(2), BEAM_WAY(3)); \
                double seconds = (1.0 + tax) * beam_min(one, other) + shut[c]; \
                ring[c] = beam_min(ring[c], seconds); \
            } \
        }
    #define BEAM_HOP(known, last, first) beam_max(known, beam_max(last, first))

    /* What the path and one more candidate weigh. */
    #define BEAM_FAIR(c) { \
        double w = weight[c], total = sum + w, squares = (sum_squares + w * w) * part; \
        scale[c] = halo_bytes * now / (k * beam_max(total * total - squares, 1e-12 * total * total)); \
        rate[c] = flops * now / (total * k); \
        ring[c] = INFINITY; \
    }

    BEAM_CLONES static void beam_alone(int m, int now, int k, int equal, int chained, int railed, const double *restrict weight, const double *restrict shut,
        const double *restrict last_lat, const double *restrict last_spb, const double *first_lat, const double *first_spb,
        const double *restrict slow, double last_slow, double first_slow, double sum, double sum_squares, double hop_lat, double hop_byte,
        double hop_inside, double hop_inside_byte, double halo_bytes, double flops, const double *row, int fours, double tax, double part,
        const double *restrict inner_lat, const double *restrict inner_spb, double *restrict scale, double *restrict rate,
        double *restrict ring) {
        BEAM_FAIR(0)
        if (equal)  /* all weigh the same, and divisions take longest */
            for (int c = 1; c < m; c++)
                scale[c] = scale[0], rate[c] = rate[0], ring[c] = INFINITY;
        else
            for (int c = 1; c < m; c++)
                BEAM_FAIR(c)
        if (!chained)
            BEAM_RINGS(hop_lat, hop_byte)
        else if (railed)
            BEAM_RINGS(BEAM_HOP(hop_lat, last_lat[c], first_lat[c]),
                       BEAM_HOP(hop_byte, last_spb[c] * beam_max(last_slow, slow[c]), first_spb[c] * beam_max(first_slow, slow[c])))
        else if (now < k)
            BEAM_RINGS(beam_max(hop_lat, last_lat[c]), beam_max(hop_byte, last_spb[c]))
        else
            BEAM_RINGS(BEAM_HOP(hop_lat, last_lat[c], first_lat[c]), BEAM_HOP(hop_byte, last_spb[c], first_spb[c]))
    }

    /* One member beside a candidate: what it then costs goes into the worst boundary and the slowest worker, its link into the own ones. */
    #define BEAM_LINKS(j) \
        const double *restrict lat##j = lat + rows[j] * m, *restrict spb##j = spb + rows[j] * m; \
        double v##j = weights[members[j]], slow##j = slows[members[j]], all##j = mass[j], inner##j = inner[j];
    #define BEAM_MEMBER(j) { \
        double halo = rounds * beam_max(far[j], lat##j[c]) + scale[c] * (all##j * (pay[j] + weight[c] * spb##j[c]) + inner##j); \
        own += v##j * spb##j[c]; \
        most = beam_max(most, lat##j[c]); \
        dearest = beam_max(dearest, halo); \
        latest = beam_max(latest, halo + rate[c] * slow##j); \
    }

    /* Candidates beside one member that are below `limit` if no other costs more: how many; they go to `few`. The same bits as the whole. */
    BEAM_CLONES static int beam_few(int m, double rounds, double far, double pay, double mass, double inner, double member_slow,
        const double *restrict weight, const double *restrict slow, const double *restrict lat, const double *restrict spb,
        const double *restrict scale, const double *restrict rate, const double *restrict ring, double tax, double limit,
        double *restrict bound, int *restrict few) {
        int count = 0;
        for (int c = 0; c < m; c++) {
            double halo = rounds * beam_max(far, lat[c]) + scale[c] * (mass * (pay + weight[c] * spb[c]) + inner);
            bound[c] = beam_max(halo + rate[c] * member_slow, rate[c] * slow[c]) + tax * halo + ring[c];
        }
        for (int c = 0; c < m; c++) {
            few[count] = c;
            count += bound[c] < limit;
        }
        return count;
    }

    /* Four members at once, so that what belongs to a candidate is read and written once; whether any candidate is still below `limit`. */
    BEAM_CLONES static int beam_beside_four(int count, size_t m, double rounds, const int *members, const int *rows, const double *far, const double *pay,
        const double *mass, const double *inner, const double *weights, const double *slows, const double *restrict weight, const double *lat, const double *spb,
        const double *restrict scale, const double *restrict rate, const double *restrict ring, double tax, double limit,
        double *restrict own_pay, double *restrict own_far, double *restrict slowest, double *restrict worst) {
        BEAM_LINKS(0) BEAM_LINKS(1) BEAM_LINKS(2) BEAM_LINKS(3)
        long long some = 0;
        for (int c = 0; c < count; c++) {
            double own = own_pay[c], most = own_far[c], dearest = worst[c], latest = slowest[c];
            BEAM_MEMBER(0) BEAM_MEMBER(1) BEAM_MEMBER(2) BEAM_MEMBER(3)
            own_pay[c] = own, own_far[c] = most, worst[c] = dearest, slowest[c] = latest;
            some |= latest + tax * dearest + ring[c] < limit ? -1LL : 0LL;
        }
        return some != 0;
    }

    BEAM_CLONES static void beam_beside_one(int count, size_t m, double rounds, const int *members, const int *rows, const double *far, const double *pay,
        const double *mass, const double *inner, const double *weights, const double *slows, const double *restrict weight, const double *lat, const double *spb,
        const double *restrict scale, const double *restrict rate, double *restrict own_pay, double *restrict own_far,
        double *restrict slowest, double *restrict worst) {
        BEAM_LINKS(0)
        for (int c = 0; c < count; c++) {
            double own = own_pay[c], most = own_far[c], dearest = worst[c], latest = slowest[c];
            BEAM_MEMBER(0)
            own_pay[c] = own, own_far[c] = most, worst[c] = dearest, slowest[c] = latest;
        }
    }

    /* The candidate's own boundary, and the whole; whether any is below `limit`. */
    BEAM_CLONES static int beam_own(int count, double rounds, const double *restrict own_mass, const double *restrict slow,
        const double *restrict scale, const double *restrict rate, const double *restrict pay, const double *restrict far,
        const double *restrict alone, const double *restrict ring, double tax, double limit, const double *restrict slowest,
        const double *restrict worst, double *restrict score) {
        long long some = 0;
        for (int c = 0; c < count; c++) {
            double halo = rounds * far[c] + scale[c] * (own_mass[c] * pay[c] + alone[c]);
            score[c] = beam_max(slowest[c], halo + rate[c] * slow[c]) + tax * beam_max(worst[c], halo) + ring[c];
            some |= score[c] < limit ? -1LL : 0LL;
        }
        return some != 0;
    }
    """
    void beam_alone(int m, int now, int k, bint equal, bint chained, bint railed, const double *weight, const double *shut, const double *last_lat,
                    const double *last_spb, const double *first_lat, const double *first_spb, const double *slow, double last_slow,
                    double first_slow, double sum, double sum_squares, double hop_lat, double hop_byte, double hop_inside, double hop_inside_byte, double halo_bytes,
                    double flops, const double *row, int fours, double tax, double part, const double *inner_lat,
                    const double *inner_spb, double *scale, double *rate, double *ring) noexcept nogil
    int beam_few(int m, double rounds, double far, double pay, double mass, double inner, double member_slow, const double *weight,
                 const double *slow, const double *lat, const double *spb, const double *scale, const double *rate, const double *ring,
                 double tax, double limit, double *bound, int *few) noexcept nogil
    bint beam_beside_four(int count, size_t m, double rounds, const int *members, const int *rows, const double *far, const double *pay,
                          const double *mass, const double *inner, const double *weights, const double *slows, const double *weight, const double *lat, const double *spb,
                          const double *scale, const double *rate, const double *ring, double tax, double limit, double *own_pay,
                          double *own_far, double *slowest, double *worst) noexcept nogil
    void beam_beside_one(int count, size_t m, double rounds, const int *members, const int *rows, const double *far, const double *pay,
                         const double *mass, const double *inner, const double *weights, const double *slows, const double *weight, const double *lat, const double *spb,
                         const double *scale, const double *rate, double *own_pay, double *own_far, double *slowest,
                         double *worst) noexcept nogil
    bint beam_own(int count, double rounds, const double *own_mass, const double *slow, const double *scale, const double *rate,
                  const double *pay, const double *far, const double *alone, const double *ring, double tax, double limit,
                  const double *slowest, const double *worst, double *score) noexcept nogil

cdef enum:
    CHUNK = 64   # candidates whose sums stay in the first cache
    SCREENED = 4 # members from which on the dearest one tells most candidates that cannot go on
    AT_ONCE = 4  # members beside which they are looked at in one pass, before a chunk of which none can go on is left
    DIGIT_BITS = 11
    DIGITS = 2048
    ROOM = 2     # children found, as many times those kept, before the worst are forgotten
cdef int SPARE = 2      # children kept for every one that goes on: the same path's end comes from several parents


cdef struct Child:
    double score
    int state
    int candidate


cdef struct Beam:
    const Instance *q
    Workspace *ws
    int width
    int states
    double typical        # links beside those of a member that count as if they were the same for all paths
    double *hop           # (width, 4) of each path: the slowest hop's latency and seconds per byte between nodes, and those inside one
    uint64_t *keys        # (width,) sum of the members' numbers, mixed
    int *members          # (width, k)
    double *sums          # (width, 2) of the weights and of their squares
    double *pay           # (width, k) weighted seconds per byte of each member to the others on other nodes
    double *far           # (width, k) largest latency
    double *mass          # (width, k) weight of all members on its node
    double *card          # (width, k) the same, no less than what fills its cards
    double *inner         # (width, k) seconds per byte inside its node, times the weights that exchange there
    Child *children       # (ROOM * SPARE * width,) the best SPARE * width so far among them
    Child *sorted         # as many
    int born
    double *score         # (m,) of one path with each candidate, where it may be below a limit
    double *shut          # (m,) infinite where a candidate is not usable at all
    double *slow          # (m,) weight / speed
    double *alone         # (m,) `inner` of one worker on each
    double *own_mass      # (m,) `card` of one worker on each
    double *inner_lat     # (m,) of the hops between the ranks of a worker; 0 where it has one
    double *inner_spb     # (m,)
    double *scale         # (m,) of one path with each candidate: boundary bytes by its weights
    double *rate          # (m,) operations by the whole weight
    double *slowest       # (m,) seconds of the slowest member
    double *worst         # (m,) boundary seconds of the worst
    double *own_pay       # (m,) weighted seconds per byte of the candidate to the members
    double *own_far       # (m,) its largest latency
    double *ring          # (m,)
    int *few              # (m,) candidates that the dearest member of a path lets go on
    int *nth              # (k,) 0, 1, ...
    double *few_weight    # (CHUNK,) of those
    double *few_slow      # (CHUNK,)
    double *few_alone     # (CHUNK,)
    double *few_own_mass  # (CHUNK,)
    double *few_scale     # (CHUNK,)
    double *few_rate      # (CHUNK,)
    double *few_ring      # (CHUNK,)
    double *few_lat       # (k, CHUNK) by member
    double *few_spb       # (k, CHUNK)
    uint64_t *seen        # table of keys, twice as large as what is kept of the children, a power of two
    int table


cdef inline uint64_t _mixed(uint64_t number) noexcept nogil:
    """Never 0."""
    return hashed(number) | 1


cdef void _sort(Beam *s) noexcept nogil:
    """Put the children in the order of their scores, equal ones as they were. Radix sort: the bits of positive numbers rise with them."""
    cdef int counts[DIGITS]
    cdef int shift = 0, i, digit, at
    cdef uint64_t bits = 0
    cdef Child *swapped
    while shift < 64:
        for i in range(DIGITS):
            counts[i] = 0
        for i in range(s.born):
            memcpy(&bits, &s.children[i].score, sizeof(double))
            counts[(bits >> shift) & <uint64_t> (DIGITS - 1)] += 1
        shift += DIGIT_BITS
        if s.born == 0 or counts[(bits >> (shift - DIGIT_BITS)) & <uint64_t> (DIGITS - 1)] == s.born:
            continue  # all alike
        at = 0
        for digit in range(DIGITS):
            at, counts[digit] = at + counts[digit], at
        for i in range(s.born):
            memcpy(&bits, &s.children[i].score, sizeof(double))
            digit = <int> ((bits >> (shift - DIGIT_BITS)) & <uint64_t> (DIGITS - 1))
            s.sorted[counts[digit]] = s.children[i]
            counts[digit] += 1
        swapped = s.children
        s.children = s.sorted
        s.sorted = swapped


cdef int _close(Beam *s, int state, int now) noexcept nogil:
    """Shut the candidates of the path; the last one where it has room for one more, else -1."""
    cdef int j, last = -1, used = 0
    cdef const int *members = s.members + <size_t> state * s.q.k
    for j in range(now - 1):
        s.ring[members[j]] = INFINITY
    if now > 1:
        last = members[now - 2]
        for j in range(now - 1):
            used += members[j] == last
    return last if now > 1 and used < s.ws.room[last] else -1


cdef inline double _within(const Instance *q, int c, double mass) noexcept nogil:
    """Seconds per byte inside a node with members of this weight, times the weights that one of its ranks exchanges there."""
    return q.inside[c] * q.part * q.weight[c] * (mass - q.part * q.weight[c])


cdef inline double _card(const Instance *q, int c, double mass) noexcept nogil:
    """Weight of the members of node c as far as its cards matter."""
    return max(mass, q.filling[c] * q.weight[c]) if q.railed else mass


cdef const double *_row(const Instance *q, const int *members, int count, int now, int more) noexcept nogil:
    """Of the collectives, for as many nodes as if a path of `count` members and `more` nodes, `now` members together, were a fair sample."""
    cdef int j, nodes = more + (count > 0), sharp = q.classes - 1
    for j in range(1, count):
        nodes += members[j] != members[j - 1]
    if q.sharp != NULL:  # the path's own class: a lower one of a candidate counts from the next step on
        for j in range(count):
            sharp = least_class(q, sharp, members[j])
    return class_row(q, q.collectives, sharp, (nodes * q.k + now - 1) // now)


cdef double _joined(const Beam *s, int state, int now, double known) noexcept nogil:
    """Score of a path whose last node takes one more worker, `now` members then."""
    cdef const Instance *q = s.q
    cdef int j, b, last
    cdef size_t own = <size_t> state * q.k
    cdef const int *members = s.members + own
    cdef double w, total, squares, scale, rate, halo, mass, far, latest = 0.0, dearest = 0.0, rounds = q.rounds * known, lat, spb
    last = members[now - 2]
    w = q.weight[last]
    total, squares = s.sums[2 * state] + w, (s.sums[2 * state + 1] + w * w) * q.part
    scale = q.halo_bytes * known * now / (q.k * max(total * total - squares, 1e-12 * total * total))
    rate = q.epoch_flops * now / (total * q.k)
    for j in range(now - 1):
        b = members[j]
        mass = s.mass[own + j] + (w if b == last else 0.0)
        far = max(s.far[own + j], q.lat[<size_t> b * q.m + last])
        halo = rounds * far + scale * (
            _card(q, b, mass) * (s.pay[own + j] + w * q.spb[<size_t> b * q.m + last]) + _within(q, b, mass))
        dearest, latest = max(dearest, halo), max(latest, halo + rate * s.slow[b])
    # The new one is as the last.
    lat, spb = s.hop[4 * state], s.hop[4 * state + 1]
    if now == q.k and members[0] != last:
        lat, spb = max(lat, q.lat[<size_t> last * q.m + members[0]]), max(spb, hop_bytes(q, last, members[0]))
    return latest + q.communication_weight * dearest + (1.0 + q.communication_weight) * reduce_seconds(
        q, _row(q, members, now - 1, now, 0), lat, max(s.hop[4 * state + 2], q.lat[<size_t> last * q.m + last]), spb,
        max(s.hop[4 * state + 3], q.inside[last]))


cdef void _beside(Beam *s, int state, int now, double most) noexcept nogil:
    """Children of one path below `most`: the objective of the whole job as if it and a candidate, `now` members, were its fair sample."""
    cdef const Instance *q = s.q
    cdef int last_room, few, m = q.m
    cdef size_t own = <size_t> state * q.k
    cdef const int *members = s.members + own
    cdef size_t last = <size_t> (members[now - 2] if now > 1 else 0) * m, first = <size_t> members[0] * m if now == q.k else last
    cdef double tax = q.communication_weight, known = (now - 1.0) / (now - 1.0 + s.typical) if 1 < now < q.k else 1.0
    cdef double rounds = q.rounds * known, joined
    beam_alone(m, now, q.k, q.equal, now > 1, q.railed, q.weight, s.shut, q.lat + last, q.spb + last, q.lat + first, q.spb + first, q.slow,
               q.slow[last // m], q.slow[first // m], s.sums[2 * state], s.sums[2 * state + 1], s.hop[4 * state], s.hop[4 * state + 1],
               s.hop[4 * state + 2], s.hop[4 * state + 3], q.halo_bytes * known, q.epoch_flops, _row(q, members, now - 1, now, 1), q.fours, tax, q.part, s.inner_lat, s.inner_spb, s.scale, s.rate, s.ring)
    last_room = _close(s, state, now)
    if last_room >= 0:
        joined = _joined(s, state, now, known)
        if joined < most:
            s.children[s.born] = Child(joined, state, last_room)
            s.born += 1
    few = _few(s, state, now, rounds, most)
    if few == 0:
        return
    if few <= CHUNK and 2 * (few + AT_ONCE) <= m:
        _beside_few(s, state, now, rounds, most, few)
    else:
        _beside_all(s, state, now, rounds, most)


cdef int _few(Beam *s, int state, int now, double rounds, double most) noexcept nogil:
    """How many candidates the dearest member of the path lets go on; all where that is not worth asking."""
    cdef const Instance *q = s.q
    cdef size_t own = <size_t> state * q.k, row
    cdef const int *members = s.members + own
    cdef int j, dearest = 0
    cdef double halo, cost, largest = -1.0
    if now <= SCREENED or most >= CANNOT_WORK:
        return q.m
    for j in range(now - 1):
        halo = rounds * s.far[own + j] + s.scale[0] * (s.card[own + j] * s.pay[own + j] + s.inner[own + j])
        cost = halo + s.rate[0] * s.slow[members[j]] + q.communication_weight * halo
        if cost > largest:
            largest, dearest = cost, j
    row = <size_t> members[dearest] * q.m
    return beam_few(q.m, rounds, s.far[own + dearest], s.pay[own + dearest], s.card[own + dearest], s.inner[own + dearest],
                    s.slow[members[dearest]], q.weight, s.slow, q.lat + row, q.spb + row, s.scale, s.rate, s.ring,
                    q.communication_weight, most, s.score, s.few)


cdef void _beside_few(Beam *s, int state, int now, double rounds, double most, int few) noexcept nogil:
    """Children with the candidates in s.few, whose figures are put side by side first."""
    cdef const Instance *q = s.q
    cdef size_t own = <size_t> state * q.k, row
    cdef const int *members = s.members + own
    cdef int i, j, c, count = (few + AT_ONCE - 1) // AT_ONCE * AT_ONCE
    cdef double tax = q.communication_weight
    for i in range(few, count):  # no rest of a loop is left beside vectors
        s.few[i] = s.few[few - 1]
    for i in range(count):
        c = s.few[i]
        s.few_weight[i], s.few_slow[i], s.few_alone[i], s.few_own_mass[i] = q.weight[c], s.slow[c], s.alone[c], s.own_mass[c]
        s.few_scale[i], s.few_rate[i], s.few_ring[i], s.own_far[i] = s.scale[c], s.rate[c], s.ring[c], s.inner_lat[c]
        s.slowest[i] = s.worst[i] = s.own_pay[i] = 0.0
    for j in range(now - 1):
        row = <size_t> members[j] * q.m
        for i in range(count):
            s.few_lat[j * CHUNK + i], s.few_spb[j * CHUNK + i] = q.lat[row + s.few[i]], q.spb[row + s.few[i]]
    j = 0
    while j + AT_ONCE < now:
        if not beam_beside_four(count, CHUNK, rounds, members + j, s.nth + j, s.far + own + j, s.pay + own + j, s.card + own + j,
                                s.inner + own + j, q.weight, s.slow, s.few_weight, s.few_lat, s.few_spb, s.few_scale, s.few_rate,
                                s.few_ring, tax, most, s.own_pay, s.own_far, s.slowest, s.worst):
            return
        j += AT_ONCE
    while j + 1 < now:
        beam_beside_one(count, CHUNK, rounds, members + j, s.nth + j, s.far + own + j, s.pay + own + j, s.card + own + j,
                        s.inner + own + j, q.weight, s.slow, s.few_weight, s.few_lat, s.few_spb, s.few_scale, s.few_rate, s.own_pay,
                        s.own_far, s.slowest, s.worst)
        j += 1
    if beam_own(count, rounds, s.few_own_mass, s.few_slow, s.few_scale, s.few_rate, s.own_pay, s.own_far, s.few_alone, s.few_ring, tax,
                most, s.slowest, s.worst, s.score):
        for i in range(few):
            s.children[s.born] = Child(s.score[i], state, s.few[i])
            s.born += s.score[i] < most


cdef void _beside_all(Beam *s, int state, int now, double rounds, double most) noexcept nogil:
    """Children with all candidates."""
    cdef const Instance *q = s.q
    cdef int j, c, chunk, count, at, m = q.m
    cdef size_t own = <size_t> state * q.k
    cdef const int *members = s.members + own
    cdef double tax = q.communication_weight
    cdef bint some
    memset(s.slowest, 0, 3 * <size_t> m * sizeof(double))
    memcpy(s.own_far, s.inner_lat, m * sizeof(double))
    for chunk in range((m + CHUNK - 1) // CHUNK):
        at = chunk * CHUNK
        count = min(<int> CHUNK, m - at)
        j, some = 0, True
        while some and j + AT_ONCE < now:
            some = beam_beside_four(count, m, rounds, members + j, members + j, s.far + own + j, s.pay + own + j, s.card + own + j, s.inner + own + j,
                                    q.weight, s.slow, q.weight + at, q.lat + at, q.spb + at, s.scale + at, s.rate + at, s.ring + at, tax,
                                    most, s.own_pay + at, s.own_far + at, s.slowest + at, s.worst + at)
            j += AT_ONCE
        if not some:
            continue
        while j + 1 < now:
            beam_beside_one(count, m, rounds, members + j, members + j, s.far + own + j, s.pay + own + j, s.card + own + j, s.inner + own + j, q.weight,
                            s.slow, q.weight + at, q.lat + at, q.spb + at, s.scale + at, s.rate + at, s.own_pay + at, s.own_far + at,
                            s.slowest + at, s.worst + at)
            j += 1
        if not beam_own(count, rounds, s.own_mass + at, s.slow + at, s.scale + at, s.rate + at, s.own_pay + at, s.own_far + at,
                        s.alone + at, s.ring + at, tax, most, s.slowest + at, s.worst + at, s.score + at):
            continue
        for c in range(at, at + count):  # without a branch that no processor can foresee
            s.children[s.born] = Child(s.score[c], state, c)
            s.born += s.score[c] < most


cdef inline uint64_t _bits(const Beam *s, int child) noexcept nogil:
    """Of a child's score: those of positive numbers rise with them."""
    cdef uint64_t bits
    memcpy(&bits, &s.children[child].score, sizeof(double))
    return bits


cdef int _last_digits(const Beam *s, int left, uint64_t *mask, uint64_t *limit) noexcept nogil:
    """Leading bits, and which they are, that only the child at `left` of the order shares, or all that do are kept; how many those are."""
    cdef int counts[DIGITS]
    cdef int i, digit, shift = 0
    cdef uint64_t differ = 0
    for i in range(s.born):
        differ |= _bits(s, i) ^ _bits(s, 0)
    while shift < 64 - DIGIT_BITS and differ >> (shift + DIGIT_BITS) != 0:
        shift += 1
    mask[0] = ~(((<uint64_t> 1 << shift) << DIGIT_BITS) - 1)  # of what all share
    limit[0] = _bits(s, 0) & mask[0]
    while True:
        memset(counts, 0, DIGITS * sizeof(int))
        for i in range(s.born):
            counts[(_bits(s, i) >> shift) & <uint64_t> (DIGITS - 1)] += (_bits(s, i) & mask[0]) == limit[0]
        digit = 0
        while counts[digit] < left:
            left -= counts[digit]
            digit += 1
        mask[0] |= <uint64_t> (DIGITS - 1) << shift
        limit[0] |= <uint64_t> digit << shift
        if shift == 0 or counts[digit] == left:
            return left
        shift = max(0, shift - DIGIT_BITS)


cdef double _cut(Beam *s) noexcept nogil:
    """Forget all children but the best SPARE * width, the first of equals, and keep their order; what a further one must be below."""
    cdef int i, left, kept = 0
    cdef uint64_t mask = 0, limit = 0, bits
    cdef double most = 0.0
    if s.born <= SPARE * s.width:
        return CANNOT_WORK
    left = _last_digits(s, SPARE * s.width, &mask, &limit)
    for i in range(s.born):
        bits = _bits(s, i) & mask
        if bits < limit or (bits == limit and left > 0):
            left -= bits == limit
            most = max(most, s.children[i].score)
            s.children[kept] = s.children[i]
            kept += 1
    s.born = kept
    return min(CANNOT_WORK, most)


cdef void _expand(Beam *s, int now) noexcept nogil:
    """The best children of all paths, with `now` members each, best first."""
    cdef int state
    cdef double most = CANNOT_WORK
    s.born = 0
    for state in range(s.states):
        _beside(s, state, now, most)
        if s.born > ROOM * SPARE * s.width:
            most = _cut(s)
    _cut(s)
    _sort(s)


cdef int _different(Beam *s, int now) noexcept nogil:
    """Move the best different paths of `now` members to the front, at the end different sets; how many."""
    cdef int i, kept = 0, slot
    cdef uint64_t key
    for i in range(s.table):
        s.seen[i] = 0
    for i in range(s.born):
        key = s.keys[s.children[i].state] + _mixed(s.children[i].candidate)
        if now < s.q.k:  # where a path ends decides how it goes on
            key = _mixed(key + <uint64_t> s.children[i].candidate)
        slot = <int> (key & <uint64_t> (s.table - 1))
        while s.seen[slot] != 0 and s.seen[slot] != key:
            slot = (slot + 1) & (s.table - 1)
        if s.seen[slot] == 0:
            s.seen[slot] = key
            s.children[kept] = s.children[i]
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
        state, c = old.children[i].state, old.children[i].candidate
        at, before, w = <size_t> i * q.k, <size_t> state * q.k, q.weight[c]
        lat, spb = q.lat + <size_t> c * q.m, q.spb + <size_t> c * q.m
        memcpy(new.hop + 4 * i, old.hop + 4 * state, 4 * sizeof(double))
        d = old.members[before + now - 2] if now > 1 else -1
        if d >= 0 and d != c:
            new.hop[4 * i] = max(new.hop[4 * i], lat[d])
        if d >= 0:
            new.hop[4 * i + 1] = max(new.hop[4 * i + 1], hop_bytes(q, c, d))
        if q.inner or d == c:
            new.hop[4 * i + 2], new.hop[4 * i + 3] = max(new.hop[4 * i + 2], lat[c]), max(new.hop[4 * i + 3], q.inside[c])
        new.keys[i] = old.keys[state] + _mixed(c)
        new.sums[2 * i], new.sums[2 * i + 1] = old.sums[2 * state] + w, old.sums[2 * state + 1] + w * w
        memcpy(new.members + at, old.members + before, (now - 1) * sizeof(int))
        new.members[at + now - 1] = c
        new.pay[at + now - 1], new.far[at + now - 1], new.mass[at + now - 1] = 0.0, (lat[c] if q.inner else 0.0), w
        for j in range(now - 1):
            d = new.members[at + j]
            new.pay[at + now - 1] += q.weight[d] * spb[d]
            new.far[at + now - 1] = max(new.far[at + now - 1], lat[d])
            new.pay[at + j], new.far[at + j] = old.pay[before + j] + w * spb[d], max(old.far[before + j], lat[d])
            new.mass[at + j] = old.mass[before + j]
            if d == c:
                new.mass[at + j] += w
                new.mass[at + now - 1] += w
        for j in range(now):
            d = new.members[at + j]
            new.inner[at + j], new.card[at + j] = _within(q, d, new.mass[at + j]), _card(q, d, new.mass[at + j])


cdef bint _allocate(Beam *s, int width) noexcept nogil:
    cdef size_t m = s.q.m, k = s.q.k, w = width
    cdef int c
    s.width, s.states, s.table = width, 0, 1
    while s.table < 2 * SPARE * width:
        s.table *= 2
    s.keys = <uint64_t *> calloc(w + s.table, sizeof(uint64_t))
    s.members = <int *> calloc(w * k + m + k, sizeof(int))
    s.sums = <double *> calloc(w * (6 + 5 * k) + 14 * m + (7 + 2 * k) * CHUNK, sizeof(double))
    s.children = <Child *> calloc(ROOM * SPARE * w + m + 1, sizeof(Child))
    s.sorted = <Child *> calloc(ROOM * SPARE * w + m + 1, sizeof(Child))
    if s.keys == NULL or s.members == NULL or s.sums == NULL or s.children == NULL or s.sorted == NULL:
        return False
    s.seen, s.hop, s.pay, s.far = s.keys + w, s.sums + 2 * w, s.sums + 6 * w, s.sums + (6 + k) * w
    s.mass, s.inner, s.card = s.sums + (6 + 2 * k) * w, s.sums + (6 + 3 * k) * w, s.sums + (6 + 4 * k) * w
    s.scale = s.sums + (6 + 5 * k) * w
    s.rate, s.ring, s.slow, s.slowest = s.scale + m, s.scale + 2 * m, s.scale + 3 * m, s.scale + 4 * m
    s.worst, s.own_pay, s.own_far = s.slowest + m, s.slowest + 2 * m, s.slowest + 3 * m
    s.score, s.shut, s.alone = s.slowest + 4 * m, s.slowest + 5 * m, s.slowest + 6 * m
    s.inner_lat, s.inner_spb, s.own_mass = s.slowest + 7 * m, s.slowest + 8 * m, s.slowest + 9 * m
    s.few_weight = s.slowest + 10 * m
    s.few_slow, s.few_alone, s.few_own_mass = s.few_weight + CHUNK, s.few_weight + 2 * CHUNK, s.few_weight + 3 * CHUNK
    s.few_scale, s.few_rate, s.few_ring = s.few_weight + 4 * CHUNK, s.few_weight + 5 * CHUNK, s.few_weight + 6 * CHUNK
    s.few_lat, s.few_spb = s.few_weight + 7 * CHUNK, s.few_weight + (7 + k) * CHUNK
    s.few, s.nth = s.members + w * k, s.members + w * k + m
    for c in range(s.q.k):
        s.nth[c] = c
    for c in range(s.q.m):
        s.shut[c] = INFINITY
        s.slow[c] = s.q.weight[c] / s.q.speed[c]
        s.alone[c], s.own_mass[c] = _within(s.q, c, s.q.weight[c]), _card(s.q, c, s.q.weight[c])
        s.inner_lat[c] = s.q.lat[<size_t> c * s.q.m + c] if s.q.inner else 0.0
        s.inner_spb[c] = s.q.inside[c] if s.q.inner else 0.0
    for c in range(s.ws.u):
        s.shut[s.ws.usable[c]] = 0.0
    return True


cdef void _free(Beam *s) noexcept nogil:
    release(s.keys)
    release(s.members)
    release(s.sums)
    release(s.children)
    release(s.sorted)


def beam(Kernel kernel, int[:, ::1] orders, double typical):
    """How many rows of `orders` (width, k) were filled with different sets of candidates, each as a ring, most promising first.

    typical: links beside those of a member that count as if they were the same for all paths; 0 takes every path for a fair sample.
    Raises MemoryError, and ValueError where a row is not as long as the job has workers.
    """
    cdef Beam a, b
    cdef int now, kept = 0, i, k = kernel.q.k, width = orders.shape[0]
    if orders.shape[1] != k or width < 1:
        raise ValueError("the rows have another length than the job has workers")
    a.q = b.q = &kernel.q
    a.typical = b.typical = typical
    a.ws = b.ws = kernel.ws
    a.keys = b.keys = NULL
    a.members = b.members = NULL
    a.sums = b.sums = NULL
    a.children = b.children = NULL
    a.sorted = b.sorted = NULL
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
