"""What a preflight tells people: the condition `Preflight`, and the event of its end. Pure."""

from __future__ import annotations

from typing import Final, Literal

from hyperscale.control.lifecycle.preflight_outcome import outcome_of, step_of
from hyperscale.control.status.run_conditions import MAX_MESSAGE
from hyperscale.model.api.condition import Condition
from hyperscale.model.api.preflight_report import PreflightOutcome, PreflightStatus
from hyperscale.model.observed.reconcile_input import ReconcileInput

PREFLIGHT_CONDITION: Final = "Preflight"
_STATUS: Final[dict[PreflightOutcome, Literal["True", "False", "Unknown"]]] = {
    PreflightOutcome.PASSED: "True",
    PreflightOutcome.FAILED: "False",
    PreflightOutcome.UNKNOWN: "Unknown",
}


def preflighted(state: ReconcileInput) -> Condition | None:
    """True where the code passed, False where it has a fault, Unknown before and where nothing was learned; None without a preflight."""
    outcome = outcome_of(state)
    if outcome is not None:
        return _condition(_STATUS[outcome.outcome], outcome.reason, outcome.sentence)
    step = step_of(state)
    return _condition("Unknown", step.reason, step.message) if step is not None else None


def ended_now(before: PreflightStatus | None, after: PreflightStatus | None) -> PreflightStatus | None:
    """The outcome of a preflight that has ended since `before` was written; None where none has."""
    return after if after is not None and (before is None or before.key != after.key) else None


def _condition(status: Literal["True", "False", "Unknown"], reason: str, message: str) -> Condition:
    return Condition(type=PREFLIGHT_CONDITION, status=status, reason=reason, message=message[:MAX_MESSAGE])
