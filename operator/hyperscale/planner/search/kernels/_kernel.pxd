"""The objective of one job with k workers among m candidates, for other compiled modules; see `_kernel.pyx`."""

cdef double BLOCKED_SECONDS
cdef double LEAST_ROUNDS
cdef double CANNOT_WORK


cdef struct Instance:
    # One job with one worker count. Matrices are symmetric, row by row; whoever fills this keeps the arrays alive.
    int m                        # candidates
    int k                        # workers
    bint equal                   # all parts are equal: weight is 1 everywhere
    bint inner                   # a worker has several ranks, which talk inside its node
    double part                  # of a worker's share that one of its ranks holds: 1 / GPUs of a worker
    const double *speed          # (m,) operations a second of a worker
    const double *weight         # (m,) what a worker's share is in proportion to: its speed, or 1 where all parts are equal
    const double *lat            # (m, m) seconds; BLOCKED_SECONDS where two nodes cannot talk; diagonal: between two GPUs of a node
    const double *spb            # (m, m) seconds per byte between two nodes, which all ranks there share; 0 on the diagonal
    const double *inside         # (m,) seconds per byte between two GPUs of a node
    const int *slots             # (m,) workers that a candidate can take; NULL: one each
    double rounds                # exchanges of boundary data an epoch; LEAST_ROUNDS instead of 0 where any pair is blocked
    double halo_bytes            # boundary data of an epoch, all ranks together
    double ring_latency_factor   # seconds of the slowest hop's latency -> seconds of allreduce an epoch, were all hops of a ring alike:
    double ring_byte_factor      # what first members are ranked by; and of its seconds per byte
    int fours                    # of algorithms of an allreduce, of which the fastest counts; 0 where there is but one
    int stride                   # numbers of a row of the two tables; 0 where all rows are the same
    const double *collectives    # (classes, k + 1, fours, 5, 4) by class and number of nodes: latency between, inside, bytes between, inside, base
    const double *floors         # the same of that many nodes or more, at least
    int classes                  # of nodes, by how their switches add up data; the least class of a set's nodes is the set's
    const int *sharp             # (m,) class of each; NULL where there is one class
    bint railed                  # one worker alone does not fill the cards of some node
    const double *filling        # (m,) workers of a node that fill its cards
    double *slow                 # (m,) how many times slower than full its cards are at least; exact for a set while its rings are sought
    const double *least_slow     # (m,) what `slow` is otherwise
    int levels                   # with limited uplinks; 0 for none
    int domains                  # of a level, at most
    const int *domain            # (levels, m) of each candidate, -1 for none
    const double *uplink         # (levels, domains) seconds per byte of what leaves a domain
    double *mass                 # (levels, domains) zero between two calls
    double epoch_flops
    double overhead_seconds      # of an epoch
    double communication_weight  # lambda
    int *times                   # (m,) zero between two calls: how often a node occurs
    int *held                    # (m,) zero between two calls: workers of a ring on each node


cdef struct Workspace:
    # Scratch memory for one thread, for any instance with at most m candidates and k workers.
    int m
    int k
    int u                        # usable candidates
    bint single                  # none of them may take two workers in this search
    int *usable                  # (m,) their numbers, rising
    int *room                    # (m,) workers that each may take in this search
    int *used                    # (m,) workers that it has
    int *rank                    # (m,) seeds, best first
    int *here                    # (m,) members of a placement on each
    double *psum                 # (m,)
    double *lmax                 # (m,)
    double *hlat                 # (m,)
    double *hspb                 # (m,)
    double *score                # (m,)
    int nodes                    # different nodes of the set whose rings are sought
    int sharp                    # its class
    const double *row            # of the collectives for that many
    double inside_lat            # the largest latency inside a node of it that has several ranks
    double inside_spb            # and seconds per byte
    double *P                    # (k,) seconds per byte to the others, weighted
    double *L                    # (k,) largest latency to the others
    double *L2                   # (k,) the next largest
    int *A                       # (k,) whose latency is the largest
    double *hl                   # (k,) latency of hop r -> r + 1
    double *hb                   # (k,) seconds per byte of it
    int *tour                    # (k,)
    int *spare                   # (k,)
    int *trial                   # (k,)
    int *found                   # (k,)


cdef Workspace *workspace_new(int m, int k) noexcept nogil
cdef void workspace_free(Workspace *ws) noexcept nogil
cdef void workspace_room(Workspace *ws, const Instance *q, const unsigned char *free) noexcept nogil

cdef inline int least_class(const Instance *q, int sharp, int c) noexcept nogil:
    """Class of a set of that class with node c."""
    return sharp if q.sharp == NULL else min(sharp, q.sharp[c])


cdef inline const double *class_row(const Instance *q, const double *table, int sharp, int nodes) noexcept nogil:
    """Row of the collectives, or of the floors, for a set of that class on that many nodes."""
    return table + (<size_t> sharp * (q.k + 1) + nodes) * q.stride


cdef inline double hop_spb(const Instance *q, int a, int b) noexcept nogil:
    """Seconds per byte of a hop of the ring that has its nodes' cards for itself."""
    if a == b:
        return q.inside[a]
    if q.railed:
        return q.spb[<size_t> a * q.m + b] * max(q.slow[a], q.slow[b])
    return q.spb[<size_t> a * q.m + b]


