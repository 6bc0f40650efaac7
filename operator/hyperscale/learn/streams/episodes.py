"""What a training learns from: many episodes of the same arrivals, and what each decision of theirs was worth.

The cost that a decision answers for is what all jobs in the system cost from then on over a long window; the baseline is what the other
episodes of the same arrivals cost over the same window (Decima, Mao et al. 2019).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hyperscale.learn.streams import embedding
from hyperscale.learn.streams._streams import FEATURES, HIDDEN
from hyperscale.learn.streams.job_mix import mixed_jobs
from hyperscale.learn.streams.scenario import FAMILIES, Conditions, RecordedJobs, SimulatedNodes
from hyperscale.learn.streams.simulator import OPERATORS_RULE, Network, RuleKnobs, Simulator, agent, index
from hyperscale.learn.topologies import TRAINING_SEEDS
from hyperscale.model.graph import FloatArray, IntArray

RULE_FLAG: Final = 25
"""Feature that is 1 where the operator's rule would take the candidate."""
STREAMS_A_STEP: Final = 1_000_000
"""Seeds of one training's streams span at most this number."""
LONG_WAIT: Final = 16.0
"""Mean runs; `Training.wait_price` is of such a wait."""
MOST_HEAVY: Final = 4.0
"""No bad episode counts more than this many ordinary ones."""
MOST_THREADS: Final = 16
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
    prior: float = 2.0
    """Logit of the rule's flag at the start; 0: none."""
    entropy: float = 0.006
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
    knobs: RuleKnobs = OPERATORS_RULE
    mixed: float = 0.25
    """Part of the sequences each with noisy durations, contention, a starvation bound."""
    least_bound: float = 4.0
    most_bound: float = 16.0
    """Starvation bound in mean runs, where there is one."""
    wait_price: float = 0.0
    """What a second of waiting costs more where the job has waited for 16 mean runs, in seconds of a job of weight 1."""
    wait_target: float = 0.0
    """Longest wait over the rule's to which the price is led, from `wait_price` on; 0: the price stays."""
    risk: float = 0.0
    """Decisions count by the episode's cost over the rule's, to this power: bad streams more than good ones; 0: all alike."""
    embedding: bool = False
    """A graph network over nodes and queue beside the candidates' own features."""
    start: str = ""
    """SHA-256 of the weights that the training continues from; empty: from the rule."""
    nodes: int = 0
    """Of every cluster; 0: drawn."""
    mixed_jobs: bool = False
    """Drawn jobs are of unlike spreads; see `job_mix`."""
    history: str = ""
    """Digest of the history that jobs come from; empty: jobs are drawn."""


class EpisodeBatch(NamedTuple):
    """Decisions of one step."""

    rows: NDArray[np.float32]
    """(R, F) features of all candidates."""
    counts: IntArray
    """(D,) candidates of each decision."""
    actions: IntArray
    """(D,)"""
    advantages: FloatArray
    """(D,) of standard deviation 1 within each sequence, times what the episode counts."""
    cost: float
    """Mean over sequences of the episodes' mean cost / the rule's."""
    pictures: embedding.Pictures | None = None
    """For the graph embedding, where there is one."""
    wait: float = math.nan
    """Geometric mean over sequences of the episodes' longest waits / the rule's, both at least a mean run; NaN where all are shorter."""


def initial(config: Training) -> Network:
    """Weights whose output is the rule's flag times the prior."""
    rng = np.random.default_rng([config.seed, 11])
    first = rng.normal(0.0, (2.0 / FEATURES) ** 0.5, FEATURES * HIDDEN)
    second = rng.normal(0.0, (2.0 / HIDDEN) ** 0.5, HIDDEN * HIDDEN)
    skip = np.zeros(FEATURES)
    skip[RULE_FLAG] = config.prior
    none = np.zeros(HIDDEN)
    graph = embedding.initial(rng) if config.embedding else np.zeros(0)
    return np.concatenate((first, none, second, none, none, skip, graph)).astype(np.float32)


