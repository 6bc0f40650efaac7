"""What the jobs so far were like: how often they came and how long they run. The rule's limits follow from it, also after a restart."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from typing import Final, NamedTuple

from hyperscale.control.cache.cluster_cache import ClusterCache
from hyperscale.control.cache.records import JobRecord, Key
from hyperscale.control.scheduler.queue_entry import QueueEntry
from hyperscale.model import constants
from hyperscale.model.admission_query import Arrivals
from hyperscale.model.api.job import MAX_WORKERS, PlannerChoice, StartPolicy
from hyperscale.model.api.measured import LONGEST_SECONDS, SHORTEST_SECONDS
from hyperscale.model.history.corrections import COST_MODEL, RunAlone
from hyperscale.model.observed.owned_objects import MpiJobView
from hyperscale.model.plan import Plan
from hyperscale.planner.queue.arrival_history import FADING_JOBS, counted, counted_lengths, counted_run
from hyperscale.planner.queue.queue_types import Option, PendingJob
from hyperscale.util.rfc3339 import unix_seconds

MOST_RECALLED: Final = 5 * FADING_JOBS
"""Started jobs, the newest, from which a new process takes up what the last one knew; all older ones together count less than 1 %."""
MOST_READ: Final = 2 * MOST_RECALLED
"""Jobs with a plan that are looked at for that, so that the first question waits for no long reading."""


class _Claimed(NamedTuple):
    """A job that counts as less than its best run, until it has run."""

    uid: str
    best_seconds: float
    counted_as: float


class ArrivalsSoFar:
    """Statistics of the jobs that questions were about; before the first question, of the jobs that the queue had started before."""

    def __init__(self, cache: ClusterCache, clock: Callable[[], float]) -> None:
        self._cache = cache
        self._clock = clock
        self._last = 0.0
        self._statistics = Arrivals()
        self._recalled = False
        self._counted: dict[Key, str] = {}
        """UIDs of the jobs that the statistics have: an edit makes no new arrival, nor does a plan that was given up."""
        self._claimed: dict[Key, _Claimed] = {}
        self._came: dict[Key, tuple[str, float]] = {}
        """UIDs of jobs that waited when this process began, and seconds from the job before: of any sort, so that no gap counts twice."""

    @property
    def statistics(self) -> Arrivals:
        """As questions carry them."""
        self._recall()
        self._settle(self._claimed.keys())
        return self._statistics

    @property
    def last(self) -> float:
        """Unix seconds from which the newest of the counted jobs waited, never in the future; 0 without any."""
        self._recall()
        return min(self._last, self._clock())

    def gaps(self, asked: Iterable[QueueEntry]) -> list[float | None]:
        """Seconds from the new job before to each of the jobs, the oldest first; None for one that has been counted."""
        before, gaps = self.last, list[float | None]()
        for entry in asked:
            if not self._is_new(entry):
                gaps.append(None)
                continue
            since_last = max(0.0, entry.waits_since - before) if before else 0.0
            gaps.append(self._gap(entry.key, entry.uid, since_last))
            before = max(before, entry.waits_since)
        return gaps

    def _gap(self, key: Key, uid: str, since_last: float) -> float:
        """Seconds from the job before: as they were recalled, else since the last that was counted."""
        came = self._came.get(key)
        return came[1] if came is not None and came[0] == uid else since_last

    def _is_new(self, entry: QueueEntry) -> bool:
        """Whether the job is to be counted; one that was stopped for others was when it came."""
        return not entry.stopped and self._counted.get(entry.key) != entry.uid

    def learn(self, statistics: Arrivals, asked: Collection[QueueEntry], best_seconds: Mapping[str, float]) -> None:
        """Take the statistics of an answer about these jobs, the oldest first; those with a best run fit the cluster, and count."""
        new = [entry for entry in asked if str(entry.key) in best_seconds and self._is_new(entry)]
        lengths = [best_seconds[str(entry.key)] for entry in new]
        counted_as = counted_lengths(self._statistics, [_of_length(length) for length in lengths])
        self._statistics = statistics
        for entry, length, counts in zip(new, lengths, counted_as, strict=True):
            self._note(entry)
            self._claim(entry.key, entry.uid, length, counts)

    def _note(self, entry: QueueEntry) -> None:
        """It has been counted."""
        self._last = max(self.last, entry.waits_since)
        self._counted[entry.key] = entry.uid
        if len(self._counted) > 2 * len(self._cache.jobs):
            self._counted = {key: uid for key, uid in self._counted.items() if key in self._cache.jobs}

    def _claim(self, key: Key, uid: str, best_seconds: float, counted_as: float) -> None:
        if counted_as < best_seconds:
            self._claimed[key] = _Claimed(uid, best_seconds, counted_as)

    def _settle(self, keys: Set[Key]) -> None:
        """Count those of these jobs that have run by now as what they are, and forget those that have ended before that."""
        for key in sorted((self._claimed.keys() & keys) - self._cache.unstarted):
            claimed, record = self._claimed[key], self._cache.jobs.get(key)
            ran_seconds = 0.0
            if record is not None and record.uid == claimed.uid:
                ran_seconds = _ran_seconds(record, self._cache.mpijobs.get(key), self._clock())
            if ran_seconds >= self._statistics.run_seconds:
                self._statistics = counted_run(self._statistics, claimed.best_seconds, claimed.counted_as)
            elif key in self._cache.live:
                continue
            del self._claimed[key]

    def alone(self, entry: QueueEntry, plan: Plan) -> float:
        """Predicted seconds of a job that was planned without a question; a new one is counted."""
        seconds = plan.predicted.epoch_seconds * entry.request.job.model.epochs
        gpus = entry.request.job.workers.gpus_per_worker
        self._recall()
        if self._is_new(entry):
            job = _as_pending(entry.key, [RunAlone(len(plan.workers), seconds)], gpus)
            self._count(job, entry.uid, entry.key, entry.waits_since)
            self._note(entry)
        return seconds

    def _recall(self) -> None:
        """A process that has just started knows of no arrival: the jobs that the queue started before stand for them."""
        if self._recalled:
            return
        self._recalled = True
        jobs = self._cache.jobs
        started = sorted((key for key in jobs if key not in self._cache.unstarted), key=lambda key: (jobs[key].created, key), reverse=True)
        planned = ((key, jobs[key], plan) for key in started if jobs[key].created and (plan := self._cache.plans_of(key).recorded))
        recalled = ((key, _started(key, record, plan)) for key, record, plan in itertools.islice(planned, MOST_READ))
        newest = itertools.islice(((key, arrival) for key, arrival in recalled if arrival is not None), MOST_RECALLED)
        self._take_up(dict(newest))
        self._counted = {key: jobs[key].uid for key in started}

    def _take_up(self, begun: Mapping[Key, tuple[PendingJob, float]]) -> None:
        """Count jobs that have started; of those that wait, note how long after the job before they came."""
        jobs = self._cache.jobs
        # Where not all that started are recalled, what came before an older one is unknown.
        oldest = min((since for _, since in begun.values()), default=math.inf) if len(begun) in (0, MOST_RECALLED) else 0.0
        waiting = {key: unix_seconds(jobs[key].created) for key in self._cache.unstarted if jobs[key].created and _is_of_queue(jobs[key])}
        times = {key: since for key, (_, since) in begun.items()} | {key: since for key, since in waiting.items() if since >= oldest}
        for key, since in sorted(times.items(), key=lambda entry: (entry[1], entry[0])):
            if key in begun:
                self._count(begun[key][0], jobs[key].uid, key, since)
                self._settle({key})
            else:
                self._came[key] = jobs[key].uid, max(0.0, since - self._last) if self._last else 0.0
                self._last = max(self._last, since)

    def _count(self, job: PendingJob, uid: str, key: Key, since: float) -> None:
        (counted_as,) = counted_lengths(self._statistics, [job])
        gap = self._gap(key, uid, max(0.0, since - self._last) if self._last else 0.0)
        self._statistics = counted(self._statistics, job, gap)
        self._claim(key, uid, job.best_empty_seconds, counted_as)
        self._last = max(self._last, since)


def _ran_seconds(record: JobRecord, view: MpiJobView | None, now: float) -> float:
    """How long the job has run, as its MPIJob or its status tell; 0 where it has not, or where its end is unknown."""
    own = view if view is not None and view.owner_uid == record.uid else None
    started = own.start_time if own is not None else record.status.start_time
    completed = own.completion_time if own is not None else record.status.completion_time
    if not started or (own is not None and own.suspended):
        return 0.0
    if completed:
        return unix_seconds(completed) - unix_seconds(started)
    runs = own is not None and own.ending is None and own.is_true("Running")
    return now - unix_seconds(started) if runs else 0.0


def _started(key: Key, record: JobRecord, plan: Plan) -> tuple[PendingJob, float] | None:
    """The job as it was pending, and since when; None where the queue did not start it, or its length is unknown.

    An earlier cost model's length is no length of today's: a step of drawn neighbours was up to 60 times shorter by it.

    Only what is needed is read: parsing a whole spec with its templates takes a hundred times as long.
    """
    spec, unknown = record.resource.get("spec"), plan.predicted.cost_model != COST_MODEL
    if not _is_of_queue(record) or not isinstance(spec, dict) or not plan.workers or unknown:
        return None
    model = spec.get("model")
    epochs = model.get("epochs") if isinstance(model, dict) else None
    if not isinstance(epochs, int):
        return None
    runs = _runs_alone(plan, epochs)
    return (_as_pending(key, runs, plan.workers[0].gpus), unix_seconds(record.created)) if runs else None


def _is_of_queue(record: JobRecord) -> bool:
    """Whether the queue starts the job, as far as its label tells, and what its spec says of planner, start and suspension."""
    labels, spec = record.resource["metadata"].get("labels") or {}, record.resource.get("spec")
    if labels.get(constants.KUEUE_QUEUE_LABEL) or not isinstance(spec, dict):
        return False
    run_policy = spec.get("runPolicy")
    suspended = isinstance(run_policy, dict) and run_policy.get("suspend") is True
    automatic = spec.get("startPolicy", StartPolicy.AUTOMATIC) == StartPolicy.AUTOMATIC
    return automatic and not suspended and spec.get("planner") != PlannerChoice.NONE


def _runs_alone(plan: Plan, epochs: int) -> list[RunAlone]:
    """Those that can be; a plan that the queue did not make knows only its own."""
    runs = plan.runs_alone or (RunAlone(len(plan.workers), plan.predicted.epoch_seconds * epochs),)
    return [run for run in runs if 0 < run.workers <= MAX_WORKERS and SHORTEST_SECONDS <= run.seconds <= LONGEST_SECONDS]


def _of_length(best_seconds: float) -> PendingJob:
    return PendingJob("", (Option(workers=1, seconds=best_seconds, empty_seconds=best_seconds),))


def _as_pending(key: Key, alone: Iterable[RunAlone], gpus_per_worker: int) -> PendingJob:
    """A job by its runs alone on the cluster."""
    options = tuple(Option(workers=run.workers, seconds=run.seconds, empty_seconds=run.seconds) for run in alone)
    return PendingJob(str(key), options, slots_per_worker=gpus_per_worker)
