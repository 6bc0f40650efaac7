"""From a request to a plan: candidates of every planner, one objective, an independent check, reasons. Pure and deterministic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from hyperscale.model.api.job import PlannerChoice
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.graph import ClusterGraph, FloatArray, IntArray
from hyperscale.model.history.corrections import COST_MODEL
from hyperscale.model.plan import (
    Infeasible,
    Plan,
    Prediction,
    WorkerPlacement,
    bounded,
    bounded_refusal,
    gpus_by_node,
)
from hyperscale.model.planning import PlanRequest
from hyperscale.model.workload import WorkloadProfile
from hyperscale.planner.check.artifact import plan_id, rounded, rounded_shares
from hyperscale.planner.check.plan_check import violations
from hyperscale.planner.choice import reasons, refusal, trust
from hyperscale.planner.choice.bounded_by import allreduce_cost, bounded_by
from hyperscale.planner.choice.cheaper_candidates import cheaper_candidates
from hyperscale.planner.choice.links_of_plan import links_of_plan
from hyperscale.planner.choice.never import never
from hyperscale.planner.choice.scores import Proposals, ProposingPlanner, gap, propose, scores
from hyperscale.planner.choice.stated_epoch import stated_epoch
from hyperscale.planner.choice.ties import settled, tolerance
from hyperscale.planner.choice.used_nodes import UsedNodes, used_nodes
from hyperscale.planner.cost.objective import Breakdown, predict, shares
from hyperscale.planner.problem.placement_problem import Problem, pose
from hyperscale.planner.problem.regions import domains_of
from hyperscale.planner.repair.fixed_shares import held_breakdown
from hyperscale.planner.repair.replan import Repair
from hyperscale.planner.search.heuristic import Heuristic
from hyperscale.planner.search.search_result import Candidate

PREFERENCE_TOLERANCE: Final = 0.01
"""A preferred topology domain may cost so much of the objective: less than any prediction is worth."""
ROUNDING: Final = 1.0 + 1e-9
SAME: Final = 1e-8
"""Objectives of two planners nearer than this are one figure, summed in two orders."""
ASKED_FIRST: Final = 64
"""For jobs that may have more workers the question whether the nodes could ever do may come before the search."""
MAX_CHECKED: Final = 8
"""Candidates shown to the checker before giving up; a second one means that planner and checker disagree."""


def make_plan(
    request: PlanRequest,
    graph: ClusterGraph,
    workload: WorkloadProfile,
    policy: PolicySpec,
    *,
    expired: Callable[[], bool] = lambda: False,
    planners: Sequence[ProposingPlanner] = (),
) -> Plan | Infeasible:
    """The best checked plan for `request`, or the one reason why there is none.

    expired:  turns true when time is up; the best found so far is used then. Without it the answer depends on the other arguments only.
    planners: those that exist in this process, by falling preference; ties go to the first. Without the heuristic a new one is added.
    Raises ValueError when the job wants no plan (planner None) or pins a rank to a node that the graph does not have.
    """
    if request.job.planner is PlannerChoice.NONE:
        raise ValueError("spec.planner: None means that no plan is made; use Auto, Heuristic or Learned")
    problem = pose(request, graph, workload, policy)
    if _large_for_memory(problem) and never(problem) is not None:
        return bounded_refusal(refusal.refuse(problem, lambda changed: False))
    chosen, steps = _allowed(request.job.planner, policy, planners)
    proposed = _proposed(problem, chosen, expired)
    ranked = _by_preference(problem, [*proposed.candidates, *cheaper_candidates(problem, expired)])
    steps = (*steps, *proposed.steps)
    refused: tuple[str, ...] = ()
    for candidate, name in ranked[:MAX_CHECKED]:
        plan = describe(problem, candidate, name, [other for other, _ in ranked if other is not candidate], steps)
        plan = _judged(plan, ranked, proposed.lower_bound, problem)
        refused = violations(plan, request, graph.snapshot)
        if not refused:
            return bounded(replace(plan, reasons=(*plan.reasons, reasons.CUT_SHORT)) if expired() else plan)
    if refused:
        return Infeasible(reason="PlannerFailed", message=f"every plan failed its check, e.g.: {refused[0]}")
    refused_as = refusal.refuse(problem, lambda changed: any(True for _ in Heuristic().candidates(changed, lambda: True)), expired)
    return bounded_refusal(refused_as)


def _large_for_memory(problem: Problem) -> bool:
    """Whether the job may be large, and some GPU is too small for an equal part: a search in vain takes minutes then."""
    workers, gpus = min(problem.request.job.workers.max_replicas, problem.capacity), problem.demand.gpus
    needed = problem.workload.gpu_bytes(1.0 / max(1, workers), workers * gpus, gpus)
    return workers > ASKED_FIRST and needed > float(problem.memory_bytes.min(initial=np.inf))


def _proposed(problem: Problem, planners: Sequence[ProposingPlanner], expired: Callable[[], bool]) -> Proposals:
    """Placements of all planners; where ranks are pinned the repair of the others comes first, and a whole search only if that fails."""
    if not len(problem.nodes):
        return Proposals((), None, ())
    if problem.pinned and problem.request.workers_fixed is not None:
        repaired = propose(problem, [Repair(planner) if isinstance(planner, Heuristic) else planner for planner in planners], expired)
        if repaired.candidates:
            return repaired
    return propose(problem, planners, expired)


def _allowed(
    choice: PlannerChoice, policy: PolicySpec, planners: Sequence[ProposingPlanner]
) -> tuple[list[ProposingPlanner], tuple[str, ...]]:
    """Planners to run and the steps down that were taken; the heuristic always runs, it is what the others are measured against.

    Auto is the heuristic alone: at no size does the constructor make it better in equal processor time (docs/explanation/learning.md).
    """
    heuristic = [planner for planner in planners if planner.name == Heuristic.name] or [Heuristic()]
    if choice is not PlannerChoice.LEARNED:
        return heuristic, ()
    # A tie goes to the first: to what the job asked for.
    asked = [planner for planner in planners if planner.name == choice and planner.name in policy.planners]
    return [*asked, *heuristic], () if asked else (f"{choice}Unavailable",)


def _judged(plan: Plan, proposed: Sequence[tuple[Candidate, str]], lower_bound: float | None, problem: Problem) -> Plan:
    """The plan beside what else was proposed, and beside what none can beat."""
    within = tolerance(problem)
    factor = trust.shown_ratio(plan.predicted.calibration)
    plain = plan.objective / factor  # candidates and bounds are the cost model's own
    # In the hope for what was not tried the bound is that of other seconds than the plan states.
    hopes = problem.expected() is not problem
    above = None if hopes else gap(plain, lower_bound)
    least = min(candidate.objective for candidate, _ in proposed)
    equal = least * (1.0 + SAME) < plain <= least * (1.0 + within) * ROUNDING
    chosen = reasons.preferred(within, problem.request.weights, bool(problem.request.asked_sizes)) if equal else ""
    sentences = tuple(text for text in (chosen, reasons.distance(above, within)) if text)
    ranked = scores(proposed, plan.planner, plain)
    return replace(
        plan,
        scores=tuple(replace(score, objective=rounded(score.objective * factor)) for score in ranked) if factor != 1.0 else ranked,
        optimality_gap=above,
        reasons=(*plan.reasons, *sentences),
    )


def _ranked(proposed: Sequence[tuple[Candidate, str]]) -> list[tuple[Candidate, str]]:
    """Best first; among those as good as the best, the first planner's: who wins must not hang on the order of a sum."""
    least = min((candidate.objective for candidate, _ in proposed), default=0.0) * (1.0 + SAME)
    place = {name: number for number, name in enumerate(dict.fromkeys(name for _, name in proposed))}

    def key(entry: tuple[Candidate, str]) -> tuple[bool, int, Candidate]:
        tied = entry[0].objective <= least
        return not tied, place[entry[1]] if tied else 0, entry[0]

    return sorted(proposed, key=key)


