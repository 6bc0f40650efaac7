"""Pending jobs as the operator knows them: which are decided together, what was decided, and who was told what.

One question decides for many jobs, but each job is passed over on its own: plans that a question gave to others wait here as grants, and
what it said of jobs that wait is the answer to their passes too, as long as nothing has changed. So a hundred waiting jobs cost a few
questions whenever capacity changes, not a hundred.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from hyperscale import names
from hyperscale.instants import unix_seconds
from hyperscale.jobreader import JobReader
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.decision import Reason
from hyperscale.model.job import Approval, JobSpec, PlannerChoice
from hyperscale.model.planning import PlanRequest
from hyperscale.model.policy import PolicySpec, QueueOrder
from hyperscale.model.status import Phase
from hyperscale.model.turns import MAX_TURN_JOBS, MAX_TURN_KINDS, Hold, QueuedJob, QueueScore, Start, Turns
from hyperscale.plan.queue.alike import kind_of
from hyperscale.render.template import worker_node_labels, worker_tolerations
from hyperscale.world import JobRecord, Key, World

VALID_SECONDS: Final = 20.0
"""What was decided is asked anew after so long even where nothing seems to have changed: measurements may have."""
OLDEST_KINDS: Final = 2
"""Different jobs of a question that are there for their age; the others for being short."""

Edition = tuple[str, int]


@dataclass
class Entry:
    """One pending job."""

    key: Key
    edition: Edition
    policy: PolicySpec
    request: PlanRequest
    """Without free GPUs."""
    weight: float
    created: float
    """Unix seconds."""
    kind: bytes
    """Jobs of one kind are placed alike."""
    run_seconds: float | None = None
    """At best; None where nobody has asked, or where it fits not even the empty cluster."""
    asked: bool = False
    """A question was answered about it."""

    @property
    def index(self) -> tuple[float, Key]:
        """Order of the queue as far as it is known; those that nobody can tell come last."""
        return (float("inf") if self.run_seconds is None else self.run_seconds / self.weight, self.key)

    @property
    def least_gpus(self) -> int:
        """With its fewest workers."""
        return self.request.job.workers.min * self.request.job.workers.gpus_per_worker


@dataclass(frozen=True)
class Told:
    """What a question said of one job."""

    edition: Edition
    policy: PolicySpec
    snapshot: ClusterSnapshot
    version: int
    """Of the world, after the question's plans were taken."""
    at: float
    score: QueueScore | None
    others: int = 0
    """Jobs that the question was about beside this one."""
    start: Start | None = None
    hold: Hold | None = None
    fallbacks: tuple[str, ...] = ()


@dataclass
class _Grant:
    told: Told
    passes: int = 0
    """Passes over the job that ended without taking it."""


@dataclass(frozen=True)
class _Ranking:
    """Pending jobs in the order in which they go, as long as the world's version stays."""

    version: int
    policy: PolicySpec
    entries: tuple[Entry, ...]
    places: dict[Key, int]
    """From 1."""


