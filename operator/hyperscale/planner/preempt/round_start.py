"""Jobs that an assignment over all jobs would stop or resize: one more set from which the search for preemptions begins. Pure.

The assignment (`planner/rounds`) gives every job one number of GPUs of one kind. It does not know nodes, so its answer only proposes:
the queue's own rule says what follows from the stops.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from hyperscale.planner.queue.kinds import Contender
from hyperscale.planner.rounds.round_policy import next_round
from hyperscale.planner.rounds.round_types import KNOWN_WORK, GpuOption, GpuPool, RoundJob

MIN_SECONDS: Final = 1e-6
"""A job that has less left is as good as done; keeps rates finite."""


def reassigned(jobs: Sequence[Contender], free: Sequence[int]) -> frozenset[str]:
    """Return the preemptible jobs to which the assignment gives other GPUs than they have, or none.

    free: free GPUs of each kind. Jobs on GPUs of several kinds keep what they have: a round gives a job GPUs of one kind.
    """
    capacity, asked = list(free), []
    for job in jobs:
        kinds = [kind for kind, gpus in enumerate(job.gpus_by_kind) if gpus]
        if len(kinds) > 1:
            continue
        for kind in kinds:
            capacity[kind] += job.gpus_by_kind[kind]
        question = _round_job(job, kinds)
        if question.options:
            asked.append(question)
    pools = [GpuPool(str(kind), max(0, gpus)) for kind, gpus in enumerate(capacity)]
    stoppable = {job.key for job in jobs if job.stoppable}
    return frozenset(grant.key for grant in next_round(asked, pools, KNOWN_WORK) if grant.changes and grant.key in stoppable)


def _round_job(job: Contender, kinds: Sequence[int]) -> RoundJob:
    """One job, its work left as the unit: an option's rate is one over its seconds."""
    seconds = {(kind, demand.gpus): left for demand in job.demands for kind, left in enumerate(demand.seconds) if math.isfinite(left)}
    present = (kinds[0], job.gpus_by_kind[kinds[0]]) if kinds else None
    if present is not None:
        seconds[present] = job.left_seconds
    places = sorted(seconds)
    return RoundJob(
        job.key,
        tuple(GpuOption(kind, gpus, 1.0 / max(seconds[kind, gpus], MIN_SECONDS)) for kind, gpus in places),
        current=places.index(present) if present is not None else None,
        remaining=1.0,
        restart_seconds=job.start_seconds,
        weight=job.weight,
        movable=job.stoppable,
    )
