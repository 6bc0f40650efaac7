"""Whether a plan from a file was made for this job and cluster, and whether its figures are those of the cost model."""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec.structs import replace

from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.plan import Plan, Prediction
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.check.artifact import plan_id
from hyperscale.planner.choice.portfolio import describe
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.problem.placement_problem import Problem, pose
from hyperscale.planner.search.search_result import Candidate
from hyperscale.planner.workload.profile import profile
from hyperscale.util.rfc3339 import duration_text

FOREIGN: Final = "Its figures are taken as given: the plan was made for another job or cluster, or was changed since; plan the job again."
ROUNDED: Final = 1e-3
"""Relative; figures of a plan have 9 digits, its shares are whole billionths."""


class PlanOrigin(NamedTuple):
    """What is known of where a plan comes from."""

    faults: tuple[str, ...] = ()
    """Figures that contradict the cost model on the very cluster that the plan names."""
    doubts: tuple[str, ...] = ()
    """What a person should look at."""
    notes: tuple[str, ...] = ()


def plan_origin(plan: Plan, request: PlanRequest, snapshot: ClusterSnapshot, policy: PolicySpec) -> PlanOrigin:
    """Return what the plan's id and its figures say, both computed again."""
    graph = build(snapshot, policy)
    asked = replace(request, seed=plan.seed)
    contradictions = _contradictions(plan, _recomputed(plan, pose(asked, graph, profile(asked.job), policy)))
    if plan_id(asked, plan.snapshot, plan.planner, plan.workers) != plan.plan_id:
        return PlanOrigin(doubts=(FOREIGN, *contradictions))
    if plan.snapshot == graph.digest:
        return PlanOrigin(faults=contradictions)
    return PlanOrigin(doubts=contradictions, notes=("The cluster's figures have changed since the plan was made.",))


def _recomputed(plan: Plan, problem: Problem) -> Prediction | None:
    """The cost model's figures of the very placement; None where a planned node takes no worker now, as the proof says."""
    place = {name: member for member, name in enumerate(problem.names)}
    names = tuple(worker.node for worker in plan.workers)
    own_shares = tuple(worker.share for worker in plan.workers)
    if not set(names) <= place.keys() or min(own_shares) <= 0.0:
        return None
    candidate = Candidate(plan.objective, len(names), names, tuple(place[name] for name in names))
    return describe(problem, candidate, plan.planner, held_shares=own_shares).predicted


def _contradictions(plan: Plan, fresh: Prediction | None) -> tuple[str, ...]:
    """Sentences about figures of the plan that are not those of the cost model; corrections by finished runs are taken out."""
    if fresh is None:
        return ()
    given, wanted = _uncorrected(plan.predicted), _uncorrected(fresh)
    low, high = (fresh.low_seconds or 0.0) / _factor(fresh), (fresh.high_seconds or wanted) / _factor(fresh)
    if not low * (1.0 - ROUNDED) <= given <= high * (1.0 + ROUNDED):
        return (
            f"predicted.epochSeconds {duration_text(given)} contradicts the cost model, which has {duration_text(wanted)} "
            f"({duration_text(low)} to {duration_text(high)}) for this placement",
        )
    price, asked = plan.predicted.cost_per_epoch, fresh.cost_per_epoch
    if price is None or asked is None:
        return ()
    per_second, wanted_per_second = price / plan.predicted.epoch_seconds, asked / fresh.epoch_seconds
    if abs(per_second - wanted_per_second) <= ROUNDED * wanted_per_second:
        return ()
    return (f"predicted.costPerEpoch is {per_second:.4g} a second, by the policy's prices it is {wanted_per_second:.4g}",)


def _uncorrected(predicted: Prediction) -> float:
    return predicted.epoch_seconds / _factor(predicted)


def _factor(predicted: Prediction) -> float:
    factor = predicted.calibration.factor if predicted.calibration is not None else 1.0
    return factor if factor > 0.0 else 1.0
