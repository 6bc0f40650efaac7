"""Jobs, plans and clusters for tests of what happens around a plan."""

from __future__ import annotations

from typing import Any

from hyperscale.model.api.job import JobSpec
from hyperscale.model.cluster import ClusterSnapshot, Node
from hyperscale.model.history.corrections import COST_MODEL
from hyperscale.model.meta import JobMetadata, RenderDefaults
from hyperscale.model.plan import Plan, Prediction, WorkerPlacement, gpus_by_node
from hyperscale.model.planning import PlanRequest
from tests.builders.wire import spec_of

GIB = 2**30
DEFAULTS = RenderDefaults(worker_image="hyperscale/worker:0.1.0")


def metadata(**labels: str) -> JobMetadata:
    """Job team-a/cora; keyword names are label keys with `__` for `/`."""
    return JobMetadata(namespace="team-a", name="cora", uid="7f3c", labels={key.replace("__", "/"): text for key, text in labels.items()})


def job(**fields: Any) -> JobSpec:
    """A small GCN job of up to four workers; `fields` are camelCase fields of spec."""
    spec = {
        "model": {"architecture": "GCN"},
        "dataset": {"source": {"builtin": {"name": "Cora"}}},
        "workers": {"minReplicas": 1, "maxReplicas": 4},
        "placement": {"communicationWeight": "0.5"},
    }
    return spec_of(spec | fields)


def plan(*nodes: str, gpus: int = 1, product: str | None = "NVIDIA-A100", partitions: int | None = None) -> Plan:
    """A plan with one worker on each named node, in that order, and equal shares."""
    count = len(nodes)
    workers = tuple(
        WorkerPlacement(index=index, first_rank=index * gpus, node=name, gpus=gpus, product=product, share=1 / count)
        for index, name in enumerate(nodes)
    )
    return Plan(
        planner="Heuristic",
        seed=0,
        plan_id="0123456789abcdef",
        partitions=count * gpus if partitions is None else partitions,
        workers=workers,
        ranks_by_node=gpus_by_node(workers),
        predicted=Prediction(epoch_seconds=2.0, communication_seconds=0.5, low_seconds=1.0, high_seconds=3.0, cost_model=COST_MODEL),
        objective=2.25,
    )


def node(name: str, **fields: Any) -> Node:
    """A node of two free A100 with labels, cores and memory to spare."""
    given: dict[str, Any] = {
        "gpu_product": "NVIDIA-A100",
        "gpu_memory_bytes": 40 * GIB,
        "allocatable_gpus": 2,
        "requested_gpus": 0,
        "labels": {"kubernetes.io/hostname": name, "pool": "gnn", "rack": "r1"},
        "allocatable_cpu_cores": 16.0,
        "allocatable_memory_bytes": 64 * GIB,
    }
    return Node(name=name, **(given | fields))


def cluster(*nodes: Node, **fields: Any) -> ClusterSnapshot:
    """A snapshot of these nodes."""
    return ClusterSnapshot(taken_at=1000.0, nodes=tuple(sorted(nodes, key=lambda entry: entry.name)), **fields)


def request(asked: JobSpec | None = None, **fields: Any) -> PlanRequest:
    """A question about job team-a/cora."""
    return PlanRequest(job_key="team-a/cora", job=asked if asked is not None else job(), **fields)
