"""SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): the same numbers on every machine. `_splitmix.pxd` is its compiled twin."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]

WORD: Final = (1 << 64) - 1
"""All 64 bits."""
GOLDEN: Final = 0x9E3779B97F4A7C15
"""Step of the state: 2^64 / golden ratio, odd."""
FIRST: Final = 0xBF58476D1CE4E5B9
SECOND: Final = 0x94D049BB133111EB


def mixed(state: int) -> int:
    """Return the finalizer of 64 bits: a bijection."""
    state = ((state ^ (state >> 30)) * FIRST) & WORD
    state = ((state ^ (state >> 27)) * SECOND) & WORD
    return state ^ (state >> 31)


def mixed_words(states: Words) -> Words:
    """Return `mixed` of each word."""
    with np.errstate(over="ignore"):
        states = (states ^ (states >> np.uint64(30))) * np.uint64(FIRST)
        states = (states ^ (states >> np.uint64(27))) * np.uint64(SECOND)
    return states ^ (states >> np.uint64(31))


class SplitMix64:
    """A generator with 64 bits of state."""

    def __init__(self, seed: int) -> None:
        """seed: its lowest 64 bits are the state."""
        self._state = seed & WORD

    def next(self) -> int:
        """Return the next 64 bits."""
        self._state = (self._state + GOLDEN) & WORD
        return mixed(self._state)

    def below(self, limit: int) -> int:
        """Return a number in [0, limit); limit: below 2^31."""
        return (self.next() >> 33) % limit

    def unit(self) -> float:
        """Return a number in (0, 1]: its logarithm is finite."""
        return (float(self.next() >> 11) + 1.0) * (1.0 / 9007199254740992.0)
