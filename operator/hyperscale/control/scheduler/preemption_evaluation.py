"""What the operator last concluded about preempting one running job, and how an answer changes that. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from hyperscale.control.lifecycle.movable import ADVISES
from hyperscale.control.lifecycle.stoppable import material, shown_stop
from hyperscale.model.api.policy import PreemptionMode
from hyperscale.model.running_query import JobPreemption, PreemptibleJob
from hyperscale.model.status import ProposedPreemption
from hyperscale.util.rfc3339 import timestamp

WITHDRAWN_AFTER: Final = 2
"""Answers in a row that must not name a job before its proposal is withdrawn: figures swing around the threshold."""


class PreemptionEvaluation(NamedTuple):
    """The last result for one running job."""

    shown: ProposedPreemption | None = None
    due: bool = False
    """To be carried out by the job's next reconcile."""
    begun: bool = False
    """That reconcile has come."""
    beneficiaries: tuple[str, ...] = ()
    epochs_kept: float = 0.0
    """Predicted, what the checkpoints hold."""
    missed: int = 0
    """Answers in a row that did not name the job."""


def advised(
    before: PreemptionEvaluation, advice: JobPreemption, job: PreemptibleJob, mode: PreemptionMode, now: float
) -> PreemptionEvaluation:
    """Return the next evaluation of a job that the answer names; `now` in Unix seconds."""
    running = job.running
    kept = max(0.0, running.request.job.model.epochs - running.remaining_epochs - running.redone_epochs)
    if mode is PreemptionMode.AUTOMATIC:
        return PreemptionEvaluation(due=True, beneficiaries=advice.beneficiaries, epochs_kept=kept)
    since = before.shown.first_proposed_time if before.shown is not None else timestamp(now)
    fresh = shown_stop(advice, since, ADVISES)
    return PreemptionEvaluation(fresh if before.shown is None or material(before.shown, fresh) else before.shown)


def not_advised(before: PreemptionEvaluation, asked: bool) -> PreemptionEvaluation:
    """Return the next evaluation of a job that the answer does not name; not `asked`: there was no question."""
    missed = before.missed + 1 if asked else WITHDRAWN_AFTER
    return PreemptionEvaluation(before.shown if missed < WITHDRAWN_AFTER else None, missed=missed)
