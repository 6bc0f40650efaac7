"""`hyperscale explain`: what a job is doing, why, what it waits for and what a person can do, from its status and events."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import msgspec

from hyperscale.cli import exit_codes
from hyperscale.cli.documents import display_name, read_object
from hyperscale.cli.exit_codes import InputError
from hyperscale.cli.explain.explain_view import explanation_table
from hyperscale.cli.explain.explanation import ExplainedJob, RecordedEvent, explain
from hyperscale.cli.plan import inputs
from hyperscale.cli.text_tables import print_answer
from hyperscale.model import constants
from hyperscale.model.status import JobStatus

if TYPE_CHECKING:
    from hyperscale.cli.live import LiveCluster

Json = dict[str, Any]


def run(arguments: argparse.Namespace) -> int:
    """Find the job, explain it."""
    if arguments.filename is not None:
        resource, events = _from_file(arguments.filename, arguments.job)
        shown = display_name(arguments.filename)
    else:
        resource, events, shown = _from_cluster(arguments)
    explanation = explain(job_record(resource, events, shown))
    print_answer(explanation, explanation_table(explanation), arguments.output)
    return exit_codes.OK


def job_record(resource: Json, events: list[Json], shown: str) -> ExplainedJob:
    """What is read of a GNNTrainingJob and its events; InputError where its status is not one of ours."""
    metadata = resource.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise InputError(f"{shown}: metadata.name: is missing; give the job as `kubectl get gnntj NAME -o yaml` prints it")
    try:
        # Not strict: YAML 1.1 takes 4e-06, as Go and JSON write it, for text.
        status = msgspec.convert(resource["status"], JobStatus, strict=False) if resource.get("status") else None
    except msgspec.ValidationError as error:
        fault, _, place = str(error).partition(" - at `$")
        raise InputError(f"{shown}: status{place.rstrip('`')}: {fault}; was it written by another version of the operator?") from None
    generation = metadata.get("generation")
    return ExplainedJob(
        name=metadata["name"],
        namespace=str(metadata.get("namespace") or "default"),
        generation=generation if isinstance(generation, int) else 0,
        deleting=bool(metadata.get("deletionTimestamp")),
        status=status,
        events=tuple(sorted((_event(event) for event in events), key=lambda event: (event.last_seen, event.reason, event.message))),
    )


def _from_file(path: str, name: str | None) -> tuple[Json, list[Json]]:
    """The job of that name, or the only one, in an object or a List; with the List's events about it."""
    shown = display_name(path)
    items = listed_objects(read_object(path))
    jobs = [item for item in items if item.get("kind") == constants.JOB_KIND]
    if not jobs:
        raise InputError(f"{shown}: kind: holds no {constants.JOB_KIND}; give one with its status, or a List with one")
    named = [job for job in jobs if name is None or _name(job) == name]
    if len(named) != 1:
        names = ", ".join(sorted(_name(job) for job in jobs)[:5])
        raise InputError(f"{shown}: holds {names}; write the name of one of them before -f")
    events = [item for item in items if item.get("kind") == "Event" and _about(item) == _name(named[0])]
    return named[0], events


def listed_objects(document: Json) -> list[Json]:
    """The objects of a List, or the one object."""
    listed = document.get("items") if document.get("kind") == "List" else [document]
    return [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []


def _from_cluster(arguments: argparse.Namespace) -> tuple[Json, list[Json], str]:
    if arguments.job is None:
        raise InputError("JOB: is missing; write the name of a GNNTrainingJob, or -f FILE")
    check_names(arguments.job, arguments.namespace)
    cluster = inputs.connect(arguments)
    resource, namespace, shown = read_job(cluster, arguments.job, arguments.namespace)
    return resource, cluster.events(namespace, arguments.job), shown


def check_names(job: str, namespace: str | None) -> None:
    """Raise InputError where one of them can be no name."""
    for option, value in (("JOB", job), ("--namespace", namespace)):
        if value is not None:
            check_name(option, value)


def check_name(option: str, value: str) -> None:
    """Raise InputError, which names the option, where a text can be no name."""
    if not _is_name(value):
        raise InputError(f"{option}: {value[:80]!r} is no name of a Kubernetes object; write lower case letters, digits and -")


def read_job(cluster: LiveCluster, job: str, asked_namespace: str | None) -> tuple[Json, str, str]:
    """The object, its namespace (the context's where None is asked for), and what to call it in messages; raises InputError."""
    check_names(job, asked_namespace)
    namespace = asked_namespace or cluster.namespace
    shown = f"{constants.JOB_KIND} {namespace}/{job}"
    resource = cluster.job(namespace, job)
    if resource is None:
        raise InputError(f"{shown}: is not in the cluster; see `kubectl get gnntj -A`")
    return resource, namespace, shown


def _is_name(text: str) -> bool:
    """No slash, dot-dot or query can get into a request's path."""
    plain = text.isascii() and text == text.lower() and text.replace("-", "a").replace(".", "a").isalnum()
    return 0 < len(text) <= 253 and plain and ".." not in text


def _name(resource: Json) -> str:
    metadata = resource.get("metadata")
    return str(metadata.get("name")) if isinstance(metadata, dict) else ""


def _about(event: Json) -> str:
    involved = event.get("involvedObject")
    return str(involved.get("name")) if isinstance(involved, dict) else ""


def _event(event: Json) -> RecordedEvent:
    """A v1 Event; series events carry their time elsewhere."""
    count = event.get("count")
    return RecordedEvent(
        type=str(event.get("type") or ""),
        reason=str(event.get("reason") or ""),
        message=str(event.get("message") or ""),
        count=count if isinstance(count, int) else 1,
        last_seen=str(event.get("lastTimestamp") or event.get("eventTime") or event.get("firstTimestamp") or ""),
    )
