# distutils: include_dirs = operator/hyperscale/training/worker operator/hyperscale/training/modelgraph
# distutils: depends = operator/hyperscale/training/molecules/molecules_kernels.h operator/hyperscale/training/molecules/molecules_sums.h operator/hyperscale/training/modelgraph/draws.h
"""The passes of `molecules_kernels.h` and `molecules_sums.h` on flat arrays; `molecules_ops.py` checks shapes before it calls and has torch's twin of each."""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc

from hyperscale.training.modelgraph._addresses cimport doubles, floats, ints, longs

cdef extern from "molecules_kernels.h" nogil:
    void hm_gather(int64_t *indptr, int32_t *sources, int32_t *kinds, float *weights, float *x, float *table, int64_t H, int64_t D, int relu,
                   int64_t n, float *out)
    ctypedef struct hm_kinds:
        float *rows
        int64_t *found
        int64_t *last
        int64_t count

    void hm_gather_back(int64_t *offsets, int64_t graphs, int64_t *indptr, int32_t *sources, int32_t *kinds, float *weights, float *x,
                        float *table, float *grad, int64_t H, int64_t D, int relu, hm_kinds *own, float *x_grad, double *table_grad,
                        float *weights_grad)
    void hm_scores(float *table, float *left, int64_t kinds, int64_t H, int64_t D, float *of_kind)
    void hm_attend(int64_t *indptr, int32_t *sources, int32_t *kinds, float *ends, float *of_kind, int64_t H, float slope, int64_t n,
                   float *parts)
    void hm_attend_back(int64_t *offsets, int64_t graphs, int64_t *indptr, int32_t *sources, int32_t *kinds, float *ends, float *of_kind,
                        float *parts, float *grad, float *table, float *left, int64_t H, int64_t D, float slope, hm_kinds *own,
                        float *ends_grad, double *table_grad, double *left_grad)
    void hm_linear(float *x, int64_t n, int64_t I, int64_t O, float *w, float *bias, float *out)
    void hm_weights_back(int64_t *offsets, int64_t graphs, float *x, float *grad, int64_t I, int64_t O, double *w_grad, double *bias_grad)
    void hm_lookup_back(int64_t *kind_of, int64_t n, int64_t F, float *grad, double *table_grad)
    void hm_pool(int64_t *offsets, int64_t graphs, float *x, int64_t F, float *out)
    void hm_sums(int64_t *offsets, int64_t graphs, float *x, int64_t F, double *part, double *sums)
    double hm_binary_loss(float *logits, float *labels, int64_t n, double weight, float *grad)
    double hm_class_loss(float *logits, int64_t *labels, int64_t n, int64_t C, double weight, float *grad)
    void hm_norm(float *x, int64_t n, int64_t F, float *scale, float *shift, int relu, int64_t *ids, uint64_t seed, uint32_t drop, float grow,
                 float *out)
    void hm_norm_inner(int64_t *offsets, int64_t graphs, float *grad, float *x, int64_t F, float *scale, float *shift, float *mean, int relu,
                       int64_t *ids, uint64_t seed, uint32_t drop, float grow, float *inner, double *part, double *sums)
    void hm_norm_outer(float *inner, float *x, int64_t n, int64_t F, float *scale, float *mean, float *first, float *second)


def gather(const int64_t[::1] indptr, const int32_t[::1] sources, const int32_t[::1] kinds, const float[::1] weights, const float[::1] x,
           const float[::1] table, int64_t heads, int64_t depth, bint relu, float[::1] out):
    """out[v] = Σ_e weights[e] act(x[sources[e]] + table[kinds[e]])."""
    with nogil:
        hm_gather(longs(indptr), ints(sources), ints(kinds), floats(weights), floats(x), floats(table), heads, depth, relu,
                  indptr.shape[0] - 1, floats(out))


cdef class Kinds:
    """Room for what one graph adds to the gradients of kinds of edges."""

    cdef hm_kinds own

    def __cinit__(self, int64_t kinds, int64_t width):
        self.own.rows = <float *> malloc((kinds * width + 1) * sizeof(float))
        self.own.found = <int64_t *> malloc((kinds + 1) * sizeof(int64_t))
        self.own.last = <int64_t *> calloc(kinds + 1, sizeof(int64_t))
        if self.own.rows == NULL or self.own.found == NULL or self.own.last == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.own.rows)
        free(self.own.found)
        free(self.own.last)


