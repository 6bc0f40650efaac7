"""`hyperscale approve`: let the plan of a job with `startPolicy: Manual` start, as it was seen and not as it may have become."""

from __future__ import annotations

import argparse
from typing import Any, Final

import msgspec

from hyperscale.cli import exit_codes
from hyperscale.cli.exit_codes import InputError
from hyperscale.cli.explain.explain_command import job_record, read_job
from hyperscale.cli.explain.explanation import plan_sentence
from hyperscale.cli.live import ApiRefusedError, LiveCluster
from hyperscale.cli.plan import inputs
from hyperscale.cli.text_tables import print_answer, printable
from hyperscale.model import constants
from hyperscale.model.decision import Reason
from hyperscale.model.plan import Plan
from hyperscale.model.status import JobStatus

MAX_BECAUSE: Final = 1000
CONFLICT: Final = 409


class Approved(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What was approved; the schema of `-o json`."""

    job: str
    plan_id: str
    because: str = ""
    evaluated: str = ""
    """What was found out about the plan; empty where nothing was yet."""


def run(arguments: argparse.Namespace) -> int:
    """Approve; 2 where the plan is not the one that was asked for, or does not wait for a person."""
    because = printable(" ".join((arguments.because or "").split()))
    if len(because) > MAX_BECAUSE:
        raise InputError(f"--because: has {len(because)} characters; write at most {MAX_BECAUSE}")
    cluster = inputs.connect(arguments)
    resource, namespace, shown = read_job(cluster, arguments.job, arguments.namespace)
    status = job_record(resource, [], shown).status
    plan = _waiting(status, arguments.plan, shown)
    if status is not None and status.observed_generation != resource["metadata"].get("generation"):
        raise InputError(f"{shown}: its spec has changed since it was planned; look at it again when the operator has planned it")
    _write(cluster, resource, namespace, plan.plan_id, because)
    answer = Approved(f"{namespace}/{arguments.job}", plan.plan_id, because, _evaluated(status))
    lines = [f"Approved: {answer.job}, plan {plan.plan_id}.", plan_sentence(plan)]
    lines += [f"It was evaluated: {answer.evaluated}."] if answer.evaluated else []
    print_answer(answer, map(printable, lines), arguments.output)
    return exit_codes.OK


def _waiting(status: JobStatus | None, wanted: str | None, shown: str) -> Plan:
    """The plan that waits for a person; raises InputError where none does, or another one than `wanted`."""
    if status is None or status.plan is None or status.reason != Reason.AWAITING_APPROVAL:
        reason = f"it is {status.state.value} ({status.reason})" if status is not None and status.reason else "it has no plan yet"
        raise InputError(f"{shown}: no plan waits for approval: {reason}; see `hyperscale explain`")
    if wanted is not None and wanted != status.plan.plan_id:
        raise InputError(f"{shown}: --plan: its plan is {status.plan.plan_id} now, not {wanted[:64]!r}; look at that one and approve it")
    return status.plan


def _evaluated(status: JobStatus | None) -> str:
    condition = status.condition("Evaluated") if status is not None else None
    return condition.message if condition is not None and condition.status != "Unknown" else ""


def _write(cluster: LiveCluster, resource: dict[str, Any], namespace: str, plan_id: str, because: str) -> None:
    """The annotations, on the object as it was read: a spec that changed meanwhile is not approved."""
    metadata = resource["metadata"]
    annotations = {constants.APPROVED_PLAN_ANNOTATION: plan_id, constants.APPROVED_BECAUSE_ANNOTATION: because or None}
    body = {"metadata": {"uid": metadata.get("uid"), "resourceVersion": metadata.get("resourceVersion"), "annotations": annotations}}
    path = f"/apis/{constants.API_VERSION}/namespaces/{namespace}/{constants.JOB_PLURAL}/{metadata['name']}"
    try:
        cluster.object(path, method="PATCH", body=body, headers={"Content-Type": "application/merge-patch+json"})
    except ApiRefusedError as error:
        if error.status != CONFLICT:
            raise
        raise InputError(f"{namespace}/{metadata['name']}: changed while it was read; look at it again and approve it") from None
