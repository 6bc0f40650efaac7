/* Passes over a batch of small graphs: messages along edges with a category, attention over a vertex' edges, batch normalisation with what follows.
 *
 * Plain loops that the compiler vectorises, without fused multiply-add: the same bytes whichever clone the processor picks. A molecule's rows
 * lie side by side, so that scattering to them stays in the first cache. Sums over rows: molecules_sums.h. Names: v row (destination), u source,
 * e edge in CSR order, k kind of an edge, H heads of D floats, F = H * D, offsets (graphs + 1) the first row of each graph.
 */
#ifndef HYPERSCALE_MOLECULES_KERNELS_H
#define HYPERSCALE_MOLECULES_KERNELS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "draws.h"
#include "molecules_sums.h"

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

/* What one graph adds to the gradients of kinds of edges: rows (kinds, F) that are 0 but for the kinds that occur in it. */
typedef struct {
    float *rows;
    int64_t *found; /* (kinds) the kinds that occur, the first `count` */
    int64_t *last;  /* (kinds) the graph, from 1, in which a kind occurred last */
    int64_t count;
} hm_kinds;

HS_INLINE float *hm_kind(hm_kinds *of, int64_t kind, int64_t graph, int64_t F) {
    if (of->last[kind] != graph + 1) {
        of->last[kind] = graph + 1;
        of->found[of->count++] = kind;
        memset(of->rows + kind * F, 0, F * sizeof(float));
    }
    return of->rows + kind * F;
}

/* Gradients of hm_gather. x_grad (n, F) and table_grad (kinds, F) are added to; weights_grad (e, H) is filled, NULL: not wanted. */
HS_CLONES static void hm_gather_back(const int64_t *offsets, int64_t graphs, const int64_t *indptr, const int32_t *sources,
                                     const int32_t *kinds, const float *weights, const float *x, const float *table, const float *grad,
                                     int64_t H, int64_t D, int relu, hm_kinds *own, float *x_grad, double *table_grad, float *weights_grad) {
    const int64_t F = H * D;
    for (int64_t graph = 0; graph < graphs; graph++) {
        own->count = 0;
        for (int64_t v = offsets[graph]; v < offsets[graph + 1]; v++) {
            const float *restrict g = grad + v * F;
            for (int64_t e = indptr[v]; e < indptr[v + 1]; e++) {
                const float *restrict row = x + (int64_t)sources[e] * F, *restrict kind = table + (int64_t)kinds[e] * F;
                float *restrict to = x_grad + (int64_t)sources[e] * F, *restrict also = hm_kind(own, kinds[e], graph, F);
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
        }
        for (int64_t at = 0; at < own->count; at++) {
            const float *from = own->rows + own->found[at] * F;
            double *restrict to = table_grad + own->found[at] * F;
            for (int64_t f = 0; f < F; f++) to[f] += hm_rounded(from[f], HM_GRADIENT_GRID);
        }
    }
}

/* of_kind[k,h] = <table[k], left> over the columns of head h. */
static void hm_scores(const float *table, const float *left, int64_t kinds, int64_t H, int64_t D, float *of_kind) {
    for (int64_t at = 0; at < kinds * H; at++) {
        float sum = 0.0f;
        for (int64_t d = 0; d < D; d++) sum += table[at * D + d] * left[at % H * D + d];
        of_kind[at] = sum;
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

/* Gradients of hm_attend, added to ends_grad (n, 2H); those of of_kind go on to what it was made from: table_grad (kinds, F), left_grad (F). */
HS_CLONES static void hm_attend_back(const int64_t *offsets, int64_t graphs, const int64_t *indptr, const int32_t *sources,
                                     const int32_t *kinds, const float *ends, const float *of_kind, const float *parts, const float *grad,
                                     const float *table, const float *left, int64_t H, int64_t D, float slope, hm_kinds *own,
                                     float *ends_grad, double *table_grad, double *left_grad) {
    for (int64_t graph = 0; graph < graphs; graph++) {
        own->count = 0;
        for (int64_t v = offsets[graph]; v < offsets[graph + 1]; v++)
            for (int64_t h = 0; h < H; h++) {
                const float to = ends[(2 * v + 1) * H + h];
                float dot = 0.0f, sum = 0.0f;
                for (int64_t e = indptr[v]; e < indptr[v + 1]; e++) dot += parts[e * H + h] * grad[e * H + h];
                for (int64_t e = indptr[v]; e < indptr[v + 1]; e++) {
                    const int64_t u = 2 * (int64_t)sources[e] * H + h;
                    const float score = ends[u] + of_kind[(int64_t)kinds[e] * H + h] + to;
                    const float d = parts[e * H + h] * (grad[e * H + h] - dot) * (score > 0.0f ? 1.0f : slope);
                    ends_grad[u] += d;
                    hm_kind(own, kinds[e], graph, H)[h] += d;
                    sum += d;
                }
                ends_grad[(2 * v + 1) * H + h] += sum;
            }
        for (int64_t at = 0; at < own->count; at++) {
            const int64_t kind = own->found[at];
            for (int64_t f = 0; f < H * D; f++) {
                const float d = own->rows[kind * H + f / D];
                table_grad[kind * H * D + f] += hm_rounded(d * left[f], HM_GRADIENT_GRID);
                left_grad[f] += hm_rounded(d * table[kind * H * D + f], HM_GRADIENT_GRID);
            }
        }
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

/* inner = gradient of x * scale + shift; adds Σ inner and Σ inner (x - mean) of each column to sums (2, F). part: 2 F doubles. */
HS_CLONES static void hm_norm_inner(const int64_t *offsets, int64_t graphs, const float *grad, const float *x, int64_t F, const float *scale,
                                    const float *shift, const float *mean, int relu, const int64_t *ids, uint64_t seed, uint32_t drop,
                                    float grow, float *restrict inner, double *restrict part, double *restrict sums) {
    for (int64_t graph = 0; graph < graphs; graph++) {
        memset(part, 0, 2 * F * sizeof(double));
        for (int64_t v = offsets[graph]; v < offsets[graph + 1]; v++) {
            const float *row = x + v * F, *g = grad + v * F;
            float *restrict to = inner + v * F;
            if (drop) {
                const uint32_t key = hs_key(seed, ids[v]);
                for (int64_t f = 0; f < F; f++) to[f] = hs_draw(key, (uint32_t)f) < drop ? 0.0f : g[f] * grow;
            } else memcpy(to, g, F * sizeof(float));
            if (relu) for (int64_t f = 0; f < F; f++) to[f] = row[f] * scale[f] + shift[f] > 0.0f ? to[f] : 0.0f;
            for (int64_t f = 0; f < F; f++) {
                part[f] += to[f];
                part[F + f] += (double)to[f] * (row[f] - mean[f]);
            }
        }
        for (int64_t f = 0; f < 2 * F; f++) sums[f] += hm_rounded(part[f], HM_GRADIENT_GRID);
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
