"""AGPCS's agent for any task: one hidden layer of 64, Adam with 1e-3, ε from 1 to 0.1 over 1,000 episodes (as in the paper)."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import Monitor

from hyperscale.learn.lesson import Assignment, LessonError, LessonProgress

EPISODES: Final = 1000
HIDDEN: Final = 64
RATE: Final = 1e-3
FIRST_EXPLORATION: Final = 1.0
LAST_EXPLORATION: Final = 0.1
MOST_DECISIONS: Final = 400
"""Of one episode; the training ends by episodes, this only sizes stable-baselines3's own limit."""

Layers = dict[str, NDArray[np.float32]]
"""Weights and biases by layer, `0.weight` (out, in), `0.bias` (out,), `2.weight`, `2.bias`."""
Report = Callable[[LessonProgress], None]


class Habits(NamedTuple):
    """What differs from task to task."""

    discount: float
    steps_an_update: int
    """Decisions between two steps of Adam."""
    steps_a_target: int
    """Decisions between two renewals of the target network."""


def teach(name: str, task: gymnasium.Env[Any, Any], habits: Habits, assignment: Assignment, report: Report) -> Layers:
    """Layers of the Q network after the assignment's episodes; curves in the folder. Raises LessonError."""
    if assignment.resume:
        raise LessonError("this agent learns in minutes and keeps no checkpoint; leave --resume out")
    torch.set_num_threads(1)
    episodes = assignment.steps or EPISODES
    model = DQN(
        "MlpPolicy",
        Monitor(task),
        learning_rate=RATE,
        policy_kwargs={"net_arch": [HIDDEN]},
        gamma=habits.discount,
        buffer_size=50_000,
        learning_starts=1_000,
        train_freq=habits.steps_an_update,
        target_update_interval=habits.steps_a_target,
        seed=assignment.seed,
        tensorboard_log=str(assignment.folder),
    )
    model.learn(episodes * MOST_DECISIONS, callback=_Episodes(episodes, report), tb_log_name=name)
    return {layer: tensor.detach().numpy() for layer, tensor in model.q_net.q_net.state_dict().items()}


def save(name: str, layers: Layers, folder: Path) -> Path:
    """Write the layers; the file."""
    file = folder / f"{name}.safetensors"
    save_file({layer: np.ascontiguousarray(weights) for layer, weights in layers.items()}, file)
    return file


def load(name: str, folder: Path) -> Layers:
    """Layers as `save` wrote them. Raises LessonError where there are none."""
    try:
        layers = dict(load_file(folder / f"{name}.safetensors"))
    except (OSError, SafetensorError) as error:
        raise LessonError(f"{folder} has no usable {name}.safetensors ({error}); train first") from None
    shapes = {layer: array.shape for layer, array in layers.items()}
    inputs, actions = shapes.get("0.weight", (0, 0))[-1], shapes.get("2.bias", (0,))[0]
    if shapes != {"0.weight": (HIDDEN, inputs), "0.bias": (HIDDEN,), "2.weight": (actions, HIDDEN), "2.bias": (actions,)}:
        raise LessonError(f"{folder / f'{name}.safetensors'} holds other layers than this agent's; train first")
    return layers


def values(layers: Layers, state: NDArray[np.float32]) -> NDArray[np.float32]:
    """(actions,) Q of each action. seen: (observations,)."""
    hidden = np.maximum(layers["0.weight"] @ state + layers["0.bias"], 0.0)
    by_action: NDArray[np.float32] = layers["2.weight"] @ hidden + layers["2.bias"]
    return by_action


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
                self._report(LessonProgress(self._done, self._episodes, time.monotonic() - self._began, figures))
        return self._done < self._episodes
