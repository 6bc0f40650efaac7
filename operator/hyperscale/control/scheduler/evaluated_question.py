"""What the planners would be asked about a job whose plan is evaluated, as if it had no pods."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hyperscale.control.cache.cluster_cache import ClusterCache
from hyperscale.control.cache.records import Key
from hyperscale.control.scheduler.evaluation_queue import WaitingPlan
from hyperscale.model.admission_query import Claim, claims_of
from hyperscale.model.api.job import JobSpec
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.planning import PlanRequest
from hyperscale.model.pods import WORKER, PodView
from hyperscale.planner.migration.vacated import vacated

AskAbout = Callable[[Key, JobSpec, PodView | None, PolicySpec, ClusterSnapshot], PlanRequest]


def question_as_planned(
    cache: ClusterCache, ask_about: AskAbout, waiting: WaitingPlan, snapshot: ClusterSnapshot
) -> tuple[PlanRequest, Mapping[str, Claim]] | None:
    """Return the question, and what the job's pods claim; None where they are not as planned."""
    key, plan, policy = waiting.key, waiting.plan, waiting.policy
    if (view := cache.mpijob_named(key)) is None:
        return ask_about(key, waiting.job, None, policy, snapshot), {}
    pods = [pod for pod in cache.pods_of(key, view.uid) if pod.role == WORKER and pod.holds_resources and not pod.terminating]
    if {pod.index: pod.node for pod in pods} != {worker.index: worker.node for worker in plan.workers}:
        return None
    claims = claims_of(pods)
    return vacated(ask_about(key, waiting.job, pods[0], policy, snapshot), claims), claims
