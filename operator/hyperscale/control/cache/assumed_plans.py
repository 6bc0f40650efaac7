"""Plans that are on their way to an MPIJob, and the resources that plans hold before any bound pod shows it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from hyperscale.control.cache.plan_limits import holding_plan
from hyperscale.control.cache.plan_record import PlanRecord
from hyperscale.control.cache.records import JobRecord, Key
from hyperscale.control.cache.reservations import Reservations
from hyperscale.control.lifecycle.movable import held_gpus, is_moving
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.constants import GPU_RESOURCE
from hyperscale.model.observed.owned_objects import MpiJobView
from hyperscale.model.plan import Plan
from hyperscale.model.pods import PodView

THOUSANDTHS: Final = 1000
"""Amounts beside GPUs are kept in whole thousandths."""


class AssumedPlans:
    """Plans by job from the pass that made them until their MPIJobs are seen."""

    def __init__(self) -> None:
        self._plans: dict[Key, Plan] = {}
        self._amounts: dict[Key, Mapping[str, float]] = {}
        """What a worker of each assumed plan takes."""
        self._gpus: Reservations[Key] = Reservations()
        self._others: Reservations[Key] = Reservations()

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
        held = {name: amount for name, amount in amounts.items() if amount > 0}
        others = {node: {name: count // each * amount for name, amount in held.items()} for node, count in gpus.items()}
        self._others.set(key, others if held else {})
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
        held = self._others.held_by_others(asking, nodes)
        return {node: {name: amount / THOUSANDTHS for name, amount in amounts.items()} for node, amounts in held.items()}
