# distutils: include_dirs = operator/hyperscale/worker operator/hyperscale/modelgraph
# distutils: depends = operator/hyperscale/worker/molecules_kernels.h operator/hyperscale/modelgraph/draws.h
"""The passes of `molecules_kernels.h` on flat arrays; `molecules_ops.py` checks shapes before it calls and has torch's twin of each."""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc

from hyperscale.modelgraph._addresses cimport doubles, floats, ints, longs

cdef extern from "molecules_kernels.h" nogil:
    void hm_gather(int64_t *indptr, int32_t *sources, int32_t *kinds, float *weights, float *x, float *table, int64_t H, int64_t D, int relu,
                   int64_t n, float *out)
    void hm_gather_back(int64_t *indptr, int32_t *sources, int32_t *kinds, float *weights, float *x, float *table, float *grad, int64_t H,
                        int64_t D, int relu, int64_t n, int64_t kinds_count, float *scratch, float *x_grad, double *table_grad,
                        float *weights_grad)
    void hm_attend(int64_t *indptr, int32_t *sources, int32_t *kinds, float *ends, float *of_kind, int64_t H, float slope, int64_t n,
                   float *parts)
    void hm_attend_back(int64_t *indptr, int32_t *sources, int32_t *kinds, float *ends, float *of_kind, float *parts, float *grad, int64_t H,
                        float slope, int64_t n, float *ends_grad, double *kind_grad)
    void hm_sums(float *x, int64_t n, int64_t F, double *sums)
    void hm_norm(float *x, int64_t n, int64_t F, float *scale, float *shift, int relu, int64_t *ids, uint64_t seed, uint32_t drop, float grow,
                 float *out)
    void hm_norm_inner(float *grad, float *x, int64_t n, int64_t F, float *scale, float *shift, float *mean, int relu, int64_t *ids,
                       uint64_t seed, uint32_t drop, float grow, float *inner, double *sums)
    void hm_norm_outer(float *inner, float *x, int64_t n, int64_t F, float *scale, float *mean, float *first, float *second)


def gather(const int64_t[::1] indptr, const int32_t[::1] sources, const int32_t[::1] kinds, const float[::1] weights, const float[::1] x,
           const float[::1] table, int64_t heads, int64_t depth, bint relu, float[::1] out):
    """out[v] = Σ_e weights[e] act(x[sources[e]] + table[kinds[e]])."""
    cdef int64_t *pointers = longs(indptr)
    cdef int32_t *from_rows = ints(sources)
    cdef int32_t *of_kinds = ints(kinds)
    cdef float *w = floats(weights)
    cdef float *rows = floats(x)
    cdef float *t = floats(table)
    cdef float *result = floats(out)
    cdef int64_t count = indptr.shape[0] - 1
    with nogil:
        hm_gather(pointers, from_rows, of_kinds, w, rows, t, heads, depth, relu, count, result)


def gather_back(const int64_t[::1] indptr, const int32_t[::1] sources, const int32_t[::1] kinds, const float[::1] weights, const float[::1] x,
                const float[::1] table, const float[::1] grad, int64_t heads, int64_t depth, bint relu, float[::1] x_grad,
                double[::1] table_grad, float[::1] weights_grad):
    """Adds to x_grad and table_grad, fills weights_grad unless it is None."""
    cdef float *scratch = <float *> malloc((table.shape[0] + 1) * sizeof(float))
    if scratch == NULL:
        raise MemoryError
    cdef int64_t *pointers = longs(indptr)
    cdef int32_t *from_rows = ints(sources)
    cdef int32_t *of_kinds = ints(kinds)
    cdef float *w = floats(weights)
    cdef float *rows = floats(x)
    cdef float *t = floats(table)
    cdef float *g = floats(grad)
    cdef float *xg = floats(x_grad)
    cdef double *tg = doubles(table_grad)
    cdef float *wg = floats(weights_grad)
    cdef int64_t count = indptr.shape[0] - 1
    cdef int64_t table_rows = table.shape[0] // (heads * depth)
    with nogil:
        hm_gather_back(pointers, from_rows, of_kinds, w, rows, t, g, heads, depth, relu, count, table_rows, scratch, xg, tg, wg)
    free(scratch)


