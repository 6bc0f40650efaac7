"""Objects that a stranger may store in a real API server. They cover every kind that the operator watches or lists, each with its trick."""

from __future__ import annotations

import contextlib
import copy
import json
from dataclasses import dataclass
from typing import Any, Final

from e2e.cluster.api import Api
from e2e.jobs import SPEC

MERGE: Final = "application/merge-patch+json"
VICTIM: Final = "victim"
"""A node with eight GPUs, to which strangers bind their pods."""
PLAN: Final = "hyperscale.dev/plan"
HUGE: Final = 2**63 - 1

Object = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One object."""

    kind: str
    body: bytes
    status: bytes | None = None
    """Written to the status subresource afterwards."""

    def path(self, space: str, name: str = "") -> str:
        """Of the object, or of its collection."""
        return COLLECTIONS[self.kind].format(space) + (f"/{name}" if name else "")

    def store(self, api: Api, space: str, name: str) -> None:
        """Create it under this name; the answer may be more than this test's own decoder takes."""
        with contextlib.suppress(RecursionError):
            api.request("POST", self.path(space), self.body.replace(b"@NAME@", name.encode()))
        if self.status is not None:
            with contextlib.suppress(RecursionError):
                api.request("PATCH", f"{self.path(space, name)}/status", self.status, MERGE)

    def take_away(self, api: Api, space: str, name: str) -> None:
        """It, whatever finalizers say."""
        query = {"gracePeriodSeconds": "0"} if self.kind == "Pod" else {}
        with contextlib.suppress(RecursionError):
            api.delete(self.path(space, name), **query)

    def key(self, space: str, name: str) -> str:
        """As the log names it."""
        return f"{space}/{name}" if "{}" in COLLECTIONS[self.kind] else name


COLLECTIONS: Final = {
    "GNNTrainingJob": "/apis/hyperscale.dev/v1alpha1/namespaces/{}/gnntrainingjobs",
    "PlannerPolicy": "/apis/hyperscale.dev/v1alpha1/plannerpolicies",
    "MPIJob": "/apis/kubeflow.org/v2beta1/namespaces/{}/mpijobs",
    "Pod": "/api/v1/namespaces/{}/pods",
    "Node": "/api/v1/nodes",
    "HyperNode": "/apis/topology.volcano.sh/v1alpha1/hypernodes",
    "Topology": "/apis/kueue.x-k8s.io/v1beta1/topologies",
}
OPTIONAL: Final = ("HyperNode", "Topology")
VERSIONS: Final = {
    "GNNTrainingJob": "hyperscale.dev/v1alpha1",
    "PlannerPolicy": "hyperscale.dev/v1alpha1",
    "MPIJob": "kubeflow.org/v2beta1",
    "Pod": "v1",
    "Node": "v1",
    "HyperNode": "topology.volcano.sh/v1alpha1",
    "Topology": "kueue.x-k8s.io/v1beta1",
}


