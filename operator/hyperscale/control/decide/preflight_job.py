"""A required preflight: nothing is planned, so that no GPU is held, until the job's code has passed."""

from __future__ import annotations

from typing import Final

from hyperscale.control.lifecycle.preflight_outcome import outcome_of, requires_preflight, step_of
from hyperscale.model import constants
from hyperscale.model.api.preflight_report import PreflightOutcome
from hyperscale.model.decision import Decision, Reason, Stop, Wait
from hyperscale.model.observed.reconcile_input import ReconcileInput

AGAIN_SECONDS: Final = 30.0
"""Until what the API server refused is tried again."""
POLL_SECONDS: Final = 5.0
_CURABLE: Final = frozenset({Reason.QUOTA_EXCEEDED, Reason.FORBIDDEN})
"""What is tried again without a change of the job."""


def preflight_outstanding(state: ReconcileInput) -> Decision | None:
    """Wait for a required preflight; stop where it found a fault, or ended without saying anything of the code."""
    if not requires_preflight(state):
        return None
    outcome, refusal = outcome_of(state), state.preflight.refusal
    if outcome is None and refusal is not None:
        if refusal.reason in _CURABLE:
            return Wait(refusal.reason, refusal.message, retry_after_seconds=AGAIN_SECONDS)
        return Stop(refusal.reason, refusal.message)
    if outcome is None:
        step = step_of(state)
        return Wait(Reason.PREFLIGHTING, step.message if step is not None else "", retry_after_seconds=POLL_SECONDS)
    if outcome.outcome is PreflightOutcome.FAILED:
        return Stop(Reason.PREFLIGHT_FAILED, f"{outcome.reason}: {outcome.sentence}")
    again = constants.preflight_again_command(state.job.metadata.namespace, state.job.metadata.name)
    start = "write spec.preflight: Advise to start without it"
    return Stop(Reason.PREFLIGHT_UNKNOWN, f"{outcome.reason}: {outcome.sentence}. Try again with: {again}; or {start}")
