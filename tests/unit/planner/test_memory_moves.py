"""Where GPU memory limits shares, no plan is left that one worker on another node would make better."""

from __future__ import annotations

import numpy as np
import pytest

from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.problem.placement_problem import pose
from hyperscale.planner.search import heuristic
from hyperscale.planner.workload.profile import profile
from tests.builders.clusters import GIB, POLICY, gpu_node, planned, snapshot
from tests.unit.planner.test_narrow_starts import large_job

PRODUCTS = ("Quadro-RTX-8000", "NVIDIA-GeForce-RTX-3080", "NVIDIA-A100-SXM4-80GB")

COUNTS_AS_EQUAL = 1.01
"""The policy's tolerance: of two plans so near the one that leaves larger gaps free may win."""


def drawn(seed: int) -> ClusterSnapshot:
    """Twelve nodes of one to four GPUs, of three products and four sizes of memory."""
    rng = np.random.default_rng(seed)
    sizes, memory = rng.integers(1, 5, 12), rng.choice([8, 12, 20, 46], 12)
    products = rng.integers(3, size=12)
    return snapshot(
        *(
            gpu_node(f"n{at:02d}", free=int(sizes[at]), product=PRODUCTS[products[at]], gpu_memory_bytes=int(memory[at]) * GIB)
            for at in range(12)
        )
    )


@pytest.mark.parametrize("seed", range(12))
def test_no_node_left_out_would_make_the_plan_better(seed: int) -> None:
    plan = planned(drawn(seed), large_job(12))
    missed = [rejection for rejection in plan.rejected if "the search did not get there" in rejection.message]
    assert not missed


@pytest.mark.parametrize("seed", [0, 1, 2, 4, 6])
def test_a_mixed_cluster_is_no_slower_than_its_large_nodes_alone(seed: int) -> None:
    """Nodes of less memory beside them only add choices."""
    every = drawn(seed)
    large = snapshot(*(node for node in every.nodes if node.gpu_memory_bytes == 46 * GIB))
    workers = sum(node.free_gpus for node in large.nodes)
    assert planned(every, large_job(workers)).objective <= planned(large, large_job(workers)).objective * COUNTS_AS_EQUAL


@pytest.mark.parametrize("balance", ["Capacity", "Equal"])
@pytest.mark.parametrize("lone", [0, 2, 3])
def test_few_nodes_of_enough_memory_are_found_among_very_many_others(balance: str, lone: int) -> None:
    """The others, all alike and as fast, fill every pool of a large cluster; a lone node among them may just make the job fit there."""
    small = [gpu_node(f"a{at:03d}", free=8, gpu_memory_bytes=9 * GIB) for at in range(300)]
    large = [gpu_node(f"b{at:03d}", free=8, gpu_memory_bytes=80 * GIB) for at in range(20)]
    job = large_job(4, balance)
    first = [gpu_node("a000x", free=lone, gpu_memory_bytes=80 * GIB)] if lone else []
    plan = planned(snapshot(*small, *first, *large), job)
    assert plan.objective == pytest.approx(planned(snapshot(*large), job).objective, rel=1e-9)


def test_a_job_that_no_memory_holds_is_not_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search ends at its deadline only where it has found a placement: in vain it would take seconds of a planner's time."""
    monkeypatch.setattr(heuristic, "ways", lambda *_: pytest.fail("searched"))
    small = snapshot(*(gpu_node(f"n{at:02d}", free=1, gpu_memory_bytes=2 * GIB) for at in range(12)))
    job = large_job(12)
    problem = pose(PlanRequest(job_key="team-a/gnn", job=job), build(small, POLICY), profile(job), POLICY)
    assert not tuple(heuristic.Heuristic().candidates(problem, lambda: False))
