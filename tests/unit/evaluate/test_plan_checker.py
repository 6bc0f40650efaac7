"""What the Python checker says of a plan, and that it agrees with the operator's own judge of plans."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from hyperscale.evaluate.verify.normal_form import NO_DOMAIN, UNLIMITED
from hyperscale.evaluate.verify.placement_solver import unsatisfied
from hyperscale.evaluate.verify.plan_checker import broken_constraints, check_plan
from hyperscale.evaluate.verify.plan_constraints import facts_of, limits_of
from hyperscale.evaluate.verify.solver import BooleanSolver, SolverBudgetError
from hyperscale.model.cluster import AbsentLink, ClusterSnapshot
from hyperscale.model.plan import Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.check.plan_check import violations
from tests.builders.clusters import GIB, LEVELS, both_ways, gpu_node, planned, random_cluster, snapshot, training
from tests.proofs.extracted import wire

KEY = "team-a/gnn"


def pair(**fields: object) -> tuple[Plan, PlanRequest, ClusterSnapshot]:
    """Two workers on two nodes."""
    whole = snapshot(gpu_node("a", free=1), gpu_node("b", free=1))
    job = training(workers={"minReplicas": 2, "maxReplicas": 2})
    return planned(whole, job), PlanRequest(job_key=KEY, job=job, **fields), whole  # type: ignore[arg-type] # fields of one struct


@pytest.mark.parametrize("seed", range(6))
def test_plans_of_the_planner_are_consistent(seed: int) -> None:
    whole = random_cluster(seed, 8, free_max=3, unreachable=0.2 if seed % 2 else 0.0)
    job = training(workers={"minReplicas": 2, "maxReplicas": 5})
    plan = planned(whole, job, seed=seed)
    request = PlanRequest(job_key=KEY, job=job, seed=seed)
    assert check_plan(plan, request, whole) == () == violations(plan, request, whole)


def test_a_full_node_is_named_with_its_free_gpus() -> None:
    plan, request, whole = pair()
    name = plan.workers[0].node
    assert check_plan(plan, replace(request, free_gpus={name: 0}), whole) == (f"capacity: {name} has 0 free GPUs, the plan takes 1 there",)


def test_a_quota_below_the_plan_is_named_with_both_figures() -> None:
    plan, request, whole = pair()
    assert check_plan(plan, request, whole, quota_gpus=1) == ("quota: the plan takes 2 GPUs, the namespace may take 1",)
    assert check_plan(plan, request, whole, quota_gpus=2) == ()


def test_a_negative_quota_is_refused() -> None:
    with pytest.raises(ValueError, match="quota_gpus: -1 is below 0"):
        limits_of(*pair()[1:], quota_gpus=-1)


def test_workers_that_run_already_take_neither_room_nor_quota() -> None:
    plan, request, whole = pair(pinned={0: "a", 1: "b"}, free_gpus={"a": 0, "b": 0})
    stays = replace(plan, workers=tuple(replace(worker, node=name) for worker, name in zip(plan.workers, "ab", strict=True)))
    assert check_plan(stays, request, whole, quota_gpus=0) == ()


def test_gpu_memory_that_a_node_does_not_state_is_not_taken_for_zero() -> None:
    plan, request, whole = pair()
    unstated = replace(whole, nodes=tuple(replace(node, gpu_memory_bytes=None) for node in whole.nodes))
    assert limits_of(request, unstated).nodes[0].gpu_memory_bytes == UNLIMITED
    asked = replace(request, job=replace(request.job, workers=replace(request.job.workers, gpu_memory=GIB)))
    assert any("states none" in sentence for sentence in check_plan(plan, asked, unstated))


def test_resources_of_decimal_fractions_fit_exactly() -> None:
    plan, request, whole = pair(resources={"cpu": 0.1})
    tight = replace(whole, nodes=tuple(replace(node, allocatable_cpu_cores=0.3, requested_cpu_cores=0.2) for node in whole.nodes))
    assert check_plan(plan, request, tight) == () == violations(plan, request, tight)


def test_a_share_that_is_no_number_is_named() -> None:
    plan, request, whole = pair()
    wrong = replace(plan, workers=(replace(plan.workers[0], share=float("nan")), plan.workers[1]))
    assert any(sentence.startswith("shares: worker 0 has share 0") for sentence in check_plan(wrong, request, whole))


def test_ranks_hold_their_partitions_in_order() -> None:
    plan, request, whole = pair()
    facts = facts_of(replace(plan, partitions=6), request, whole)
    assert facts.parts_by_rank == ((0, 1, 2), (3, 4, 5))


def test_the_domain_of_a_node_without_the_required_label_is_none() -> None:
    job = training(workers={"minReplicas": 1, "maxReplicas": 1}, placement={"topology": {"required": LEVELS[1]}})
    whole = snapshot(gpu_node("a"), gpu_node("b", domains=("eu", "")))
    limits = limits_of(PlanRequest(job_key=KEY, job=job), whole)
    assert [node.domain for node in limits.nodes] == [1, NO_DOMAIN]


def test_a_ring_over_a_missing_path_is_named() -> None:
    plan, request, whole = pair()
    one_way = replace(whole, links=both_ways(["a", "b"])[:1], absent_links=AbsentLink.UNREACHABLE)
    assert check_plan(plan, request, one_way) == ("hops: b cannot reach a, the next node of the ring",)


@pytest.mark.parametrize("field", ["index", "first_rank", "gpus", "share"])
@pytest.mark.parametrize("value", [-1, 10**9, 2**70])
def test_numbers_that_no_plan_has_are_faults_and_cost_no_memory(field: str, value: int) -> None:
    plan, request, whole = pair()
    wrong = replace(plan, workers=(replace(plan.workers[0], **{field: value}), plan.workers[1]))
    assert check_plan(wrong, request, whole)
    pytest.importorskip("z3")
    limits, facts = limits_of(request, whole, 9), facts_of(wrong, request, whole)
    assert frozenset(unsatisfied(limits, facts)) == frozenset(one.constraint for one in broken_constraints(limits, facts))
    assert all(0 <= number < 2**61 for number in wire(limits, facts))


@pytest.mark.parametrize("partitions", [-3, 0, 10**12])
def test_a_number_of_partitions_that_no_plan_has_is_a_fault(partitions: int) -> None:
    plan, request, whole = pair()
    faults = check_plan(replace(plan, partitions=partitions), request, whole)
    assert any(sentence.startswith("partitions: ") for sentence in faults)


def test_a_budget_that_ends_is_an_error_and_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("z3")
    plan, request, whole = pair()
    monkeypatch.setattr(BooleanSolver, "satisfiable", lambda self, names: None)
    with pytest.raises(SolverBudgetError, match="z3 has no answer within"):
        unsatisfied(limits_of(request, whole), facts_of(plan, request, whole))