cdef inline double hop_bytes(const Instance *q, int a, int b) noexcept nogil:
    """The same of a hop between two nodes; what is inside a node counts apart."""
    return 0.0 if a == b else hop_spb(q, a, b)


cdef inline double hop_lat(const Instance *q, int a, int b) noexcept nogil:
    """Latency of a hop between two nodes; what is inside a node counts apart."""
    return 0.0 if a == b else q.lat[<size_t> a * q.m + b]


cdef inline double cards(const Instance *q, int c, double count) noexcept nogil:
    """Workers of node c as far as its cards matter: fewer than fill them are as slow as if they did."""
    return q.filling[c] if q.railed and count < q.filling[c] else count


cdef extern from *:
    """
    #ifndef FASTEST_WAY
    #define FASTEST_WAY
    #if defined(__SSE2__)
    #include <emmintrin.h>

    /* Two algorithms at once; the same bits as below. */
    static inline __m128d two_ways(const double *row, __m128d between, __m128d inside, __m128d spb, __m128d inside_spb) {
        __m128d waits = _mm_add_pd(_mm_loadu_pd(row + 16), _mm_mul_pd(_mm_loadu_pd(row), between));
        __m128d bytes = _mm_max_pd(_mm_mul_pd(_mm_loadu_pd(row + 8), spb), _mm_mul_pd(_mm_loadu_pd(row + 12), inside_spb));
        return _mm_add_pd(_mm_add_pd(waits, _mm_mul_pd(_mm_loadu_pd(row + 4), inside)), bytes);
    }

    static inline double fastest_way(const double *row, int fours, double between, double inside, double spb, double inside_spb) {
        __m128d a = _mm_set1_pd(between), b = _mm_set1_pd(inside), c = _mm_set1_pd(spb), d = _mm_set1_pd(inside_spb);
        __m128d least = _mm_min_pd(two_ways(row, a, b, c, d), two_ways(row + 2, a, b, c, d));
        while (--fours > 0) {
            row += 20;
            least = _mm_min_pd(least, _mm_min_pd(two_ways(row, a, b, c, d), two_ways(row + 2, a, b, c, d)));
        }
        return _mm_cvtsd_f64(_mm_min_sd(least, _mm_unpackhi_pd(least, least)));
    }
    #else
    static inline double fastest_way(const double *row, int fours, double between, double inside, double spb, double inside_spb) {
        double least = 1.0 / 0.0;
        for (; fours > 0; fours--, row += 20)
            for (int i = 0; i < 4; i++) {
                double over = row[8 + i] * spb, through = row[12 + i] * inside_spb;
                double seconds = row[16 + i] + row[i] * between + row[4 + i] * inside + (over > through ? over : through);
                least = seconds < least ? seconds : least;
            }
        return least;
    }
    #endif
    #endif
    """
    double fastest_way(const double *row, int fours, double between, double inside, double spb, double inside_spb) noexcept nogil


cdef inline double reduce_seconds(const Instance *q, const double *row, double between, double inside, double spb,
                                  double inside_spb) noexcept nogil:
    """Seconds of an epoch's allreduces with these slowest hops, by the fastest algorithm of a row of the tables."""
    if q.fours == 0:
        return row[4] + row[0] * between + row[1] * inside + max(row[2] * spb, row[3] * inside_spb)
    return fastest_way(row, q.fours, between, inside, spb, inside_spb)


cdef inline double node_bytes(const Instance *q, int c, double count, double pay) noexcept nogil:
    """Seconds of a rank's boundary data over the bytes of two weights of 1, with `count` workers on its node c; uplinks left out.

    pay: weighted seconds per byte from c to the workers elsewhere. What the node's ranks send there shares its cards.
    """
    return q.weight[c] * (cards(q, c, count) * pay + q.inside[c] * q.part * q.weight[c] * (count - q.part))


cdef double set_cost(const Instance *q, const int *order) noexcept nogil
cdef void set_slow(const Instance *q, const int *order, int without) noexcept nogil
cdef void forget_slow(const Instance *q, const int *order) noexcept nogil
cdef double ring_cost(const Instance *q, const int *order) noexcept nogil
cdef double objective(const Instance *q, const int *order) noexcept nogil
cdef bint repeats(const Instance *q, const int *order) noexcept nogil
cdef bint gather(const Instance *q, int *order, int *spare) noexcept nogil

cdef double ring_polish(const Instance *q, int *order, const unsigned char *fixed, Workspace *ws) noexcept nogil
cdef double ring_within(const Instance *q, int *order, const unsigned char *fixed, double room, int places, long long *work,
                        Workspace *ws) noexcept nogil
cdef double place(const Instance *q, const unsigned char *free, int seeds, int sweeps, int *out_order, Workspace *ws) noexcept nogil


cdef class Kernel:
    cdef Instance q
    cdef Workspace *ws
    cdef double *figures
    cdef object _kept
    cdef int _check(self, const int[:, ::1] orders, Py_ssize_t rows, int members) except -1
    cdef int _fits(self, Py_ssize_t length, Py_ssize_t wanted) except -1
    cdef const unsigned char *_staying(self, const unsigned char[::1] fixed) except? NULL
