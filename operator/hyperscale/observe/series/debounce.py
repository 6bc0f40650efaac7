"""What a series' own past says of its newest point: frozen, jumped, unsteady. `history + reading -> reading + history`. Pure.

A reading may be fresh, finite and in range and still be wrong: an exporter that hangs repeats its last values under new timestamps
(gpu-monitoring-tools#188), a changed unit multiplies a figure by 1,000 and stays plausible, a single link measurement is noisy.
Histories are arrays, a few numbers a series, and exist for five figures only: 40,000 GPUs and 20,000 links take 10 MiB.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from hyperscale.model.api.policy import QualityLimits
from hyperscale.model.metrics_reading import MetricsReading
from hyperscale.observe.columns import Column, Labels, column
from hyperscale.observe.identity import Agents
from hyperscale.observe.quality import rules

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
CountArray = NDArray[np.int32]

FREEZING: Final = ("gpu_utilization", "temperature", "power")
"""All of these at once, bit by bit, on a GPU that works: power alone has milliwatts."""
JUMPING: Final = ("link_latency", "link_bandwidth")
"""Figures whose plausible range is wide enough for a changed unit; that of the others is not: 60 W in milliwatts is out of range."""
SMOOTHED: Final = ("link_latency", "link_bandwidth")
KEPT_AGES: Final = 3.0
"""Readings older than this multiple of the limit of age are no history any more."""
COMMON_SHARE: Final = 0.5
COMMON_LEAST: Final = 4
"""This number of series, and this share of all with a history, jump together when a unit changes; links fail one by one."""
SAME_LEVEL: Final = 2.0
"""Readings within this factor confirm each other's jump."""
SPREAD_WEIGHT: Final = 4.0
"""Confidence is 1 / (1 + 4 × spread): one half where the last readings differ from their median by a quarter."""
STEADY_SPREAD: Final = 0.02
"""Less is the measurement itself."""
MIN_HISTORY: Final = 2


@dataclass(frozen=True)
class Track:
    """The past of n series of one figure."""

    labels: tuple[Labels, ...] = ()
    values: FloatArray = field(default_factory=lambda: np.empty((0, 1)))
    """(n, w) accepted readings, newest last, NaN where there is none."""
    times: FloatArray = field(default_factory=lambda: np.empty((0, 1)))
    """(n, w) Unix seconds of their scrapes."""
    last: FloatArray = field(default_factory=lambda: np.empty(0))
    """(n,) newest reading, accepted or not."""
    scraped: FloatArray = field(default_factory=lambda: np.empty(0))
    """(n,) its time."""
    same: CountArray = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    """(n,) scrapes in a row that gave `last`, beside the first."""
    off_level: CountArray = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    """(n,) readings in a row that left the history for the same level."""


History = dict[str, Track]
"""By figure; {} before the first reading."""


def advance(history: History, reading: MetricsReading, limits: QualityLimits) -> tuple[MetricsReading, History]:
    """The reading with a verdict on every point whose past bears on it, and the past that includes the reading.

    A figure whose query failed keeps its past. Neither argument is changed.
    """
    agents = Agents(reading)
    series, later = dict(reading.series), dict(history)
    for figure in sorted({*FREEZING, *JUMPING, *SMOOTHED} & series.keys()):
        if not series[figure]:
            later.pop(figure, None)
            continue
        new = column(series[figure])
        track = _aligned(later.get(figure, Track()), new.labels, limits.window_readings)
        series[figure], later[figure] = _judged(figure, track, new, agents, limits, reading.taken_at)
    return replace(reading, series=series), later


def _aligned(track: Track, labels: tuple[Labels, ...], width: int) -> Track:
    """`track` with one row for every series found, in that order; new ones have no past, others are forgotten."""
    if track.values.shape[1] == width and labels == track.labels:  # compares by identity first: label sets are kept between readings
        return track
    rows = {each: row for row, each in enumerate(track.labels)}
    origin = np.array([rows.get(one, -1) for one in labels], dtype=np.int64)
    if track.values.shape[1] != width:
        origin[:] = -1
    has_past = origin >= 0

    def moved(array: NDArray[Any], blank: float) -> NDArray[Any]:
        array_now = np.full((len(labels), *((width,) if array.ndim == 2 else ())), blank, dtype=array.dtype)
        array_now[has_past] = array[origin[has_past]]
        return array_now

    return Track(
        labels=labels,
        values=moved(track.values, np.nan),
        times=moved(track.times, np.nan),
        last=moved(track.last, np.nan),
        scraped=moved(track.scraped, -np.inf),
        same=moved(track.same, 0),
        off_level=moved(track.off_level, 0),
    )


