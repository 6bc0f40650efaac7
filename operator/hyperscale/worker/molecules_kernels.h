/* Passes over a batch of small graphs: messages along edges with a category, attention over a vertex' edges, batch normalisation with what follows.
 *
 * Plain loops that the compiler vectorises, without fused multiply-add: the same bytes whichever clone the processor picks. A molecule's rows
 * lie side by side, so that scattering to them stays in the first cache. Names: v row (destination), u source, e edge in CSR order, k kind of an
 * edge, H heads of D floats, F = H * D.
 */
#ifndef HYPERSCALE_MOLECULES_KERNELS_H
#define HYPERSCALE_MOLECULES_KERNELS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "draws.h"

#define HM_BLOCK 64 /* rows whose gradients of the kinds are added up in float before they go to double */
#define HM_LANES 16

/* out[v] = Σ_e weights[e] act(x[u] + table[k]), act ReLU or nothing. */
HS_CLONES static void hm_gather(const int64_t *indptr, const int32_t *sources, const int32_t *kinds, const float *weights, const float *x,
                                const float *table, int64_t H, int64_t D, int relu, int64_t n, float *restrict out) {
    const int64_t F = H * D;
    for (int64_t v = 0; v < n; v++) {
        float *restrict sum = out + v * F;
        memset(sum, 0, F * sizeof(float));
        for (int64_t e = indptr[v]; e < indptr[v + 1]; e++) {
            const float *row = x + (int64_t)sources[e] * F, *kind = table + (int64_t)kinds[e] * F;
            for (int64_t h = 0; h < H; h++) {
                const float w = weights[e * H + h];
                const int64_t last = (h + 1) * D;
                if (relu) for (int64_t f = h * D; f < last; f++) { const float t = row[f] + kind[f]; sum[f] += w * (t > 0.0f ? t : 0.0f); }
                else for (int64_t f = h * D; f < last; f++) sum[f] += w * (row[f] + kind[f]);
            }
        }
    }
}

/* <grad, act(row + kind)> over D floats, the lanes added in one order. */
HS_INLINE float hm_dot(const float *grad, const float *row, const float *kind, int relu, int64_t D) {
    float lanes[HM_LANES] = {0}, sum = 0.0f;
    int64_t f = 0;
    for (; f + HM_LANES <= D; f += HM_LANES)
        for (int j = 0; j < HM_LANES; j++) {
            const float t = row[f + j] + kind[f + j];
            lanes[j] += grad[f + j] * (relu && t < 0.0f ? 0.0f : t);
        }
    for (; f < D; f++) {
        const float t = row[f] + kind[f];
        sum += grad[f] * (relu && t < 0.0f ? 0.0f : t);
    }
    for (int j = 0; j < HM_LANES; j++) sum += lanes[j];
    return sum;
}

/* Gradients of hm_gather. x_grad (n, F) and table_grad (kinds, F) are added to; weights_grad (e, H) is filled, NULL: not wanted.
 * scratch: kinds * F floats. */
HS_CLONES static void hm_gather_back(const int64_t *indptr, const int32_t *sources, const int32_t *kinds, const float *weights, const float *x,
                                     const float *table, const float *grad, int64_t H, int64_t D, int relu, int64_t n, int64_t kinds_count,
                                     float *scratch, float *x_grad, double *restrict table_grad, float *weights_grad) {
    const int64_t F = H * D, cells = kinds_count * F;
    memset(scratch, 0, cells * sizeof(float));
    for (int64_t v = 0; v < n; v++) {
        const float *restrict g = grad + v * F;
        for (int64_t e = indptr[v]; e < indptr[v + 1]; e++) {
            const float *restrict row = x + (int64_t)sources[e] * F, *restrict kind = table + (int64_t)kinds[e] * F;
            float *restrict to = x_grad + (int64_t)sources[e] * F, *restrict also = scratch + (int64_t)kinds[e] * F;
            for (int64_t h = 0; h < H; h++) {
                const float w = weights[e * H + h];
                const int64_t last = (h + 1) * D;
                for (int64_t f = h * D; f < last; f++) {
                    const float t = row[f] + kind[f], d = relu && !(t > 0.0f) ? 0.0f : w * g[f];
                    to[f] += d;
                    also[f] += d;
                }
                if (weights_grad) weights_grad[e * H + h] = hm_dot(g + h * D, row + h * D, kind + h * D, relu, D);
            }
        }
        if (v % HM_BLOCK == HM_BLOCK - 1 || v == n - 1) {
            for (int64_t f = 0; f < cells; f++) table_grad[f] += scratch[f];
            memset(scratch, 0, cells * sizeof(float));
        }
    }
}

