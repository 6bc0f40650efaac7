"""Running jobs that may resume with another worker count: one grows onto free GPUs, one gives some to a job that waits."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from hyperscale.model.admission_query import Claim, QueuedJob
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.history.corrections import COST_MODEL
from hyperscale.model.plan import Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.model.running_query import PreemptibleJob, PreemptionAnswer, PreemptionQuestion, RunningJob
from hyperscale.planner.choice.portfolio import make_plan
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.preempt.preemption_problem import Terms
from hyperscale.planner.preempt.preemption_question import evaluate_preemptions
from hyperscale.planner.preempt.round_start import reassigned
from hyperscale.planner.queue.kinds import Contender, KindDemand
from hyperscale.planner.queue.placement_oracle import PlacementOracle
from hyperscale.planner.queue.queue_policies import choosers
from hyperscale.planner.workload.profile import profile
from tests.builders.clusters import gpu_node, snapshot, training

POLICY = PolicySpec()
TERMS = Terms(min_gain_ratio=0.1, hold_down_seconds=600.0, restart_seconds=60.0)


def asked(name: str, epochs: int, least: int, most: int) -> PlanRequest:
    model = {"architecture": "GraphSAGE", "layers": 3, "hiddenSize": 256, "epochs": epochs}
    return PlanRequest(job_key=f"team/{name}", job=training(model=model, workers={"minReplicas": least, "maxReplicas": most}))


def oracle(seen: ClusterSnapshot) -> PlacementOracle:
    return PlacementOracle(
        build(seen, POLICY),
        POLICY,
        lambda request, graph, expired: make_plan(request, graph, profile(request.job), POLICY, expired=expired),
    )


def answered(
    runs: PlanRequest,
    workers: int,
    *waiting: PlanRequest,
    resizable: bool = True,
    terms: Terms = TERMS,
    weight: float = 1.0,
    cost_model: int | None = COST_MODEL,
) -> PreemptionAnswer:
    """A node of four GPUs, `runs` on some of them, and what the planner says of it."""
    empty = snapshot(gpu_node("n0", free=4, product="NVIDIA-A100-SXM4-80GB"))
    seen = snapshot(gpu_node("n0", free=4, product="NVIDIA-A100-SXM4-80GB", requested_gpus=workers))
    request = PlanRequest(job_key=runs.job_key, job=runs.job, workers_fixed=workers)
    plan = oracle(empty).now(request)
    assert isinstance(plan, Plan)
    plan = replace(plan, predicted=replace(plan.predicted, cost_model=cost_model))
    claims = {"n0": Claim(gpus=workers)}
    epochs = float(runs.job.model.epochs)
    running = RunningJob(runs if resizable else request, plan, claims, epochs, 10.0)
    question = PreemptionQuestion(
        pending=tuple(QueuedJob(other, 60.0, weight) for other in waiting),
        running=(PreemptibleJob(running, held_seconds=1e4, resizable=resizable),),
        claims=claims,
        deadline_seconds=30.0,
    )
    return evaluate_preemptions(question, oracle(seen), POLICY.queue, terms, choosers(POLICY.queue))


def test_a_job_alone_on_its_cluster_grows_onto_free_gpus() -> None:
    (stop,) = answered(asked("long", 100_000, 1, 4), 1).stops
    assert (stop.key, stop.beneficiaries, stop.workers) == ("team/long", ("team/long",), 4)
    assert stop.saved_seconds > stop.price_seconds


def test_a_job_that_an_earlier_cost_model_planned_is_neither_resized_nor_stopped() -> None:
    """Its seconds to the end would be weighed against those that today's model predicts of other counts."""
    assert answered(asked("long", 100_000, 1, 4), 1, cost_model=None) == PreemptionAnswer()
    assert answered(asked("long", 100_000, 1, 4), 4, asked("short", 2000, 2, 2), cost_model=None) == PreemptionAnswer()


@pytest.mark.parametrize(("epochs", "resizable"), [(100_000, False), (20, True)])
def test_a_job_of_a_fixed_count_or_near_its_end_does_not_grow(epochs: int, resizable: bool) -> None:
    assert answered(asked("long", epochs, 1, 4), 1, resizable=resizable) == PreemptionAnswer()


def test_a_job_that_has_all_its_workers_is_left_alone() -> None:
    assert answered(asked("long", 100_000, 1, 4), 4) == PreemptionAnswer()


def test_a_wide_job_gives_gpus_to_a_waiting_one_and_resumes_with_the_rest() -> None:
    (stop,) = answered(asked("long", 20_000, 1, 4), 4, asked("other", 5000, 2, 2), weight=10.0).stops
    assert stop.beneficiaries == ("team/other", "team/long")
    assert stop.workers is not None
    assert 1 <= stop.workers <= 2


def test_a_wide_job_stops_for_a_short_one_where_only_its_own_count_is_worth_resuming_with() -> None:
    (stop,) = answered(asked("long", 100_000, 1, 4), 4, asked("short", 2000, 2, 2)).stops
    assert (stop.beneficiaries, stop.workers) == (("team/short",), None)


def test_no_more_jobs_are_stopped_at_once_than_the_policy_says() -> None:
    bound = Terms(0.1, 600.0, 60.0, max_stops=1)
    assert len(answered(asked("long", 100_000, 1, 4), 4, asked("short", 2000, 2, 2), terms=bound).stops) == 1


def test_an_assignment_over_all_jobs_shrinks_the_wide_one_and_moves_no_job_that_must_stay() -> None:
    wide = Contender(
        "team/wide",
        (KindDemand(1, (1000.0,)), KindDemand(2, (600.0,)), KindDemand(4, (400.0,))),
        gpus_by_kind=(4,),
        left_seconds=390.0,
        stoppable=True,
    )
    short = Contender("team/short", (KindDemand(2, (20.0,)),))
    stays = Contender("team/stays", (KindDemand(1, (500.0,)),), weight=0.0, gpus_by_kind=(1,), left_seconds=500.0)
    mixed = Contender("team/mixed", (KindDemand(2, (500.0,)),), gpus_by_kind=(2,), left_seconds=500.0, stoppable=False)
    assert reassigned([wide, short, stays, mixed], [0]) == {"team/wide"}
    assert reassigned([wide, stays, mixed], [0]) == set()
