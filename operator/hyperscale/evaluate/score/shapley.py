"""Exact Shapley shares: what each component adds to a value, on average over all orders in which components may join.

All 2^n subsets are asked for once, and sums are fractions. Figures lie on one grid of 2^-53 of the largest value, so that shares can be
floats and still add up to the value to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Final, NamedTuple

MAX_COMPONENTS: Final = 10
"""2^10 subsets; each one may be a fit."""


class Shares(NamedTuple):
    """Shares of a value in the order of the components."""

    names: tuple[str, ...]
    exact: tuple[Fraction, ...]
    """Their sum is `value - empty`."""
    shares: tuple[float, ...]
    """`exact` on the grid, rounded by largest remainder: math.fsum((empty, *shares)) == value."""
    value: float
    """Of all components; on the grid, which moves a value below half the largest one by less than 2^-53 of that one."""
    empty: float
    """Of none; on the grid."""


def shapley(names: Sequence[str], value: Callable[[frozenset[str]], float]) -> Shares:
    """Return each component's share of `value` (Shapley 1953).

    value: of any subset of the names, finite; asked once for each of the 2^n, by size and order of names.
    Raises ValueError for no or more than 10 components, a name twice, or a value that is not finite.
    """
    count = len(names)
    if not 1 <= count <= MAX_COMPONENTS or len(set(names)) < count:
        raise ValueError(f"{count} components: give 1 to {MAX_COMPONENTS}, each once")
    figures = _figures(names, value)
    grid = _grid(list(figures.values()))
    values = {members: round(Fraction(figure) / grid) for members, figure in figures.items()}
    chances = [Fraction(math.factorial(size) * math.factorial(count - size - 1), math.factorial(count)) for size in range(count)]
    units = []
    for name in names:
        without = [members for members in values if name not in members]
        units.append(sum((chances[len(members)] * (values[members | {name}] - values[members]) for members in without), Fraction(0)))
    whole, empty = values[frozenset(names)], values[frozenset()]
    rounded = _largest_remainder(units, whole - empty)
    exact = tuple(unit * grid for unit in units)
    return Shares(tuple(names), exact, tuple(float(each * grid) for each in rounded), float(whole * grid), float(empty * grid))


def _figures(names: Sequence[str], value: Callable[[frozenset[str]], float]) -> dict[frozenset[str], float]:
    """The value of every subset, the smallest subsets first."""
    figures = {}
    for size in range(len(names) + 1):
        for members in combinations(names, size):
            figures[frozenset(members)] = figure = float(value(frozenset(members)))
            if not math.isfinite(figure):
                raise ValueError(f"the value of {{{', '.join(members)}}} is {figure}; give a finite one")
    return figures


def _grid(figures: Sequence[float]) -> Fraction:
    """The last bit of the largest value; twice that where values have both signs, as a share may then be twice as large."""
    _, exponent = math.frexp(max(abs(figure) for figure in figures))
    return Fraction(2) ** (max(exponent, -1000) - 53 + (min(figures) < 0.0))


def _largest_remainder(units: Sequence[Fraction], total: int) -> list[int]:
    """Whole numbers of sum `total`, each next to its fraction; the largest fractional parts are rounded up, the first of equal ones."""
    floors = [math.floor(unit) for unit in units]
    order = sorted(range(len(units)), key=lambda at: (floors[at] - units[at], at))
    for at in order[: total - sum(floors)]:
        floors[at] += 1
    return floors
