"""Our own answer to a placement problem, timed: the whole product path from a posed request to a checked plan."""

from __future__ import annotations

import time
from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from benchmarks.families import POLICY, Instance
from hyperscale.model.graph import IntArray
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.planner.choice.portfolio import make_plan
from hyperscale.planner.learned.learned_planner import planners
from hyperscale.planner.problem.placement_problem import pose
from hyperscale.planner.search.heuristic import Heuristic

OURS: Final = "hyperscale"
PLANNERS: Final = planners()
"""Those of the planner process."""


class Answer(NamedTuple):
    """A plan and what it took."""

    plan: Plan
    seconds: float
    """Wall time of `make_plan`: candidates, search, choice, independent check, reasons."""
    cpu_seconds: float
    """Processor time of the same: what an idle machine would take."""
    order: IntArray
    """(k,) candidates of the problem in rank order."""

    @property
    def gap(self) -> float:
        """Proven distance from the optimum; +inf where nothing is proven."""
        return float("inf") if self.plan.optimality_gap is None else self.plan.optimality_gap


def planned(instance: Instance, deadline_seconds: float | None = None) -> Answer:
    """What the product answers; `deadline_seconds` is when it learns that time is up. Raises ValueError where it finds no plan."""
    request, graph = instance.problem.request, instance.graph
    started, cpu = time.perf_counter(), time.process_time()
    until = started + (float("inf") if deadline_seconds is None else deadline_seconds)
    plan = make_plan(request, graph, instance.problem.workload, POLICY, expired=lambda: time.perf_counter() > until, planners=PLANNERS)
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    if isinstance(plan, Infeasible):
        raise ValueError(f"{instance.case} seed {instance.seed}: {plan.message}", plan.reason)
    place = {name: position for position, name in enumerate(instance.problem.names)}
    return Answer(plan, seconds, cpu, np.array([place[worker.node] for worker in plan.workers], dtype=np.int64))


class Proof(NamedTuple):
    """A placement with its bound, and what it took."""

    seconds: float
    """From the request, without the check, the reasons and the rejections of a plan."""
    cpu_seconds: float
    gap: float
    """+inf where nothing is proven."""


def searched(instance: Instance) -> Proof:
    """The search alone; the seed differs from the plan's, so that nothing is remembered from it."""
    request = replace(instance.problem.request, seed=instance.problem.request.seed + 1)
    started, cpu = time.perf_counter(), time.process_time()
    found = Heuristic().candidates(pose(request, instance.graph, instance.problem.workload, POLICY), lambda: False)
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    best = min(candidate.objective for candidate in found)
    return Proof(seconds, cpu, float("inf") if found.lower_bound is None else best / found.lower_bound - 1.0)
