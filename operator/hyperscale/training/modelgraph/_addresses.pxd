"""Where the numbers of flat arrays are, for kernels in C; NULL for None and for nothing."""

from libc.stdint cimport int32_t, int64_t


cdef inline float *floats(const float[::1] values) noexcept nogil:
    return NULL if values is None or values.shape[0] == 0 else <float *> &values[0]


cdef inline double *doubles(const double[::1] values) noexcept nogil:
    return NULL if values is None or values.shape[0] == 0 else <double *> &values[0]


cdef inline int64_t *longs(const int64_t[::1] values) noexcept nogil:
    return NULL if values is None or values.shape[0] == 0 else <int64_t *> &values[0]


cdef inline int32_t *ints(const int32_t[::1] values) noexcept nogil:
    return NULL if values is None or values.shape[0] == 0 else <int32_t *> &values[0]
