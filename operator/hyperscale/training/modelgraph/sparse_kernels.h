/* Row kernels over a CSR graph of in-edges: weighted gathers and attention, each in one pass over the edges of a row.
 *
 * Plain C with vectors of the compiler (GCC, Clang): the same lanes in the same order on every machine, without fused multiply-add, so that
 * results have the same bytes whichever clone of a function the processor picks. Rows are independent: callers give ranges to threads.
 * Names: v row (destination), u column (source), e edge in CSR order, F floats a row, H heads.
 */
#ifndef HYPERSCALE_SPARSE_KERNELS_H
#define HYPERSCALE_SPARSE_KERNELS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "draws.h"

#pragma GCC diagnostic ignored "-Wpsabi" /* wide vectors stay inside inlined functions */

typedef float hs_v16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef float hs_v8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float hs_v4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t hs_i16 __attribute__((vector_size(64), aligned(4), may_alias));

enum { HS_NONE = 0, HS_RELU = 1, HS_ELU = 2 };

#define HS_BLOCK 1024 /* rows whose sums are added up apart, so that long sums stay exact and do not depend on threads */
#define HS_AHEAD 12 /* edges between the prefetch of a row and its use */
#define HS_RUN 512 /* edges of a row that are added up in one run; a multiple of 16 */

/* One weighted sum over the edges of a row, for the floats [at, at + B * lanes of V). Runs of HS_RUN edges are added up apart: one sum of
 * floats over the ten thousand edges of a hub loses a digit, and the gradient of attention is a difference of such sums. */
#define HS_GATHER(NAME, V, LANES)                                                                                                   \
    HS_INLINE void NAME(const int32_t *indices, const float *weights, int64_t first, int64_t last, const float *x, int64_t stride,  \
                        int64_t at, const int B, const int fetch, const int keep, float *sum) {                                     \
        int64_t run = first;                                                                                                        \
        do { /* once without edges too: sum is 0 then */                                                                            \
            const int64_t end = last - run > HS_RUN ? run + HS_RUN : last;                                                          \
            V acc[8];                                                                                                               \
            for (int b = 0; b < B; b++) acc[b] = (V){0};                                                                            \
            for (int64_t e = run; e < end; e++) {                                                                                   \
                const float *row = x + (int64_t)indices[e] * stride + at;                                                           \
                if (fetch) {                                                                                                        \
                    const float *next = x + (int64_t)indices[e + HS_AHEAD] * stride + at;                                           \
                    for (int b = 0; b < B; b++) __builtin_prefetch(next + b * LANES);                                               \
                }                                                                                                                   \
                if (weights) {                                                                                                      \
                    const float w = weights[e];                                                                                     \
                    for (int b = 0; b < B; b++) acc[b] += w * *(const V *)(row + b * LANES);                                        \
                } else {                                                                                                            \
                    for (int b = 0; b < B; b++) acc[b] += *(const V *)(row + b * LANES);                                            \
                }                                                                                                                   \
            }                                                                                                                       \
            if (keep || run > first) for (int b = 0; b < B; b++) acc[b] += *(const V *)(sum + at + b * LANES);                      \
            for (int b = 0; b < B; b++) *(V *)(sum + at + b * LANES) = acc[b];                                                      \
            run = end;                                                                                                              \
        } while (run < last);                                                                                                       \
    }
HS_GATHER(hs_gather16, hs_v16, 16)
HS_GATHER(hs_gather8, hs_v8, 8)
HS_GATHER(hs_gather4, hs_v4, 4)

/* sum[0..F) = Σ_e weights[e] x[indices[e]]; blocks of 128, 64, 32, 16 floats, then an overlapping last one, so that no lane is idle.
 * With `keep` it is added to what sum holds; F must then be a multiple of 16, so that blocks do not overlap. */
