"""What a person compares who decides on a plan: others that trade time, cost and risk, and the plan before this one."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from hyperscale.model.plan import NodeName, Plan

MAX_OFFERS = 3
"""The plan in force and up to two others."""
MAX_OFFERED_WORKERS = 256
"""Workers of a plan that is offered or compared: three plans have to fit in a status."""
PLAN_ID_DIGITS = 16
LEAST_RISK: Final = 0.01
"""Risks below it count as equal wherever people's weights are learned or applied: a forecast cannot tell them apart."""

PlanId = Annotated[str, Meta(max_length=64)]
ReasonText = Annotated[str, Meta(max_length=1000)]


class PriorPlan(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A plan that was in force before, as far as it is compared."""

    plan_id: PlanId = field(name="id")
    nodes: Annotated[tuple[NodeName, ...], Meta(max_length=MAX_OFFERED_WORKERS)]
    """Of each worker, by index."""
    gpus_per_worker: int
    epoch_seconds: float
    cost_per_epoch: float | None = None
    """In the currency of the policy's price table; absent where a price is missing."""


class PlanAlternative(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A plan that a person may prefer, with what is compared."""

    plan_id: PlanId = field(name="id")
    workers: int
    nodes: int
    gpus: int
    epoch_seconds: float
    failure_risk: Annotated[float, Meta(ge=0, le=1)]
    """Probability that one of its nodes fails before the run ends, at 6.50 failures per 1,000 node-days."""
    cost_per_epoch: float | None = None
    """In the currency of the policy's price table; absent where a price is missing."""
    trades: Annotated[str, Meta(max_length=512)] = ""
    """What it trades against the planners' own choice; empty for that choice."""
    plan: Plan | None = None
    """The whole plan; absent for the plan in force, which is `status.plan`."""

    @property
    def gpu_seconds(self) -> float:
        """Of one epoch: what stands for cost where there are no prices."""
        return self.gpus * self.epoch_seconds


class PlanAlternatives(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Plans of one job that were made from one snapshot."""

    key: Annotated[str, Meta(max_length=16)]
    """Digest of the spec: for another one the planners are asked again."""
    offers: Annotated[tuple[PlanAlternative, ...], Meta(max_length=MAX_OFFERS)]
    """The planners' own choice first."""
    recommended: PlanId = ""
    """The plan that the preferences of the namespace rate best; empty where the policy does not ask for it, or there are none."""

    def offer(self, plan_id: str) -> PlanAlternative | None:
        """Return the offer of that id; None where there is none."""
        return next((offer for offer in self.offers if offer.plan_id == plan_id), None)

    def in_force(self, plan: Plan, before: Plan | None) -> PlanAlternatives:
        """Return the offers while `plan` is in force: it is left out, and `before`, in force until now, is kept where it is offered."""
        plans = {offer.plan_id: offer.plan for offer in self.offers}
        if before is not None and before.plan_id in plans and before.plan_id != plan.plan_id:
            plans[before.plan_id] = trimmed(before)
        plans[plan.plan_id] = None
        return replace(self, offers=tuple(replace(offer, plan=plans[offer.plan_id]) for offer in self.offers))


def trimmed(plan: Plan) -> Plan:
    """Return the plan without nodes that were turned down and the planners' scores: it is one of three in a status."""
    return replace(plan, rejected=(), scores=())


def prior_of(plan: Plan) -> PriorPlan:
    """Return what is compared of a plan; of very large ones the first MAX_OFFERED_WORKERS workers."""
    return PriorPlan(
        plan_id=plan.plan_id,
        nodes=tuple(worker.node for worker in plan.workers[:MAX_OFFERED_WORKERS]),
        gpus_per_worker=plan.workers[0].gpus if plan.workers else 0,
        epoch_seconds=plan.predicted.epoch_seconds,
        cost_per_epoch=plan.predicted.cost_per_epoch,
    )


def is_plan_id(text: str) -> bool:
    """Return whether a text can be the id of a plan; annotations may hold anything."""
    return len(text) == PLAN_ID_DIGITS and all(letter in "0123456789abcdef" for letter in text)
