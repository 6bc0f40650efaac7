"""Where objects of the API become what the operator works with. Whatever one of them holds, it spoils nothing but itself.

An object that cannot be read is set apart: it is counted by kind, named in the log once, and a cautious stand-in takes its place. A pod
closes its node, an MPIJob keeps its name, a job has its fault reported, a node gets no rank.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeVar

from msgspec.structs import replace

from hyperscale.control.cache.object_readers import (
    IntakeFault,
    Json,
    fault_of_error,
    marked,
    read_hypernode,
    read_job,
    read_mpijob,
    read_node,
    read_pod,
    read_policy,
    read_topology,
    unreadable_job,
)
from hyperscale.control.cache.records import JobRecord, Key, key_of, metadata_text
from hyperscale.model.observed.owned_objects import BatchJobView, MpiJobView
from hyperscale.model.pods import PodView
from hyperscale.observe.kube.fabric import Fabric, fabric_of
from hyperscale.observe.kube.fields import closing_view
from hyperscale.observe.kube.owned_objects import batch_job_view, unreadable_view
from hyperscale.spec import api_objects
from hyperscale.spec.parse import SpecError
from hyperscale.util.rfc3339 import is_future

_LOG = logging.getLogger(__name__)

JOB: Final = "GNNTrainingJob"
POLICY: Final = "PlannerPolicy"
MPIJOB: Final = "MPIJob"
POD: Final = "Pod"
NODE: Final = "Node"
BATCH_JOB: Final = "Job"
HYPERNODE: Final = "HyperNode"
TOPOLOGY: Final = "Topology"
KINDS: Final = (JOB, POLICY, MPIJOB, POD, NODE, BATCH_JOB, HYPERNODE, TOPOLOGY)

MAX_TOLD: Final = 65_536
"""Objects remembered as named in the log, the oldest forgotten first: one that changes back and forth is named once."""
MAX_FAULTS: Final = 4
"""Different faults of one object that are logged: its author could fill the log otherwise."""


View = TypeVar("View")


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
        counts = Counter(kind for kind, _ in self.refused)
        return {kind: counts[kind] for kind in KINDS}

    def pod(self, resource: Json) -> PodView:
        """A pod; one that cannot be read closes its node for as long as it may run."""
        return self._guarded(POD, resource, read_pod, lambda _: closing_view(resource))

    def node(self, resource: Json) -> Json | None:
        """What plans depend on of a node; None for one that cannot be read."""
        return self._guarded(NODE, resource, read_node, lambda _: None)

    def mpijob(self, resource: Json) -> MpiJobView:
        """An MPIJob; one that cannot be read keeps its name and owner."""
        view = self._guarded(MPIJOB, resource, read_mpijob, lambda fault: unreadable_view(resource, str(fault)))
        if view.plan_fault:
            self.refuse(MPIJOB, key_of(resource), view.uid, view.plan_fault)
        now = self._clock()
        if is_future(view.start_time, now) or is_future(view.completion_time, now):
            started, completed = ("" if is_future(text, now) else text for text in (view.start_time, view.completion_time))
            return replace(view, start_time=started, completion_time=completed)
        return view

    def job(self, resource: Json) -> JobRecord:
        """A job; what is wrong with one that cannot be read stands under `api_objects.UNREADABLE`, where `parse_job` finds it."""
        now = self._clock()
        record = self._guarded(JOB, resource, lambda accepted: read_job(accepted, now), lambda fault: unreadable_job(resource, fault, now))
        if record.status_fault:
            self.refuse(JOB, key_of(resource), record.uid, f"status: {record.status_fault}; it is replaced")
        return record

    def policy(self, resource: Json) -> Json:
        """A policy; what is wrong with one that cannot be read is for the jobs that refer to it to say."""
        return self._guarded(POLICY, resource, read_policy, lambda fault: marked(resource, fault))

    def batch_job(self, resource: Json) -> BatchJobView:
        """A Job of ours; one that cannot be read has failed."""
        return self._guarded(BATCH_JOB, resource, batch_job_view, lambda fault: BatchJobView("", "", "", failed=True, message=str(fault)))

    def fabric(self, hypernodes: Iterable[Json], topologies: Iterable[Json]) -> Fabric:
        """What other operators say of the topology, without the objects that say nothing usable."""
        self.refused = {entry: faults for entry, faults in self.refused.items() if entry[0] not in (HYPERNODE, TOPOLOGY)}
        return fabric_of(
            [one for one in hypernodes if self._guarded(HYPERNODE, one, read_hypernode, lambda _: None) is not None],
            [one for one in topologies if self._guarded(TOPOLOGY, one, read_topology, lambda _: ())],
        )

    def refuse(self, kind: str, key: Key, uid: str, message: str) -> None:
        """Set an object apart, or report which part of a usable one counts for nothing."""
        refused = self.refused[kind, key] = Refused(kind, key, uid, message)
        logged = self._told.setdefault((kind, key, uid), set())
        if message in logged or len(logged) >= MAX_FAULTS:
            return
        logged.add(message)
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
            if (decode_fault := api_objects.fault_of(resource)) is not None:
                raise SpecError(*decode_fault)
            view = make(resource)
        except Exception as error:  # a stranger wrote the object: whatever is raised over it concerns it alone
            fault = fault_of_error(error)
            self.refuse(kind, key, metadata_text(resource, "uid"), str(fault))
            return otherwise(fault)
        self.forget(kind, key)
        return view
