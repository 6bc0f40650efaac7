"""The training of the agent: episodes of the simulator, gradients of torch, a checkpoint every few steps.

The policy starts near the operator's rule: its flag is worth `prior` in the logit, everything else nothing. A step's decisions are used
several times, within PPO's bounds. Episodes are simulated by the compiled network; the same configuration gives the same weights.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from hyperscale.learn.lesson import LessonError, LessonProgress, reading
from hyperscale.learn.streams.episodes import EpisodeBatch, OwnStreams, Training, collect, initial
from hyperscale.learn.streams.gradient import gradient, log_probabilities, some
from hyperscale.learn.streams.simulator import Network
from hyperscale.model.graph import FloatArray

CHECKPOINT: Final = "checkpoint.safetensors"
CHECKPOINT_STEPS: Final = 25
CHECKPOINT_SECONDS: Final = 60.0
"""A step on a large cluster takes many seconds: a checkpoint is due at least so often."""
PRICE_GAIN: Final = 0.3
"""Change of the price's logarithm for every unit of the logarithm of waits over their target."""
MOST_PRICE_CHANGE: Final = 0.1
"""Of that logarithm, in one step."""
MOST_PRICE: Final = 3.0
"""Of that logarithm: the price stays between a twentieth and twenty times what it began with."""
NAMED: Final = {
    "history": "another history or cluster",
    "seed": "another --seed",
    "start": "other --start weights",
    "steps": "other --steps",
}
"""What of a configuration a user names, in words; the rest follows from these and from the release."""

Report = Callable[[LessonProgress], None]


def train(
    config: Training, folder: Path, report: Report, resume: bool = False, start: Network | None = None, own: OwnStreams | None = None
) -> Network:
    """Learn; leaves a checkpoint in `folder` and returns the mean of the last fifth of the steps' weights.

    start: weights to begin with, those that `config.start` names; None begins near the rule
    own: where the streams come from, what `config.history` names; None draws them
    The same configuration gives the same weights, however often it was interrupted. Raises LessonError where a checkpoint of another
    configuration lies in `folder`.
    """
    torch.set_num_threads(1)
    state = _TrainingState.read(config, folder) if resume else _TrainingState(initial(config) if start is None else start.copy())
    written = time.monotonic()
    began = written - state.seconds
    average_from = config.steps - max(1, config.steps // 5)
    while state.step < config.steps:
        batch = collect(config, state.network, state.step, own, state.price(config))
        state.lead_price(batch.wait, config)
        spread = _improve(state, batch, config)
        state.step += 1
        if state.step > average_from:
            state.total += state.network
            state.averaged += 1
        state.seconds = time.monotonic() - began
        figures = {"cost_over_rule": batch.cost, "wait_over_rule": batch.wait, "entropy": spread}
        report(LessonProgress(state.step, config.steps, state.seconds, figures))
        if state.step % CHECKPOINT_STEPS == 0 or state.step == config.steps or time.monotonic() - written >= CHECKPOINT_SECONDS:
            state.write(config, folder)
            written = time.monotonic()
    return (state.total / state.averaged).astype(np.float32)


def check_checkpoint(config: Training, folder: Path) -> None:
    """Raise LessonError where a training of this configuration cannot continue from the checkpoint in `folder`."""
    _TrainingState.read(config, folder)


def _improve(state: _TrainingState, batch: EpisodeBatch, config: Training) -> float:
    """Some passes over the batch in parts; the entropy at the end."""
    rng = np.random.default_rng([config.seed, state.step, 19])
    flat = torch.from_numpy(state.network.copy()).requires_grad_(True)
    with torch.no_grad():
        before = log_probabilities(flat, batch)[0]
    spread = 0.0
    for _ in range(config.passes):
        for decisions in np.array_split(rng.permutation(len(batch.counts)), config.parts):
            loss, spread = gradient(flat, some(batch, decisions), before[torch.from_numpy(decisions)], config)
            (change,) = torch.autograd.grad(loss, flat)
            with torch.no_grad():
                flat += torch.from_numpy(state.adam(change.numpy(), config))
    state.network = flat.detach().numpy().copy()
    return spread


class _TrainingState:
    """Weights, Adam's moments and the running mean."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.first, self.second, self.total = (np.zeros(len(network)) for _ in range(3))
        self.step = self.changes = self.averaged = 0
        self.seconds = self.log_price = 0.0

    def price(self, config: Training) -> float:
        """Of waiting, at this step."""
        return config.wait_price * float(np.exp(self.log_price))

    def lead_price(self, wait: float, config: Training) -> None:
        """Raise the price where waits are longer than they should be, lower it where they are shorter: dual ascent on that bound."""
        if config.wait_target and not math.isnan(wait):
            change = float(np.clip(PRICE_GAIN * np.log(wait / config.wait_target), -MOST_PRICE_CHANGE, MOST_PRICE_CHANGE))
            self.log_price = float(np.clip(self.log_price + change, -MOST_PRICE, MOST_PRICE))

    @classmethod
    def read(cls, config: Training, folder: Path) -> _TrainingState:
        file = folder / CHECKPOINT
        with reading(file):
            tensors = load_file(file)
            if (kept := tensors["config"].tobytes()) != _fingerprint(config):
                raise LessonError(f"{file} is of a training with {_unlike(config, kept.decode())}, or name another folder")
            state = cls(tensors["network"])
            state.first, state.second, state.total = tensors["first"], tensors["second"], tensors["total"]
            state.step, state.changes, state.averaged = (int(number) for number in tensors["counts"])
            state.seconds, state.log_price = (float(number) for number in tensors["seconds"])
        return state

    def write(self, config: Training, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        beside = folder / f".{CHECKPOINT}"
        tensors: dict[str, NDArray[Any]] = {
            "network": self.network,
            "first": self.first,
            "second": self.second,
            "total": self.total,
            "counts": np.array([self.step, self.changes, self.averaged]),
            "seconds": np.array([self.seconds, self.log_price]),
            "config": np.frombuffer(_fingerprint(config), dtype=np.uint8),
        }
        save_file(tensors, beside)
        beside.replace(folder / CHECKPOINT)

    def adam(self, change: FloatArray, config: Training) -> NDArray[np.float32]:
        """Step of Adam (Kingma & Ba 2015), its rate falling to a tenth along half a cosine; the gradient no longer than 1."""
        change = change.astype(np.float64)
        change /= max(1.0, float(np.linalg.norm(change)))
        self.changes += 1
        count = self.changes
        self.first = 0.9 * self.first + 0.1 * change
        self.second = 0.999 * self.second + 0.001 * change * change
        rate = config.rate * (0.55 + 0.45 * np.cos(np.pi * self.step / config.steps))
        step: NDArray[np.float32] = (-rate * (self.first / (1 - 0.9**count)) / (np.sqrt(self.second / (1 - 0.999**count)) + 1e-8)).astype(
            np.float32
        )
        return step


def _unlike(config: Training, kept: str) -> str:
    """What differs from a checkpoint's fingerprint, and how to go on."""
    names = {name for name, value in asdict(config).items() if repr((name, value)) not in kept}
    named = [words for name, words in NAMED.items() if name in names] or ["the settings of another release"]
    way = ": leave --history and --snapshot out to go on with those that the folder keeps" if "history" in names else ""
    return f"{', '.join(named)}; use the same{way}"


def _fingerprint(config: Training) -> bytes:
    return repr(sorted(asdict(config).items())).encode()
