"""Asks the operator for a plan with a temporary job with `startPolicy: Never` in the user's own namespace, and takes the job away again.

For people without a right beyond their namespace. The plan is the operator's own, but for its queue: such a job does not queue.
"""

from __future__ import annotations

import argparse
import copy
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

import msgspec

from hyperscale.cli import spinner
from hyperscale.cli.exit_codes import InputError
from hyperscale.cli.live import ApiRefusedError, LiveCluster
from hyperscale.cli.plan.inputs import JobInput, note
from hyperscale.cli.plan.known_inputs import UnavailableError
from hyperscale.control.apply import paths
from hyperscale.model import constants
from hyperscale.model.decision import Reason
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.status import JobStatus
from hyperscale.spec.rules import MAX_NAME_LENGTH
from hyperscale.util.rfc3339 import timestamp, unix_seconds

SILENT_SECONDS: Final = 15.0
"""Without a word of the operator for so long there is none that serves this namespace."""
PATIENCE_SECONDS: Final = 60.0
"""With a word but without an answer."""
POLL_SECONDS: Final = 0.3
EXPIRES_SECONDS: Final = 600.0
"""After so long a job of this program was forgotten: its process was killed."""
ENDINGS: Final = (signal.SIGINT, signal.SIGTERM)
SUFFIX: Final = "-plan-"
GENERATED: Final = 5
"""Characters that the API server adds."""
REFUSED: Final = frozenset({Reason.INVALID_SPEC, Reason.INVALID_POD_TEMPLATE, Reason.NAME_CONFLICT})
UNDER_WAY: Final = frozenset({"", Reason.PLANNING, Reason.NO_PLAN})
"""Reasons that say nothing yet."""

Json = dict[str, Any]


def ask(cluster: LiveCluster, job: JobInput, arguments: argparse.Namespace) -> tuple[str, Plan | Infeasible]:
    """The name of the temporary job, and the operator's plan or refusal.

    Raises UnavailableError where no job may be created or no operator answers, InputError where the job itself is at fault.
    """
    _sweep(cluster, job.namespace)
    with _created(cluster, job, _resource(job, arguments)) as created:
        name = created["metadata"]["name"]
        spinner.say(f"waiting for the operator's plan of {job.namespace}/{name}")
        return name, _wait(cluster, job.namespace, name)


def _resource(job: JobInput, arguments: argparse.Namespace) -> Json:
    """The job under another name, to be planned and nothing else."""
    spec = copy.deepcopy(job.resource["spec"])
    spec["startPolicy"] = "Never"
    if isinstance(spec.get("runPolicy"), dict):
        spec["runPolicy"].pop("suspend", None)
    if arguments.planner is not None:
        spec["planner"] = arguments.planner
    if arguments.workers is not None:
        spec["workers"] = {**spec["workers"], "minReplicas": arguments.workers, "maxReplicas": arguments.workers}
    stem = job.name[: MAX_NAME_LENGTH - len(SUFFIX) - GENERATED]
    return {
        "apiVersion": constants.API_VERSION,
        "kind": constants.JOB_KIND,
        "metadata": {
            "generateName": f"{stem}{SUFFIX}",
            "namespace": job.namespace,
            "labels": {constants.PREVIEW_LABEL: "true", "app.kubernetes.io/managed-by": "hyperscale-plan"},
            "annotations": {constants.PREVIEW_EXPIRES_ANNOTATION: timestamp(time.time() + EXPIRES_SECONDS)},
        },
        "spec": spec,
    }


@contextmanager
def _created(cluster: LiveCluster, job: JobInput, resource: Json) -> Iterator[Json]:
    """The job, until the block ends, also by Ctrl-C or SIGTERM."""
    with _interruptible():
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)  # until the answer comes its name is unknown
        try:
            created = cluster.object(paths.jobs(job.namespace), method="POST", body=resource)
        except ApiRefusedError as error:
            if error.status in (400, 422):
                raise InputError(f"{job.shown}: the API server refuses it: {error.message}") from None
            raise UnavailableError(f"no GNNTrainingJob can be created in {job.namespace}: {error.message}") from None
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDINGS)
            yield created
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)  # a second Ctrl-C must not leave it behind
            _delete(cluster, job.namespace, created["metadata"]["name"])


def _wait(cluster: LiveCluster, namespace: str, name: str) -> Plan | Infeasible:
    started = time.monotonic()
    while True:
        resource = cluster.object(paths.jobs(namespace, name))
        status = _status(resource)
        if (answer := _answer(status, name)) is not None:
            return answer
        waited, heard = time.monotonic() - started, bool(status.observed_generation)
        if waited >= (PATIENCE_SECONDS if heard else SILENT_SECONDS):
            said = f"it says {status.reason}" if heard else "is one running that serves this namespace?"
            raise UnavailableError(f"no operator answered within {waited:.0f} s; {said}")
        time.sleep(POLL_SECONDS)


def _status(resource: Json) -> JobStatus:
    try:
        return msgspec.convert(resource.get("status") or {}, JobStatus)
    except msgspec.ValidationError as error:
        raise UnavailableError(f"the status that this operator writes cannot be read: {error}; use the operator's version") from None


def _answer(status: JobStatus, name: str) -> Plan | Infeasible | None:
    """What the operator has decided; None as long as it has not."""
    if status.reason == Reason.START_POLICY_NEVER and status.plan is not None:
        return status.plan
    message = next((one.message for one in status.conditions if one.reason == status.reason and one.message), "")
    if status.reason in REFUSED:
        raise InputError(f"the operator refuses it ({status.reason}): {message.replace(name, 'it')}")
    if status.reason in UNDER_WAY:
        return None
    return Infeasible(reason=status.reason, message=message)


def _sweep(cluster: LiveCluster, namespace: str) -> None:
    """Take away what a killed process of this program left; what cannot be listed or deleted stays for another to see."""
    try:
        listed = cluster.object(paths.jobs(namespace), {"labelSelector": constants.PREVIEW_LABEL, "limit": "100"})
    except InputError:
        return
    for item in listed.get("items") or []:
        metadata = item["metadata"] if isinstance(item, dict) and isinstance(item.get("metadata"), dict) else {}
        try:
            expired = unix_seconds(str((metadata.get("annotations") or {}).get(constants.PREVIEW_EXPIRES_ANNOTATION) or "")) < time.time()
        except ValueError:
            continue
        if expired and metadata.get("name"):
            _delete(cluster, namespace, metadata["name"])


def _delete(cluster: LiveCluster, namespace: str, name: str) -> None:
    try:
        cluster.request(paths.jobs(namespace, name), method="DELETE")
    except ApiRefusedError as error:
        if error.status != 404:
            note(f"the temporary job is still there: {error.message}; run kubectl delete gnntj {name} -n {namespace}")
    except InputError as error:
        note(f"the temporary job may still be there: {error}; run kubectl delete gnntj {name} -n {namespace}")


@contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM ends the block as Ctrl-C does; what was blocked inside it is not afterwards."""

    def end(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDINGS)
        signal.signal(signal.SIGTERM, before)
