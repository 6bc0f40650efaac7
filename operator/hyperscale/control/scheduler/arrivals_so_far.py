"""What the jobs so far were like: how often they came and how long they run. The rule's limits follow from it, also after a restart."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable
from typing import Final

from hyperscale.control.cache.cluster_cache import ClusterCache
from hyperscale.control.cache.records import JobRecord, Key
from hyperscale.control.scheduler.queue_entry import QueueEntry
from hyperscale.model import constants
from hyperscale.model.admission_query import Arrivals
from hyperscale.model.api.job import MAX_WORKERS, StartPolicy
from hyperscale.model.api.measured import LONGEST_SECONDS, SHORTEST_SECONDS
from hyperscale.model.history.corrections import COST_MODEL, RunAlone
from hyperscale.model.plan import Plan
from hyperscale.planner.queue.arrival_history import FADING_JOBS
from hyperscale.planner.queue.arrivals import counted, counted_start
from hyperscale.planner.queue.queue_types import Option, PendingJob
from hyperscale.util.rfc3339 import unix_seconds

MOST_RECALLED: Final = 5 * FADING_JOBS
"""Started jobs, the newest, from which a new process takes up what the last one knew; all older ones together count less than 1 %."""
MOST_READ: Final = 2 * MOST_RECALLED
"""Jobs with a plan that are looked at for that, so that the first question waits for no long reading."""


class ArrivalsSoFar:
    """Statistics of the jobs that questions were about; before the first question, of the jobs that the queue had started before."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache
        self._last = 0.0
        self._statistics = Arrivals()
        self._recalled = False
        self._counted: dict[Key, str] = {}
        """UIDs of the jobs that the statistics have: an edit makes no new arrival, nor does a plan that was given up."""
        self._begun: dict[Key, str] = {}
        """Those of which the statistics have the start."""

    @property
    def statistics(self) -> Arrivals:
        """As questions carry them."""
        self._recall()
        return self._statistics

    @property
    def last(self) -> float:
        """Unix seconds from which the newest of the counted jobs waited; 0 without any."""
        self._recall()
        return self._last

    def gaps(self, asked: Iterable[QueueEntry]) -> list[float | None]:
        """Seconds from the new job before to each of the jobs, the oldest first; None for one that has been counted."""
        before, gaps = self.last, list[float | None]()
        for entry in asked:
            if not self._is_new(entry):
                gaps.append(None)
                continue
            gaps.append(max(0.0, entry.waits_since - before) if before else 0.0)
            before = max(before, entry.waits_since)
        return gaps

    def _is_new(self, entry: QueueEntry) -> bool:
        """Whether the job is to be counted; one that was stopped for others was when it came."""
        return not entry.stopped and self._counted.get(entry.key) != entry.uid

    def learn(self, statistics: Arrivals, asked: Collection[QueueEntry], sized: Collection[str]) -> None:
        """Take the statistics of an answer about these jobs; those `sized` fit the cluster, and count."""
        self._statistics = statistics
        for entry in asked:
            if str(entry.key) in sized and self._is_new(entry):
                self._note(entry)

    def _note(self, entry: QueueEntry) -> None:
        """It has been counted."""
        self._last = max(self._last, entry.waits_since)
        self._counted[entry.key] = entry.uid
        self._counted = self._of_jobs_there(self._counted)

    def _of_jobs_there(self, uids: dict[Key, str]) -> dict[Key, str]:
        """Without jobs that are gone, once there are many of them."""
        if len(uids) <= 2 * len(self._cache.jobs):
            return uids
        return {key: uid for key, uid in uids.items() if key in self._cache.jobs}

    def begin(self, entry: QueueEntry, plan: Plan) -> None:
        """A job that has been counted starts with this plan; it counts once, also if the plan is given up."""
        if entry.stopped or self._begun.get(entry.key) == entry.uid:
            return
        self._begun[entry.key] = entry.uid
        self._begun = self._of_jobs_there(self._begun)
        runs = _runs_alone(plan, entry.request.job.model.epochs)
        if runs:
            self._statistics = counted_start(self._statistics, _as_pending(entry.key, runs, entry.request.job.workers.gpus_per_worker))

    def alone(self, entry: QueueEntry, plan: Plan) -> float:
        """Predicted seconds of a job that was planned without a question; a new one is counted."""
        seconds = plan.predicted.epoch_seconds * entry.request.job.model.epochs
        gpus = entry.request.job.workers.gpus_per_worker
        self._recall()
        if self._is_new(entry):
            self._count(_as_pending(entry.key, [RunAlone(len(plan.workers), seconds)], gpus), entry.waits_since)
            self._note(entry)
            self.begin(entry, plan)
        return seconds

    def _recall(self) -> None:
        """A process that has just started knows of no arrival: the jobs that the queue started before stand for them."""
        if self._recalled:
            return
        self._recalled = True
        jobs = self._cache.jobs
        started = sorted((key for key in jobs if key not in self._cache.unstarted), key=lambda key: (jobs[key].created, key), reverse=True)
        planned = ((key, jobs[key], plan) for key in started if jobs[key].created and (plan := self._cache.plans_of(key).recorded))
        recalled = (_started(*each) for each in itertools.islice(planned, MOST_READ))
        newest = itertools.islice((job for job in recalled if job is not None), MOST_RECALLED)
        for job, since in reversed(list(newest)):
            self._count(job, since)
            self._statistics = counted_start(self._statistics, job)
        self._counted = {key: jobs[key].uid for key in started}
        self._begun = dict(self._counted)

    def _count(self, job: PendingJob, since: float) -> None:
        gap = max(0.0, since - self._last) if self._last else 0.0
        self._statistics = counted(self._statistics, job, gap)
        self._last = max(self._last, since)


def _started(key: Key, record: JobRecord, plan: Plan) -> tuple[PendingJob, float] | None:
    """The job as it was pending, and since when; None where the queue did not start it, or its length is unknown.

    An earlier cost model's length is no length of today's: a step of drawn neighbours was up to 60 times shorter by it.

    Only what is needed is read: parsing a whole spec with its templates takes a hundred times as long.
    """
    resource = record.resource
    labels, spec = resource["metadata"].get("labels") or {}, resource.get("spec")
    unknown = plan.predicted.cost_model != COST_MODEL
    if labels.get(constants.KUEUE_QUEUE_LABEL) or not isinstance(spec, dict) or not plan.workers or unknown:
        return None
    model = spec.get("model")
    epochs = model.get("epochs") if isinstance(model, dict) else None
    if spec.get("startPolicy", StartPolicy.AUTOMATIC) != StartPolicy.AUTOMATIC or not isinstance(epochs, int):
        return None
    runs = _runs_alone(plan, epochs)
    return (_as_pending(key, runs, plan.workers[0].gpus), unix_seconds(record.created)) if runs else None


def _runs_alone(plan: Plan, epochs: int) -> list[RunAlone]:
    """Those that can be; a plan that the queue did not make knows only its own."""
    runs = plan.runs_alone or (RunAlone(len(plan.workers), plan.predicted.epoch_seconds * epochs),)
    return [run for run in runs if 0 < run.workers <= MAX_WORKERS and SHORTEST_SECONDS <= run.seconds <= LONGEST_SECONDS]


def _as_pending(key: Key, alone: Iterable[RunAlone], gpus_per_worker: int) -> PendingJob:
    """A job by its runs alone on the cluster."""
    options = tuple(Option(workers=run.workers, seconds=run.seconds, empty_seconds=run.seconds) for run in alone)
    return PendingJob(str(key), options, slots_per_worker=gpus_per_worker)
