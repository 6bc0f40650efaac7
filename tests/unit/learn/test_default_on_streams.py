"""`order: Auto` on simulated streams: the agent decides where it was judged, by the same figures as in the operator."""

from __future__ import annotations

from importlib import resources
from typing import Final

import numpy as np
import pytest
from msgspec.structs import replace

from hyperscale.learn.streams.guard_streams import BOUND_RUNS, BOUNDED, HARD, HARD_CONDITIONS, guarded, held_out, under_bounds
from hyperscale.learn.streams.policy_guard import MIN_STREAMS
from hyperscale.learn.streams.scenario import Conditions, RecordedJobs, draw
from hyperscale.learn.streams.simulator import FEATURES, OPERATORS_RULE, PARAMETERS, Policy, Simulator, agent, auto, index
from hyperscale.learn.streams.stream_lesson import network_of
from hyperscale.model.graph import FloatArray
from hyperscale.planner.queue.arrival_history import arrived, gap_variation, has_run, load, seconds_on_arrival
from hyperscale.planner.queue.likeness import MIN_ARRIVALS, FigureRange, JudgedStreams
from hyperscale.planner.queue.queue_agent import load_agent
from hyperscale.planner.queue.queue_types import ArrivalHistory, ClusterState, Option, PendingJob

NETWORK: Final = network_of(load_agent(resources.files("hyperscale.planner.learned") / "weights"))[0]
STREAM: Final = Conditions("zones", 0.9, 80)
SEED: Final = 5
STREAMS: Final = 50
"""On fewer, chance decides whether the shipped agent is accepted."""
ANY: Final = FigureRange(0.0, 1e300)
EVERYWHERE: Final = JudgedStreams(ANY, ANY, ANY, ANY, ANY, ANY)
NONE: Final = FigureRange(-2.0, -1.0)
RULE_FLAG: Final = 25
"""The feature of a candidate that says whether the rule would choose it."""


def decision_times(simulator: Simulator, policy: Policy) -> FloatArray:
    """(D,) seconds at which the agent chose."""
    simulator.run(policy, record=True)
    times: FloatArray = simulator.stream.recorded()[3]
    return times


def like_after_arrivals(simulator: Simulator, judged: JudgedStreams) -> list[bool]:
    """After every arrival, as the operator reckons: whether load and gaps are those of the judged streams."""
    arrival, _, best, area = simulator.stream.jobs_table()
    nodes = len(draw(STREAM, SEED).speed)
    history, like = ArrivalHistory(), []
    for gap, seconds, need in zip(np.diff(arrival, prepend=0.0).tolist(), best.tolist(), area.tolist(), strict=True):
        history = arrived(history, PendingJob("job", (Option(1, need, need), Option(10**6, seconds, seconds))), gap)
        gaps = judged.gap_variation
        assert gaps is not None
        alike = judged.load.holds(load(ClusterState(0, nodes, history=history))) and gaps.holds(gap_variation(history))
        like.append(alike and history.arrivals >= MIN_ARRIVALS)
    return like


class MeanRun:
    """The mean run as the operator reckons, from arrival to arrival and from end to end."""

    def __init__(self, best: list[float], start: list[float]) -> None:
        self._best, self._start = best, start
        self.history = ArrivalHistory()
        self._counted: dict[int, float] = {}

    def _has_run(self, job: int, now: float) -> bool:
        return self._start[job] < now and now - self._start[job] >= self.history.run_seconds

    def at(self, now: float, came: list[int]) -> float:
        """At one time, with the jobs that came then."""
        for job in sorted(self._counted, key=lambda job: self._start[job]):
            if self._has_run(job, now):
                self.history = has_run(self.history, self._best[job], self._counted.pop(job))
        for job in came:
            seconds = self._best[job]
            counts = seconds_on_arrival(self.history, seconds)
            self.history = arrived(self.history, PendingJob("job", (Option(1, seconds, seconds),)), 1.0)
            self._counted |= {job: counts} if counts < seconds else {}
        return self.history.run_seconds


