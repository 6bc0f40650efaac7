"""Streams like a cluster's own: arrivals, run times and sizes resampled from its history, the rest drawn as in the shipped families. Pure.

A history is cut by time: what came first teaches, what came last judges. Taught streams are blocks of consecutive jobs, drawn with
replacement: bursts and nights stay. The judging streams are the last part as it was recorded, and blocks drawn from that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Final

import numpy as np

from hyperscale.learn.lesson import LessonError, PastRun
from hyperscale.learn.streams.guard_streams import GuardStream
from hyperscale.learn.streams.scenario import COUNTS, FAMILIES, REFERENCE, Conditions, RecordedJobs, SimulatedNodes
from hyperscale.learn.topologies import VALIDATION_SEEDS
from hyperscale.model.api.job import MAX_GPUS_PER_WORKER, MAX_WORKERS
from hyperscale.model.api.measured import LONGEST_SECONDS, SHORTEST_SECONDS
from hyperscale.model.graph import FloatArray, IntArray

MIN_RUNS: Final = 200
"""Below that the last part would not fill streams to judge on."""
EARLY_PART: Final = 0.7
"""Of the runs, by arrival, that teach."""
MAX_TIME: Final = 1e11
"""Unix seconds: 3,000 years; a time in milliseconds is more."""
BLOCK: Final = 50
"""Consecutive jobs that are drawn together: longer than most sweeps, and a good part of a day."""
FLEXIBLE: Final = 4
"""A job may run on its recorded workers over this: what the planner chose is not all that the job allows."""
MIN_NODES: Final = 16
MAX_NODES: Final = 48
"""Of the simulated cluster."""
ASSUMED_LOAD: Final = 0.8
"""Of a cluster whose runs have no known start."""
LOADS: Final = (0.5, 1.3)
"""Bounds of the load: beyond them the trained features say nothing."""
OWN: Final = "own"
"""What stands for the family where the cluster itself is known."""
JUDGED_JOBS: Final = 150
JUDGED_STREAMS: Final = 50
"""Of either source."""


@dataclass(frozen=True)
class ClusterHistory:
    """Runs in order of arrival, and the cluster that they say it is."""

    gaps: FloatArray
    """(J,) seconds since the arrival before."""
    run_seconds: FloatArray
    """(J,)"""
    workers: IntArray
    """(J,)"""
    nodes: int
    load: float
    cluster: SimulatedNodes | None = None
    """Its nodes and links; None: those of the families, which are of as many nodes."""

    @property
    def digest(self) -> str:
        """SHA-256 of all figures, those of the cluster too."""
        own = () if self.cluster is None else (getattr(self.cluster, field.name) for field in fields(self.cluster))
        arrays = (self.gaps, self.run_seconds, self.workers, *own)
        return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()

    @property
    def load_seen(self) -> float:
        """The load, also where it is outside of LOADS."""
        return _load_seen(self.gaps, self.run_seconds, self.workers, self.nodes)

    def part(self, first: int, last: int) -> ClusterHistory:
        """The runs from one place to another, of the same cluster, with the load that they were."""
        gaps, seconds, workers = self.gaps[first:last], self.run_seconds[first:last], self.workers[first:last]
        return replace(self, gaps=gaps, run_seconds=seconds, workers=workers, load=_load(gaps, seconds, workers, self.nodes))

    def on(self, cluster: SimulatedNodes) -> ClusterHistory:
        """The same runs on these nodes."""
        nodes = len(cluster.speed)
        return replace(self, nodes=nodes, load=_load(self.gaps, self.run_seconds, self.workers, nodes), cluster=cluster)


def _load(gaps: FloatArray, run_seconds: FloatArray, workers: IntArray, nodes: int) -> float:
    """The load seen, within LOADS."""
    return float(np.clip(_load_seen(gaps, run_seconds, workers, nodes), *LOADS))


def _load_seen(gaps: FloatArray, run_seconds: FloatArray, workers: IntArray, nodes: int) -> float:
    """Worker seconds that arrived over those that there were; the upper of LOADS where all arrived at once."""
    span = float(gaps.sum())
    return float((run_seconds * workers).sum() / (span * nodes)) if span > 0.0 else LOADS[1]


def history_of(runs: Sequence[PastRun]) -> ClusterHistory:
    """Return the history of runs in any order. Raises LessonError for too few of them, or for figures that no run has."""
    for run in runs:
        if fault := fault_of(run):
            raise LessonError(f"--history: {fault}")
    if len(runs) < MIN_RUNS:
        raise LessonError(f"--history: {len(runs)} runs, at least {MIN_RUNS} are needed; keep the shipped weights until then")
    ordered = sorted(runs, key=lambda run: (run.arrival_seconds, run.run_seconds, run.workers))
    arrivals = np.array([run.arrival_seconds for run in ordered])
    seconds, workers = np.array([run.run_seconds for run in ordered]), np.array([run.workers for run in ordered], dtype=np.int64)
    span = float(arrivals[-1] - arrivals[0])
    if span <= 0.0:
        raise LessonError("--history: all runs arrived at once; a history of arrivals is needed")
    nodes = int(np.clip(_capacity(ordered, span), max(MIN_NODES, min(2 * int(workers.max()), MAX_NODES)), MAX_NODES))
    load = float(np.clip((seconds * workers).sum() / (span * nodes), *LOADS))
    return ClusterHistory(np.diff(arrivals, prepend=arrivals[0]), seconds, workers, nodes, load)


def fault_of(run: PastRun) -> str:
    """What no run can have, and what to do; "" where nothing is wrong."""
    times = [run.arrival_seconds] if run.start_seconds is None else [run.arrival_seconds, run.start_seconds]
    if not all(abs(time) <= MAX_TIME for time in times):
        return f"a run at {times[-1]:g} s is none; write Unix seconds, or leave such runs out"
    if not (SHORTEST_SECONDS <= run.run_seconds <= LONGEST_SECONDS and 1 <= run.workers <= MAX_WORKERS):
        return f"a run of {run.run_seconds:g} s with {_short(run.workers)} workers is none; leave such runs out"
    if run.gpus_per_worker is not None and not 1 <= run.gpus_per_worker <= MAX_GPUS_PER_WORKER:
        return f"a run with {_short(run.gpus_per_worker)} GPUs a worker is none; leave such runs out"
    return ""


def _short(count: int) -> str:
    return str(count) if count <= MAX_WORKERS else f"more than {MAX_WORKERS:,}"


def split(history: ClusterHistory) -> tuple[ClusterHistory, ClusterHistory]:
    """The part that teaches and the part that judges."""
    cut = int(EARLY_PART * len(history.gaps))
    return history.part(0, cut), history.part(cut, len(history.gaps))


def resampled(history: ClusterHistory, jobs: int, rng: np.random.Generator) -> RecordedJobs:
    """Draw this number of jobs in blocks of consecutive ones."""
    firsts = rng.integers(0, max(1, len(history.gaps) - BLOCK), -(-jobs // BLOCK))
    places = (firsts[:, None] + np.arange(BLOCK)).ravel()[:jobs]
    return _jobs(history, places)


def judging_streams(later: ClusterHistory) -> tuple[list[GuardStream], list[GuardStream]]:
    """Windows of the later part at their own loads, and blocks drawn from it; on the cluster itself, else on those of every family."""
    jobs = min(JUDGED_JOBS, len(later.gaps))
    firsts = np.linspace(0, len(later.gaps) - jobs, JUDGED_STREAMS).astype(np.int64)
    recorded, drawn = [], []
    for number, first in enumerate(firsts):
        seed = VALIDATION_SEEDS + number
        family = OWN if later.cluster is not None else FAMILIES[number % len(FAMILIES)]
        conditions = Conditions(family, later.load, jobs, nodes=later.nodes)
        own = replace(conditions, load=later.part(int(first), int(first) + jobs).load)
        rng = np.random.default_rng([seed, 41])
        recorded.append(GuardStream(seed, own, _jobs(later, np.arange(first, first + jobs)), later.cluster))
        jobs_drawn = resampled(later, jobs, rng)
        cluster = later.cluster.some_drained(rng) if later.cluster is not None else None
        drawn.append(GuardStream(seed + JUDGED_STREAMS, conditions, jobs_drawn, cluster))
    return recorded, drawn


def _jobs(history: ClusterHistory, places: IntArray) -> RecordedJobs:
    """Of those places; a mean gap of nothing becomes even gaps."""
    gaps = history.gaps[places]
    counts = np.array(COUNTS)
    high = counts[np.maximum(np.searchsorted(counts, history.workers[places], side="right") - 1, 0)]
    work = history.run_seconds[places] * history.workers[places] / REFERENCE
    gaps = gaps if gaps.sum() > 0.0 else np.ones(len(places))
    return RecordedJobs(gaps, work, np.maximum(1, high // FLEXIBLE), high, np.ones(len(places)))


def _capacity(runs: Sequence[PastRun], span: float) -> float:
    """Workers that the cluster holds: most that ran at once, else what leaves it busy for ASSUMED_LOAD of the time."""
    started = [(run.start_seconds, run) for run in runs if run.start_seconds is not None]
    if len(started) < len(runs):
        return sum(run.run_seconds * run.workers for run in runs) / (span * ASSUMED_LOAD)
    changes = sorted([(at, run.workers) for at, run in started] + [(at + run.run_seconds, -run.workers) for at, run in started])
    return float(np.cumsum([workers for _, workers in changes]).max())
