"""Ranks of one node share its inside and its network card: where they go on 8 nodes of 8 H100, against every placement."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from hyperscale.model.api.job import JobSpec
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.cost.objective import predict
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.problem.placement_problem import pose
from hyperscale.planner.workload.profile import profile
from tests.builders.clusters import POLICY, both_ways, gpu_node, planned, snapshot, training

NODES = 8
GPUS = 8
CARD_400 = 50e9
CARD_25 = 3.125e9
PRODUCTS = {"vertices": 2_449_029, "edges": 123_718_280, "featureSize": 100, "classes": 47}
ARXIV = {"vertices": 169_343, "edges": 2_332_486, "featureSize": 128, "classes": 40}
REDDIT = {"vertices": 232_965, "edges": 114_615_892, "featureSize": 602, "classes": 41}
SAGE = {"architecture": "GraphSAGE", "layers": 3, "hiddenSize": 256}
SAMPLED = {**SAGE, "fanouts": [15, 10, 5], "batchSize": 1024}
GCN = {"architecture": "GCN", "layers": 2, "hiddenSize": 16}
EXACT = PolicySpec(tolerance_percent=0)
JOBS = [(PRODUCTS, SAGE), (ARXIV, SAGE), (REDDIT, GCN), (ARXIV, SAMPLED)]


def machines(card: float) -> ClusterSnapshot:
    names = [f"dgx-{index}" for index in range(NODES)]
    nodes = [gpu_node(name, free=GPUS, product="NVIDIA-H100-80GB-HBM3", domain="eu/a") for name in names]
    return snapshot(*nodes, links=both_ways(names, latency_seconds=1e-5, bandwidth_bytes_per_second=card))


def job_of(data: dict[str, int], model: dict[str, Any], workers: int, gpus: int = 1) -> JobSpec:
    return training(
        model=model,
        dataset={"source": {"persistentVolumeClaim": {"claimName": "graph"}}, **data},
        workers={"minReplicas": workers, "maxReplicas": workers, "resources": {"limits": {"nvidia.com/gpu": gpus}}},
    )


def spreads(workers: int, most: int, nodes: int) -> Iterator[tuple[int, ...]]:
    """Every way to deal workers to nodes that are all alike, most first."""
    if not workers:
        yield ()
    elif nodes:
        for first in range(min(most, workers), 0, -1):
            for rest in spreads(workers - first, first, nodes - 1):
                yield (first, *rest)


def best_of_all(seen: ClusterSnapshot, job: JobSpec, workers: int, gpus: int = 1) -> float:
    """The least objective of all placements by the reference, workers of one node following each other."""
    problem = pose(PlanRequest(job_key="a/b", job=job), build(seen, POLICY), profile(job), POLICY)
    costs = problem.costs(np.arange(NODES))
    return min(predict(costs, np.repeat(np.arange(len(dealt)), dealt)).objective for dealt in spreads(workers, GPUS // gpus, NODES))


@pytest.mark.parametrize("card", [CARD_400, CARD_25], ids=["400 Gb/s", "25 Gb/s"])
@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize(("data", "model"), JOBS)
def test_up_to_eight_ranks_go_inside_one_node(data: dict[str, int], model: dict[str, Any], ranks: int, card: float) -> None:
    assert list(planned(machines(card), job_of(data, model, ranks)).ranks_by_node.values()) == [ranks]
    assert list(planned(machines(card), job_of(data, model, 1, ranks)).ranks_by_node.values()) == [ranks]


@pytest.mark.parametrize("card", [CARD_400, CARD_25], ids=["400 Gb/s", "25 Gb/s"])
@pytest.mark.parametrize(("data", "model"), JOBS)
def test_two_workers_of_eight_gpus_take_two_full_nodes(data: dict[str, int], model: dict[str, Any], card: float) -> None:
    assert list(planned(machines(card), job_of(data, model, 2, 8)).ranks_by_node.values()) == [8, 8]


@pytest.mark.parametrize("card", [CARD_400, CARD_25], ids=["400 Gb/s", "25 Gb/s"])
@pytest.mark.parametrize("gpus", [1, 2, 4])
@pytest.mark.parametrize(("data", "model"), JOBS)
def test_sixteen_ranks_are_never_worse_placed_than_by_trying_everything(
    data: dict[str, int], model: dict[str, Any], gpus: int, card: float
) -> None:
    seen, job = machines(card), job_of(data, model, 16 // gpus, gpus)
    assert planned(seen, job, EXACT).objective <= best_of_all(seen, job, 16 // gpus, gpus) * (1 + 1e-6)


def test_what_two_full_nodes_exchange_must_cross_their_cards() -> None:
    """Half the boundary data of 16 parts of ogbn-products, both ways over 25 Gb/s: no plan may promise less than 1.6 s."""
    plan = planned(machines(CARD_25), job_of(PRODUCTS, SAGE, 2, 8))
    assert plan.predicted.communication_seconds > 1.6
