"""The question about a job, as the operator and the command line both put it to the planners. Pure.

One place for both: a preview differs from the plan wherever the question does.
"""

from __future__ import annotations

from collections.abc import Mapping

from hyperscale.model.job import JobSpec
from hyperscale.model.plan import Calibration
from hyperscale.model.planning import PlanRequest
from hyperscale.model.policy import PolicySpec
from hyperscale.render.template import worker_node_labels, worker_tolerations


def question_about(
    key: str,
    job: JobSpec,
    policy: PolicySpec,
    calibration: tuple[Calibration, ...] = (),
    free_gpus: Mapping[str, int] | None = None,
) -> PlanRequest:
    """The question about a job that has no pods yet.

    key:       namespace/name
    free_gpus: free GPUs by node where they differ from the snapshot
    Raises render.template.RenderError where the job's worker template cannot be used.
    """
    return PlanRequest(
        job_key=key,
        job=job,
        seed=policy.seed,
        deadline_seconds=policy.deadlines.plan_seconds,
        free_gpus=dict(free_gpus or {}),
        required_labels=worker_node_labels(job),
        tolerations=worker_tolerations(job),
        calibration=calibration,
    )
