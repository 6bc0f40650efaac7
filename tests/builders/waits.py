"""Jobs as a reconcile sees them some time after their creation, and what their status says of their wait."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from hyperscale.control.decide.chain import decide
from hyperscale.control.lifecycle.queue_wait import WAITING_CONDITION, demand_digest
from hyperscale.control.lifecycle.stoppable import PREEMPTED_CONDITION
from hyperscale.control.status.conditions import derive
from hyperscale.model.api.condition import Condition
from hyperscale.model.api.job import JobSpec
from hyperscale.model.observed.reconcile_input import ReconcileClock, ReconcileInput
from hyperscale.model.status import JobStatus
from hyperscale.util.rfc3339 import timestamp, unix_seconds
from tests.builders.seen import changed, job_spec, seen
from tests.corpus.queue_stage import CREATED

WAITING = Condition(WAITING_CONDITION, "True", "InQueue", observed_generation=1, last_transition_time=timestamp(CREATED + 100.0))
PREEMPTED = Condition(PREEMPTED_CONDITION, "True", "PreemptedForOthers", last_transition_time=timestamp(CREATED))
DEMAND = demand_digest(job_spec())
RUNS = {"Running": (True, "MPIJobRunning", "")}


def look(
    now: float, job: JobSpec | None = None, *, generation: int = 1, labels: dict[str, str] | None = None, **said: Any
) -> ReconcileInput:
    """The job as a reconcile sees it `now` seconds after its creation."""
    state = changed(seen(job), **said)
    metadata = replace(state.job.metadata, created=timestamp(CREATED), generation=generation, labels=labels or {})
    return replace(state, job=replace(state.job, metadata=metadata), clock=ReconcileClock(now=CREATED + now))


def reported(state: ReconcileInput) -> JobStatus:
    return derive(state, decide(state))


def waits_from(told: JobStatus) -> float | None:
    """Seconds after the creation from which the status counts the wait."""
    waiting = told.condition(WAITING_CONDITION)
    return None if waiting is None else unix_seconds(waiting.last_transition_time) - CREATED
