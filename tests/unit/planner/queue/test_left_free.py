"""A start leaves faster GPUs free for other jobs where they gain it little."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from hyperscale.model.admission_query import AdmissionRequest, AdmissionResult, QueuedJob, RunningShare
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.graph import ClusterGraph
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.check.queue_check import unsound
from hyperscale.planner.choice.portfolio import make_plan
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.queue.joint import take_turns
from hyperscale.planner.queue.left_free import MOST_LONGER, Competition, HeldPlacement, cheapest, holding_price, longest_run
from hyperscale.planner.queue.placement_oracle import Expired, PlacementOracle
from hyperscale.planner.queue.queue_policies import choosers
from hyperscale.planner.together.start_together import BegunJob, Together, TogetherAnswer
from hyperscale.planner.workload.profile import profile
from tests.builders.clusters import both_ways, gpu_node, snapshot, training

POLICY = PolicySpec()
FAST = [gpu_node(f"fast{index}", product="NVIDIA-H100-80GB-HBM3") for index in range(2)]
SLOW = [gpu_node(f"slow{index}", product="NVIDIA-A10") for index in range(3)]
CLUSTER = snapshot(*FAST, *SLOW, links=both_ways([node.name for node in (*FAST, *SLOW)]))


def job(name: str, workers: int, epochs: int, hidden: int = 256, waited_seconds: float = 1.0) -> QueuedJob:
    spec = training(
        model={"architecture": "GraphSAGE", "layers": 2, "hiddenSize": hidden, "epochs": epochs},
        workers={"minReplicas": workers, "maxReplicas": workers, "resources": {"limits": {"nvidia.com/gpu": 1}}},
    )
    return QueuedJob(PlanRequest(job_key=f"team/{name}", job=spec), waited_seconds)


TALKS = job("talks", 2, epochs=100)
"""Its workers wait for the network most of the time: GPUs ten times as fast shorten it by a seventh."""
LONG = job("long", 2, epochs=200)
"""It fits beside the other, and starts after it."""


def decided(
    jobs: Sequence[QueuedJob], *, running: int = 0, policy: PolicySpec = POLICY, together: Together | None = None, hurried: bool = False
) -> AdmissionResult:
    def place(request: PlanRequest, graph: ClusterGraph, expired: Expired) -> Plan | Infeasible:
        return make_plan(request, graph, profile(request.job), policy, expired=expired)

    shares = tuple(RunningShare(f"team/runs{index}", 1, 1e6) for index in range(running))
    desk = PlacementOracle(build(CLUSTER, policy), policy, place)
    desk.hurried = lambda: hurried
    return take_turns(AdmissionRequest(jobs=tuple(jobs), running=shares), desk, policy.queue, choosers(policy.queue), together)


def kinds(turns: AdmissionResult, name: str) -> set[str]:
    plan = next(start.plan for start in turns.starts if start.key == f"team/{name}")
    return {worker.node[:4] for worker in plan.workers}


def test_a_job_that_gains_little_leaves_the_fast_gpus_to_one_that_waits() -> None:
    turns = decided((TALKS, LONG))
    assert [start.key for start in turns.starts] == ["team/talks", "team/long"]
    assert (kinds(turns, "talks"), kinds(turns, "long")) == ({"slow"}, {"fast"})


def test_alone_it_gets_the_fast_gpus() -> None:
    assert kinds(decided((TALKS,)), "talks") == {"fast"}


def test_it_leaves_them_to_as_many_jobs_to_come_as_run() -> None:
    assert kinds(decided((TALKS,), running=2), "talks") == {"slow"}


def test_it_leaves_nothing_to_jobs_that_do_not_fit_beside_it() -> None:
    assert kinds(decided((TALKS, job("large", 4, epochs=1000))), "talks") == {"fast"}


def test_a_job_that_has_waited_too_long_leaves_nothing() -> None:
    late = msgspec.structs.replace(TALKS, waited_seconds=POLICY.queue.starvation_seconds + 1.0)
    assert kinds(decided((late, LONG)), "talks") == {"fast"}


def test_without_patience_for_better_nodes_no_run_is_longer_than_it_must() -> None:
    strict = PolicySpec(queue=msgspec.structs.replace(POLICY.queue, max_start_slowdown=1.0))
    assert kinds(decided((TALKS, LONG), policy=strict), "talks") == {"fast"}


def test_where_time_is_short_the_first_placement_is_taken() -> None:
    assert kinds(decided((TALKS, LONG), hurried=True), "talks") == {"fast"}


def test_the_plan_says_how_much_longer_the_run_is_and_why() -> None:
    plan = decided((TALKS, LONG)).starts[0].plan
    alone = decided((TALKS,)).starts[0].plan
    longer = 100.0 * (plan.predicted.epoch_seconds / alone.predicted.epoch_seconds - 1.0)
    assert 1.0 < longer < 100.0
    assert plan.reasons[0].startswith(f"leaves faster GPUs free for other jobs: the run is {longer:.0f} % longer and holds ")


def test_the_operator_s_check_accepts_the_plans() -> None:
    assert unsound(decided((TALKS, LONG)), AdmissionRequest(jobs=(TALKS, LONG)), CLUSTER) == ()


def test_jobs_that_leave_gpus_free_are_not_placed_together_on_them() -> None:
    asked: list[Sequence[BegunJob]] = []

    def together(jobs: Sequence[BegunJob]) -> TogetherAnswer:
        asked.append(jobs)
        return TogetherAnswer(tuple(each.plan for each in jobs))

    decided((TALKS, LONG), together=together)
    assert not asked
    decided((job("one", 1, epochs=10), job("two", 1, epochs=10)), together=together)
    assert len(asked) == 1


def test_the_cheapest_placement_counts_what_others_lose() -> None:
    placements = [HeldPlacement(100.0, 0.5), HeldPlacement(120.0, 0.2), HeldPlacement(150.0, 0.05)]
    assert [cheapest(placements, price, 1000.0) for price in (0.0, 0.5, 1.0, 10.0)] == [0, 0, 1, 2]
    assert cheapest(placements, 10.0, 130.0) == 1
    assert cheapest(placements, 10.0, 50.0) == 0
    with pytest.raises(ValueError, match="no placement"):
        cheapest([], 1.0, 1.0)


def test_a_run_is_at_most_twice_as_long_and_within_patience() -> None:
    assert longest_run(10.0, 1000.0) == MOST_LONGER * 10.0
    assert longest_run(10.0, 15.0) == 15.0
    assert longest_run(10.0, 5.0) == 10.0


def test_the_price_is_half_of_the_jobs_that_others_lose_over_the_own_weight() -> None:
    assert holding_price(Competition(2.0, 3.0, 5.0, 1.0)) == pytest.approx(2.0)
    assert holding_price(Competition(1.0, 0.0, 0.0, 1.0)) == 0.0
