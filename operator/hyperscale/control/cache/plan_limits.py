"""How much a recorded plan may hold: no more than the job's spec allows, whatever a status or an MPIJob of others says."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from hyperscale.control.cache.plan_record import PlanRecord
from hyperscale.control.cache.records import JobRecord
from hyperscale.control.lifecycle.movable import holds_plan
from hyperscale.control.lifecycle.unscheduled import is_released
from hyperscale.model.api.job import PlannerChoice
from hyperscale.model.observed.owned_objects import MpiJobView
from hyperscale.model.plan import Plan


def holding_plan(plans: PlanRecord, record: JobRecord, view: MpiJobView, moving: bool) -> Plan | None:
    """Return the recorded plan as far as it reserves GPUs: while its MPIJob is gated, unfinished and runs or migrates, within the spec."""
    if plans.recorded is None or not holds_plan(view, moving) or not _wants_gpus(record, view):
        return None
    return within_spec(plans.recorded, plans.in_status is not None, record, view)


def within_spec(plan: Plan, from_status: bool, record: JobRecord, view: MpiJobView) -> Plan:
    """The plan with no more workers and GPUs than the job's spec allows.

    A spec that cannot be read allows nothing, but what a status that names the MPIJob has recorded stays taken.
    """
    most, gpus, reference = record.max_workers, record.gpus_per_worker, record.status.mpi_job_ref
    recorded = from_status and reference is not None and reference.uid == view.uid
    if (recorded and not most) or (len(plan.workers) <= most and all(worker.gpus <= gpus for worker in plan.workers)):
        return plan
    return replace(plan, workers=tuple(replace(worker, gpus=min(worker.gpus, gpus)) for worker in plan.workers[:most]))


def _wants_gpus(record: JobRecord, view: MpiJobView) -> bool:
    """Whether the job's spec lets its ranks be placed by a plan at all, whatever another resumed or wrote on its MPIJob.

    Ranks that were released wait for another plan. A queue's MPIJob is not suspended for that.
    """
    if view.holder and is_released(record.status, view):
        return False
    spec = record.resource.get("spec")
    policy = spec.get("runPolicy") if isinstance(spec, Mapping) else None
    suspended = isinstance(policy, Mapping) and policy.get("suspend") is True
    return not suspended and not (isinstance(spec, Mapping) and spec.get("planner") == PlannerChoice.NONE)
