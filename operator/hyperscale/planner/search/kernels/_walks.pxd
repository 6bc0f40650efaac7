"""What the compiled walks by pairs and by segments share: random numbers, parts of the objective, and what they check before they begin."""

from libc.stdint cimport uint64_t

from hyperscale.planner.search.kernels._kernel cimport Instance, Kernel


cdef inline uint64_t draw(uint64_t *random) noexcept nogil:
    """splitmix64 (Steele, Lea and Flood 2014)."""
    cdef uint64_t z
    random[0] += <uint64_t> 0x9E3779B97F4A7C15
    z = random[0]
    z = (z ^ (z >> 30)) * <uint64_t> 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * <uint64_t> 0x94D049BB133111EB
    return z ^ (z >> 31)


cdef inline int below(uint64_t *random, int count) noexcept nogil:
    return <int> (((draw(random) >> 32) * <uint64_t> count) >> 32)


cdef inline double unit(uint64_t *random) noexcept nogil:
    """Above 0, at most 1."""
    return ((draw(random) >> 11) + 1) * (1.0 / 9007199254740992.0)


cdef inline double ring_seconds(const Instance *q, double lat, double spb) noexcept nogil:
    """Seconds of the objective that a ring takes with these slowest hops."""
    return (1.0 + q.communication_weight) * (q.ring_latency_factor * lat + q.ring_byte_factor * spb)


cdef inline double halo_scale(const Instance *q, double total, double squares) noexcept nogil:
    """Boundary bytes of a pair by the product of its weights, of which these are the sum and the sum of squares."""
    return q.halo_bytes / max(total * total - squares * q.part, 1e-12 * total * total)


cdef inline int free_ranks(Kernel kernel, int[::1] order, const unsigned char[::1] fixed, int[::1] best_order) except -1:
    """How many ranks of `order` (k,) may change. Raises ValueError where a size or a candidate is wrong."""
    cdef int r, free = 0
    if len(order) != kernel.q.k or len(best_order) != kernel.q.k or len(fixed) != kernel.q.k:
        raise ValueError("the order has another length than the job has workers")
    for r in range(kernel.q.k):
        if not 0 <= order[r] < kernel.q.m:
            raise ValueError("a rank is on no candidate")
        free += fixed[r] == 0
    return free
