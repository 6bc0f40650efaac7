"""One pending job as the queue sees it, whether the queue decides on it, and with which others."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from msgspec.structs import replace

from hyperscale.control.cache.records import JobRecord, Key
from hyperscale.control.lifecycle.movable import resizable
from hyperscale.control.lifecycle.queue_wait import demand_digest, joins
from hyperscale.control.lifecycle.stoppable import epochs_left, is_preempted, run_is_over
from hyperscale.control.specs.parsed_specs import JobReader, Json, metadata_of
from hyperscale.control.specs.plan_question import question_about
from hyperscale.control.status.reason_sets import HELD_BACK
from hyperscale.model import constants
from hyperscale.model.admission_query import MAX_TURN_JOBS, MAX_TURN_KINDS, Deferral, QueueScore, Start
from hyperscale.model.api.job import JobSpec, PreflightMode
from hyperscale.model.api.policy import PolicySpec, QueueOrder
from hyperscale.model.api.preflight import is_held
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.history.corrections import Corrections
from hyperscale.model.observed.owned_objects import MpiJobView
from hyperscale.model.plan import Calibration, Plan
from hyperscale.model.planning import NodeRule, PlanRequest
from hyperscale.model.status import SUMMARY_CONDITION
from hyperscale.planner.queue.job_class import kind_of

SpecRevision = tuple[str, int, str, str]

OLDEST_KINDS: Final = 2
"""Different jobs of a question that are there for their age; the others for being short."""
LATE_KINDS: Final = MAX_TURN_KINDS - 2
"""Different jobs of a question that may be there because they have waited beyond the bound; they may all wait for other nodes."""
KEPT_POLICIES: Final = 4
"""Policies whose last snapshot is kept to compare with."""
FIXED_JOBS: Final = MAX_TURN_JOBS // 2
"""Jobs of a question that are there for their age or for being short."""

Item = TypeVar("Item")


@dataclass
class QueueEntry:
    """One pending job."""

    key: Key
    edition: SpecRevision
    policy: PolicySpec
    request: PlanRequest
    """Without free GPUs."""
    weight: float
    kind: bytes
    """Jobs of one kind are placed alike."""
    demand: str
    """Digest of the spec fields whose change starts its wait again."""
    waits_since: float = math.inf
    """Unix seconds from which its wait counts, as of the last look at its status."""
    volumes: tuple[NodeRule, ...] = ()
    """Part of `request`: nodes from which its claims can be reached."""
    run_seconds: float | None = None
    """At best; None where no question was asked about it, or where it fits not even the empty cluster."""
    stopped: bool = False
    """It ran before and was stopped for others."""
    asked: bool = False
    """A question was answered about it."""

    @property
    def uid(self) -> str:
        """Of the job."""
        return self.edition[0]

    @property
    def hopeless(self) -> bool:
        """It fits not even the empty cluster; only its own passes ask whether that has changed."""
        return self.asked and self.run_seconds is None

    @property
    def index(self) -> tuple[float, Key]:
        """Order of the queue as far as it is known; jobs whose place is unknown come last."""
        return (float("inf") if self.run_seconds is None else self.run_seconds / self.weight, self.key)

    @property
    def least_gpus(self) -> int:
        """With its fewest workers."""
        return self.request.job.workers.min_replicas * self.request.job.workers.gpus_per_worker


def read_entry(
    key: Key,
    record: JobRecord,
    job: JobSpec | None,
    policy: PolicySpec,
    calibration: tuple[Calibration, ...] = (),
    view: MpiJobView | None = None,
    volumes: tuple[NodeRule, ...] = (),
    corrections: Corrections | None = None,
) -> QueueEntry | None:
    """The job if the queue decides on its start; None where it cannot be read, or something else decides.

    volumes: nodes from which its claims can be reached
    corrections: what finished runs taught the cost model, where they choose placements
    view: its MPIJob, where it was stopped for others; it continues from its last checkpoint, with as many workers unless it may have others
    """
    metadata = record.resource["metadata"]
    if job is None or policy.queue.order is QueueOrder.ARRIVAL or not joins(job, metadata.get("labels") or {}):
        return None
    demand = demand_digest(job)
    stop = record.status.last_preemption if view is not None else None
    if stop is not None:
        job = replace(job, model=replace(job.model, epochs=epochs_left(job, stop)))
    request = question_about(str(key), job, policy, calibration, volumes=volumes, corrections=corrections)
    request = with_workers(request, view.workers) if view is not None and not resizable(job, view) else request
    return QueueEntry(
        key=key,
        edition=revision_of(record),
        policy=policy,
        request=request,
        weight=float(min(job.queue_weight, policy.queue.max_queue_weight)),
        kind=kind_of(request),
        demand=demand,
        volumes=volumes,
        stopped=stop is not None,
    )


def taught_entry(
    reader: JobReader, key: Key, record: JobRecord, policy: PolicySpec, view: MpiJobView | None, policies: Mapping[str, Json]
) -> QueueEntry | None:
    """The same with what history teaches about the job; None also where it cannot be planned."""
    job = reader.plannable(record.resource, policies)
    if job is None:
        return None
    taught = reader.calibration(job, key.namespace), reader.placement_corrections(job, policy, key.namespace)
    return read_entry(key, record, job, policy, taught[0], view, reader.volumes(key).rules, taught[1])


def taught_since(entry: QueueEntry, reader: JobReader) -> bool:
    """Whether history chooses placements by other factors now than when the entry was read."""
    return entry.request.corrections is not reader.placement_corrections(entry.request.job, entry.policy, entry.key.namespace)


def is_held_back(record: JobRecord) -> bool:
    """Whether the status of the present spec says that free GPUs do not help. Only the job's own reconcile finds out when that changes."""
    last_step = record.status.condition(SUMMARY_CONDITION) if record.reported else None
    return last_step is not None and last_step.reason in HELD_BACK


