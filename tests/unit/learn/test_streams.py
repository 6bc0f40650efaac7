"""The simulator of job streams, the training of the agent on it, and the gate."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from hyperscale.learn.lesson import LessonError, LessonProgress
from hyperscale.learn.streams import stream_lesson, training, tuning
from hyperscale.learn.streams.compare import cases, compare
from hyperscale.learn.streams.episodes import EpisodeBatch, Training, collect, gallery, initial
from hyperscale.learn.streams.gradient import log_probabilities
from hyperscale.learn.streams.policy_guard import PolicyVerdict
from hyperscale.learn.streams.scenario import FAMILIES, Conditions
from hyperscale.learn.streams.simulator import (
    FEATURES,
    OPERATORS_RULE,
    PARAMETERS,
    SHORTEST_FIRST,
    SMALLEST_FIRST,
    Policy,
    Simulator,
    StreamOutcome,
    agent,
    easy,
    fifo,
    index,
    marginal,
    maxmin,
)
from hyperscale.learn.streams.training import CHECKPOINT, MOST_PRICE_CHANGE, train
from hyperscale.planner.queue.queue_agent import load_agent
from hyperscale.planner.queue.wait_bounds import STRICT_BOUNDS

WAIT_FLAG = 9
SMALL = Training(steps=2, sequences=1, episodes=2, jobs=20)
EVERY = (fifo(), fifo(-1.0), easy(), easy(0.8), index(OPERATORS_RULE), index(SHORTEST_FIRST), index(SMALLEST_FIRST), marginal(), maxmin())


def overlapping(simulator: Simulator, outcome: StreamOutcome) -> list[tuple[int, int]]:
    """Pairs of jobs that hold one node at one time."""
    nodes = [set(places) for places in simulator.stream.nodes()]
    jobs = range(len(nodes))
    return [
        (a, b)
        for a in jobs
        for b in jobs
        if a < b and nodes[a] & nodes[b] and outcome.start[a] < outcome.finish[b] - 1e-9 and outcome.start[b] < outcome.finish[a] - 1e-9
    ]


@pytest.mark.parametrize("policy", EVERY)
@pytest.mark.parametrize("contention", [False, True])
def test_every_job_runs_once_on_nodes_of_its_own(policy: Policy, contention: bool) -> None:
    simulator = Simulator(1, Conditions("zones", 1.1, jobs=40, contention=contention))
    outcome = simulator.run(policy)
    assert (outcome.start >= outcome.arrival).all()
    assert (outcome.finish > outcome.start).all()
    assert not overlapping(simulator, outcome)
    assert all(len(places) == count for places, count in zip(simulator.stream.nodes(), outcome.workers, strict=True))


def test_the_agent_before_training_is_the_rule() -> None:
    network = initial(Training())
    for number, conditions in enumerate(cases(5)):
        simulator = Simulator(number, replace(conditions, jobs=40))
        assert simulator.run(agent(network, idle_runs=math.inf)).mean_completion == simulator.run(index(OPERATORS_RULE)).mean_completion


def test_under_the_bound_an_agent_that_always_waits_still_starts_what_fits() -> None:
    waits = np.zeros(PARAMETERS, dtype=np.float32)
    waits[PARAMETERS - FEATURES + WAIT_FLAG] = 100.0
    simulator = Simulator(3, Conditions("geo", 0.9, jobs=40))
    free, bounded = (simulator.run(agent(waits, idle_runs=runs)) for runs in (math.inf, 0.5))
    assert bounded.longest_wait < free.longest_wait
    assert bounded.mean_completion < free.mean_completion


def test_contention_only_slows_down() -> None:
    alone, shared = (Simulator(3, Conditions("fattree", 0.9, jobs=40, contention=contention)).run(fifo()) for contention in (False, True))
    assert alone.finish - alone.start == pytest.approx(alone.seconds, rel=1e-9)
    assert ((shared.finish - shared.start) >= shared.seconds * (1 - 1e-9)).all()
    assert (shared.finish - shared.start).sum() > shared.seconds.sum()


def test_noise_changes_what_is_known_and_nothing_else() -> None:
    exact, noisy = (Simulator(4, Conditions("geo", 0.9, jobs=30, noise=noise)) for noise in (0.0, 0.3))
    assert np.allclose(exact.run(fifo()).best_seconds, noisy.run(fifo()).best_seconds)
    assert np.array_equal(exact.stream.jobs_table()[1], noisy.stream.jobs_table()[1])


def test_a_bound_that_is_strict_at_once_costs_the_other_jobs_more() -> None:
    conditions = [Conditions(family, 1.2, jobs=80, starvation_runs=4.0) for family in FAMILIES]
    streams = [Simulator(seed, one) for seed, one in enumerate(conditions)]
    soft, strict = (
        [each.run(index(OPERATORS_RULE)._replace(strict_bounds=bounds)).mean_completion for each in streams]
        for bounds in (STRICT_BOUNDS, 1.0)
    )
    assert np.log(soft).mean() < np.log(strict).mean()


def test_a_job_beyond_twice_the_bound_is_not_overtaken() -> None:
    simulator = Simulator(6, Conditions("random", 1.3, jobs=80, starvation_runs=3.0))
    outcome = simulator.run(index(OPERATORS_RULE))
    bound = outcome.arrival + STRICT_BOUNDS * 3.0 * simulator.mean_seconds
    late = np.flatnonzero(outcome.start > bound + 1e-6)
    assert len(late), "the bound plays no part in this stream"
    for job in late:
        others = (
            (outcome.arrival > outcome.arrival[job]) & (outcome.start > bound[job] + 1e-6) & (outcome.start < outcome.start[job] - 1e-6)
        )
        assert not others.any()


def test_steps_and_whole_runs_agree() -> None:
    network = initial(Training())
    simulator = Simulator(8, Conditions("wan", 0.9, jobs=30), network=network)
    whole = simulator.run(agent(network)).finish
    going_on, total = simulator.reset(), 0.0
    while going_on:
        jobs, _ = simulator.candidates()
        assert len(simulator.features()) == len(jobs) > 1
        reward, ended = simulator.step(int(np.argmax(simulator.stream.agent_scores())))
        total += reward
        going_on = not ended
    assert np.array_equal(simulator.stream.outcome()[1], whole)
    assert total < 0.0


def test_an_action_that_is_not_there_is_refused() -> None:
    simulator = Simulator(8, Conditions("geo", 0.9, jobs=20))
    simulator.reset()
    with pytest.raises(IndexError):
        simulator.step(99)


@pytest.mark.parametrize("embedding", [False, True])
def test_torch_and_the_simulator_compute_the_same_network(embedding: bool) -> None:
    config = replace(SMALL, embedding=embedding)
    noise = np.random.default_rng(0).normal(0.0, 0.1, len(initial(config)))
    network = (initial(config) + noise).astype(np.float32)
    batch = collect(config, network, 0)
    log_probability, _ = log_probabilities(torch.from_numpy(network), batch)
    drawn = float(np.exp(log_probability.numpy()).mean())
    assert 0.3 < drawn < 1.0
    simulator = Simulator(5, Conditions("zones", 1.0, jobs=20), network=network)
    simulator.run(agent(network), record=True)
    best = _batch_of(simulator, embedding)
    taken = log_probabilities(torch.from_numpy(network), best)[0].exp().numpy()
    assert (taken >= 1.0 / best.counts - 1e-6).all()  # the best of n candidates has at least 1/n


def _batch_of(simulator: Simulator, embedding: bool) -> EpisodeBatch:
    rows, counts, actions, *_ = simulator.stream.recorded()
    pictures = gallery([simulator.stream.pictures()], 1) if embedding else None
    return EpisodeBatch(rows, counts.astype(np.int64), actions.astype(np.int64), np.zeros(len(counts)), 1.0, pictures)


def test_a_long_wait_costs_more_for_each_second_waited_before() -> None:
    simulator, price = Simulator(6, Conditions("random", 1.1, jobs=60)), 0.01
    outcome = simulator.run(index(OPERATORS_RULE))
    plain = simulator.stream.cost
    simulator.stream.set_wait_price(price)
    again = simulator.run(index(OPERATORS_RULE))
    waits = outcome.start - outcome.arrival
    assert waits.max() > 0.0
    assert np.array_equal(again.start, outcome.start)
    assert simulator.stream.cost - plain == pytest.approx(price * float((waits**2).sum()) / 2.0, rel=1e-9)


def test_episodes_are_the_same_on_any_number_of_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    several = replace(SMALL, sequences=5)
    batches = []
    for cores in (1, 7):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        batches.append(collect(several, initial(several), 3))
    one, seven = batches
    assert (one.cost, one.wait) == (seven.cost, seven.wait)
    for name in ("rows", "counts", "actions", "advantages"):
        assert np.array_equal(getattr(one, name), getattr(seven, name)), name


def test_decisions_of_a_bad_episode_count_more_and_point_the_same_way() -> None:
    even = replace(SMALL, sequences=2, episodes=4, jobs=40)
    plain, heavy = (collect(replace(even, risk=risk), initial(even), 0) for risk in (0.0, 1.0))
    assert plain.cost == heavy.cost
    assert np.array_equal(plain.rows, heavy.rows)
    chosen = plain.advantages != 0.0
    factors = heavy.advantages[chosen] / plain.advantages[chosen]
    assert (factors > 0.0).all()
    assert (factors <= 4.0 + 1e-9).all()
    assert len(np.unique(factors.round(9))) == even.sequences * even.episodes


def test_the_price_of_waiting_is_led_to_where_waits_are_as_long_as_they_may_be(tmp_path: Path) -> None:
    led = replace(SMALL, steps=3, wait_price=1.0)
    seen: dict[float, float] = {}
    for target in (1e-3, 1e3):
        folder = tmp_path / str(target)
        train(replace(led, wait_target=target), folder, lambda _: None)
        seen[target] = float(load_file(folder / CHECKPOINT)["seconds"][1])
    assert seen[1e-3] == pytest.approx(3 * MOST_PRICE_CHANGE), "waits are too long: each step the price rises by as much as it may"
    assert seen[1e3] == pytest.approx(-3 * MOST_PRICE_CHANGE)
    train(led, tmp_path / "fixed", lambda _: None)
    assert load_file(tmp_path / "fixed" / CHECKPOINT)["seconds"][1] == 0.0


def test_training_gives_the_same_weights_whether_interrupted_or_not(tmp_path: Path) -> None:
    seen: list[LessonProgress] = []
    whole = train(SMALL, tmp_path / "whole", seen.append)
    again = train(SMALL, tmp_path / "again", seen.append)
    assert np.array_equal(whole, again)
    assert seen[-1].step == seen[-1].steps == 2
    assert train(SMALL, tmp_path / "whole", seen.append, resume=True) == pytest.approx(whole)


def test_a_led_price_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    led = replace(SMALL, steps=3, wait_price=2.0, wait_target=0.5)
    whole = train(led, tmp_path / "whole", lambda _: None)
    monkeypatch.setattr(training, "CHECKPOINT_STEPS", 1)

    def stop(progress: LessonProgress) -> None:
        if progress.step == 2:  # before its checkpoint: the second step is made again
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(led, tmp_path / "cut", stop)
    assert np.array_equal(train(led, tmp_path / "cut", lambda _: None, resume=True), whole)


def test_a_checkpoint_of_another_configuration_is_refused(tmp_path: Path) -> None:
    train(SMALL, tmp_path, lambda progress: None)
    with pytest.raises(LessonError, match="the settings of another release"):
        train(replace(SMALL, horizon=8.0), tmp_path, lambda progress: None, resume=True)
    with pytest.raises(LessonError, match="no checkpoint"):
        train(SMALL, tmp_path / "empty", lambda progress: None, resume=True)


def test_tuning_finds_patience() -> None:
    best = tuning.tune(seed=1, streams=5)[0]
    assert best.ratio < 1.0
    assert best.knobs.patience < 100.0


def test_comparison_says_who_is_better() -> None:
    result = compare([0.9, 1.8, 2.7, 3.6], [1.0, 2.0, 3.0, 4.0])
    assert result.ratio == pytest.approx(0.9)
    assert result.wins == 1.0
    assert result.low <= result.ratio <= result.high
    assert compare([1.0, 2.0], [1.0, 2.0]).p == 1.0


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_streams(family: str) -> None:
    outcome = Simulator(2, Conditions(family, 0.7, jobs=20)).run(index(OPERATORS_RULE))
    assert np.isfinite(outcome.mean_completion)
    assert outcome.mean_slowdown >= 0.9
    assert outcome.p95_completion > 0.0
    assert outcome.mean_communication >= 0.0


@pytest.mark.long
def test_the_gate_lets_nothing_in_that_is_no_better_than_the_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_lesson, "VALIDATION_STREAMS", 10)
    monkeypatch.setattr(stream_lesson, "TUNING_STREAMS", 5)
    stream_lesson.write(initial(Training()), Training(), tmp_path)
    verdict = stream_lesson.judge(tmp_path, None, 0)
    assert "held-out streams: longest wait" in load_agent(tmp_path).manifest.figures
    assert not verdict.accepted
    assert verdict.figures["ratio_to_rule"] >= 0.99
    with pytest.raises(LessonError, match="no usable"):
        stream_lesson.judge(tmp_path / "nothing", None, 0)


@pytest.mark.parametrize(
    ("allowed", "used", "accepted"), [(True, 0.89, False), (False, 0.89, True), (False, 0.8, False), (True, 0.91, True)]
)
def test_weights_in_use_that_the_guard_refuses_today_may_be_a_little_better(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allowed: bool, used: float, accepted: bool
) -> None:
    monkeypatch.setattr(stream_lesson, "VALIDATION_STREAMS", 10)
    monkeypatch.setattr(stream_lesson, "guarded", lambda network, knobs: (PolicyVerdict(True), None))
    in_use, candidate = (stream_lesson.write(initial(Training(seed=seed)), Training(), tmp_path / str(seed))[0].parent for seed in (0, 1))
    seconds = {"agent": 0.9, "used": used}
    monkeypatch.setattr(tuning, "tune", lambda seed, streams: (tuning.Tried(OPERATORS_RULE, 1.0),))
    monkeypatch.setattr(stream_lesson, "outcomes", lambda policies, streams, seed: {name: [name] for name in policies})
    monkeypatch.setattr(stream_lesson, "completions", lambda names: np.full(20, seconds.get(names[0], 1.0)) + np.arange(20) * 1e-3)
    verdicts = {1: PolicyVerdict(True), 0: PolicyVerdict(allowed)}
    of_seed = {stream_lesson.network_of(load_agent(tmp_path / str(seed)))[0].tobytes(): verdicts[seed] for seed in (0, 1)}
    monkeypatch.setattr(stream_lesson, "guarded", lambda network, knobs: (of_seed[network.tobytes()], None))
    assert stream_lesson.judge(candidate, in_use, 0).accepted is accepted
