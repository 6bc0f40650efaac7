from __future__ import annotations

import math

import pytest

from hyperscale.model.api.policy import QualityLimits
from hyperscale.model.cluster import Quality
from hyperscale.observe.quality import DISAGREE, MIB, MISSING, STALE, Point, judge, rules

NOW = 1_800_000_000.0
RULES = rules(QualityLimits())


@pytest.mark.parametrize(
    ("figure", "value", "age", "fault"),
    [
        pytest.param("temperature", math.nan, 1, "not a number", id="0/0 in a recording rule"),
        pytest.param("temperature", math.inf, 1, "infinite", id="plus infinity"),
        pytest.param("temperature", -math.inf, 1, "infinite", id="minus infinity"),
        pytest.param("gpu_utilization", -1, 1, "negative", id="negative"),
        pytest.param("gpu_utilization", 101, 1, "above 100, which is not plausible", id="more than all"),
        pytest.param("temperature", 151, 1, "above 150, which is not plausible", id="molten"),
        pytest.param("power", 140737488355328.0, 1, "above 10000, which is not plausible", id="DCGM's blank float"),
        pytest.param("memory_used", 9.223372036854776e18, 1, "above 1.67772e+07, which is not plausible", id="DCGM's blank integer"),
        pytest.param("link_latency", 61, 1, "above 60, which is not plausible", id="a minute one way"),
        pytest.param("network_speed", 0, 1, "zero", id="a rate of zero"),
        pytest.param("gpu_utilization", 50, 121, STALE, id="stale"),
        pytest.param("gpu_utilization", 50, -61, "more than 60 s in the future", id="from the future"),
        pytest.param("gpu_utilization", 50, math.nan, "no usable timestamp", id="no time"),
        pytest.param("gpu_utilization", 50, -math.inf, "no usable timestamp", id="infinite time"),
    ],
)
def test_a_bad_point_is_unknown_with_its_fault_and_never_zero(figure: str, value: float, age: float, fault: str) -> None:
    sample = judge([Point(value, NOW - age)], RULES[figure], NOW, 120.0)
    assert (sample.value, sample.quality, sample.fault) == (None, Quality.UNKNOWN, fault)


def test_nothing_sampled_is_unknown_without_an_age() -> None:
    sample = judge([], RULES["xid"], NOW, 120.0)
    assert (sample.value, sample.age_seconds, sample.fault) == (None, None, MISSING)


@pytest.mark.parametrize(
    ("figure", "raw", "value"), [("gpu_utilization", 55, 0.55), ("memory_used", 1024, 1024 * MIB), ("xid", 0, 0), ("link_latency", 0, 0)]
)
def test_a_good_point_is_measured_in_base_units(figure: str, raw: float, value: float) -> None:
    sample = judge([Point(raw, NOW - 7)], RULES[figure], NOW, 120.0)
    assert sample.value == pytest.approx(value)
    assert (sample.age_seconds, sample.quality, sample.fault) == (7.0, Quality.MEASURED, None)


def test_equal_duplicates_are_one_sample_with_the_age_of_the_newest() -> None:
    sample = judge([Point(40, NOW - 20), Point(40, NOW - 5)], RULES["temperature"], NOW, 120.0)
    assert (sample.value, sample.age_seconds) == (40.0, 5.0)


def test_duplicates_that_disagree_cancel_each_other() -> None:
    sample = judge([Point(40, NOW - 20), Point(41, NOW - 5)], RULES["temperature"], NOW, 120.0)
    assert (sample.value, sample.fault) == (None, DISAGREE)


def test_a_stale_duplicate_left_behind_by_an_exporter_that_moved_does_not_count() -> None:
    sample = judge([Point(90, NOW - 500), Point(41, NOW - 5)], RULES["temperature"], NOW, 120.0)
    assert (sample.value, sample.age_seconds) == (41.0, 5.0)


def test_the_same_fault_has_the_same_words_whatever_the_age() -> None:
    faults = {judge([Point(1, NOW - age)], RULES["xid"], NOW, 120.0).fault for age in (121, 1000, 5000)}
    assert len(faults) == 1
