"""The agent's game about allreduces: its rules, that it cannot beat the exact schedule, and that the agent learns and is judged."""

from __future__ import annotations

from pathlib import Path

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stable_baselines3.common.env_checker import check_env

from hyperscale.learn.agents import allreduce_dqn, qnetwork
from hyperscale.learn.agents.allreduce_env import ACTIONS, OBSERVED, AllreduceEnv, Channel
from hyperscale.learn.agents.allreduce_instances import AllreduceInstance, draw
from hyperscale.learn.lesson import Assignment, LessonError
from hyperscale.training.allreduce.schedule import finish, schedule


def test_the_environment_keeps_the_rules_of_gymnasium() -> None:
    environment: gymnasium.Env[np.ndarray, np.int64] = AllreduceEnv(3)
    check_env(environment)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31 - 1))
def test_whatever_is_played_everything_is_sent_once_and_not_before_the_exact_schedule(seed: int) -> None:
    rng = np.random.default_rng(seed)
    made = draw(rng, most=40)
    channel = Channel(made)
    bound, paid = channel.bound_seconds, 0.0
    while not channel.ended:
        assert np.isfinite(channel.observe()).all()
        raised = channel.act(int(rng.integers(len(ACTIONS))))
        assert raised >= -1e-9
        paid += raised
    assert sorted(at for group in channel.groups for at in group) == list(range(len(made.sizes_bytes)))
    cost = (made.alpha, made.beta)
    exact = schedule(made.ready_seconds, made.sizes_bytes, *cost).finish_seconds
    assert channel.now >= exact * (1 - 1e-9)
    assert channel.now >= finish(channel.groups, made.ready_seconds, made.sizes_bytes, *cost) * (1 - 1e-9)
    assert channel.now == pytest.approx(bound + paid)


def test_the_optimum_can_be_played() -> None:
    made = AllreduceInstance((0.0, 1.0, 1.01, 1.02), (1e6, 10.0, 10.0, 10.0), 0.1, 1e-7)
    channel = Channel(made)
    for action in (0, 7, 0):
        channel.act(action)
    assert channel.ended
    assert channel.groups == ((0,), (1, 2, 3))
    assert channel.now == pytest.approx(schedule(made.ready_seconds, made.sizes_bytes, made.alpha, made.beta).finish_seconds)


def test_the_largest_and_the_latest_can_go_first() -> None:
    made = AllreduceInstance((0.0, 0.0, 0.0), (10.0, 30.0, 20.0), 1.0, 0.0)
    channel = Channel(made)
    channel.act(4)
    channel.act(5)
    channel.act(1)
    assert channel.groups == ((1,), (2,), (0,))


def test_the_agent_learns_and_is_judged_but_never_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allreduce_dqn, "JUDGED", 5)
    files = allreduce_dqn.train(Assignment(tmp_path, steps=3), lambda progress: None)
    assert files == (tmp_path / "allreduce-dqn.safetensors",)
    layers = qnetwork.load(allreduce_dqn.NAME, tmp_path)
    assert layers["0.weight"].shape == (qnetwork.HIDDEN, OBSERVED)
    assert layers["2.weight"].shape == (len(ACTIONS), qnetwork.HIDDEN)
    verdict = allreduce_dqn.judge(tmp_path, None, 0)
    assert not verdict.accepted
    assert verdict.figures["mean_ratio"] >= 1 - 1e-9
    with pytest.raises(LessonError, match="train first"):
        qnetwork.load(allreduce_dqn.NAME, tmp_path / "none")