def may_start(record: JobRecord, recorded: Plan | None, reader: JobReader, policies: Mapping[str, Json]) -> bool:
    """Whether the queue may start a job whose recorded plan this is."""
    return waits(record, recorded) and not held_by_preflight(record, reader, policies)


def held_by_preflight(record: JobRecord, reader: JobReader, policies: Mapping[str, Json]) -> bool:
    """Whether a required preflight holds a job back, so that it must get no GPUs."""
    spec = record.resource.get("spec")
    if not isinstance(spec, dict) or spec.get("preflight") != PreflightMode.REQUIRE:
        return False
    job = reader.read(record.resource, policies)[0]
    return job is not None and is_held(job, metadata_of(record.resource), record.status.preflight)


def with_workers(request: PlanRequest, workers: int) -> PlanRequest:
    """The question about a job whose MPIJob has `workers` workers: there is no other count to choose from."""
    counts = replace(request.job.workers, min_replicas=workers, max_replicas=workers)
    return replace(request, workers_fixed=workers, job=replace(request.job, workers=counts))


def revision_of(record: JobRecord) -> SpecRevision:
    """Differs where the spec does, where the job was stopped for others again, or where it is given to another queue.

    A label changes no generation.
    """
    stop = record.status.last_preemption
    stopped_at = stop.start_time if stop is not None and is_preempted(record.status) else ""
    labels = record.resource["metadata"].get("labels") or {}
    return record.uid, record.generation, stopped_at, str(labels.get(constants.KUEUE_QUEUE_LABEL) or "")


def is_as_asked(entry: QueueEntry, record: JobRecord | None) -> bool:
    """Whether the job that has the name now is still the one that the entry is of, with the same spec."""
    return record is not None and revision_of(record) == entry.edition


def waits(record: JobRecord, recorded: Plan | None) -> bool:
    """Neither planned nor ended nor being deleted; `recorded`, the job's plan, is stale after a preemption."""
    unplanned = recorded is None or is_preempted(record.status)
    return unplanned and not run_is_over(record.status) and not record.resource["metadata"].get("deletionTimestamp")


@dataclass(frozen=True)
class CachedVerdict:
    """What a question said of one job."""

    edition: SpecRevision
    policy: PolicySpec
    snapshot: int
    """Number of the snapshot (`SnapshotNumbers`)."""
    version: int
    """Of the cache, after the question's plans were taken."""
    at: float
    """By the clock that is never set."""
    score: QueueScore | None
    others: int = 0
    """Jobs that the question was about beside this one."""
    start: Start | None = None
    made_on: ClusterSnapshot | None = None
    """What the plan of a start was made on; None for a job that waits, which may do so for days."""
    hold: Deferral | None = None
    fallbacks: tuple[str, ...] = ()


@dataclass
class Grant:
    """A start that its job has not taken yet."""

    verdict: CachedVerdict
    passes: int = 0
    """Passes over the job that ended without taking it."""


class SnapshotNumbers:
    """Tells snapshots apart and keeps the last one of each policy only: those of large clusters take megabytes each."""

    def __init__(self) -> None:
        self._last: list[tuple[PolicySpec, ClusterSnapshot, int]] = []
        self._given = 0

    def of(self, snapshot: ClusterSnapshot, policy: PolicySpec) -> int:
        """The number of a snapshot under that policy; one that comes again after another counts as new."""
        number = next((number for _, last, number in self._last if last is snapshot), None)
        if number is None:
            number = self._given = self._given + 1
        others = [entry for entry in self._last if entry[0] != policy]
        self._last = [*others, (policy, snapshot, number)][-KEPT_POLICIES:]
        return number


def of_one_question(
    asking: QueueEntry, late: list[QueueEntry], by_age: list[QueueEntry], by_index: list[QueueEntry], by_news: list[QueueEntry]
) -> list[QueueEntry]:
    """Whom of these jobs one question is about, oldest first.

    late:     those that have waited beyond the bound
    by_index: the shortest first
    by_news:  those first that were asked about the longest time ago
    """
    kinds = {asking.kind}
    for ranked, limit in ((late, LATE_KINDS), (by_age, OLDEST_KINDS + 1), (by_index, MAX_TURN_KINDS)):
        _fill(kinds, [entry.kind for entry in ranked], limit)
    keys = {asking.key}
    for ranked, limit in ((late, FIXED_JOBS), (by_age, FIXED_JOBS // 2), (by_index, FIXED_JOBS), (by_news, MAX_TURN_JOBS)):
        _fill(keys, [entry.key for entry in ranked if entry.kind in kinds], limit)
    chosen = [asking, *(entry for entry in by_age if entry.key in keys and entry.key != asking.key)]
    return sorted(chosen, key=lambda entry: (entry.waits_since, entry.key))


def _fill(chosen: set[Item], ranked: Iterable[Item], most: int) -> None:
    """Add what comes first until there are `most`."""
    for item in ranked:
        if len(chosen) < most:
            chosen.add(item)
