"""Linear regression by least squares: how a figure grows with others, with the error of each slope."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import msgspec
import numpy as np

from hyperscale.model.graph import FloatArray

INTERCEPT = "intercept"
MAX_COLUMNS: Final = 50


class Slope(msgspec.Struct, frozen=True, rename="camel"):
    """One coefficient."""

    name: str
    estimate: float
    """Units of the explained figure by one unit of this one."""
    error: float
    """Standard error."""
    low: float
    high: float
    """95 % interval."""
    p_value: float
    """Of a slope of 0, two-sided, by Student's t."""


class LinearFit(msgspec.Struct, frozen=True, rename="camel"):
    """A fitted line or plane."""

    explained: str
    slopes: tuple[Slope, ...]
    """The intercept first."""
    r_squared: float
    adjusted_r_squared: float
    residual_error: float
    """Standard deviation of what the line does not explain."""
    count: int


def fit(explained: str, values: FloatArray, columns: Mapping[str, FloatArray]) -> LinearFit:
    """Return the least-squares fit of (n,) values on an intercept and columns of shape (n,).

    Errors assume residuals of equal variance. Raises ValueError for constant values, a constant or dependent column, or too few values.
    """
    from scipy.special import stdtr, stdtrit

    if len(columns) > MAX_COLUMNS:
        raise ValueError(f"{len(columns)} columns explain {explained!r}; name at most {MAX_COLUMNS}")
    freedom = len(values) - len(columns) - 1
    if freedom < 1:
        raise ValueError(f"{len(values)} rows are too few for {len(columns)} columns and an intercept; give at least {len(columns) + 2}")
    if np.ptp(values) == 0.0:
        raise ValueError(f"column {explained!r} is constant: there is nothing to explain")
    design, sizes = _design(columns, len(values))
    inverse = np.linalg.inv(design.T @ design)
    solution = np.linalg.lstsq(design, values, rcond=None)[0]
    residual = float(((values - design @ solution) ** 2).sum())
    total = float(((values - values.mean()) ** 2).sum())
    variance = residual / freedom
    slopes = []
    for at, name in enumerate((INTERCEPT, *columns)):
        error = math.sqrt(variance * float(inverse[at, at])) / float(sizes[at])
        estimate = float(solution[at] / sizes[at])
        margin = float(stdtrit(freedom, 0.975)) * error
        p_value = float(2.0 * stdtr(freedom, -abs(estimate / error))) if error > 0.0 else float(estimate == 0.0)
        slopes.append(Slope(name, estimate, error, estimate - margin, estimate + margin, p_value))
    share = residual / total
    return LinearFit(explained, tuple(slopes), 1.0 - share, 1.0 - share * (len(values) - 1) / freedom, math.sqrt(variance), len(values))


def _design(columns: Mapping[str, FloatArray], count: int) -> tuple[FloatArray, FloatArray]:
    """(n, k + 1) columns over their largest magnitude, and those magnitudes (k + 1,)."""
    for name, column in columns.items():
        if np.ptp(column) == 0.0:
            raise ValueError(f"column {name!r} is constant; leave it out")
    plain = np.stack([np.ones(count), *columns.values()], axis=1)
    sizes: FloatArray = np.abs(plain).max(axis=0)
    design: FloatArray = plain / sizes
    if np.linalg.matrix_rank(design, tol=1e-10 * math.sqrt(count)) < design.shape[1]:
        raise ValueError(f"columns {', '.join(map(repr, columns))} depend on each other; leave one out")
    return design, sizes
