/* What all kernels share: clones for wider processors, and the random numbers of dropout. */
#ifndef HYPERSCALE_DRAWS_H
#define HYPERSCALE_DRAWS_H

#include <stdint.h>

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__linux__)
#define HS_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define HS_CLONES
#endif
#define HS_INLINE static inline __attribute__((always_inline))

/* Dropout without a stored mask: each row has a key, each float of it a draw in [0, 2^32), the same in both passes (SplitMix64 of Steele, Lea and
 * Flood, OOPSLA 2014, and lowbias32 of C. Wellons). */
HS_INLINE uint32_t hs_key(uint64_t seed, int64_t row) {
    uint64_t z = seed + 0x9E3779B97F4A7C15ULL * (uint64_t)(row + 1);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return (uint32_t)((z ^ (z >> 31)) >> 32);
}

HS_INLINE uint32_t hs_draw(uint32_t key, uint32_t at) {
    uint32_t z = key + at * 0x9E3779B9U;
    z = (z ^ (z >> 16)) * 0x7FEB352DU;
    z = (z ^ (z >> 15)) * 0x846CA68BU;
    return z ^ (z >> 16);
}

#endif
