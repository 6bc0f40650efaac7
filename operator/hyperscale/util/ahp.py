"""Weights of components from pairwise comparisons: the analytic hierarchy process (Saaty 1980), with its consistency ratio.

Entry (i, j) says how many times as important i is as j. Comparisons that contradict each other too much are refused, with the three
components that contradict most and the entry that restores consistency best.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
RANDOM_INDEX: Final = (0.0, 0.0, 0.0, 0.58, 0.90, 1.12, 1.24, 1.32, 1.41, 1.45, 1.49, 1.51, 1.48, 1.56, 1.57, 1.59)
"""Mean consistency index of random matrices by their size (Saaty 1980, table 3-1)."""
MAX_RATIO: Final = 0.1
"""Consistency ratio from which comparisons are refused (Saaty 1980)."""
MAX_ENTRY: Final = 9.0
"""Of Saaty's scale; larger entries are accepted, but never suggested."""
SQUARINGS: Final = 40
"""Of the matrix, until its columns are alike to the last digits."""
ROUNDING: Final = 0.03
"""How far a_ij * a_ji may be from 1: 0.14 stands for 1/7."""


class AhpWeights(msgspec.Struct, frozen=True, rename="camel"):
    """What a matrix of comparisons says."""

    names: tuple[str, ...]
    weights: tuple[float, ...]
    """Positive, of sum 1."""
    eigenvalue: float
    """The largest one; the number of components where comparisons are consistent."""
    consistency_ratio: float
    """Consistency index over that of random matrices; 0 for one or two components."""


class Contradiction(NamedTuple):
    """The three components whose comparisons contradict most, and the entry to change."""

    triple: tuple[str, str, str]
    """i, j, k."""
    product: float
    """a_ij * a_jk / a_ik; 1 where consistent."""
    entry: tuple[str, str]
    """Row and column of the entry whose change lowers the consistency ratio most."""
    value: float
    """As it is."""
    suggestion: float
    """What the other two entries of the triple imply, within 1/9 to 9."""
    ratio: float
    """Consistency ratio after the change."""


class InconsistentComparisonsError(ValueError):
    """The consistency ratio is too large; the message names the triple and the entry to change."""

    def __init__(self, weights: AhpWeights, contradiction: Contradiction) -> None:
        self.weights, self.contradiction = weights, contradiction
        first, second, third = contradiction.triple
        row, column = contradiction.entry
        super().__init__(
            f"consistency ratio {weights.consistency_ratio:.3g} is not below {MAX_RATIO:g}: {first} to {second} to {third} makes"
            f" {contradiction.product:.3g} times the entry {first} to {third}; change {row} to {column} from"
            f" {_entry_text(contradiction.value)} to {_entry_text(contradiction.suggestion)} (ratio {contradiction.ratio:.3g})"
        )


def weights(names: Sequence[str], matrix: Sequence[Sequence[float]]) -> AhpWeights:
    """Return the weights of n components from their (n, n) comparisons.

    Raises InconsistentComparisonsError for a consistency ratio of 0.1 or more, ValueError as `priorities`.
    """
    result = priorities(names, matrix)
    if result.consistency_ratio >= MAX_RATIO:
        raise InconsistentComparisonsError(result, contradiction(names, matrix))
    return result


def priorities(names: Sequence[str], matrix: Sequence[Sequence[float]]) -> AhpWeights:
    """Return the principal eigenvector of (n, n) comparisons and their consistency ratio, however large.

    Raises ValueError for a matrix that is not square, of more than 15 components, not positive or not reciprocal.
    """
    table = _checked(names, matrix)
    vector, eigenvalue = _principal(table)
    return AhpWeights(tuple(names), tuple(vector.tolist()), eigenvalue, _ratio(eigenvalue, len(table)))


def contradiction(names: Sequence[str], matrix: Sequence[Sequence[float]]) -> Contradiction:
    """Return the triple with a_ij * a_jk / a_ik furthest from 1, and its entry whose change helps most. Raises ValueError below n = 3."""
    table = _checked(names, matrix)
    if len(table) < 3:
        raise ValueError("two components cannot contradict each other")
    logarithms = np.log(table)
    first, second, third = max(combinations(range(len(table)), 3), key=lambda at: round(abs(_turn(logarithms, *at)), 12))
    if _turn(logarithms, first, second, third) < 0.0:  # read the other way round, so that the product is above 1
        first, third = third, first
    changes = []
    for row, column, between in ((first, second, third), (second, third, first), (first, third, second)):
        implied = min(MAX_ENTRY, max(1.0 / MAX_ENTRY, float(table[row, between] * table[between, column])))
        changed = table.copy()
        changed[row, column], changed[column, row] = implied, 1.0 / implied
        changes.append((_ratio(_principal(changed)[1], len(table)), row, column, implied))
    ratio, row, column, implied = min(changes)
    product = float(np.exp(_turn(logarithms, first, second, third)))
    value = float(table[row, column])
    return Contradiction((names[first], names[second], names[third]), product, (names[row], names[column]), value, implied, ratio)


def _turn(logarithms: FloatArray, first: int, second: int, third: int) -> float:
    """ln(a_ij * a_jk / a_ik)."""
    return float(logarithms[first, second] + logarithms[second, third] - logarithms[first, third])


def _principal(table: FloatArray) -> tuple[FloatArray, float]:
    """Eigenvector of the largest eigenvalue with sum 1, and that eigenvalue; both are real and positive (Perron).

    By squaring, without LAPACK: its last digits depend on its threads, and the same comparisons must give the same bytes.
    """
    power = table / table.max()
    for _ in range(SQUARINGS):
        power = (power[:, :, None] * power[None, :, :]).sum(axis=1)
        power /= power.max()
    vector: FloatArray = power.sum(axis=1)
    vector /= vector.sum()
    return vector, float(((table * vector).sum(axis=1) / vector).mean())


def _ratio(eigenvalue: float, count: int) -> float:
    if count < 3:
        return 0.0
    return max(0.0, (eigenvalue - count) / (count - 1)) / RANDOM_INDEX[count]


def _checked(names: Sequence[str], matrix: Sequence[Sequence[float]]) -> FloatArray:
    """(n, n), exactly reciprocal."""
    count = len(names)
    if not 1 <= count < len(RANDOM_INDEX) or len(set(names)) < count:
        raise ValueError(f"{count} names: give 1 to {len(RANDOM_INDEX) - 1} components, each once")
    if len(matrix) != count or any(len(row) != count for row in matrix):
        raise ValueError(f"the matrix is not {count} x {count}: give one row and one column for each of {', '.join(names)}")
    table = np.array(matrix, dtype=np.float64)
    for row in range(count):
        for column in range(count):
            value, back = float(table[row, column]), float(table[column, row])
            place = f"{names[row]} to {names[column]}"
            if not (np.isfinite(value) and value > 0.0):
                raise ValueError(f"{place}: {value:g} is no comparison; write a number above 0, e.g. 3 or 1/3")
            if abs(value * back - 1.0) > ROUNDING:
                wrong = "1" if row == column else f"{_entry_text(1.0 / back)}, as {names[column]} to {names[row]} is {_entry_text(back)}"
                raise ValueError(f"{place}: is {_entry_text(value)}; write {wrong}")
    reciprocal: FloatArray = np.sqrt(table / table.T)
    return reciprocal


def _entry_text(value: float) -> str:
    """`3`, or `1/3`."""
    return f"{value:.3g}" if value >= 1.0 else f"1/{1.0 / value:.3g}"
