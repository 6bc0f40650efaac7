"""Jobs of more workers than one pool was made for: one neighbourhood holds them whole, and no question is left without an end."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from hyperscale.model.api.job import JobSpec
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.choice.portfolio import make_plan
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.repair import local_search
from hyperscale.planner.search import ring
from hyperscale.planner.workload.profile import profile
from tests.builders.clusters import GIB, gpu_node, planned, refused, snapshot, training
from tests.property.test_kernel_agreement import case

ZONE = "topology.kubernetes.io/zone"
DATASET = {"source": {"persistentVolumeClaim": {"claimName": "g"}}, "vertices": 111_000_000, "edges": 1_600_000_000, "featureSize": 128}


def zones(count: int = 5, each: int = 90) -> ClusterSnapshot:
    """Nodes of eight alike GPUs, in turn over the zones."""
    nodes = (gpu_node(f"n{at:03d}", free=8, product="NVIDIA-A100-SXM4-80GB", domain=f"eu/z{at % count}") for at in range(count * each))
    return snapshot(*nodes)


def job(workers: int, **placement: object) -> JobSpec:
    return training(dataset={**DATASET, "classes": 172}, workers={"minReplicas": workers, "maxReplicas": workers}, **placement)


@pytest.mark.parametrize("workers", [65, 88])
def test_a_job_of_more_than_64_workers_is_no_slower_than_inside_one_zone(workers: int) -> None:
    free, inside = planned(zones(), job(workers)), planned(zones(), job(workers, placement={"topology": {"required": ZONE}}))
    assert free.objective <= inside.objective * 1.01


def test_one_worker_more_does_not_make_the_others_much_better() -> None:
    """128 is the largest number of a pool; the plan for 129 less one worker is one for 128."""
    seen = zones(each=140)
    assert planned(seen, job(128)).objective <= planned(seen, job(129)).objective * 1.02


def test_a_large_job_that_no_nodes_could_hold_is_refused_before_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    def searched(*_: object) -> None:
        raise AssertionError("a search in vain takes minutes")

    monkeypatch.setattr("hyperscale.planner.choice.portfolio.propose", searched)
    small = snapshot(*(gpu_node(f"n{at:03d}", free=8, gpu_memory_bytes=GIB // 8) for at in range(20)))
    assert refused(small, job(100)).reason == "NeverFits"


def questioned(asked: int) -> Callable[[], bool]:
    """A clock that is up after `asked` questions."""
    left = [asked]

    def up() -> bool:
        left[0] -= 1
        return left[0] < 0

    return up


def pinned_half(seen: ClusterSnapshot, workers: int, expired: Callable[[], bool]) -> Plan | Infeasible:
    stays = {rank: f"n{rank // 8:03d}" for rank in range(0, workers, 2)}
    request = PlanRequest(job_key="a/b", job=job(workers), workers_fixed=workers, pinned=stays)
    policy = PolicySpec()
    return make_plan(request, build(seen, policy), profile(request.job), policy, expired=expired)


def test_many_lost_ranks_get_nodes_though_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """One gap after the other, each with whole rings, took longer than the planner lives."""
    cards = snapshot(
        *(gpu_node(f"n{at:03d}", free=8, product="NVIDIA-H100-80GB-HBM3", network_cards=8, domain=f"eu/z{at % 2}") for at in range(30))
    )

    def one_by_one(*_: object) -> None:
        raise AssertionError("estimates of whole rings, a gap at a time")

    monkeypatch.setattr(local_search, "WHOLE_ELEMENTS", 1000)
    monkeypatch.setattr(local_search.AssignmentState, "_joined", one_by_one)
    plan = pinned_half(cards, 40, questioned(1))
    assert isinstance(plan, Plan), plan
    assert [worker.node for worker in plan.workers][:8:2] == ["n000"] * 4


@pytest.mark.parametrize("rows", [0, 5])
def test_rings_that_are_reckoned_in_parts_are_the_same_rings(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All moves of a ring of 1,000 workers at once took two gigabytes."""
    costs, slots, workers, rng = case((12, 10, "Capacity", 0.0))
    seats = np.repeat(np.arange(len(slots)), slots)
    orders = np.array([rng.permutation(seats)[:workers] for _ in range(rows)], dtype=np.int64).reshape(rows, workers)
    stays = np.zeros(workers, dtype=np.bool_)
    whole = ring.ring_orders(costs, orders, stays)
    monkeypatch.setattr(ring, "HOPS_AT_ONCE", 1)
    assert (ring.ring_orders(costs, orders, stays) == whole).all()
    assert whole.shape == orders.shape
