"""From raw points of one figure to a `Sample` that can be trusted or says why not. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from hyperscale.model.api.policy import QualityLimits
from hyperscale.model.cluster import Quality, Sample
from hyperscale.model.metrics_reading import Verdict
from hyperscale.observe.identity import rank

MIB: Final = 1024 * 1024
FUTURE_SECONDS: Final = 60.0
"""A sample may be this far ahead of our clock: NTP keeps machines closer, a scrape takes less."""

SPEEDS: Final = ("network_speed", "infiniband_speed")
USES: Final = ("network_received", "network_sent", "infiniband_received", "infiniband_sent")

MISSING: Final = "no sample"
STALE: Final = "older than the limit"
FROZEN: Final = "the same for many scrapes although the GPU works: the exporter repeats itself"
DISAGREE: Final = "duplicate series disagree"


class Point(NamedTuple):
    """One value of one series, unchecked."""

    value: float
    timestamp: float
    """Unix seconds."""
    source: str = ""
    """Who says so; see `Origin`."""
    verdict: Verdict | None = None
    """What the series' past says of this point."""


class QualityRule(NamedTuple):
    """What is plausible for one figure."""

    scale: float
    """Multiplies the raw value into the unit of the `Sample`."""
    maximum: float
    """Largest plausible raw value."""
    positive: bool = False
    """True where 0 cannot be: a rate of 0 would mean that nothing was measured or nothing gets through."""
    whole: bool = False
    """True where the scaled value is a count (bytes, XID number)."""


def rules(limits: QualityLimits) -> dict[str, QualityRule]:
    """The rule of every figure, raw units as in the queries: percent, MiB, degrees Celsius, watts, seconds, bytes a second."""
    memory = QualityRule(scale=MIB, maximum=16.0 * 1024 * 1024, whole=True)  # 16 TiB; DCGM's blank value is 2^63 - 16
    return {
        "gpu_utilization": QualityRule(scale=0.01, maximum=100.0),
        "memory_used": memory,
        "memory_free": memory,
        "memory_reserved": memory,
        "temperature": QualityRule(scale=1.0, maximum=limits.max_temperature_celsius),
        "power": QualityRule(scale=1.0, maximum=10_000.0),  # DCGM's blank value is 1.4e14
        "xid": QualityRule(scale=1.0, maximum=100_000.0, whole=True),
        "link_latency": QualityRule(scale=1.0, maximum=limits.max_latency_seconds),
        # 0 is a figure: a link that was measured and is dead.
        "link_bandwidth": QualityRule(scale=1.0, maximum=limits.max_bandwidth_bytes_per_second),
        "link_loss": QualityRule(scale=1.0, maximum=1.0),
        "agent_state": QualityRule(scale=1.0, maximum=1.0),
        "gpu_paths": QualityRule(scale=1.0, maximum=64.0, positive=True, whole=True),
        **dict.fromkeys(SPEEDS, QualityRule(scale=1.0, maximum=limits.max_bandwidth_bytes_per_second, positive=True)),
        **dict.fromkeys(USES, QualityRule(scale=1.0, maximum=limits.max_bandwidth_bytes_per_second)),
    }


def unknown(fault: str, age_seconds: float | None = None, source: str = "") -> Sample:
    """A sample without a value, and why."""
    return Sample(value=None, age_seconds=age_seconds, quality=Quality.UNKNOWN, fault=fault, source=source, confidence=0.0)


def judge(points: Sequence[Point], rule: QualityRule, now: float, max_age_seconds: float) -> Sample:
    """The one sample that `points` of the same thing amount to.

    Points that are out of date or out of range do not count when a sound one exists (an exporter that moved leaves old series
    behind), nor do those of a source that comes later in the precedence. Sound ones of one source that differ cancel each other.
    The age is that of the newest point. Never raises; never answers 0 for something that was not measured.
    """
    if not points:
        return unknown(MISSING)
    if len(points) == 1:
        return _sample(points[0], _fault(points[0], rule, now, max_age_seconds), rule, now)
    judged = sorted(((_age(point, now), point, _fault(point, rule, now, max_age_seconds)) for point in points), key=_newest_first)
    sound = [point for _, point, fault in judged if fault is None]
    if not sound:
        _, newest, fault = judged[0]
        return _sample(newest, fault, rule, now)
    first = min(rank(point.source) for point in sound)
    sound = [point for point in sound if rank(point.source) == first]
    if any(point.value != sound[0].value for point in sound):
        return unknown(DISAGREE, _age(sound[0], now), sound[0].source)
    return _sample(sound[0], None, rule, now)


def _sample(point: Point, fault: str | None, rule: QualityRule, now: float) -> Sample:
    """One point that was found sound, or at fault, in base units."""
    age = _age(point, now)
    if fault is not None:
        return unknown(fault, age, point.source)
    verdict = point.verdict
    middle = None if verdict is None else verdict.middle
    value = middle if middle is not None and 0 <= middle <= rule.maximum and (middle > 0 or not rule.positive) else point.value
    scaled = value * rule.scale
    return Sample(
        value=float(round(scaled)) if rule.whole else scaled,
        age_seconds=age,
        quality=Quality.MEASURED,
        source=point.source,
        confidence=1.0 if verdict is None else verdict.confidence,
    )


def _newest_first(entry: tuple[float | None, Point, str | None]) -> tuple[bool, float, str, int, str, float, float]:
    """Sort key that does not depend on the order of series; an unreadable timestamp comes last."""
    age, point, fault = entry
    verdict = point.verdict or _PLAIN
    middle = math.inf if verdict.middle is None else verdict.middle
    return age is None, age or 0.0, fault or "", rank(point.source), point.source, middle, verdict.confidence


_PLAIN: Final = Verdict()


def _age(point: Point, now: float) -> float | None:
    """Seconds since the point was taken, not below 0; None when its timestamp is no time."""
    age = now - point.timestamp
    return max(0.0, age) if math.isfinite(age) else None


def _fault(point: Point, rule: QualityRule, now: float, max_age_seconds: float) -> str | None:
    """The first thing wrong with a point, or None. Texts carry limits, not ages: equal faults give equal digests."""
    value, age = point.value, now - point.timestamp
    earlier_fault = None if point.verdict is None else point.verdict.fault
    # The usual case first, in one comparison that NaN fails: a large cluster has a quarter of a million points.
    if 0 <= value <= rule.maximum and -FUTURE_SECONDS <= age <= max_age_seconds and not (rule.positive and value == 0):
        return earlier_fault
    checks = (
        (math.isnan(value), "not a number"),
        (math.isinf(value), "infinite"),
        (value < 0, "negative"),
        (rule.positive and value == 0, "zero"),
        (value > rule.maximum, f"above {rule.maximum:g}, which is not plausible"),
        (not math.isfinite(age), "no usable timestamp"),
        (age > max_age_seconds, STALE),
        (age < -FUTURE_SECONDS, f"more than {FUTURE_SECONDS:g} s in the future"),
    )
    return next(fault for wrong, fault in checks if wrong)