def _by_preference(problem: Problem, proposed: Sequence[tuple[Candidate, str]]) -> list[tuple[Candidate, str]]:
    """Best first; under a preferred topology level, placements inside one domain come first where they cost next to nothing."""
    ranked = _ranked(proposed)
    key = problem.job.placement.topology.preferred
    least = ranked[0][0].objective if ranked else 0.0
    if key is None or not ranked:
        return settled(problem, ranked, least)
    domains = domains_of(problem, key)
    limit = ranked[0][0].objective * (1.0 + PREFERENCE_TOLERANCE)

    def outside(entry: tuple[Candidate, str]) -> bool:
        inside = {domains[member] for member in entry[0].order}
        return entry[0].objective > limit or len(inside) > 1 or "" in inside

    ranked.sort(key=outside)
    alike = [entry for entry in ranked if outside(entry) == outside(ranked[0])]
    return [*settled(problem, alike, least), *ranked[len(alike) :]]


def describe(
    problem: Problem,
    candidate: Candidate,
    planner: str,
    others: Sequence[Candidate] = (),
    steps: tuple[str, ...] = (),
    held_shares: tuple[float, ...] | None = None,
) -> Plan:
    """The plan behind a candidate, with figures of the reference objective.

    others:      candidates that lost
    steps:       steps down that were taken on the way
    held_shares: (k,) parts that the ranks keep; None deals them out again
    """
    order = np.array(candidate.order, dtype=np.int64)
    used = used_nodes(problem, order)
    costs, positions = used.costs, used.places
    if held_shares is None:
        figures, share = predict(costs, positions), shares(costs, positions[None, :])[0][0]
    else:
        share = np.array(held_shares)
        figures = held_breakdown(costs, positions, share)
    workers = _placements(problem, candidate, rounded_shares(share.tolist()))
    predicted = _prediction(used, figures, share)
    return Plan(
        planner=planner,
        seed=problem.request.seed,
        plan_id=plan_id(problem.request, problem.graph.digest, planner, workers),
        partitions=problem.partitions(len(order)),
        workers=workers,
        ranks_by_node=gpus_by_node(workers),
        predicted=predicted,
        objective=rounded(predicted.epoch_seconds + costs.communication_weight * predicted.communication_seconds),
        rejected=reasons.rejections(problem, candidate),
        snapshot=problem.graph.digest,
        reasons=(*reasons.reasons(used, candidate, figures, others), *trust.source(predicted, problem, order)),
        fallbacks=(*steps, *trust.fallbacks(used)),
        allreduce=allreduce_cost(used),
        links=links_of_plan(used.links, positions),
    )


