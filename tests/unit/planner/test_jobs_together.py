"""Pending jobs placed together: what is saved, what stays, what is refused."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest

from hyperscale.model.admission_query import AdmissionRequest, AdmissionResult, QueuedJob
from hyperscale.model.api.policy import Overrides, PolicySpec, UplinkOverride
from hyperscale.model.cluster import ClusterSnapshot, Origin, Quality, Sample
from hyperscale.model.graph import ClusterGraph
from hyperscale.model.history.corrections import Corrections, Factor
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.check.queue_check import unsound
from hyperscale.planner.choice.given_order import plan_in_order
from hyperscale.planner.choice.portfolio import make_plan
from hyperscale.planner.cost.objective import Costs
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.problem.placement_problem import pose
from hyperscale.planner.queue.joint import take_turns
from hyperscale.planner.queue.placement_oracle import Expired, PlacementOracle
from hyperscale.planner.queue.queue_policies import choosers
from hyperscale.planner.service.frames import AskTurns, ClusterFrame, Turned
from hyperscale.planner.service.worker import PlannerService
from hyperscale.planner.together.shared_nodes import TogetherJob, shared_nodes
from hyperscale.planner.together.start_together import FAILED, Together, TogetherPlanner, posed_like
from hyperscale.planner.workload.profile import profile
from tests.builders.clusters import LEVELS, gpu_node, snapshot, training

POLICY = PolicySpec()


def together_on(graph: ClusterGraph, policy: PolicySpec = POLICY) -> TogetherPlanner:
    return TogetherPlanner(graph, policy, lambda request: profile(request.job), plan_in_order)


def decided(
    jobs: Sequence[QueuedJob], cluster: ClusterSnapshot, together: bool | Together = True, policy: PolicySpec = POLICY
) -> AdmissionResult:
    def place(request: PlanRequest, graph: ClusterGraph, expired: Expired) -> Plan | Infeasible:
        return make_plan(request, graph, profile(request.job), policy, expired=expired)

    graph = build(cluster, policy)
    planner = together_on(graph, policy) if together is True else together or None
    return take_turns(
        AdmissionRequest(jobs=tuple(jobs)), PlacementOracle(graph, policy, place), policy.queue, choosers(policy.queue), planner
    )


def job(name: str, workers: int, epochs: int = 10, hidden: int = 256, weight: float = 1.0) -> QueuedJob:
    spec = training(
        model={"architecture": "GraphSAGE", "layers": 2, "hiddenSize": hidden, "epochs": epochs},
        workers={"minReplicas": workers, "maxReplicas": workers, "resources": {"limits": {"nvidia.com/gpu": 1}}},
    )
    return QueuedJob(PlanRequest(job_key=f"team/{name}", job=spec), 1.0, weight)


def fast_and_slow() -> ClusterSnapshot:
    """Four fast GPUs in one rack, four slow ones in another: a short job that starts first takes what a long one needs more."""
    fast = [gpu_node(f"fast{index}", free=1, domain="eu/a", product="NVIDIA-H100-80GB-HBM3") for index in range(4)]
    slow = [gpu_node(f"slow{index}", free=1, domain="eu/b", product="Tesla-T4") for index in range(4)]
    return snapshot(*fast, *slow)


def weighted_sum(turns: AdmissionResult, jobs: Sequence[QueuedJob]) -> float:
    of_key = {queued.request.job_key: queued for queued in jobs}
    return sum(of_key[start.key].weight * of_key[start.key].request.job.model.epochs * start.plan.objective for start in turns.starts)


JOBS = (job("short", 4, epochs=200), job("long", 4, epochs=300))


def test_the_longer_job_gets_the_faster_nodes_when_both_start_together() -> None:
    cluster = fast_and_slow()
    alone, together = decided(JOBS, cluster, together=False), decided(JOBS, cluster)
    assert [start.key for start in together.starts] == [start.key for start in alone.starts] == ["team/short", "team/long"]
    assert weighted_sum(together, JOBS) < 0.99 * weighted_sum(alone, JOBS)
    nodes = {start.key: {worker.node[:4] for worker in start.plan.workers} for start in together.starts}
    assert nodes == {"team/short": {"slow"}, "team/long": {"fast"}}


def test_the_plans_say_what_placing_them_together_saves() -> None:
    turns = decided(JOBS, fast_and_slow())
    for start in turns.starts:
        assert start.plan.reasons[0].startswith("placed together with 1 other job: the sum of their predicted runs is ")
        assert start.run_seconds == start.plan.predicted.epoch_seconds * (200 if start.key == "team/short" else 300)


def test_the_operator_s_check_accepts_every_plan() -> None:
    cluster = fast_and_slow()
    assert unsound(decided(JOBS, cluster), AdmissionRequest(jobs=JOBS), cluster) == ()


def test_a_job_that_has_waited_too_long_is_not_slowed_for_others() -> None:
    late = msgspec.structs.replace(JOBS[0], waited_seconds=POLICY.queue.starvation_seconds + 1.0)
    cluster = fast_and_slow()
    alone, turns = decided((late, JOBS[1]), cluster, together=False), decided((late, JOBS[1]), cluster)
    before, after = ({start.key: start.run_seconds for start in each.starts} for each in (alone, turns))
    assert after["team/short"] <= before["team/short"] * (1.0 + 1e-9)


def test_a_fault_leaves_the_plans_made_one_after_the_other() -> None:
    cluster = fast_and_slow()
    graph = build(cluster, POLICY)

    def broken(*_: object) -> Plan | None:
        raise ValueError("no plan")

    turns = decided(JOBS, cluster, TogetherPlanner(graph, POLICY, lambda request: profile(request.job), broken))
    alone = decided(JOBS, cluster, together=False)
    assert turns.starts == alone.starts
    assert turns.fallbacks == (FAILED,)


def test_a_plan_that_the_check_refuses_leaves_all_as_they_are() -> None:
    cluster = fast_and_slow()
    refusing = TogetherPlanner(build(cluster, POLICY), POLICY, lambda request: profile(request.job), lambda *_: None)
    assert decided(JOBS, cluster, refusing).starts == decided(JOBS, cluster, together=False).starts


def test_a_single_job_is_planned_as_before() -> None:
    cluster = fast_and_slow()
    assert decided(JOBS[:1], cluster) == decided(JOBS[:1], cluster, together=False)


def test_out_of_memory_ends_the_planner() -> None:
    cluster = fast_and_slow()

    def full(*_: object) -> Plan | None:
        raise MemoryError

    with pytest.raises(MemoryError):
        decided(JOBS, cluster, TogetherPlanner(build(cluster, POLICY), POLICY, lambda request: profile(request.job), full))


def test_a_decision_that_must_be_answered_keeps_the_plans_one_after_the_other() -> None:
    cluster = fast_and_slow()
    late = TogetherPlanner(build(cluster, POLICY), POLICY, lambda request: profile(request.job), plan_in_order, expired=lambda: True)
    turns = decided(JOBS, cluster, late)
    assert (turns.starts, turns.fallbacks) == (decided(JOBS, cluster, together=False).starts, ())


def two_racks(name: str) -> ClusterSnapshot:
    """Two racks of four GPUs each, fast and slow, on InfiniBand with two cards a node or behind an uplink that the policy limits."""
    fabric = {"network_cards": 2, "network_bytes_per_second": Sample(2e9, 3.0, Quality.MEASURED, source=Origin.INFINIBAND)}
    given: dict[str, Any] = fabric if name == "rails" else {}
    fast = [gpu_node(f"fast{index}", free=2, domain="eu/a", product="NVIDIA-H100-80GB-HBM3", **given) for index in range(2)]
    slow = [gpu_node(f"slow{index}", free=2, domain="eu/b", product="Tesla-T4", **given) for index in range(2)]
    return snapshot(*fast, *slow)


@pytest.mark.parametrize("name", ["rails", "uplinks"])
def test_jobs_on_cards_and_uplinks_that_they_share_are_placed_together(name: str) -> None:
    uplinks = (UplinkOverride(level=LEVELS[1], bytes_per_second=1e9),) if name == "uplinks" else ()
    policy = PolicySpec(overrides=Overrides(uplinks=uplinks))
    cluster = two_racks(name)
    alone, together = decided(JOBS, cluster, together=False, policy=policy), decided(JOBS, cluster, policy=policy)
    assert (together.fallbacks, alone.fallbacks) == ((), ())
    assert weighted_sum(together, JOBS) < 0.99 * weighted_sum(alone, JOBS)
    assert all(start.plan.reasons[0].startswith("placed together with 1 other job") for start in together.starts)


@pytest.mark.parametrize("name", ["rails", "uplinks"])
def test_every_job_has_all_costs_of_its_nodes(name: str) -> None:
    policy = PolicySpec(overrides=Overrides(uplinks=(UplinkOverride(level=LEVELS[1], bytes_per_second=1e9),)))
    graph = build(two_racks(name), policy)
    posed = [pose(queued.request, graph, profile(queued.request.job), policy) for queued in (*JOBS, job("further", 2, hidden=64))]
    shared = shared_nodes([TogetherJob(problem, (0, 0, 1, 1)[: problem.request.job.workers.max_replicas]) for problem in posed])
    for problem, each in zip(posed, shared.of_job, strict=True):
        own = problem.costs(np.arange(len(problem.nodes)))
        for field in dataclasses.fields(Costs):
            np.testing.assert_array_equal(getattr(each.costs, field.name), getattr(own, field.name), field.name)


def test_jobs_that_history_corrects_otherwise_do_not_share_links() -> None:
    graph = build(fast_and_slow(), POLICY)
    taught = Corrections(untried=Factor("", 1.0, 0.0, 9), tiers=(Factor(LEVELS[0], 2.0, 0.0, 9), Factor(LEVELS[1], 2.0, 0.0, 9)), runs=9)
    requests = (JOBS[0].request, msgspec.structs.replace(JOBS[1].request, corrections=taught))
    posed = [pose(request, graph, profile(request.job), POLICY) for request in requests]
    shared = shared_nodes([TogetherJob(problem, (0, 1, 2, 3)) for problem in posed])
    one, other = (each.costs.seconds_per_byte for each in shared.of_job)
    assert (other[~np.eye(8, dtype=bool)] > 1.5 * one[~np.eye(8, dtype=bool)]).all()


def test_a_problem_taken_from_a_job_alike_is_the_one_that_would_be_posed() -> None:
    graph = build(fast_and_slow(), POLICY)
    first, second = (queued.request for queued in (job("one", 4), job("other", 2, epochs=3)))
    posed = pose(second, graph, profile(second.job), POLICY)
    taken = posed_like(pose(first, graph, profile(first.job), POLICY), second, profile(second.job))
    assert taken is not None
    assert taken.identity == posed.identity
    assert taken.vetting == posed.vetting


def test_a_job_with_other_needs_is_posed_anew() -> None:
    graph = build(fast_and_slow(), POLICY)
    first, second = job("one", 4).request, job("other", 4).request
    apart = msgspec.structs.replace(second, apart=True)
    assert posed_like(pose(first, graph, profile(first.job), POLICY), second, profile(second.job)) is not None
    assert posed_like(pose(first, graph, profile(first.job), POLICY), apart, profile(second.job)) is None


def test_the_planner_process_places_jobs_together() -> None:
    service, cluster = PlannerService(time.monotonic), fast_and_slow()
    service.learn(ClusterFrame("cluster", cluster, POLICY))
    answer = service.answer(AskTurns(1, "cluster", AdmissionRequest(jobs=JOBS)))
    assert isinstance(answer, Turned)
    assert all(start.plan.reasons[0].startswith("placed together with 1 other job") for start in answer.turns.starts)
    assert unsound(answer.turns, AdmissionRequest(jobs=JOBS), cluster) == ()
