"""Objects of every watched or listed kind with anything in any field: each spoils nothing but itself.

Each generated object is a good one of its kind in which some fields hold what no sane program writes.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperscale.control.apply.client import ApiClient
from hyperscale.control.cache.cluster_cache import ClusterCache
from hyperscale.control.cache.intake import BATCH_JOB, JOB, KINDS, MPIJOB, NODE, POD, POLICY
from hyperscale.control.cache.records import Key, key_of
from hyperscale.control.controller.feed import Feed
from hyperscale.control.decide.chain import decide
from hyperscale.control.render.mpijob import plan_annotation
from hyperscale.control.specs.parsed_specs import JobReader, metadata_of
from hyperscale.control.status.conditions import derive
from hyperscale.model import constants
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.observed.reconcile_input import BatchJobState, GangState, JobState, PlanState, ReconcileClock, ReconcileInput
from hyperscale.model.status import JobStatus, LastPreemption, ObjectReference, to_wire
from hyperscale.spec import api_objects
from hyperscale.spec.api_objects import ListPage
from tests.builders.seen import plan

EXAMPLES = 75
"""Of each of eight kinds."""
NOW = 1_800_000_000.0
GOOD, ODD = Key("team", "good"), Key("team", "odd")


class Nested(str):
    """This number of lists in each other, written as such."""

    __slots__ = ()


HOSTILE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([2**63 - 1, -(2**63), 2**64, -8, 0, 1e308, -1e308, 5e-324, 10**400]),
    st.sampled_from(
        ["", "9223372036854775807", "1e30", "1.5e400", "-8", "NaN", "0x10", "\u0661", "\x00", "x" * 70_000, "[" * 1_200 + "]" * 1_200]
    ),
    st.sampled_from(["0001-01-01T00:00:00Z", "9999-12-31T23:59:60Z", "garbage", "2026-01-01T00:00:00+99:99"]),
    st.lists(st.integers() | st.text() | st.none(), max_size=3),
    st.dictionaries(st.text(max_size=8), st.integers() | st.text() | st.none(), max_size=3),
    st.sampled_from(["900", "1100", "5000"]).map(Nested),
)


def metadata(name: str, *, namespace: str = "team", **more: Any) -> dict[str, Any]:
    scope = {"namespace": namespace} if namespace else {}
    return {"name": name, **scope, "uid": f"uid-{name}", "resourceVersion": "5", "creationTimestamp": "2026-01-01T00:00:00Z", **more}


def job(name: str) -> dict[str, Any]:
    status = JobStatus(
        plan=plan("node-a", "node-b"),
        mpi_job_ref=ObjectReference(name, f"mpi-{name}"),
        last_preemption=LastPreemption("2026-01-01T00:00:00Z", ("team/good",), 1.0),
    )
    spec = {
        "model": {"architecture": "GCN"},
        "dataset": {"source": {"builtin": {"name": "Cora"}}},
        "workers": {"minReplicas": 2, "maxReplicas": 2},
    }
    return {"metadata": metadata(name, generation=1), "spec": spec, "status": to_wire(status)}


def mpijob(name: str) -> dict[str, Any]:
    annotations = {constants.PLAN_ANNOTATION: plan_annotation(plan("node-a", "node-b"))}
    template = {"spec": {"schedulingGates": [{"name": constants.PLACEMENT_GATE}]}}
    return {
        "metadata": {
            **metadata(name, annotations=annotations, labels={constants.KUEUE_QUEUE_LABEL: ""}),
            "uid": f"mpi-{name}",
            "ownerReferences": [{"uid": f"uid-{name}", "controller": True}],
        },
        "spec": {"runPolicy": {"suspend": False}, "mpiReplicaSpecs": {"Worker": {"replicas": 2, "template": template}}},
        "status": {
            "startTime": "2026-01-01T00:00:00Z",
            "conditions": [{"type": "Running", "status": "True", "reason": "r", "message": "m"}],
            "replicaStatuses": {"Launcher": {"failed": 0}},
        },
    }


def pod(name: str) -> dict[str, Any]:
    labels = {constants.MPI_JOB_NAME_LABEL: "good", constants.MPI_JOB_ROLE_LABEL: "launcher", constants.MPI_REPLICA_INDEX_LABEL: "1"}
    resources = {"limits": {constants.GPU_RESOURCE: "1", "cpu": "1", "memory": "1Gi"}}
    return {
        "metadata": metadata(name, labels=labels, ownerReferences=[{"kind": "Job", "uid": "j", "name": "j", "controller": True}]),
        "spec": {
            "nodeName": "node-a",
            "containers": [{"name": "w", "resources": resources}],
            "initContainers": [{"name": "i", "restartPolicy": "Always", "resources": resources}],
            "schedulingGates": [{"name": constants.LAUNCHER_GATE}],
            "nodeSelector": {"a": "b"},
            "tolerations": [{"key": "k", "operator": "Exists"}],
            "overhead": {"cpu": "1m"},
        },
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"state": {"terminated": {"message": '{"epoch": 1, "epochs": 2}'}}}],
        },
    }


def node(name: str) -> dict[str, Any]:
    return {
        "metadata": metadata(name, namespace="", labels={constants.HOSTNAME_LABEL: name, "nvidia.com/gpu.memory": "81920"}),
        "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}], "unschedulable": False},
        "status": {
            "allocatable": {"cpu": "32", "memory": "256Gi", constants.GPU_RESOURCE: "4"},
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        },
    }


def policy(name: str) -> dict[str, Any]:
    spec = {"planners": ["Auto"], "overrides": {"nodes": [{"name": "node-a", "topology": {"rack": "r1"}}]}, "queries": {"power": "up"}}
    return {"metadata": metadata(name, namespace="", generation=1), "spec": spec}


def partition(name: str) -> dict[str, Any]:
    owner = [{"uid": "uid-good", "controller": True}]
    conditions = [{"type": "Failed", "status": "True", "message": "m"}]
    return {
        "metadata": metadata(name, labels={constants.PARTITION_KEY_LABEL: "k"}, ownerReferences=owner),
        "status": {"conditions": conditions},
    }


def hypernode(name: str) -> dict[str, Any]:
    members = [{"type": "Node", "selector": {"regexMatch": {"pattern": "node-.*"}}}]
    return {"metadata": metadata(name, namespace=""), "spec": {"tier": 1, "members": members}}


def topology(name: str) -> dict[str, Any]:
    return {"metadata": metadata(name, namespace=""), "spec": {"levels": [{"nodeLabel": "example.com/row"}]}}


MAKE = dict(zip(KINDS, (job, policy, mpijob, pod, node, partition, hypernode, topology), strict=True))
_IDENTITY = (("metadata",), ("metadata", "name"), ("metadata", "namespace"), ("metadata", "uid"), ("metadata", "resourceVersion"))
"""What the API server itself writes, and no stranger can."""


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every field, by its path."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = [] if not path or path in _IDENTITY else [path]
    return found + [place for key, entry in inner for place in places(entry, (*path, key))]


@st.composite
def hostile(draw: st.DrawFn, kind: str) -> dict[str, Any]:
    """An object of this kind, named `odd`, with one to three fields replaced."""
    resource = MAKE[kind](ODD.name)
    for _ in range(draw(st.integers(1, 3))):
        *above, last = draw(st.sampled_from(places(resource)))
        holder = resource
        for key in above:
            holder = holder[key]
        holder[last] = draw(HOSTILE)
    return resource


def written(resource: dict[str, Any]) -> bytes:
    """As the API server writes it: fields sorted, whatever the depth."""
    return _json(resource)


def _json(value: Any) -> bytes:
    if isinstance(value, Nested):
        return b"[" * int(value) + b"]" * int(value)
    if isinstance(value, dict):
        return b"{" + b",".join(json.dumps(key).encode() + b":" + _json(value[key]) for key in sorted(value)) + b"}"
    return b"[" + b",".join(map(_json, value)) + b"]" if isinstance(value, list) else json.dumps(value).encode()


class OneList:
    """An API server with nothing but these objects."""

    def __init__(self, items: dict[str, list[bytes]]) -> None:
        self._items = items

    async def pages(self, path: str) -> AsyncIterator[ListPage]:
        body = b'{"items":[%s],"metadata":{"resourceVersion":"9"}}' % b",".join(self._items.get(path.rpartition("/")[2], []))
        try:
            yield api_objects.list_page(body)
        except RecursionError:
            yield api_objects.nested_list_page(body)


PLURALS = {JOB: "gnntrainingjobs", POLICY: "plannerpolicies", MPIJOB: "mpijobs", POD: "pods", NODE: "nodes"}


async def listed(kind: str, resource: dict[str, Any]) -> ClusterCache:
    """The cache after a full listing of good objects and this one; kinds that are only read are taken in by themselves."""
    good = {JOB: [job(GOOD.name)], MPIJOB: [mpijob(GOOD.name)], NODE: [node("node-a"), node("node-b")], POD: [], POLICY: []}
    items = {PLURALS[each]: [written(one) for one in found] for each, found in good.items()}
    cache = ClusterCache(lambda: NOW)
    if kind in PLURALS:
        items[PLURALS[kind]].append(written(resource))
    await Feed(cast("ApiClient", OneList(items)), cache, ()).list_all()
    read = api_objects.read(written(resource))
    if kind == BATCH_JOB:
        cache.see_batch_job(cache.partitions, GOOD, read)
    elif kind not in PLURALS:
        plural = kind == "HyperNode"
        await cache.snapshots.see_fabric(cache.intake.fabric([read] if plural else [], [] if plural else [read]))
    return cache


def look(cache: ClusterCache, key: Key) -> ReconcileInput:
    """What a pass over a job sees of the job."""
    record, view = cache.jobs[key], cache.mpijob_named(key)
    read, fault = JobReader().read(record.resource, cache.policies)
    pods = cache.pods_of(key, view.uid) if view else ()
    return ReconcileInput(
        job=JobState(metadata_of(record.resource), read, record.status, fault),
        clock=ReconcileClock(NOW),
        gang=GangState(mpijob=view, pods=pods, measured=cache.measured(key, pods)),
        plan=PlanState(in_force=cache.plans_of(key).in_force, recorded=True),
        partitions=BatchJobState(job=cache.partitions.get(key)),
    )


def listed_with_odd(kind: str, data: st.DataObject) -> tuple[dict[str, Any], ClusterCache]:
    """An object with anything in any field, and the cluster that lists it."""
    resource = data.draw(hostile(kind))
    return resource, asyncio.run(listed(kind, copy.deepcopy(resource)))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=EXAMPLES, deadline=None)
@given(data=st.data())
def test_an_object_with_anything_in_any_field_spoils_no_figure_of_another_node(kind: str, data: st.DataObject) -> None:
    resource, cache = listed_with_odd(kind, data)
    snapshot = cache.snapshot(PolicySpec(), NOW)
    msgspec.json.encode(snapshot)
    assert {"node-a", "node-b"} <= {one.name for one in snapshot.nodes}
    free = {one.name: one.free_gpus for one in snapshot.nodes}
    assert free["node-b"] == 4
    assert 0 <= free["node-a"] <= 4
    if kind == POD and (POD, ODD) in cache.intake.refused and isinstance(resource["spec"], dict):
        bound = resource["spec"].get("nodeName") == "node-a"
        assert not bound or free["node-a"] == 0, "an unreadable pod closes its node"


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=EXAMPLES, deadline=None)
@given(data=st.data())
def test_an_object_with_anything_in_any_field_leaves_every_job_a_status(kind: str, data: st.DataObject) -> None:
    _, cache = listed_with_odd(kind, data)
    for key in cache.jobs:
        seen = look(cache, key)
        status = derive(seen, decide(seen))
        msgspec.json.encode(to_wire(status))
    assert look(cache, GOOD).job.fault is None
    assert cache.jobs[GOOD].status.mpi_job_ref is not None


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=EXAMPLES, deadline=None)
@given(data=st.data())
def test_only_the_object_with_anything_in_any_field_is_refused(kind: str, data: st.DataObject) -> None:
    _, cache = listed_with_odd(kind, data)
    assert all(
        key_of({"metadata": {"name": ODD.name, "namespace": refused.key.namespace}}) == refused.key
        for refused in cache.intake.refused.values()
        if refused.kind != BATCH_JOB
    )
