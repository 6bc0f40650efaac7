"""Who is stopped for whom: only where it pays, none too soon, no more than others make use of, the same answer in any order."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hyperscale.model.api.policy import QueuePolicy
from hyperscale.planner.preempt.preempt import Advice, advise, feasible, margin_seconds
from hyperscale.planner.queue import rule
from hyperscale.planner.queue.forecast import Forecast
from hyperscale.planner.queue.kinds import Contender, KindDemand, best_seconds, rolled
from hyperscale.planner.queue.queue_policies import settings_of

QUICK = settings(max_examples=30, deadline=None)
FREE = st.tuples(st.integers(0, 4), st.integers(0, 4))
SECONDS = st.one_of(st.just(math.inf), st.integers(1, 20_000).map(float))
RULE = settings_of(QueuePolicy())
"""As PlannerPolicy has them by default."""
SETTINGS = st.tuples(*(st.sampled_from(figures) for figures in ((1.0, 2.6, 1000.0), (0.02, 0.5), (0.2, 0.9), (0.5, 1.0, 1.6)))).map(
    lambda knobs: RULE._replace(patience=knobs[0], thrift=knobs[1], thrift_alone=knobs[2], patience_costs=knobs[3])
)


@st.composite
def contenders(draw: st.DrawFn, most: int = 7) -> list[Contender]:
    jobs = []
    for number in range(draw(st.integers(1, most))):
        demands = tuple(
            KindDemand(gpus, (draw(SECONDS), draw(SECONDS)), draw(SECONDS))
            for gpus in sorted(draw(st.sets(st.integers(1, 4), min_size=1, max_size=3)))
        )
        job = Contender(f"job-{number}", demands, draw(st.sampled_from([1.0, 7.0])), start_seconds=draw(st.sampled_from([0.0, 60.0])))
        if draw(st.booleans()):
            held = draw(st.sampled_from([(1, 0), (0, 1), (2, 0), (0, 3), (1, 1)]))
            left = float(draw(st.integers(0, 20_000)))
            own = (KindDemand(sum(held), demands[0].seconds, demands[0].mixed_seconds),)
            job = replace(job, demands=own, gpus_by_kind=held, left_seconds=left, stoppable=draw(st.booleans()))
        else:
            job = replace(job, waited_seconds=float(draw(st.sampled_from([0, 5, 5000]))))
        jobs.append(job)
    return jobs


@QUICK
@given(contenders(), FREE, SETTINGS, st.data())
def test_the_compiled_roll_answers_as_the_rule_itself_bit_for_bit(
    jobs: list[Contender], free: tuple[int, int], knobs: rule.RuleSettings, data: st.DataObject
) -> None:
    stopped = {job.key for job in jobs if job.runs and data.draw(st.booleans())}
    known = feasible(jobs, free)
    stopped &= {job.key for job in known}
    compiled, plain = (Forecast(known, free, knobs, compiled=way) for way in (True, False))
    assert compiled.outcome(stopped) == plain.outcome(stopped) == rolled(known, free, knobs, stopped)
    assert compiled.mean_seconds(stopped) == plain.mean_seconds(stopped)


@QUICK
@given(contenders(), FREE, SETTINGS)
def test_stops_pay_touch_only_stoppable_jobs_and_none_could_be_left_out(
    jobs: list[Contender], free: tuple[int, int], knobs: rule.RuleSettings
) -> None:
    advice = advise(jobs, free, 0.1, knobs)
    stopped = {stop.key for stop in advice.stops}
    known = {job.key: job for job in feasible(jobs, free)}
    assert all(known[key].stoppable for key in stopped)
    if not stopped:
        return
    forecast = Forecast(list(known.values()), free, knobs)
    before, after = forecast.mean_seconds(), forecast.mean_seconds(stopped)
    margin = margin_seconds(list(known.values()), forecast.outcome().ends, 0.1)
    assert advice.saved_seconds == before - after > margin * len(stopped) * (1 - 1e-9)
    starts = forecast.outcome(stopped).starts
    for key in stopped:
        assert starts.get(key) != known[key].gpus_by_kind
        without = forecast.outcome(stopped - {key}).starts
        in_vain = any(without.get(other) == known[other].gpus_by_kind for other in stopped - {key})
        assert in_vain or forecast.mean_seconds(stopped - {key}) >= after
    assert {other for stop in advice.stops for other in stop.beneficiaries} <= starts.keys()


@QUICK
@given(contenders(), FREE, st.randoms(use_true_random=False))
def test_the_order_of_the_jobs_and_asking_again_change_nothing(jobs: list[Contender], free: tuple[int, int], random: object) -> None:
    shuffled = list(jobs)
    random.shuffle(shuffled)  # type: ignore[attr-defined] # hypothesis types its generator as object
    assert advise(shuffled, free, 0.1, RULE) == advise(jobs, free, 0.1, RULE)


def test_a_job_that_just_started_is_not_stopped_and_one_that_held_its_gpus_is() -> None:
    waiting = Contender("short", (KindDemand(1, (600.0,)),), waited_seconds=5.0)
    running = Contender("long", (KindDemand(1, (90_000.0,)),), start_seconds=60.0, gpus_by_kind=(1,), left_seconds=90_000.0)
    assert advise([waiting, running], (0,), 0.1, RULE) == Advice()
    advice = advise([waiting, replace(running, stoppable=True)], (0,), 0.1, RULE)
    assert [(stop.key, stop.beneficiaries) for stop in advice.stops] == [("long", ("short",))]
    assert advice.saved_seconds == pytest.approx((90_000.0 - 60.0 - 600.0) / 2)


def test_nobody_is_stopped_for_a_longer_job_nor_for_one_that_another_pending_job_would_outrun() -> None:
    running = Contender("running", (KindDemand(1, (1000.0,)),), start_seconds=60.0, gpus_by_kind=(1,), left_seconds=1000.0, stoppable=True)
    assert advise([running, Contender("longer", (KindDemand(1, (2000.0,)),))], (0,), 0.0, RULE) == Advice()
    assert advise([running, Contender("hardly shorter", (KindDemand(1, (990.0,)),))], (0,), 0.0, RULE) == Advice()


def test_weight_pays_for_a_stop() -> None:
    running = Contender("running", (KindDemand(1, (1000.0,)),), start_seconds=60.0, gpus_by_kind=(1,), left_seconds=1000.0, stoppable=True)
    advice = advise([running, Contender("urgent", (KindDemand(1, (2000.0,)),), weight=10.0)], (0,), 0.1, RULE)
    assert [stop.key for stop in advice.stops] == ["running"]


def test_two_jobs_on_the_wrong_kinds_change_places_without_anybody_waiting() -> None:
    """One gains little from the fast GPUs it has, the other much: both are stopped, the queue starts each where the other was."""
    even = Contender(
        "even", (KindDemand(1, (10_000.0, 9_500.0)),), start_seconds=60.0, gpus_by_kind=(0, 1), left_seconds=9_500.0, stoppable=True
    )
    steep = Contender(
        "steep", (KindDemand(1, (50_000.0, 5_000.0)),), start_seconds=60.0, gpus_by_kind=(1, 0), left_seconds=50_000.0, stoppable=True
    )
    advice = advise([even, steep], (0, 0), 0.1, RULE)
    assert [stop.key for stop in advice.stops] == ["even", "steep"]
    assert advice.stops[0].beneficiaries == ("steep", "even")
    assert advice.stops[1].beneficiaries == ("steep",)


def test_a_wide_job_gets_as_many_stops_as_it_needs_and_no_more() -> None:
    small = [
        Contender(f"small-{n}", (KindDemand(1, (50_000.0,)),), start_seconds=60.0, gpus_by_kind=(1,), left_seconds=50_000.0, stoppable=True)
        for n in range(4)
    ]
    advice = advise([*small, Contender("wide", (KindDemand(3, (300.0,)),), weight=5.0)], (1,), 0.1, RULE)
    assert len(advice.stops) == 2
    assert all(stop.beneficiaries == ("wide",) for stop in advice.stops)


def test_a_job_of_which_nothing_is_known_is_left_out() -> None:
    jobs = [Contender("nowhere", (KindDemand(8, (1.0,)),)), Contender("here", (KindDemand(1, (1.0,)),))]
    assert [job.key for job in feasible(jobs, (4,))] == ["here"]
    assert best_seconds(jobs[0], (4,)) == math.inf
    with pytest.raises(ValueError, match="every kind"):
        Forecast(jobs, (4, 4), RULE)


def drawn(random: np.random.Generator) -> tuple[list[Contender], list[int]]:
    """Jobs as clusters have them: two kinds of GPU, one up to six times as fast, five minutes to a day."""
    free = [int(gpus) for gpus in random.integers(2, 7, 2)]
    jobs = []
    for number in range(int(random.integers(6, 12))):
        gpus, fast = int(random.choice([1, 1, 2, 3])), float(10 ** random.uniform(2.5, 5.0))
        job = Contender(
            f"job-{number}", (KindDemand(gpus, (fast * float(random.uniform(1.0, 6.0)), fast)),), float(random.choice([1.0, 1.0, 5.0]))
        )
        kind = int(random.integers(0, 2))
        if number < 7 and free[kind] >= gpus:
            free[kind] -= gpus
            held = (gpus, 0) if kind == 0 else (0, gpus)
            job = replace(job, start_seconds=60.0, gpus_by_kind=held, left_seconds=job.demands[0].seconds[kind], stoppable=True)
        jobs.append(job)
    return feasible(jobs, free), free


def best_saving(jobs: list[Contender], free: list[int]) -> float:
    """Of all sets of stops, margins paid."""
    forecast = Forecast(jobs, free, RULE)
    base, held = forecast.mean_seconds(), {job.key: job.gpus_by_kind for job in jobs if job.stoppable}
    margin, best = margin_seconds(jobs, forecast.outcome().ends, 0.1), 0.0
    for count in range(1, len(held) + 1):
        for stops in combinations(held, count):
            starts = forecast.outcome(stops).starts
            if not any(starts.get(key) == held[key] for key in stops):
                best = max(best, base - forecast.mean_seconds(stops) - margin * count)
    return best


def test_the_search_finds_nearly_all_that_the_best_of_all_sets_of_stops_would_save() -> None:
    random, found, possible = np.random.default_rng(5), 0.0, 0.0
    for _ in range(40):
        jobs, free = drawn(random)
        forecast = Forecast(jobs, free, RULE)
        base, ends = forecast.mean_seconds(), forecast.outcome().ends
        advice = advise(jobs, free, 0.1, RULE)
        found += (advice.saved_seconds - margin_seconds(jobs, ends, 0.1) * len(advice.stops)) / base
        possible += best_saving(jobs, free) / base
    assert 0.99 * possible < found <= possible * (1 + 1e-9)


def carried_out(jobs: list[Contender], free: tuple[int, ...], advice: Advice) -> tuple[list[Contender], tuple[int, ...]]:
    """The same jobs right after the stops and the starts that the rule makes then."""
    stopped = {stop.key for stop in advice.stops}
    outcome = rolled(jobs, free, RULE, stopped)
    room, after = list(free), []
    for job in jobs:
        if job.key in stopped:
            room = [left + held for left, held in zip(room, job.gpus_by_kind, strict=True)]
            job = replace(job, gpus_by_kind=(), left_seconds=0.0, stoppable=False)
        if (taken := outcome.starts.get(job.key)) is not None:
            room = [left - gpus for left, gpus in zip(room, taken, strict=True)]
            own = next(demand for demand in job.demands if demand.gpus == sum(taken))
            job = replace(job, demands=(own,), gpus_by_kind=taken, left_seconds=outcome.ends[job.key], start_seconds=60.0, stoppable=True)
        after.append(job)
    return after, tuple(room)


@QUICK
@given(contenders(), FREE)
def test_nothing_goes_round_in_circles_even_without_hold_down(jobs: list[Contender], free: tuple[int, int]) -> None:
    """Every round of stops lowers the predicted mean by what was promised, and the next round starts from there: there is an end."""
    current: list[Contender] = feasible(jobs, free)
    room: tuple[int, ...] = free
    for _ in range(2 * len(jobs) + 2):
        advice = advise(current, room, 0.1, RULE)
        before = Forecast(current, room, RULE).mean_seconds()
        current, room = carried_out(current, room, advice)
        after = Forecast(current, room, RULE).mean_seconds()
        assert after == pytest.approx(before - advice.saved_seconds, rel=1e-9, abs=1e-6)
        if not advice.stops:
            return
    raise AssertionError("stops without end")


@pytest.mark.parametrize("claim_seconds", [1e5, 1e12])
def test_a_job_of_absurd_length_that_waits_keeps_no_other_job_from_being_stopped_for_short_ones(claim_seconds: float) -> None:
    def needs(seconds: float) -> tuple[KindDemand, ...]:
        return (KindDemand(4, (seconds,), seconds),)

    long = Contender("long", needs(40_000.0), 1.0, start_seconds=60.0, gpus_by_kind=(4,), left_seconds=20_000.0, stoppable=True)
    short = [Contender(f"short-{number}", needs(300.0), 1.0, start_seconds=60.0) for number in range(4)]
    absurd = Contender("absurd", needs(claim_seconds), 1.0, start_seconds=60.0)
    stops = [stop.key for stop in advise([long, *short], (0,), 0.1, RULE).stops]
    assert stops == ["long"]
    assert [stop.key for stop in advise([long, *short, absurd], (0,), 0.1, RULE).stops] == stops


def test_many_tiny_jobs_that_wait_take_nothing_from_the_margin() -> None:
    """They wait for another kind of GPU, and end within a second: the median end is theirs."""

    def needs(seconds: float, kind: int) -> tuple[KindDemand, ...]:
        return (KindDemand(4, tuple(seconds if at == kind else math.inf for at in range(2)), math.inf),)

    long = Contender("long", needs(40_000.0, 0), 1.0, start_seconds=60.0, gpus_by_kind=(4, 0), left_seconds=40_000.0, stoppable=True)
    other = Contender("other", needs(10.0, 1), 1.0, gpus_by_kind=(0, 4), left_seconds=1.0)
    tiny = [Contender(f"tiny-{number}", needs(0.001, 1), 1.0) for number in range(40)]
    jobs = [long, other, *tiny]
    ends = Forecast(jobs, (0, 0), RULE).outcome().ends
    assert margin_seconds(jobs, ends, 0.1) == pytest.approx(0.1 * sum(ends.values()) / len(jobs) / len(jobs))


def test_one_end_counts_as_sixteen_median_ones_at_most() -> None:
    jobs = [Contender(f"job-{number}", (KindDemand(1, (1.0,), 1.0),), 1.0) for number in range(5)]
    ends = {job.key: 100.0 for job in jobs}
    assert margin_seconds(jobs, ends | {"job-0": 1e12}, 0.1) == pytest.approx(0.1 * (4 * 100.0 + 1600.0) / 5 / 5)
