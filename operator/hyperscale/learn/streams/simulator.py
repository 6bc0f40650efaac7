"""The door to the compiled simulator: streams by conditions and seed, policies by name, what came out of a run."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hyperscale.learn.streams.scenario import Conditions, RecordedJobs, SimulatedNodes, draw
from hyperscale.model.graph import FloatArray, IntArray
from hyperscale.planner.queue.likeness import MIN_ARRIVALS, FigureRange, JudgedStreams, QueueProfile, unlike
from hyperscale.planner.queue.wait_bounds import IDLE_COSTS, IDLE_RUNS, PATIENCE_COSTS, STRICT_BOUNDS

try:
    from hyperscale.learn.streams._streams import FEATURES as FEATURES
    from hyperscale.learn.streams._streams import HIDDEN, Stream
except ImportError as error:  # pragma: no cover - a machine without a compiler
    raise ImportError("streams of jobs are simulated by a compiled module; build it: python setup.py build_ext --inplace") from error

NO_PATIENCE: Final = 1e9
MASK_PATIENCE: Final = 4.0
"""Largest ratio of a job's time to its time on the empty cluster with which the agent may start it while others run."""
PARAMETERS: Final = FEATURES * HIDDEN + HIDDEN + HIDDEN * HIDDEN + HIDDEN + HIDDEN + FEATURES

ANY: Final = FigureRange(0.0, math.inf)

Network = NDArray[np.float32]
"""(PARAMETERS,) weights of the agent one after the other; see `planner.queue.queue_agent`."""


class JobOrder(enum.IntEnum):
    """What the index rule sorts by."""

    SECONDS = 0
    AREA = 1


class RuleKnobs(NamedTuple):
    """The index rule's parameters."""

    order: JobOrder
    thrift_alone: float
    """α with one pending job."""
    thrift: float
    """α with several."""
    patience: float
    """c."""
    size_exponent: float = 0.0
    """ε: with which patience falls as a job's best run grows, in mean runs."""
    communication_factor: float = 0.0
    """κ: what a second of communication counts more."""
    patience_costs: float = 1.0
    """Patience ends after this multiple of what the free nodes would cost the job."""
    wait_speedup: float = 0.0
    """θ: a job waits for running jobs that end soon where it ends that many times sooner; 0: never."""


SHORTEST_FIRST: Final = RuleKnobs(JobOrder.SECONDS, 0.0, 0.0, NO_PATIENCE)
SMALLEST_FIRST: Final = RuleKnobs(JobOrder.AREA, 0.0, 0.0, NO_PATIENCE)
TUNED_RULE: Final = RuleKnobs(JobOrder.SECONDS, 0.23, 0.15, 2.35)
"""The best setting found of an index rule with order, thrift and patience alone: a peer."""
OPERATORS_RULE: Final = RuleKnobs(JobOrder.SECONDS, 0.23, 0.15, 4.0, 0.2, 1.5, PATIENCE_COSTS, 1.5)
"""Chosen on development streams (docs/explanation/streams.md); the operator's own rule by default."""


class Policy(NamedTuple):
    """Who decides."""

    kind: int
    alpha: float = 0.0
    """Thrift of FIFO and EASY; negative: as many workers as fit."""
    knobs: RuleKnobs = OPERATORS_RULE
    """Of the index rule; the agent's prior."""
    network: Network | None = None
    idle_runs: float = IDLE_RUNS
    """The agent's bound on waiting; see `planner.queue.wait_bounds`."""
    strict_bounds: float = STRICT_BOUNDS
    """Starvation bounds after which no other job starts before the one that waits longest; 1: at once, on whatever nodes are free."""
    bounded_patience: bool = True
    """Whether the rule waits for better nodes only as long as poor ones would cost the job; see `planner.queue.rule.measure_seconds`."""
    judged: JudgedStreams | None = None
    """The agent decides while a stream is like these, else the rule, as with `order: Auto`; None: always the agent."""


def fifo(alpha: float = 0.0) -> Policy:
    """In order of arrival; the head of the queue blocks."""
    return Policy(0, alpha)


def easy(alpha: float = 0.0) -> Policy:
    """In order of arrival; others may start where they do not delay the head's reservation (Lifka 1995)."""
    return Policy(1, alpha)


def index(knobs: RuleKnobs) -> Policy:
    """The index rule; shortest job first and smallest area first are two of its settings."""
    return Policy(2, 0.0, knobs)


def marginal() -> Policy:
    """Workers where they speed up most (Optimus, Peng et al. 2018; AFS, Hwang et al. 2021), without preemption."""
    return Policy(3)


def maxmin() -> Policy:
    """Equal weighted shares, who waits longest for his goes first (Gavel, Narayanan et al. 2020), without preemption."""
    return Policy(4)


def agent(network: Network, knobs: RuleKnobs = OPERATORS_RULE, idle_runs: float = IDLE_RUNS) -> Policy:
    """The trained network under the bound on waiting that holds in the cluster; `idle_runs` of inf: without it."""
    return Policy(5, 0.0, knobs, network, idle_runs)


def auto(network: Network, judged: JudgedStreams, knobs: RuleKnobs = OPERATORS_RULE) -> Policy:
    """What runs by default: the agent where it was judged, as far as arrivals so far tell, else the rule."""
    return agent(network, knobs)._replace(judged=judged)


