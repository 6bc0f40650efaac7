/* Sums over the rows of a batch that come out the same to the bit however its graphs are dealt to processes, and the products that need them.
 *
 * What is added up within a graph is added in the order of its rows. What is added up over graphs is first rounded to a multiple of a power of
 * two, coarse enough that a double holds every sum of such numbers exactly: additions without rounding have no order (Demmel and Nguyen, ARITH
 * 2013, with one bin). Beyond the range that is said below figures are as good as any sum's, but the order shows. Names: v row, g graph, I and O
 * columns of what goes in and out.
 */
#ifndef HYPERSCALE_MOLECULES_SUMS_H
#define HYPERSCALE_MOLECULES_SUMS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "draws.h"

#define HM_ROWS 8
#define HM_TOGETHER 64
#define HM_GRADIENT_GRID 384.0 /* 1.5 * 2^52 * 2^-44: multiples of 2^-44, exact while graphs' parts are below 2^7 and sums below 2^9 */
#define HM_STATISTIC_GRID 6291456.0 /* 1.5 * 2^52 * 2^-30: parts below 2^21, sums below 2^23 */

/* The multiple next to x, halves to even. */
HS_INLINE double hm_rounded(double x, double grid) { return (x + grid) - grid; }

/* Figures side by side that a clone for a narrower processor takes apart: compilers do not keep arrays of sums in registers. */
#define HM_TILES(NAME, LANES)                                                                                                                   \
    typedef float NAME##_lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));                                                  \
    typedef double NAME##_wide __attribute__((vector_size(8 * LANES), aligned(8), may_alias));                                                  \
    /* out[v, o] = bias[o] + Σ_i x[v, i] w[i, o] for `rows` rows and LANES columns, i ascending. */                                             \
    HS_INLINE void NAME##_tile(const float *x, int64_t rows, int64_t I, int64_t O, const float *w, const float *bias, float *out) {             \
        NAME##_lanes sums[HM_ROWS];                                                                                                             \
        for (int64_t r = 0; r < rows; r++) sums[r] = bias ? *(const NAME##_lanes *)bias : (NAME##_lanes){0};                                    \
        for (int64_t i = 0; i < I; i++) {                                                                                                       \
            const NAME##_lanes of = *(const NAME##_lanes *)(w + i * O);                                                                         \
            for (int64_t r = 0; r < rows; r++) sums[r] += x[r * I + i] * of;                                                                    \
        }                                                                                                                                       \
        for (int64_t r = 0; r < rows; r++) *(NAME##_lanes *)(out + r * O) = sums[r];                                                            \
    }                                                                                                                                           \
    /* w_grad[i, o] += Σ_v x[v, i] grad[v, o] over one graph's rows, for `deep` rows of w_grad and LANES columns. */                            \
    HS_INLINE void NAME##_weights(const float *x, const float *grad, int64_t rows, int64_t I, int64_t O, int64_t deep, double *w_grad) {        \
        NAME##_lanes sums[HM_ROWS];                                                                                                             \
        for (int64_t i = 0; i < deep; i++) sums[i] = (NAME##_lanes){0};                                                                         \
        for (int64_t v = 0; v < rows; v++) {                                                                                                    \
            const NAME##_lanes of = *(const NAME##_lanes *)(grad + v * O);                                                                      \
            for (int64_t i = 0; i < deep; i++) sums[i] += x[v * I + i] * of;                                                                    \
        }                                                                                                                                       \
        for (int64_t i = 0; i < deep; i++)                                                                                                      \
            *(NAME##_wide *)(w_grad + i * O) += (__builtin_convertvector(sums[i], NAME##_wide) + HM_GRADIENT_GRID) - HM_GRADIENT_GRID;          \
    }                                                                                                                                           \
    /* All rows of `LANES` columns. A row's figures do not depend on the rows around it, as they may in a library's product. */                 \
    HS_INLINE void NAME##_linear(const float *x, int64_t n, int64_t I, int64_t O, const float *w, const float *bias, float *out) {              \
        int64_t v = 0;                                                                                                                          \
        for (; v + HM_ROWS <= n; v += HM_ROWS) NAME##_tile(x + v * I, HM_ROWS, I, O, w, bias, out + v * O);                                     \
        for (; v < n; v++) NAME##_tile(x + v * I, 1, I, O, w, bias, out + v * O);                                                               \
    }                                                                                                                                           \
    HS_INLINE void NAME##_weights_back(const float *x, const float *grad, int64_t rows, int64_t I, int64_t O, double *w_grad) {                 \
        int64_t i = 0;                                                                                                                          \
        for (; i + HM_ROWS <= I; i += HM_ROWS) NAME##_weights(x + i, grad, rows, I, O, HM_ROWS, w_grad + i * O);                                \
        for (; i < I; i++) NAME##_weights(x + i, grad, rows, I, O, 1, w_grad + i * O);                                                          \
    }

HM_TILES(hm16, 16)
HM_TILES(hm8, 8)

HS_INLINE void hm_column(const float *x, int64_t rows, int64_t I, int64_t O, const float *w, const float *bias, float *out) {
    for (int64_t r = 0; r < rows; r++) {
        float sum = bias ? *bias : 0.0f;
        for (int64_t i = 0; i < I; i++) sum += x[r * I + i] * w[i * O];
        out[r * O] = sum;
    }
}

