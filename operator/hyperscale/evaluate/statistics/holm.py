"""Correction of p values for many comparisons (Holm 1979): the chance of any false statement stays below the level of each one."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float | None]) -> tuple[float | None, ...]:
    """Return the corrected p values in their order; None, a comparison without a test, stays None and does not count.

    The i-th smallest of m is multiplied by m - i + 1, made monotone, and is at most 1. Raises ValueError for a value outside 0..1.
    """
    tested = sorted((value, at) for at, value in enumerate(p_values) if value is not None)
    corrected: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (value, at) in enumerate(tested):
        if not 0.0 <= value <= 1.0:  # NaN fails as well
            raise ValueError(f"p value {value}: give a number from 0 to 1")
        largest = max(largest, min(1.0, value * (len(tested) - rank)))
        corrected[at] = largest
    return tuple(corrected)
