"""What becomes of every planner's placements: scores, failures, and how far a plan can be from the best."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest

from hyperscale.model.plan import Infeasible, Plan, PlannerScore
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.choice.portfolio import make_plan
from hyperscale.planner.choice.reasons import distance
from hyperscale.planner.choice.scores import ProposingPlanner, gap, scores
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.problem.placement_problem import Problem
from hyperscale.planner.search.heuristic import Expired, Heuristic
from hyperscale.planner.search.search_result import Candidate
from hyperscale.planner.workload.profile import profile
from tests.builders.clusters import POLICY, random_cluster, training

SEEN = random_cluster(4, 10)
JOB = training(planner="Learned")


@dataclass
class Worse:
    """Proposes the heuristic's second best placements."""

    name: str = "Learned"

    def candidates(self, problem: Problem, expired: Expired) -> Iterable[Candidate]:
        return sorted(Heuristic().candidates(problem, expired))[1:]


class Broken(Worse):
    """Raises after it has begun."""

    def candidates(self, problem: Problem, expired: Expired) -> Iterable[Candidate]:
        yield from sorted(Heuristic().candidates(problem, expired))[1:2]
        raise RuntimeError("weights of another version")


@dataclass
class Bound(list[Candidate]):
    lower_bound: float | None = field(default=None)


@dataclass
class Proving(Worse):
    """Knows a lower bound that is a tenth below its best placement; takes the heuristic's place, whose own bound is better."""

    name: str = "Heuristic"
    ratio: float = 1.1

    def candidates(self, problem: Problem, expired: Expired) -> Iterable[Candidate]:
        found = Bound()
        found.extend(Heuristic().candidates(problem, expired))
        found.lower_bound = min(found).objective / self.ratio
        return found


def planned_by(*planners: ProposingPlanner) -> Plan:
    request = PlanRequest(job_key="team-a/gnn", job=JOB)
    plan = make_plan(request, build(SEEN, POLICY), profile(JOB), POLICY, planners=planners)
    assert isinstance(plan, Plan)
    return plan


def test_every_planner_is_scored_and_the_winner_comes_first() -> None:
    plan = planned_by(Worse(), Heuristic())
    assert [score.planner for score in plan.scores] == ["Heuristic", "Learned"]
    assert plan.scores[0].regret == 0.0
    assert plan.scores[0].objective == plan.objective
    assert plan.scores[1].regret == pytest.approx(plan.scores[1].objective / plan.objective - 1.0)
    assert all(score.candidates > 0 for score in plan.scores)


def test_a_planner_that_raises_loses_only_its_own_placements_and_is_named() -> None:
    plan = planned_by(Broken(), Heuristic())
    assert plan.planner == "Heuristic"
    assert plan.workers == planned_by(Heuristic()).workers
    assert "LearnedFailed" in plan.fallbacks
    assert [score.planner for score in plan.scores] == ["Heuristic"]


def test_where_all_planners_fail_the_error_is_told() -> None:
    class BrokenHeuristic(Broken):
        def candidates(self, problem: Problem, expired: Expired) -> Iterable[Candidate]:
            raise RuntimeError("no search")

    request = PlanRequest(job_key="team-a/gnn", job=JOB)
    with pytest.raises(RuntimeError, match="no search"):
        make_plan(request, build(SEEN, POLICY), profile(JOB), POLICY, planners=(BrokenHeuristic("Heuristic"),))


def test_a_proven_bound_becomes_the_gap_and_a_sentence() -> None:
    plan = planned_by(Proving())
    assert plan.optimality_gap == pytest.approx(0.1, rel=1e-6)
    assert "By the cost model at most 10.0 % above the best possible objective." in plan.reasons
    assert planned_by(Proving(ratio=1.0)).optimality_gap == 0.0


def test_a_gap_is_never_negative_and_unknown_without_a_bound() -> None:
    assert gap(1.0, 1.0 + 1e-12) == 0.0
    assert gap(1.0, None) is None
    assert gap(1.0, float("-inf")) is None
    assert gap(1.25, 1.0) == 0.25


def test_the_sentence_says_proven_or_how_far_or_nothing() -> None:
    assert distance(0.0).startswith("Proven optimal by the cost model: ")
    assert distance(0.0123) == "By the cost model at most 1.2 % above the best possible objective."
    assert distance(1e-6) == "By the cost model at most 0.1 % above the best possible objective."
    assert distance(None) == distance(7.0) == ""


def test_a_placement_below_the_plan_that_could_not_be_taken_has_no_regret() -> None:
    cheap, dear = Candidate(1.0, 1, ("a",), (0,)), Candidate(2.0, 1, ("b",), (1,))
    assert scores([(cheap, "Learned"), (dear, "Heuristic")], "Heuristic", 2.0) == (
        PlannerScore("Heuristic", 2.0, 0.0, 1),
        PlannerScore("Learned", 1.0, 0.0, 1),
    )


def test_no_room_is_still_told_as_such() -> None:
    job = training(workers={"minReplicas": 99, "maxReplicas": 99})
    answer = make_plan(PlanRequest(job_key="team-a/gnn", job=job), build(SEEN, POLICY), profile(job), POLICY, planners=(Worse(),))
    assert isinstance(answer, Infeasible)
    assert answer.reason == "NeverFits"
