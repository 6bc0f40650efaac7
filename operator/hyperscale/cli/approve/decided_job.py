"""What `approve`, `reject` and `prefer` share: the job as it was read, the plan that waits, and the annotations that say so."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from hyperscale.cli.exit_codes import InputError
from hyperscale.cli.explain.explain_command import job_record, read_job
from hyperscale.cli.live import ApiRefusedError, LiveCluster
from hyperscale.cli.plan import inputs
from hyperscale.cli.text_tables import printable
from hyperscale.model import constants
from hyperscale.model.api.job import StartPolicy
from hyperscale.model.decision import Reason
from hyperscale.model.plan import Plan
from hyperscale.model.status import JobStatus

MAX_BECAUSE: Final = 1000
CONFLICT: Final = 409
MAX_TRIES: Final = 5
"""Patches, where the operator writes the status in between."""
DECIDING: Final = (constants.APPROVED_PLAN_ANNOTATION, constants.REJECTED_PLAN_ANNOTATION, constants.PREFERRED_PLAN_ANNOTATION)


class WaitingJob(NamedTuple):
    """A job whose plan a person decides on."""

    cluster: LiveCluster
    resource: dict[str, Any]
    namespace: str
    shown: str
    status: JobStatus
    plan: Plan

    @property
    def key(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.resource['metadata']['name']}"

    @property
    def annotations(self) -> Mapping[str, str]:
        """As they were read."""
        return self.resource["metadata"].get("annotations") or {}

    @property
    def may_start(self) -> bool:
        """Whether approval starts the job: with startPolicy Never nothing does."""
        spec = self.resource.get("spec")
        return not isinstance(spec, dict) or spec.get("startPolicy") != StartPolicy.NEVER


def read_waiting(arguments: argparse.Namespace, reasons: tuple[str, ...], what: str) -> WaitingJob:
    """Return the job; raises InputError unless its last step has one of `reasons` and its plan is that of its spec."""
    cluster = inputs.connect(arguments)
    resource, namespace, shown = read_job(cluster, arguments.job, arguments.namespace)
    status = job_record(resource, [], shown).status
    if status is None or status.plan is None or status.reason not in reasons:
        reason = f"it is {status.state.value} ({status.reason})" if status is not None and status.reason else "it has no plan yet"
        raise InputError(f"{shown}: no plan waits for {what}: {reason}; see `hyperscale explain`")
    if status.observed_generation != resource["metadata"].get("generation"):
        raise InputError(f"{shown}: its spec has changed since it was planned; look at it again when the operator has planned it")
    return WaitingJob(cluster, resource, namespace, shown, status, status.plan)


WAITING: Final[tuple[str, ...]] = (Reason.AWAITING_APPROVAL, Reason.REJECTED_BY_PERSON)
"""Last steps at which approval changes something."""
PLANNED: Final[tuple[str, ...]] = (*WAITING, Reason.START_POLICY_NEVER)
"""Last steps at which another plan may be preferred, or this one rejected."""


def check_plan(job: WaitingJob, wanted: str | None, then: str) -> None:
    """Raise InputError where another plan than the one in force was named."""
    if wanted is not None and wanted != job.plan.plan_id:
        raise InputError(f"{job.shown}: --plan: its plan is {job.plan.plan_id} now, not {wanted[:64]!r}; look at that one and {then} it")


def because_of(arguments: argparse.Namespace) -> str:
    """Return what a person wrote after --because, as one line of printable characters; raises InputError where it is too long."""
    because = printable(" ".join((arguments.because or "").split()))
    if len(because) > MAX_BECAUSE:
        raise InputError(f"--because: has {len(because)} characters; write at most {MAX_BECAUSE}")
    return because


def annotate(job: WaitingJob, annotations: Mapping[str, str | None], then: str) -> None:
    """Write annotations on the object as it was read: a spec or a plan that changed meanwhile is not decided on.

    A status that was written meanwhile, such as an evaluation, is no change: the object is read again.
    """
    resource = job.resource
    for _ in range(MAX_TRIES):
        if _written(job, resource["metadata"], annotations):
            return
        resource, _, _ = read_job(job.cluster, str(resource["metadata"]["name"]), job.namespace)
        if _decided_on(resource) != _decided_on(job.resource):
            break
    raise InputError(f"{job.key}: changed while it was read; look at it again and {then} it")


def _written(job: WaitingJob, metadata: Mapping[str, Any], annotations: Mapping[str, str | None]) -> bool:
    """Patch this version of the object; False where there is a newer one."""
    body = {"metadata": {"uid": metadata.get("uid"), "resourceVersion": metadata.get("resourceVersion"), "annotations": dict(annotations)}}
    path = f"/apis/{constants.API_VERSION}/namespaces/{job.namespace}/{constants.JOB_PLURAL}/{metadata['name']}"
    try:
        job.cluster.object(path, method="PATCH", body=body, headers={"Content-Type": "application/merge-patch+json"})
    except ApiRefusedError as error:
        if error.status != CONFLICT:
            raise
        return False
    return True


def _decided_on(resource: Mapping[str, Any]) -> tuple[object, ...]:
    """What a decision is about: the object, its spec, its plan, and what was decided before."""
    metadata = resource["metadata"]
    decided = tuple(sorted((name, value) for name, value in (metadata.get("annotations") or {}).items() if name in DECIDING))
    plan = (resource.get("status") or {}).get("plan") or {}
    return metadata.get("uid"), metadata.get("generation"), plan.get("id"), decided
