"""The plans that a person may prefer while a start waits for them, and what their annotations say. Pure."""

from __future__ import annotations

from typing import Final

from hyperscale.model import constants
from hyperscale.model.api.job import StartPolicy
from hyperscale.model.observed.reconcile_input import ReconcileInput
from hyperscale.model.offers.plan_offers import PlanAlternatives, PriorPlan, is_plan_id, prior_of
from hyperscale.model.status import JobStatus

MAX_BECAUSE: Final = 256
"""Characters of a reason in a message."""


def waits_for_person(state: ReconcileInput) -> bool:
    """Return whether the job has a plan, nothing was created from it, and a person decides on the start."""
    job = state.job.parsed
    return (
        job is not None and state.plan.in_force is not None and state.gang.mpijob is None and job.start_policy is not StartPolicy.AUTOMATIC
    )


def alternatives_of(state: ReconcileInput) -> PlanAlternatives | None:
    """Return the offers among which the plan in force is: of the latest search, else of the status; None where neither has it."""
    plan, recorded, latest = state.plan.in_force, state.job.status.alternatives, state.plan.alternatives
    if plan is None:
        return None
    # What the status says of the same search comes first: it holds the plan that was in force before another was preferred.
    same = latest is None or recorded is None or recorded.key == latest.key
    ordered = (recorded, latest) if same else (latest, recorded)
    offered = next((each for each in ordered if each is not None and each.offer(plan.plan_id) is not None), None)
    return offered.in_force(plan, state.job.status.plan) if offered is not None else None


def prior_plan(state: ReconcileInput) -> PriorPlan | None:
    """Return the plan before the one in force, where a person compares them."""
    plan, status, job = state.plan.in_force, state.job.status, state.job.parsed
    if job is None or job.start_policy is StartPolicy.AUTOMATIC:
        return None
    replaced = plan is not None and status.plan is not None and status.plan.plan_id != plan.plan_id
    return prior_of(status.plan) if replaced and status.plan is not None else status.prior_plan


def is_of_earlier_spec(state: ReconcileInput) -> bool:
    """Whether the recorded plan was made for another generation of the spec."""
    job = state.job
    planned = job.status.condition("Planned")
    return planned is not None and state.plan.metrics is None and planned.observed_generation != job.metadata.generation


def annotated_plan(state: ReconcileInput, annotation: str) -> str:
    """Return the id of a plan that an annotation names; "" where it is absent or can be none."""
    text = state.job.metadata.annotations.get(annotation, "")
    return text if is_plan_id(text) else ""


def decidable_plans(state: ReconcileInput, status: JobStatus) -> frozenset[str]:
    """Return the ids of the plans that a person can decide on: the one in force, the one before it, and those on offer.

    Both what was stored and what `status` says now count.
    """
    plans = [each for each in (state.plan.in_force, state.job.status.plan, status.plan) if each is not None]
    prior = [each for each in (state.job.status.prior_plan, status.prior_plan) if each is not None]
    searches = [each for each in (state.plan.alternatives, state.job.status.alternatives, status.alternatives) if each is not None]
    offered = [offer.plan_id for each in searches for offer in each.offers]
    return frozenset([*(each.plan_id for each in plans), *(each.plan_id for each in prior), *offered])


def because_text(state: ReconcileInput, annotation: str) -> str:
    """Return what a person wrote as one line of printable characters, cut to MAX_BECAUSE."""
    words = " ".join(state.job.metadata.annotations.get(annotation, "").split())
    return "".join(letter if letter.isprintable() else "?" for letter in words)[:MAX_BECAUSE]


def preference_note(state: ReconcileInput) -> str:
    """Return why the plan that a person prefers is not the plan in force; "" where it is, or none is preferred."""
    written = state.job.metadata.annotations.get(constants.PREFERRED_PLAN_ANNOTATION, "")
    wanted, plan = annotated_plan(state, constants.PREFERRED_PLAN_ANNOTATION), state.plan.in_force
    if not written or plan is None or wanted == plan.plan_id:
        return ""
    if not wanted:
        return f"annotation {constants.PREFERRED_PLAN_ANNOTATION} names no plan; write 16 hex digits"
    return f"plan {wanted} was preferred, but {state.plan.preference_fault or 'it is none of the alternatives'}"
