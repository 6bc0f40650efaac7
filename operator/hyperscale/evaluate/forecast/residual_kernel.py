"""Which runs teach each other how much: covariances of ln(measured / physical) between runs, one for each reason to be alike.

A hierarchical model written as a Gaussian process (Rasmussen & Williams 2006, section 2.7): each component is a random level or
slope shared by all runs with the same key.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from hyperscale.evaluate.forecast.forecast_types import ForecastQuestion, ForecastRun
from hyperscale.evaluate.forecast.novelty import MIN_SPREAD, vectors
from hyperscale.model.graph import FloatArray

Asked = ForecastRun | ForecastQuestion


class Component(NamedTuple):
    """One reason why the residuals of two runs are alike."""

    basis: str
    """Which function of the run the shared coefficient multiplies; see `bases`."""
    key: tuple[str, ...]
    """Fields that two runs must have in common to share the coefficient."""
    variance: float
    """Of the coefficient, before any run."""


SLOPE: Final = 0.01
"""A prior standard deviation of 0.1 in the exponent of ranks."""
STEP: Final = 0.005
"""Of an effect of one number of ranks: 7 %."""

SHARE: Final = 0.1
"""A prior standard deviation of 0.3 between an epoch of pure communication and one without any."""

COMPONENTS: Final[tuple[Component, ...]] = (
    Component("level", (), 1.0),
    Component("level", ("architecture",), 0.5),
    Component("level", ("system",), 0.5),
    Component("level", ("dataset",), 0.5),
    Component("level", ("kind",), 0.5),
    Component("level", ("gpu_product",), 0.1),
    Component("level", ("architecture", "system"), 0.2),
    Component("level", ("job",), 0.2),
    Component("level", ("architecture", "kind"), 0.1),
    Component("level", ("kind", "dataset"), 0.1),
    Component("level", ("system", "dataset"), 0.05),
    Component("level", ("job", "kind"), 0.05),
    Component("level", ("job", "system"), 0.05),
    Component("doublings", (), 2 * SLOPE),
    *(
        Component("doublings", key, SLOPE)
        for key in (
            ("system",),
            ("architecture", "system"),
            ("dataset",),
            ("job",),
            ("kind",),
            ("kind", "dataset"),
            ("job", "system"),
        )
    ),
    *(Component("others", key, SLOPE) for key in (("kind",), ("system",), ("architecture", "system"), ("job", "system"))),
    *(
        Component("several", ("ranks", *key), STEP)
        for key in (
            (),
            ("dataset",),
            ("kind",),
            ("kind", "dataset"),
            ("system",),
            ("architecture", "system"),
            ("job",),
            ("job", "kind"),
        )
    ),
    Component("hosts", (), 2 * SLOPE),
    Component("hosts", ("system",), 2 * SLOPE),
    Component("communication", (), SHARE),
    Component("communication", ("architecture",), SHARE),
    Component("communication", ("gpu_product",), SHARE),
    Component("communication", ("job",), SHARE),
    Component("level", ("job", "gpu_product"), 0.05),
    Component("doublings", ("job", "gpu_product"), SLOPE),
    Component("physical", (), 0.1),
    Component("physical", ("kind",), 0.1),
    Component("physical", ("architecture", "kind"), 0.1),
)
"""Levels; exponents of ranks; effects of having other ranks, of one number of ranks and of several hosts; the part of communication.

The last three are exponents of the physical model. They undo the winner's curse: a plan is the least of many noisy predictions, so that
it is too low. The history shows how far low predictions are to be believed, as its residuals fall with the prediction itself.
Prior variances are round numbers, not fitted: levels by factors of 1.2 to 2.7, exponents by 0.1 to 0.3.
"""

SHAPES: Final[tuple[Component, ...]] = tuple(
    Component("shape", key, 0.02) for key in ((), ("gpu_product",), ("architecture",), ("system",), ("job",), ("job", "gpu_product"))
)
"""Smooth functions of ranks, hosts and the part of communication, by what shares one."""

SHAPE_LENGTHS: Final = (1.5, 1.5, 1.5)
"""Doublings of ranks, doublings of hosts and ln(communication / rest) over which a smooth function changes.

