"""The stream of jobs for AGPCS's agent: it picks one of eight dispatching rules, and the rule picks the job.

A DQN knows no mask, and a value for each of up to 64 changing candidates is hopeless for 64 hidden units; rules are always there.
"""

from __future__ import annotations

from typing import Any, Final

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from hyperscale.learn.agents.stream_env import Draw, any_conditions
from hyperscale.learn.streams._streams import FEATURES
from hyperscale.learn.streams.simulator import Simulator
from hyperscale.learn.topologies import TRAINING_SEEDS

RULES: Final = (
    "tuned rule",
    "shortest now",
    "shortest per weight",
    "smallest area",
    "smallest area per weight",
    "oldest, fastest count",
    "fewest workers, shortest",
    "wait",
)
OBSERVED: Final = 3 * FEATURES

State = NDArray[np.float32]


class DispatchEnv(gymnasium.Env[State, np.int64]):
    """Observation: features of the tuned rule's candidate, and their mean and maximum over all candidates, (OBSERVED,)."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - gymnasium declares it so

    def __init__(self, seed: int = 0, draw: Draw = any_conditions, first_stream: int = TRAINING_SEEDS) -> None:
        """Take the same arguments as StreamEnv."""
        self.observation_space = spaces.Box(-np.inf, np.inf, (OBSERVED,), np.float32)
        self.action_space = spaces.Discrete(len(RULES))
        self._draw, self._stream = draw, first_stream + seed
        self._rng = np.random.default_rng([seed, 19])
        self._simulator: Simulator | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[State, dict[str, Any]]:
        """The next stream, up to its first decision."""
        super().reset(seed=seed)
        if seed is not None:
            self._rng = np.random.default_rng([seed, 19])
        while True:
            self._stream += 1
            self._simulator = Simulator(self._stream, self._draw(self._rng))
            if self._simulator.reset():
                return observe(self._simulator), {}

    def step(self, action: np.int64) -> tuple[State, float, bool, bool, dict[str, Any]]:
        """Let one rule choose."""
        if self._simulator is None:
            raise RuntimeError("call reset() first")
        reward, ended = self._simulator.step(chosen_by(int(action), self._simulator))
        state = np.zeros(OBSERVED, dtype=np.float32) if ended else observe(self._simulator)
        return state, reward, ended, False, {}


def observe(simulator: Simulator) -> State:
    """What the agent sees of the decision at hand."""
    rows = simulator.features()
    own = rows[chosen_by(0, simulator)]
    state: State = np.clip(np.concatenate((own, rows.mean(axis=0), rows.max(axis=0))), -10.0, 10.0).astype(np.float32)
    return state


def chosen_by(rule: int, simulator: Simulator) -> int:
    """The candidate that rule number `rule` of RULES takes; where it finds none, the one that waits, or the first."""
    jobs, workers = simulator.candidates()
    waits = int(np.argmin(jobs))
    if rule == 0:
        job, count = simulator.stream.rule_choice()
        same = np.flatnonzero((jobs == job) & ((workers == count) | (job < 0)))
        return int(same[0]) if len(same) else waits
    starts = np.flatnonzero(jobs >= 0)
    if rule == len(RULES) - 1 or not len(starts):
        return waits
    pending, _, _, _ = simulator.stream.view()
    waiting_jobs = {
        job: (weight, waited, {count: seconds for count, seconds, *_ in options}) for job, weight, waited, options, _ in pending
    }
    return min(starts.tolist(), key=lambda at: (_index(rule, int(workers[at]), *waiting_jobs[int(jobs[at])]), at))


def _index(rule: int, count: int, weight: float, waited: float, seconds: dict[int, float]) -> tuple[float, float]:
    """What rule number `rule` sorts by, lowest first."""
    now = seconds[count]
    return (
        (now, 0.0),
        (now / weight, 0.0),
        (now * count, now),
        (now * count / weight, now),
        (-waited, now),
        (float(count), now),
    )[rule - 1]
