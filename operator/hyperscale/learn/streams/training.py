"""REINFORCE on streams of jobs, as Decima does it (Mao et al. 2019): many episodes of one arrival sequence, each the others' baseline.

The policy starts as the tuned rule: its flag is worth `prior` in the logit, everything else nothing. The cost that a decision answers for
is what all jobs in the system cost from then on over a long window; the baseline is what the other episodes of the same arrivals cost over
the same window. A step's decisions are used several times, within PPO's bounds. Episodes are simulated by the compiled network, the
gradient comes from torch.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from hyperscale.learn.lesson import LessonError, Progress
from hyperscale.learn.streams._streams import FEATURES, HIDDEN
from hyperscale.learn.streams.scenario import FAMILIES, Conditions
from hyperscale.learn.streams.simulator import PARAMETERS, TUNED, Network, RuleKnobs, Simulator, agent
from hyperscale.learn.topologies import TRAINING_SEEDS
from hyperscale.model.graph import FloatArray, IntArray
from hyperscale.plan.queue.agent import TENSORS

RULE_FLAG: Final = 25
"""Feature that is 1 where the tuned rule would take the candidate."""
STREAMS_A_STEP: Final = 1_000_000
"""Seeds of one training's streams lie within so many."""
CHECKPOINT: Final = "checkpoint.safetensors"
CHECKPOINT_STEPS: Final = 25
RIDGE: Final = 10.0
"""In decisions, against chance slopes of the baseline."""


@dataclass(frozen=True)
class Training:
    """What is trained, how long, on what."""

    seed: int = 0
    steps: int = 600
    sequences: int = 4
    """Arrival sequences of one step."""
    episodes: int = 8
    """Of each sequence."""
    jobs: int = 100
    horizon: float = 40.0
    """Window of a decision's cost, in mean runs."""
    prior: float = 5.0
    """Logit of the rule's flag at the start; 0: none."""
    entropy: float = 0.003
    rate: float = 5e-4
    passes: int = 3
    """Over the decisions of a step."""
    parts: int = 4
    """Of a pass, with one change of the weights each."""
    clip: float = 0.2
    """No gain from making a decision more or less likely by more than this part in one step."""
    low_load: float = 0.6
    high_load: float = 1.2
    families: tuple[str, ...] = FAMILIES
    knobs: RuleKnobs = TUNED
    mixed: bool = True
    """A quarter of the sequences each with noisy durations, contention, a starvation bound."""


class Batch(NamedTuple):
    """Decisions of one step."""

    rows: NDArray[np.float32]
    """(R, F) features of all candidates."""
    counts: IntArray
    """(D,) candidates of each decision."""
    actions: IntArray
    """(D,)"""
    advantages: FloatArray
    """(D,) of standard deviation 1 within each sequence."""
    cost: float
    """Mean over sequences of the episodes' mean cost / the rule's."""


Report = Callable[[Progress], None]


def initial(config: Training) -> Network:
    """Weights whose output is the rule's flag times the prior."""
    rng = np.random.default_rng([config.seed, 11])
    first = rng.normal(0.0, (2.0 / FEATURES) ** 0.5, FEATURES * HIDDEN)
    second = rng.normal(0.0, (2.0 / HIDDEN) ** 0.5, HIDDEN * HIDDEN)
    skip = np.zeros(FEATURES)
    skip[RULE_FLAG] = config.prior
    none = np.zeros(HIDDEN)
    return np.concatenate((first, none, second, none, none, skip)).astype(np.float32)