With own factors of compute and communication, ln(seconds) steps from one to the other over a few units of the last.
"""
MIN_SHARE: Final = 0.01
"""Of communication, below which it is as good as none."""

SMOOTH: Final = 0.1
LINEAR: Final = 0.02
"""Prior variances of a smooth and of a linear function of all figures together."""


@dataclass(frozen=True)
class Rows:
    """What the kernel reads of n runs."""

    keys: dict[tuple[str, ...], list[tuple[object, ...]]]
    """By key of a component, the value of each run."""
    bases: dict[str, FloatArray]
    """By basis, (n,) what the shared coefficient of each run is multiplied with."""
    shape: FloatArray
    """(n, 3) ranks, hosts and communication, in units of `SHAPE_LENGTHS`."""
    figures: FloatArray
    """(n, f) standardised logarithms, 0 for unknown."""
    noise_groups: list[tuple[object, ...]]
    """(n,) runs of one group repeat equally well."""


@dataclass(frozen=True)
class Standard:
    """Mean and spread of each figure over the runs that teach."""

    mean: FloatArray
    spread: FloatArray

    @classmethod
    def of(cls, runs: Sequence[Asked]) -> Standard:
        """(f,) each; a figure that never varies says nothing, and one that hardly does counts as if it varied by `MIN_SPREAD`.

        Without that bound a question of 20 % more is hundreds of standard deviations away from nearly equal runs.
        """
        figures, _ = vectors(runs)
        stated = np.isfinite(figures)
        count = np.maximum(stated.sum(axis=0), 1)
        mean = np.where(stated, figures, 0.0).sum(axis=0) / count
        spread = np.sqrt((np.where(stated, figures - mean, 0.0) ** 2).sum(axis=0) / count)
        return cls(mean, np.where(spread > 1e-6, np.maximum(spread, MIN_SPREAD), np.inf))


def rows_of(runs: Sequence[Asked], standard: Standard) -> Rows:
    """What the kernel reads of `runs`, standardised as the runs that teach."""
    fields = [_fields(run) for run in runs]
    keys = {component.key: [tuple(field[name] for name in component.key) for field in fields] for component in (*COMPONENTS, *SHAPES)}
    logarithms, _ = vectors(runs)
    figures = np.nan_to_num((logarithms - standard.mean) / standard.spread, nan=0.0)
    groups: list[tuple[object, ...]] = [(field["architecture"], field["system"]) for field in fields]
    bases = _bases(runs) | {"physical": logarithms[:, -1] - standard.mean[-1]}
    placed = np.array([[math.log2(run.ranks), math.log2(run.hosts)] for run in runs]).reshape(len(runs), 2)
    share = np.clip(bases["communication"], MIN_SHARE, 1.0 - MIN_SHARE)
    shape = np.column_stack([placed, np.log(share / (1.0 - share))]) / np.array(SHAPE_LENGTHS)
    return Rows(keys, bases, shape, figures, groups)


def _fields(run: Asked) -> dict[str, object]:
    features = run.features
    sampled = np.isfinite(features.fanout) or np.isfinite(features.batch_size)
    return {
        "architecture": features.architecture,
        "system": features.system,
        "dataset": features.dataset,
        "job": (features.architecture, features.dataset, features.layers, features.hidden_size),
        "gpu_product": features.gpu_product,
        "kind": bool(sampled),
        "ranks": run.ranks,
    }


def _bases(runs: Sequence[Asked]) -> dict[str, FloatArray]:
    ranks = np.array([run.ranks for run in runs], dtype=np.float64)
    shares = np.array([run.communication_seconds / run.physical_seconds for run in runs])
    return {
        "communication": np.nan_to_num(shares, nan=0.0),
        "level": np.ones(len(runs)),
        "doublings": np.log2(ranks),
        "others": 1.0 - 1.0 / ranks,
        "several": (ranks > 1).astype(np.float64),
        "hosts": np.array([float(run.hosts > 1) for run in runs]),
    }


def components(left: Rows, right: Rows) -> Iterator[FloatArray]:
    """(n, m) of each component between n and m runs, at its prior variance; the last two are of the figures."""
    shared = {key: _shared(left, right, key) for key in left.keys}
    for basis, key, variance in COMPONENTS:
        yield variance * np.outer(left.bases[basis], right.bases[basis]) * shared[key] if basis != "level" else variance * shared[key]
    near = np.exp(-0.5 * _squares(left.shape, right.shape))
    for _, key, variance in SHAPES:
        yield variance * near * shared[key]
    width = max(1, left.figures.shape[1])
    yield SMOOTH * np.exp(-_squares(left.figures, right.figures) / width)
    yield LINEAR * (left.figures @ right.figures.T) / width


def matrices(left: Rows, right: Rows) -> FloatArray:
    """(c, n, m) all components."""
    return np.array(list(components(left, right)))


def covariance(factors: FloatArray, left: Rows, right: Rows) -> FloatArray:
    """(n, m) of all components together; `factors` (c,) multiply their prior variances."""
    total = np.zeros((len(left.figures), len(right.figures)))
    for factor, component in zip(factors, components(left, right), strict=True):
        total += factor * component
    return total


def _shared(left: Rows, right: Rows, key: tuple[str, ...]) -> FloatArray:
    """(n, m) 1 where two runs have the same key."""
    codes: dict[tuple[object, ...], int] = {}
    first, second = (np.array([codes.setdefault(value, len(codes)) for value in rows.keys[key]]) for rows in (left, right))
    same: FloatArray = (first[:, None] == second[None, :]).astype(np.float64)
    return same


def _squares(left: FloatArray, right: FloatArray) -> FloatArray:
    """(n, m) squared distances of rows."""
    squares = (left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1)[None, :] - 2.0 * left @ right.T
    distances: FloatArray = np.maximum(squares, 0.0)
    return distances


def diagonals(rows: Rows) -> FloatArray:
    """(c, n) of each component between a run and itself."""
    width = max(1, rows.figures.shape[1])
    own = [variance * rows.bases[basis] ** 2 for basis, _, variance in COMPONENTS]
    own += [np.full(len(rows.figures), variance) for _, _, variance in SHAPES]
    return np.array([*own, np.full(len(rows.figures), SMOOTH), LINEAR * (rows.figures**2).sum(axis=1) / width])
