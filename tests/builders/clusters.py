"""Small clusters, jobs and answers for tests of the planner."""

from __future__ import annotations

from typing import Any

import numpy as np

from hyperscale.model.api.job import JobSpec
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import AbsentLink, ClusterSnapshot, Gpu, Link, MetricsState, Node, Quality, Sample
from hyperscale.model.graph import ClusterGraph
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.choice.portfolio import make_plan
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.workload.profile import profile
from tests.builders.wire import spec_of

GIB = 2**30
LEVELS = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")
PRODUCTS = ("NVIDIA-A100-SXM4-80GB", "Tesla-V100-SXM2-32GB", "Tesla-T4", "NVIDIA-H100-80GB-HBM3")
POLICY = PolicySpec()


def measured(value: float) -> Sample:
    return Sample(value=value, age_seconds=3.0, quality=Quality.MEASURED)


def gpu_node(
    name: str, *, free: int = 1, load: float | None = 0.0, product: str | None = PRODUCTS[0], domain: str = "eu/a", **fields: Any
) -> Node:
    """A node with `free` GPUs, all at `load`; `domain` is region/zone."""
    region = domain.partition("/")[0]
    gpus = tuple(Gpu(uuid=f"GPU-{name}-{index}", utilization_ratio=measured(load)) for index in range(free)) if load is not None else ()
    given: dict[str, Any] = {
        "gpu_memory_bytes": 80 * GIB,
        "allocatable_gpus": free,
        "requested_gpus": 0,
        "labels": {"kubernetes.io/hostname": name, LEVELS[0]: region, LEVELS[1]: domain.partition("/")[2]},
        "domains": (region, domain),
        "gpus": gpus,
    }
    return Node(name=name, gpu_product=product, **(given | fields))


def link(source: str, destination: str, latency_seconds: float = 1e-4, bandwidth_bytes_per_second: float = 1e9) -> Link:
    return Link(source, destination, measured(latency_seconds), measured(bandwidth_bytes_per_second))


def both_ways(names: list[str], **figures: float) -> tuple[Link, ...]:
    """Links among all of `names`."""
    return tuple(link(a, b, **figures) for a in names for b in names if a != b)


def snapshot(*nodes: Node, links: tuple[Link, ...] = (), absent: AbsentLink = AbsentLink.ESTIMATE, **fields: Any) -> ClusterSnapshot:
    given: dict[str, Any] = {"levels": LEVELS, "metrics": MetricsState(available=True)}
    return ClusterSnapshot(
        taken_at=1000.0,
        nodes=tuple(sorted(nodes, key=lambda node: node.name)),
        links=tuple(sorted(links, key=lambda entry: (entry.source, entry.destination))),
        absent_links=absent,
        **(given | fields),
    )


def training(**fields: Any) -> JobSpec:
    """A GraphSAGE job on a graph large enough that workers and links matter; `fields` are camelCase fields of spec."""
    spec: dict[str, Any] = {
        "model": {"architecture": "GraphSAGE", "layers": 3, "hiddenSize": 256},
        "dataset": {
            "source": {"persistentVolumeClaim": {"claimName": "graph"}},
            "vertices": 2_449_029,
            "edges": 123_718_280,
            "featureSize": 100,
            "classes": 47,
        },
        "workers": {"minReplicas": 1, "maxReplicas": 4},
    }
    return spec_of(spec | fields)


def answer(seen: ClusterSnapshot, job: JobSpec | None = None, policy: PolicySpec = POLICY, **asked: Any) -> Plan | Infeasible:
    """What the planner says."""
    wanted = job if job is not None else training()
    graph: ClusterGraph = build(seen, policy)
    return make_plan(PlanRequest(job_key="team-a/gnn", job=wanted, **asked), graph, profile(wanted), policy)


def planned(seen: ClusterSnapshot, job: JobSpec | None = None, policy: PolicySpec = POLICY, **asked: Any) -> Plan:
    """The plan; fails the test where there is none."""
    plan = answer(seen, job, policy, **asked)
    assert isinstance(plan, Plan), plan
    return plan


def refused(seen: ClusterSnapshot, job: JobSpec | None = None, **asked: Any) -> Infeasible:
    """The refusal; fails the test where there is a plan."""
    refusal = answer(seen, job, **asked)
    assert isinstance(refusal, Infeasible), refusal
    return refusal


def random_cluster(seed: int, nodes: int, *, free_max: int = 1, unreachable: float = 0.0, gpus: int = 1) -> ClusterSnapshot:
    """Nodes of mixed speed and load in four zones; all links measured, log-normal around their zone's figures."""
    rng = np.random.default_rng(seed)
    members = [
        gpu_node(
            f"n{index:03d}",
            free=gpus * int(rng.integers(1, free_max + 1)),
            load=float(rng.uniform(0.0, 0.8)),
            product=PRODUCTS[int(rng.integers(len(PRODUCTS)))],
            domain=("eu/a", "eu/b", "us/a", "us/b")[int(rng.integers(4))],
        )
        for index in range(nodes)
    ]
    links = []
    for first, a in enumerate(members):
        for b in members[first + 1 :]:
            if rng.random() < unreachable:
                continue
            near = a.domains[1] == b.domains[1]
            latency = (1e-4 if near else 5e-3) * float(rng.lognormal(0.0, 0.7))
            bandwidth = (5e9 if near else 5e8) * float(rng.lognormal(0.0, 0.7))
            links += [link(a.name, b.name, latency, bandwidth), link(b.name, a.name, latency, bandwidth)]
    return snapshot(*members, links=tuple(links), absent=AbsentLink.UNREACHABLE if unreachable else AbsentLink.ESTIMATE)