def attend(const int64_t[::1] indptr, const int32_t[::1] sources, const int32_t[::1] kinds, const float[::1] ends, const float[::1] of_kind,
           int64_t heads, float slope, float[::1] parts):
    """Softmax over the edges of each row and head of LeakyReLU of the sum of what source, kind and destination give."""
    cdef int64_t *pointers = longs(indptr)
    cdef int32_t *from_rows = ints(sources)
    cdef int32_t *of_kinds = ints(kinds)
    cdef float *e = floats(ends)
    cdef float *k = floats(of_kind)
    cdef float *result = floats(parts)
    cdef int64_t count = indptr.shape[0] - 1
    with nogil:
        hm_attend(pointers, from_rows, of_kinds, e, k, heads, slope, count, result)


def attend_back(const int64_t[::1] indptr, const int32_t[::1] sources, const int32_t[::1] kinds, const float[::1] ends,
                const float[::1] of_kind, const float[::1] parts, const float[::1] grad, int64_t heads, float slope, float[::1] ends_grad,
                double[::1] kind_grad):
    """Adds to the last two."""
    cdef int64_t *pointers = longs(indptr)
    cdef int32_t *from_rows = ints(sources)
    cdef int32_t *of_kinds = ints(kinds)
    cdef float *e = floats(ends)
    cdef float *k = floats(of_kind)
    cdef float *p = floats(parts)
    cdef float *g = floats(grad)
    cdef float *eg = floats(ends_grad)
    cdef double *kg = doubles(kind_grad)
    cdef int64_t count = indptr.shape[0] - 1
    with nogil:
        hm_attend_back(pointers, from_rows, of_kinds, e, k, p, g, heads, slope, count, eg, kg)


def sums(const float[::1] x, int64_t width, double[::1] out):
    """Adds Σ x and Σ x² of each column to out (2, width)."""
    cdef float *rows = floats(x)
    cdef double *result = doubles(out)
    cdef int64_t count = x.shape[0] // width
    with nogil:
        hm_sums(rows, count, width, result)


def norm(const float[::1] x, int64_t width, const float[::1] scale, const float[::1] shift, bint relu, const int64_t[::1] ids, uint64_t seed,
         uint32_t drop, float grow, float[::1] out):
    """out = dropout(act(x scale + shift)), a row's draws by its id."""
    cdef float *rows = floats(x)
    cdef float *s = floats(scale)
    cdef float *t = floats(shift)
    cdef int64_t *names = longs(ids)
    cdef float *result = floats(out)
    cdef int64_t count = x.shape[0] // width
    with nogil:
        hm_norm(rows, count, width, s, t, relu, names, seed, drop, grow, result)


def norm_inner(const float[::1] grad, const float[::1] x, int64_t width, const float[::1] scale, const float[::1] shift,
               const float[::1] mean, bint relu, const int64_t[::1] ids, uint64_t seed, uint32_t drop, float grow, float[::1] inner,
               double[::1] out):
    """inner = gradient of x scale + shift; adds its column sums, and those of inner (x - mean), to out (2, width)."""
    cdef float *g = floats(grad)
    cdef float *rows = floats(x)
    cdef float *s = floats(scale)
    cdef float *t = floats(shift)
    cdef float *m = floats(mean)
    cdef int64_t *names = longs(ids)
    cdef float *i = floats(inner)
    cdef double *result = doubles(out)
    cdef int64_t count = x.shape[0] // width
    with nogil:
        hm_norm_inner(g, rows, count, width, s, t, m, relu, names, seed, drop, grow, i, result)


def norm_outer(float[::1] inner, const float[::1] x, int64_t width, const float[::1] scale, const float[::1] mean, const float[::1] first,
               const float[::1] second):
    """inner becomes scale (inner - first - (x - mean) second)."""
    cdef float *i = floats(inner)
    cdef float *rows = floats(x)
    cdef float *s = floats(scale)
    cdef float *m = floats(mean)
    cdef float *a = floats(first)
    cdef float *b = floats(second)
    cdef int64_t count = x.shape[0] // width
    with nogil:
        hm_norm_outer(i, rows, count, width, s, m, a, b)
