"""What the compiled searches share: a graph with its parts, and what they weigh. Inline: C sees through it in every module.

Notation: n vertices, k parts, c columns of weight; rows of `indptr`/`indices` hold every edge in both directions.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport calloc, free

cdef enum:
    NONE = -1


cdef struct Parts:
    int64_t n
    int k
    int columns
    const int64_t *indptr
    const int32_t *indices
    const int32_t *edge_weights   # NULL: 1 each
    const int64_t *weights        # (n, c)
    const int64_t *limits         # (k, c)
    int32_t *part
    int64_t *load                 # (k, c)
    int64_t *members              # (k,) vertices of each part: none may become empty
    uint64_t random


cdef inline bint _borrow(Parts *g, const int64_t[::1] indptr, const int32_t[::1] indices, const int32_t[::1] edge_weights,
                         const int64_t[:, ::1] weights, const int64_t[:, ::1] limits, int32_t[::1] part, uint64_t seed) noexcept:
    """Borrow the arrays of one vertex or more, weigh the parts; False where there is no memory. `_give_back` ends it."""
    cdef int64_t v
    cdef int j
    g.n = indptr.shape[0] - 1
    g.k = <int> limits.shape[0]
    g.columns = <int> weights.shape[1]
    g.indptr = &indptr[0]
    g.indices = &indices[0] if indices.shape[0] else NULL
    g.edge_weights = &edge_weights[0] if edge_weights.shape[0] else NULL
    g.weights = &weights[0, 0]
    g.limits = &limits[0, 0]
    g.part = &part[0]
    g.random = seed
    g.load = <int64_t *> calloc(g.k * g.columns, sizeof(int64_t))
    g.members = <int64_t *> calloc(g.k, sizeof(int64_t))
    if g.load == NULL or g.members == NULL:
        _give_back(g)
        return False
    for v in range(g.n):
        g.members[g.part[v]] += 1
        for j in range(g.columns):
            g.load[g.part[v] * g.columns + j] += g.weights[v * g.columns + j]
    return True


cdef inline void _give_back(Parts *g) noexcept:
    free(g.load); free(g.members)


cdef inline bint _fits(Parts *g, int32_t v, int to) noexcept nogil:
    """Whether a part has room for a vertex in every column that the vertex weighs in."""
    cdef int j
    cdef int64_t weight
    for j in range(g.columns):
        weight = g.weights[<int64_t> v * g.columns + j]
        if weight > 0 and weight + g.load[to * g.columns + j] > g.limits[to * g.columns + j]:
            return False
    return True


cdef inline void _carry(Parts *g, int32_t v, int to) noexcept nogil:
    """A vertex into another part: loads and members follow."""
    cdef int own = g.part[v], j
    g.part[v] = to
    g.members[own] -= 1
    g.members[to] += 1
    for j in range(g.columns):
        g.load[own * g.columns + j] -= g.weights[<int64_t> v * g.columns + j]
        g.load[to * g.columns + j] += g.weights[<int64_t> v * g.columns + j]