def parts(flat: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Matrices and vectors of the flat weights, in the order of `plan.queue.agent`."""
    sizes = [FEATURES * HIDDEN, HIDDEN, HIDDEN * HIDDEN, HIDDEN, HIDDEN, FEATURES]
    first, bias, second, bias2, last, skip = torch.split(flat, sizes)
    return first.view(FEATURES, HIDDEN), bias, second.view(HIDDEN, HIDDEN), bias2, last, skip


def parts_by_name(network: Network) -> dict[str, NDArray[np.float32]]:
    """The flat weights as `plan.queue.agent` names them."""
    tensors = parts(torch.from_numpy(network))
    return {name: np.ascontiguousarray(tensor.numpy()) for name, tensor in zip(TENSORS, tensors, strict=True)}


def logits(flat: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """(R,) of candidates (R, F)."""
    first, bias, second, bias2, last, skip = parts(flat)
    hidden = torch.relu(torch.relu(rows @ first + bias) @ second + bias2)
    return hidden @ last + rows @ skip


def collect(config: Training, network: Network, step: int) -> Batch:
    """Episodes of one step, simulated with `network`; all chance comes from the seed and the step."""
    rng = np.random.default_rng([config.seed, step, 13])
    rows, counts, actions, advantages, costs = [], [], [], [], []
    for number in range(config.sequences):
        conditions = _conditions(config, rng)
        seed = TRAINING_SEEDS + config.seed * STREAMS_A_STEP + step * config.sequences + number
        simulator = Simulator(seed, conditions, config.knobs, network)
        records = []
        for _ in range(config.episodes):
            simulator.run(agent(network, config.knobs), sample=True, seed=int(rng.integers(2**62)), record=True)
            records.append(simulator.stream.recorded())
        rows += [record[0] for record in records]
        counts += [record[1] for record in records]
        actions += [record[2] for record in records]
        own = _advantages([record[3:] for record in records], config.horizon * simulator.mean_seconds)
        advantages += own
        costs.append(float(np.mean([record[5][-1] for record in records])) / _rule_cost(simulator, config))
    return Batch(
        np.concatenate(rows),
        np.concatenate(counts).astype(np.int64),
        np.concatenate(actions).astype(np.int64),
        np.concatenate(advantages),
        float(np.exp(np.mean(np.log(costs)))),
    )


def _rule_cost(simulator: Simulator, config: Training) -> float:
    from hyperscale.learn.streams.simulator import index

    simulator.run(index(config.knobs))
    return simulator.stream.cost


def _conditions(config: Training, rng: np.random.Generator) -> Conditions:
    family = config.families[int(rng.integers(len(config.families)))]
    noise, contention, starvation = (rng.random(3) < 0.25) & config.mixed
    return Conditions(
        family=family,
        load=float(rng.uniform(config.low_load, config.high_load)),
        jobs=config.jobs,
        noise=0.3 if noise else 0.0,
        contention=bool(contention),
        starvation_runs=float(rng.uniform(4.0, 16.0)) if starvation else 0.0,
    )


def _advantages(records: list[tuple[FloatArray, FloatArray, FloatArray, FloatArray]], window: float) -> list[FloatArray]:
    """Per episode (D,): the mean cost of the other episodes over the window from each decision on, less its own; all of deviation 1.

    Episodes drift apart: one with a longer queue than the others at that time costs more from then on, whatever it decides. What a linear
    model of the state before the decision says about that is taken away.
    """
    found, states = [], []
    for number, (times, *_) in enumerate(records):
        ahead = np.array([np.interp(times + window, events, cost) - np.interp(times, events, cost) for _, events, cost, _ in records])
        found.append((ahead.sum(axis=0) - ahead[number]) / (len(records) - 1) - ahead[number])
        there = np.array([state[np.searchsorted(events, times, side="right") - 1] for _, events, _, state in records])
        apart = there[number] - (there.sum(axis=0) - there[number]) / (len(records) - 1)
        last = max(float(events[-1]) for _, events, _, _ in records)
        left = (np.minimum(times + window, last) - times)[:, None] / last
        states.append(np.concatenate((apart, apart * left), axis=1))
    gain, state = np.concatenate(found), np.concatenate(states)
    state /= np.maximum(state.std(axis=0), 1e-9)
    slope = np.linalg.solve(state.T @ state + RIDGE * np.eye(state.shape[1]), state.T @ gain)
    rest = gain - state @ slope
    rest /= max(float(rest.std()), 1e-9)
    return np.split(rest, np.cumsum([len(times) for times, *_ in records])[:-1])


def gradient(flat: torch.Tensor, batch: Batch, before: torch.Tensor, config: Training) -> tuple[torch.Tensor, float]:
    """The loss (PPO's, Schulman et al. 2017), and the policy's mean entropy; `before`: (D,) log-probabilities of the actions when taken."""
    log_probability, spread = _log_probabilities(flat, batch)
    change = torch.exp(log_probability - before)
    advantages = torch.from_numpy(batch.advantages.astype(np.float32))
    clipped = torch.clamp(change, 1.0 - config.clip, 1.0 + config.clip)
    gain = torch.minimum(change * advantages, clipped * advantages).mean()
    return -gain - config.entropy * spread, float(spread.detach())


def _log_probabilities(flat: torch.Tensor, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """(D,) of the actions taken, and the mean entropy."""
    counts = torch.from_numpy(batch.counts)
    decision = torch.repeat_interleave(torch.arange(len(counts)), counts)
    scores = logits(flat, torch.from_numpy(batch.rows))
    peak = torch.full((len(counts),), -torch.inf).scatter_reduce(0, decision, scores.detach(), "amax")
    shifted = scores - peak[decision]
    total = torch.zeros(len(counts)).index_add(0, decision, torch.exp(shifted))
    every = shifted - torch.log(total)[decision]
    taken = torch.cumsum(counts, 0) - counts + torch.from_numpy(batch.actions)
    return every[taken], -(torch.exp(every) * every).sum() / len(counts)


def _some(batch: Batch, decisions: IntArray) -> Batch:
    """Some decisions of a batch."""
    counts = batch.counts[decisions]
    starts = (np.cumsum(batch.counts) - batch.counts)[decisions]
    rows = np.repeat(starts - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))
    return Batch(batch.rows[rows], counts, batch.actions[decisions], batch.advantages[decisions], batch.cost)


def train(config: Training, folder: Path, report: Report, resume: bool = False) -> Network:
    """Learn; leaves a checkpoint in `folder` and returns the mean of the last fifth of the steps' weights.

    The same configuration gives the same weights, however often it was interrupted. Raises LessonError where a checkpoint of another
    configuration lies in `folder`.
    """
    torch.set_num_threads(1)
    state = _State.read(config, folder) if resume else _State.new(config)
    began = time.monotonic() - state.seconds
    average_from = config.steps - max(1, config.steps // 5)
    while state.step < config.steps:
        batch = collect(config, state.network, state.step)
        spread = _improve(state, batch, config)
        state.step += 1
        if state.step > average_from:
            state.total += state.network
            state.averaged += 1
        state.seconds = time.monotonic() - began
        report(Progress(state.step, config.steps, state.seconds, {"cost_over_rule": batch.cost, "entropy": spread}))
        if state.step % CHECKPOINT_STEPS == 0 or state.step == config.steps:
            state.write(config, folder)
    return (state.total / state.averaged).astype(np.float32)


def _improve(state: _State, batch: Batch, config: Training) -> float:
    """Some passes over the batch in parts; the entropy at the end."""
    rng = np.random.default_rng([config.seed, state.step, 19])
    flat = torch.from_numpy(state.network.copy()).requires_grad_(True)
    with torch.no_grad():
        before = _log_probabilities(flat, batch)[0]
    spread = 0.0
    for _ in range(config.passes):
        for decisions in np.array_split(rng.permutation(len(batch.counts)), config.parts):
            loss, spread = gradient(flat, _some(batch, decisions), before[torch.from_numpy(decisions)], config)
            (change,) = torch.autograd.grad(loss, flat)
            with torch.no_grad():
                flat += torch.from_numpy(state.adam(change.numpy(), config))
    state.network = flat.detach().numpy().copy()
    return spread


class _State:
    """Weights, Adam's moments and the running mean."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.first, self.second, self.total = np.zeros(PARAMETERS), np.zeros(PARAMETERS), np.zeros(PARAMETERS)
        self.step = self.changes = self.averaged = 0
        self.seconds = 0.0

    @classmethod
    def new(cls, config: Training) -> _State:
        return cls(initial(config))

    @classmethod
    def read(cls, config: Training, folder: Path) -> _State:
        file = folder / CHECKPOINT
        if not file.is_file():
            raise LessonError(f"{folder} has no {CHECKPOINT} to go on from; leave --resume out to begin")
        held = load_file(file)
        if held["config"].tobytes() != _fingerprint(config):
            raise LessonError(f"{file} belongs to another configuration; use the same seed, or another folder")
        state = cls(held["network"])
        state.first, state.second, state.total = held["first"], held["second"], held["total"]
        state.step, state.changes, state.averaged = (int(number) for number in held["counts"])
        state.seconds = float(held["seconds"][0])
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
            "seconds": np.array([self.seconds]),
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


def _fingerprint(config: Training) -> bytes:
    return repr(sorted(asdict(config).items())).encode()
