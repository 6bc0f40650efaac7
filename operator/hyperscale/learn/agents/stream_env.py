"""The stream of jobs as a gymnasium environment: HyperScale's decision process with its state, action and reward.

State: the candidates at hand, each with its figures by queue, free nodes and their links. Action: start one of them (a pending
job with a worker count; a partition a worker, the nodes come from the planner's own placement search) or wait. Reward: −(weighted time +
λ × communication) until the next decision. What may not be chosen is masked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from hyperscale.learn.streams._streams import FEATURES
from hyperscale.learn.streams.scenario import FAMILIES, Conditions
from hyperscale.learn.streams.simulator import Simulator
from hyperscale.learn.topologies import TRAINING_SEEDS
from hyperscale.model.graph import BoolArray

MOST_CANDIDATES: Final = 64
"""Candidates of one decision at most, waiting among them (learn/streams/_streams.pyx)."""
SEEDS_OF_AN_ENVIRONMENT: Final = 10_000_000
"""Streams of environments with different seeds are different."""

Observation = dict[str, NDArray[np.float32]]
Draw = Callable[[np.random.Generator], Conditions]


def any_conditions(rng: np.random.Generator, jobs: int = 100) -> Conditions:
    """Any family at any load; a quarter of the streams each with noisy durations, contention, a starvation bound."""
    noise, contention, starvation = rng.random(3) < 0.25
    return Conditions(
        family=FAMILIES[int(rng.integers(len(FAMILIES)))],
        load=float(rng.uniform(0.6, 1.2)),
        jobs=jobs,
        noise=0.3 if noise else 0.0,
        contention=bool(contention),
        starvation_runs=float(rng.uniform(4.0, 16.0)) if starvation else 0.0,
    )


class StreamEnv(gymnasium.Env[Observation, np.int64]):
    """One episode is one stream, drawn again by every reset."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - gymnasium declares it so

    def __init__(self, seed: int = 0, draw: Draw = any_conditions, first_stream: int = TRAINING_SEEDS) -> None:
        """Streams by `seed`, from number `first_stream` on, under conditions from `draw`."""
        space: Any = spaces.Dict(
            {
                "candidates": spaces.Box(-np.inf, np.inf, (MOST_CANDIDATES * FEATURES,), np.float32),
                "present": spaces.Box(0.0, 1.0, (MOST_CANDIDATES,), np.float32),
            }
        )
        self.observation_space = space
        self.action_space = spaces.Discrete(MOST_CANDIDATES)
        self._draw, self._first_stream = draw, first_stream
        self._begin(seed)
        self._simulator: Simulator | None = None
        self._count = self._fallback = 0

    @property
    def simulator(self) -> Simulator:
        """Of the episode at hand. Raises RuntimeError before the first reset."""
        if self._simulator is None:
            raise RuntimeError("call reset() first")
        return self._simulator

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, dict[str, Any]]:
        """The next stream, up to its first decision; `seed` begins a row of streams of its own."""
        super().reset(seed=seed)
        if seed is not None:
            self._begin(seed)
        while True:
            stream = self._first_stream + self._row * SEEDS_OF_AN_ENVIRONMENT + self._number
            self._number += 1
            self._simulator = Simulator(stream, self._draw(self._rng))
            if self._simulator.reset():
                return self._observe(), {}

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take a candidate; one that is not there means to wait, or the first where waiting is not allowed."""
        chosen = int(action)
        reward, ended = self.simulator.step(chosen if chosen < self._count else self._fallback)
        return (self._empty() if ended else self._observe()), reward, ended, False, {}

    def action_masks(self) -> BoolArray:
        """(MOST_CANDIDATES,) True for the candidates at hand; what sb3-contrib asks for."""
        mask: BoolArray = np.arange(MOST_CANDIDATES) < self._count
        return mask

    def _begin(self, seed: int) -> None:
        self._row, self._number = seed, 0
        self._rng = np.random.default_rng([seed, 17])

    def _observe(self) -> Observation:
        rows = self.simulator.features()
        self._count = len(rows)
        observation = self._empty()
        jobs, _ = self.simulator.candidates()
        self._fallback = int(np.argmin(jobs))
        observation["candidates"][: rows.size] = rows.ravel()
        observation["present"][: len(rows)] = 1.0
        return observation

    @staticmethod
    def _empty() -> Observation:
        return {
            "candidates": np.zeros(MOST_CANDIDATES * FEATURES, dtype=np.float32),
            "present": np.zeros(MOST_CANDIDATES, dtype=np.float32),
        }