class OwnStreams(NamedTuple):
    """Where the streams of a training come from, what `Training.history` names."""

    jobs: Callable[[np.random.Generator], RecordedJobs]
    """Draws the jobs of one stream."""
    cluster: SimulatedNodes | None = None
    """The nodes of all streams, some drained; None: those of the families."""

    def stream(self, rng: np.random.Generator) -> tuple[RecordedJobs, SimulatedNodes | None]:
        """Jobs and nodes of one stream."""
        return self.jobs(rng), self.cluster.some_drained(rng) if self.cluster is not None else None


def collect(config: Training, network: Network, step: int, own: OwnStreams | None = None, price: float | None = None) -> EpisodeBatch:
    """Episodes of one step, simulated with `network`; all chance comes from the seed and the step. Without `own` streams are drawn.

    price: of waiting, instead of the configuration's
    Sequences are simulated side by side on all processor cores; how many there are changes nothing in what comes out.
    """
    rng = np.random.default_rng([config.seed, step, 13])
    drawn: list[tuple[Simulator, list[int]]] = []
    for number in range(config.sequences):
        simulator = _simulator(config, network, rng, step * config.sequences + number, own)
        simulator.stream.set_wait_price((config.wait_price if price is None else price) / (LONG_WAIT * simulator.mean_seconds))
        drawn.append((simulator, [int(rng.integers(2**62)) for _ in range(config.episodes)]))
    with ThreadPoolExecutor(min(MOST_THREADS, os.cpu_count() or 1), thread_name_prefix="streams") as pool:
        played = list(pool.map(lambda one: _played(config, network, *one), drawn))
    return _joined(played, config)


class _Played(NamedTuple):
    """The episodes of one sequence."""

    rows: NDArray[np.float32]
    counts: IntArray
    actions: IntArray
    advantages: FloatArray
    cost: float
    """Their mean cost over the rule's."""
    wait: float | None
    """Logarithm, see `_waits_over`."""
    pictures: list[tuple[NDArray[np.float32], ...]]


def _played(config: Training, network: Network, simulator: Simulator, seeds: list[int]) -> _Played:
    """One episode for each of the seeds."""
    records, longest = [], []
    pictures: list[tuple[NDArray[np.float32], ...]] = []
    for seed in seeds:
        ended = simulator.run(agent(network, config.knobs), sample=True, seed=seed, record=True)
        longest.append(ended.longest_wait)
        records.append(simulator.stream.recorded())
        if config.embedding:
            pictures.append(simulator.stream.pictures())
    gains = _advantages([record[3:] for record in records], config.horizon * simulator.mean_seconds)
    rule_cost, rule_wait = _by_rule(simulator, config)
    ratios = np.array([record[5][-1] for record in records]) / rule_cost
    return _Played(
        np.concatenate([record[0] for record in records]),
        np.concatenate([record[1] for record in records]).astype(np.int64),
        np.concatenate([record[2] for record in records]).astype(np.int64),
        np.concatenate([gain * min(float(ratio) ** config.risk, MOST_HEAVY) for gain, ratio in zip(gains, ratios, strict=True)]),
        float(ratios.mean()),
        _waits_over(longest, rule_wait, simulator.mean_seconds),
        pictures,
    )


def _joined(played: Sequence[_Played], config: Training) -> EpisodeBatch:
    """The episodes of all sequences."""
    rows, counts, actions, advantages, costs, waits, galleries = zip(*played, strict=True)
    pictures = list(chain.from_iterable(galleries))
    logs = [wait for wait in waits if wait is not None]
    return EpisodeBatch(
        np.concatenate(rows),
        np.concatenate(counts),
        np.concatenate(actions),
        np.concatenate(advantages),
        float(np.exp(np.mean(np.log(costs)))),
        gallery(pictures, config.episodes) if pictures else None,
        float(np.exp(np.mean(logs))) if logs else math.nan,
    )


