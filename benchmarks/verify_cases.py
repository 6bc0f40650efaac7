"""Sound plans for the benchmark of the verifiers: made by the product's planners on generated clusters, with varied jobs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import msgspec
import numpy as np
from msgspec.structs import replace

from benchmarks.families import snapshot_of
from hyperscale.evaluate.verify.normal_form import PlanFacts, PlanLimits
from hyperscale.evaluate.verify.plan_constraints import facts_of, limits_of
from hyperscale.learn.topologies import GPUS_PER_WORKER, generate
from hyperscale.model.api.job import JobSpec
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.graph import ClusterGraph
from hyperscale.model.plan import Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.choice.portfolio import make_plan
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.workload.profile import profile

POLICY: Final = PolicySpec()
FAMILIES: Final = ("geo", "fattree", "zones", "random", "wan")
CLUSTER_NODES: Final = (6, 9, 14)
JOBS_PER_CLUSTER: Final = 20
CPU_CORES: Final = (2.0, 4.5, 8.0)


class PlanCase(msgspec.Struct, frozen=True):
    """A plan, its question, the cluster and the quota."""

    plan: Plan
    request: PlanRequest
    snapshot: ClusterSnapshot
    quota_gpus: int | None = None

    def normal(self) -> tuple[PlanLimits, PlanFacts]:
        """Return its normal form."""
        return limits_of(self.request, self.snapshot, self.quota_gpus), facts_of(self.plan, self.request, self.snapshot)


def sound_cases(count: int, seed: int) -> Iterator[PlanCase]:
    """Yield that many plans; jobs for which the planner sees no placement are drawn again."""
    given, draw = 0, 0
    while given < count:
        case = _case(np.random.default_rng([seed, draw]), draw)
        draw += 1
        if case is not None:
            given += 1
            yield case


def _case(rng: np.random.Generator, draw: int) -> PlanCase | None:
    graph = _cluster(draw // JOBS_PER_CLUSTER)
    snapshot = graph.snapshot
    request = _request(rng, snapshot, draw)
    plan = planned(request, graph)
    if plan is None:
        return None
    total = sum(worker.gpus for worker in plan.workers)
    quota = None if rng.random() < 0.4 else total + int(rng.integers(0, 9))
    case = PlanCase(plan, request, snapshot, quota)
    return _running(case, graph, rng) if draw % 4 == 3 and len(plan.workers) > 1 else case


@lru_cache(maxsize=2)
def _cluster(number: int) -> ClusterGraph:
    """Several jobs are planned on one cluster: estimating its links takes longer than a plan."""
    nodes = CLUSTER_NODES[number % len(CLUSTER_NODES)]
    return build(snapshot_of(generate(FAMILIES[number % len(FAMILIES)], nodes, 1000 + number)), POLICY)


def planned(request: PlanRequest, graph: ClusterGraph) -> Plan | None:
    """Return the planner's answer; None where it refuses."""
    plan = make_plan(request, graph, profile(request.job), POLICY)
    return plan if isinstance(plan, Plan) else None


def _request(rng: np.random.Generator, snapshot: ClusterSnapshot, draw: int) -> PlanRequest:
    gpus = int(rng.choice([1, 2, GPUS_PER_WORKER]))
    workers = int(rng.integers(2, 7))
    document: dict[str, Any] = {
        "model": {"architecture": "GraphSAGE", "layers": int(rng.integers(2, 6)), "hiddenSize": 64},
        "dataset": {
            "source": {"persistentVolumeClaim": {"claimName": "graphs"}},
            "vertices": 100_000,
            "edges": 2_000_000,
            "featureSize": 100,
            "classes": 47,
        },
        "workers": {
            "minReplicas": int(rng.integers(1, workers + 1)),
            "maxReplicas": workers,
            "resources": {"limits": {"nvidia.com/gpu": str(gpus)}},
        },
        "planner": "Heuristic",
    }
    if rng.random() < 0.3:
        document["workers"]["gpuMemory"] = int(rng.choice([8, 15])) * 2**30
    if rng.random() < 0.3:
        document["workers"]["minReplicas"] = workers
        document["partitioning"] = {"count": workers * gpus * int(rng.integers(1, 4))}
    if snapshot.levels and rng.random() < 0.25:
        document["placement"] = {"topology": {"required": snapshot.levels[0]}}
    resources = {"cpu": CPU_CORES[draw % len(CPU_CORES)], "memory": float(rng.integers(4, 33) * 2**30)} if rng.random() < 0.6 else {}
    apart = bool(rng.random() < 0.2)
    return PlanRequest(job_key="bench/verify", job=msgspec.convert(document, JobSpec), seed=draw, resources=resources, apart=apart)


def _running(case: PlanCase, graph: ClusterGraph, rng: np.random.Generator) -> PlanCase | None:
    """The same job after some of its workers started: they hold their GPUs, and the planner places the others again."""
    stays = {worker.index: worker.node for worker in case.plan.workers if rng.random() < 0.5}
    free = {node.name: node.free_gpus for node in graph.nodes}
    for worker in case.plan.workers:
        free[worker.node] -= worker.gpus if worker.index in stays else 0
    request = replace(case.request, pinned=stays, workers_fixed=len(case.plan.workers), free_gpus=free)
    plan = planned(request, graph)
    return None if plan is None else PlanCase(plan, request, case.snapshot, case.quota_gpus)
