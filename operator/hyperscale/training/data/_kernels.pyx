"""CSR from edge lists, compiled; `edges_to_csr.py` checks shapes and ranges."""

import numpy as np

from libc.stdint cimport int32_t, int64_t


def csr(const int32_t[::1] sources, const int32_t[::1] destinations, int64_t vertices, bint both):
    """In-neighbours of each vertex, ascending, without loops and repetitions: (n + 1,) int64 and (e,) int32.

    Two counting sorts, by source, then by destination: linear whatever the degrees. Ids must be within 0..vertices-1.
    """
    cdef int64_t edges = sources.shape[0]
    first_np, out_np = np.zeros(vertices + 2, np.int64), np.zeros(vertices + 2, np.int64)
    cdef int64_t[::1] first = first_np, out = out_np
    cdef int64_t i
    with nogil:
        for i in range(edges):
            if sources[i] != destinations[i]:
                first[sources[i] + 2] += 1
                out[destinations[i] + 2] += 1
                if both:
                    first[destinations[i] + 2] += 1
                    out[sources[i] + 2] += 1
        for i in range(vertices):
            first[i + 2] += first[i + 1]
            out[i + 2] += out[i + 1]
    by_source_np = np.empty(first_np[vertices + 1], np.int32)
    cdef int32_t[::1] by_source = by_source_np
    with nogil:
        # After this loop first[v + 1] is the end of row v: the offsets by 2 above make first the row pointers again.
        for i in range(edges):
            if sources[i] != destinations[i]:
                by_source[first[sources[i] + 1]] = destinations[i]
                first[sources[i] + 1] += 1
                if both:
                    by_source[first[destinations[i] + 1]] = sources[i]
                    first[destinations[i] + 1] += 1
    indices_np = np.empty(len(by_source_np), np.int32)
    cdef int32_t[::1] indices = indices_np
    cdef int64_t v, at
    with nogil:
        for v in range(vertices):
            for at in range(first[v], first[v + 1]):
                indices[out[by_source[at] + 1]] = <int32_t> v
                out[by_source[at] + 1] += 1
    del by_source_np
    by_source = None
    indptr_np = np.zeros(vertices + 1, np.int64)
    cdef int64_t[::1] indptr = indptr_np
    cdef int64_t kept = 0
    cdef int32_t last
    with nogil:
        for v in range(vertices):
            last = -1
            for at in range(out[v], out[v + 1]):
                if indices[at] != last:
                    last = indices[at]
                    indices[kept] = last
                    kept += 1
            indptr[v + 1] = kept
    del indices
    if kept < len(indices_np):
        # In place where nobody else holds it; a copy would need the memory twice.
        indices_np.resize(kept, refcheck=False)
    return indptr_np, indices_np
