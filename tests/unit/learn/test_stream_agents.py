"""The stream of jobs as environments, and the two agents of stable-baselines3 on it."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from stable_baselines3.common.env_checker import check_env

from hyperscale.learn.agents import dqn, ppo, qnetwork
from hyperscale.learn.agents.dispatch_env import OBSERVED, RULES, DispatchEnv, chosen_by, observe
from hyperscale.learn.agents.stream_env import MOST_CANDIDATES, StreamEnv, any_conditions
from hyperscale.learn.lesson import Assignment, LessonError, LessonProgress
from hyperscale.learn.streams.episodes import Training, initial
from hyperscale.learn.streams.scenario import Conditions
from hyperscale.learn.streams.simulator import OPERATORS_RULE, Simulator, agent, index


def short(rng: np.random.Generator) -> Conditions:
    return any_conditions(rng, 12)


@pytest.mark.parametrize("environment", [StreamEnv(draw=short), DispatchEnv(draw=short)])
def test_the_environments_pass_the_checker_of_stable_baselines3(environment: StreamEnv | DispatchEnv) -> None:
    check_env(environment)


def test_the_mask_allows_exactly_the_candidates_at_hand() -> None:
    environment = StreamEnv(1, draw=short)
    seen, _ = environment.reset()
    mask = environment.action_masks()
    assert mask.shape == (MOST_CANDIDATES,)
    assert mask.sum() == len(environment.simulator.features())
    assert np.array_equal(mask, seen["present"] == 1.0)


def test_the_same_seed_gives_the_same_streams() -> None:
    first, second = StreamEnv(3, draw=short), StreamEnv(3, draw=short)
    for _ in range(2):
        assert np.array_equal(first.reset()[0]["candidates"], second.reset()[0]["candidates"])
    assert not np.array_equal(StreamEnv(4, draw=short).reset()[0]["candidates"], StreamEnv(3, draw=short).reset()[0]["candidates"])


def test_an_action_beyond_the_candidates_is_taken_as_waiting() -> None:
    environment = StreamEnv(2, draw=short)
    environment.reset()
    _, reward, _, truncated, _ = environment.step(np.int64(MOST_CANDIDATES - 1))
    assert reward <= 0.0
    assert not truncated


def test_the_first_dispatching_rule_is_the_tuned_rule_itself_without_the_bound_on_waiting() -> None:
    conditions = Conditions("zones", 0.9, jobs=30)
    simulator = Simulator(5, conditions)
    simulator.stream.set_idle_bound(1.0, math.inf)
    played = dqn.play_with(simulator, lambda: 0)
    assert played.mean_completion == pytest.approx(Simulator(5, conditions).run(index(OPERATORS_RULE)).mean_completion)


def test_every_dispatching_rule_finds_a_candidate_in_every_state() -> None:
    simulator = Simulator(7, Conditions("geo", 1.1, jobs=15))
    going_on = simulator.reset()
    number = 0
    while going_on:
        jobs, _ = simulator.candidates()
        assert all(0 <= chosen_by(rule, simulator) < len(jobs) for rule in range(len(RULES)))
        assert observe(simulator).shape == (OBSERVED,)
        _, ended = simulator.step(chosen_by(number % (len(RULES) - 1), simulator))
        going_on, number = not ended, number + 1


def test_ppo_starts_as_the_tuned_rule_and_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    reports: list[LessonProgress] = []
    steps = ppo.ENVIRONMENTS * ppo.ROLLOUT
    network = ppo.learn(Assignment(tmp_path, steps=steps), reports.append)
    assert np.array_equal(network, initial(Training(seed=0, prior=ppo.PRIOR)))  # the critic learns first
    assert reports[-1].step == steps
    again = ppo.learn(Assignment(tmp_path, steps=steps, resume=True), reports.append)
    assert np.array_equal(again, network)
    conditions = Conditions("fattree", 0.8, jobs=20)
    assert np.isfinite(Simulator(1, conditions).run(agent(again)).mean_completion)


def test_ppo_does_not_resume_from_nothing(tmp_path: Path) -> None:
    with pytest.raises(LessonError, match="leave --resume out"):
        ppo.learn(Assignment(tmp_path, steps=10, resume=True), lambda progress: None)


def test_the_dqn_learns_and_plays_a_whole_stream(tmp_path: Path) -> None:
    layers = dqn.learn(Assignment(tmp_path, steps=2), lambda progress: None)
    assert layers["0.weight"].shape == (qnetwork.HIDDEN, OBSERVED)
    assert layers["2.weight"].shape == (len(RULES), qnetwork.HIDDEN)
    outcome = dqn.play(layers, Simulator(3, Conditions("random", 0.9, jobs=12)))
    assert (outcome.finish > outcome.arrival).all()
