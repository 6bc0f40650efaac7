"""What the compiled walks share: a drawn rank, parts of the objective, and the checks of their arguments."""

from libc.stdint cimport uint64_t

from hyperscale.planner.search.kernels._kernel cimport Instance, Kernel, reduce_seconds
from hyperscale.util._splitmix cimport draw


cdef inline int below(uint64_t *random, int count) noexcept nogil:
    """A number in [0, count)."""
    return <int> (((draw(random) >> 32) * <uint64_t> count) >> 32)


cdef inline double ring_seconds(const Instance *q, const double *row, double between, double inside, double spb,
                                double inside_spb) noexcept nogil:
    """Seconds of the objective that a ring takes with these slowest hops, by a row of the collectives."""
    return (1.0 + q.communication_weight) * reduce_seconds(q, row, between, inside, spb, inside_spb)


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
