"""Decisions of people on their way into history, and what they reveal on its way to the planners.

Runs outside the reconcile loop: a slow or unavailable database only delays history.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from hyperscale.control.cache.deciders import DECIDED_BY
from hyperscale.control.cache.records import JobRecord
from hyperscale.control.history.database_calls import LEARN_SECONDS, RowWriter, call_database, fault_of
from hyperscale.control.history.namespace_weights import NamespaceWeights, Weights
from hyperscale.control.lifecycle.offered import annotated_plan, decidable_plans
from hyperscale.control.specs.parsed_specs import JobReader
from hyperscale.control.telemetry.metrics import Telemetry
from hyperscale.model import constants
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.observed.reconcile_input import ReconcileInput
from hyperscale.model.status import JobStatus

if TYPE_CHECKING:
    from hyperscale.control.history.decision_store import DecisionStore
    from hyperscale.control.history.decisions_table import PersonDecision

_LOG = logging.getLogger(__name__)

RETRY_SECONDS: Final = 30.0
READ_SECONDS: Final = 60.0
"""Interval at which decisions of other operators and of `hyperscale preferences` are read."""
MAX_NOTED: Final = 20_000
"""Decisions remembered or waiting; beyond that the oldest are dropped."""
MAX_WRITTEN: Final = 500
"""Decisions in one transaction."""
MAX_BECAUSE: Final = 1000
"""Characters."""
DAY_SECONDS: Final = 86_400.0
ANNOTATIONS: Final = {
    "Approved": (constants.APPROVED_PLAN_ANNOTATION, constants.APPROVED_BECAUSE_ANNOTATION),
    "Rejected": (constants.REJECTED_PLAN_ANNOTATION, constants.REJECTED_BECAUSE_ANNOTATION),
    "Preferred": (constants.PREFERRED_PLAN_ANNOTATION, constants.PREFERRED_BECAUSE_ANNOTATION),
}
"""By kind of decision: the annotation with the plan, and the one with the reason."""

Entry = TypeVar("Entry")
EntryKey = TypeVar("EntryKey")


class NotedDecision(NamedTuple):
    """A decision that waits to be written."""

    row: PersonDecision
    first_look: bool
    """The annotation was there at the first look since the operator started: history may have it already."""


class DecisionRecorder:
    """Notes decisions as their annotations appear; `run` writes them and keeps the weights fresh."""

    def __init__(self, reader: JobReader, telemetry: Telemetry, url: str, clock: Callable[[], float], days: float = 0.0) -> None:
        """url: "" keeps nothing, and there are no weights; days: how long a decision is kept, 0 for ever."""
        reader.preferences, reader.decisions_read = self.weights, not url
        self._reader = reader
        self._telemetry = telemetry
        self._url = url
        self._clock = clock
        self._keep_seconds = days * DAY_SECONDS if days > 0 else math.inf
        self._noted: dict[tuple[str, str], tuple[str, str]] = {}
        """By uid and kind: plan and reason as last noted, "" where there was none."""
        self._waiting: dict[tuple[str, str, str], NotedDecision] = {}
        """By uid, kind and plan, oldest first."""
        self._writer: RowWriter[tuple[str, str, str], NotedDecision] = RowWriter(MAX_WRITTEN, lambda _: None, self._give_up)
        self._something = asyncio.Event()
        self._fault = ""
        self._by_namespace = NamespaceWeights()

    def note(self, record: JobRecord | None, state: ReconcileInput, status: JobStatus) -> None:
        """A job as its pass ends; each decision once, about a plan that a person can decide on."""
        if not self._url:
            return
        decidable = decidable_plans(state, status)
        for kind, (annotation, because_annotation) in ANNOTATIONS.items():
            plan_id = annotated_plan(state, annotation)
            because = _one_line(state.job.metadata.annotations.get(because_annotation, "")) if plan_id else ""
            key = state.job.metadata.uid, kind
            before = self._noted.get(key)
            if before == (plan_id, because) or (before is None and not plan_id):
                continue
            if plan_id and plan_id not in decidable:
                continue  # anyone can write any number of ids that are no plan of the job
            _put(self._noted, key, (plan_id, because))  # where it was taken away, the same again is decided again
            if plan_id:
                manager = _decided_by(record).get(annotation, "")
                row = _row(self._clock(), kind, plan_id, because, manager, state, status)
                _put(self._waiting, (*key, plan_id), NotedDecision(row, before is None))
                self._something.set()

    def weights(self, namespace: str, policy: PolicySpec) -> Weights | None:
        """Return the weights of a namespace within the policy's bounds; None where there are no answers and none are set."""
        return self._by_namespace.weights(namespace, policy.preferences.bounds)

    async def run(self) -> None:
        """Until cancelled; at once where no history is kept."""
        if not self._url:
            return
        with contextlib.ExitStack() as at_the_end:
            store: DecisionStore | None = None
            now = asyncio.get_running_loop().time
            read_at = now()
            while True:
                try:
                    if store is None:
                        store = await call_database(partial(_open_decisions, self._url))
                        at_the_end.callback(store.close)
                    faults = [await fault_of(self._write(store))]
                    if now() >= read_at:  # each row that tenants have written does not read all of them
                        faults.append(await fault_of(self.read(store)))
                        if faults[-1] is None:
                            read_at = now() + READ_SECONDS
                        faults.append(await fault_of(self._prune(store)))
                    for fault in filter(None, faults):
                        raise fault
                    self._fault = self._fault if len(faults) == 1 else ""
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(read_at - now()):
                            await self._something.wait()
                except Exception as error:  # whatever a database holds, it ends no operator
                    self._report(error)
                    await asyncio.sleep(RETRY_SECONDS)

    def _report(self, error: Exception) -> None:
        """Count a fault, and log it where it is another than before."""
        self._telemetry.history_failures.inc()
        fault = f"{type(error).__name__}: {error}"
        if fault != self._fault:
            _LOG.warning("decisions: %s", fault)
        self._fault = fault

    async def _write(self, store: DecisionStore) -> None:
        self._something.clear()
        await self._writer.write(self._waiting, partial(_record, store))

    def _give_up(self, noted: NotedDecision, error: Exception) -> None:
        self._telemetry.history_failures.inc()
        _LOG.warning("decisions: %s of %s/%s cannot be kept: %s", noted.row.kind, noted.row.namespace, noted.row.job, error)

    async def read(self, store: DecisionStore) -> None:
        """Learn what history says."""
        self._by_namespace.take(await call_database(partial(self._by_namespace.news, store), LEARN_SECONDS))
        self._reader.decisions_read = True

    async def _prune(self, store: DecisionStore) -> None:
        """Delete what is too old or too much."""
        await call_database(partial(store.prune, self._clock() - self._keep_seconds))


