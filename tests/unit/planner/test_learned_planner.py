"""The learned planner: same figures as greedy's, weights that must match their manifest, placements that the portfolio can use."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from hyperscale.learn.topologies import instance
from hyperscale.model.plan import Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.choice.portfolio import make_plan
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.learned import learned_weights
from hyperscale.planner.learned.learned_features import VERSION, View
from hyperscale.planner.learned.learned_planner import MOST_WORKERS, Learned, planners
from hyperscale.planner.learned.learned_state import LARGEST, ConstructorState, Surroundings
from hyperscale.planner.learned.learned_weights import WeightsError, WeightsManifest, load, shipped
from hyperscale.planner.problem.placement_problem import pose
from hyperscale.planner.search.greedy import greedy
from hyperscale.planner.search.heuristic import Heuristic
from hyperscale.planner.workload.profile import profile
from tests.builders.clusters import POLICY, random_cluster, training

SHIPPED = Path(learned_weights.__file__).parent / "weights"
NOBODY = np.zeros(0, dtype=np.int64)


@pytest.mark.parametrize("family", ["geo", "fattree", "zones", "random", "wan"])
def test_the_greedy_feature_alone_builds_what_greedy_builds(family: str) -> None:
    drawn = instance(family, 24, 6, 31)
    seeds = np.flatnonzero(drawn.topology.slots > 0)
    state = ConstructorState(Surroundings(drawn.costs, drawn.topology.slots, 6), seeds[:, None])
    while state.size < 6:
        state.add(state.added().objective.argmin(axis=1))
    free = greedy(drawn.costs, drawn.topology.slots, 6, seeds, NOBODY)
    found = {tuple(sorted(row)) for row in state.chosen.tolist()}
    assert {tuple(sorted(row)) for row in free.tolist()} <= found


def test_the_cheapest_followers_respect_slots() -> None:
    rng = np.random.default_rng(4)
    for seed in range(12):
        slots = rng.integers(0, 4, 7)
        workers = int(max(2, min(slots.sum(), rng.integers(2, 9))))
        around = Surroundings(instance("zones", 7, 3, seed).costs, slots, workers)
        state = ConstructorState(around, np.zeros((1, 0), dtype=np.int64))
        while state.size < workers - 1:
            seconds, followers = state.ahead()
            for candidate in np.flatnonzero(state.left[0] > 0):
                room = state.left[0] - (np.arange(7) == candidate)
                pair = around.joint[candidate] + state.joint_sum[0]
                cheapest = sorted(np.repeat(pair, room))[: workers - state.size - 1]
                if len(cheapest) == workers - state.size - 1:
                    assert seconds[0, candidate] == pytest.approx(sum(cheapest))
                    assert (np.bincount(followers[0, candidate], minlength=7) <= room).all()
                else:
                    assert seconds[0, candidate] >= LARGEST
            state.add(np.array([int(np.argmax(state.left[0]))]))


def test_features_are_finite_whatever_the_cluster() -> None:
    for family in ("wan", "zones"):
        for workers in (2, 5):
            drawn = instance(family, 12, workers, 77)
            view = View(Surroundings(drawn.costs, drawn.topology.slots, workers))
            seen = view.static_view()
            features, _ = view.step(ConstructorState(view.around, np.zeros((1, 0), dtype=np.int64)))
            assert all(np.isfinite(part).all() for part in (seen.node, seen.edge, seen.whole, features))


def test_the_shipped_weights_are_those_of_their_manifest() -> None:
    manifest = msgspec.json.decode((SHIPPED / "constructor.json").read_bytes(), type=WeightsManifest)
    assert manifest.feature_version == VERSION
    assert manifest.command.startswith("hyperscale learn constructor --seed ")
    assert manifest.figures["over_greedy_nearest"] <= 0.99
    assert load(SHIPPED) is not None


def _copied(folder: Path) -> Path:
    for name in ("constructor.json", "constructor.safetensors"):
        (folder / name).write_bytes((SHIPPED / name).read_bytes())
    return folder


def test_weights_that_were_changed_are_refused(tmp_path: Path) -> None:
    weights = _copied(tmp_path) / "constructor.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x07")
    with pytest.raises(WeightsError, match="not those of the manifest"):
        load(tmp_path)


def test_weights_for_other_features_are_refused(tmp_path: Path) -> None:
    manifest = _copied(tmp_path) / "constructor.json"
    changed = msgspec.json.decode(manifest.read_bytes())
    changed["featureVersion"] = VERSION + 1
    manifest.write_bytes(msgspec.json.encode(changed))
    with pytest.raises(WeightsError, match=f"version {VERSION + 1}"):
        load(tmp_path)


def test_missing_weights_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="constructor"):
        load(tmp_path)


def test_without_weights_the_plan_says_that_nothing_learned_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise WeightsError("constructor: gone")

    monkeypatch.setattr("hyperscale.planner.learned.learned_planner.shipped", missing)
    with pytest.warns(RuntimeWarning, match="constructor: gone"):
        plan = _planned(training(planner="Learned"), 5)
    assert (plan.planner, plan.fallbacks[0]) == ("Heuristic", "LearnedUnavailable")


def _planned(job: object, seed: int, nodes: int = 20, **asked: object) -> Plan:
    graph = build(random_cluster(seed, nodes, free_max=2), POLICY)
    request = PlanRequest(job_key="a/b", job=job, **asked)  # type: ignore[arg-type] # keywords of the type, passed on as they come
    plan = make_plan(request, graph, profile(request.job), POLICY, planners=planners())
    assert isinstance(plan, Plan)
    return plan


def test_the_same_question_has_the_same_plan_cold_and_warm() -> None:
    job = training(workers={"minReplicas": 2, "maxReplicas": 8}, planner="Learned")
    graph = build(random_cluster(3, 30), POLICY)
    request = PlanRequest(job_key="a/b", job=job, seed=4)
    warm = planners()
    answers = [make_plan(request, graph, profile(job), POLICY, planners=used) for used in (planners(), warm, warm)]
    assert msgspec.json.encode(answers[0]) == msgspec.json.encode(answers[1]) == msgspec.json.encode(answers[2])


def test_by_default_search_plans_alone() -> None:
    plan = _planned(training(workers={"minReplicas": 2, "maxReplicas": 2}), 9)
    assert (plan.planner, plan.fallbacks) == ("Heuristic", _planned(training(planner="Heuristic"), 9).fallbacks)
    assert [score.planner for score in plan.scores] == ["Heuristic"]


def test_where_the_job_asks_for_it_both_planners_are_scored_and_a_tie_is_the_learned_ones() -> None:
    plan = _planned(training(workers={"minReplicas": 2, "maxReplicas": 2}, planner="Learned"), 9)
    assert plan.planner == "Learned"
    assert [score.planner for score in plan.scores] == ["Learned", "Heuristic"]
    assert plan.scores[1].regret == 0.0


def test_pinned_ranks_stay_where_they_are() -> None:
    job = training(workers={"minReplicas": 4, "maxReplicas": 4})
    graph = build(random_cluster(8, 16, free_max=2), POLICY)
    pinned = {1: "n003", 2: "n003"}
    problem = pose(PlanRequest(job_key="a/b", job=job, pinned=pinned), graph, profile(job), POLICY)
    (candidate,) = Learned(shipped()).candidates(problem, lambda: False)
    assert candidate.names[1] == candidate.names[2] == "n003"
    assert len(candidate.names) == 4


def test_large_clusters_are_cut_and_very_large_jobs_left_to_search() -> None:
    graph = build(random_cluster(2, 150), POLICY)
    for most, expected in ((6, 1), (MOST_WORKERS + 8, 0)):
        job = training(workers={"minReplicas": most, "maxReplicas": most})
        problem = pose(PlanRequest(job_key="a/b", job=job), graph, profile(job), POLICY)
        assert len(tuple(Learned(shipped()).candidates(problem, lambda: False))) == expected


def test_an_expired_deadline_leaves_nothing_and_is_not_remembered() -> None:
    job = training(workers={"minReplicas": 3, "maxReplicas": 3})
    problem = pose(PlanRequest(job_key="a/b", job=job), build(random_cluster(1, 12), POLICY), profile(job), POLICY)
    planner = Learned(shipped())
    assert tuple(planner.candidates(problem, lambda: True)) == ()
    assert len(tuple(planner.candidates(problem, lambda: False))) == 1


def test_the_learned_placement_is_never_better_than_what_the_plan_costs() -> None:
    for seed in range(6):
        job = training(workers={"minReplicas": 2, "maxReplicas": 6}, planner="Learned")
        graph = build(random_cluster(seed, 24, unreachable=0.1), POLICY)
        problem = pose(PlanRequest(job_key="a/b", job=job), graph, profile(job), POLICY)
        best = min(candidate.objective for candidate in Heuristic().candidates(problem, lambda: False))
        plan = make_plan(problem.request, graph, profile(job), POLICY, planners=planners())
        assert isinstance(plan, Plan)
        assert plan.objective <= best * (1.0 + 1e-8)
