"""Steps and corrections that a namespace cannot make up for others: absurd runs, floods of runs and floods of workloads."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperscale.control.history.calibration import calibrate, heard, heard_steps
from hyperscale.control.history.run_store import MOST_RUNS, MOST_WORKLOADS, RunStore
from hyperscale.control.history.runs_table import FinishedRun
from hyperscale.model.history.step_curves import LARGEST_SPREAD
from hyperscale.planner.cost.agreed_spread import PRIOR_SPREAD
from tests.unit.control.history.test_finished_runs import history, plan_json, run, server

__all__ = ["history", "server"]


def runs_of(namespace: str, count: int, begin: int, **changes: object) -> list[FinishedRun]:
    numbers = range(begin, begin + count)
    return [run(number, uid=f"{namespace}-{number}", namespace=namespace, plan=plan_json(2), **changes) for number in numbers]


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=80), st.integers(1, 20))
def test_no_namespace_of_three_is_heard_as_much_as_all_others_together(namespaces: list[str], least: int) -> None:
    kept = heard([(namespace, number) for number, namespace in enumerate(namespaces)], least)
    counts, before = Counter(namespaces[number] for number in kept), Counter(namespaces)
    assert list(kept) == sorted(kept)
    for namespace, count in before.items():
        others = len(namespaces) - count - (len(before) > 2)
        assert counts[namespace] == (min(count, max(least, others)) if len(before) > 1 else count)
        own = [number for number, name in enumerate(namespaces) if name == namespace]
        assert [number for number in kept if number in own] == own[: counts[namespace]], "its newest"


@pytest.mark.parametrize("ratio", [1e6, 21.0, 0.04])
def test_absurd_runs_teach_neither_steps_nor_corrections_however_many(history: RunStore, ratio: float) -> None:
    history.record(runs_of("victim", 12, 0))
    history.record(runs_of("attacker", 300, 100, measured_seconds=ratio))
    (steps,) = history.steps(12).values()
    assert {one.ratio for one in steps} == {2.0}
    ((known,),) = history.calibrations(5).values()
    assert (known.factor, known.spread, known.runs) == (2.0, 0.0, 12)


def test_a_flood_of_runs_of_one_workload_is_no_more_than_the_others(history: RunStore) -> None:
    history.record(runs_of("victim", 30, 0))
    for begin in range(100, 1100, 200):
        history.record(runs_of("attacker", 200, begin, measured_seconds=19.0))
    (steps,) = history.steps(12).values()
    assert Counter(one.ratio for one in heard_steps(steps, 12)) == {2.0: 30, 19.0: 30}
    ((known,),) = history.calibrations(5).values()
    assert (known.factor, known.runs) == (2.0, 60)
    assert known.spread <= PRIOR_SPREAD


def test_one_run_of_another_namespace_leaves_a_tenant_what_a_curve_needs(history: RunStore) -> None:
    history.record([*runs_of("tenant", 40, 0), *runs_of("other", 1, 100)])
    (steps,) = history.steps(12).values()
    assert [one.uid for one in heard_steps(steps, 12)] == ["other-100", *(f"tenant-{number}" for number in range(39, 27, -1))]


def test_a_single_namespace_has_all_the_newest_runs_of_a_workload(history: RunStore) -> None:
    history.record(runs_of("team", MOST_RUNS + 10, 0))
    (steps,) = history.steps(12).values()
    assert [one.uid for one in steps] == [f"team-{number}" for number in range(MOST_RUNS + 9, 9, -1)]


@pytest.mark.parametrize("placed", [True, False], ids=["sound", "plans that cannot be read"])
def test_many_workloads_of_a_namespace_do_not_push_out_those_of_another(history: RunStore, placed: bool) -> None:
    history.record([*runs_of("victim", 5, 0), *runs_of("victim", 5, 10, hidden_size=64)])
    for size in range(1000, 1140):
        rows = runs_of("attacker", 5, 10 * size, hidden_size=size)
        history.record(rows if placed else [run(0, uid=row.uid, namespace="attacker", hidden_size=size) for row in rows])
    found = [workload.hidden_size for workload in history.steps(5)]
    assert {64, 256} <= set(found)
    assert len(found) == (MOST_WORKLOADS if placed else 2)


def test_only_the_workloads_asked_for_are_read(history: RunStore) -> None:
    history.record([*runs_of("team", 5, 0), *runs_of("team", 5, 10, hidden_size=64)])
    every = history.steps(5)
    (asked, other) = sorted(every, key=lambda workload: workload.hidden_size)
    assert history.steps(5, {asked._replace(products="")}) == {asked: every[asked]}
    assert history.steps(5, ()) == {}
    assert other in every


def test_where_half_of_the_runs_contradict_the_other_half_those_near_the_prediction_count() -> None:
    assert calibrate("A100", [1.1, 19.0] * 20).factor == 1.1
    assert calibrate("A100", [19.0, 1.1] * 20).factor == 1.1


def test_no_spread_spans_more_than_says_that_nothing_is_foretold() -> None:
    assert calibrate("A100", [math.exp((-1) ** place * 2.9) for place in range(41)]).spread == LARGEST_SPREAD
