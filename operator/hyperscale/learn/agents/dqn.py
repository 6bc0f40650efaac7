"""`hyperscale learn dqn`: the agent of AGPCS (64 hidden units, Adam 1e-3, ε from 1 to 0.1 over 1,000 episodes) on the stream of jobs.

It is there to be compared: nothing in the cluster runs it, so its gate only says how it does beside the tuned rule.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import Monitor

from hyperscale.learn.agents.dispatch_env import DispatchEnv, chosen_by, observe
from hyperscale.learn.agents.stream_env import any_conditions
from hyperscale.learn.lesson import Assignment, LessonError, Progress, Verdict
from hyperscale.learn.streams.compare import cases, compare
from hyperscale.learn.streams.simulator import TUNED, Outcome, Simulator, index
from hyperscale.learn.topologies import VALIDATION_SEEDS

NAME: Final = "dqn"
"""Of its file, without suffix."""
JUDGED_STREAMS: Final = 50
EPISODES: Final = 1000
HIDDEN: Final = 64
RATE: Final = 1e-3
FIRST_EXPLORATION: Final = 1.0
LAST_EXPLORATION: Final = 0.1
JOBS: Final = 50
"""Of one training stream."""
MOST_DECISIONS: Final = 400
"""Of one stream; the training ends by episodes, this only sizes stable-baselines3's own limit."""

Layers = dict[str, NDArray[np.float32]]
"""Weights and biases by layer, `0.weight` (out, in), `0.bias` (out,), `2.weight`, `2.bias`."""
Report = Callable[[Progress], None]


def train(assignment: Assignment, report: Report) -> tuple[Path, ...]:
    """Learn, and write the layers. Raises LessonError."""
    layers = learn(assignment, report)
    file = assignment.folder / f"{NAME}.safetensors"
    save_file({name: np.ascontiguousarray(layer) for name, layer in layers.items()}, file)
    return (file,)


def judge(candidate: Path, in_use: Path | None, seed: int) -> Verdict:
    """How it does beside the tuned rule; never accepted. Raises LessonError without weights."""
    layers = load_layers(candidate)
    own, rule = [], []
    for number, conditions in enumerate(cases(JUDGED_STREAMS)):
        simulator = Simulator(VALIDATION_SEEDS + number, conditions)
        own.append(play(layers, simulator).mean_completion)
        rule.append(simulator.run(index(TUNED)).mean_completion)
    found = compare(own, rule)
    figures = {"ratio_to_rule": found.ratio, "p": found.p, "worst": found.worst}
    said = f"{found.ratio:.3f} of the tuned rule's weighted completion time (p = {found.p:.1g}); this agent is for comparison only"
    return Verdict(False, said, figures)


def load_layers(folder: Path) -> Layers:
    """Layers as `train` wrote them. Raises LessonError where there are none."""
    try:
        return dict(load_file(folder / f"{NAME}.safetensors"))
    except (OSError, SafetensorError) as error:
        raise LessonError(f"{folder} has no usable {NAME}.safetensors ({error}); train first") from None


def learn(assignment: Assignment, report: Report) -> Layers:
    """Layers of the Q network after so many episodes; curves in the folder. Raises LessonError."""
    if assignment.resume:
        raise LessonError("the DQN learns in minutes and keeps no checkpoint; leave --resume out")
    torch.set_num_threads(1)
    episodes = assignment.steps or EPISODES
    model = DQN(
        "MlpPolicy",
        Monitor(DispatchEnv(assignment.seed, draw=lambda rng: any_conditions(rng, JOBS))),
        learning_rate=RATE,
        policy_kwargs={"net_arch": [HIDDEN]},
        gamma=0.99,
        buffer_size=50_000,
        learning_starts=1_000,
        train_freq=4,
        target_update_interval=1_000,
        seed=assignment.seed,
        tensorboard_log=str(assignment.folder),
    )
    model.learn(episodes * MOST_DECISIONS, callback=_Episodes(episodes, report), tb_log_name="dqn")
    return {name: tensor.detach().numpy() for name, tensor in model.q_net.q_net.state_dict().items()}


def values(layers: Layers, seen: NDArray[np.float32]) -> NDArray[np.float32]:
    """(rules,) Q of each rule."""
    hidden = np.maximum(layers["0.weight"] @ seen + layers["0.bias"], 0.0)
    found: NDArray[np.float32] = layers["2.weight"] @ hidden + layers["2.bias"]
    return found


def play(layers: Layers, simulator: Simulator) -> Outcome:
    """One whole stream by the best rule at every decision."""
    return play_with(simulator, lambda: int(np.argmax(values(layers, observe(simulator)))))


def play_with(simulator: Simulator, rule: Callable[[], int]) -> Outcome:
    """One whole stream; `rule` gives the number of the rule for the decision at hand."""
    going_on, decisions = simulator.reset(), 0
    while going_on:
        _, ended = simulator.step(chosen_by(rule(), simulator))
        going_on, decisions = not ended, decisions + 1
    arrival, weight, best, _ = simulator.stream.jobs_table()
    start, finish, communication, seconds, workers = simulator.stream.outcome()
    return Outcome(arrival, weight, best, start, finish, communication, seconds, workers, decisions)


class _Episodes(BaseCallback):
    """Lets exploration fall with the episodes, and ends after the last of them."""

    def __init__(self, episodes: int, report: Report) -> None:
        super().__init__()
        self._episodes, self._report = episodes, report
        self._done = 0
        self._began = time.monotonic()
        self._returns: list[float] = []

    def _on_training_start(self) -> None:
        model: Any = self.model
        fall = FIRST_EXPLORATION - LAST_EXPLORATION
        model.exploration_schedule = lambda _: max(LAST_EXPLORATION, FIRST_EXPLORATION - fall * self._done / self._episodes)

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:
                self._done += 1
                self._returns.append(float(info["episode"]["r"]))
                figures = {"mean_return": float(np.mean(self._returns[-50:]))}
                self._report(Progress(self._done, self._episodes, time.monotonic() - self._began, figures))
        return self._done < self._episodes
