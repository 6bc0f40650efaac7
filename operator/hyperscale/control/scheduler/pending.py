"""Pending jobs as the operator knows them: which are decided together, what was decided, and what was reported to each.

One question decides for many jobs, but each job is reconciled on its own: plans that a question gave to others wait here as grants, and
what it said of jobs that wait is the answer to their passes too, as long as nothing has changed. So a hundred waiting jobs cost a few
questions whenever capacity changes, not a hundred.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from hyperscale.control.cache.cluster_cache import ClusterCache
from hyperscale.control.cache.records import Key
from hyperscale.control.lifecycle.queue_wait import queued_since
from hyperscale.control.scheduler.arrivals_so_far import ArrivalsSoFar
from hyperscale.control.scheduler.queue_entry import (
    CachedVerdict,
    Grant,
    QueueEntry,
    SnapshotNumbers,
    is_as_asked,
    is_held_back,
    may_start,
    of_one_question,
    revision_of,
    taught_entry,
    taught_since,
)
from hyperscale.control.specs.parsed_specs import JobReader
from hyperscale.model.admission_query import (
    AdmissionResult,
    Arrivals,
    Deferral,
    QueuedJob,
)
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.decision import Reason
from hyperscale.model.plan import Plan
from hyperscale.planner.problem.amounts import amounts_of
from hyperscale.util.rfc3339 import unix_seconds
from hyperscale.util.slices import Slices

VALID_SECONDS: Final = 20.0
"""What was decided is asked again after so long even where nothing seems to have changed: measurements may have."""
KEPT_BACK_SECONDS: Final = 60.0
"""A job that is not to gain by a stop waits no longer than this for the pods of the stopped job to end."""


@dataclass(frozen=True)
class _Ranking:
    """Pending jobs in the order in which they go, as long as the world's version stays."""

    version: int
    policy: PolicySpec
    entries: tuple[QueueEntry, ...]
    places: dict[Key, int]
    """From 1."""


