"""Latency and seconds per byte of an allreduce, from messages that were timed on a machine that does other things as well."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Final

from hyperscale.model.runplan import AllreduceCost
from hyperscale.training.allreduce.schedule import ScheduleError

Sample = tuple[float, float]
"""Bytes of a message, seconds it took."""

ROUNDS: Final = 20
"""Of reweighting; it settles after about five."""
OUTLIER: Final = 3.0
"""A point counts less from this multiple of the typical relative residual on."""


PROBE_PARTS: Final = (1 / 256, 1 / 64, 1 / 16, 1 / 4, 1.0)
"""Of all gradients: the messages of any schedule lie in this range, and a straight line holds best where it was drawn."""
MOST_IN_A_ROW: Final = 8
"""Messages of one probe."""


def probes(sizes_bytes: Sequence[float]) -> tuple[tuple[float, int], ...]:
    """Messages worth timing for gradients of these sizes: bytes of one, whole floats, and how many to send in a row; smallest first.

    Messages of a step follow one another: one that is timed alone pays for waking up as well, which those in a row do not.
    """
    whole = max(math.fsum(sizes_bytes), 4.0)
    sizes = sorted({4.0 * max(1, round(whole * part / 4)) for part in PROBE_PARTS})
    return tuple((size, max(1, min(MOST_IN_A_ROW, round(whole / size)))) for size in sizes)


def fit(samples: Iterable[Sample], prior: AllreduceCost | None = None) -> AllreduceCost:
    """Both constants, neither below 0, by relative least squares over the medians of each size; outliers are weighted down (Huber).

    One size cannot tell latency from bandwidth: then `prior` is scaled to it, and without a prior the whole time counts as latency. Raises
    ScheduleError without a usable sample.
    """
    points = medians(samples)
    if not points:
        raise ScheduleError("no message was timed; give pairs of bytes (0 or more) and seconds (above 0)")
    return _scaled(points[0], prior) if len(points) == 1 else AllreduceCost(*_robust(points), measured=True)


def seconds(cost: AllreduceCost, size_bytes: float) -> float:
    """Of one message."""
    return cost.latency_seconds + cost.seconds_per_byte * size_bytes


def medians(samples: Iterable[Sample]) -> list[Sample]:
    """One point a size, smallest first; a median forgets the messages that waited for something else."""
    by_size: dict[float, list[float]] = {}
    for size, timed in samples:
        if math.isfinite(size) and math.isfinite(timed) and size >= 0 and timed > 0:
            by_size.setdefault(float(size), []).append(float(timed))
    return [(size, statistics.median(by_size[size])) for size in sorted(by_size)]


def _scaled(point: Sample, prior: AllreduceCost | None) -> AllreduceCost:
    size, timed = point
    expected = seconds(prior, size) if prior is not None else 0.0
    if prior is None or expected <= 0:
        return AllreduceCost(timed, 0.0, measured=True)
    factor = timed / expected
    return AllreduceCost(prior.latency_seconds * factor, prior.seconds_per_byte * factor, measured=True)


def _robust(points: Sequence[Sample]) -> tuple[float, float]:
    trust = [1.0] * len(points)
    alpha, beta = _weighted(points, trust)
    for _ in range(ROUNDS):
        residuals = [abs(alpha + beta * size - timed) / timed for size, timed in points]
        typical = max(statistics.median(residuals), 1e-9)
        trust = [min(1.0, OUTLIER * typical / residual) if residual > 0 else 1.0 for residual in residuals]
        alpha, beta = _weighted(points, trust)
    return alpha, beta


def _weighted(points: Sequence[Sample], trust: Sequence[float]) -> tuple[float, float]:
    """Least squares of relative residuals; where one constant would be negative it is 0 and the other is fitted alone."""
    weights = [part / (timed * timed) for part, (_, timed) in zip(trust, points, strict=True)]
    total = math.fsum(weights)
    size = math.fsum(weight * at for weight, (at, _) in zip(weights, points, strict=True)) / total
    timed = math.fsum(weight * took for weight, (_, took) in zip(weights, points, strict=True)) / total
    spread = math.fsum(weight * (at - size) ** 2 for weight, (at, _) in zip(weights, points, strict=True))
    together = math.fsum(weight * (at - size) * (took - timed) for weight, (at, took) in zip(weights, points, strict=True))
    beta = together / spread
    alpha = timed - beta * size
    if beta < 0:
        return timed, 0.0
    if alpha < 0:
        squares = math.fsum(weight * at * at for weight, (at, _) in zip(weights, points, strict=True))
        return 0.0, math.fsum(weight * at * took for weight, (at, took) in zip(weights, points, strict=True)) / squares
    return alpha, beta
