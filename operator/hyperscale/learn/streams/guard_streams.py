"""What the guard judges a trained policy by: streams run under it and under the operator's rule, and what those streams were like."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from hyperscale.learn.streams.compare import cases
from hyperscale.learn.streams.policy_guard import PolicyVerdict, StreamEvidence, judged
from hyperscale.learn.streams.scenario import Conditions, RecordedJobs, SimulatedNodes, draw
from hyperscale.learn.streams.simulator import OPERATORS_RULE, Policy, Simulator, index
from hyperscale.learn.topologies import VALIDATION_SEEDS
from hyperscale.model.graph import FloatArray
from hyperscale.planner.queue.arrival_history import FADING_JOBS, arrived, gap_variation
from hyperscale.planner.queue.likeness import FigureRange, JudgedStreams
from hyperscale.planner.queue.queue_types import ArrivalHistory, Option, PendingJob

PLAIN: Final = "held-out streams"
HARD: Final = "held-out streams with noise and contention"
HARD_CONDITIONS: Final = Conditions("geo", 0.9, noise=0.3, contention=True)
HELD_OUT_STREAMS: Final = 125
BOUNDED: Final = "with starvation bounds"
BOUND_RUNS: Final = (16.0, 32.0, 64.0)
"""Starvation bounds in mean runs, dealt to the streams in turn: with the default bound of a day, mean runs of 22 to 90 minutes."""


class GuardStream(NamedTuple):
    """One stream to judge on."""

    seed: int
    conditions: Conditions
    recorded: RecordedJobs | None = None
    cluster: SimulatedNodes | None = None
    """The nodes, instead of the family's."""

    def simulator(self) -> Simulator:
        """The stream, ready to run under any policy."""
        return Simulator(self.seed, self.conditions, recorded=self.recorded, cluster=self.cluster)


def held_out(base: Conditions | None = None, count: int = HELD_OUT_STREAMS) -> list[GuardStream]:
    """Validation streams of all shipped families and loads, under the conditions of `base`."""
    return [GuardStream(VALIDATION_SEEDS + number, one) for number, one in enumerate(cases(count, base))]


def evidence(source: str, policy: Policy, streams: Iterable[GuardStream]) -> list[StreamEvidence]:
    """Each stream under the policy and under the rule with the shipped settings."""
    compared = []
    for stream in streams:
        simulator = stream.simulator()
        own, rule = simulator.run(policy), simulator.run(index(OPERATORS_RULE))
        ratio = own.mean_completion / rule.mean_completion
        waits = own.longest_wait, rule.longest_wait
        compared.append(StreamEvidence(source, stream.conditions.family, ratio, *waits, simulator.mean_seconds))
    return compared


def guarded(policy: Policy, sources: Mapping[str, Sequence[GuardStream]], source: str) -> tuple[PolicyVerdict, JudgedStreams]:
    """The guard's verdict on the streams of all sources, and what they are like.

    An accepted policy is judged once more under starvation bounds. That refuses no agent: it says how short a cluster's bound may be.
    Else a bound must be at least the longest wait without one, so that it lets no job go first.
    """
    outcomes = [one for name, streams in sources.items() for one in evidence(name, policy, streams)]
    verdict = judged(outcomes)
    like = judged_on([stream for streams in sources.values() for stream in streams], outcomes, source)
    if not verdict.accepted:
        return verdict, like
    under = judged([one for name, own in sources.items() for one in evidence(f"{name}, {BOUNDED}", policy, under_bounds(own))])
    least_bound_runs = min(like.least_bound_runs, BOUND_RUNS[0]) if under.accepted else like.least_bound_runs
    verdict = msgspec.structs.replace(verdict, figures=verdict.figures | under.figures)
    return verdict, msgspec.structs.replace(like, least_bound_runs=least_bound_runs)


def under_bounds(streams: Sequence[GuardStream]) -> list[GuardStream]:
    """The streams on clusters with starvation bounds."""
    bounds = (BOUND_RUNS[number % len(BOUND_RUNS)] for number in range(len(streams)))
    return [
        stream._replace(conditions=dataclasses.replace(stream.conditions, starvation_runs=bound))
        for stream, bound in zip(streams, bounds, strict=True)
    ]


def judged_on(streams: Sequence[GuardStream], outcomes: Sequence[StreamEvidence], source: str) -> JudgedStreams:
    """What the streams are like, by the figures that a cluster has of its own.

    outcomes: of the policy on them, without a starvation bound; one beyond the longest wait would have let no job go first. The agent
    sees the bound, so a bound may move single choices (docs/explanation/streams.md)
    """
    least_bound_runs = max(one.longest_wait_seconds / one.run_seconds for one in outcomes)
    rows = np.array([_figures(stream) for stream in streams])
    low, high = rows[:, :5].min(axis=0), rows[:, :5].max(axis=0)
    nodes, slots, spread, share, load = (FigureRange(float(least), float(most)) for least, most in zip(low, high, strict=True))
    share = FigureRange(0.0, share.high)  # of the jobs that are pending at one time, which may all be small
    gaps = FigureRange(float(rows[:, 5].min()), float(rows[:, 6].max()))
    return JudgedStreams(nodes, slots, spread, share, load, gaps, least_bound_runs, len(streams), source)


def _figures(stream: GuardStream) -> FloatArray:
    """(7,) GPU nodes, worker slots, spread of speeds, share of the largest job, load, least and largest variation of the gaps."""
    drawn = draw(stream.conditions, stream.seed, stream.recorded, stream.cluster)
    arrival, _, _, area = stream.simulator().stream.jobs_table()
    nodes = len(drawn.speed)
    load = float(area.mean()) / (float(np.diff(arrival).mean()) * nodes)
    gaps = _gap_variations(arrival)
    machines = nodes if stream.cluster is None else stream.cluster.machines
    return np.array([machines, nodes, drawn.speed.max() / drawn.speed.min(), drawn.workers.max() / nodes, load, min(gaps), max(gaps)])


def _gap_variations(arrival: FloatArray) -> list[float]:
    """As the operator sees it after every job, from the time on when older jobs fade; arrival (J,), one value for fewer jobs."""
    history, any_job = ArrivalHistory(), PendingJob("any", (Option(1, 1.0, 1.0),))
    values = []
    for gap in np.diff(arrival).tolist():
        history = arrived(history, any_job, gap)
        values.append(gap_variation(history))
    return values[FADING_JOBS:] or values[-1:]