/* out = x (n, I) w (I, O) + bias (O), which may be NULL; few rows at a time stay in the first cache. */
HS_CLONES static void hm_linear(const float *x, int64_t n, int64_t I, int64_t O, const float *w, const float *bias, float *out) {
    for (int64_t v = 0; v < n; v += HM_TOGETHER) {
        const int64_t rows = n - v < HM_TOGETHER ? n - v : HM_TOGETHER;
        const float *from = x + v * I;
        float *to = out + v * O;
        int64_t o = 0;
        for (; o + 16 <= O; o += 16) hm16_linear(from, rows, I, O, w + o, bias ? bias + o : NULL, to + o);
        for (; o + 8 <= O; o += 8) hm8_linear(from, rows, I, O, w + o, bias ? bias + o : NULL, to + o);
        for (; o < O; o++) hm_column(from, rows, I, O, w + o, bias ? bias + o : NULL, to + o);
    }
}

HS_INLINE void hm_weights_column(const float *x, const float *grad, int64_t rows, int64_t I, int64_t O, double *w_grad) {
    for (int64_t i = 0; i < I; i++) {
        float sum = 0.0f;
        for (int64_t v = 0; v < rows; v++) sum += x[v * I + i] * grad[v * O];
        w_grad[i * O] += hm_rounded(sum, HM_GRADIENT_GRID);
    }
}

/* Adds to w_grad (I, O) and, where it is not NULL, to bias_grad (O). offsets (g + 1) of the graphs' rows. */
HS_CLONES static void hm_weights_back(const int64_t *offsets, int64_t graphs, const float *x, const float *grad, int64_t I, int64_t O,
                                      double *w_grad, double *bias_grad) {
    for (int64_t g = 0; g < graphs; g++) {
        const int64_t rows = offsets[g + 1] - offsets[g];
        const float *from = x + offsets[g] * I, *to = grad + offsets[g] * O;
        int64_t o = 0;
        for (; o + 16 <= O; o += 16) hm16_weights_back(from, to + o, rows, I, O, w_grad + o);
        for (; o + 8 <= O; o += 8) hm8_weights_back(from, to + o, rows, I, O, w_grad + o);
        for (; o < O; o++) hm_weights_column(from, to + o, rows, I, O, w_grad + o);
        if (bias_grad) for (int64_t o = 0; o < O; o++) {
            double sum = 0.0;
            for (int64_t v = 0; v < rows; v++) sum += to[v * O + o];
            bias_grad[o] += hm_rounded(sum, HM_GRADIENT_GRID);
        }
    }
}

/* table_grad[kind_of[v]] += grad[v]; table_grad (kinds, F). */
HS_CLONES static void hm_lookup_back(const int64_t *kind_of, int64_t n, int64_t F, const float *grad, double *table_grad) {
    for (int64_t v = 0; v < n; v++) {
        double *restrict to = table_grad + kind_of[v] * F;
        for (int64_t f = 0; f < F; f++) to[f] += hm_rounded(grad[v * F + f], HM_GRADIENT_GRID);
    }
}

/* out[g] = Σ of a graph's rows. */
HS_CLONES static void hm_pool(const int64_t *offsets, int64_t graphs, const float *x, int64_t F, float *out) {
    memset(out, 0, graphs * F * sizeof(float));
    for (int64_t g = 0; g < graphs; g++)
        for (int64_t v = offsets[g]; v < offsets[g + 1]; v++)
            for (int64_t f = 0; f < F; f++) out[g * F + f] += x[v * F + f];
}

/* Adds Σ x and Σ x² of each column to sums (2, F). part: 2 F doubles. */
HS_CLONES static void hm_sums(const int64_t *offsets, int64_t graphs, const float *x, int64_t F, double *restrict part, double *restrict sums) {
    for (int64_t g = 0; g < graphs; g++) {
        memset(part, 0, 2 * F * sizeof(double));
        for (int64_t v = offsets[g]; v < offsets[g + 1]; v++)
            for (int64_t f = 0; f < F; f++) {
                const double t = x[v * F + f];
                part[f] += t;
                part[F + f] += t * t;
            }
        for (int64_t f = 0; f < 2 * F; f++) sums[f] += hm_rounded(part[f], HM_STATISTIC_GRID);
    }
}

/* Binary cross-entropy of logits (n) with labels (n), NaN: unknown. Returns the sum; grad (n) its gradient, divided by weight. */
static double hm_binary_loss(const float *logits, const float *labels, int64_t n, double weight, float *grad) {
    double sum = 0.0;
    for (int64_t v = 0; v < n; v++) {
        const double z = logits[v], y = labels[v], e = exp(-fabs(z)), chance = (z > 0.0 ? 1.0 : e) / (1.0 + e);
        const int known = !isnan(labels[v]);
        grad[v] = known ? (float)((chance - y) / weight) : 0.0f;
        if (known) sum += hm_rounded((z > 0.0 ? z : 0.0) - z * y + log1p(e), HM_STATISTIC_GRID);
    }
    return sum;
}

/* Cross-entropy of rows of C logits with a class each, -1: unknown. */
static double hm_class_loss(const float *logits, const int64_t *labels, int64_t n, int64_t C, double weight, float *grad) {
    double sum = 0.0;
    for (int64_t v = 0; v < n; v++) {
        const float *row = logits + v * C;
        double highest = row[0], total = 0.0;
        for (int64_t c = 1; c < C; c++) highest = row[c] > highest ? row[c] : highest;
        for (int64_t c = 0; c < C; c++) total += exp(row[c] - highest);
        for (int64_t c = 0; c < C; c++)
            grad[v * C + c] = labels[v] < 0 ? 0.0f : (float)((exp(row[c] - highest) / total - (c == labels[v])) / weight);
        if (labels[v] >= 0) sum += hm_rounded(log(total) + highest - row[labels[v]], HM_STATISTIC_GRID);
    }
    return sum;
}

#endif
