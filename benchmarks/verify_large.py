"""Jobs of stated size for the benchmark of the verifiers: one that fills a cluster, and one that fits nowhere."""

from __future__ import annotations

from typing import Any

import msgspec

from benchmarks.verify_cases import PlanCase
from hyperscale.model.api.job import JobSpec
from hyperscale.model.cluster import ClusterSnapshot, MetricsState, Node
from hyperscale.model.plan import Plan, Prediction, WorkerPlacement
from hyperscale.model.planning import PlanRequest

GIB = 2**30
ZONE = "topology.kubernetes.io/zone"


def full_job(nodes: int, gpus: int, *, short: bool = False) -> PlanCase:
    """Return a plan that takes all GPUs of a cluster, one worker a node; `short`: one node has a GPU less than the plan takes."""
    request = PlanRequest(job_key="bench/full", job=_job(nodes, gpus, {}))
    workers = tuple(WorkerPlacement(index, index * gpus, _name(index), gpus, 1 / nodes, "NVIDIA-H100-80GB-HBM3") for index in range(nodes))
    plan = Plan(
        planner="Heuristic",
        seed=0,
        plan_id="0" * 16,
        partitions=nodes * gpus,
        workers=workers,
        ranks_by_node={worker.node: gpus for worker in workers},
        predicted=Prediction(1.0, 0.1),
        objective=1.1,
    )
    return PlanCase(plan, request, _cluster(nodes, gpus, short), nodes * gpus)


def impossible_job(nodes: int) -> tuple[PlanRequest, ClusterSnapshot]:
    """Return a job for as many workers as nodes, in a pool and a zone that have too few of them; no two nodes are alike."""
    job = _job(nodes, 1, {"nodeSelector": {"pool": "blue"}, "topology": {"required": ZONE}})
    return PlanRequest(job_key="bench/impossible", job=job, resources={"cpu": 4.0}), _cluster(nodes, 1, False, blue=nodes - 1)


def _job(workers: int, gpus: int, placement: dict[str, Any]) -> JobSpec:
    document: dict[str, Any] = {
        "model": {"architecture": "GraphSAGE", "layers": 3, "hiddenSize": 256},
        "dataset": {"source": {"persistentVolumeClaim": {"claimName": "graphs"}}, "vertices": 1_000_000, "edges": 20_000_000},
        "workers": {
            "minReplicas": workers,
            "maxReplicas": workers,
            "gpuMemory": 24 * GIB,
            "resources": {"limits": {"nvidia.com/gpu": str(gpus)}},
        },
        "placement": placement,
    }
    return msgspec.convert(document, JobSpec)


def _cluster(nodes: int, gpus: int, short: bool, blue: int = 0) -> ClusterSnapshot:
    return ClusterSnapshot(
        taken_at=0.0,
        nodes=tuple(_node(index, gpus - (short and index == nodes // 2), index < blue) for index in range(nodes)),
        levels=(ZONE,),
        metrics=MetricsState(available=True),
        source="generated",
    )


def _node(index: int, gpus: int, blue: bool) -> Node:
    zone = "a" if index % 3 else "b"
    return Node(
        name=_name(index),
        gpu_product="NVIDIA-H100-80GB-HBM3",
        gpu_memory_bytes=80 * GIB,
        allocatable_gpus=gpus,
        requested_gpus=0,
        labels={ZONE: zone, "pool": "blue" if blue else "green"},
        domains=(zone,),
        allocatable_cpu_cores=4.0 * (index + 1),
    )


def _name(index: int) -> str:
    return f"node-{index:03d}"
