"""Sums of floats that have the same bits on every Python."""

from __future__ import annotations

from collections.abc import Iterable


def sum_in_order(values: Iterable[float]) -> float:
    """Left to right, rounded after every addition, as the compiled modules add; 0.0 of nothing.

    The built-in `sum` compensates for rounding since Python 3.12 (python/cpython#100425): last digits, and plans at a tie, would differ.
    """
    total = 0.0
    for value in values:
        total += value
    return total
