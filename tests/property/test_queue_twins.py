"""The queue's rule, features and network in Python give what the compiled simulator gives."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperscale.learn.streams.episodes import Training, initial
from hyperscale.learn.streams.gradient import parts_by_name
from hyperscale.learn.streams.scenario import FAMILIES, Conditions, RecordedJobs
from hyperscale.learn.streams.simulator import MASK_PATIENCE, OPERATORS_RULE, JobOrder, RuleKnobs, Simulator
from hyperscale.planner.queue import features, rule
from hyperscale.planner.queue.queue_agent import AgentManifest, Prior, QueueAgent
from hyperscale.planner.queue.queue_types import ArrivalHistory, ClusterState, LaterStart, Option, PendingJob, QueueRunningJob

PRIOR = Prior(rule.QueueOrder.SECONDS, *OPERATORS_RULE[1:])
SETTINGS = PRIOR.settings()
KNOBS = (
    tuple(JobOrder),
    (0.0, 0.3, 0.6),
    (0.0, 0.2, 0.4),
    (1.0, 2.0, 3.4, 6.0),
    (0.0, 0.2, 0.5),
    (0.0, 1.5, 4.0),
    (0.0, 0.8, 1.6, 3.0),
    (0.0, 1.0, 1.35),
)
"""Values of each of the rule's settings, in the order of `RuleKnobs`."""


def network(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (initial(Training(seed=seed)) + rng.normal(0.0, 0.1, len(initial(Training())))).astype(np.float32)


def seen(simulator: Simulator) -> tuple[list[PendingJob], list[QueueRunningJob], ClusterState, float]:
    pending, running, cluster, starvation = simulator.stream.view()
    free, total, speed, arrivals, gap, run, area = cluster
    return (
        [
            PendingJob(
                key=f"{job:04}",
                options=tuple(Option(*option) for option in options),
                weight=weight,
                waited_seconds=waited,
                later=tuple(LaterStart(*start) for start in later),
            )
            for job, weight, waited, options, later in reversed(pending)
        ],
        [QueueRunningJob(f"{job:04}", workers, remaining) for job, workers, remaining in running],
        ClusterState(free, total, speed, ArrivalHistory(arrivals, gap, run, area)),
        starvation,
    )


def few_huge(seed: int, jobs: int) -> RecordedJobs:
    """One job in six has a hundred times the work of the others, so that long ones wait and start."""
    rng = np.random.default_rng(seed)
    work = 600.0 * np.where(np.arange(jobs) % 6 == 5, 100.0, 1.0) * rng.uniform(0.5, 2.0, jobs)
    few, many = np.ones(jobs, dtype=np.int64), np.full(jobs, 8, dtype=np.int64)
    return RecordedJobs(rng.exponential(1.0, jobs), work, few, many, np.ones(jobs))


@settings(max_examples=25, deadline=None)
@given(
    family=st.sampled_from(FAMILIES),
    load=st.floats(0.7, 1.3),
    seed=st.integers(0, 10_000),
    conditions=st.tuples(st.sampled_from((0.0, 0.3)), st.booleans(), st.sampled_from((0.0, 1.0, 4.0, 8.0))),
    knobs=st.tuples(*(st.sampled_from(figures) for figures in KNOBS)),
)
def test_the_rule_in_python_decides_as_in_the_simulator_for_any_settings(
    family: str,
    load: float,
    seed: int,
    conditions: tuple[float, bool, float],
    knobs: tuple[JobOrder, float, float, float, float, float, float, float],
) -> None:
    noise, contention, starvation = conditions
    known = Conditions(family, load, jobs=60, noise=noise, contention=contention, starvation_runs=starvation)
    simulator = Simulator(seed, known, RuleKnobs(*knobs))
    order = rule.QueueOrder.AREA if knobs[0] is JobOrder.AREA else rule.QueueOrder.SECONDS
    going_on = simulator.reset()
    while going_on:
        pending, running, cluster, bound = seen(simulator)
        by_rule = rule.choose(pending, running, cluster, Prior(order, *knobs[1:]).settings()._replace(starvation_seconds=bound))
        job, count = simulator.stream.rule_choice()
        assert (by_rule.job, by_rule.workers) == (None if job < 0 else f"{job:04}", count)
        jobs, workers = simulator.candidates()
        chosen = np.flatnonzero((jobs == job) & (workers == count))
        going_on = not simulator.step(int(chosen[0]) if len(chosen) else 0)[1]


@settings(max_examples=12, deadline=None)
@given(
    family=st.sampled_from(FAMILIES),
    load=st.floats(0.5, 1.3),
    seed=st.integers(0, 10_000),
    noise=st.sampled_from((0.0, 0.3)),
    starvation=st.sampled_from((0.0, 0.5, 2.0)),
    huge=st.booleans(),
)
def test_decisions_in_python_equal_those_of_the_simulator(
    family: str, load: float, seed: int, noise: float, starvation: float, huge: bool
) -> None:
    weights = network(seed)
    known = Conditions(family, load, jobs=24, noise=noise, starvation_runs=starvation)
    simulator = Simulator(seed, known, network=weights, recorded=few_huge(seed, known.jobs) if huge else None)
    agent = QueueAgent(AgentManifest("", features.VERSION, PRIOR, MASK_PATIENCE), parts_by_name(weights))
    going_on = simulator.reset()
    while going_on:
        pending, running, cluster, bound = seen(simulator)
        own = SETTINGS._replace(starvation_seconds=bound)
        now = features.situation(pending, running, cluster, own, MASK_PATIENCE)
        jobs, workers = simulator.candidates()
        expected = {
            (None if job < 0 else f"{job:04}", int(count)): row for job, count, row in zip(jobs, workers, simulator.features(), strict=True)
        }
        rows = features.features(now)
        assert {candidate.key for candidate in now.candidates} == set(expected)
        for candidate, row in zip(now.candidates, rows, strict=True):
            np.testing.assert_allclose(row, expected[candidate.key], rtol=1e-9, atol=1e-12)
        by_rule = rule.choose(pending, running, cluster, own)
        job, count = simulator.stream.rule_choice()
        assert (by_rule.job, by_rule.workers) == (None if job < 0 else f"{job:04}", count)
        scores = simulator.stream.agent_scores()
        chosen = agent.choose(pending, running, cluster, bound)
        best = int(np.argmax(scores))
        assert chosen.scores[0].score == pytest.approx(float(scores[best]), rel=1e-3, abs=1e-3)
        _, ended = simulator.step(best)
        going_on = not ended


def test_the_same_seed_gives_the_same_stream() -> None:
    first, second = (Simulator(5, Conditions("zones", 0.9, jobs=40), network=network(1)) for _ in range(2))
    from hyperscale.learn.streams.simulator import agent

    outcomes = [simulator.run(agent(network(1)), sample=True, seed=3) for simulator in (first, second)]
    assert hashlib.sha256(outcomes[0].finish.tobytes()).digest() == hashlib.sha256(outcomes[1].finish.tobytes()).digest()
