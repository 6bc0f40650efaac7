"""A link that was measured and is dead is not an unknown one: no plan uses it. A node that none reaches is left out, with the reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from hyperscale.model.admission_query import AdmissionRequest, QueuedJob, RunningShare
from hyperscale.model.api.policy import QualityLimits
from hyperscale.model.cluster import ClusterSnapshot, Link, Quality, Sample
from hyperscale.model.graph import ClusterGraph
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.observe.identity import NodeIndex
from hyperscale.observe.series.links import BLOCKED, SILENT, believed, links
from hyperscale.planner.check.plan_check import violations
from hyperscale.planner.choice.portfolio import make_plan
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.queue.joint import take_turns
from hyperscale.planner.queue.placement_oracle import Expired, PlacementOracle
from hyperscale.planner.queue.queue_policies import choosers
from hyperscale.planner.workload.profile import profile
from tests.builders.clusters import POLICY, both_ways, gpu_node, link, planned, refused, snapshot, training
from tests.unit.observe.objects import NOW, raw_node, reading, series

TWO = training(workers={"minReplicas": 2, "maxReplicas": 2})


def cluster(names: list[str], dead: set[tuple[str, str]], *, slow: str = "") -> ClusterSnapshot:
    """Good links everywhere but where `dead`, which carry nothing, and to `slow`, which are a hundred times slower."""
    given = []
    for one in both_ways(names, latency_seconds=1e-5, bandwidth_bytes_per_second=1e10):
        if (one.source, one.destination) in dead:
            one = link(one.source, one.destination, 1e-5, 0.0)
        elif slow in (one.source, one.destination):
            one = link(one.source, one.destination, 1e-3, 1e8)
        given.append(one)
    return snapshot(*(gpu_node(name) for name in names), links=tuple(given))


@pytest.mark.parametrize("dead", [{("a", "b"), ("b", "a")}, {("a", "b")}], ids=["both ways", "one way"])
def test_a_link_of_zero_bandwidth_is_not_planned_over(dead: set[tuple[str, str]]) -> None:
    seen = cluster(["a", "b", "c"], dead, slow="c")
    plan = planned(seen, TWO)
    assert "c" in plan.ranks_by_node
    assert any(entry.reason in ("Unreachable", "EqualPlan", "SlowerPlan") for entry in plan.rejected)
    graph = build(seen, POLICY)
    assert not graph.link_costs(np.array([0, 1])).reachable.all()


def test_where_only_dead_links_are_left_there_is_no_plan_and_the_reason_is_told() -> None:
    answer = refused(cluster(["a", "b"], {("a", "b"), ("b", "a")}), TWO)
    assert answer.reason == "NodesCannotReachEachOther"
    assert "no way between a and b." in answer.message
    assert "Wait" not in answer.message, "all GPUs are free"
    assert "Check the network" in answer.message


def test_of_many_dead_links_three_are_named() -> None:
    names = ["a", "b", "c", "d"]
    dead = {(one, other) for one in names for other in names if (one in "ab") != (other in "ab")}
    three = training(workers={"minReplicas": 3, "maxReplicas": 3})
    assert "no way between a and c, a and d, b and c and 1 more" in refused(cluster(names, dead), three).message


def test_a_job_that_waits_beside_others_is_told_what_keeps_it_from_ever_fitting() -> None:
    seen = cluster(["a", "b", "c"], {("a", "b"), ("b", "a")})
    graph = build(seen, POLICY)

    def place(request: PlanRequest, on: ClusterGraph, expired: Expired) -> Plan | Infeasible:
        return make_plan(request, on, profile(request.job), POLICY, expired=expired)

    three = QueuedJob(PlanRequest("team/three", training(workers={"minReplicas": 3, "maxReplicas": 3})))
    running = (RunningShare("team/other", 1, 100.0),)
    question = AdmissionRequest(jobs=(three,), running=running, free_gpus={"c": 0})
    (hold,) = take_turns(question, PlacementOracle(graph, POLICY, place), POLICY.queue, choosers(POLICY.queue)).holds
    assert hold.reason == "NodesCannotReachEachOther"
    assert "no way between a and b" in hold.message


def test_what_is_waited_for_is_the_link_where_the_cards_at_its_ends_carry_more() -> None:
    for card_bytes_per_second, name in ((1e8, "network card of a"), (1e11, "link a to b")):
        cards: dict[str, Any] = {"network_bytes_per_second": Sample(card_bytes_per_second, 3.0, Quality.MEASURED), "network_cards": 1}
        links_between = both_ways(["a", "b"], latency_seconds=1e-5, bandwidth_bytes_per_second=1e8)
        plan = planned(snapshot(*(gpu_node(node, **cards) for node in "ab"), links=links_between), TWO)
        assert plan.predicted.bound_by == name
    estimated = snapshot(*(gpu_node(node, **cards) for node in "ab"))
    plan = planned(estimated, TWO)
    assert plan.predicted.bound_by == "link a to b (estimated)"
    assert any("overrides.links" in reason for reason in plan.reasons)


def test_a_node_whose_measured_links_are_all_dead_is_left_out_though_others_were_never_measured() -> None:
    names = ["a", "b", "c", "d"]
    measured = tuple(link(one.source, one.destination, 1e-5, 0.0 if "a" in (one.source, one.destination) else 1e8)
                     for one in both_ways(names) if {one.source, one.destination} != {"a", "d"})  # fmt: skip
    seen = snapshot(*(gpu_node(name) for name in names), links=measured)
    plan = planned(seen, TWO)
    assert "a" not in plan.ranks_by_node
    (found,) = [entry for entry in plan.rejected if entry.node == "a"]
    assert (found.reason, found.message) == ("Unreachable", "all 2 measured links are dead (b, c): check its network")


def test_the_checker_refuses_a_plan_over_a_dead_link_by_itself() -> None:
    fine = cluster(["a", "b"], set())
    plan = planned(fine, TWO)
    broken = cluster(["a", "b"], {("b", "a")})
    request = PlanRequest(job_key="team-a/gnn", job=TWO)
    assert violations(plan, request, fine) == ()
    assert violations(plan, request, broken) == ("the link from b to a is dead, and both are planned",)
    assert violations(plan, replace(request, pinned={0: plan.workers[0].node, 1: plan.workers[1].node}), broken) == ()


INDEX = NodeIndex([raw_node("a"), raw_node("b"), raw_node("c")])


def observed(**figures: tuple[object, ...]) -> tuple[Link, ...]:
    return links(reading(**figures), INDEX, QualityLimits(), NOW)[0]  # type: ignore[arg-type] # series by figure


def test_a_series_of_zero_bandwidth_is_a_dead_link_not_an_unknown_one() -> None:
    (found,) = observed(link_bandwidth=(series(0.0, source="a", destination="b"),))
    assert (found.bandwidth_bytes_per_second.value, found.bandwidth_bytes_per_second.fault) == (0.0, None)


def test_a_link_that_loses_every_probe_is_dead_though_nothing_else_is_known_of_it() -> None:
    (found,) = observed(link_loss=(series(1.0, source="a", destination="b"),))
    assert found.bandwidth_bytes_per_second.value == 0.0
    assert (found.latency_seconds.value, found.latency_seconds.fault) == (None, SILENT)


def test_a_link_that_loses_a_quarter_is_as_much_slower() -> None:
    given = {"source": "a", "destination": "b"}
    (found,) = observed(link_latency=(series(3e-5, **given),), link_bandwidth=(series(1e9, **given),), link_loss=(series(0.25, **given),))
    assert found.latency_seconds.value == pytest.approx(4e-5)
    assert found.bandwidth_bytes_per_second.value == pytest.approx(7.5e8)


@pytest.mark.parametrize("loss", [float("nan"), -1.0, 7.0])
def test_an_absurd_loss_says_nothing(loss: float) -> None:
    (found,) = observed(link_bandwidth=(series(1e9, source="a", destination="b"),), link_loss=(series(loss, source="a", destination="b"),))
    assert found.bandwidth_bytes_per_second.value == 1e9


def test_where_no_probe_of_any_node_is_answered_the_port_is_blocked_and_no_link_is_dead() -> None:
    silent = tuple(series(1.0, source=source, destination=target) for source, target in (("a", "b"), ("b", "a"), ("a", "c")))
    found = believed(observed(link_loss=silent))
    assert {(one.bandwidth_bytes_per_second.value, one.bandwidth_bytes_per_second.fault) for one in found} == {(None, BLOCKED)}
    alive = (*silent, series(0.0, source="c", destination="b"))
    answered = observed(link_loss=alive, link_latency=(series(1e-5, source="c", destination="b"),))
    assert believed(answered) == answered
