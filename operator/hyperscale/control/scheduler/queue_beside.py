"""Who runs and who waits, as an evaluation takes it: sizes and times, without names."""

from __future__ import annotations

from hyperscale.control.cache.cluster_cache import ClusterCache
from hyperscale.control.cache.records import Key
from hyperscale.control.scheduler.pending import Pending
from hyperscale.control.scheduler.running_jobs import Running
from hyperscale.evaluate.impact.queue_figures import QueueFigures
from hyperscale.model.admission_query import MAX_RUNNING, MAX_TURN_JOBS
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.planner.queue.queue_types import Option, PendingJob, QueueRunningJob


def queue_beside(
    cache: ClusterCache, pending: Pending, running: Running, key: Key, policy: PolicySpec, snapshot: ClusterSnapshot
) -> QueueFigures | None:
    """Return the queue without the job; None where a job waits whose time is not known yet, or more wait than are listed."""
    waiting = pending.others(key, policy)
    if len(waiting) > MAX_TURN_JOBS or any(entry.run_seconds is None for entry in waiting):
        return None
    free_gpus = cache.assumed_plans.free_gpus(snapshot, key)
    shares = [share for share in running.every()[:MAX_RUNNING] if share.key != str(key)]
    return QueueFigures(
        free_gpus=sum(free_gpus.get(node.name, node.free_gpus) for node in snapshot.nodes),
        total_gpus=sum(node.allocatable_gpus for node in snapshot.nodes),
        running=tuple(QueueRunningJob(f"r{row}", share.gpus, share.remaining_seconds) for row, share in enumerate(shares)),
        waiting=tuple(
            PendingJob(
                f"w{row:03d}",
                (Option(entry.request.job.workers.min_replicas, entry.run_seconds, entry.run_seconds),),
                entry.weight,
                slots_per_worker=entry.request.job.workers.gpus_per_worker,
            )
            for row, entry in enumerate(waiting)
            if entry.run_seconds is not None
        ),
    )
