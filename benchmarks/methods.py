"""Our own answer to a placement problem, timed: the whole product path from a posed request to a checked plan."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from benchmarks.families import POLICY, Instance
from hyperscale.model.graph import IntArray
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.plan.portfolio import make_plan

OURS = "hyperscale"


class Answer(NamedTuple):
    """A plan and what it took."""

    plan: Plan
    seconds: float
    """Wall time of `make_plan`: candidates, search, choice, independent check, reasons."""
    order: IntArray
    """(k,) candidates of the problem in rank order."""

    @property
    def gap(self) -> float:
        """Proven distance from the optimum; +inf where nothing is proven."""
        return float("inf") if self.plan.optimality_gap is None else self.plan.optimality_gap


def planned(instance: Instance, deadline_seconds: float | None = None) -> Answer:
    """What the product answers; `deadline_seconds` is when it is told that time is up. Raises ValueError where it finds no plan."""
    request, graph = instance.problem.request, instance.graph
    started = time.perf_counter()
    until = started + (float("inf") if deadline_seconds is None else deadline_seconds)
    plan = make_plan(request, graph, instance.problem.workload, POLICY, expired=lambda: time.perf_counter() > until)
    seconds = time.perf_counter() - started
    if isinstance(plan, Infeasible):
        raise ValueError(f"{instance.case} seed {instance.seed}: {plan.message}", plan.reason)
    place = {name: position for position, name in enumerate(instance.problem.names)}
    return Answer(plan, seconds, np.array([place[worker.node] for worker in plan.workers], dtype=np.int64))
