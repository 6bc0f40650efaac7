"""How nodes fail, as their own lives say: a law fitted to enough failures, else the published rate corrected by what was counted."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from hyperscale.evaluate.calibration.lessons import NodeLife
from hyperscale.evaluate.pipeline.evaluation_question import (
    ASSUMED_FAILURES,
    ASSUMED_REPAIR_SECONDS,
    DAY_SECONDS,
    FailureAssumption,
    assumed_failures,
    constant_rate,
    of_table,
)
from hyperscale.evaluate.twin.failure_table import UnitRecord
from hyperscale.evaluate.twin.fit_laws import MIN_SHAPE_EVENTS

PRIOR_FAILURES: Final = 1.0
"""Failures that the published rate weighs as: its node-days are those in which it expects this number."""
MIN_REPAIRS: Final = 5
PER: Final = 1_000.0
"""Node-days that a rate is stated for."""
HALF: Final = 0.025
"""On each side of a 95 % interval."""


class RateBounds(NamedTuple):
    """Failures per 1,000 node-days."""

    mean: float
    low: float
    """95 % bounds."""
    high: float


def learned_failures(lives: Sequence[NodeLife], until_seconds: float) -> FailureAssumption:
    """Return how the nodes of these lives fail, all of one kind, observed until then (Unix seconds)."""
    records = [record for life in lives if (record := _record(life, until_seconds)) is not None]
    node_days = sum((until_seconds if r.remove_seconds is None else r.remove_seconds) - r.insert_seconds for r in records) / DAY_SECONDS
    failures = sum(record.failed for record in records)
    if node_days <= 0.0:
        return assumed_failures()
    rate, counted = posterior_rate(failures, node_days), exact_rate(failures, node_days)
    alone = f"{failures} failures in {node_days:.0f} node-days of such nodes, {_text(counted)} per {PER:,.0f} node-days"
    repair = repair_seconds(records)
    if failures < MIN_SHAPE_EVENTS:
        learned = constant_rate(
            rate.mean,
            f"Learned: {alone} alone; with the published {ASSUMED_FAILURES:.2f} of 16,000 A100 (arXiv 2410.21680), which weighs as "
            f"{PRIOR_FAILURES:g} failure, {_text(rate)} are taken.",
        )
        return replace(learned, repair_seconds=repair)
    fitted = of_table(records, until_seconds)
    return FailureAssumption(fitted.laws, f"Learned: {alone}. {fitted.source}", repair_seconds=repair, age_seconds=fitted.age_seconds)


def learned_repair(lives: Sequence[NodeLife], until_seconds: float) -> float:
    """Return how long a repair of these nodes takes, observed until then (Unix seconds)."""
    return repair_seconds([record for life in lives if (record := _record(life, until_seconds)) is not None])


def repair_seconds(records: Sequence[UnitRecord]) -> float:
    """Return the median time from a failure until the node was in service again; the assumed one from fewer than `MIN_REPAIRS`."""
    gaps = []
    down: dict[str, float] = {}
    for record in sorted(records, key=lambda each: each.insert_seconds):
        failed = down.pop(record.location, None)
        if failed is not None:
            gaps.append(record.insert_seconds - failed)
        if record.remove_seconds is not None and record.failed:
            down[record.location] = record.remove_seconds
    return max(0.0, statistics.median(gaps)) if len(gaps) >= MIN_REPAIRS else ASSUMED_REPAIR_SECONDS


def posterior_rate(failures: int, node_days: float) -> RateBounds:
    """Return the rate after `failures` in `node_days`, with the published rate as gamma prior (conjugate to Poisson counts)."""
    from scipy.special import gammaincinv

    shape, days = PRIOR_FAILURES + failures, PER * PRIOR_FAILURES / ASSUMED_FAILURES + node_days
    low, high = (PER * float(gammaincinv(shape, part)) / days for part in (HALF, 1.0 - HALF))
    return RateBounds(PER * shape / days, low, high)


def exact_rate(failures: int, node_days: float) -> RateBounds:
    """Return the counted rate with exact bounds of a Poisson mean (Garwood 1936). ValueError for node-days that are not above 0."""
    from scipy.special import gammaincinv

    if not node_days > 0.0:
        raise ValueError(f"{node_days} node-days: a rate needs a time above 0")
    low = float(gammaincinv(failures, HALF)) if failures else 0.0
    return RateBounds(PER * failures / node_days, PER * low / node_days, PER * float(gammaincinv(failures + 1, 1.0 - HALF)) / node_days)


def _text(rate: RateBounds) -> str:
    return f"{rate.mean:.3g} ({rate.low:.2g} to {rate.high:.2g})"


def _record(life: NodeLife, until_seconds: float) -> UnitRecord | None:
    """None for a life that says nothing yet."""
    end = until_seconds if life.remove_seconds is None else life.remove_seconds
    if not life.insert_seconds < end <= until_seconds:
        return None
    return UnitRecord(0, life.node, life.insert_seconds, life.remove_seconds, life.cause)