def test_the_simulator_counts_jobs_of_absurd_length_as_the_operator_does() -> None:
    count = 60
    work = np.random.default_rng(SEED).lognormal(6.0, 1.0, count)
    work[[4, 30, 31, 50]] *= 1e4
    ones = np.ones(count, dtype=np.int64)
    simulator = Simulator(SEED, Conditions("zones", 0.9, count), recorded=RecordedJobs(np.ones(count), work, ones, ones, np.ones(count)))
    arrival, _, best, _ = simulator.stream.jobs_table()
    seen = {0.0}
    simulator.stream.begin()
    while simulator.stream.advance():
        seen.add(simulator.stream.view()[2][5])
        simulator.stream.act(0)
    start, finish = simulator.stream.outcome()[:2]
    mean, expected = MeanRun(best.tolist(), start.tolist()), {0.0}
    for now in sorted({*arrival.tolist(), *finish.tolist()}):
        expected.add(mean.at(now, np.flatnonzero(arrival == now).tolist()))
    assert len(seen) > 20
    assert all(min(abs(one - other) for other in expected) <= 1e-9 * one for one in seen)
    assert mean.history.run_seconds < float(best.mean()) / 5.0


@pytest.mark.parametrize(
    "judged",
    [
        EVERYWHERE,
        replace(EVERYWHERE, load=FigureRange(0.0, 0.7)),
        replace(EVERYWHERE, gap_variation=FigureRange(0.0, 1.1)),
    ],
    ids=["everywhere", "low load", "even gaps"],
)
def test_the_agent_chooses_only_while_the_arrivals_are_like_those_that_it_was_judged_on(judged: JudgedStreams) -> None:
    simulator = Simulator(SEED, STREAM)
    arrival = simulator.stream.jobs_table()[0]
    like = like_after_arrivals(simulator, judged)
    assert any(like)
    assert not all(like)
    times = decision_times(simulator, auto(NETWORK, judged))
    assert len(times)
    came = np.searchsorted(arrival, times, side="right")
    assert all(like[count - 1] for count in came.tolist())


@pytest.mark.parametrize(
    "judged",
    [
        replace(EVERYWHERE, load=NONE),
        replace(EVERYWHERE, nodes=NONE),
        replace(EVERYWHERE, worker_slots=NONE),
        replace(EVERYWHERE, speed_spread=NONE),
        replace(EVERYWHERE, largest_share=NONE),
        replace(EVERYWHERE, least_bound_runs=1000.0),
    ],
    ids=["load", "nodes", "slots", "speeds", "largest job", "a shorter bound on waiting"],
)
def test_elsewhere_every_choice_is_the_rules(judged: JudgedStreams) -> None:
    simulator = Simulator(SEED, replace_bound(STREAM, 16.0))
    rule, own = simulator.run(index(OPERATORS_RULE)), simulator.run(auto(NETWORK, judged))
    assert own.start.tolist() == rule.start.tolist()
    always = simulator.run(agent(NETWORK))
    assert always.start.tolist() != rule.start.tolist()


def replace_bound(conditions: Conditions, runs: float) -> Conditions:
    """The same under a starvation bound."""
    return Conditions(conditions.family, conditions.load, conditions.jobs, starvation_runs=runs)


def test_an_accepted_agent_is_judged_under_starvation_bounds_too() -> None:
    streams = held_out(HARD_CONDITIONS, STREAMS)
    assert {stream.conditions.starvation_runs for stream in under_bounds(streams)} == {*BOUND_RUNS}
    verdict, like = guarded(agent(NETWORK), {HARD: streams}, "test")
    assert verdict.accepted, verdict.refusals
    assert verdict.figures[f"{HARD}, {BOUNDED}: streams"] == STREAMS
    assert like.least_bound_runs == BOUND_RUNS[0]


def test_who_is_refused_is_not_judged_further() -> None:
    by_flag = np.zeros(PARAMETERS, dtype=np.float32)
    by_flag[PARAMETERS - FEATURES + RULE_FLAG] = 100.0
    verdict, like = guarded(agent(by_flag), {HARD: held_out(HARD_CONDITIONS, MIN_STREAMS)}, "test")
    assert not verdict.accepted
    assert not any(BOUNDED in name for name in verdict.figures)
    assert like.least_bound_runs != BOUND_RUNS[0]