HS_INLINE void hs_row_sum(const int32_t *indices, const float *weights, int64_t first, int64_t last, const float *x, int64_t stride,
                          int64_t F, const int fetch, const int keep, float *sum) {
    int64_t at = 0;
    if (F >= 16) {
        for (; at + 128 <= F; at += 128) hs_gather16(indices, weights, first, last, x, stride, at, 8, fetch, keep, sum);
        if (at + 64 <= F) { hs_gather16(indices, weights, first, last, x, stride, at, 4, fetch, keep, sum); at += 64; }
        if (at + 32 <= F) { hs_gather16(indices, weights, first, last, x, stride, at, 2, fetch, keep, sum); at += 32; }
        if (at + 16 <= F) { hs_gather16(indices, weights, first, last, x, stride, at, 1, fetch, keep, sum); at += 16; }
        if (at < F) hs_gather16(indices, weights, first, last, x, stride, F - 16, 1, fetch, 0, sum);
    } else if (F >= 8) {
        hs_gather8(indices, weights, first, last, x, stride, 0, 1, fetch, 0, sum);
        if (F > 8) hs_gather8(indices, weights, first, last, x, stride, F - 8, 1, fetch, 0, sum);
    } else if (F >= 4) {
        hs_gather4(indices, weights, first, last, x, stride, 0, 1, fetch, 0, sum);
        if (F > 4) hs_gather4(indices, weights, first, last, x, stride, F - 4, 1, fetch, 0, sum);
    } else {
        for (int64_t f = 0; f < F; f++) {
            double total = 0.0;
            for (int64_t e = first; e < last; e++) total += (weights ? weights[e] : 1.0f) * x[(int64_t)indices[e] * stride + f];
            sum[f] = (float)total;
        }
    }
}

/* exp of 16 floats to 1e-7 relative, by range reduction and a polynomial (Cephes); below -87 it is 0. */
HS_INLINE hs_v16 hs_exp16(hs_v16 x) {
    hs_i16 low = x < -87.0f;
    x = (hs_v16)(((hs_i16)x & ~low)); /* such lanes become 0 and are cleared at the end */
    hs_v16 t = x * 1.44269504088896341f;
    hs_v16 magic = (hs_v16){0} + 12582912.0f; /* 1.5 × 2^23: adding it rounds to an integer */
    hs_v16 n = (t + magic) - magic;
    hs_v16 r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    hs_v16 p = (hs_v16){0} + 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    hs_i16 power = (__builtin_convertvector(n, hs_i16) + 127) << 23;
    hs_v16 y = p * (hs_v16)power;
    return (hs_v16)((hs_i16)y & ~low);
}

HS_INLINE void hs_elu_row(float *out, int64_t F) {
    int64_t f = 0;
    for (; f + 16 <= F; f += 16) {
        const hs_v16 y = *(hs_v16 *)(out + f), grown = hs_exp16(y) - 1.0f;
        const hs_i16 above = y > 0.0f;
        *(hs_v16 *)(out + f) = (hs_v16)(((hs_i16)y & above) | ((hs_i16)grown & ~above));
    }
    for (; f < F; f++) if (!(out[f] > 0.0f)) out[f] = expm1f(out[f]);
}

/* <a, b> over D floats, the lanes added in one order. */
HS_INLINE float hs_dot(const float *a, const float *b, int64_t D) {
    float sum = 0.0f;
    int64_t f = 0;
    if (D >= 16) {
        hs_v16 lanes = (hs_v16){0};
        for (; f + 16 <= D; f += 16) lanes += *(const hs_v16 *)(a + f) * *(const hs_v16 *)(b + f);
        hs_v8 eight = __builtin_shufflevector(lanes, lanes, 0, 1, 2, 3, 4, 5, 6, 7) + __builtin_shufflevector(lanes, lanes, 8, 9, 10, 11, 12, 13, 14, 15);
        hs_v4 four = __builtin_shufflevector(eight, eight, 0, 1, 2, 3) + __builtin_shufflevector(eight, eight, 4, 5, 6, 7);
        sum = (four[0] + four[1]) + (four[2] + four[3]);
    } else if (D >= 8) {
        hs_v8 lanes = *(const hs_v8 *)a * *(const hs_v8 *)b;
        hs_v4 four = __builtin_shufflevector(lanes, lanes, 0, 1, 2, 3) + __builtin_shufflevector(lanes, lanes, 4, 5, 6, 7);
        sum = (four[0] + four[1]) + (four[2] + four[3]);
        f = 8;
    }
    for (; f < D; f++) sum += a[f] * b[f];
    return sum;
}

/* to = from where the float's draw is at least `drop`, times `grow`; else 0. to may be from. */
HS_INLINE void hs_drop_row(const float *from, int64_t F, uint64_t seed, int64_t row, uint32_t drop, float grow, float *to) {
    const uint32_t key = hs_key(seed, row);
    for (int64_t f = 0; f < F; f++) to[f] = hs_draw(key, (uint32_t)f) < drop ? 0.0f : from[f] * grow;
}

