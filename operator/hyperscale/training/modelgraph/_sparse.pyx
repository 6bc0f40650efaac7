# distutils: include_dirs = operator/hyperscale/training/modelgraph
# distutils: depends = operator/hyperscale/training/modelgraph/sparse_kernels.h operator/hyperscale/training/modelgraph/draws.h
"""The row kernels of `sparse_kernels.h` on numpy arrays; `kernels.py` checks shapes before it calls and has the numpy twin.

Every function works on the rows [first, last) and releases the interpreter's lock, so that threads share a matrix. None is NULL.
`tail` is (activation, drop, grow) of the end of a row; `drop` counts in 2^-32.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc

from hyperscale.training.modelgraph._addresses cimport doubles, floats, ints, longs

cdef extern from "sparse_kernels.h" nogil:
    void hs_drop(float *x, int64_t *ids, int64_t F, uint64_t seed, uint32_t drop, float grow, int64_t first, int64_t last, float *out)
    void hs_drop_some(float *x, uint32_t *at, int64_t count, uint64_t seed, uint32_t drop, float grow, float *out)
    void hs_finish_back(float *grad, float *out, float *sums, int64_t *ids, int64_t H, int64_t D, int activation, uint64_t seed, uint32_t drop,
                        float grow, int64_t first, int64_t last, float *inner, float *bias_grad, float *dots)
    void hs_aggregate(int64_t *indptr, int32_t *indices, int64_t *ids, float *weights, float *x, float *add, float *bias, int activation,
                      uint64_t seed, uint32_t drop, float grow, int64_t F, int64_t first, int64_t last, int64_t edges, float *out)
    void hs_scores(float *x, float *a, float *b, int64_t H, int64_t D, int64_t first, int64_t last, float *left, float *right)
    void hs_scores_back(float *x, float *a, float *b, float *left_grad, float *right_grad, int64_t H, int64_t D, int64_t first, int64_t last,
                        float *x_grad, float *a_grad, float *b_grad)
    void hs_attend(int64_t *indptr, int32_t *indices, int64_t *ids, int64_t *offsets, float *left, float *right, float *x, int64_t H, int64_t D,
                   float slope, uint64_t seed, uint32_t edge_drop, float edge_grow, float *bias, int activation, uint64_t tail_seed, uint32_t drop, float grow,
                   int64_t first, int64_t last, int64_t edges, float *scratch, float *highest, float *total, float *sums, float *out)
    void hs_attend_back(int64_t *indptr, int32_t *indices, int64_t *origins, float *left, float *rows, float *x, float *grad, int64_t H,
                        int64_t D, float slope, uint64_t seed, uint32_t edge_drop, float edge_grow, int64_t first, int64_t last,
                        int64_t edges, float *scratch, float *x_grad, float *left_grad, double *right_grad)


def drop(const float[::1] x, const int64_t[::1] ids, int64_t width, uint64_t seed, uint32_t least, float grow, int64_t first, int64_t last,
         float[::1] out):
    """Dropout of rows of `width` floats."""
    cdef float *source = floats(x)
    cdef int64_t *numbers = longs(ids)
    cdef float *target = floats(out)
    with nogil:
        hs_drop(source, numbers, width, seed, least, grow, first, last, target)


def drop_some(const float[::1] x, const uint32_t[::1] at, uint64_t seed, uint32_t least, float grow, float[::1] out):
    """Dropout of some floats of one long row, those with the numbers `at`."""
    cdef int64_t count = x.shape[0]
    if count == 0:
        return
    with nogil:
        hs_drop_some(<float *> &x[0], <uint32_t *> &at[0], count, seed, least, grow, &out[0])


def finish_back(const float[::1] grad, const float[::1] out, const float[::1] sums, const int64_t[::1] ids, int64_t heads, int64_t depth, int activation,
                uint64_t seed, uint32_t least, float grow, int64_t first, int64_t last, float[::1] inner, float[::1] bias_grad,
                float[::1] dots):
    """Gradient of a row's sums from that of what was made of them."""
    cdef float *g = floats(grad)
    cdef float *o = floats(out)
    cdef float *s = floats(sums)
    cdef int64_t *numbers = longs(ids)
    cdef float *i = floats(inner)
    cdef float *b = floats(bias_grad)
    cdef float *d = floats(dots)
    with nogil:
        hs_finish_back(g, o, s, numbers, heads, depth, activation, seed, least, grow, first, last, i, b, d)


