"""Simulated clusters whose true speeds are drawn, jobs that arrive on them, and what their runs take: for benchmarks/history_regret.py."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from hyperscale.evaluate.calibration.taught_run import TaughtRun
from hyperscale.model.api.job import JobSpec
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot, Gpu, MetricsState, Node, Quality, Sample
from hyperscale.model.graph import ClusterGraph
from hyperscale.model.history.corrections import Corrections, Factor, PartKind
from hyperscale.model.plan import Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.choice.portfolio import make_plan
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.problem.placement_problem import pose
from hyperscale.planner.repair.fixed_shares import held_breakdown
from hyperscale.planner.search.heuristic import Heuristic
from hyperscale.planner.workload.profile import profile

DEVIATION: Final = 0.05
DISTURBED: Final = 0.05
LARGEST: Final = math.log(2.0)
HEURISTIC: Final = Heuristic()
"""Keeps searches that several methods ask for."""
POLICY: Final = PolicySpec(communication_weight=0.0, tolerance_percent=0)
LEVELS: Final = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone", "rack")
PRODUCTS: Final = ("NVIDIA-A100-SXM4-80GB", "Tesla-V100-SXM2-32GB", "NVIDIA-A10", "NVIDIA-L40S")
MEMORY_GIB: Final = (80, 32, 24, 48)
GIB: Final = 2**30


def _job(architecture: str, vertices: int, edges: int, features: int, counts: tuple[int, int], **model: object) -> JobSpec:
    return msgspec.convert(
        {
            "model": {"architecture": architecture, "layers": 3, "hiddenSize": 256, "epochs": 100} | model,
            "dataset": {
                "source": {"persistentVolumeClaim": {"claimName": "graph"}},
                "vertices": vertices,
                "edges": edges,
                "featureSize": features,
                "classes": 47,
            },
            "workers": {"minReplicas": counts[0], "maxReplicas": counts[1]},
        },
        JobSpec,
    )


KINDS: Final[tuple[JobSpec, ...]] = (
    _job("GCN", 1_200_000, 30_000_000, 100, (1, 6)),
    _job("GraphSAGE", 2_449_029, 123_718_280, 100, (2, 8)),
    _job("GAT", 2_449_029, 61_859_140, 100, (4, 8), hiddenSize=128),
    _job("GraphSAGE", 2_449_029, 61_859_140, 100, (1, 4), batchSize=4096, fanouts=[10, 10, 5]),
    _job("GCN", 2_449_029, 61_859_140, 100, (4, 4)),
)


class TrueCluster(NamedTuple):
    """A cluster and what its seconds really are."""

    snapshot: ClusterSnapshot
    graph: ClusterGraph
    truth: dict[str, Corrections]
    """By architecture."""


class Question(NamedTuple):
    """A job and the nodes that have room for it."""

    job: JobSpec
    free: dict[str, int]


def true_cluster(chance: np.random.Generator, slow_cards: bool = False) -> TrueCluster:
    """A cluster with drawn nodes and factors."""
    nodes = []
    for index in range(24):
        which, rack = int(chance.integers(len(PRODUCTS))), index % 4
        gpus = int(chance.choice([1, 2]))
        domains = ("eu", f"eu/{rack // 2}", f"eu/{rack // 2}/{rack}")
        labels = dict(zip(LEVELS, domains, strict=True)) | {"kubernetes.io/hostname": f"n{index:02d}"}
        idle = Sample(value=0.0, age_seconds=3.0, quality=Quality.MEASURED)
        samples = tuple(Gpu(uuid=f"GPU-{index}-{gpu}", utilization_ratio=idle) for gpu in range(gpus))
        nodes.append(
            Node(
                name=f"n{index:02d}",
                gpu_product=PRODUCTS[which],
                gpu_memory_bytes=MEMORY_GIB[which] * GIB,
                allocatable_gpus=gpus,
                requested_gpus=0,
                labels=labels,
                domains=domains,
                gpus=samples,
            )
        )
    snapshot = ClusterSnapshot(taken_at=1000.0, nodes=tuple(nodes), levels=LEVELS, metrics=MetricsState(available=True))
    return TrueCluster(snapshot, build(snapshot, POLICY), _truth(chance, snapshot, slow_cards))


def _truth(chance: np.random.Generator, snapshot: ClusterSnapshot, slow_cards: bool) -> dict[str, Corrections]:
    def drawn(names: Sequence[str]) -> dict[str, float]:
        return {name: math.exp(chance.uniform(-LARGEST, LARGEST)) for name in names}

    products, tiers, insides = drawn(PRODUCTS), drawn([*LEVELS]), drawn(PRODUCTS)
    models = drawn(sorted({kind.model.architecture.value for kind in KINDS}))
    cards = {node.name: 2.0 for node in snapshot.nodes if slow_cards and chance.random() < 1 / 8}
    return {
        model: Corrections(
            untried=_factor("", level),
            products=tuple(_factor(name, level * factor) for name, factor in sorted(products.items())),
            tiers=tuple(_factor(name, factor) for name, factor in sorted(tiers.items())),
            insides=tuple(_factor(name, factor) for name, factor in sorted(insides.items())),
            cards=tuple(_factor(name, factor) for name, factor in sorted(cards.items())),
        )
        for model, level in models.items()
    }


def _factor(name: str, factor: float) -> Factor:
    return Factor(name, factor, 0.0, 0)


def question(chance: np.random.Generator, cluster: TrueCluster) -> Question:
    """A random kind of job, and half of the nodes."""
    kind = KINDS[int(chance.integers(len(KINDS)))]
    free = {node.name: node.allocatable_gpus if chance.random() < 0.5 else 0 for node in cluster.snapshot.nodes}
    return Question(kind, free)


def chosen(cluster: TrueCluster, asked: Question, corrections: Corrections | None) -> Plan | None:
    """The plan under these corrections; peers' have no errors, so that nothing is explored with them."""
    request = PlanRequest(job_key="team/job", job=asked.job, free_gpus=asked.free, corrections=corrections)
    plan = make_plan(request, cluster.graph, profile(asked.job), POLICY, planners=(HEURISTIC,))
    return plan if isinstance(plan, Plan) else None


