"""What the operator would do with a job once it has a plan: start it, or wait, and for what. Pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from hyperscale.cli.plan.inputs import JobInput
from hyperscale.model import constants
from hyperscale.model.api.job import JobSpec, StartPolicy
from hyperscale.model.plan import Plan


class Then(enum.StrEnum):
    """What comes of a job; one word for the table."""

    STARTS = "starts"
    PLAN_ONLY = "plan only"
    APPROVAL = "waits for approval"
    SUSPENDED = "suspended"
    QUEUED = "waits for queue"


@dataclass(frozen=True)
class PlanOutcome:
    """One job's."""

    then: Then
    why: str

    @property
    def decided_by_operator(self) -> bool:
        """The operator's own queue decides when it starts."""
        return self.then is Then.STARTS


def outcome_of(job: JobInput, spec: JobSpec) -> PlanOutcome:
    """In the order in which the operator looks (control/decide/chain.py)."""
    if spec.run_policy.suspend:
        return PlanOutcome(Then.SUSPENDED, "spec.runPolicy.suspend is true; set it to false to plan and start the job")
    if spec.start_policy is StartPolicy.NEVER:
        return PlanOutcome(Then.PLAN_ONLY, "spec.startPolicy is Never; write Automatic or Manual to run the plan")
    queue = job.labels.get(constants.KUEUE_QUEUE_LABEL, "")
    if spec.start_policy is StartPolicy.MANUAL:
        return PlanOutcome(Then.APPROVAL, f'then waits for queue "{queue}"' if queue else "")
    if queue:
        return PlanOutcome(Then.QUEUED, f'Kueue admits it from queue "{queue}"')
    return PlanOutcome(Then.STARTS, "")


def sentence(outcome: PlanOutcome, job: JobInput, plan: Plan) -> str:
    """What happens with the plan."""
    if outcome.then is Then.APPROVAL:
        command = constants.approval_command(job.namespace, job.name, plan.plan_id)
        return "; ".join(part for part in (f"waits for approval: {command}", outcome.why) if part)
    if outcome.then is Then.QUEUED:
        return f"waits until {outcome.why}"
    return f"{outcome.then}: {outcome.why}" if outcome.why else str(outcome.then)