def definition(group: str, version: str, kind: str, plural: str) -> Object:
    """A CRD for a kind of another operator, which takes anything."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [{"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def lists(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


def objects(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


def _case(kind: str, body: Object, *raw: bytes, status: Object | bytes | None = None, **metadata: Any) -> Case:
    """`raw` stands where the body holds "@0@", "@1@" and so on."""
    whole = {"apiVersion": VERSIONS[kind], "kind": kind, "metadata": {"name": "@NAME@", **metadata}, **body}
    text = json.dumps(whole).encode()
    for number, part in enumerate(raw):
        text = text.replace(b'"@%d@"' % number, part)
    return Case(kind, text, json.dumps({"status": status}).encode() if isinstance(status, dict) else status)


def _job(*raw: bytes, status: Object | None = None, annotations: dict[str, str] | None = None, **spec: Any) -> Case:
    return _case("GNNTrainingJob", {"spec": {**copy.deepcopy(SPEC), **spec}}, *raw, status=status, annotations=annotations or {})


def _template(**spec: Any) -> Object:
    return {"template": {"spec": {"containers": [{"name": "worker", **spec}]}}}


def _workers(**spec: Any) -> Object:
    return {"minReplicas": 2, "maxReplicas": 2, **_template(**spec)}


def _planned(**changes: Any) -> Object:
    """A status with a plan as the operator writes it, but for these fields."""
    worker = {"rank": 0, "node": VICTIM, "gpus": 1, "share": 1.0}
    predicted = {"epochSeconds": 1.0, "communicationSeconds": 0.1}
    plan = {"planner": "Heuristic", "seed": 0, "id": "0123456789abcdef", "partitions": 1, "workers": [worker], "predicted": predicted}
    return {**plan, "objective": 1.0, **changes}


def _claiming(gpus: int, *nodes: str) -> str:
    """A plan annotation with this number of GPUs on each node."""
    workers = [{"rank": rank, "node": node, "gpus": gpus, "share": 1 / len(nodes)} for rank, node in enumerate(nodes)]
    return json.dumps(_planned(workers=workers, partitions=len(nodes)))


def _mpijob(plan: str | None = None, status: Object | None = None, replicas: int = 2, **metadata: Any) -> Case:
    pod = {
        "spec": {
            "containers": [{"name": "main", "image": "example.com/theirs:1"}],
            "schedulingGates": [{"name": "hyperscale.dev/placement"}],
        }
    }
    replicas_of = {"Launcher": {"replicas": 1, "template": pod}, "Worker": {"replicas": replicas, "template": pod}}
    annotations = {PLAN: plan} if plan is not None else {}
    return _case("MPIJob", {"spec": {"mpiReplicaSpecs": replicas_of}}, status=status, annotations=annotations, **metadata)


def _pod(*containers: Object, **more: Any) -> Case:
    spec = {
        "nodeName": VICTIM,
        "containers": [{"name": f"c{number}", "image": "i", **one} for number, one in enumerate(containers or ({},))],
    }
    metadata = more.pop("metadata", {})
    return _case("Pod", {"spec": {**spec, **more}}, **metadata)


def _asking(**amounts: str) -> Object:
    named = {"nvidia.com/gpu" if name == "gpu" else name: amount for name, amount in amounts.items()}
    return {"resources": {"limits": named, "requests": named}}


def _node(**allocatable: str) -> Case:
    resources = {"nvidia.com/gpu" if name == "gpu" else name: amount for name, amount in allocatable.items()}
    return _case("Node", {"status": {"allocatable": resources, "capacity": resources}})


def _switch(spec: Any, *raw: bytes) -> Case:
    return _case("HyperNode", {"spec": spec}, *raw)


def cases(nodes: tuple[str, ...]) -> dict[str, Case]:
    """By a name that each can have; `nodes` are those of the cluster."""
    worker_of_nobody = {"labels": {"training.kubeflow.org/job-name": "bystander", "training.kubeflow.org/job-role": "worker"}}
    selectors = {f"example.com/l{number}": "x" for number in range(300)}
    member = {"type": "Node", "selector": {"regexMatch": {"pattern": "(a+)+b"}}}
    return {
        "job-nested-1100": _job(lists(1_100), workers=_workers(args="@0@")),
        "job-nested-5000": _job(lists(5_000), workers=_workers(args="@0@")),
        "job-nested-9000": _job(lists(9_000), launcher=_template(args="@0@")),
        "job-nested-objects": _job(objects(3_000), workers=_workers(env="@0@")),
        "job-large-text": _job(workers={"maxReplicas": 2, "template": {"metadata": {"annotations": {"note": "x" * 1_400_000}}}}),
        "job-many-lists": _job(b"[%s1]" % (b"[]," * 300_000), workers=_workers(args="@0@")),
        "job-status-no-time": _job(
            status={"lastPreemption": {"startTime": "2026-01-01T00:00:00+99:99", "beneficiaries": ["a/b"], "completedEpochs": 1.0}}
        ),
        "job-status-no-such-time": _job(status={"startTime": "0000-01-01T00:00:00Z"}),
        "job-status-endless-wait": _job(
            status={
                "lastPreemption": {
                    "startTime": "2026-01-01T00:00:00Z",
                    "beneficiaries": ["a/b"],
                    "completedEpochs": -1e300,
                    "waitedSeconds": 1e300,
                }
            }
        ),
        "job-status-negative": _job(status={"planChanges": -5, "restarts": -(2**62), "preemptions": -(2**62)}),
        "job-status-plan-huge": _job(status={"plan": _planned(workers=[{"rank": 0, "node": VICTIM, "gpus": 2**62, "share": 1.0}])}),
        "job-status-plan-negative": _job(status={"plan": _planned(workers=[{"rank": 0, "node": VICTIM, "gpus": -8, "share": -1e300}])}),
        "job-status-plan-ranks": _job(status={"plan": _planned(workers=[{"rank": 2**40, "node": VICTIM, "gpus": 1, "share": 1.0}])}),
        "job-status-plan-parts": _job(status={"plan": _planned(partitions=-4)}),
        "job-status-plan-figures": _job(status={"plan": _planned(predicted={"epochSeconds": -1e308, "communicationSeconds": 1e308})}),
        "mpijob-plan-nested": _mpijob("[" * 1_200 + "]" * 1_200),
        "mpijob-plan-nested-far": _mpijob("[" * 100_000),
        "mpijob-plan-nested-field": _mpijob('{"planner":' + '{"a":' * 40_000),
        "mpijob-plan-takes-all": _mpijob(_claiming(8, *nodes)),
        "mpijob-plan-frees-all": _mpijob(_claiming(-8, *nodes)),
        "mpijob-plan-huge": _mpijob(_claiming(2**62, *nodes)),
        "mpijob-plan-beyond-64-bits": _mpijob(_claiming(10**30, *nodes)),
        "mpijob-plan-no-json": _mpijob("take it all"),
        "mpijob-plan-nan": _mpijob(_claiming(1, VICTIM).replace("1.0", "NaN")),
        "mpijob-plan-infinite": _mpijob(_claiming(1, VICTIM).replace("1.0", "1e999")),
        "mpijob-plan-list": _mpijob("[1, 2, 3]"),
        "mpijob-plan-types": _mpijob(_claiming(1, VICTIM).replace('"gpus": 1', '"gpus": "1"')),
        "mpijob-plan-twice-a-rank": _mpijob(_claiming(1, VICTIM, VICTIM).replace('"rank": 1', '"rank": 0')),
        "mpijob-plan-3000-workers": _mpijob(_claiming(1, *["n"] * 3_000)),
        "mpijob-plan-no-workers": _mpijob(json.dumps(_planned(workers=[]))),
        "mpijob-many-replicas": _mpijob(replicas=2**40),
        "mpijob-negative-replicas": _mpijob(replicas=-5),
        "mpijob-many-failures": _mpijob(status={"replicaStatuses": {"Launcher": {"failed": 2**40}}}),
        "pod-gpus-of-63-bits": _pod(_asking(gpu=str(HUGE))),
        "pod-gpus-1e30": _pod(_asking(gpu="1e30")),
        "pod-gpus-12e": _pod(_asking(gpu="12E")),
        "pod-gpus-padded": _pod(_asking(gpu="0" * 77 + "1")),
        "pod-cpu-beyond-floats": _pod(_asking(cpu="1.5e400")),
        "pod-cpu-1e30": _pod(_asking(cpu="1e30")),
        "pod-memory-60-digits": _pod(_asking(memory="1234567890" * 6)),
        "pod-memory-1e30": _pod(_asking(memory="1e30")),
        "pod-1000-containers": _pod(*[_asking(gpu=str(HUGE))] * 1_000),
        "pod-300-selectors": _pod(nodeSelector=selectors, metadata=worker_of_nobody),
        "pod-escapes": _pod({"env": [{"name": "E", "value": "<" * 1_000_000}]}),
        "pod-many-values": _pod({"args": [""] * 150_000}),
        "node-gpus-of-63-bits": _node(gpu=str(HUGE), cpu="8", memory="8Gi"),
        "node-cpu-1e30": _node(gpu="8", cpu="1e30", memory="8Gi"),
        "node-memory-1e40": _node(gpu="8", cpu="8", memory="1e40"),
        "node-cpu-beyond-floats": _node(gpu="8", cpu="1.5e400", memory="8Gi"),
        "policy-control-character": _case("PlannerPolicy", {"spec": {"overrides": {"nodes": [{"name": "n", "gpuProduct": "a\x01b"}]}}}),
        "policy-large": _case(
            "PlannerPolicy", {"spec": {"overrides": {"links": [{"source": "s" * 250, "destination": "d" * 250}] * 1_000}}}
        ),
        "switch-of-no-tier": _switch({"tier": "wide", "members": [member]}),
        "switch-without-end": _switch({"tier": 1, "members": [member]}),
        "switch-nested": _switch({"tier": 1, "members": "@0@"}, lists(5_000)),
        "switch-of-a-list": _switch(["a", "b"]),
        "topology-of-numbers": _case("Topology", {"spec": {"levels": [1, 2, None, {"nodeLabel": ""}]}}),
        "topology-nested": _case("Topology", {"spec": {"levels": "@0@"}}, objects(4_000)),
    }
