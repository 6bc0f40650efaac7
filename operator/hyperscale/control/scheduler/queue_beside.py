"""Who runs and who waits, as an evaluation takes it: sizes and times, without names."""

from __future__ import annotations

from hyperscale.control.cache.cluster_cache import ClusterCache
from hyperscale.control.cache.records import Key
from hyperscale.control.scheduler.pending import Pending
from hyperscale.control.scheduler.queue_entry import QueueEntry
from hyperscale.control.scheduler.running_jobs import Running
from hyperscale.control.specs.parsed_specs import JobReader
from hyperscale.evaluate.impact.queue_figures import QueueFigures
from hyperscale.model.admission_query import MAX_RUNNING, MAX_TURN_JOBS
from hyperscale.model.api.policy import PolicySpec, QueueOrder
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.planner.queue.queue_types import Option, PendingJob, QueueRunningJob


def queue_beside(
    cache: ClusterCache, reader: JobReader, pending: Pending, running: Running, key: Key, policy: PolicySpec, snapshot: ClusterSnapshot
) -> QueueFigures | None:
    """Return the queue without the job.

    None where it is not known: a job waits whose time is not known yet, more wait than are listed, or some wait outside this queue.
    """
    entries = pending.others(key, policy)
    if policy.queue.order is QueueOrder.ARRIVAL or _waits_elsewhere(cache, reader, key, policy):
        return None
    waiting = tuple(job for row, entry in enumerate(entries[:MAX_TURN_JOBS]) if (job := _waiting_job(row, entry)) is not None)
    if len(waiting) < len(entries):
        return None
    free_gpus = cache.assumed_plans.free_gpus(snapshot, key)
    shares = [share for share in running.every()[:MAX_RUNNING] if share.key != str(key)]
    return QueueFigures(
        free_gpus=sum(free_gpus.get(node.name, node.free_gpus) for node in snapshot.nodes),
        total_gpus=sum(node.allocatable_gpus for node in snapshot.nodes),
        running=tuple(QueueRunningJob(f"r{row}", share.gpus, share.remaining_seconds) for row, share in enumerate(shares)),
        waiting=waiting,
    )


def _waiting_job(row: int, entry: QueueEntry) -> PendingJob | None:
    """None where its time is not known."""
    if entry.run_seconds is None:
        return None
    workers = entry.request.job.workers
    option = Option(workers.min_replicas, entry.run_seconds, entry.run_seconds)
    return PendingJob(f"w{row:03d}", (option,), entry.weight, slots_per_worker=workers.gpus_per_worker)


def _waits_elsewhere(cache: ClusterCache, reader: JobReader, key: Key, policy: PolicySpec) -> bool:
    """Whether another job waits that is planned under another policy."""
    others = (cache.jobs.get(other) for other in cache.unstarted if other != key)
    return any(one is not None and reader.policy_of(one.resource, cache.policies) != policy for one in others)
