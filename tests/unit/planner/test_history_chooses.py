"""What finished runs teach the cost model changes placements and worker counts, and the plan says so."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from hyperscale.evaluate.calibration.speed_fit import corrections_of
from hyperscale.evaluate.calibration.taught_run import TaughtRun
from hyperscale.model.api.policy import GpuModel, HistoryPlacement, HistoryPolicy, PolicySpec
from hyperscale.model.history.corrections import COST_MODEL, MEASURED, Corrections, Factor, PartKind
from hyperscale.model.plan import Correction, Plan
from hyperscale.model.planning import PlanRequest, chosen_corrections
from hyperscale.planner.check.artifact import to_json
from hyperscale.planner.choice.portfolio import make_plan
from hyperscale.planner.choice.trust import held_fast
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.search.heuristic import Heuristic
from hyperscale.planner.workload.profile import profile
from tests.builders.clusters import POLICY, PRODUCTS, both_ways, gpu_node, planned, snapshot, training

A100, V100, T4, H100 = PRODUCTS
ONE_WORKER = training(workers={"minReplicas": 1, "maxReplicas": 1})
SURE = 0.01
TWO_KINDS = snapshot(*(gpu_node(name, product=product) for name, product in (("a", A100), ("b", A100), ("c", V100), ("d", V100))))
FOUR = snapshot(*(gpu_node(name) for name in "abcd"))
STATED_ONLY = PolicySpec(history=HistoryPolicy(max_exploration_percent=0))


def factor(name: str, seconds: float, error: float = SURE, rate: float = 0.0) -> Factor:
    return Factor(name, seconds, error, 9, rate)


def taught(**kinds: Any) -> Corrections:
    return replace(Corrections(untried=factor("", 1.0), runs=9, all_runs=9, spread=0.1), **kinds)


def two_workers(corrections: Corrections | None, policy: PolicySpec = POLICY) -> Plan:
    return planned(TWO_KINDS, training(workers={"minReplicas": 2, "maxReplicas": 2}), policy, corrections=corrections)


def nodes_of(plan: Plan) -> set[str]:
    return {worker.node for worker in plan.workers}


def exact_run(plan: Plan, cards: bool) -> TaughtRun:
    """A run that takes what was predicted; its parts with or without those of cards."""
    parts = tuple(part for part in plan.predicted.parts if cards or part.kind is not PartKind.CARD)
    return TaughtRun("team", "GraphSAGE", parts, plan.predicted.epoch_seconds, plan.predicted.epoch_seconds)


def seconds_of(plan: Plan, kind: PartKind) -> float:
    return math.fsum(part.seconds for part in plan.predicted.parts if part.kind is kind)


def test_a_product_that_was_slower_than_its_table_is_left_for_another() -> None:
    assert nodes_of(two_workers(None)) == {"a", "b"}
    assert nodes_of(two_workers(taught(products=(factor(A100, 3.0),)))) == {"c", "d"}


def test_links_that_were_slower_than_their_tier_take_fewer_workers() -> None:
    zone = "topology.kubernetes.io/zone"
    fast, slow = (planned(FOUR, corrections=taught(tiers=(factor(zone, each),))) for each in (0.25, 4.0))
    assert len(fast.workers) == 4
    assert len(slow.workers) == 1


def test_a_slow_network_card_is_avoided() -> None:
    job = training(workers={"minReplicas": 3, "maxReplicas": 3})
    assert "a" in nodes_of(planned(FOUR, job))
    assert "a" not in nodes_of(planned(FOUR, job, corrections=taught(cards=(factor("a", 3.0),))))


def test_measured_links_are_no_part_of_their_tier() -> None:
    names = ["a", "b", "c", "d"]
    measured = snapshot(*(gpu_node(name) for name in names), links=both_ways(names))
    job = training(workers={"minReplicas": 4, "maxReplicas": 4})
    by_tier = planned(measured, job, corrections=taught(tiers=(factor("topology.kubernetes.io/zone", 4.0),)), policy=STATED_ONLY)
    assert by_tier.predicted.epoch_seconds == pytest.approx(planned(measured, job).predicted.epoch_seconds)
    of_measured = planned(measured, job, corrections=taught(tiers=(factor(MEASURED, 4.0),)))
    fixed = seconds_of(of_measured, PartKind.UNCORRECTED)  # NCCL's own time
    links = by_tier.predicted.communication_seconds - fixed
    assert 0.0 < fixed < 0.1 * links
    assert of_measured.predicted.communication_seconds == pytest.approx(4.0 * links + fixed, rel=1e-4)


def test_the_plan_names_the_factors_and_the_figure_that_they_changed() -> None:
    plan = two_workers(taught(products=(factor(A100, 1.5),), tiers=(factor("topology.kubernetes.io/zone", 1.5),)))
    assert (
        f"Chosen with factors of seconds from 9 finished runs: compute {A100} 1.50; links topology.kubernetes.io/zone 1.50." in plan.reasons
    )
    correction = plan.predicted.calibration
    assert correction is not None
    plain = two_workers(None).predicted
    assert plan.predicted.epoch_seconds == pytest.approx(correction.factor * plain.epoch_seconds)
    assert correction.factor == correction.search_factor
    assert 1.4 < correction.factor < 1.5


def test_parts_of_the_epoch_add_up_to_what_was_predicted_without_corrections() -> None:
    plan = two_workers(taught(products=(factor(A100, 1.5),)))
    correction = plan.predicted.calibration
    assert correction is not None
    predicted = plan.predicted.epoch_seconds / correction.factor
    run = TaughtRun("team", "GraphSAGE", plan.predicted.parts, predicted, 1.0)
    assert run.parts_seconds == pytest.approx(predicted)
    (compute,) = [part for part in plan.predicted.parts if part.kind is PartKind.COMPUTE]
    exchange = seconds_of(plan, PartKind.LINK) + seconds_of(plan, PartKind.UNCORRECTED)
    assert exchange == pytest.approx(compute.exchange_seconds, rel=1e-3)
    assert (compute.name, compute.rate) == (A100, 13e12)


def test_an_uplink_that_binds_is_a_part_that_no_factor_corrects() -> None:
    """Two racks of two nodes whose uplinks carry a tenth of what one link does."""
    graph = build(snapshot(*(gpu_node(name) for name in "abcd"), links=both_ways([*"abcd"])), POLICY)
    racks = np.array([[0, 0, 1, 1]])
    shared = dataclasses.replace(graph.machine, uplink_domains=racks, uplink_bytes_per_second=np.full((1, 2), 1e8))
    job = training(workers={"minReplicas": 4, "maxReplicas": 4})
    request = PlanRequest(job_key="team/gnn", job=job, corrections=taught(tiers=(factor(MEASURED, 1.5),)))
    plan = make_plan(request, dataclasses.replace(graph, machine=shared), profile(job), POLICY)
    assert isinstance(plan, Plan)
    assert plan.predicted.calibration is not None
    predicted = plan.predicted.epoch_seconds / plan.predicted.calibration.factor
    (compute,) = [part for part in plan.predicted.parts if part.kind is PartKind.COMPUTE]
    links, fixed = (seconds_of(plan, kind) for kind in (PartKind.LINK, PartKind.UNCORRECTED))
    assert fixed > 10.0 * links
    assert links + fixed == pytest.approx(compute.exchange_seconds, rel=1e-3)
    assert compute.seconds + links + fixed + seconds_of(plan, PartKind.OVERHEAD) == pytest.approx(predicted, rel=1e-3)


def test_a_range_follows_the_error_of_calibration_where_enough_runs_taught() -> None:
    plan = two_workers(taught(spread=0.2, products=(factor(A100, 1.0),), tiers=(factor("topology.kubernetes.io/zone", 1.0),)))
    low, high = plan.predicted.low_seconds, plan.predicted.high_seconds
    assert low is not None
    assert high is not None
    assert high / plan.predicted.epoch_seconds == pytest.approx(math.exp(0.4), rel=0.02)
    assert low * high == pytest.approx(plan.predicted.epoch_seconds**2)
    few = two_workers(taught(runs=2, products=(factor(A100, 1.0),), tiers=(factor("topology.kubernetes.io/zone", 1.0),)))
    assert few.predicted.high_seconds == two_workers(None).predicted.high_seconds


def test_the_doubt_about_a_factor_widens_the_range() -> None:
    sure, unsure = (two_workers(taught(products=(factor(A100, 1.0, error),)), STATED_ONLY).predicted for error in (0.01, 0.5))
    assert (sure.high_seconds or 0.0) < 0.85 * (unsure.high_seconds or 0.0)


def test_what_was_never_tried_is_tried_where_it_may_be_better_by_the_limit() -> None:
    tried = factor(A100, 1.9)  # as slow as a V100, and a little more
    hoped = two_workers(taught(untried=factor("", 1.3, 0.8), products=(tried,)))
    assert nodes_of(hoped) == {"c", "d"}
    assert any("Few runs have tried such hardware" in reason for reason in hoped.reasons)
    assert nodes_of(two_workers(taught(untried=factor("", 1.3, 0.8), products=(tried,)), STATED_ONLY)) == {"a", "b"}
    assert nodes_of(two_workers(taught(untried=factor("", 2.5, 0.8), products=(tried,)))) == {"a", "b"}


def test_hope_is_not_printed_as_a_prediction() -> None:
    corrections = taught(untried=factor("", 1.3, 0.8), products=(factor(A100, 1.9),))
    plan = two_workers(corrections)
    correction = plan.predicted.calibration
    assert correction is not None
    assert correction.search_factor < correction.factor
    quiet = two_workers(replace(corrections, explores=False))
    by_name = {worker.node: worker for worker in plan.workers}
    assert set(by_name) == {"c", "d"} != nodes_of(quiet)
    compute = next(part for part in plan.predicted.parts if part.kind is PartKind.COMPUTE)
    assert correction.factor == pytest.approx(1.0 + 0.3 * compute.seconds / (plan.predicted.epoch_seconds / correction.factor))


def test_a_running_job_does_not_move_in_hope() -> None:
    plan = two_workers(None)
    request = PlanRequest(job_key="team/gnn", job=training(), corrections=taught())
    held = held_fast(request, plan).corrections
    assert held is not None
    assert not held.explores


def test_a_curves_factor_of_an_earlier_cost_model_does_not_stay_with_a_running_job() -> None:
    plan = two_workers(None)
    curve = Correction("x", 3.0, 0.1, 9, by_curve=True)
    now, earlier = (
        held_fast(
            PlanRequest(job_key="team/gnn", job=training()),
            replace(plan, predicted=replace(plan.predicted, calibration=curve, cost_model=version)),
        )
        for version in (COST_MODEL, None)
    )
    assert [one.factor for one in now.calibration] == [3.0]
    assert earlier.calibration == ()


def test_a_speed_that_the_policy_states_is_not_corrected() -> None:
    policy = PolicySpec(gpus=(GpuModel(product="NVIDIA-A100", gigaflops=13_000),))
    assert nodes_of(two_workers(taught(products=(factor(A100, 3.0),)), policy)) == {"a", "b"}


def test_a_factor_holds_its_product_where_the_table_has_changed() -> None:
    same = two_workers(taught(products=(factor(A100, 1.5, rate=13e12),)))
    moved = two_workers(taught(products=(factor(A100, 0.75, rate=6.5e12),)))
    assert moved.predicted.epoch_seconds == pytest.approx(same.predicted.epoch_seconds)


@pytest.mark.parametrize("rate", [1e-300, 1e9, 1e17, math.inf])
def test_a_rate_far_from_the_table_says_nothing_of_the_product(rate: float) -> None:
    far = two_workers(taught(products=(factor(A100, 0.25, rate=rate), factor(V100, 1.0))))
    assert far.predicted.epoch_seconds == pytest.approx(two_workers(taught()).predicted.epoch_seconds)


def test_factor_and_drift_together_stay_within_the_bounds_of_a_factor() -> None:
    slow = planned(FOUR, ONE_WORKER, corrections=taught(products=(factor(A100, 4.0, rate=13e12),)))
    slower = planned(FOUR, ONE_WORKER, corrections=taught(products=(factor(A100, 4.0, rate=4e12),)))
    assert slower.predicted.epoch_seconds == pytest.approx(slow.predicted.epoch_seconds)


def test_the_policy_decides_whether_history_chooses() -> None:
    by_architecture = {"GCN": taught(runs=1), "": taught(runs=0)}
    job = training()
    assert chosen_corrections(by_architecture, job, POLICY) == taught(runs=0)
    assert chosen_corrections({}, job, POLICY) is None
    report = PolicySpec(history=HistoryPolicy(placement=HistoryPlacement.REPORT))
    assert chosen_corrections(by_architecture, job, report) is None


def test_a_kept_search_is_not_the_answer_under_other_corrections() -> None:
    graph, job, heuristic = build(TWO_KINDS, POLICY), training(workers={"minReplicas": 2, "maxReplicas": 2}), Heuristic()
    slow = taught(products=(factor(A100, 3.0),))
    asked = [PlanRequest(job_key="team/gnn", job=job, corrections=each) for each in (None, slow, None)]
    plans = [make_plan(request, graph, profile(job), POLICY, planners=(heuristic,)) for request in asked]
    assert [nodes_of(plan) for plan in plans if isinstance(plan, Plan)] == [{"a", "b"}, {"c", "d"}, {"a", "b"}]


def test_the_same_corrections_give_the_same_bytes() -> None:
    corrections = taught(products=(factor(A100, 1.7),), cards=(factor("b", 1.4),))
    assert to_json(two_workers(corrections)) == to_json(two_workers(corrections))


def test_no_optimum_is_claimed_of_seconds_that_the_search_hoped_for() -> None:
    hoped = taught(products=(factor(A100, 1.0, error=0.5), factor(V100, 1.0)), explores=True)
    cases = ((None, POLICY, True), (replace(hoped, explores=False), POLICY, True), (hoped, STATED_ONLY, True), (hoped, POLICY, False))
    for corrections, policy, proven in cases:
        plan = two_workers(corrections, policy)
        assert (plan.optimality_gap is not None) is proven
        assert any("optimal" in reason or "best possible" in reason for reason in plan.reasons) is proven


@pytest.mark.parametrize("ratio", [0.1, 0.3, 2.0, 4.0, 15.0])
@pytest.mark.parametrize("lied", [0, 1], ids=["A100", "V100"])
@pytest.mark.parametrize("cards", [False, True], ids=["without cards", "with cards"])
def test_runs_of_another_architecture_hardly_move_a_job_with_runs_of_its_own(cards: bool, lied: int, ratio: float) -> None:
    """80 exact runs of one architecture, 10 of another that take `ratio` times their seconds on one product."""
    clusters = [snapshot(*(node for node in TWO_KINDS.nodes if node.gpu_product == product)) for product in (A100, V100)]
    job = training(workers={"minReplicas": 2, "maxReplicas": 2})
    plans = [planned(cluster, job) for cluster in clusters]
    exact = [exact_run(plan, cards) for plan in plans]
    other = exact[lied]._replace(namespace="other", architecture="GAT", measured_seconds=ratio * exact[lied].measured_seconds)
    learned = replace(corrections_of([*exact * 40, *[other] * 10])["GraphSAGE"], explores=False)
    again = [planned(cluster, job, corrections=learned).predicted.epoch_seconds for cluster in clusters]
    assert again == pytest.approx([plan.predicted.epoch_seconds for plan in plans], rel=0.03)
    alone = replace(corrections_of(exact * 40)["GraphSAGE"], explores=False)
    assert nodes_of(two_workers(learned)) == nodes_of(two_workers(alone))