/* ids: what draws count each row as, NULL: its place. */
HS_CLONES static void hs_drop(const float *x, const int64_t *ids, int64_t F, uint64_t seed, uint32_t drop, float grow, int64_t from, int64_t to,
                              float *out) {
    for (int64_t v = from; v < to; v++) hs_drop_row(x + v * F, F, seed, ids ? ids[v] : v, drop, grow, out + v * F);
}

/* As one row of which `count` floats are here, those with the numbers `at`. */
HS_CLONES static void hs_drop_some(const float *x, const uint32_t *at, int64_t count, uint64_t seed, uint32_t drop, float grow, float *out) {
    const uint32_t key = hs_key(seed, 0);
    for (int64_t i = 0; i < count; i++) out[i] = hs_draw(key, at[i]) < drop ? 0.0f : x[i] * grow;
}

/* out = drop(activation(sums + add + bias)) over one row; add and bias may be NULL; out may be sums. */
HS_INLINE void hs_finish_row(const float *sums, int64_t F, const float *add, const float *bias, int activation, uint64_t seed, int64_t v,
                             uint32_t drop, float grow, float *out) {
    if (add && bias) for (int64_t f = 0; f < F; f++) out[f] = sums[f] + add[f] + bias[f];
    else if (add) for (int64_t f = 0; f < F; f++) out[f] = sums[f] + add[f];
    else if (bias) for (int64_t f = 0; f < F; f++) out[f] = sums[f] + bias[f];
    else if (out != sums) memcpy(out, sums, F * sizeof(float));
    if (activation == HS_RELU) {
        for (int64_t f = 0; f < F; f++) out[f] = out[f] > 0.0f ? out[f] : 0.0f;
    } else if (activation == HS_ELU) {
        hs_elu_row(out, F);
    }
    if (drop) hs_drop_row(out, F, seed, v, drop, grow, out);
}

/* inner = gradient of the sums from `grad`, the gradient of out = drop(activation(sums + bias)), which is all that is needed of the forward
 * pass: where a float was dropped its gradient is 0, elsewhere out / grow is what the activation gave. bias_grad (blocks, F) is added to, NULL: none.
 * dots (n, H) gets <inner[v,h], sums[v,h]> where sums is not NULL. */
HS_CLONES static void hs_finish_back(const float *grad, const float *out, const float *sums, const int64_t *ids, int64_t H, int64_t D,
                                     int activation, uint64_t seed, uint32_t drop, float grow, int64_t from, int64_t to, float *inner,
                                     float *bias_grad, float *dots) {
    const int64_t F = H * D;
    const float back = 1.0f / grow;
    for (int64_t v = from; v < to; v++) {
        const float *g = grad + v * F, *o = out + v * F;
        float *i = inner + v * F;
        if (drop) { hs_drop_row(g, F, seed, ids ? ids[v] : v, drop, grow, i); g = i; }
        if (activation == HS_RELU) for (int64_t f = 0; f < F; f++) i[f] = o[f] > 0.0f ? g[f] : 0.0f;
        else if (activation == HS_ELU) for (int64_t f = 0; f < F; f++) i[f] = o[f] > 0.0f ? g[f] : g[f] * (o[f] * back + 1.0f);
        else if (i != g) memcpy(i, g, F * sizeof(float));
        if (bias_grad) {
            float *sum = bias_grad + v / HS_BLOCK * F;
            for (int64_t f = 0; f < F; f++) sum[f] += i[f];
        }
        if (dots) for (int64_t h = 0; h < H; h++) dots[v * H + h] = hs_dot(i + h * D, sums + v * F + h * D, D);
    }
}

/* out[v] = drop(activation(Σ_e weights[e] x[indices[e]] + add[v] + bias)) for rows [from, to); weights may be NULL: 1 each. Where out
 * is add, F a multiple of 16, what is added makes room for the result. */
