"""Step time curves fitted to measured steps, and whether one foretells steps that it has not seen. Pure; slow: not for an event loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from hyperscale.model.graph import FloatArray, IntArray
from hyperscale.model.history.step_curves import (
    LARGEST_EXPONENT,
    MOST_REMEMBERED,
    NODE_CLASSES,
    LinkClass,
    PlaceEffect,
    ShapeWeight,
    Step,
    StepTime,
    node_class,
)
from hyperscale.planner.cost.agreed_spread import agreed_spread
from hyperscale.planner.cost.place_effects import learnt_effects
from hyperscale.planner.cost.shared_form import common_rows, soft_loss, votes
from hyperscale.planner.cost.steptime import SHORTEST_SECONDS, Design, curve_seconds, gradient, predict, split_seconds

LEAST_ROWS: Final = 12
"""Below this a fit of as many figures says nothing."""

LEAST_PLACEMENTS: Final = 3
"""Unlike ones, by GPUs on each node: fewer do not say what a placement costs."""

PRIOR_WEIGHT: Final = 0.3
"""Weight of a row that holds a link's figure near its first guess. Chosen on splits that no published table uses."""

MOST_EVALUATIONS: Final = 60
"""Of the curve, from one first guess: later ones change the fourth digit of an error, and only noise needs them."""

HOPS: Final = 4.0
"""Hops whose latency together is weighed like a step."""

LINKS: Final = slice(4, None)
"""Where the figures of the links are in the vector of `figures`."""

FOLDS: Final = 4
"""Parts of the rows that are held out in turn."""

SAME_AS_SIGMA: Final = 1.4826
"""Median absolute deviation to standard deviation of a normal distribution."""

LARGEST_ERROR: Final = 0.5
"""Of ln(measured / predicted) held out: a curve that errs by more goes between runs that contradict each other, and foretells none."""

ROBUST_SCALE: Final = 0.1
"""Errors of 10 % count fully, larger ones less: a step that another tenant's traffic held up must not bend the curve."""


def fit(rows: Sequence[Step]) -> StepTime:
    """The curve nearest to measured `rows` in ln(seconds), large errors counting less. ValueError: too few rows, or seconds not above 0."""
    if len(rows) < LEAST_ROWS:
        raise ValueError(f"a step time curve needs {LEAST_ROWS} measured steps, not {len(rows)}")
    _check(rows)
    return _fitted(rows)


def _check(rows: Sequence[Step]) -> None:
    if any(not row.gpus or min(row.gpus) < 1 or not 0.0 < row.step_seconds < math.inf or not 0.0 < row.batch < math.inf for row in rows):
        raise ValueError("a measured step needs GPUs on every node it names, a batch and seconds above 0")


def learn(rows: Sequence[Step], plain_seconds: Sequence[float], namespaces: Sequence[str] = ()) -> StepTime | None:
    """The curve of `rows` where it predicts held-out rows better than one factor does; None otherwise, or with too few rows.

    plain_seconds: (n,) of each row's step by the cost model, which the factor corrects: the median of measured / plain.
    Rows are held out singly and by whole placements, so that neither the memory of one placement nor the form alone decides. Only rows
    within the curve's reach are judged, as only plans within it are predicted. `log_error` is the spread of the larger error held out; None
    where it is beyond LARGEST_ERROR.
    namespaces: of the rows; no single one of several decides `log_error`, or an effect of a shape or placement, and only rows within what
    two of them measured count. Empty: all are of one
    """
    if len(set(namespaces)) <= 1:
        return _learnt(rows, plain_seconds, ())
    kept = common_rows(rows, namespaces)
    common = [rows[row] for row in kept]
    curve = _learnt(common, [plain_seconds[row] for row in kept], [namespaces[row] for row in kept])
    return replace(curve, most_nodes=max(len(row.gpus) for row in common)) if curve is not None else None


