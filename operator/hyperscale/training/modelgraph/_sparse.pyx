# distutils: include_dirs = operator/hyperscale/training/modelgraph
# distutils: depends = operator/hyperscale/training/modelgraph/sparse_kernels.h operator/hyperscale/training/modelgraph/draws.h
"""The row kernels of `sparse_kernels.h` on numpy arrays; `kernels.py` checks shapes before it calls.

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
    with nogil:
        hs_drop(floats(x), longs(ids), width, seed, least, grow, first, last, floats(out))


def drop_some(const float[::1] x, const uint32_t[::1] at, uint64_t seed, uint32_t least, float grow, float[::1] out):
    """Dropout of some floats of one long row, those with the numbers `at`."""
    if x.shape[0] == 0:
        return
    with nogil:
        hs_drop_some(<float *> &x[0], <uint32_t *> &at[0], x.shape[0], seed, least, grow, &out[0])


def finish_back(const float[::1] grad, const float[::1] out, const float[::1] sums, const int64_t[::1] ids, int64_t heads, int64_t depth, int activation,
                uint64_t seed, uint32_t least, float grow, int64_t first, int64_t last, float[::1] inner, float[::1] bias_grad,
                float[::1] dots):
    """Gradient of a row's sums from that of what was made of them."""
    with nogil:
        hs_finish_back(floats(grad), floats(out), floats(sums), longs(ids), heads, depth, activation, seed, least, grow, first, last,
                       floats(inner), floats(bias_grad), floats(dots))


def aggregate(const int64_t[::1] indptr, const int32_t[::1] indices, const int64_t[::1] ids, const float[::1] weights, const float[::1] x,
              const float[::1] add, const float[::1] bias, int activation, uint64_t seed, uint32_t least, float grow, int64_t width, int64_t first, int64_t last,
              float[::1] out):
    """out[v] = drop(activation(Σ_e weights[e] x[indices[e]] + add[v] + bias))."""
    with nogil:
        hs_aggregate(longs(indptr), ints(indices), longs(ids), floats(weights), floats(x), floats(add), floats(bias), activation, seed,
                     least, grow, width, first, last, indices.shape[0], floats(out))


def scores(const float[::1] x, const float[::1] a, const float[::1] b, int64_t heads, int64_t depth, int64_t first, int64_t last,
           float[::1] left, float[::1] right):
    """left[u,h] = <x[u,h], a[h]>, right[u,h] = <x[u,h], b[h]>."""
    with nogil:
        hs_scores(floats(x), floats(a), floats(b), heads, depth, first, last, floats(left), floats(right))


def scores_back(const float[::1] x, const float[::1] a, const float[::1] b, const float[::1] left_grad, const float[::1] right_grad,
                int64_t heads, int64_t depth, int64_t first, int64_t last, float[::1] x_grad, float[::1] a_grad, float[::1] b_grad):
    """Adds the gradients of `scores` to the last three."""
    with nogil:
        hs_scores_back(floats(x), floats(a), floats(b), floats(left_grad), floats(right_grad), heads, depth, first, last, floats(x_grad),
                       floats(a_grad), floats(b_grad))


def attend(const int64_t[::1] indptr, const int32_t[::1] indices, const int64_t[::1] ids, const int64_t[::1] offsets,
           const float[::1] left, const float[::1] right, const float[::1] x, int64_t heads, int64_t depth, float slope, uint64_t seed, uint32_t edge_least, float edge_grow, const float[::1] bias,
           int activation, uint64_t tail_seed, uint32_t least, float grow, int64_t largest_degree, int64_t first, int64_t last, float[::1] highest,
           float[::1] total, float[::1] sums, float[::1] out):
    """Softmax attention of the rows; fills the last four."""
    cdef float *scratch = <float *> malloc(heads * (largest_degree + 32) * sizeof(float))
    if scratch == NULL:
        raise MemoryError
    with nogil:
        hs_attend(longs(indptr), ints(indices), longs(ids), longs(offsets), floats(left), floats(right), floats(x), heads, depth, slope,
                  seed, edge_least, edge_grow, floats(bias), activation, tail_seed, least, grow, first, last, indices.shape[0], scratch,
                  floats(highest), floats(total), floats(sums), floats(out))
    free(scratch)


def attend_back(const int64_t[::1] indptr, const int32_t[::1] indices, const int64_t[::1] origins, const float[::1] left,
                const float[::1] by_row, const float[::1] x, const float[::1] grad, int64_t heads, int64_t depth, float slope, uint64_t seed, uint32_t edge_least, float edge_grow,
                int64_t largest_degree, int64_t first, int64_t last, float[::1] x_grad, float[::1] left_grad, double[::1] right_grad):
    """Gradients over the out-edges of the sources [first, last), by_row (n, H, 4) as in the header; adds to right_grad, of which each thread has its own."""
    cdef float *scratch = <float *> malloc(2 * (largest_degree + 32) * sizeof(float))
    if scratch == NULL:
        raise MemoryError
    with nogil:
        hs_attend_back(longs(indptr), ints(indices), longs(origins), floats(left), floats(by_row), floats(x), floats(grad), heads, depth,
                       slope, seed, edge_least, edge_grow, first, last, indices.shape[0], scratch, floats(x_grad), floats(left_grad),
                       doubles(right_grad))
    free(scratch)