HS_CLONES static void hs_aggregate(const int64_t *indptr, const int32_t *indices, const int64_t *ids, const float *weights, const float *x,
                                   const float *add, const float *bias, int activation, uint64_t seed, uint32_t drop, float grow, int64_t F,
                                   int64_t from, int64_t to, int64_t edges, float *out) {
    for (int64_t v = from; v < to; v++) {
        const int64_t first = indptr[v], last = indptr[v + 1];
        float *row = out + v * F;
        if (add == out) {
            if (last + HS_AHEAD > edges) hs_row_sum(indices, weights, first, last, x, F, F, 0, 1, row);
            else if (weights) hs_row_sum(indices, weights, first, last, x, F, F, 1, 1, row);
            else hs_row_sum(indices, (const float *)0, first, last, x, F, F, 1, 1, row);
        } else if (last + HS_AHEAD > edges) hs_row_sum(indices, weights, first, last, x, F, F, 0, 0, row);
        else if (weights) hs_row_sum(indices, weights, first, last, x, F, F, 1, 0, row);
        else hs_row_sum(indices, (const float *)0, first, last, x, F, F, 1, 0, row);
        hs_finish_row(row, F, add && add != out ? add + v * F : (const float *)0, bias, activation, seed, ids ? ids[v] : v, drop, grow, row);
    }
}

/* left[u,h] = <x[u,h,:], a[h,:]>, right likewise with b. */
HS_CLONES static void hs_scores(const float *x, const float *a, const float *b, int64_t H, int64_t D, int64_t from, int64_t to, float *left,
                                float *right) {
    for (int64_t u = from; u < to; u++) {
        for (int64_t h = 0; h < H; h++) {
            left[u * H + h] = hs_dot(x + (u * H + h) * D, a + h * D, D);
            right[u * H + h] = hs_dot(x + (u * H + h) * D, b + h * D, D);
        }
    }
}

/* Gradients of hs_scores: x_grad, a_grad and b_grad (blocks, H, D) are added to. */
HS_CLONES static void hs_scores_back(const float *x, const float *a, const float *b, const float *left_grad, const float *right_grad, int64_t H,
                                     int64_t D, int64_t from, int64_t to, float *x_grad, float *a_grad, float *b_grad) {
    for (int64_t u = from; u < to; u++) {
        for (int64_t h = 0; h < H; h++) {
            const float l = left_grad[u * H + h], r = right_grad[u * H + h], *row = x + (u * H + h) * D;
            float *grad = x_grad + (u * H + h) * D;
            float *a_sum = a_grad + (u / HS_BLOCK * H + h) * D, *b_sum = b_grad + (u / HS_BLOCK * H + h) * D;
            for (int64_t f = 0; f < D; f++) {
                grad[f] += l * a[h * D + f] + r * b[h * D + f];
                a_sum[f] += l * row[f];
                b_sum[f] += r * row[f];
            }
        }
    }
}

HS_INLINE float hs_leaky(float s, float slope) { return s > 0.0f ? s : s * slope; }

/* Attention of rows [from, to): sums[v,h,:] = Σ_e keep(e,h) a(e,h) x[u,h,:], a = softmax over the row's edges of leaky(left[u,h] + right[v,h]);
 * out = drop(activation(sums + bias)); out may be sums where there is nothing to do. highest, total (n, H): maximum and sum of exponentials,
 * all that the backward pass needs. scratch: (largest degree + 16) floats a head. edge_drop: an edge and head is dropped where its draw
 * is below, the others grow by edge_grow; 0: none. `seed` is that of the dropout at the end. offsets (n): what draws add to the numbers of
 * a destination's edges, NULL: nothing. */
