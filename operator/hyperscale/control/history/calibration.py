"""What finished runs teach predictions: the correction of an epoch, and the measured steps of a workload."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeVar

import msgspec

from hyperscale.evaluate.calibration.widening import MIN_RUNS, ONE_SIGMA, WINDOW, covering
from hyperscale.model.history.step_curves import LARGEST_SPREAD, Step
from hyperscale.model.plan import MIN_SPREAD, Calibration
from hyperscale.planner.cost.agreed_spread import MIN_NAMESPACES, agreed_spread, between_others

SAME_AS_SIGMA: Final = 1.4826
"""Median absolute deviation to standard deviation of a normal distribution."""
FAR_APART: Final = 0.5
"""Of the two middle logarithms: half of the runs contradict the other half, and those nearer to the prediction are believed."""
MIN_BEFORE: Final = 5
"""Runs before one that its error is measured by."""
Entry = TypeVar("Entry")


class MeasuredStep(NamedTuple):
    """What one run teaches about the steps of its workload."""

    uid: str
    step: Step
    predicted_seconds: float
    """Of the step, uncorrected."""
    namespace: str = ""

    @property
    def ratio(self) -> float:
        """Measured / uncorrected prediction."""
        return self.step.step_seconds / self.predicted_seconds


class _Rank(msgspec.Struct):
    node: str
    gpus: int


class _Placement(msgspec.Struct):
    workers: tuple[_Rank, ...]


def placement(plan: str) -> dict[str, int]:
    """GPUs by node of a plan's JSON; empty where it cannot be read."""
    try:
        decoded = msgspec.json.decode(plan, type=_Placement)
    except (msgspec.DecodeError, RecursionError):
        return {}
    gpus: dict[str, int] = {}
    for worker in decoded.workers:
        gpus[worker.node] = gpus.get(worker.node, 0) + worker.gpus
    return gpus if all(count > 0 for count in gpus.values()) else {}


def heard(entries: Sequence[tuple[str, Entry]], least: int) -> tuple[Entry, ...]:
    """The lessons of entries with their namespaces, newest first, in which each namespace has fewer than all others together.

    Of two it has at most as many as the other. It keeps its newest, and `least` of them however few others have: as many as a lesson
    needs. A single namespace keeps all.
    """
    counts = Counter(namespace for namespace, _ in entries)
    if len(counts) <= 1:
        return tuple(lesson for _, lesson in entries)
    fewer = int(len(counts) > 2)  # half of the votes would decide a median
    allowed = {namespace: max(least, len(entries) - count - fewer) for namespace, count in counts.items()}
    kept: list[Entry] = []
    taken = Counter[str]()
    for namespace, lesson in entries:
        taken[namespace] += 1
        if taken[namespace] <= allowed[namespace]:
            kept.append(lesson)
    return tuple(kept)


def heard_steps(runs: Sequence[MeasuredStep], least: int) -> tuple[MeasuredStep, ...]:
    """The steps of runs, newest first, of which no namespace has half where there are three, as `heard` says."""
    return heard([(run.namespace, run) for run in runs], least)


def calibrate(products: str, ratios: Sequence[float], namespaces: Sequence[str] = ()) -> Calibration:
    """Median and spread of measured / predicted, oldest first; a single wild run moves neither. ValueError without any ratio above 0.

    With enough runs the spread is that which would have covered 68 of 100 of them, each predicted from the ones before it. It is
    LARGEST_SPREAD at most.
    namespaces: of the runs; no single one of several decides the spread, and none of three or more the median: it is between the medians
    of others. Empty: all are of one
    """
    owners = namespaces or [""] * len(ratios)
    counted = [(owner, math.log(ratio)) for owner, ratio in zip(owners, ratios, strict=True) if ratio > 0.0 and math.isfinite(ratio)]
    logarithms = [logarithm for _, logarithm in counted]
    if not logarithms:
        raise ValueError("a calibration needs at least one run with a measured and a predicted epoch")
    by_owner = _by_owner(counted)
    middle, spread = _middle_and_spread(logarithms)
    if len(by_owner) >= MIN_NAMESPACES:
        middle = between_others(middle, [_middle_and_spread(own)[0] for own in by_owner])
    widening = _widening(logarithms)
    if widening > 1.0:
        spread = widening * max(spread, MIN_SPREAD)
    if len(by_owner) > 1:
        spread = agreed_spread(spread, [_spread_about(middle, own) for own in by_owner])
    return Calibration(products, float(f"{math.exp(middle):.6g}"), float(f"{min(spread, LARGEST_SPREAD):.6g}"), len(logarithms))


def spread_of(distances: Sequence[float]) -> float:
    """Return the standard deviation of runs by their distances from the middle; from MIN_RUNS on what covers 68 of 100 is the least."""
    ranked = sorted(distances)
    place = min(len(ranked), math.ceil(ONE_SIGMA * (len(ranked) + 1))) - 1
    return max(SAME_AS_SIGMA * statistics.median(ranked), ranked[place] if len(ranked) >= MIN_RUNS else 0.0)


def _by_owner(counted: Sequence[tuple[str, float]]) -> list[list[float]]:
    logarithms: dict[str, list[float]] = {}
    for owner, logarithm in counted:
        logarithms.setdefault(owner, []).append(logarithm)
    return list(logarithms.values())


def _spread_about(middle: float, logarithms: Sequence[float]) -> float:
    """Not about their own middle: namespaces whose levels differ would promise a range that covers the runs of none."""
    return spread_of([abs(value - middle) for value in logarithms])


def _middle_and_spread(logarithms: Sequence[float]) -> tuple[float, float]:
    middles = statistics.median_low(logarithms), statistics.median_high(logarithms)
    middle = min(middles, key=abs) if middles[1] - middles[0] > FAR_APART else statistics.median(logarithms)
    return middle, SAME_AS_SIGMA * statistics.median(abs(value - middle) for value in logarithms)


def _widening(logarithms: Sequence[float]) -> float:
    """The factor of the spread at which the newest runs are covered, each by the runs before it; 1 from too few."""
    errors = []
    for place in range(max(MIN_BEFORE, len(logarithms) - WINDOW), len(logarithms)):
        middle, spread = _middle_and_spread(logarithms[:place])
        errors.append((logarithms[place] - middle) / max(spread, MIN_SPREAD))
    return covering(errors) if len(errors) >= MIN_RUNS else 1.0
