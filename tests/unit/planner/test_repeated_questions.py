"""Questions asked again: what is kept from earlier ones decides how soon the answer comes, never which."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from hyperscale.model.api.job import JobSpec
from hyperscale.model.cluster import ClusterSnapshot, Gpu
from hyperscale.model.history.step_curves import LinkClass, StepTime
from hyperscale.model.plan import Calibration, Infeasible, Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.check.artifact import to_json
from hyperscale.planner.choice.portfolio import make_plan
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.problem.placement_problem import Problem, pose
from hyperscale.planner.queue.job_class import kind_of
from hyperscale.planner.search import heuristic
from hyperscale.planner.search.improve import SearchBudget
from hyperscale.planner.search.search_result import Candidate
from hyperscale.planner.workload.profile import profile
from hyperscale.util.memo import Memo
from tests.builders.clusters import POLICY, answer, gpu_node, link, measured, planned, random_cluster, snapshot, training

ROOMY = snapshot(*(gpu_node(f"n{index}", free=16, load=None) for index in range(6)))


def problem_of(seen: ClusterSnapshot, **asked: object) -> Problem:
    job = training()
    return pose(PlanRequest(job_key="a/b", job=job, **asked), build(seen, POLICY), profile(job), POLICY)  # type: ignore[arg-type] # keywords of the type, passed on as they come


@pytest.mark.parametrize("seed", range(6))
def test_a_warm_answer_has_the_bytes_of_a_cold_one(seed: int) -> None:
    planners = (heuristic.Heuristic(),)

    def bytes_of(seen: ClusterSnapshot, job: JobSpec) -> bytes:
        plan = make_plan(PlanRequest(job_key="a/b", job=job), build(seen, POLICY), profile(job), POLICY, planners=planners)
        assert isinstance(plan, Plan)
        return to_json(plan)

    seen, job = random_cluster(seed, 20, free_max=4), training()
    cold_bytes = bytes_of(seen, job)
    for other in range(3):
        bytes_of(random_cluster(seed + 100 + other, 9), job)
        bytes_of(seen, training(workers={"minReplicas": 1, "maxReplicas": 2 + other}))
    assert bytes_of(seen, job) == cold_bytes


def test_a_heuristic_knows_nothing_of_what_another_one_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []
    original = heuristic._Search.run

    def counted(search: heuristic._Search) -> list[Candidate]:
        searched.append(1)
        return original(search)

    monkeypatch.setattr(heuristic._Search, "run", counted)
    for _ in range(2):
        planned(ROOMY)
    assert len(searched) == 2


def test_two_jobs_alike_are_searched_once_and_have_one_id(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []
    original = heuristic._Search.run

    def counted(search: heuristic._Search) -> list[Candidate]:
        searched.append(1)
        return original(search)

    monkeypatch.setattr(heuristic._Search, "run", counted)
    graph, job = build(ROOMY, POLICY), training()
    planners = (heuristic.Heuristic(),)
    requests = [PlanRequest(job_key=f"a/job-{index}", job=job) for index in range(3)]
    made = [make_plan(request, graph, profile(job), POLICY, planners=planners) for request in requests]
    assert len(searched) == 1
    assert all(isinstance(plan, Plan) for plan in made)
    assert len({plan.plan_id for plan in made if isinstance(plan, Plan)}) == 1


def test_jobs_that_only_train_differently_are_placed_alike() -> None:
    def kind(**model: object) -> bytes:
        return kind_of(PlanRequest(job_key="a/b", job=training(model={"architecture": "GCN", **model})))

    assert kind(hyperparameters={"dropout": "0.1", "learningRate": "0.5"}) == kind(epochs=7, hyperparameters={}) == kind()
    assert kind(hiddenSize=7) != kind()


@pytest.mark.parametrize("stated", [{"aggregator": "GCN"}, {"outputHeads": 2}, {"dropout": "0"}, {"attentionDropout": "0"}], ids=str)
def test_jobs_of_which_hyperparameters_make_another_network_are_not_placed_alike(stated: dict[str, object]) -> None:
    def kind(hyperparameters: dict[str, object]) -> bytes:
        job = training(model={"architecture": "GraphSAGE", "hyperparameters": hyperparameters})
        return kind_of(PlanRequest(job_key="a/b", job=job))

    assert kind(stated) != kind({})


def test_jobs_that_history_says_other_things_of_share_no_plan() -> None:
    curve = StepTime(0.1, 1e-6, 0.0, 1.0, (LinkClass(0.0, 0.0, 0.0),) * 3, 0.0, 0.1)
    shown = [Calibration("A100", 2.0, 0.1, 20), Calibration("A100", 2.0, 0.2, 20), Calibration("A100", 2.0, 0.1, 20, curve)]
    shown.append(replace(shown[2], curve=replace(curve, base_seconds=0.2)))
    kinds = {kind_of(PlanRequest(job_key="a/b", job=training(), calibration=(one,))) for one in shown}
    assert len(kinds) == len(shown)


def test_gpus_taken_where_more_than_enough_are_left_make_no_new_problem() -> None:
    assert problem_of(ROOMY).identity == problem_of(ROOMY, free_gpus={"n0": 5}).identity
    assert problem_of(ROOMY).identity != problem_of(ROOMY, free_gpus={"n0": 3}).identity


@pytest.mark.parametrize(
    "asked", [{"seed": 1}, {"workers_fixed": 2}, {"pinned": {0: "n1"}, "workers_fixed": 2}, {"excluded_nodes": ("n0",)}], ids=str
)
def test_whatever_changes_the_search_makes_a_new_problem(asked: dict[str, object]) -> None:
    assert problem_of(ROOMY).identity != problem_of(ROOMY, **asked).identity


def test_a_difference_below_one_percent_of_use_is_noise() -> None:
    first = snapshot(gpu_node("n0", load=0.301), gpu_node("n1", load=0.5))
    assert problem_of(first).utilization.tolist() == [0.3, 0.5]


def test_the_capacity_counts_slots_beyond_what_the_job_may_have() -> None:
    problem = problem_of(ROOMY)
    assert problem.slots.tolist() == [4] * 6
    assert problem.capacity == 96


def test_a_search_that_was_cut_short_is_not_kept() -> None:
    seen, job = random_cluster(4, 30), training(workers={"minReplicas": 2, "maxReplicas": 8})
    graph = build(seen, POLICY)
    asked = PlanRequest(job_key="team-a/gnn", job=job)
    planners = (heuristic.Heuristic(),)
    hurried = make_plan(asked, graph, profile(job), POLICY, expired=lambda: True, planners=planners)
    assert isinstance(hurried, Plan)
    patient = make_plan(asked, graph, profile(job), POLICY, planners=planners)
    assert patient == make_plan(asked, build(seen, POLICY), profile(job), POLICY)
    assert isinstance(patient, Plan)
    assert patient.objective <= hurried.objective


def test_samples_that_change_on_the_same_nodes_are_read_anew() -> None:
    busy = replace(ROOMY, nodes=tuple(replace(node, gpus=(Gpu("g", utilization_ratio=measured(0.7)),)) for node in ROOMY.nodes))
    assert not problem_of(ROOMY).utilization_known.any()
    assert problem_of(busy).utilization.tolist() == [0.7] * 6


def test_a_memo_keeps_the_results_that_were_used_last() -> None:
    memo: Memo[int] = Memo(2)
    made: list[str] = []

    def get(key: str) -> int:
        def make() -> int:
            made.append(key)
            return len(made)

        return memo.get(key, make)

    assert [get(key) for key in ("a", "b", "a", "c", "a", "b")] == [1, 2, 1, 3, 1, 4]
    assert made == ["a", "b", "c", "b"]


def test_a_refusal_is_given_soon_after_time_is_up() -> None:
    pairs = [(f"n{index}", f"n{index + 1}") for index in range(0, 24, 2)]
    links = tuple(link(*ends) for a, b in pairs for ends in ((a, b), (b, a)))
    from hyperscale.model.cluster import AbsentLink

    seen = snapshot(*(gpu_node(f"n{index}") for index in range(24)), links=links, absent=AbsentLink.UNREACHABLE)
    job = training(workers={"minReplicas": 12, "maxReplicas": 24})
    looks: list[int] = []
    original = heuristic._Search._look

    def counted(self: heuristic._Search, workers: int, effort: SearchBudget) -> None:
        looks.append(workers)
        original(self, workers, effort)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heuristic._Search, "_look", counted)
        hurried = make_plan(PlanRequest(job_key="a/b", job=job), build(seen, POLICY), profile(job), POLICY, expired=lambda: True)
    assert isinstance(hurried, Infeasible)
    assert hurried.reason == "NodesCannotReachEachOther"
    assert len(looks) <= 4
    patient = answer(seen, job)
    assert isinstance(patient, Infeasible)
    assert "2 found" in patient.message