def gather_back(const int64_t[::1] offsets, const int64_t[::1] indptr, const int32_t[::1] sources, const int32_t[::1] kinds,
                const float[::1] weights, const float[::1] x, const float[::1] table, const float[::1] grad, int64_t heads, int64_t depth,
                bint relu, float[::1] x_grad, double[::1] table_grad, float[::1] weights_grad):
    """Adds to x_grad and table_grad, fills weights_grad unless it is None."""
    cdef Kinds room = Kinds(table.shape[0] // (heads * depth), heads * depth)
    with nogil:
        hm_gather_back(longs(offsets), offsets.shape[0] - 1, longs(indptr), ints(sources), ints(kinds), floats(weights), floats(x),
                       floats(table), floats(grad), heads, depth, relu, &room.own, floats(x_grad), doubles(table_grad),
                       floats(weights_grad))


def scores(const float[::1] table, const float[::1] left, int64_t heads, int64_t depth, float[::1] out):
    """out[k, h] = the product of a head's part of row k with its part of `left`."""
    hm_scores(floats(table), floats(left), table.shape[0] // (heads * depth), heads, depth, floats(out))


def attend(const int64_t[::1] indptr, const int32_t[::1] sources, const int32_t[::1] kinds, const float[::1] ends, const float[::1] of_kind,
           int64_t heads, float slope, float[::1] parts):
    """Softmax over the edges of each row and head of LeakyReLU of the sum of what source, kind and destination give."""
    with nogil:
        hm_attend(longs(indptr), ints(sources), ints(kinds), floats(ends), floats(of_kind), heads, slope, indptr.shape[0] - 1,
                  floats(parts))


def attend_back(const int64_t[::1] offsets, const int64_t[::1] indptr, const int32_t[::1] sources, const int32_t[::1] kinds,
                const float[::1] ends, const float[::1] of_kind, const float[::1] parts, const float[::1] grad, const float[::1] table,
                const float[::1] left, int64_t heads, int64_t depth, float slope, float[::1] ends_grad, double[::1] table_grad,
                double[::1] left_grad):
    """Adds to the last three."""
    cdef Kinds room = Kinds(of_kind.shape[0] // heads, heads)
    with nogil:
        hm_attend_back(longs(offsets), offsets.shape[0] - 1, longs(indptr), ints(sources), ints(kinds), floats(ends), floats(of_kind),
                       floats(parts), floats(grad), floats(table), floats(left), heads, depth, slope, &room.own, floats(ends_grad),
                       doubles(table_grad), doubles(left_grad))


def linear(const float[::1] x, const float[::1] weights, const float[::1] bias, int64_t inputs, int64_t outputs, float[::1] out):
    """out = x (n, inputs) times weights (inputs, outputs) + bias (outputs), which may be None."""
    with nogil:
        hm_linear(floats(x), out.shape[0] // outputs, inputs, outputs, floats(weights), floats(bias), floats(out))


def weights_back(const int64_t[::1] offsets, const float[::1] x, const float[::1] grad, int64_t inputs, int64_t outputs,
                 double[::1] weights_grad, double[::1] bias_grad):
    """Adds to weights_grad (inputs, outputs) and, unless it is None, to bias_grad (outputs)."""
    with nogil:
        hm_weights_back(longs(offsets), offsets.shape[0] - 1, floats(x), floats(grad), inputs, outputs, doubles(weights_grad),
                        doubles(bias_grad))


def lookup_back(const int64_t[::1] kind_of, const float[::1] grad, int64_t width, double[::1] table_grad):
    """table_grad[kind_of[v]] += grad[v]."""
    with nogil:
        hm_lookup_back(longs(kind_of), kind_of.shape[0], width, floats(grad), doubles(table_grad))


def pool(const int64_t[::1] offsets, const float[::1] x, int64_t width, float[::1] out):
    """out[g] = sum of a graph's rows."""
    with nogil:
        hm_pool(longs(offsets), offsets.shape[0] - 1, floats(x), width, floats(out))


def binary_loss(const float[::1] logits, const float[::1] labels, double weight, float[::1] grad):
    """Sum of binary cross-entropies; fills grad with its gradient over weight."""
    return hm_binary_loss(floats(logits), floats(labels), logits.shape[0], weight, floats(grad))


def class_loss(const float[::1] logits, const int64_t[::1] labels, int64_t classes, double weight, float[::1] grad):
    """Sum of cross-entropies of rows of logits; fills grad with its gradient over weight."""
    return hm_class_loss(floats(logits), longs(labels), labels.shape[0], classes, weight, floats(grad))


def sums(const int64_t[::1] offsets, const float[::1] x, int64_t width, double[::1] out):
    """Adds Σ x and Σ x² of each column to out (2, width)."""
    cdef double *part = <double *> malloc((2 * width + 1) * sizeof(double))
    if part == NULL:
        raise MemoryError
    with nogil:
        hm_sums(longs(offsets), offsets.shape[0] - 1, floats(x), width, part, doubles(out))
    free(part)


def norm(const float[::1] x, int64_t width, const float[::1] scale, const float[::1] shift, bint relu, const int64_t[::1] ids, uint64_t seed,
         uint32_t drop, float grow, float[::1] out):
    """out = dropout(act(x scale + shift)), a row's draws by its id."""
    with nogil:
        hm_norm(floats(x), x.shape[0] // width, width, floats(scale), floats(shift), relu, longs(ids), seed, drop, grow, floats(out))


def norm_inner(const int64_t[::1] offsets, const float[::1] grad, const float[::1] x, int64_t width, const float[::1] scale,
               const float[::1] shift, const float[::1] mean, bint relu, const int64_t[::1] ids, uint64_t seed, uint32_t drop, float grow,
               float[::1] inner, double[::1] out):
    """inner = gradient of x scale + shift; adds its column sums, and those of inner (x - mean), to out (2, width)."""
    cdef double *part = <double *> malloc((2 * width + 1) * sizeof(double))
    if part == NULL:
        raise MemoryError
    with nogil:
        hm_norm_inner(longs(offsets), offsets.shape[0] - 1, floats(grad), floats(x), width, floats(scale), floats(shift), floats(mean),
                      relu, longs(ids), seed, drop, grow, floats(inner), part, doubles(out))
    free(part)


def norm_outer(float[::1] inner, const float[::1] x, int64_t width, const float[::1] scale, const float[::1] mean, const float[::1] first,
               const float[::1] second):
    """inner becomes scale (inner - first - (x - mean) second)."""
    with nogil:
        hm_norm_outer(floats(inner), floats(x), x.shape[0] // width, width, floats(scale), floats(mean), floats(first), floats(second))
