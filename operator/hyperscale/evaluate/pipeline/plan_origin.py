"""Whether a plan from a file was made for this job and cluster, and whether its figures are those of the cost model."""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec.structs import replace

from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.history.corrections import COST_MODEL
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
EARLIER: Final = "Its figures are taken as given: an earlier cost model predicted them, or none is named; plan the job again."
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
    fresh = _recomputed(plan, pose(asked, graph, profile(asked.job), policy))
    earlier = plan.predicted.cost_model != COST_MODEL
    contradictions = () if fresh is None or earlier else _contradictions(plan.predicted, fresh)
    if plan_id(asked, plan.snapshot, plan.planner, plan.workers) != plan.plan_id:
        return PlanOrigin(doubts=(FOREIGN, *contradictions))
    if plan.snapshot != graph.digest:
        return PlanOrigin(doubts=contradictions, notes=("The cluster's figures have changed since the plan was made.",))
    if fresh is None:
        return PlanOrigin()
    if earlier:
        return PlanOrigin(doubts=(EARLIER,))
    correction = plan.predicted.calibration
    unknown = correction is not None and fresh.calibration is None
    notes = (f"Its figures are corrected by {correction.runs} finished runs, which is taken as given.",) if unknown and correction else ()
    return PlanOrigin(contradictions, _differences(plan.predicted, fresh), notes)


def _recomputed(plan: Plan, problem: Problem) -> Prediction | None:
    """The cost model's figures of the very placement; None where a planned node takes no worker now, as the proof says."""
    place = {name: member for member, name in enumerate(problem.names)}
    names = tuple(worker.node for worker in plan.workers)
    own_shares = tuple(worker.share for worker in plan.workers)
    if not set(names) <= place.keys() or min(own_shares) <= 0.0:
        return None
    candidate = Candidate(plan.objective, len(names), names, tuple(place[name] for name in names))
    return describe(problem, candidate, plan.planner, held_shares=own_shares).predicted


def _contradictions(given: Prediction, fresh: Prediction) -> tuple[str, ...]:
    """Sentences about figures that the cost model excludes; corrections by finished runs are taken out."""
    if given.calibration is not None and given.calibration.factor <= 0.0:
        return (f"predicted.calibration.factor {given.calibration.factor:g} is no factor of a time",)
    epoch, wanted = _uncorrected(given), _uncorrected(fresh)
    low, high = (fresh.low_seconds or 0.0) / _factor(fresh), (fresh.high_seconds or wanted) / _factor(fresh)
    if not low * (1.0 - ROUNDED) <= epoch <= high * (1.0 + ROUNDED):
        return (
            f"predicted.epochSeconds {duration_text(epoch)} contradicts the cost model, which has {duration_text(wanted)} "
            f"({duration_text(low)} to {duration_text(high)}) for this placement",
        )
    if given.cost_per_epoch is None or fresh.cost_per_epoch is None:
        return ()
    price, asked = given.cost_per_epoch / given.epoch_seconds, fresh.cost_per_epoch / fresh.epoch_seconds
    if abs(price - asked) <= ROUNDED * asked:
        return ()
    return (f"predicted.costPerEpoch is {price:.4g} a second, by the policy's prices it is {asked:.4g}",)


def _differences(given: Prediction, fresh: Prediction) -> tuple[str, ...]:
    """Sentences about figures of the very question that the cost model does not give, as after a change by hand or of the policy."""
    doubts = []
    if given.cost_per_epoch is not None and fresh.cost_per_epoch is None:
        doubts.append("predicted.costPerEpoch is taken as given: the policy has no price of these GPUs; see --policy")
    if given.calibration is None and fresh.calibration is None:
        pairs = (
            ("epochSeconds", given.epoch_seconds, fresh.epoch_seconds),
            ("communicationSeconds", given.communication_seconds, fresh.communication_seconds),
            ("lowSeconds", given.low_seconds, fresh.low_seconds),
            ("highSeconds", given.high_seconds, fresh.high_seconds),
        )
        doubts += [
            f"predicted.{name} {number:.4g} s is taken as given: under this policy it is {wanted:.4g} s"
            for name, number, wanted in pairs
            if number is not None and wanted is not None and abs(number - wanted) > ROUNDED * max(abs(wanted), fresh.epoch_seconds)
        ]
    return tuple(doubts)


def _uncorrected(predicted: Prediction) -> float:
    return predicted.epoch_seconds / _factor(predicted)


def _factor(predicted: Prediction) -> float:
    factor = predicted.calibration.factor if predicted.calibration is not None else 1.0
    return factor if factor > 0.0 else 1.0
