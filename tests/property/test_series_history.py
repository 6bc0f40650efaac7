"""Invariants of judging series by their own past."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from hyperscale.model.api.policy import QualityLimits
from hyperscale.model.cluster import MetricsState
from hyperscale.model.metrics_reading import MetricsReading, Series
from hyperscale.observe.series.debounce import History, advance

NOW = 1_800_000_000.0
FAST = settings(max_examples=50, deadline=None)
LIMITS = QualityLimits(freeze_readings=3)
FIGURES = ("gpu_utilization", "power", "link_latency", "link_bandwidth")

values = st.one_of(st.floats(), st.sampled_from([0.0, 1e-4, 0.1, 50.0, 1e9, 1e12, math.nan, math.inf, -1.0]))
stamps = st.one_of(st.floats(NOW - 300, NOW + 300), st.floats())
names = st.sampled_from(["a", "b", "c", "d"])
points = st.dictionaries(names, st.tuples(values, stamps), max_size=4)
readings = st.lists(st.dictionaries(st.sampled_from(FIGURES), points), min_size=1, max_size=6)


def reading(moment: int, figures: dict[str, dict[str, tuple[float, float]]], backwards: bool = False) -> MetricsReading:
    series = {
        figure: tuple(Series({"node": name}, value, stamp) for name, (value, stamp) in sorted(found.items(), reverse=backwards))
        for figure, found in figures.items()
    }
    return MetricsReading(NOW + moment, MetricsState(True), series)


@FAST
@given(readings)
def test_nothing_is_added_lost_or_changed_but_verdicts(given_readings: list[dict[str, dict[str, tuple[float, float]]]]) -> None:
    history: History = {}
    for moment, figures in enumerate(given_readings):
        before = reading(moment, figures)
        after, history = advance(history, before, LIMITS)
        assert after.series.keys() == before.series.keys()
        for figure, found in before.series.items():
            kept = after.series[figure]
            assert [(one.labels, repr(one.value), repr(one.timestamp)) for one in kept] == [
                (one.labels, repr(one.value), repr(one.timestamp)) for one in found
            ]
            verdicts = [one.verdict for one in kept if one.verdict is not None]
            assert all(0.0 < verdict.confidence <= 1.0 for verdict in verdicts)
            assert all(verdict.middle is None or (math.isfinite(verdict.middle) and verdict.middle >= 0) for verdict in verdicts)


@FAST
@given(readings)
def test_the_order_of_series_changes_no_verdict(given_readings: list[dict[str, dict[str, tuple[float, float]]]]) -> None:
    histories: list[History] = [{}, {}]
    for moment, figures in enumerate(given_readings):
        told = []
        for side in (0, 1):
            after, histories[side] = advance(histories[side], reading(moment, figures, bool(side)), LIMITS)
            told.append({(figure, one.labels["node"]): one.verdict for figure, found in after.series.items() for one in found})
        assert told[0] == told[1]


@FAST
@given(st.floats(1e-6, 1.0), st.lists(st.floats(0.8, 1.25), min_size=1, max_size=12))
def test_a_figure_that_stays_near_its_level_is_never_held_back(level: float, noise: list[float]) -> None:
    history: History = {}
    for moment, factor in enumerate(noise):
        after, history = advance(history, reading(moment, {"link_latency": {"a": (level * factor, NOW + moment)}}), LIMITS)
        verdict = after.series["link_latency"][0].verdict
        assert verdict is None or (verdict.fault is None and verdict.confidence >= 0.4)
