"""Starts on fewer slots: one worker a node, nodes with enough memory, nodes that reach each other."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import numpy as np
import pytest

from hyperscale.model.api.job import JobSpec
from hyperscale.model.cluster import AbsentLink, ClusterSnapshot
from hyperscale.planner.search import heuristic
from tests.builders.clusters import GIB, PRODUCTS, gpu_node, link, measured, planned, refused, snapshot, training

VERTICES = 36_283_707
DATASET = {"source": {"persistentVolumeClaim": {"claimName": "g"}}, "edges": 487_058_072, "featureSize": 128, "classes": 172}
GCN = {"architecture": "GCN", "layers": 2, "hiddenSize": 64}


def large_job(workers: int, balance: str = "Capacity", vertices: int = VERTICES) -> JobSpec:
    """Four parts of it take 38.5 GiB each."""
    count = {"minReplicas": workers, "maxReplicas": workers}
    return training(model=GCN, dataset={**DATASET, "vertices": vertices}, workers=count, partitioning={"balance": balance})


def mixed(big: int = 1, small: int = 3) -> ClusterSnapshot:
    """Slow GPUs with much memory beside fast ones with little."""
    slow = [gpu_node(f"big-{at}", free=8, product="Quadro-RTX-8000", gpu_memory_bytes=46 * GIB) for at in range(big)]
    fast = [gpu_node(f"small-{at}", free=8, product="NVIDIA-GeForce-RTX-3080", gpu_memory_bytes=10 * GIB) for at in range(small)]
    return snapshot(*slow, *fast)


@pytest.mark.parametrize("balance", ["Capacity", "Equal"])
def test_a_job_that_fits_alone_fits_beside_faster_nodes_with_less_memory(balance: str) -> None:
    alone, beside = planned(mixed(small=0), large_job(4, balance)), planned(mixed(), large_job(4, balance))
    assert Counter(worker.node for worker in beside.workers) == {"big-0": 4}
    assert beside.objective == pytest.approx(alone.objective)


def test_where_no_node_holds_an_equal_part_those_with_most_memory_are_tried_together() -> None:
    """Ten equal parts are too large for the small GPUs, and there are eight large ones."""
    plan = planned(mixed(), large_job(10, vertices=VERTICES * 23 // 10))
    nodes = Counter(worker.node for worker in plan.workers)
    assert nodes["big-0"] == 8
    assert sum(nodes.values()) == 10


def test_a_job_that_no_set_of_nodes_holds_is_refused() -> None:
    refusal = refused(mixed(), large_job(4, vertices=8 * VERTICES))
    assert refusal.reason == "NeverFits"


def reach_each_other(one: int, other: int) -> bool:
    """Of two nodes' teams: those of team 4 reach their own, of the others each reaches the three other teams."""
    return one == other == 4 or (one != other and 4 not in (one, other))


def test_the_only_nodes_that_all_reach_each_other_are_found() -> None:
    """Five slow ones of 24 do; the fast ones reach most of the others, and never five of them each other."""
    slow = set(range(1, 24, 5))
    fast = [at for at in range(24) if at not in slow]
    team = {at: fast.index(at) % 4 if at in fast else 4 for at in range(24)}  # of one team of fast nodes no two reach each other
    pairs = [(a, b) for a, b in permutations(range(24), 2) if reach_each_other(team[a], team[b])]
    links = tuple(link(f"n{a:02d}", f"n{b:02d}", 1e-4, 1e8 if a in slow else 1e10) for a, b in pairs)
    nodes = [gpu_node(f"n{at:02d}", product="Tesla-T4" if at in slow else PRODUCTS[3]) for at in range(24)]
    cluster = snapshot(*nodes, links=links, absent=AbsentLink.UNREACHABLE)
    plan = planned(cluster, training(workers={"minReplicas": 5, "maxReplicas": 5}))
    assert {int(worker.node[1:]) for worker in plan.workers} == slow


@pytest.mark.parametrize("seed", range(6))
def test_a_planted_set_that_reaches_itself_is_found_among_many_that_nearly_do(seed: int) -> None:
    rng = np.random.default_rng(seed)
    names = [f"n{at:02d}" for at in range(16)]
    reach = np.triu(rng.random((16, 16)) < 0.55, 1)
    planted = rng.choice(16, 7, replace=False)
    reach[np.ix_(planted, planted)] = True
    reach |= reach.T
    links = tuple(
        link(a, b, 1e-3, float(rng.uniform(1e7, 1e9))) for i, a in enumerate(names) for j, b in enumerate(names) if i != j and reach[i, j]
    )
    cluster = snapshot(*[gpu_node(name) for name in names], links=links, absent=AbsentLink.UNREACHABLE)
    assert len(planned(cluster, training(workers={"minReplicas": 7, "maxReplicas": 7})).workers) == 7


def measured_cluster(seed: int, nodes: int = 40) -> ClusterSnapshot:
    """Four GPUs a node, links of every pair measured; nodes differ in what their links reach."""
    rng = np.random.default_rng(seed)
    reach = np.exp(rng.normal(0.0, 0.4, nodes))
    members = [
        gpu_node(
            f"n{at:02d}",
            free=4,
            product=PRODUCTS[0],
            domain=("eu/a", "eu/b")[at % 2],
            network_bytes_per_second=measured(12.5e9),
            network_cards=1,
        )
        for at in range(nodes)
    ]
    links = []
    for a in range(nodes):
        for b in range(nodes):
            if a != b:
                zone = 1.0 if a % 2 == b % 2 else 0.4
                speed = 12.5e9 * min(1.0, float(reach[a] * reach[b] * np.exp(rng.normal(0.0, 0.3))) * zone)
                links.append(link(f"n{a:02d}", f"n{b:02d}", 2e-5 if a % 2 == b % 2 else 2e-4, speed))
    return snapshot(*members, links=tuple(links))


def test_one_worker_a_node_is_tried_where_nodes_have_room_for_several(monkeypatch: pytest.MonkeyPatch) -> None:
    model = {"architecture": "GAT", "layers": 2, "hiddenSize": 128, "heads": 4}
    job, cluster = training(model=model, workers={"minReplicas": 17, "maxReplicas": 17}), measured_cluster(10)
    plan = planned(cluster, job)
    monkeypatch.setattr(heuristic, "narrow_starts", lambda *_: [])
    full = planned(cluster, job)
    assert plan.objective < 0.97 * full.objective
