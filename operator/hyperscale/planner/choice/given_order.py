"""The checked plan of a job whose placement is given. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.graph import ClusterGraph
from hyperscale.model.plan import Plan, bounded
from hyperscale.model.planning import PlanRequest
from hyperscale.model.workload import WorkloadProfile
from hyperscale.planner.check.plan_check import violations
from hyperscale.planner.choice.portfolio import describe
from hyperscale.planner.cost.objective import objectives
from hyperscale.planner.problem.placement_problem import pose
from hyperscale.planner.search.search_result import Candidate


def plan_in_order(
    request: PlanRequest, graph: ClusterGraph, workload: WorkloadProfile, policy: PolicySpec, nodes: Sequence[str], planner: str
) -> Plan | None:
    """The plan with one worker on each of `nodes` in ring order, as `planner` would word it; None where the check refuses it."""
    problem = pose(request, graph, workload, policy)
    place = {name: position for position, name in enumerate(problem.names)}
    if not all(name in place for name in nodes):
        return None
    order = np.array([place[name] for name in nodes], dtype=np.int64)
    members, positions = np.unique(order, return_inverse=True)
    seconds = float(objectives(problem.costs(members), positions[None, :])[0])
    if not np.isfinite(seconds):
        return None
    candidate = Candidate(seconds, len(nodes), tuple(nodes), tuple(order.tolist()))
    plan = bounded(describe(problem, candidate, planner))
    return None if violations(plan, request, graph.snapshot) else plan
