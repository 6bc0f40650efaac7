"""Readers of one object of each kind: they return what the operator keeps, and raise for an object that cannot be used."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from hyperscale.control.cache.deciders import DECIDED_BY, deciders
from hyperscale.control.cache.records import JobRecord, job_record, metadata_text
from hyperscale.model.api.job import WorkersSpec
from hyperscale.model.observed.owned_objects import MpiJobView
from hyperscale.model.pods import PodView
from hyperscale.model.status import JobStatus, read_status
from hyperscale.observe.kube.fabric import HyperNode, hypernode, topology_levels
from hyperscale.observe.kube.fields import node_view, pod_view
from hyperscale.observe.kube.owned_objects import mpijob_view
from hyperscale.observe.kube.projection import narrow_job, narrow_node
from hyperscale.observe.run_report import checked
from hyperscale.spec import api_objects, written
from hyperscale.spec.introspect import struct_of
from hyperscale.spec.parse import MAX_SPEC_BYTES, TOO_LARGE, SpecError, parse_policy
from hyperscale.spec.plausible import is_status, readable_time, settled
from hyperscale.util.rfc3339 import unix_seconds

MAX_MESSAGE: Final = 256
"""Characters of a fault."""
Json = dict[str, Any]
View = TypeVar("View")


class IntakeFault(NamedTuple):
    """What is wrong with an object."""

    path: str
    """Field; "" where it is no single one."""
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


def fault_of_error(error: Exception) -> IntakeFault:
    """One line; Python's own errors are named, since their text alone says little."""
    if isinstance(error, SpecError):
        return IntakeFault(error.path, error.message[:MAX_MESSAGE])
    if isinstance(error, RecursionError):
        return IntakeFault("", "nested too deeply")
    text = " ".join(str(error).split())[:MAX_MESSAGE]
    return IntakeFault("", text if isinstance(error, ValueError) and text else f"{type(error).__name__}: {text}")


class _Identity(msgspec.Struct):
    """Of a job or policy."""

    name: str
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    creation_timestamp: str | None = msgspec.field(name="creationTimestamp", default=None)
    deletion_timestamp: str | None = msgspec.field(name="deletionTimestamp", default=None)


class _IntakeMetadata(msgspec.Struct):
    name: str
    labels: dict[str, str]


class _Taint(msgspec.Struct):
    key: str
    value: str | None = None
    effect: str | None = None


class _NodeSpec(msgspec.Struct):
    taints: list[_Taint] | None = None
    unschedulable: bool | None = None


class _NodeStatus(msgspec.Struct):
    allocatable: dict[str, str | int | float]
    conditions: list[dict[str, str | None]]


class _Node(msgspec.Struct):
    metadata: _IntakeMetadata
    spec: _NodeSpec
    status: _NodeStatus


def _typed(view: View) -> View:
    """The view, every field of which is of its type; raises ValidationError."""
    return msgspec.convert(msgspec.to_builtins(view), type(view))


def read_pod(resource: Json) -> PodView:
    """A pod; raises ValueError where a field has a wrong type."""
    return _typed(pod_view(resource))


def read_mpijob(resource: Json) -> MpiJobView:
    """An MPIJob; raises ValueError where a field has a wrong type."""
    return _typed(mpijob_view(resource))


def read_node(resource: Json) -> Json:
    """What plans depend on of a node; raises ValueError where a field has a wrong type."""
    narrowed = narrow_node(resource)
    msgspec.convert(narrowed, _Node)
    node_view(narrowed, {}, (), ())
    return narrowed


def read_policy(resource: Json) -> Json:
    """A policy; raises SpecError for a spec that cannot be used, ValueError for metadata that are not the API server's."""
    parse_policy(resource)
    return _identified(narrow_job(resource))


def _identified(narrowed: Json) -> Json:
    """The same; raises ValueError where its metadata are not the API server's."""
    identity = msgspec.convert(narrowed["metadata"], _Identity)
    if readable_time(identity.creation_timestamp) != (identity.creation_timestamp or ""):
        raise ValueError("metadata.creationTimestamp is no time")
    return narrowed


def read_hypernode(resource: Json) -> HyperNode:
    """A HyperNode; raises ValueError for one that says nothing usable."""
    node = hypernode(resource)
    if node is None:
        raise ValueError("no tier from 0 to 999, or no member that can be matched")
    return node


def read_job(resource: Json, now: float) -> JobRecord:
    """The job; raises SpecError for a spec that is too large to keep, without a look at what is in it."""
    narrowed = _identified(narrow_job(resource))
    if len(msgspec.json.encode(narrowed.get("spec"))) > MAX_SPEC_BYTES:
        raise SpecError("spec", TOO_LARGE)
    if by := deciders(resource):
        narrowed["metadata"][DECIDED_BY] = by
    status, fault = judged_status(resource.get("status") or {}, now, narrowed["metadata"].get("creationTimestamp") or "")
    if status.dataset is not None:
        narrowed["status"] = _planned_on(status)
    try:
        workers = msgspec.convert(written.read(narrowed["spec"]["workers"], struct_of(WorkersSpec)), WorkersSpec)
    except (msgspec.ValidationError, written.WrittenError, KeyError, TypeError):  # `parse_job` tells the job what is wrong
        return job_record(narrowed, status, fault)
    return job_record(narrowed, status, fault, workers.max_replicas, workers.gpus_per_worker)


def _planned_on(status: JobStatus) -> Json:
    """What of a status goes with the spec, as `with_read_sizes` reads it."""
    wire: Json = msgspec.to_builtins(JobStatus(dataset=status.dataset, mpi_job_ref=status.mpi_job_ref))
    return {name: wire[name] for name in ("dataset", "mpiJobRef")}


def read_topology(resource: Json) -> tuple[str, ...]:
    """Label keys of a Kueue Topology; raises ValueError where there are none."""
    levels = topology_levels(resource)
    if not levels:
        raise ValueError("no label key of a level above the hostname")
    return levels


def judged_status(wire: object, now: float, created: str) -> tuple[JobStatus, str]:
    """The status of a job that was `created` then, without what this operator cannot have written `now`, and why, where there is such."""
    status = read_status(wire) if isinstance(wire, Mapping) else JobStatus()
    if wire and status == JobStatus():
        return status, "it is none of this operator's"
    if not is_status(status):
        return JobStatus(), "times, figures or a plan that the operator cannot have written"
    status = replace(status, measured=checked(status.measured)) if status.measured is not None else status
    plausible = settled(status, now, unix_seconds(created) if created else -math.inf)
    return plausible, "" if plausible is status else "times in the future or before the job, or a wait longer than the job is old"


def unreadable_job(resource: Json, fault: IntakeFault, now: float) -> JobRecord:
    """A job whose spec cannot be kept; its status counts where it can be decoded."""
    decoded = api_objects.fault_of(resource) is None
    created = readable_time(metadata_text(resource, "creationTimestamp"))
    return job_record(marked(resource, fault), *judged_status((resource.get("status") or {}) if decoded else {}, now, created))


def marked(resource: Json, fault: IntakeFault) -> Json:
    """What identifies an object, and what is wrong with the rest."""
    metadata = given_metadata if isinstance(given_metadata := resource.get("metadata"), dict) else {}
    kept = {name: value for name, value in metadata.items() if isinstance(value, str | int)}
    return {
        "metadata": {"namespace": "", "name": "", "uid": "", **kept},
        api_objects.UNREADABLE: {"path": fault.path, "message": fault.message},
    }