def aggregate(const int64_t[::1] indptr, const int32_t[::1] indices, const int64_t[::1] ids, const float[::1] weights, const float[::1] x,
              const float[::1] add, const float[::1] bias, int activation, uint64_t seed, uint32_t least, float grow, int64_t width, int64_t first, int64_t last,
              float[::1] out):
    """out[v] = drop(activation(Σ_e weights[e] x[indices[e]] + add[v] + bias))."""
    cdef int64_t *pointers = longs(indptr)
    cdef int32_t *columns = ints(indices)
    cdef int64_t *numbers = longs(ids)
    cdef float *w = floats(weights)
    cdef float *rows = floats(x)
    cdef float *more = floats(add)
    cdef float *b = floats(bias)
    cdef float *result = floats(out)
    cdef int64_t edges = indices.shape[0]
    with nogil:
        hs_aggregate(pointers, columns, numbers, w, rows, more, b, activation, seed, least, grow, width, first, last, edges, result)


def scores(const float[::1] x, const float[::1] a, const float[::1] b, int64_t heads, int64_t depth, int64_t first, int64_t last,
           float[::1] left, float[::1] right):
    """left[u,h] = <x[u,h], a[h]>, right[u,h] = <x[u,h], b[h]>."""
    cdef float *rows = floats(x)
    cdef float *av = floats(a)
    cdef float *bv = floats(b)
    cdef float *l = floats(left)
    cdef float *r = floats(right)
    with nogil:
        hs_scores(rows, av, bv, heads, depth, first, last, l, r)


def scores_back(const float[::1] x, const float[::1] a, const float[::1] b, const float[::1] left_grad, const float[::1] right_grad,
                int64_t heads, int64_t depth, int64_t first, int64_t last, float[::1] x_grad, float[::1] a_grad, float[::1] b_grad):
    """Adds the gradients of `scores` to the last three."""
    cdef float *rows = floats(x)
    cdef float *av = floats(a)
    cdef float *bv = floats(b)
    cdef float *l = floats(left_grad)
    cdef float *r = floats(right_grad)
    cdef float *xg = floats(x_grad)
    cdef float *ag = floats(a_grad)
    cdef float *bg = floats(b_grad)
    with nogil:
        hs_scores_back(rows, av, bv, l, r, heads, depth, first, last, xg, ag, bg)


def attend(const int64_t[::1] indptr, const int32_t[::1] indices, const int64_t[::1] ids, const int64_t[::1] offsets,
           const float[::1] left, const float[::1] right, const float[::1] x, int64_t heads, int64_t depth, float slope, uint64_t seed, uint32_t edge_least, float edge_grow, const float[::1] bias,
           int activation, uint64_t tail_seed, uint32_t least, float grow, int64_t largest_degree, int64_t first, int64_t last, float[::1] highest,
           float[::1] total, float[::1] sums, float[::1] out):
    """Softmax attention of the rows; fills the last four."""
    cdef float *scratch = <float *> malloc(heads * (largest_degree + 32) * sizeof(float))
    if scratch == NULL:
        raise MemoryError
    cdef int64_t *pointers = longs(indptr)
    cdef int32_t *columns = ints(indices)
    cdef float *l = floats(left)
    cdef float *r = floats(right)
    cdef float *rows = floats(x)
    cdef float *b = floats(bias)
    cdef int64_t *numbers = longs(ids)
    cdef int64_t *more = longs(offsets)
    cdef float *high = floats(highest)
    cdef float *all_of = floats(total)
    cdef float *s = floats(sums)
    cdef float *o = floats(out)
    cdef int64_t edges = indices.shape[0]
    with nogil:
        hs_attend(pointers, columns, numbers, more, l, r, rows, heads, depth, slope, seed, edge_least, edge_grow, b, activation, tail_seed, least, grow, first, last,
                  edges, scratch, high, all_of, s, o)
    free(scratch)


def attend_back(const int64_t[::1] indptr, const int32_t[::1] indices, const int64_t[::1] origins, const float[::1] left,
                const float[::1] by_row, const float[::1] x, const float[::1] grad, int64_t heads, int64_t depth, float slope, uint64_t seed, uint32_t edge_least, float edge_grow,
                int64_t largest_degree, int64_t first, int64_t last, float[::1] x_grad, float[::1] left_grad, double[::1] right_grad):
    """Gradients over the out-edges of the sources [first, last), by_row (n, H, 4) as in the header; adds to right_grad, of which each thread has its own."""
    cdef float *scratch = <float *> malloc(2 * (largest_degree + 32) * sizeof(float))
    if scratch == NULL:
        raise MemoryError
    cdef int64_t *pointers = longs(indptr)
    cdef int32_t *columns = ints(indices)
    cdef int64_t *numbers = longs(origins)
    cdef float *l = floats(left)
    cdef float *figures = floats(by_row)
    cdef float *rows = floats(x)
    cdef float *g = floats(grad)
    cdef float *xg = floats(x_grad)
    cdef float *lg = floats(left_grad)
    cdef double *rg = doubles(right_grad)
    cdef int64_t edges = indices.shape[0]
    with nogil:
        hs_attend_back(pointers, columns, numbers, l, figures, rows, g, heads, depth, slope, seed, edge_least, edge_grow, first,
                       last, edges, scratch, xg, lg, rg)
    free(scratch)
