"""A placement depends on what is asked and on the snapshot, not on what was asked before."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hyperscale.model.admission_query import Claim
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.graph import ClusterGraph
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.choice.portfolio import make_plan
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.queue.placement_oracle import Expired, PlacementOracle
from hyperscale.planner.workload.profile import profile
from tests.builders.clusters import PRODUCTS, gpu_node, snapshot, training

POLICY = PolicySpec()
GPUS = 8
NODES = ("n0", "n1", "n2", "n3")


def place(request: PlanRequest, graph: ClusterGraph, expired: Expired) -> Plan | Infeasible:
    return make_plan(request, graph, profile(request.job), POLICY, expired=expired)


def oracle() -> PlacementOracle:
    nodes = [gpu_node(name, free=GPUS, product=PRODUCTS[0], allocatable_cpu_cores=32.0) for name in NODES]
    return PlacementOracle(build(snapshot(*nodes), POLICY), POLICY, place)


@st.composite
def questions(draw: st.DrawFn) -> PlanRequest:
    gpus = draw(st.sampled_from((1, 2, 3)))
    most = draw(st.integers(1, 3))
    job = training(
        workers={
            "minReplicas": draw(st.integers(1, most)),
            "maxReplicas": most,
            "resources": {"limits": {"nvidia.com/gpu": gpus}, "requests": {"cpu": "8"}},
        }
    )
    free = draw(st.fixed_dictionaries(dict.fromkeys(NODES, st.integers(0, GPUS))))
    held = draw(st.dictionaries(st.sampled_from(NODES), st.sampled_from((1.0, 24.0, 25.0, 26.0, 28.0)), max_size=2))
    return PlanRequest(job_key="team/a", job=job, free_gpus=free, reserved_amounts={name: {"cpu": cores} for name, cores in held.items()})


@settings(max_examples=40, deadline=None)
@given(st.lists(questions(), min_size=1, max_size=4), questions(), st.dictionaries(st.sampled_from(NODES), st.integers(1, GPUS)))
def test_the_same_question_has_the_same_answer_after_any_others(
    before: list[PlanRequest], question: PlanRequest, claimed: dict[str, int]
) -> None:
    claims = {name: Claim(gpus=gpus) for name, gpus in claimed.items()}
    used, fresh = oracle(), oracle()
    for other in before:
        for same_job in (other, replace(question, free_gpus=other.free_gpus), replace(question, reserved_amounts=other.reserved_amounts)):
            for ask in (used.now, used.final):
                ask(same_job)
            used.empty(same_job, claims)
    assert used.now(question) == fresh.now(question)
    assert used.final(question) == fresh.final(question)
    assert used.empty(question, claims) == fresh.empty(question, claims)
    assert used.empty(question, {}) == fresh.empty(question, {})


def test_a_placement_on_equally_many_slots_still_goes_to_the_fuller_node() -> None:
    one = PlanRequest(job_key="team/a", job=training(workers={"minReplicas": 1, "maxReplicas": 1}))
    desk = oracle()
    for fullest in NODES:
        free = {name: 1 if name == fullest else GPUS for name in NODES}
        found = desk.now(replace(one, free_gpus=free))
        assert isinstance(found, Plan)
        assert list(found.gpus_by_node()) == [fullest]


def test_a_plan_says_what_planned_ranks_hold_now() -> None:
    """Room for no worker either way; the words differ."""
    job = training(workers={"minReplicas": 1, "maxReplicas": 1, "resources": {"requests": {"cpu": "8"}}})
    desk = oracle()
    for held_cores, words in ((26.0, "6.0 cores free, a worker needs 8"), (28.0, "4.0 cores free, a worker needs 8")):
        found = desk.now(PlanRequest(job_key="team/a", job=job, reserved_amounts={"n0": {"cpu": held_cores}}))
        assert isinstance(found, Plan)
        assert [one.message for one in found.rejected if one.node == "n0"] == [words]
