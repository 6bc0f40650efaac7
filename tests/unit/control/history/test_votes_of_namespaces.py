"""No namespace of three or more decides the correction of others, however many runs it has."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperscale.control.history.calibration import calibrate, heard
from hyperscale.control.history.run_store import RunStore
from tests.unit.control.history.test_finished_runs import history, server
from tests.unit.control.history.test_shared_curves import runs_of

__all__ = ["history", "server"]
LOGARITHMS = st.lists(st.floats(-2.5, 2.5), min_size=1, max_size=12)


@pytest.mark.parametrize("ratio", [1.0, 0.1, 3.3, 19.0])
@pytest.mark.parametrize("count", [24, 48, 49, 150])
def test_as_many_runs_as_all_others_together_decide_no_correction(history: RunStore, ratio: float, count: int) -> None:
    history.record([run for place, namespace in enumerate("abc") for run in runs_of(namespace, 16, 100 * place, measured_seconds=2.0)])
    history.record(runs_of("other", count, 1000, measured_seconds=ratio))
    ((known,),) = history.calibrations(5).values()
    assert (known.factor, known.spread) == (2.0, 0.0)


@pytest.mark.parametrize(("names", "left"), [("aabbb", "aabb"), ("aabbbbbc", "aabbc"), ("aabbbc", "aabbc"), ("abbbbc", "abc")])
def test_no_namespace_of_three_has_half_of_the_votes(names: str, left: str) -> None:
    assert "".join(heard([(name, name) for name in names], 1)) == left


@given(st.lists(LOGARITHMS, min_size=2, max_size=5), LOGARITHMS, st.integers(1, 9))
def test_whatever_one_namespace_reports_the_factor_is_between_those_of_others(
    honest: list[list[float]], forged: list[float], times: int
) -> None:
    runs = [("forged", value) for value in forged * times] + [(str(place), value) for place, own in enumerate(honest) for value in own]
    known = calibrate("A100", [math.exp(value) for _, value in runs], [namespace for namespace, _ in runs])
    alone = [math.log(calibrate("A100", [math.exp(value) for value in own]).factor) for own in honest]
    assert min(alone) - 1e-5 <= math.log(known.factor) <= max(alone) + 1e-5


def test_namespaces_whose_levels_differ_are_stated_with_a_range_that_covers_their_runs() -> None:
    chance = np.random.default_rng(3)
    levels = {"a": -0.3, "b": 0.0, "c": 0.3}
    runs = [(name, level + float(chance.normal(0.0, 0.03))) for _ in range(15) for name, level in levels.items()]
    known = calibrate("A100", [math.exp(value) for _, value in runs], [name for name, _ in runs])
    middle = math.log(known.factor)
    assert statistics.mean(abs(value - middle) <= 2.0 * known.spread for _, value in runs) >= 0.95
