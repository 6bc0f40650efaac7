"""Which jobs of a question there is time to look at, and what those are like. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hyperscale.model.admission_query import AdmissionRequest, Arrivals, QueuedJob
from hyperscale.model.api.policy import QueuePolicy
from hyperscale.planner.queue.arrival_history import counted, gap_variation, history_of, load
from hyperscale.planner.queue.likeness import QueueProfile
from hyperscale.planner.queue.options import Catalogue, CatalogueEntry
from hyperscale.planner.queue.placement_oracle import PlacementOracle
from hyperscale.planner.queue.queue_types import ClusterState


@dataclass(frozen=True)
class SeenJobs:
    """The jobs of a question, each with what it would take on the empty cluster where there was time to find out."""

    aged: Sequence[QueuedJob]
    """All of them, the longest wait first."""
    looks: Mapping[str, CatalogueEntry | None]
    """By key; None where there was no time."""

    @property
    def entries(self) -> list[CatalogueEntry]:
        """Of the jobs that were looked at."""
        return [entry for job in self.aged if (entry := self.looks[job.request.job_key]) is not None]

    @property
    def unseen(self) -> list[str]:
        """Keys of the others."""
        return [job.request.job_key for job in self.aged if self.looks[job.request.job_key] is None]

    def arrivals(self, question: AdmissionRequest, catalogue: Catalogue) -> Arrivals:
        """The arrivals so far and the new ones that fit the cluster; those that do not leave a longer gap to the next."""
        arrivals, gap_seconds = question.arrivals, 0.0
        for job in self.aged:
            entry = self.looks[job.request.job_key]
            gap_seconds += job.gap_seconds or 0.0
            if job.gap_seconds is not None and entry is not None and entry.feasible:
                arrivals, gap_seconds = counted(arrivals, catalogue.ideal(entry), gap_seconds), 0.0
        return arrivals


def seen_jobs(question: AdmissionRequest, catalogue: Catalogue) -> SeenJobs:
    """Look at the jobs as long as time allows, the one that asks first: costly older ones may take all of the time each time."""
    aged = sorted(question.jobs, key=lambda job: (-job.waited_seconds, job.request.job_key))
    by_turn = sorted(aged, key=lambda job: job.request.job_key != question.asking)
    return SeenJobs(aged, {job.request.job_key: catalogue.entry(job) for job in by_turn})


def profile_of(feasible: Sequence[CatalogueEntry], desk: PlacementOracle, arrivals: Arrivals, policy: QueuePolicy) -> QueueProfile:
    """What this cluster and its jobs are like."""
    per_worker = sorted(entry.queued.request.job.workers.gpus_per_worker for entry in feasible)[len(feasible) // 2]
    slots = max(desk.total_slots, 1)
    largest = max(max(entry.empty_seconds) * entry.queued.request.job.workers.gpus_per_worker for entry in feasible)
    past = ClusterState(0, slots, history=history_of(arrivals))
    bound = policy.starvation_seconds / arrivals.run_seconds if policy.starvation_seconds and arrivals.run_seconds else math.inf
    return QueueProfile(
        nodes=desk.gpu_nodes,
        worker_slots=slots / per_worker,
        speed_spread=desk.speed_spread,
        largest_share=largest / slots,
        load=load(past),
        arrivals=arrivals.arrivals,
        gap_variation=gap_variation(past.history),
        bound_runs=bound,
    )