def _put(entries: dict[EntryKey, Entry], key: EntryKey, entry: Entry) -> None:
    """Make this the newest of MAX_NOTED entries."""
    entries.pop(key, None)
    while len(entries) >= MAX_NOTED:
        del entries[next(iter(entries))]
    entries[key] = entry


def _row(at: float, kind: str, plan_id: str, because: str, manager: str, state: ReconcileInput, status: JobStatus) -> PersonDecision:
    from hyperscale.control.history.decisions_table import DecisionKind, decision, offers_text  # SQLAlchemy, only where history is kept

    metadata = state.job.metadata
    alternatives = status.alternatives or state.job.status.alternatives
    offers = alternatives.offers if alternatives is not None and alternatives.offer(plan_id) is not None else ()
    about = {"job": metadata.name, "uid": metadata.uid, "because": because, "manager": manager, "outcome": status.reason}
    return decision(at, metadata.namespace, DecisionKind(kind), plan_id, offers=offers_text(offers), **about)


def _record(store: DecisionStore, waiting: tuple[NotedDecision, ...]) -> int:
    """Write what is new: at the first look since a start the newest row of the job may be this very decision.

    Return how many were. Raises HistoryError, RowRefusedError where the database does not keep one.
    """
    new = []
    for row, first_look in waiting:
        last = store.last(row.uid, row.kind) if first_look else None
        if last is None or (last.plan_id, last.because) != (row.plan_id, row.because):
            new.append(row)
    return store.record(new) if new else 0


def _decided_by(record: JobRecord | None) -> dict[str, str]:
    """Field managers by annotation."""
    by: dict[str, str] = record.resource["metadata"].get(DECIDED_BY) or {} if record is not None else {}
    return by


def _one_line(text: str) -> str:
    words = " ".join(text.split())
    return "".join(letter if letter.isprintable() else "?" for letter in words)[:MAX_BECAUSE]


def _open_decisions(url: str) -> DecisionStore:
    from hyperscale.control.history.decision_store import DecisionStore

    return DecisionStore(url)