/* parts[e,h] = softmax over the edges of v of LeakyReLU(ends[u,h] + of_kind[k,h] + ends[v,H+h]); ends (n, 2H). */
static void hm_attend(const int64_t *indptr, const int32_t *sources, const int32_t *kinds, const float *ends, const float *of_kind, int64_t H,
                      float slope, int64_t n, float *parts) {
    for (int64_t v = 0; v < n; v++)
        for (int64_t h = 0; h < H; h++) {
            const float own = ends[(2 * v + 1) * H + h];
            float highest = -INFINITY, sum = 0.0f;
            for (int64_t e = indptr[v]; e < indptr[v + 1]; e++) {
                const float t = ends[2 * (int64_t)sources[e] * H + h] + of_kind[(int64_t)kinds[e] * H + h] + own;
                const float score = t > 0.0f ? t : t * slope;
                parts[e * H + h] = score;
                highest = score > highest ? score : highest;
            }
            for (int64_t e = indptr[v]; e < indptr[v + 1]; e++) sum += parts[e * H + h] = expf(parts[e * H + h] - highest);
            for (int64_t e = indptr[v]; e < indptr[v + 1]; e++) parts[e * H + h] /= sum;
        }
}

/* Gradients of hm_attend, added to ends_grad (n, 2H) and kind_grad (kinds, H). */
static void hm_attend_back(const int64_t *indptr, const int32_t *sources, const int32_t *kinds, const float *ends, const float *of_kind,
                           const float *parts, const float *grad, int64_t H, float slope, int64_t n, float *ends_grad, double *kind_grad) {
    for (int64_t v = 0; v < n; v++)
        for (int64_t h = 0; h < H; h++) {
            const float own = ends[(2 * v + 1) * H + h];
            float dot = 0.0f, sum = 0.0f;
            for (int64_t e = indptr[v]; e < indptr[v + 1]; e++) dot += parts[e * H + h] * grad[e * H + h];
            for (int64_t e = indptr[v]; e < indptr[v + 1]; e++) {
                const int64_t u = 2 * (int64_t)sources[e] * H + h, k = (int64_t)kinds[e] * H + h;
                const float d = parts[e * H + h] * (grad[e * H + h] - dot) * (ends[u] + of_kind[k] + own > 0.0f ? 1.0f : slope);
                ends_grad[u] += d;
                kind_grad[k] += d;
                sum += d;
            }
            ends_grad[(2 * v + 1) * H + h] += sum;
        }
}

/* Adds Σ x and Σ x² of each column to sums (2, F). */
HS_CLONES static void hm_sums(const float *x, int64_t n, int64_t F, double *restrict sums) {
    for (int64_t v = 0; v < n; v++)
        for (int64_t f = 0; f < F; f++) {
            const double t = x[v * F + f];
            sums[f] += t;
            sums[F + f] += t * t;
        }
}

/* out = keep * act(x * scale + shift) */
HS_CLONES static void hm_norm(const float *x, int64_t n, int64_t F, const float *scale, const float *shift, int relu, const int64_t *ids,
                              uint64_t seed, uint32_t drop, float grow, float *restrict out) {
    for (int64_t v = 0; v < n; v++) {
        const float *row = x + v * F;
        float *restrict to = out + v * F;
        if (relu) for (int64_t f = 0; f < F; f++) { const float t = row[f] * scale[f] + shift[f]; to[f] = t > 0.0f ? t : 0.0f; }
        else for (int64_t f = 0; f < F; f++) to[f] = row[f] * scale[f] + shift[f];
        if (drop) {
            const uint32_t key = hs_key(seed, ids[v]);
            for (int64_t f = 0; f < F; f++) to[f] = hs_draw(key, (uint32_t)f) < drop ? 0.0f : to[f] * grow;
        }
    }
}

/* inner = gradient of x * scale + shift; adds Σ inner and Σ inner (x - mean) of each column to sums (2, F). */
HS_CLONES static void hm_norm_inner(const float *grad, const float *x, int64_t n, int64_t F, const float *scale, const float *shift,
                                    const float *mean, int relu, const int64_t *ids, uint64_t seed, uint32_t drop, float grow,
                                    float *restrict inner, double *restrict sums) {
    for (int64_t v = 0; v < n; v++) {
        const float *row = x + v * F, *g = grad + v * F;
        float *restrict to = inner + v * F;
        if (drop) {
            const uint32_t key = hs_key(seed, ids[v]);
            for (int64_t f = 0; f < F; f++) to[f] = hs_draw(key, (uint32_t)f) < drop ? 0.0f : g[f] * grow;
        } else memcpy(to, g, F * sizeof(float));
        if (relu) for (int64_t f = 0; f < F; f++) to[f] = row[f] * scale[f] + shift[f] > 0.0f ? to[f] : 0.0f;
        for (int64_t f = 0; f < F; f++) {
            sums[f] += to[f];
            sums[F + f] += (double)to[f] * (row[f] - mean[f]);
        }
    }
}

/* inner becomes scale (inner - first - (x - mean) second): the gradient of x. */
HS_CLONES static void hm_norm_outer(float *restrict inner, const float *x, int64_t n, int64_t F, const float *scale, const float *mean,
                                    const float *first, const float *second) {
    for (int64_t v = 0; v < n; v++)
        for (int64_t f = 0; f < F; f++) {
            const int64_t at = v * F + f;
            inner[at] = scale[f] * (inner[at] - first[f] - (x[at] - mean[f]) * second[f]);
        }
}

#endif