class Pending:
    """The pending jobs of all policies, and what was decided."""

    def __init__(self, world: World, reader: JobReader, clock: Callable[[], float]) -> None:
        self._world = world
        self._reader = reader
        self._clock = clock
        self._entries: dict[Key, Entry] = {}
        self._told: dict[Key, Told] = {}
        self._grants: dict[Key, _Grant] = {}
        self._ranking: _Ranking | None = None

    def entry(self, key: Key, policy: PolicySpec) -> Entry | None:
        """The job if it is decided together with others; None where something else decides on its start."""
        record = self._world.jobs.get(key)
        if record is None or key in self._world.mpijobs:
            return None
        edition = edition_of(record)
        known = self._entries.get(key)
        if known is None or known.edition != edition or known.policy != policy:
            known = self._read(key, record, policy, edition)
            if known is None:
                self._entries.pop(key, None)
                return None
            self._entries[key] = known
        return known if _waits(record) else None

    def others(self, key: Key, policy: PolicySpec) -> list[Entry]:
        """Further pending jobs of the same policy that hold no plan yet."""
        found = []
        for other in self._world.unstarted:
            record = self._world.jobs.get(other)
            if other == key or record is None or self._world.is_assumed(other):
                continue
            theirs = self._reader.policy_of(record.resource, self._world.policies)
            entry = self.entry(other, policy) if theirs == policy else None
            if entry is not None:
                found.append(entry)
        return sorted(found, key=lambda entry: (entry.created, entry.key))

    def question_about(self, asking: Entry, others: Iterable[Entry], free_gpus: int, starvation_seconds: float) -> list[Entry]:
        """Whom one question is about, oldest first: the asking job, new ones, starving ones, the oldest and the shortest that may fit."""
        now = self._clock()

        def starving(entry: Entry) -> bool:
            return 0 < starvation_seconds <= now - entry.created

        may_fit = [entry for entry in others if not entry.asked or entry.least_gpus <= free_gpus or starving(entry)]
        by_age = sorted(may_fit, key=lambda entry: (not starving(entry), entry.asked, entry.created, entry.key))
        by_index = sorted(may_fit, key=lambda entry: entry.index)
        chosen, kinds = {asking.key: asking}, {asking.kind}
        for ranked, limit in ((by_age, OLDEST_KINDS + 1), (by_index, MAX_TURN_KINDS)):
            for entry in ranked:
                if len(chosen) < MAX_TURN_JOBS and (entry.kind in kinds or len(kinds) < limit):
                    chosen[entry.key] = entry
                    kinds.add(entry.kind)
        return sorted(chosen.values(), key=lambda entry: (entry.created, entry.key))

    def queued(self, entry: Entry) -> QueuedJob:
        """The job as a question has it."""
        return QueuedJob(entry.request, max(0.0, self._clock() - entry.created), entry.weight)

    def learn(self, turns: Turns, asked: Iterable[Entry], snapshot: ClusterSnapshot) -> list[Key]:
        """Take an answer in; the jobs that start. Their plans' GPUs are taken from now on."""
        entries = {str(entry.key): entry for entry in asked}
        started = []
        for start in turns.starts:
            entry = entries[start.key]
            self._world.assume(entry.key, start.plan)
            started.append(entry.key)
        told = partial(
            Told,
            snapshot=snapshot,
            version=self._world.version,
            at=self._clock(),
            score=turns.score,
            fallbacks=turns.fallbacks,
            others=len(entries) - 1,
        )
        for start in turns.starts:
            entry = entries[start.key]
            entry.run_seconds, entry.asked = start.best_seconds, True
            self._grants[entry.key] = _Grant(told(edition=entry.edition, policy=entry.policy, start=start))
        for hold in turns.holds:
            entry = entries[hold.key]
            entry.run_seconds, entry.asked = hold.run_seconds, True
            self._told[entry.key] = told(edition=entry.edition, policy=entry.policy, hold=hold)
        return started

    def passed_over(self, entry: Entry, snapshot: ClusterSnapshot) -> Told:
        """For a job that does not fit by the number of free GPUs, while others go first: there is nothing to ask."""
        hold = Hold(str(entry.key), Reason.WAITING_FOR_TURN, "", entry.run_seconds)
        known = self._told.get(entry.key)
        score = known.score if known is not None else None
        return Told(entry.edition, entry.policy, snapshot, self._world.version, self._clock(), score, hold=hold)

    def granted(self, entry: Entry) -> Told | None:
        """The plan that an earlier question gave to this job; it is taken with this."""
        grant = self._grants.pop(entry.key, None)
        if grant is None:
            return None
        if grant.told.edition == entry.edition and grant.told.policy == entry.policy:
            return grant.told
        self._world.assume(entry.key, None)
        return None

    def held(self, entry: Entry, snapshot: ClusterSnapshot) -> Told | None:
        """What the last question said of this job, if it would be said again."""
        told = self._told.get(entry.key)
        if told is None or told.edition != entry.edition or told.policy != entry.policy or told.hold is None:
            return None
        same = told.snapshot is snapshot and told.version == self._world.version
        lasts = min(VALID_SECONDS, (told.hold.retry_seconds or VALID_SECONDS) * 0.9)
        return told if same and self._clock() - told.at < lasts else None

    def place(self, entry: Entry, starvation_seconds: float) -> tuple[int, int, Entry | None]:
        """Place of the job among the pending ones of its policy, from 1; their number; and who goes first, None where it does."""
        ranking = self._ranking
        if ranking is None or ranking.version != self._world.version or ranking.policy != entry.policy or entry.key not in ranking.places:
            ranking = self._ranking = self._rank(entry, starvation_seconds)
        first = ranking.entries[0]
        return ranking.places[entry.key], len(ranking.entries), None if first.key == entry.key else first

    def _rank(self, entry: Entry, starvation_seconds: float) -> _Ranking:
        now = self._clock()

        def rank(one: Entry) -> tuple[float, float, Key]:
            waited = now - one.created
            return (-waited if 0 < starvation_seconds <= waited else 0.0, *one.index)

        ranked = tuple(sorted([entry, *self.others(entry.key, entry.policy)], key=rank))
        places = {one.key: number for number, one in enumerate(ranked, 1)}
        return _Ranking(self._world.version, entry.policy, ranked, places)

    def settle(self, key: Key) -> None:
        """A pass over the job has ended: a plan that waits for it stays taken for one more pass, which has been asked for."""
        grant = self._grants.get(key)
        if grant is None or grant.passes:
            self.drop(key)
        else:
            grant.passes += 1
            self._world.assume(key, grant.told.start.plan if grant.told.start else None)

    def drop(self, key: Key) -> None:
        """Nothing is taken for this job any more."""
        self._grants.pop(key, None)
        self._world.assume(key, None)
        if key not in self._world.unstarted:
            self._entries.pop(key, None)
            self._told.pop(key, None)

    def _read(self, key: Key, record: JobRecord, policy: PolicySpec, edition: Edition) -> Entry | None:
        job, _ = self._reader.read(record.resource, self._world.policies)
        metadata = record.resource["metadata"]
        if job is None or policy.queue.order is QueueOrder.ARRIVAL or not _joins(job, metadata.get("labels") or {}):
            return None
        request = PlanRequest(
            job_key=str(key),
            job=job,
            seed=policy.seed,
            deadline_seconds=policy.deadlines.plan_seconds,
            required_labels=worker_node_labels(job),
            tolerations=worker_tolerations(job),
        )
        return Entry(
            key=key,
            edition=edition,
            policy=policy,
            request=request,
            weight=float(job.run_policy.priority),
            created=unix_seconds(metadata.get("creationTimestamp") or "1970-01-01T00:00:00Z"),
            kind=kind_of(request),
        )


def edition_of(record: JobRecord) -> Edition:
    """Differs where the spec does."""
    metadata = record.resource["metadata"]
    return metadata["uid"], metadata.get("generation") or 0


def _joins(job: JobSpec, labels: dict[str, str]) -> bool:
    """Whether the operator decides when it starts: not a queue, not a person."""
    return (
        not labels.get(names.KUEUE_QUEUE_LABEL)
        and job.planner is not PlannerChoice.NONE
        and not job.plan_only
        and job.approval is Approval.AUTOMATIC
        and not job.run_policy.suspend
    )


def _waits(record: JobRecord) -> bool:
    """Neither planned nor ended nor going away."""
    ended = record.status.phase in (Phase.SUCCEEDED, Phase.FAILED) and record.status.mpi_job_ref is not None
    return record.plan is None and not ended and not record.resource["metadata"].get("deletionTimestamp")