def _simulator(config: Training, network: Network, rng: np.random.Generator, number: int, own: OwnStreams | None) -> Simulator:
    """The stream of this number."""
    conditions, seed = _conditions(config, rng), TRAINING_SEEDS + config.seed * STREAMS_A_STEP + number
    jobs, cluster = own.stream(rng) if own is not None else (mixed_jobs(rng, config.jobs) if config.mixed_jobs else None, None)
    return Simulator(seed, conditions, config.knobs, network, jobs, cluster)


def _waits_over(longest: list[float], rule: float, run_seconds: float) -> float | None:
    """Logarithm of the mean longest wait over the rule's, each at least a run; None where all are shorter: no price shortens them."""
    if max(*longest, rule) <= run_seconds:
        return None
    return float(np.log(np.maximum(longest, run_seconds)).mean() - np.log(max(rule, run_seconds)))


def gallery(pictures: list[tuple[NDArray[np.float32], ...]], episodes: int) -> embedding.Pictures:
    """Of all episodes; those of one sequence share the cluster."""
    even = [embedding.filled(nodes, candidate_nodes, near) for nodes, _, candidate_nodes, near in pictures]
    return embedding.Pictures(
        np.concatenate([nodes for nodes, _, _ in even]),
        np.concatenate([queue for _, queue, _, _ in pictures]),
        np.concatenate([candidate_nodes for _, candidate_nodes, _ in even]),
        np.stack([near for _, _, near in even[::episodes]]),
        np.concatenate([np.full(len(nodes), number // episodes, dtype=np.int64) for number, (nodes, _, _) in enumerate(even)]),
    )


def _by_rule(simulator: Simulator, config: Training) -> tuple[float, float]:
    """Cost and longest wait under the rule."""
    ended = simulator.run(index(config.knobs))
    return simulator.stream.cost, ended.longest_wait


def _conditions(config: Training, rng: np.random.Generator) -> Conditions:
    family = config.families[int(rng.integers(len(config.families)))]
    noise, contention, starvation = rng.random(3) < config.mixed
    return Conditions(
        family=family,
        load=float(rng.uniform(config.low_load, config.high_load)),
        jobs=config.jobs,
        noise=0.3 if noise else 0.0,
        contention=bool(contention),
        starvation_runs=float(rng.uniform(config.least_bound, config.most_bound)) if starvation else 0.0,
        nodes=config.nodes,
    )


def _advantages(records: list[tuple[FloatArray, FloatArray, FloatArray, FloatArray]], window: float) -> list[FloatArray]:
    """Per episode (D,): the mean cost of the other episodes over the window from each decision on, less its own; all of deviation 1.

    Episodes drift apart: one with a longer queue than the others at that time costs more from then on, whatever it decides. What a linear
    model of the state before the decision says about that is taken away.
    """
    advantages, states = [], []
    for number, (times, *_) in enumerate(records):
        ahead = np.array([np.interp(times + window, events, cost) - np.interp(times, events, cost) for _, events, cost, _ in records])
        advantages.append((ahead.sum(axis=0) - ahead[number]) / (len(records) - 1) - ahead[number])
        there = np.array([state[np.searchsorted(events, times, side="right") - 1] for _, events, _, state in records])
        apart = there[number] - (there.sum(axis=0) - there[number]) / (len(records) - 1)
        last = max(float(events[-1]) for _, events, _, _ in records)
        left = (np.minimum(times + window, last) - times)[:, None] / last
        states.append(np.concatenate((apart, apart * left), axis=1))
    gain, state = np.concatenate(advantages), np.concatenate(states)
    state /= np.maximum(state.std(axis=0), 1e-9)
    slope = np.linalg.solve(state.T @ state + RIDGE * np.eye(state.shape[1]), state.T @ gain)
    rest = gain - state @ slope
    rest /= max(float(rest.std()), 1e-9)
    return np.split(rest, np.cumsum([len(times) for times, *_ in records])[:-1])