class TrueSeconds(NamedTuple):
    """What an epoch of a plan really takes, and its arithmetic on the slowest worker with each GPU product."""

    epoch: float
    by_product: dict[str, float]

    @property
    def compute(self) -> float:
        """On the slowest worker."""
        return max(self.by_product.values())


def true_seconds(cluster: TrueCluster, asked: Question, plan: Plan) -> TrueSeconds:
    """What a plan really takes."""
    truth = cluster.truth[asked.job.model.architecture.value]
    request = PlanRequest(job_key="team/job", job=asked.job, free_gpus=asked.free, corrections=truth)
    workload = profile(asked.job)
    problem = pose(request, cluster.graph, workload, POLICY)
    places = {name: place for place, name in enumerate(problem.names)}
    order = np.array([places[worker.node] for worker in plan.workers], dtype=np.int64)
    members, positions = np.unique(order, return_inverse=True)
    costs = problem.costs(members)
    shares = np.array([worker.share for worker in plan.workers])
    overhead = sum(part.seconds for part in plan.predicted.parts if part.kind is PartKind.OVERHEAD)
    seconds = shares * costs.workload.epoch_flops / costs.flops_per_second[positions] + overhead
    by_product: dict[str, float] = {}
    for worker, each in zip(plan.workers, seconds, strict=True):
        by_product[worker.product or ""] = max(by_product.get(worker.product or "", 0.0), float(each))
    return TrueSeconds(held_breakdown(costs, positions, shares).epoch_seconds, by_product)


def run_of(chance: np.random.Generator, cluster: TrueCluster, asked: Question, plan: Plan) -> TaughtRun:
    """What history keeps of a run."""
    epoch, by_product = true = true_seconds(cluster, asked, plan)
    noise = math.exp(chance.normal(0.0, DEVIATION)) * (float(chance.uniform(2.0, 4.0)) if chance.random() < DISTURBED else 1.0)
    reports = chance.random() < 0.5
    correction = plan.predicted.calibration
    return TaughtRun(
        namespace="team",
        architecture=asked.job.model.architecture.value,
        parts=plan.predicted.parts,
        predicted_seconds=plan.predicted.epoch_seconds / (correction.factor if correction is not None else 1.0),
        measured_seconds=epoch * noise,
        compute_seconds=true.compute * noise if reports else None,
        product_seconds=tuple((name, seconds * noise) for name, seconds in by_product.items()) if reports else (),
    )
