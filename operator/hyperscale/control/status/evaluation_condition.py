"""What was found out about a plan: its place in the status, and its condition. Pure."""

from __future__ import annotations

from typing import Final

from hyperscale.control.status.run_conditions import new_condition
from hyperscale.model.api.condition import Condition
from hyperscale.model.evaluation import FAULT_NAMES, EvaluationStatus, StageState
from hyperscale.model.observed.reconcile_input import ReconcileInput
from hyperscale.util.rfc3339 import duration_text

EVALUATED_CONDITION: Final = "Evaluated"


def evaluation_of(state: ReconcileInput) -> EvaluationStatus | None:
    """Of the plan in force: the latest, else what the status says; that of another plan is void."""
    plan = state.plan.in_force
    answers = (state.plan.evaluation, state.job.status.evaluation)
    return next((answer for answer in answers if plan is not None and answer is not None and answer.plan_id == plan.plan_id), None)


def evaluated(answer: EvaluationStatus | None) -> Condition | None:
    """True where the plan may be carried out, False where a stage says no, Unknown where the evaluation failed; None without one."""
    if answer is None:
        return None
    if answer.fault or not answer.stages:
        reason = next((name for name in FAULT_NAMES if answer.fault.startswith(f"{name}: ")), "EvaluationFailed")
        return Condition(type=EVALUATED_CONDITION, status="Unknown", reason=reason, message=answer.fault)
    states = {stage.state for stage in answer.stages}
    if StageState.FAILED in states:
        return new_condition(EVALUATED_CONDITION, False, "PlanRefuted", answer.top_risk)
    reason = "RisksFound" if StageState.WARNED in states else "NoRisksFound"
    return new_condition(EVALUATED_CONDITION, True, reason, _sentence(answer))


def _sentence(answer: EvaluationStatus) -> str:
    """What people ask first."""
    parts = []
    if answer.ends_by_deadline is not None and answer.deadline_seconds is not None:
        chance = 100.0 * answer.ends_by_deadline.middle
        parts.append(f"{chance:.1f} % of the futures end within {duration_text(answer.deadline_seconds)}")
    if answer.end_seconds is not None:
        end = answer.end_seconds
        parts.append(f"takes {duration_text(end.middle)} ({duration_text(end.low)} to {duration_text(end.high)})")
    if answer.cost is not None:
        parts.append(f"costs {answer.cost.middle:.4g}")
    if answer.top_risk:
        parts.append(answer.top_risk)
    return "; ".join(parts)
