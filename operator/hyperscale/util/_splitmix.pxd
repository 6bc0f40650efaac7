"""SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) for compiled modules: the numbers of `splitmix.SplitMix64`. Inline: C sees through it."""

from libc.stdint cimport uint64_t


cdef inline uint64_t mixed(uint64_t z) noexcept nogil:
    """The finalizer: a bijection of 64 bits."""
    z = (z ^ (z >> 30)) * <uint64_t> 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * <uint64_t> 0x94D049BB133111EB
    return z ^ (z >> 31)


cdef inline uint64_t draw(uint64_t *state) noexcept nogil:
    """The next 64 bits."""
    state[0] += <uint64_t> 0x9E3779B97F4A7C15
    return mixed(state[0])


cdef inline uint64_t hashed(uint64_t number) noexcept nogil:
    """The first 64 bits drawn from state `number × golden ratio`."""
    return mixed((number + 1) * <uint64_t> 0x9E3779B97F4A7C15)


cdef inline double unit(uint64_t *state) noexcept nogil:
    """Above 0, at most 1: its logarithm is finite."""
    return ((draw(state) >> 11) + 1) * (1.0 / 9007199254740992.0)
