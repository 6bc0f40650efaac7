"""Where objects of the API become what the operator works with. Whatever one of them holds, it spoils nothing but itself.

An object that cannot be read is set apart: it is counted by kind, named in the log once, and a cautious stand-in takes its place. A pod
closes its node, an MPIJob keeps its name, a job is told what is wrong with it, a node gets no rank.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from hyperscale.control.cache.records import JobRecord, Key, job_record
from hyperscale.model.api.job import WorkersSpec
from hyperscale.model.observed.owned_objects import MpiJobView, PartitionView
from hyperscale.model.pods import PodView
from hyperscale.model.status import JobStatus, read_status
from hyperscale.observe.kube.fabric import Fabric, HyperNode, fabric_of, hypernode, topology_levels
from hyperscale.observe.kube.fields import closing_view, node_view, pod_view
from hyperscale.observe.kube.mpijob_view import mpijob_view, unreadable_view
from hyperscale.observe.kube.partition_job import partition_view
from hyperscale.observe.kube.projection import narrow_job, narrow_node
from hyperscale.observe.run_report import checked
from hyperscale.spec import api_objects
from hyperscale.spec.parse import MAX_SPEC_BYTES, TOO_LARGE, SpecError, parse_policy
from hyperscale.spec.plausible import is_status, readable_time, settled
from hyperscale.util.rfc3339 import is_future, unix_seconds

_LOG = logging.getLogger(__name__)

JOB: Final = "GNNTrainingJob"
POLICY: Final = "PlannerPolicy"
MPIJOB: Final = "MPIJob"
POD: Final = "Pod"
NODE: Final = "Node"
PARTITION_JOB: Final = "Job"
HYPERNODE: Final = "HyperNode"
TOPOLOGY: Final = "Topology"
KINDS: Final = (JOB, POLICY, MPIJOB, POD, NODE, PARTITION_JOB, HYPERNODE, TOPOLOGY)

MAX_TOLD: Final = 65_536
"""Objects remembered as named in the log, the oldest forgotten first: one that changes back and forth is named once."""
MAX_FAULTS: Final = 4
"""Different faults of one object that are logged: its author could fill the log otherwise."""

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


class Refused(NamedTuple):
    """An object that cannot be read, or not wholly."""

    kind: str
    key: Key
    uid: str
    message: str


def _log(refused: Refused) -> None:
    _LOG.warning("%s %s cannot be used as it is: %s", refused.kind, refused.key, refused.message, extra={"uid": refused.uid})


class Intake:
    """Reads objects of every kind; never raises for what one of them holds."""

    def __init__(self, tell: Callable[[Refused], None] = _log, clock: Callable[[], float] = lambda: math.inf) -> None:
        """tell: called once for each fault of an object; clock: Unix seconds; without one no time lies in the future."""
        self._tell = tell
        self._clock = clock
        self.refused: dict[tuple[str, Key], Refused] = {}
        """Objects that cannot be read as they are now."""
        self._told: dict[tuple[str, Key, str], set[str]] = {}

    def counts(self) -> dict[str, int]:
        """Objects set apart, by kind; every kind is there."""
        found = Counter(kind for kind, _ in self.refused)
        return {kind: found[kind] for kind in KINDS}

    def pod(self, resource: Json) -> PodView:
        """A pod; one that cannot be read closes its node for as long as it may run."""
        return self._guarded(POD, resource, _pod, lambda _: closing_view(resource))

    def node(self, resource: Json) -> Json | None:
        """What plans depend on of a node; None for one that cannot be read."""
        return self._guarded(NODE, resource, _node, lambda _: None)

    def mpijob(self, resource: Json) -> MpiJobView:
        """An MPIJob; one that cannot be read keeps its name and owner."""
        view = self._guarded(MPIJOB, resource, _mpijob, lambda fault: unreadable_view(resource, str(fault)))
        if view.plan_fault:
            self.refuse(MPIJOB, key_of(resource), view.uid, view.plan_fault)
        now = self._clock()
        if is_future(view.start_time, now) or is_future(view.completion_time, now):
            started, completed = ("" if is_future(text, now) else text for text in (view.start_time, view.completion_time))
            return replace(view, start_time=started, completion_time=completed)
        return view

    def job(self, resource: Json) -> JobRecord:
        """A job; what is wrong with one that cannot be read stands under `objects.UNREADABLE`, where `parse_job` finds it."""
        now = self._clock()
        record = self._guarded(JOB, resource, lambda found: _job(found, now), lambda fault: _unreadable_job(resource, fault, now))
        if record.status_fault:
            self.refuse(JOB, key_of(resource), record.uid, f"status: {record.status_fault}; it is replaced")
        return record

    def policy(self, resource: Json) -> Json:
        """A policy; what is wrong with one that cannot be read is for the jobs that refer to it to say."""
        return self._guarded(POLICY, resource, _policy, lambda fault: _marked(resource, fault))

    def partition(self, resource: Json) -> PartitionView:
        """The Job that writes partitions; one that cannot be read has failed."""
        return self._guarded(
            PARTITION_JOB, resource, partition_view, lambda fault: PartitionView("", "", "", failed=True, message=str(fault))
        )

    def fabric(self, hypernodes: Iterable[Json], topologies: Iterable[Json]) -> Fabric:
        """What other operators say of the topology, without the objects that say nothing usable."""
        self.refused = {entry: known for entry, known in self.refused.items() if entry[0] not in (HYPERNODE, TOPOLOGY)}
        return fabric_of(
            [one for one in hypernodes if self._guarded(HYPERNODE, one, _usable_hypernode, lambda _: None) is not None],
            [one for one in topologies if self._guarded(TOPOLOGY, one, _usable_topology, lambda _: ())],
        )

    def refuse(self, kind: str, key: Key, uid: str, message: str) -> None:
        """Set an object apart, or say of a usable one what of it counts for nothing."""
        refused = self.refused[kind, key] = Refused(kind, key, uid, message)
        told = self._told.setdefault((kind, key, uid), set())
        if message in told or len(told) >= MAX_FAULTS:
            return
        told.add(message)
        while len(self._told) > MAX_TOLD:
            del self._told[next(iter(self._told))]
        self._tell(refused)

    def forget(self, kind: str, key: Key) -> None:
        """The object is gone, or in order again."""
        self.refused.pop((kind, key), None)

    def _guarded(self, kind: str, resource: Json, make: Callable[[Json], View], otherwise: Callable[[IntakeFault], View]) -> View:
        """`make`, or `otherwise` for what an object cannot be read for."""
        key = key_of(resource)
        try:
            if (known := api_objects.fault_of(resource)) is not None:
                raise SpecError(*known)
            view = make(resource)
        except Exception as error:  # a stranger wrote the object: whatever is raised over it concerns it alone
            fault = _fault(error)
            self.refuse(kind, key, _text(resource, "uid"), str(fault))
            return otherwise(fault)
        self.forget(kind, key)
        return view


def key_of(resource: Mapping[str, Any]) -> Key:
    """Namespace and name; "" for what is none."""
    return Key(_text(resource, "namespace"), _text(resource, "name"))


def _text(resource: Mapping[str, Any], field: str) -> str:
    """A text of the metadata."""
    metadata = resource.get("metadata")
    value = metadata.get(field) if isinstance(metadata, Mapping) else None
    return value if isinstance(value, str) else ""


def _fault(error: Exception) -> IntakeFault:
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


def _pod(resource: Json) -> PodView:
    return _typed(pod_view(resource))


def _mpijob(resource: Json) -> MpiJobView:
    return _typed(mpijob_view(resource))


def _partition(resource: Json) -> PartitionView:
    return _typed(partition_view(resource))


def _node(resource: Json) -> Json:
    narrowed = narrow_node(resource)
    msgspec.convert(narrowed, _Node)
    node_view(narrowed, {}, (), ())
    return narrowed


def _policy(resource: Json) -> Json:
    parse_policy(resource)
    return _identified(narrow_job(resource))


def _identified(narrowed: Json) -> Json:
    """The same; raises ValueError where its metadata are not the API server's."""
    identity = msgspec.convert(narrowed["metadata"], _Identity)
    if readable_time(identity.creation_timestamp) != (identity.creation_timestamp or ""):
        raise ValueError("metadata.creationTimestamp is no time")
    return narrowed