def _placements(problem: Problem, candidate: Candidate, parts: Sequence[float]) -> tuple[WorkerPlacement, ...]:
    """The workers in ring order, each with its part of the graph."""
    gpus = problem.demand.gpus
    return tuple(
        WorkerPlacement(index, index * gpus, problem.names[member], gpus, part, problem.graph.nodes[problem.nodes[member]].gpu_product)
        for index, (member, part) in enumerate(zip(candidate.order, parts, strict=True))
    )


def _prediction(used: UsedNodes, figures: Breakdown, share: FloatArray) -> Prediction:
    """The figures, times what finished runs on such GPUs taught and the search did not know yet."""
    problem, order = used.problem, used.order
    stated = stated_epoch(used, share)
    calibration = trust.correction(problem, order, figures, stated)
    low, high = trust.stated_range(used, figures, calibration, stated.parts)
    factor = trust.shown_ratio(calibration)
    return Prediction(
        epoch_seconds=rounded(factor * figures.epoch_seconds),
        communication_seconds=rounded(factor * figures.communication_seconds),
        low_seconds=rounded(low),
        high_seconds=rounded(high),
        cost_per_epoch=_cost(problem, order, factor * figures.epoch_seconds),
        calibration=calibration,
        bound_by=bounded_by(used, share, figures.slowest_worker),
        parts=stated.parts,
        cost_model=COST_MODEL,
    )


def _cost(problem: Problem, order: IntArray, epoch_seconds: float) -> float | None:
    """Price of all GPUs for one epoch; None where the policy lacks a price."""
    hourly = 0.0
    for member in order:
        price = problem.speeds[member].price_per_hour
        if price is None:
            return None
        hourly += price * problem.demand.gpus
    return rounded(hourly * epoch_seconds / 3600.0)