def _learnt(rows: Sequence[Step], plain_seconds: Sequence[float], namespaces: Sequence[str]) -> StepTime | None:
    """The curve of all these rows, as `learn` says."""
    placements = sorted({row.counts for row in rows})
    if len(rows) < LEAST_ROWS or len(placements) < LEAST_PLACEMENTS:
        return None
    _check(rows)
    order = sorted(range(len(rows)), key=lambda index: (rows[index].counts, rows[index].name, rows[index].step_seconds, index))
    ordered = [rows[index] for index in order]
    owners = _in_order(namespaces, order)
    plain = np.log([plain_seconds[index] for index in order])
    spreads = []
    for folds in (np.arange(len(rows)), np.array([placements.index(row.counts) for row in ordered])):
        ours, factor, asked = _held_out(ordered, plain, folds % FOLDS, owners)
        if len(ours) and np.abs(ours).mean() >= np.abs(factor).mean():
            return None
        spreads.append(_spread(ours, _in_order(owners, asked)) if len(ours) else -1.0)
    return _remembering(_fitted(ordered, owners), max(spreads)) if spreads[0] >= 0.0 else None


def _in_order(namespaces: Sequence[str], rows: Sequence[int]) -> list[str]:
    """Of these rows; empty where all are of one namespace, or none is named."""
    return [namespaces[row] for row in rows] if len(set(namespaces)) > 1 else []


def _spread(errors: FloatArray, owners: Sequence[str]) -> float:
    """Of errors held out; within what two namespaces say where several have rows."""
    pooled = SAME_AS_SIGMA * float(np.median(np.abs(errors)))
    if not owners:
        return pooled
    own = [np.array([owner == each for owner in owners]) for each in sorted(set(owners))]
    return agreed_spread(pooled, [SAME_AS_SIGMA * float(np.median(np.abs(errors[rows]))) for rows in own])


def _remembering(curve: StepTime, log_error: float) -> StepTime | None:
    """The curve with this error and its largest effects; None where that is too large, or a figure out of the type's ranges."""
    if log_error > LARGEST_ERROR:
        return None
    largest = sorted(curve.effects.items(), key=lambda entry: (-abs(entry[1].compute) - abs(entry[1].sync), entry[0]))
    return _sound(replace(curve, log_error=float(f"{log_error:.6g}"), effects=dict(sorted(largest[:MOST_REMEMBERED]))))


def _sound(curve: StepTime) -> StepTime | None:
    """The curve where its figures are within the type's ranges; None where one is out of range."""
    try:
        return msgspec.json.decode(msgspec.json.encode(curve), type=StepTime)
    except msgspec.ValidationError:
        return None


def _held_out(rows: Sequence[Step], plain: FloatArray, fold: IntArray, owners: Sequence[str]) -> tuple[FloatArray, FloatArray, list[int]]:
    """(m,) errors in ln(seconds), of the curve and of the factor, on rows of each fold by what the other folds taught; and these rows."""
    measured = np.log([row.step_seconds for row in rows])
    ours: list[float] = []
    factor: list[float] = []
    judged: list[int] = []
    for number in range(FOLDS):
        training_rows = np.flatnonzero(fold != number)
        if len(training_rows) < LEAST_ROWS // 2 or len(training_rows) == len(rows):
            continue
        training = training_rows.tolist()
        curve = _fitted([rows[index] for index in training], _in_order(owners, training))
        asked = np.array([index for index, row in enumerate(rows) if fold[index] == number and curve.reaches(row.gpus)], dtype=np.int64)
        ours += (np.log(predict(curve, [rows[index] for index in asked.tolist()])) - measured[asked]).tolist()
        factor += (plain[asked] + np.median(measured[training_rows] - plain[training_rows]) - measured[asked]).tolist()
        judged += asked.tolist()
    return np.array(ours), np.array(factor), judged


def _fitted(rows: Sequence[Step], owners: Sequence[str] = ()) -> StepTime:
    design = Design.of(rows)
    measured = np.log([row.step_seconds for row in rows])
    best = form(rows, owners)
    error = measured - np.log(curve_seconds(best, design))
    shapes, effects = learnt_effects(rows, _sensitivity(best, design), error, owners)
    return _named(best, float(np.sqrt(np.mean(error * error))), effects, shapes, rows)