def _usable_hypernode(resource: Json) -> HyperNode:
    found = hypernode(resource)
    if found is None:
        raise ValueError("no tier from 0 to 999, or no member that can be matched")
    return found


def _job(resource: Json, now: float) -> JobRecord:
    """The job; raises SpecError for a spec that is too large to keep, without a look at what is in it."""
    narrowed = _identified(narrow_job(resource))
    if len(msgspec.json.encode(narrowed.get("spec"))) > MAX_SPEC_BYTES:
        raise SpecError("spec", TOO_LARGE)
    status, fault = judged_status(resource.get("status") or {}, now, narrowed["metadata"].get("creationTimestamp") or "")
    try:
        workers = msgspec.convert(narrowed["spec"]["workers"], WorkersSpec)
    except (msgspec.ValidationError, KeyError, TypeError):  # `parse_job` tells the job what is wrong
        return job_record(narrowed, status, fault)
    return job_record(narrowed, status, fault, workers.max, workers.gpus_per_worker)


def _usable_topology(resource: Json) -> tuple[str, ...]:
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
    found = settled(status, now, unix_seconds(created) if created else -math.inf)
    return found, "" if found is status else "times in the future, or a wait longer than the job is old"


def _unreadable_job(resource: Json, fault: IntakeFault, now: float) -> JobRecord:
    """A job whose spec cannot be kept; its status counts where it can be decoded."""
    decoded = api_objects.fault_of(resource) is None
    created = readable_time(_text(resource, "creationTimestamp"))
    return job_record(_marked(resource, fault), *judged_status((resource.get("status") or {}) if decoded else {}, now, created))


def _marked(resource: Json, fault: IntakeFault) -> Json:
    """What identifies an object, and what is wrong with the rest."""
    metadata = found if isinstance(found := resource.get("metadata"), dict) else {}
    kept = {name: value for name, value in metadata.items() if isinstance(value, str | int)}
    return {
        "metadata": {"namespace": "", "name": "", "uid": "", **kept},
        api_objects.UNREADABLE: {"path": fault.path, "message": fault.message},
    }
