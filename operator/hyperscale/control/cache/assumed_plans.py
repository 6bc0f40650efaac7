"""The plans of each job by where they are written, how much they may hold, and what they hold before any bound pod shows it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from hyperscale.control.cache.records import JobRecord, Key
from hyperscale.control.lifecycle.movable import held_gpus, holds_plan, is_moving
from hyperscale.control.lifecycle.unscheduled import is_released
from hyperscale.model.api.job import PlannerChoice, StartPolicy
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.constants import GPU_RESOURCE
from hyperscale.model.observed.owned_objects import MpiJobView
from hyperscale.model.plan import Plan
from hyperscale.model.pods import PodView

Amounts = Mapping[str, int]
"""Whole units by resource name, so that sums come back to nothing when all is given back."""


class Reservations:
    """Held resources of each job, and their sum by node.

    Of thousands of ranks one is bound at a time, and only its node is counted again.
    """

    def __init__(self) -> None:
        self._of_job: dict[Key, Mapping[str, Amounts]] = {}
        self._by_node: dict[str, dict[str, int]] = {}

    def set(self, job: Key, by_node: Mapping[str, Amounts]) -> bool:
        """What a job holds from now on, empty for nothing; whether it held something else before."""
        before = self._of_job.pop(job, {})
        if by_node:
            self._of_job[job] = by_node
        changed = [node for node in {*before, *by_node} if before.get(node) != by_node.get(node)]
        for node in changed:
            left = _sum(self._by_node.pop(node, {}), before.get(node, {}), -1)
            if amounts := _sum(left, by_node.get(node, {})):
                self._by_node[node] = amounts
        return bool(changed)

    def held_by_others(self, job: Key | None, nodes: Collection[str] | None = None) -> dict[str, dict[str, int]]:
        """By node and resource name what jobs other than `job` hold; of these `nodes` alone where they are given. Not to be changed."""
        own = self._of_job.get(job, {}) if job is not None else {}
        asked = self._by_node if nodes is None else self._by_node.keys() & nodes
        reserved = {node: _sum(self._by_node[node], own[node], -1) if node in own else self._by_node[node] for node in asked}
        return {node: amounts for node, amounts in reserved.items() if amounts}


def _sum(one: Amounts, other: Amounts, factor: int = 1) -> dict[str, int]:
    """`one` and `factor` times `other`, sorted, without what is nothing."""
    sums = {name: one.get(name, 0) + factor * other.get(name, 0) for name in sorted({*one, *other})}
    return {name: amount for name, amount in sums.items() if amount}


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


class PlanRecord(NamedTuple):
    """Up to three plans of one job; None where there is none."""

    unwritten: Plan | None = None
    """Made by a reconcile and written nowhere yet: it is lost with the process."""
    in_status: Plan | None = None
    on_mpijob: Plan | None = None
    """In the annotation of the job's own MPIJob."""

    @property
    def recorded(self) -> Plan | None:
        """The plan that can be read back after a crash: the status is written last, so it comes first."""
        return self.in_status or self.on_mpijob

    def with_unwritten(self, plan: Plan | None) -> PlanRecord:
        """Return the record as a reconcile sees it that has made `plan` itself.

        A plan that another job's reconcile got for this job counts only once this job's own reconcile has taken it.
        """
        return self._replace(unwritten=plan)

    @property
    def in_force(self) -> Plan | None:
        """The newest plan."""
        return self.unwritten or self.recorded


def plan_in_status(record: JobRecord, view: MpiJobView | None) -> Plan | None:
    """Return the plan that the status records; None where it is void, because its job is the queue's and nothing was created from it.

    Such a plan is void once the spec changed. The job would else be planned again before jobs that wait.
    """
    status = record.status
    planned = status.condition("Planned")
    if status.plan is None or view is not None or status.mpi_job_ref is not None:
        return status.plan
    if planned is None or planned.observed_generation == record.generation:
        return status.plan
    spec = record.resource.get("spec")
    automatic = isinstance(spec, Mapping) and spec.get("startPolicy", StartPolicy.AUTOMATIC) == StartPolicy.AUTOMATIC
    return None if automatic else status.plan


THOUSANDTHS: Final = 1000
"""Amounts beside GPUs are kept in whole thousandths."""


class AssumedPlans:
    """Plans by job from the pass that made them until their MPIJobs are seen."""

    def __init__(self) -> None:
        self._plans: dict[Key, Plan] = {}
        self._amounts: dict[Key, Mapping[str, float]] = {}
        """What a worker of each assumed plan takes."""
        self._gpus = Reservations()
        self._others = Reservations()

    def __contains__(self, key: Key) -> bool:
        return key in self._plans

    def get(self, key: Key) -> Plan | None:
        """The plan on its way for this job."""
        return self._plans.get(key)

    def items(self) -> Iterable[tuple[Key, Plan]]:
        """All of them, oldest first."""
        return self._plans.items()

    def put(self, key: Key, plan: Plan | None, amounts: Mapping[str, float] | None) -> None:
        """A job's plan from now on; None where the pass is over.

        amounts: what one worker takes beside GPUs, by resource name; None leaves it as it was
        """
        if plan is None:
            self._plans.pop(key, None)
            self._amounts.pop(key, None)
        else:
            self._plans[key] = plan
            self._amounts[key] = self._amounts.get(key, {}) if amounts is None else amounts

    def hold(self, key: Key, plan: Plan | None, gpus: Mapping[str, int], written: Mapping[str, float]) -> bool:
        """Reserve the GPUs that a job's plan holds by node; whether it held others before.

        written: what one worker takes beside GPUs as its MPIJob says, which counts where no pass has said so
        """
        each = max(1, plan.workers[0].gpus) if plan is not None and plan.workers else 1
        amounts = {name: round(amount * THOUSANDTHS) for name, amount in (self._amounts.get(key) or written).items()}
        positive = {name: amount for name, amount in amounts.items() if amount > 0}
        others = {node: {name: count // each * amount for name, amount in positive.items()} for node, count in gpus.items()}
        self._others.set(key, others if positive else {})
        return self._gpus.set(key, {node: {GPU_RESOURCE: count} for node, count in gpus.items()})

    def recount(self, key: Key, plans: PlanRecord, record: JobRecord | None, view: MpiJobView | None, pods: Iterable[PodView]) -> bool:
        """Reserve what a job's plan holds beside its bound pods; whether it held other GPUs before."""
        plan, moving = plans.unwritten, plans.unwritten is not None or (record is not None and is_moving(record.status))
        if plan is None and view is not None and record is not None:
            plan = holding_plan(plans, record, view, moving)
        return self.hold(key, plan, held_gpus(plan, pods, moving) if plan is not None else {}, view.worker_amounts if view else {})

    def free_gpus(self, snapshot: ClusterSnapshot, asking: Key | None = None) -> dict[str, int]:
        """Free GPUs of the nodes on which plans of other jobs hold some that no bound pod shows yet."""
        taken = self._gpus.held_by_others(asking)
        taken_nodes = (node for node in snapshot.nodes if node.name in taken) if taken else ()
        return {node.name: max(0, node.free_gpus - taken[node.name][GPU_RESOURCE]) for node in taken_nodes}

    def reserved_amounts(self, asking: Key | None = None, nodes: Collection[str] | None = None) -> dict[str, dict[str, float]]:
        """By node and name what plans of other jobs hold beside GPUs that no bound pod shows yet; of some `nodes`, or of all."""
        reserved = self._others.held_by_others(asking, nodes)
        return {node: {name: amount / THOUSANDTHS for name, amount in amounts.items()} for node, amounts in reserved.items()}
