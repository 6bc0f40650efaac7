"""An independent judge of advice about running jobs: every proposed plan, on the cluster without the job's own pods. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from hyperscale.model.admission_query import Claim
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.planning import PlanRequest
from hyperscale.model.running_query import MigrationAnswer, MigrationQuestion, RunningJob
from hyperscale.planner.check.drained_snapshot import emptied_snapshot
from hyperscale.planner.check.plan_check import violations


def unsound_moves(moves: MigrationAnswer, question: MigrationQuestion, snapshot: ClusterSnapshot) -> tuple[str, ...]:
    """Sentences that say what is wrong with an answer; empty when it may be acted on."""
    jobs: Mapping[str, RunningJob] = {job.request.job_key: job for job in question.jobs}
    wrong: list[str] = []
    for advice in moves.advice:
        job = jobs.get(advice.key)
        if job is None:
            wrong.append(f"{advice.key} was not asked about")
        elif advice.plan is not None:
            vacated = emptied_snapshot(snapshot, job.claims)
            wrong += [f"{advice.key}: {sentence}" for sentence in violations(advice.plan, vacated_request(job), vacated)]
    return tuple(wrong)


def vacated_request(job: RunningJob) -> PlanRequest:
    """The request on the cluster without the job's own pods; the worker count stays."""
    return replace(vacated(job.request, job.claims), workers_fixed=len(job.plan.workers))


def vacated(request: PlanRequest, claims: Mapping[str, Claim]) -> PlanRequest:
    """The request on the cluster without the job's own pods, which hold `claims`: that is free for it, and no rank stays where it is."""
    free = {name: left + claims.get(name, Claim()).gpus for name, left in sorted(request.free_gpus.items())}
    return replace(request, pinned={}, free_gpus=free)