def _judged(figure: str, track: Track, new: Column, agents: Agents, limits: QualityLimits, now: float) -> tuple[Column, Track]:
    """One figure: its series with verdicts, and the track with this reading in it."""
    value, scraped = new.values, new.timestamps
    rule = rules(limits)[figure]
    sound: BoolArray = np.isfinite(value) & np.isfinite(scraped) & (value >= 0) & (value <= rule.maximum)
    fresh: BoolArray = sound & (scraped > track.scraped)
    past = np.where(track.times >= now - KEPT_AGES * limits.max_age_seconds, track.values, np.nan)
    repeated = fresh & (value == track.last)
    same: CountArray = np.where(repeated, track.same + 1, np.where(fresh, 0, track.same)).astype(np.int32)
    before = _past_level(past) if figure in JUMPING else np.full_like(value, np.nan)
    off_level = _off_level(track, value, past, before, fresh, limits) if figure in JUMPING else np.zeros_like(track.off_level)
    needed = limits.unit_readings if _together(off_level, past) else limits.jump_readings
    confirmed = off_level >= needed
    waiting = (off_level > 0) & ~confirmed
    accepted = fresh & ~waiting
    past = np.where(confirmed[:, None], np.nan, past)
    values, times = _pushed(past, accepted, value), _pushed(track.times, accepted, scraped)
    last, moment = np.where(fresh, value, track.last), np.where(fresh, scraped, track.scraped)
    later = Track(track.labels, values, times, last, moment, same, np.where(confirmed, 0, off_level).astype(np.int32))
    if figure not in SMOOTHED:
        frozen = same >= limits.freeze_readings
        return Column(new.labels, value, scraped, frozen=frozen if frozen.any() else None), later
    return _smoothed(new, values, sound, waiting, before, agents), later


def _off_level(track: Track, value: FloatArray, past: FloatArray, level: FloatArray, fresh: BoolArray, limits: QualityLimits) -> CountArray:
    """(n,) readings in a row up to this one that are far from the history's level and near each other."""
    enough = np.isfinite(past).sum(axis=1) >= min(MIN_HISTORY, past.shape[1])
    far = fresh & enough & _apart(value, level, limits.jump_ratio)
    again = (track.off_level > 0) & ~_apart(value, track.last, SAME_LEVEL)
    counted = np.where(far, np.where(again, track.off_level + 1, 1), np.where(fresh, 0, track.off_level))
    return counted.astype(np.int32)


def _together(off_level: CountArray, past: FloatArray) -> bool:
    """Whether too many series left their history for failures of single links."""
    with_past = int((np.isfinite(past).sum(axis=1) >= min(MIN_HISTORY, past.shape[1])).sum())
    jumped = int((off_level > 0).sum())
    return jumped >= max(COMMON_LEAST, COMMON_SHARE * with_past)


def _apart(left: FloatArray, right: FloatArray, factor: float) -> BoolArray:
    """(n,) whether two figures differ by at least `factor`; figures that are 0 or unknown differ from none."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.abs(np.log(left) - np.log(right))
    apart: BoolArray = np.isfinite(ratio) & (ratio >= np.log(factor) * (1 - 1e-12))
    return apart


def _past_level(past: FloatArray) -> FloatArray:
    """(n,) median of the known readings of each row; NaN where there is none."""
    ordered = np.sort(past, axis=1)  # NaN comes last
    counts = (~np.isnan(past)).sum(axis=1)
    rows = np.arange(len(past))
    lower, upper = ordered[rows, np.maximum(counts - 1, 0) // 2], ordered[rows, np.minimum(counts // 2, past.shape[1] - 1)]
    level: FloatArray = np.where(counts % 2 == 1, lower, (lower + upper) / 2)
    return level


def _pushed(window: FloatArray, rows: BoolArray, newest: FloatArray) -> FloatArray:
    """`window` with `newest` behind the others in `rows`."""
    moved = np.concatenate([window[:, 1:], newest[:, None]], axis=1)
    return np.where(rows[:, None], moved, window)


def _smoothed(new: Column, values: FloatArray, sound: BoolArray, waiting: BoolArray, before: FloatArray, agents: Agents) -> Column:
    """Series with the median of their window and how far its readings agree; agents smooth what they measure themselves.

    before: (n,) median of the history, which those that wait have left
    """
    middle = _past_level(values)
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = _past_level(np.abs(values - middle[:, None])) / middle
    counts = np.isfinite(values).sum(axis=1)
    usable = sound & (counts >= MIN_HISTORY) & ~waiting
    spread = np.where(usable & (counts >= 3) & np.isfinite(spread) & (spread > STEADY_SPREAD), spread, 0.0)
    confidence = np.round(1.0 / (1.0 + SPREAD_WEIGHT * spread), 1)
    better = usable & (middle != new.values)
    if agents:
        for row in np.flatnonzero(better).tolist():
            better[row] = not agents.exported(new.labels[row])
    faults = {row: _jump(float(new.values[row]), float(before[row])) for row in np.flatnonzero(waiting).tolist()}
    middles = np.where(better, middle, np.nan) if better.any() else None
    confidences = confidence if (confidence != 1.0).any() else None
    return Column(new.labels, new.values, new.timestamps, middles=middles, confidences=confidences, faults=faults)


def _jump(value: float, level: float) -> str:
    """Names the power of ten only: equal faults give equal digests."""
    return f"left its own history by about ×1e{round(np.log10(value / level)):+d} at once; not confirmed yet"
