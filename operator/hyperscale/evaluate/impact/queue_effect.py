"""A job's wait for its GPUs, and the delay that it brings to other waiting jobs: the queue rolled forward, many times.

GPUs are counted, not placed: a job starts as soon as enough are free. Jobs that arrive later are not in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from hyperscale.evaluate.impact.queue_figures import QueueFigures
from hyperscale.model.api.policy import QueuePolicy
from hyperscale.model.evaluation import Interval
from hyperscale.planner.queue import rule
from hyperscale.planner.queue.queue_policies import settings_of
from hyperscale.planner.queue.queue_types import ClusterState, Option, PendingJob
from hyperscale.planner.queue.rollout import MOST_ROLLED, Choose, rolled_ends

DRAWS: Final = 64
"""Of the true times of all jobs."""
SPREAD: Final = 0.3
"""Standard deviation of ln(true / predicted seconds) of other jobs."""
OWN_KEY: Final = "\U0010ffff"
"""No job has this name; it comes last among equals."""


class QueueEffect(msgspec.Struct, frozen=True, rename="camel"):
    """What a job waits for, and what it makes others wait."""

    wait: Interval
    """Seconds until its GPUs are free and its turn has come."""
    others: int
    """Jobs that wait beside it."""
    delay: Interval
    """Seconds by which these end later, in their mean."""


def waiting_job(key: str, gpus: int, run_seconds: float, weight: float = 1.0, waited_seconds: float = 0.0) -> PendingJob:
    """Return a job as the queue sees it that takes a fixed number of GPUs."""
    return PendingJob(key, (Option(1, run_seconds, run_seconds),), weight, waited_seconds, max(1, gpus))


def queue_effect(
    figures: QueueFigures, gpus: int, run_seconds: Callable[[float], float], policy: QueuePolicy, seed: int = 0
) -> QueueEffect:
    """Return the effect, over draws of the true times; the same arguments give the same bytes.

    gpus:        of the job
    run_seconds: seconds that a part (0 < part < 1) of all its runs stays below
    """
    choose: Choose = partial(rule.choose, settings=settings_of(policy))
    draws = np.random.default_rng(seed)
    listed = figures.waiting[:MOST_ROLLED]
    waits, delays = [], []
    for number in range(DRAWS):
        factors = np.exp(SPREAD * draws.standard_normal(len(figures.running) + len(listed))).tolist()
        running = tuple(
            replace(job, remaining_seconds=job.remaining_seconds * factor) for job, factor in zip(figures.running, factors, strict=False)
        )
        others = {job.key: _scaled(job, factor) for job, factor in zip(listed, factors[len(running) :], strict=True)}
        seconds = run_seconds((number + 0.5) / DRAWS)
        own = waiting_job(OWN_KEY, gpus, seconds)
        state = ClusterState(figures.free_gpus, figures.total_gpus)
        alone = {job.key: end for job, end in rolled_ends(others, running, state, choose)}
        beside = {job.key: end for job, end in rolled_ends({**others, OWN_KEY: own}, running, state, choose)}
        waits.append(max(0.0, beside.pop(OWN_KEY) - seconds))
        delays.append(sum(beside[key] - alone[key] for key in alone) / max(1, len(alone)))
    return QueueEffect(_interval(waits), len(listed), _interval(delays))


def _scaled(job: PendingJob, factor: float) -> PendingJob:
    options = tuple(replace(option, seconds=option.seconds * factor, empty_seconds=option.empty_seconds * factor) for option in job.options)
    return replace(job, options=options)


def _interval(values: list[float]) -> Interval:
    ordered = sorted(values)
    low, middle, high = (ordered[min(len(ordered) - 1, math.floor(part * len(ordered)))] for part in (0.025, 0.5, 0.975))
    return Interval(middle, low, high)