HS_CLONES static void hs_attend(const int64_t *indptr, const int32_t *indices, const int64_t *ids, const int64_t *offsets, const float *left,
                                const float *right, const float *x, int64_t H, int64_t D, float slope, uint64_t edge_seed, uint32_t edge_drop, float edge_grow, const float *bias, int activation,
                                uint64_t seed, uint32_t drop, float grow, int64_t from, int64_t to, int64_t edges, float *scratch, float *highest,
                                float *total, float *sums, float *out) {
    const int64_t F = H * D;
    for (int64_t v = from; v < to; v++) {
        const int64_t first = indptr[v], count = indptr[v + 1] - first, padded = (count + 15) & ~(int64_t)15;
        const int32_t *row = indices + first;
        const int64_t number = first + (offsets ? offsets[v] : 0);
        for (int64_t h = 0; h < H; h++) { /* one head after the other, so that the exponentials fill vectors */
            float *s = scratch + h * padded, most = -INFINITY;
            double sum = 0.0;
            const float r = right[v * H + h];
            for (int64_t e = 0; e < count; e++) {
                s[e] = hs_leaky(left[(int64_t)row[e] * H + h] + r, slope);
                most = s[e] > most ? s[e] : most;
            }
            for (int64_t e = count; e < padded; e++) s[e] = -INFINITY;
            for (int64_t run = 0; run < padded; run += HS_RUN) {
                const int64_t end = run + HS_RUN < padded ? run + HS_RUN : padded;
                hs_v16 lanes = (hs_v16){0};
                for (int64_t e = run; e < end; e += 16) {
                    hs_v16 y = hs_exp16(*(hs_v16 *)(s + e) - most);
                    *(hs_v16 *)(s + e) = y;
                    lanes += y;
                }
                for (int lane = 0; lane < 16; lane++) sum += lanes[lane];
            }
            highest[v * H + h] = count ? most : 0.0f;
            total[v * H + h] = count ? (float)sum : 1.0f;
            const float inverse = 1.0f / total[v * H + h];
            if (edge_drop) {
                for (int64_t e = 0; e < count; e++) s[e] *= hs_draw(hs_key(~edge_seed, number + e), (uint32_t)h) < edge_drop ? 0.0f : inverse * edge_grow;
            } else {
                for (int64_t e = 0; e < count; e++) s[e] *= inverse;
            }
            if (first + count + HS_AHEAD <= edges) hs_row_sum(row, s, 0, count, x + h * D, F, D, 1, 0, sums + v * F + h * D);
            else hs_row_sum(row, s, 0, count, x + h * D, F, D, 0, 0, sums + v * F + h * D);
        }
        hs_finish_row(sums + v * F, F, (const float *)0, bias, activation, seed, ids ? ids[v] : v, drop, grow, out + v * F);
    }
}

/* Gradients of hs_attend, over the out-edges of sources [from, to): x_grad (m, H, D), left_grad (m, H), and right_grad (n, H), which is
 * added to: each thread has its own. rows (n, H, 4): right, highest, 1 / total and dots side by side, one cache line a destination where H is
 * 4. grad (n, H, D) is of the sums before bias and activation; dots[v,h] = <grad[v,h], sums[v,h]>.
 * origins[t]: the number of the t-th out-edge that draws go by, needed only with dropout. */
HS_CLONES static void hs_attend_back(const int64_t *indptr, const int32_t *indices, const int64_t *origins, const float *left,
                                     const float *rows, const float *x, const float *grad, int64_t H, int64_t D, float slope,
                                     uint64_t seed, uint32_t edge_drop, float edge_grow, int64_t from, int64_t to, int64_t edges,
                                     float *scratch, float *x_grad, float *left_grad, double *right_grad) {
    const int64_t F = H * D;
    for (int64_t u = from; u < to; u++) {
        int64_t first = indptr[u], count = indptr[u + 1] - first, padded = (count + 15) & ~(int64_t)15;
        const int32_t *row = indices + first;
        int fetch = first + count + HS_AHEAD <= edges;
        for (int64_t h = 0; h < H; h++) {
            float *a = scratch, *slopes = scratch + padded;
            double sum = 0.0; /* a vertex with ten thousand edges would lose a digit in floats */
            const float l = left[u * H + h], *mine = x + u * F + h * D;
            for (int64_t e = 0; e < count; e++) {
                const int64_t at = (int64_t)row[e] * H + h;
                const float s = l + rows[4 * at];
                slopes[e] = s > 0.0f ? 1.0f : slope;
                a[e] = s * slopes[e] - rows[4 * at + 1];
            }
            for (int64_t e = count; e < padded; e++) a[e] = -INFINITY;
            for (int64_t e = 0; e < padded; e += 16) *(hs_v16 *)(a + e) = hs_exp16(*(hs_v16 *)(a + e));
            for (int64_t e = 0; e < count; e++) {
                const int64_t v = row[e], at = v * H + h;
                if (fetch) for (int64_t f = 0; f < D; f += 16) __builtin_prefetch(grad + (int64_t)row[e + HS_AHEAD] * F + h * D + f);
                const float kept = edge_drop && hs_draw(hs_key(~seed, origins[first + e]), (uint32_t)h) < edge_drop ? 0.0f : edge_grow;
                const float p = a[e] * rows[4 * at + 2];
                const float slope_grad = p * (kept * hs_dot(grad + v * F + h * D, mine, D) - rows[4 * at + 3]) * slopes[e];
                a[e] = p * kept;
                sum += slope_grad;
                right_grad[at] += slope_grad;
            }
            left_grad[u * H + h] = (float)sum;
            hs_row_sum(row, a, 0, count, grad + h * D, F, D, 0, 0, x_grad + u * F + h * D);
        }
    }
}

#endif