@dataclass(frozen=True)
class StreamOutcome:
    """What became of the jobs of one stream, in order of arrival."""

    arrival: FloatArray
    weight: FloatArray
    best_seconds: FloatArray
    """Each job alone on the empty cluster."""
    start: FloatArray
    finish: FloatArray
    communication_seconds: FloatArray
    seconds: FloatArray
    """Of the run, contention aside."""
    workers: FloatArray
    decisions: int

    @cached_property
    def completion(self) -> FloatArray:
        """(J,) seconds from arrival to end."""
        seconds: FloatArray = self.finish - self.arrival
        return seconds

    @property
    def mean_completion(self) -> float:
        """Weighted mean seconds from arrival to end: what is optimised."""
        return float((self.weight * self.completion).sum() / self.weight.sum())

    @property
    def mean_slowdown(self) -> float:
        """Mean of completion time over the time alone on the empty cluster."""
        return float((self.completion / self.best_seconds).mean())

    @property
    def p95_completion(self) -> float:
        """Seconds within which 95 % of the jobs are done."""
        return float(np.percentile(self.completion, 95))

    @property
    def longest_wait(self) -> float:
        """Seconds from arrival to start of the job that waited longest."""
        return float((self.start - self.arrival).max())

    @property
    def mean_communication(self) -> float:
        """Seconds that a job spends talking."""
        return float(self.communication_seconds.mean())


class Simulator:
    """One stream, for any number of runs: whole ones by `run`, or decision by decision by `reset`, `features`, `candidates`, `step`."""

    def __init__(
        self,
        seed: int,
        conditions: Conditions,
        knobs: RuleKnobs = OPERATORS_RULE,
        network: Network | None = None,
        recorded: RecordedJobs | None = None,
        cluster: SimulatedNodes | None = None,
    ) -> None:
        drawn = draw(conditions, seed, recorded, cluster)
        self.conditions, self.seed = conditions, seed
        machines = len(drawn.speed) if cluster is None else cluster.machines
        self._shape = machines, len(drawn.speed), float(drawn.speed.max() / drawn.speed.min()), int(drawn.workers.max())
        self.stream = Stream(
            np.ascontiguousarray(drawn.speed),
            np.ascontiguousarray(drawn.latency),
            drawn.per_byte,
            drawn.domain.astype(np.int32),
            drawn.weights,
            drawn.noise,
            drawn.equal.astype(np.uint8),
            drawn.workers.astype(np.int32),
            drawn.figures,
            drawn.gaps,
            drawn.half.astype(np.uint8),
            conditions.load,
            conditions.communication_weight,
            conditions.contention,
            conditions.starvation_runs,
        )
        self._jobs = self.stream.jobs_table()
        self._cost = 0.0
        self.stream.set_rule(*knobs, MASK_PATIENCE)
        self.stream.set_idle_bound(IDLE_COSTS, IDLE_RUNS)
        self.stream.set_strict_bounds(STRICT_BOUNDS)
        self.stream.set_network(np.zeros(PARAMETERS, dtype=np.float32) if network is None else network)

    @property
    def mean_seconds(self) -> float:
        """Of a job alone on the empty cluster."""
        return self.stream.mean_seconds

    def run(
        self, policy: Policy, sample: bool = False, seed: int = 0, record: bool = False, mask_patience: float = MASK_PATIENCE
    ) -> StreamOutcome:
        """The whole stream under one policy; `sample` draws the agent's choices instead of taking its best."""
        self.stream.set_rule(*policy.knobs, mask_patience)
        self.stream.set_idle_bound(IDLE_COSTS, policy.idle_runs)
        self.stream.set_strict_bounds(policy.strict_bounds)
        self.stream.set_bounded_patience(policy.bounded_patience)
        if policy.network is not None:
            self.stream.set_network(policy.network)
        kind = index(policy.knobs).kind if policy.judged is not None and self._is_unlike(policy.judged) else policy.kind
        load, gaps = (ANY, ANY) if policy.judged is None else (policy.judged.load, policy.judged.gap_variation or ANY)
        arrivals, bound = (0, 0.0) if policy.judged is None else (MIN_ARRIVALS, policy.judged.least_bound_runs)
        self.stream.set_judged(arrivals, load.low, load.high, gaps.low, gaps.high, bound)
        result = self.stream.run(kind, policy.alpha, sample, seed, record)
        start, finish, communication, seconds, workers = result
        arrival, weight, best, _ = self._jobs
        return StreamOutcome(arrival, weight, best, start, finish, communication, seconds, workers, self.stream.decisions)

    def _is_unlike(self, judged: JudgedStreams) -> bool:
        """Whether cluster or job sizes are unlike; what arrivals tell counts as alike, and is compared in the run.

        The largest job counts as always pending: the operator looks at those that are.
        """
        machines, nodes, spread, workers = self._shape
        gaps = (judged.gap_variation or ANY).low
        own = QueueProfile(machines, nodes, spread, workers / nodes, judged.load.low, MIN_ARRIVALS, gaps, math.inf)
        return bool(unlike(judged, own))

    def reset(self) -> bool:
        """To the first decision; False where there is none."""
        self.stream.begin()
        self._cost = 0.0
        return self.stream.advance()

    def features(self) -> FloatArray:
        """(C, FEATURES) of the candidates at hand; see `planner.queue.features`."""
        return self.stream.observed()[0]

    def candidates(self) -> tuple[IntArray, IntArray]:
        """Job (−1: wait) and workers of every candidate at hand, each (C,)."""
        _, jobs, workers = self.stream.observed()
        return jobs, workers

    def step(self, chosen: int) -> tuple[float, bool]:
        """Take a candidate and continue to the next decision; the reward, −(weighted time + λ communication) till then, and if it ended.

        The reward is in mean runs of weighted jobs, so that streams of any scale are alike. Raises IndexError for no candidate.
        """
        self.stream.act(chosen)
        going_on = self.stream.advance()
        cost, self._cost = self.stream.cost - self._cost, self.stream.cost
        return -cost / self.mean_seconds, not going_on