def form(rows: Sequence[Step], owners: Sequence[str] = ()) -> FloatArray:
    """Return (14,) the figures of `steptime.figures`, without effects; owners: namespaces of the rows, none where all are of one."""
    design, measured = Design.of(rows), np.log([row.step_seconds for row in rows])
    scale = float(np.median(np.exp(measured)))
    loss = soft_loss(votes(rows, owners)) if owners else "soft_l1"
    solutions = [_solve(design, measured, _guess(design, measured, exponent), scale, loss) for exponent in (1.2, 2.5, 6.0)]
    return min(solutions, key=lambda pair: pair[1])[0]


def _guess(design: Design, measured: FloatArray, exponent: float) -> FloatArray:
    """A straight line through the fastest steps for the arithmetic, the median of what is left for each class."""
    seconds = np.exp(measured)
    slope = max(1e-9, (np.percentile(seconds, 90) - np.percentile(seconds, 10)) / max(1.0, float(np.ptp(design.batch))))
    lone = design.members[0] > 0
    shortest = float(seconds[lone].min()) if lone.any() else float(seconds.min()) / 2.0
    vector = [shortest / 2.0, slope / 2.0, 0.01, exponent]
    for member in design.members:
        own = seconds[member > 0]
        over = max(float(np.median(own)) - shortest, 0.1 * shortest) if len(own) else shortest
        vector += [0.1 * over, 0.01 * over, 0.5 * over]
    return np.array([*vector, 0.01 * shortest])


def _solve(
    design: Design, measured: FloatArray, guess: FloatArray, scale: float, loss: str | Callable[[FloatArray], FloatArray]
) -> tuple[FloatArray, float]:
    """Figures and cost. What the rows say little of stays near `guess`: a class with one placement has three figures."""
    from scipy.optimize import least_squares  # some 35 MB that an operator whose history teaches no curve does without

    low = np.zeros(len(guess))
    high = np.full(len(guess), np.inf)
    low[0], low[3], high[3] = 1e-9, 1.0, LARGEST_EXPONENT
    sizes = np.full(len(guess), scale)
    sizes[1] = scale / max(1.0, float(design.batch.max()))
    sizes[2] = sizes[3] = 1.0
    start = np.clip(guess, low + 1e-12, high)
    pull = PRIOR_WEIGHT / sizes[LINKS]
    pull[1::3] *= HOPS  # one hop is a small part of a step
    towards = np.zeros((len(pull), len(guess)))
    towards[:, LINKS] = np.diag(pull)

    def errors(vector: FloatArray) -> FloatArray:
        return np.concatenate([np.log(curve_seconds(vector, design)) - measured, pull * (vector - start)[LINKS]])

    def slopes(vector: FloatArray) -> FloatArray:
        return np.concatenate([gradient(vector, design), towards])

    robust = {"loss": loss, "f_scale": ROBUST_SCALE, "max_nfev": MOST_EVALUATIONS}
    solved = least_squares(errors, start, slopes, bounds=(low, high), x_scale=sizes, **robust)
    return solved.x, float(solved.cost)


def _sensitivity(vector: FloatArray, design: Design) -> FloatArray:
    """(n, 2) how much of a step grows with its arithmetic, and how much with its allreduce: d ln(step) / d ln(part)."""
    compute, sync = split_seconds(vector, design)
    largest = np.maximum(np.maximum(compute, sync), SHORTEST_SECONDS)
    powers = np.stack([(compute / largest) ** vector[3], (sync / largest) ** vector[3]], axis=1)
    parts: FloatArray = powers / powers.sum(axis=1, keepdims=True)
    return parts


def _named(
    vector: FloatArray, log_error: float, effects: Mapping[str, PlaceEffect], shapes: tuple[ShapeWeight, ...], rows: Sequence[Step]
) -> StepTime:
    figures = [float(value) for value in vector]
    links = []
    for kind in range(NODE_CLASSES):
        totals = [sum(row.gpus) for row in rows if node_class(row.gpus) == kind]
        fixed, hop, volume = figures[4 + 3 * kind : 7 + 3 * kind]
        links.append(LinkClass(fixed, hop, volume, min(totals, default=0), max(totals, default=0)))
    base, sample, straggle, exponent = figures[:4]
    return StepTime(base, sample, straggle, exponent, tuple(links), figures[-1], log_error, len(rows), dict(effects), shapes)
