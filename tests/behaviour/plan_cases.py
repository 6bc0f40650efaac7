"""Questions to the planners, as JSON values: a cluster, a job, a policy, and what a pass adds to the question.

Longer than other modules: one list, so that what is covered is seen at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from tests.behaviour.clusters import (
    A10,
    A100,
    A100_PCIE,
    H100,
    RACK,
    T4,
    V100,
    ZONE,
    ZONES,
    Json,
    cluster,
    drawn,
    estimated,
    labelled,
    link,
    measured,
    mesh,
    mixed,
    node,
    racks,
    spread,
    unknown,
)

GIB: Final = 2**30
SAGE: Final[Json] = {"architecture": "GraphSAGE", "layers": 3, "hiddenSize": 256}
GCN: Final[Json] = {"architecture": "GCN", "layers": 2, "hiddenSize": 64, "batchSize": 1024, "fanouts": [10, 5]}
GAT: Final[Json] = {"architecture": "GAT", "layers": 2, "hiddenSize": 32, "heads": 4}
CUSTOM: Final[Json] = {"architecture": "Custom", "parameters": 5_000_000}
CORA: Final[Json] = {"source": {"builtin": {"name": "Cora"}}}
PRODUCTS: Final[Json] = {
    "source": {"persistentVolumeClaim": {"claimName": "graph"}},
    "vertices": 2_449_029,
    "edges": 123_718_280,
    "featureSize": 100,
    "classes": 47,
}
ARXIV: Final[Json] = {
    "source": {"s3": {"bucket": "graphs"}},
    "path": "arxiv/graph.bin",
    "vertices": 169_343,
    "edges": 2_332_486,
    "featureSize": 128,
    "classes": 40,
}


@dataclass(frozen=True)
class PlanCase:
    """One question."""

    snapshot: Json
    """A ClusterSnapshot on the wire."""
    spec: Json
    """`GNNTrainingJob.spec`."""
    policy: Json = field(default_factory=dict)
    """`PlannerPolicy.spec`."""
    asked: Json = field(default_factory=dict)
    """Fields of the request that the pass adds, on the wire."""


def job(
    least: int, most: int, gpus: int = 1, *, model: Json = SAGE, dataset: Json = PRODUCTS, workers: Json | None = None, **fields: Any
) -> Json:
    """A job of `least` to `most` workers with `gpus` GPUs each."""
    return {
        "model": model,
        "dataset": dataset,
        "workers": {"minReplicas": least, "maxReplicas": most, "resources": {"limits": {"nvidia.com/gpu": gpus}}} | (workers or {}),
        **fields,
    }


def _pod(**spec: Any) -> Json:
    return {"template": {"spec": spec}}


def _uneven() -> Json:
    """Nodes that cannot be used, each for another reason, and two that can."""
    fault = [{"uuid": "GPU-x", "utilizationRatio": measured(0.0), "lastXid": measured(79.0)}]
    tainted = [{"key": "team", "value": "other", "effect": "NoSchedule"}]
    nodes = [
        node("a-ready"),
        node("b-ready", load=0.3),
        node("c-not-ready", ready=False),
        node("d-cordoned", schedulable=False),
        node("e-tainted", taints=tainted),
        node("f-taken", gpus=2, requestedGpus=2),
        node("g-faulty", gpus=1, load=None) | {"gpus": fault},
        node("h-small", T4),
        node("i-no-cores", requestedCpuCores=63.0),
        node("j-no-memory", requestedMemoryBytes=510 * GIB),
        node("k-mig", "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"),
        node("l-mig-strategy", labels={"nvidia.com/mig.strategy": "single"}),
        node("m-shared", "NVIDIA-A100-SXM4-80GB-SHARED"),
        node("n-replicas", labels={"nvidia.com/gpu.replicas": "4"}),
    ]
    return cluster(nodes, mesh(nodes, lambda one, other: (1e-4, 1e9)))


def _dead() -> Json:
    """Two halves without a link between them, inside which each pair was measured, and one node that no other reaches."""
    nodes = [node(f"{side}{index}", zone=ZONES[0], load=0.1 * index) for side in "ab" for index in range(4)]
    links = mesh(nodes, lambda one, other: (1e-4, 2e9) if one["name"][0] == other["name"][0] else None)
    return cluster([*nodes, node("z-alone")], links, absent="unreachable")


def _dead_measured() -> Json:
    """All links are estimated but one, which was measured as dead: its loss left no bandwidth."""
    dead = {"source": "a", "destination": "b", "latencySeconds": unknown("dead"), "bandwidthBytesPerSecond": measured(0.0)}
    return cluster([node(name) for name in "abcd"], [dead, link("b", "a", 1e-4, 1e9), link("c", "d", 1e-4, 1e9), link("d", "c", 1e-4, 1e9)])


def _doubtful() -> Json:
    """Figures of every quality: measured, old, estimated, unknown."""
    nodes = drawn(41, 10)
    for index, one in enumerate(nodes):
        if index % 3 == 1:
            one["gpus"] = [{**gpu, "utilizationRatio": unknown("stale: 900 s old")} for gpu in one["gpus"]]
        if index % 4 == 2:
            one["gpuProduct"] = None
    links = mesh(nodes, spread(42, missing=0.4))
    for index, entry in enumerate(links):
        if index % 5 == 0:
            entry["latencySeconds"] = estimated(1e-3)
        if index % 7 == 0:
            entry["bandwidthBytesPerSecond"] = unknown()
    return cluster(nodes, links, metrics={"available": False, "reason": "MetricsStale", "message": "5 of 9 queries"})


def _partly_free() -> Json:
    nodes = [
        node("a-empty", gpus=8),
        node("b-half", gpus=8, requestedGpus=4),
        node("c-last", gpus=8, requestedGpus=7),
        node("d-two", gpus=8, requestedGpus=6, load=0.05),
    ]
    return cluster(nodes, mesh(nodes, lambda one, other: (5e-5, 1e10)))


def _devices() -> Json:
    """Nodes of which only some have devices, pods and storage left."""
    plenty = {"pods": 110.0, "ephemeral-storage": 1e12, "rdma/hca": 4.0}
    nodes = [
        node("a", allocatable=plenty, gpus=4),
        node("b", allocatable=plenty, requested={"pods": 109.0}, gpus=4),
        node("c", allocatable=plenty, requested={"rdma/hca": 4.0}, gpus=4),
        node("d", allocatable={**plenty, "ephemeral-storage": 1e9}, gpus=4),
        node("e", allocatable={"pods": 110.0}, gpus=4),
        node("f", allocatable=plenty, gpus=4, networkBytesPerSecond=measured(1.25e9)),
    ]
    return cluster(nodes, mesh(nodes, lambda one, other: (5e-5, 1e10)))


def _zones(load: float) -> Json:
    """Two nodes of one zone, one of them busy, and an idle one of another zone; all links are alike."""
    nodes = [node("a1"), node("a2", load=load), node("b1", zone=ZONES[1])]
    return cluster(nodes, mesh(nodes, lambda one, other: (1e-4, 1e9)))


def _inside() -> Json:
    """Nodes whose GPUs reach each other in different ways."""
    kinds = (("NVLink", 12), ("NVLink", 2), ("PcieSwitch", 0), ("System", 0))
    nodes = [node(f"n{index}", gpus=4, gpuPaths={"kind": kind, "nvlinks": count}) for index, (kind, count) in enumerate(kinds)]
    return cluster(nodes, mesh(nodes, lambda one, other: (2e-5, 1.2e10)))


PINNED: Final[Json] = {
    "pinned": {"0": "n003", "2": "n005"},
    "workersFixed": 4,
    "excludedNodes": ["n001"],
    "freeGpus": {"n003": 0, "n005": 0},
}
LEARNT: Final[Json] = {"calibration": [{"products": A100, "factor": 1.7, "spread": 0.2, "runs": 6, "curve": None}]}

PLAN_CASES: Final[dict[str, PlanCase]] = {
    # Small clusters.
    "one-node": PlanCase(cluster([node("only")]), job(1, 4)),
    "two-nodes-cora": PlanCase(labelled(1, 2), job(1, 2, model=GCN | {"batchSize": None, "fanouts": []}, dataset=CORA)),
    "five-nodes-gat": PlanCase(mixed(2, 5), job(2, 5, model=GAT)),
    "five-nodes-custom-model": PlanCase(mixed(3, 5), job(1, 5, model=CUSTOM, dataset=ARXIV)),
    "custom-model-without-parameters-known": PlanCase(mixed(4, 4), job(2, 2, model=CUSTOM | {"parameters": 10**9}, dataset=ARXIV)),
    # Measured links, sampling and full graph.
    "twelve-nodes-measured": PlanCase(mixed(5, 12), job(1, 8)),
    "twelve-nodes-sampling": PlanCase(mixed(6, 12), job(2, 12, model=GCN)),
    "sixteen-nodes-several-gpus-free": PlanCase(mixed(7, 16, most_gpus=4), job(1, 16)),
    "sixteen-nodes-workers-of-two-gpus": PlanCase(mixed(8, 16, most_gpus=8), job(2, 8, 2)),
    "several-ranks-share-a-node": PlanCase(cluster([node(name, gpus=8) for name in "ab"]), job(2, 12, 1)),
    "ways-inside-nodes": PlanCase(_inside(), job(1, 4, 4)),
    "thirty-nodes-two-workers": PlanCase(mixed(9, 30), job(2, 2)),
    "forty-seven-nodes": PlanCase(mixed(10, 47, most_gpus=2), job(2, 12, model=SAGE | {"epochs": 10}, dataset=ARXIV)),
    "racks-of-ninety-six-nodes": PlanCase(racks(3, 4, 8), job(4, 8, 8)),
    "two-hundred-nodes-labels-only": PlanCase(labelled(11, 200, most_gpus=4), job(4, 16)),
    "two-hundred-nodes-few-links": PlanCase(mixed(12, 200, missing=0.9), job(2, 6, model=GCN)),
    # Counts that leave the search much to do.
    "eight-of-twenty-four-nodes": PlanCase(mixed(30, 24), job(8, 8)),
    "twelve-of-forty-nodes-gat": PlanCase(mixed(31, 40, most_gpus=2), job(12, 12, model=GAT)),
    "sixteen-of-sixty-nodes-sampling": PlanCase(mixed(32, 60), job(16, 16, model=GCN)),
    "thirty-two-of-hundred-nodes": PlanCase(mixed(33, 100, most_gpus=2), job(24, 32, dataset=ARXIV)),
    "workers-of-two-gpus-on-thirty-nodes": PlanCase(mixed(34, 30, most_gpus=6), job(10, 12, 2)),
    "nine-ranks-some-pairs-unreachable": PlanCase(mixed(35, 20, missing=0.1, absent="unreachable"), job(9, 9)),
    "equal-shares-of-ten": PlanCase(mixed(36, 25), job(10, 10, partitioning={"balance": "Equal", "count": 20})),
    "memory-limits-shares": PlanCase(
        mixed(37, 14), job(4, 10, dataset=PRODUCTS | {"vertices": 60_000_000, "edges": 600_000_000, "featureSize": 256})
    ),
    # Links that are estimated, doubtful or dead.
    "labels-only": PlanCase(labelled(13, 9), job(1, 6)),
    "no-labels-no-metrics": PlanCase(
        cluster([node(f"n{index}", load=None, labels={}, domains=[]) for index in range(5)], levels=[], metrics={"available": False}),
        job(1, 4),
    ),
    "doubtful-figures": PlanCase(_doubtful(), job(2, 6)),
    "dead-halves": PlanCase(_dead(), job(2, 4)),
    "dead-halves-are-too-small": PlanCase(_dead(), job(5, 8)),
    "dead-link-measured": PlanCase(_dead_measured(), job(2, 4)),
    "some-pairs-unreachable": PlanCase(mixed(14, 14, missing=0.15, absent="unreachable"), job(3, 6, model=GAT)),
    # Nodes that cannot be used.
    "nodes-ruled-out": PlanCase(
        _uneven(), job(1, 4, workers={"gpuMemory": "24Gi", "resources": {"requests": {"cpu": "8", "memory": "64Gi"}}})
    ),
    "nodes-tolerated": PlanCase(
        _uneven(), job(2, 4, workers=_pod(tolerations=[{"key": "team", "operator": "Exists"}])), {"tolerancePercent": 10}
    ),
    "devices-of-pods": PlanCase(
        _devices(),
        job(
            1,
            4,
            2,
            workers={"resources": {"limits": {"nvidia.com/gpu": 2, "rdma/hca": 1}, "requests": {"ephemeral-storage": "20Gi"}}},
        ),
    ),
    "node-affinity-and-apart": PlanCase(
        mixed(15, 12, most_gpus=4),
        job(
            2,
            4,
            workers=_pod(
                affinity={
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["eu-a", "us-a"]}]}]
                        }
                    },
                    "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "topologyKey": "kubernetes.io/hostname",
                                "labelSelector": {"matchLabels": {"training.kubeflow.org/job-role": "worker"}},
                            }
                        ]
                    },
                }
            ),
        ),
    ),
    "required-zone-and-products": PlanCase(
        mixed(16, 20, most_gpus=2),
        job(2, 4, workers={"gpuProducts": [A100, H100]}, placement={"topology": {"required": ZONE}}),
    ),
    "preferred-rack": PlanCase(
        racks(2, 3, 4, gpus=2), job(2, 4, placement={"topology": {"preferred": RACK}, "communicationWeight": "1.0"})
    ),
    "preferred-zone-costs-little": PlanCase(_zones(0.1), job(2, 2, placement={"topology": {"preferred": ZONE}}), {"tolerancePercent": 0}),
    "preferred-zone-costs-too-much": PlanCase(_zones(0.8), job(2, 2, placement={"topology": {"preferred": ZONE}}), {"tolerancePercent": 0}),
    # Policies.
    "tolerance-takes-the-fuller-node": PlanCase(_partly_free(), job(1, 1), {"tolerancePercent": 10}),
    "no-tolerance": PlanCase(_partly_free(), job(1, 6), {"tolerancePercent": 0, "communicationWeight": "2.0", "seed": 7}),
    "prices-and-overrides": PlanCase(
        cluster([node("a-dear", A100), node("b-cheap", A100_PCIE), node("c-slow", A10)]),
        job(1, 2, model=GCN, dataset=CORA, partitioning={"balance": "Equal"}),
        {
            "gpus": [
                {"product": A100, "gigaflops": 13_000, "pricePerHour": "4.0"},
                {"product": A100_PCIE, "gigaflops": 13_000, "pricePerHour": "2.0"},
                {"product": A10, "gigaflops": 9_000, "pricePerHour": "0.6"},
            ]
        },
    ),
    "learned-asked-for": PlanCase(mixed(17, 16), job(2, 8, planner="Learned")),
    "learned-not-allowed": PlanCase(mixed(17, 16), job(2, 8, planner="Learned"), {"planners": ["Heuristic"]}),
    "heuristic-asked-for": PlanCase(mixed(17, 16), job(2, 8, planner="Heuristic")),
    "no-planner": PlanCase(mixed(17, 16), job(2, 2, planner="None")),
    # What a pass adds.
    "repair-of-two-ranks": PlanCase(mixed(18, 12), job(2, 6), asked=PINNED),
    "fixed-count-some-gpus-held": PlanCase(
        mixed(19, 10, most_gpus=4),
        job(2, 6),
        asked={
            "workersFixed": 3,
            "freeGpus": {"n000": 0, "n001": 1},
            "held": {"n002": {"cpu": 60.0}},
            "refusedNodes": {"n003": "0/10 nodes are available"},
        },
    ),
    "corrected-by-finished-runs": PlanCase(
        cluster([node(f"n{index}", load=0.1 * index) for index in range(4)]), job(1, 4, model=GCN, dataset=ARXIV), asked=LEARNT
    ),
    # Refusals.
    "too-few-gpus-free": PlanCase(cluster([node("a", V100, requestedGpus=1), node("b", V100), node("c", V100, gpus=2)]), job(4, 8)),
    "never-fits": PlanCase(labelled(20, 6, most_gpus=2), job(1, 2, 16)),
    "gpu-memory-too-small": PlanCase(cluster([node("a", T4), node("b", T4)]), job(1, 2, workers={"gpuMemory": "40Gi"})),
    "graph-larger-than-memory": PlanCase(
        cluster([node("a", T4), node("b", T4)]), job(1, 2, dataset=PRODUCTS | {"vertices": 10**9, "edges": 10**10})
    ),
    "no-such-nodes": PlanCase(labelled(21, 8), job(2, 4, placement={"nodeSelector": {"pool": "gnn"}})),
    "empty-cluster": PlanCase(cluster([]), job(1, 4)),
}
