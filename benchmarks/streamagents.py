"""The agents of stable-baselines3 on the streams of the benchmark: masked PPO, and AGPCS's DQN over dispatching rules. No goals."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks import streamruns
from benchmarks.common import Row
from benchmarks.suites import Options
from hyperscale.learn.agents import dqn, qnetwork
from hyperscale.learn.agents.dispatch_env import RULES
from hyperscale.learn.streams.simulator import Simulator, StreamOutcome, agent
from hyperscale.learn.streams.stream_lesson import network_of
from hyperscale.planner.queue.queue_agent import load_agent

WEIGHTS: Final = Path(__file__).resolve().parent / "weights"
CASE: Final = "agents of stable-baselines3"
PPO: Final = "masked PPO, 200,000 decisions"
DQN: Final = "DQN of AGPCS, 1,000 episodes"
RANDOM: Final = "a random one of the DQN's eight rules"


def rows(options: Options) -> Iterator[Row]:
    """Both agents and a random one against the tuned rule, on the streams with exact durations."""
    ppo = agent(*network_of(load_agent(WEIGHTS / "ppo")))
    layers = qnetwork.load(dqn.NAME, WEIGHTS / "dqn")
    references = streamruns.references()
    found: dict[str, list[StreamOutcome]] = {name: [] for name in (*references, PPO, DQN, RANDOM)}
    for conditions, seed in streamruns.streams(streamruns.CONDITIONS[streamruns.PLAIN], options):
        simulator, rng = Simulator(seed, conditions), np.random.default_rng([seed, 29])
        for name, policy in references.items():
            found[name].append(simulator.run(policy))
        found[PPO].append(simulator.run(ppo))
        simulator.run(references[streamruns.RULE])  # the first dispatching rule follows the method that ran last
        found[DQN].append(dqn.play(layers, simulator))
        found[RANDOM].append(dqn.play_with(simulator, partial(_any, rng)))
    for method in (PPO, DQN, RANDOM):
        yield from streamruns.compared(CASE, method, found)


def _any(rng: np.random.Generator) -> int:
    return int(rng.integers(len(RULES)))
