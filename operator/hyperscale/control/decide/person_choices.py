"""What a person decided about a plan that waits for them: another one is preferred, or this one is rejected."""

from __future__ import annotations

from hyperscale.control.lifecycle.offered import alternatives_of, annotated_plan, because_text, waits_for_person
from hyperscale.model import constants
from hyperscale.model.decision import Decision, Reason, TakeAlternative, Wait
from hyperscale.model.observed.reconcile_input import ReconcileInput


def prefers_alternative(state: ReconcileInput) -> Decision | None:
    """Put the alternative in force that a person prefers; it is tried once a reconcile."""
    wanted, plan = annotated_plan(state, constants.PREFERRED_PLAN_ANNOTATION), state.plan.in_force
    if not wanted or plan is None or wanted == plan.plan_id or state.plan.preference_fault or not waits_for_person(state):
        return None
    offered = alternatives_of(state)
    offer = offered.offer(wanted) if offered is not None else None
    if offer is None or offer.plan is None or offer.plan.plan_id != wanted:
        return None
    return TakeAlternative(Reason.ALTERNATIVE_PREFERRED, plan=offer.plan)


def rejected_by_person(state: ReconcileInput) -> Decision | None:
    """Keep a plan from starting that a person rejected, also where it is approved; another plan is not concerned."""
    plan = state.plan.in_force
    if state.gang.mpijob is not None or plan is None or annotated_plan(state, constants.REJECTED_PLAN_ANNOTATION) != plan.plan_id:
        return None
    because = because_text(state, constants.REJECTED_BECAUSE_ANNOTATION)
    offered = alternatives_of(state)
    others = [offer.plan_id for offer in offered.offers if offer.plan_id != plan.plan_id] if offered is not None else []
    prefer = f"prefer one of {', '.join(others)} (`hyperscale prefer`), or change the spec" if others else "change the spec"
    why = f" ({because})" if because else ""
    return Wait(Reason.REJECTED_BY_PERSON, f"plan {plan.plan_id} was rejected{why}; {prefer}, or approve it with `hyperscale approve`")