class Pending:
    """The pending jobs of all policies, and what was decided."""

    def __init__(
        self, cache: ClusterCache, reader: JobReader, clock: Callable[[], float], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """clock: Unix seconds; monotonic: seconds of a clock that is never set."""
        self._cache = cache
        self._reader = reader
        self._clock = clock
        self._monotonic = monotonic
        self._entries: dict[Key, QueueEntry] = {}
        self._told: dict[Key, CachedVerdict] = {}
        self._grants: dict[Key, Grant] = {}
        self._snapshots = SnapshotNumbers()
        self._ranking: _Ranking | None = None
        self._arrivals = ArrivalsSoFar(cache, clock)

    @property
    def arrivals(self) -> Arrivals:
        """What the jobs so far were like."""
        return self._arrivals.statistics

    def entry(self, key: Key, policy: PolicySpec) -> QueueEntry | None:
        """The job if it is decided together with others; None where something else decides on its start."""
        record = self._cache.jobs.get(key)
        if record is None or key not in self._cache.unstarted:
            return None
        edition = revision_of(record)
        entry = self._entries.get(key)
        volumes = self._reader.volumes(key).rules
        unchanged = entry is not None and (entry.edition, entry.policy, entry.volumes) == (edition, policy, volumes)
        if entry is None or not unchanged or taught_since(entry, self._reader):
            fresh = taught_entry(self._reader, key, record, policy, self._cache.mpijobs.get(key), self._cache.policies)
            if fresh is None:
                self._entries.pop(key, None)
                return None
            if entry is not None and unchanged:  # it is no new arrival, and its answer stands until it is asked about again
                fresh.asked, fresh.run_seconds = entry.asked, entry.run_seconds
            entry = self._entries[key] = fresh
        entry.waits_since = queued_since(record.status, record.created, record.generation, self._clock(), entry.demand)
        return entry if may_start(record, self._cache.plans_of(key).recorded, self._reader, self._cache.policies) else None

    async def read_all(self, policy: PolicySpec) -> None:
        """Read the pending jobs of a policy that have not been read, so that `others` finds them read."""
        slices = Slices()
        for key in tuple(self._cache.unstarted):
            if (record := self._cache.jobs.get(key)) is not None and self._reader.policy_of(
                record.resource, self._cache.policies
            ) == policy:
                self.entry(key, policy)
            await slices.pause_if_due()

    def others(self, key: Key | None, policy: PolicySpec) -> list[QueueEntry]:
        """Further pending jobs of the same policy that hold no plan yet, and that are not known to fit nowhere; with None all."""
        entries = []
        for other in self._cache.unstarted:
            record = self._cache.jobs.get(other)
            if other == key or record is None or is_held_back(record) or other in self._cache.assumed_plans or self.kept_back(other):
                continue
            entry = self.entry(other, policy) if self._reader.policy_of(record.resource, self._cache.policies) == policy else None
            if entry is not None and not entry.hopeless:
                entries.append(entry)
        return sorted(entries, key=lambda entry: (entry.waits_since, entry.key))

    def kept_back(self, key: Key) -> Key | None:
        """A job that is giving its GPUs to others than this one, which therefore must not start yet.

        Several jobs may stop for one: the first that is rid of its pods would start again before the other's GPUs are free.
        """
        now = self._clock()
        for other in sorted(self._cache.releasing):
            stop = self._cache.jobs[other].status.last_preemption
            ends = stop is not None and abs(now - unix_seconds(stop.start_time)) < KEPT_BACK_SECONDS  # the clock may be set back
            if stop is not None and ends and str(key) not in stop.beneficiaries:
                return other
        return None

    def question_about(
        self, asking: QueueEntry, others: Iterable[QueueEntry], free_gpus: int, starvation_seconds: float
    ) -> list[QueueEntry]:
        """Whom one question is about, oldest first: the asking job, new ones, starving ones, the oldest and the shortest that may fit.

        Where more jobs of these kinds wait, half of the places are for those that were asked about the longest time ago, so that the
        rest need not ask a question each.
        """
        now = self._clock()

        def starving(entry: QueueEntry) -> bool:
            return 0 < starvation_seconds <= now - entry.waits_since

        may_fit = [entry for entry in others if not entry.asked or entry.least_gpus <= free_gpus or starving(entry)]
        by_age = sorted(may_fit, key=lambda entry: (not starving(entry), entry.asked, entry.waits_since, entry.key))
        by_index = sorted(may_fit, key=lambda entry: entry.index)
        by_news = sorted(may_fit, key=lambda entry: (self._told_at(entry.key), entry.key))
        return of_one_question(asking, [entry for entry in by_age if starving(entry)], by_age, by_index, by_news)

    def _told_at(self, key: Key) -> float:
        verdict = self._told.get(key)
        return verdict.at if verdict is not None else -math.inf

    def queued(self, asked: Sequence[QueueEntry]) -> tuple[QueuedJob, ...]:
        """The jobs as a question has them; `asked` are the oldest first."""
        now = self._clock()
        jobs = zip(asked, self._arrivals.gaps(asked), strict=True)
        return tuple(QueuedJob(entry.request, max(0.0, now - entry.waits_since), entry.weight, gap) for entry, gap in jobs)

    def since_last_arrival(self) -> float | None:
        """Seconds since the newest of the counted jobs began to wait; None where there was none yet."""
        return max(0.0, self._clock() - self._arrivals.last) if self._arrivals.last else None

    def alone(self, entry: QueueEntry, plan: Plan) -> None:
        """A job was planned without a question: it counts among the arrivals too."""
        if entry.run_seconds is not None or entry.stopped:
            return
        entry.run_seconds, entry.asked = self._arrivals.alone(entry, plan), True

    def learn(self, turns: AdmissionResult, asked: Iterable[QueueEntry], snapshot: ClusterSnapshot) -> list[Key]:
        """Take an answer in; the jobs that start. Their plans' GPUs are taken from now on.

        A job that became another meanwhile, or has another spec, was not asked about.
        """
        entries = {str(entry.key): entry for entry in asked}
        best_seconds = {start.key: start.best_seconds for start in turns.starts}
        best_seconds |= {hold.key: hold.run_seconds for hold in turns.holds if hold.run_seconds is not None}
        self._arrivals.learn(turns.arrivals, entries.values(), best_seconds)
        started = []
        starts = [start for start in turns.starts if is_as_asked(entries[start.key], self._cache.jobs.get(entries[start.key].key))]
        for start in starts:
            entry = entries[start.key]
            self._cache.assume(entry.key, start.plan, amounts_of(entry.request))
            started.append(entry.key)
        verdict = partial(
            CachedVerdict,
            snapshot=next((self._snapshots.of(snapshot, entry.policy) for entry in entries.values()), 0),
            version=self._cache.version,
            at=self._monotonic(),
            score=turns.score,
            fallbacks=turns.fallbacks,
            others=len(entries) - 1,
        )
        for start in starts:
            entry = entries[start.key]
            entry.run_seconds, entry.asked = start.best_seconds, True
            self._grants[entry.key] = Grant(verdict(edition=entry.edition, policy=entry.policy, start=start, made_on=snapshot))
        for hold in turns.holds:
            entry = entries[hold.key]
            if not hold.unseen:  # what an earlier question found out still says where it goes
                entry.run_seconds, entry.asked = hold.run_seconds, True
            self._told[entry.key] = verdict(edition=entry.edition, policy=entry.policy, hold=hold)
        return started

    def passed_over(self, entry: QueueEntry, snapshot: ClusterSnapshot) -> CachedVerdict:
        """For a job that does not fit by the number of free GPUs, while others go first: there is nothing to ask."""
        hold = Deferral(str(entry.key), Reason.WAITING_FOR_ADMISSION, "", entry.run_seconds)
        last = self._told.get(entry.key)
        score = last.score if last is not None else None
        number = self._snapshots.of(snapshot, entry.policy)
        return CachedVerdict(entry.edition, entry.policy, number, self._cache.version, self._monotonic(), score, hold=hold)

    def granted(self, entry: QueueEntry) -> CachedVerdict | None:
        """The plan that an earlier question gave to this job; it is taken with this."""
        grant = self._grants.pop(entry.key, None)
        if grant is None:
            return None
        if grant.verdict.edition == entry.edition and grant.verdict.policy == entry.policy:
            return grant.verdict
        self._cache.assume(entry.key, None)
        return None

    def cached_verdict(self, entry: QueueEntry, snapshot: ClusterSnapshot) -> CachedVerdict | None:
        """What the last question said of this job, if it would be said again."""
        verdict = self._told.get(entry.key)
        if verdict is None or verdict.edition != entry.edition or verdict.policy != entry.policy or verdict.hold is None:
            return None
        same = verdict.snapshot == self._snapshots.of(snapshot, entry.policy) and verdict.version == self._cache.version
        lasts = min(VALID_SECONDS, (verdict.hold.retry_seconds or VALID_SECONDS) * 0.9)
        return verdict if same and self._monotonic() - verdict.at < lasts else None

    def place(self, entry: QueueEntry, starvation_seconds: float) -> tuple[int, int, QueueEntry | None]:
        """Place of the job among the pending ones of its policy, from 1; their number; and who goes first, None where it does."""
        ranking = self._ranking
        if ranking is None or ranking.version != self._cache.version or ranking.policy != entry.policy or entry.key not in ranking.places:
            ranking = self._ranking = self._rank(entry, starvation_seconds)
        first = ranking.entries[0]
        return ranking.places[entry.key], len(ranking.entries), None if first.key == entry.key else first

    def _rank(self, entry: QueueEntry, starvation_seconds: float) -> _Ranking:
        now = self._clock()

        def rank(one: QueueEntry) -> tuple[float, float, Key]:
            waited = now - one.waits_since
            return (-waited if 0 < starvation_seconds <= waited else 0.0, *one.index)

        ranked = tuple(sorted([entry, *self.others(entry.key, entry.policy)], key=rank))
        places = {one.key: number for number, one in enumerate(ranked, 1)}
        return _Ranking(self._cache.version, entry.policy, ranked, places)

    def release_grant(self, key: Key) -> None:
        """A pass over the job has ended: a plan that waits for it stays taken for one more pass, which has been asked for."""
        grant = self._grants.get(key)
        if grant is None or grant.passes:
            self.drop(key)
        else:
            grant.passes += 1
            self._cache.assume(key, grant.verdict.start.plan if grant.verdict.start else None)

    def drop(self, key: Key) -> None:
        """Nothing is taken for this job any more."""
        self._grants.pop(key, None)
        self._cache.assume(key, None)
        if key not in self._cache.unstarted:
            self._entries.pop(key, None)
            self._told.pop(key, None)
