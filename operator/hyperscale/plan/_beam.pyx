"""Compiled beam search: paths of members grow by one at a time, and of all that are one longer the best different ones go on.

A path is scored as if it were a fair sample of the whole job: its slowest worker, the dearest boundary and the slowest of its hops, which are
the ring's; the last member closes it. Two paths of the same members that end alike are one. Candidates fall out as soon as what is known of
them is no better than the worst that would go on.
"""

from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free as release
from libc.string cimport memcpy, memset

from hyperscale.plan._kernel cimport CANNOT_WORK, Instance, Kernel, Workspace

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

    BEAM_CLONES static void beam_alone(int m, int now, int k, int chained, const double *restrict weight, const double *restrict last_lat,
        const double *restrict last_spb, const double *first_lat, const double *first_spb, double sum, double sum_squares, double hop_lat,
        double hop_spb, double halo_bytes, double flops, double ring_latency, double ring_byte, double tax, double *restrict scale,
        double *restrict rate, double *restrict ring) {
        for (int c = 0; c < m; c++) {
            double w = weight[c], total = sum + w, squares = sum_squares + w * w;
            scale[c] = halo_bytes * now / (k * beam_max(total * total - squares, 1e-12 * total * total));
            rate[c] = flops * now / (total * k);
        }
        for (int c = 0; c < m; c++) {
            double lat = chained ? beam_max(hop_lat, beam_max(last_lat[c], first_lat[c])) : hop_lat;
            double spb = chained ? beam_max(hop_spb, beam_max(last_spb[c], first_spb[c])) : hop_spb;
            ring[c] = (1.0 + tax) * (ring_latency * lat + ring_byte * spb);
        }
    }

    BEAM_CLONES static void beam_beside(int count, double rounds, double far, double pay, double v, double slow,
        const double *restrict weight, const double *restrict lat, const double *restrict spb, const double *restrict scale,
        const double *restrict rate, double *restrict own_pay, double *restrict own_far, double *restrict slowest, double *restrict worst) {
        for (int c = 0; c < count; c++) {
            double halo = rounds * beam_max(far, lat[c]) + scale[c] * v * (pay + weight[c] * spb[c]);
            own_pay[c] += v * spb[c];
            own_far[c] = beam_max(own_far[c], lat[c]);
            worst[c] = beam_max(worst[c], halo);
            slowest[c] = beam_max(slowest[c], halo + rate[c] * slow);
        }
    }

    BEAM_CLONES static void beam_own(int count, double rounds, const double *restrict weight, const double *restrict slow,
        const double *restrict scale, const double *restrict rate, const double *restrict pay, const double *restrict far,
        double *restrict slowest, double *restrict worst) {
        for (int c = 0; c < count; c++) {
            double halo = rounds * far[c] + scale[c] * weight[c] * pay[c];
            worst[c] = beam_max(worst[c], halo);
            slowest[c] = beam_max(slowest[c], halo + rate[c] * slow[c]);
        }
    }

    BEAM_CLONES static int beam_below(int count, double tax, double most, const double *restrict slowest, const double *restrict worst,
        const double *restrict ring) {
        int some = 0;
        for (int c = 0; c < count; c++) some |= slowest[c] + tax * worst[c] + ring[c] < most;
        return some;
    }

    static int beam_take(int count, const int *restrict candidates, double tax, double most, const double *restrict slowest,
        const double *restrict worst, const double *restrict ring, int *restrict taken) {
        int n = 0;
        for (int i = 0; i < count; i++) {
            int c = candidates[i];
            taken[n] = c;
            n += slowest[c] + tax * worst[c] + ring[c] < most;
        }
        return n;
    }
    """
    void beam_alone(int m, int now, int k, bint chained, const double *weight, const double *last_lat, const double *last_spb,
                    const double *first_lat, const double *first_spb, double sum, double sum_squares, double hop_lat, double hop_spb,
                    double halo_bytes, double flops, double ring_latency, double ring_byte, double tax, double *scale, double *rate,
                    double *ring) noexcept nogil
    void beam_beside(int count, double rounds, double far, double pay, double v, double slow, const double *weight, const double *lat,
                     const double *spb, const double *scale, const double *rate, double *own_pay, double *own_far, double *slowest,
                     double *worst) noexcept nogil
    void beam_own(int count, double rounds, const double *weight, const double *slow, const double *scale, const double *rate,
                  const double *pay, const double *far, double *slowest, double *worst) noexcept nogil
    bint beam_below(int count, double tax, double most, const double *slowest, const double *worst, const double *ring) noexcept nogil
    int beam_take(int count, const int *candidates, double tax, double most, const double *slowest, const double *worst, const double *ring,
                  int *taken) noexcept nogil

cdef enum:
    CHUNK = 64   # candidates whose sums stay in the first cache
    LOOKS = 4    # members between two looks at whether any of them can still go on
    DIGIT_BITS = 11
    DIGITS = 2048
    ROOM = 4     # children found, as many times those kept, before they are sorted
cdef int SPARE = 3      # children kept for every one that goes on: the same path's end comes from several parents


cdef struct Child:
    double score
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
    Child *children       # (ROOM * SPARE * width,) the best SPARE * width so far among them
    Child *sorted         # as many
    int born
    int *taken            # (m,) candidates below a limit
    double *slow          # (m,) weight / speed
    double *scale         # (m,) of one path with each candidate: boundary bytes by its weights
    double *rate          # (m,) operations by the whole weight
    double *slowest       # (m,) seconds of the slowest member
    double *worst         # (m,) boundary seconds of the worst
    double *own_pay       # (m,) weighted seconds per byte of the candidate to the members
    double *own_far       # (m,) its largest latency
    double *ring          # (m,)
    uint64_t *seen        # table of keys, twice as large as what is kept of the children, a power of two
    int table


cdef inline uint64_t _mixed(uint64_t number) noexcept nogil:
    """splitmix64 (Steele, Lea and Flood 2014), never 0."""
    cdef uint64_t z = (number + 1) * <uint64_t> 0x9E3779B97F4A7C15
    z = (z ^ (z >> 30)) * <uint64_t> 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * <uint64_t> 0x94D049BB133111EB
    return (z ^ (z >> 31)) | 1


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


cdef bint _scores(const Beam *s, int state, int now, double most) noexcept nogil:
    """Objective of the whole job as if the path and each candidate, `now` members, were its fair sample, into s.score (m,).

    Where that is no less than `most`, some value from it on; False where that is so of all.
    """
    cdef const Instance *q = s.q
    cdef int j, c, count, at, m = q.m
    cdef size_t own = <size_t> state * q.k
    cdef const int *members = s.members + own
    cdef const double *last = q.lat + <size_t> (members[now - 2] if now > 1 else 0) * m
    cdef const double *last_spb = q.spb + <size_t> (members[now - 2] if now > 1 else 0) * m
    cdef const double *first = q.lat + <size_t> (members[0] if now == q.k else members[now - 2] if now > 1 else 0) * m
    cdef const double *first_spb = q.spb + <size_t> (members[0] if now == q.k else members[now - 2] if now > 1 else 0) * m
    cdef bint some = False
    beam_alone(m, now, q.k, now > 1, q.weight, last, last_spb, first, first_spb, s.sums[2 * state], s.sums[2 * state + 1], s.hop[2 * state],
               s.hop[2 * state + 1], q.halo_bytes, q.epoch_flops, q.ring_latency_factor, q.ring_byte_factor, q.communication_weight,
               s.scale, s.rate, s.ring)
    memset(s.slowest, 0, 4 * <size_t> m * sizeof(double))
    at = 0
    while at < m:
        count = min(CHUNK, m - at)
        for j in range(now - 1):
            if j % LOOKS == 0 and not beam_below(count, q.communication_weight, most, s.slowest + at, s.worst + at, s.ring + at):
                break
            c = members[j]
            beam_beside(count, q.rounds, s.far[own + j], s.pay[own + j], q.weight[c], s.slow[c], q.weight + at, q.lat + <size_t> c * m + at,
                        q.spb + <size_t> c * m + at, s.scale + at, s.rate + at, s.own_pay + at, s.own_far + at, s.slowest + at,
                        s.worst + at)
        beam_own(count, q.rounds, q.weight + at, s.slow + at, s.scale + at, s.rate + at, s.own_pay + at, s.own_far + at, s.slowest + at,
                 s.worst + at)
        some = beam_below(count, q.communication_weight, most, s.slowest + at, s.worst + at, s.ring + at) or some
        at += count
    return some


cdef int _room(const Beam *s, int state, int now, int c) noexcept nogil:
    cdef int j, left = s.ws.room[c]
    for j in range(now - 1):
        if s.members[<size_t> state * s.q.k + j] == c:
            left -= 1
    return left


cdef double _cut(Beam *s) noexcept nogil:
    """Sort the children and forget all but the best SPARE * width; what a further one must be below."""
    _sort(s)
    if s.born < SPARE * s.width:
        return CANNOT_WORK
    s.born = SPARE * s.width
    return min(CANNOT_WORK, s.children[s.born - 1].score)


cdef void _expand(Beam *s, int now) noexcept nogil:
    """The best children of all paths, with `now` members each, best first."""
    cdef int state, i, c, count
    cdef double most = CANNOT_WORK, tax = s.q.communication_weight
    s.born = 0
    for state in range(s.states):
        if not _scores(s, state, now, most):
            continue
        count = beam_take(s.ws.u, s.ws.usable, tax, most, s.slowest, s.worst, s.ring, s.taken)
        for i in range(count):
            c = s.taken[i]
            if _room(s, state, now, c) > 0:
                s.children[s.born] = Child(s.slowest[c] + tax * s.worst[c] + s.ring[c], state, c)
                s.born += 1
        if s.born > ROOM * SPARE * s.width:
            most = _cut(s)
    _cut(s)


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
        new.hop[2 * i], new.hop[2 * i + 1] = old.hop[2 * state], old.hop[2 * state + 1]
        if now > 1:
            d = old.members[before + now - 2]
            new.hop[2 * i], new.hop[2 * i + 1] = max(new.hop[2 * i], lat[d]), max(new.hop[2 * i + 1], spb[d])
        new.keys[i] = old.keys[state] + _mixed(c)
        new.sums[2 * i], new.sums[2 * i + 1] = old.sums[2 * state] + w, old.sums[2 * state + 1] + w * w
        memcpy(new.members + at, old.members + before, (now - 1) * sizeof(int))
        new.members[at + now - 1] = c
        new.pay[at + now - 1] = new.far[at + now - 1] = 0.0
        for j in range(now - 1):
            d = new.members[at + j]
            new.pay[at + now - 1] += q.weight[d] * spb[d]
            new.far[at + now - 1] = max(new.far[at + now - 1], lat[d])
            new.pay[at + j], new.far[at + j] = old.pay[before + j] + w * spb[d], max(old.far[before + j], lat[d])


cdef bint _allocate(Beam *s, int width) noexcept nogil:
    cdef size_t m = s.q.m, k = s.q.k, w = width
    cdef int c
    s.width, s.states, s.table = width, 0, 1
    while s.table < 2 * SPARE * width:
        s.table *= 2
    s.keys = <uint64_t *> calloc(w + s.table, sizeof(uint64_t))
    s.members = <int *> calloc(w * k, sizeof(int))
    s.sums = <double *> calloc(w * (4 + 2 * k) + 8 * m, sizeof(double))
    s.children = <Child *> calloc(ROOM * SPARE * w + m, sizeof(Child))
    s.sorted = <Child *> calloc(ROOM * SPARE * w + m, sizeof(Child))
    s.taken = <int *> calloc(m, sizeof(int))
    if s.keys == NULL or s.members == NULL or s.sums == NULL or s.children == NULL or s.sorted == NULL or s.taken == NULL:
        return False
    s.seen, s.hop, s.pay, s.far = s.keys + w, s.sums + 2 * w, s.sums + 4 * w, s.sums + (4 + k) * w
    s.scale = s.sums + (4 + 2 * k) * w
    s.rate, s.ring, s.slow, s.slowest = s.scale + m, s.scale + 2 * m, s.scale + 3 * m, s.scale + 4 * m
    s.worst, s.own_pay, s.own_far = s.slowest + m, s.slowest + 2 * m, s.slowest + 3 * m
    for c in range(s.q.m):
        s.slow[c] = s.q.weight[c] / s.q.speed[c]
    return True


cdef void _free(Beam *s) noexcept nogil:
    release(s.keys)
    release(s.members)
    release(s.sums)
    release(s.children)
    release(s.sorted)
    release(s.taken)


def beam(Kernel kernel, int[:, ::1] orders):
    """How many rows of `orders` (width, k) were filled with different sets of candidates, each as a ring, most promising first.

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
    a.children = b.children = NULL
    a.sorted = b.sorted = NULL
    a.taken = b.taken = NULL
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
