"""`hyperscale learn allreduce`: AGPCS's agent (64 hidden units, Adam 1e-3, ε from 1 to 0.1 over 1,000 episodes) puts gradients together.

It is there to be scored against the exact schedule, which it cannot beat: nothing in a job runs it, so its gate only says how far it got.
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

from hyperscale.allreduce.schedule import Groups, schedule
from hyperscale.learn.agents.allreduce_env import AllreduceEnv, Channel
from hyperscale.learn.agents.allreduce_instances import Instance, draw
from hyperscale.learn.lesson import Assignment, LessonError, Progress, Verdict

NAME: Final = "allreduce-dqn"
"""Of its file, without suffix."""
EPISODES: Final = 1000
HIDDEN: Final = 64
RATE: Final = 1e-3
FIRST_EXPLORATION: Final = 1.0
LAST_EXPLORATION: Final = 0.1
MOST_DECISIONS: Final = 400
"""Of one episode; the training ends by episodes, this only sizes stable-baselines3's own limit."""
JUDGED: Final = 200
JUDGED_SEED: Final = 1_000_003
"""No training seed: these are 0 to 2^31 − 1 with another second word."""

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
    """How far it is from the exact schedule on models it has not seen; never accepted. Raises LessonError without weights."""
    layers = load_layers(candidate)
    rng = np.random.default_rng([JUDGED_SEED, 29])
    ratios = [ratio(layers, draw(rng)) for _ in range(JUDGED)]
    figures = {
        "mean_ratio": float(np.mean(ratios)),
        "worst_ratio": float(np.max(ratios)),
        "optimal": float(np.mean(np.less(ratios, 1 + 1e-9))),
    }
    said = f"ends {figures['mean_ratio'] - 1:.1%} after the exact schedule on average; this agent is for comparison only"
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
        raise LessonError("this agent learns in minutes and keeps no checkpoint; leave --resume out")
    torch.set_num_threads(1)
    episodes = assignment.steps or EPISODES
    model = DQN(
        "MlpPolicy",
        Monitor(AllreduceEnv(assignment.seed)),
        learning_rate=RATE,
        policy_kwargs={"net_arch": [HIDDEN]},
        gamma=1.0,
        buffer_size=50_000,
        learning_starts=1_000,
        train_freq=1,
        target_update_interval=500,
        seed=assignment.seed,
        tensorboard_log=str(assignment.folder),
    )
    model.learn(episodes * MOST_DECISIONS, callback=_Episodes(episodes, report), tb_log_name=NAME)
    return {name: tensor.detach().numpy() for name, tensor in model.q_net.q_net.state_dict().items()}


def play(layers: Layers, instance: Instance) -> tuple[Groups, float]:
    """What the agent sends, and when the last message ends."""
    channel = Channel(instance)
    while not channel.ended:
        hidden = np.maximum(layers["0.weight"] @ channel.observe() + layers["0.bias"], 0.0)
        channel.act(int(np.argmax(layers["2.weight"] @ hidden + layers["2.bias"])))
    return channel.groups, channel.now


def ratio(layers: Layers, instance: Instance) -> float:
    """End of the agent's last message as a multiple of the exact schedule's."""
    exact = schedule(instance.ready_seconds, instance.sizes_bytes, instance.alpha, instance.beta)
    return play(layers, instance)[1] / exact.finish_seconds


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
                self._report(
                    Progress(
                        self._done, self._episodes, time.monotonic() - self._began, {"mean_return": float(np.mean(self._returns[-50:]))}
                    )
                )
        return self._done < self._episodes
