"""Elastic rounds (hyperscale.planner.rounds) as a policy of the trace replay: all jobs assigned to types of GPU in every round.

GPU counts of the trace are fixed, so a job has one option a type. A job that is taken off its GPUs, or moved, restarts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from benchmarks import common
from benchmarks.common import Row
from benchmarks.peers.gavel import PUBLISHED
from benchmarks.replay import Cluster, Job, Running
from hyperscale.planner.rounds.round_check import unsound_round
from hyperscale.planner.rounds.round_policy import next_round
from hyperscale.planner.rounds.round_types import KNOWN_WORK, GpuOption, GpuPool, RoundJob, RoundSettings

ROUNDS: Final = "hyperscale, rounds"
ROUNDS_UNKNOWN: Final = "hyperscale, rounds, time left unknown"
LIMITS: Final = {"assignment at every round": 1.02, "least attained service": 1.0}
MAX_MIN_LIMIT: Final = 0.80
"""Over the better of the two published readings, trace by trace."""


def rounds_goals(case: str, means: Mapping[str, Sequence[float]]) -> list[Row]:
    """The rounds over the reference, least attained service and max-min, geometric mean over traces; `means` are hours by policy."""
    peers = {name: means[name] for name in LIMITS} | {
        "Gavel max-min": [min(pair) for pair in zip(*(means[name] for name in PUBLISHED), strict=True)]
    }
    rows = []
    for name, theirs in peers.items():
        ratio = math.exp(sum(math.log(a / b) for a, b in zip(means[ROUNDS], theirs, strict=True)) / len(theirs))
        rows.append(common.goal("gavel", f"{case}: mean completion / {name}", ROUNDS, ratio, LIMITS.get(name, MAX_MIN_LIMIT), "ratio"))
    return rows


class ElasticRounds:
    """See the module; `remaining`: whether the steps that are left are told, else only the steps done."""

    packs: Final = True

    def __init__(self, name: str, settings: RoundSettings = KNOWN_WORK, *, remaining: bool = True) -> None:
        self.name = name
        self._settings = settings
        self._remaining = remaining
        self._since: dict[int, float] = {}
        """When each job last started or moved."""

    def decide(
        self, now: float, jobs: Sequence[Job], left: Mapping[int, float], running: dict[int, Running], cluster: Cluster
    ) -> dict[int, int]:
        """See `replay.Policy`."""
        pools = tuple(GpuPool(str(kind), gpus) for kind, gpus in enumerate(cluster.gpus))
        question = [self._job(job, now, left[job.number], running.get(job.number), cluster) for job in jobs]
        grants = next_round(question, pools, self._settings)
        if wrong := unsound_round(grants, question, pools, self._settings):
            raise ValueError("; ".join(wrong))
        by_key = {job.key: job for job in question}
        chosen = {}
        for grant in grants:
            if grant.changes:
                self._since[int(grant.key)] = now
            if grant.option is not None:
                chosen[int(grant.key)] = by_key[grant.key].options[grant.option].pool
        return chosen

    def _job(self, job: Job, now: float, left: float, run: Running | None, cluster: Cluster) -> RoundJob:
        kinds = [kind for kind, speed in enumerate(job.packed) if speed > 0.0]
        options = tuple(GpuOption(kind, job.gpus, job.packed[kind]) for kind in kinds)
        return RoundJob(
            str(job.number),
            options,
            None if run is None else kinds.index(run.kind),
            attained=job.steps - left,
            remaining=left if self._remaining else None,
            restart_seconds=cluster.restart_seconds,
            unchanged_seconds=now - self._since.get(job.number, now),
            weight=job.weight,
        )
