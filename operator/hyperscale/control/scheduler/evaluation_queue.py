"""Plans that wait for their evaluation."""

from __future__ import annotations

from typing import NamedTuple

from hyperscale.control.cache.records import Key
from hyperscale.control.scheduler.namespace_queue import MAX_WAITING_EACH as MAX_WAITING_EACH
from hyperscale.control.scheduler.namespace_queue import NamespaceQueue
from hyperscale.model.api.job import JobSpec
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.plan import Plan


class WaitingPlan(NamedTuple):
    """A plan to be evaluated."""

    key: Key
    plan: Plan
    job: JobSpec
    policy: PolicySpec
    running: bool
    """Whether the job's pods hold what the plan takes."""


class EvaluationQueue(NamespaceQueue[WaitingPlan]):
    """Plans in the order in which they are evaluated."""
