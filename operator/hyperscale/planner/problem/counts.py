"""Which worker counts get a first look. Pure."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

DENSE_COUNTS: Final = 16
"""Every worker count up to here is tried."""
COUNT_GROWTH: Final = 1.3
"""Step between larger counts, refined around the best."""


def ladder(counts: list[int]) -> list[int]:
    """Counts for the first look: all small ones, then growing steps, always the last."""
    chosen = [count for position, count in enumerate(counts) if position < DENSE_COUNTS]
    for count in counts[DENSE_COUNTS:]:
        if count >= chosen[-1] * COUNT_GROWTH or count == counts[-1]:
            chosen.append(count)
    return chosen


def between(counts: list[int], tried: list[int], best: int) -> list[int]:
    """Untried ones of `counts` half-way between the best of the tried ones and its tried neighbours."""
    at = tried.index(best)
    ends = [tried[max(0, at - 1)], tried[at], tried[min(len(tried) - 1, at + 1)]]
    halves = {(low + high) // 2 for low, high in pairwise(ends)}
    return sorted(halves & set(counts) - set(tried))
