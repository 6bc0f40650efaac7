"""Pending jobs that one decision starts, placed together instead of one after the other. Pure and deterministic.

Who starts with how many workers is decided before; here only the nodes change. The answer stands where its plans pass the independent
check and their predicted sum is lower; else the plans made one after the other stay.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.graph import ClusterGraph
from hyperscale.model.plan import MAX_SENTENCES, Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.model.workload import WorkloadProfile
from hyperscale.planner.problem.amounts import amounts_of
from hyperscale.planner.problem.figures import figures_of
from hyperscale.planner.problem.placement_problem import USABLE_MEMORY_RATIO, Problem, free_gpus, pose
from hyperscale.planner.problem.worker_demand import demand_of
from hyperscale.planner.search.ring import canonical
from hyperscale.planner.together.joint_starts import joint_starts
from hyperscale.planner.together.shared_nodes import LIMIT_ROUNDING, TogetherJob, shared_nodes
from hyperscale.planner.together.together_search import Starts, place_together

MAX_TOGETHER: Final = 12
"""Jobs placed together; of more the first ones. The search takes up to 100 ms for 12."""
MAX_TOGETHER_WORKERS: Final = 256
"""Workers of all these jobs."""
MIN_SAVING_RATIO: Final = 0.01
"""Part of the sum that must be saved: no prediction is worth less."""
FAILED: Final = "PlacedTogetherFailed"
"""Step down of plans that were made one after the other because placing the jobs together failed."""

Describe = Callable[[PlanRequest, ClusterGraph, WorkloadProfile, PolicySpec, Sequence[str], str], Plan | None]
"""The checked plan of a given placement; `choice.given_order.plan_in_order`."""


class BegunJob(NamedTuple):
    """A job that the decision starts."""

    request: PlanRequest
    """With the worker count of the plan, and with what is free and reserved before any of the jobs starts."""
    plan: Plan
    """One after the other: it reckons with the plans before it."""
    weight: float = 1.0
    """What a second of its run counts in the queue."""
    slack_ratio: float = 1.0
    """Its run may take this multiple of that of `plan`."""


class TogetherAnswer(NamedTuple):
    """Plans of the jobs, in their order."""

    plans: tuple[Plan, ...]
    saved_ratio: float = 0.0
    """Part of the weighted sum that is saved; 0 where the plans are those made one after the other."""
    start: str = ""
    """Which start of the search led to it."""
    fallbacks: tuple[str, ...] = ()


class NodesTogether(NamedTuple):
    """What the search says."""

    names: Mapping[int, Sequence[str]]
    """Nodes in ring order, by place of the job in the decision."""
    start: str
    """Which start of the search led to it."""


Together = Callable[[Sequence[BegunJob]], TogetherAnswer]


class TogetherPlanner:
    """Places the jobs of one decision on one cluster."""

    def __init__(
        self,
        graph: ClusterGraph,
        policy: PolicySpec,
        profile: Callable[[PlanRequest], WorkloadProfile],
        describe: Describe,
        starts: Starts | None = joint_starts,
        expired: Callable[[], bool] = lambda: False,
    ) -> None:
        """expired: turns true when the decision must be answered; the plans made one after the other are the answer then."""
        self._expired = expired
        self._graph, self._policy, self._profile, self._describe, self._starts = graph, policy, profile, describe, starts

    def __call__(self, jobs: Sequence[BegunJob]) -> TogetherAnswer:
        """The jobs' plans, together where that saves something; never raises but MemoryError."""
        before = TogetherAnswer(tuple(job.plan for job in jobs))
        movable = movable_jobs(jobs)
        if len(movable) < 2:
            return before
        try:
            return self._together(jobs, movable) or before
        except MemoryError:
            raise  # ends the process, as everywhere
        except Exception:  # a fault here must not keep jobs from starting: their plans one after the other are sound
            return before._replace(fallbacks=(FAILED,))

    def search(self, jobs: Sequence[BegunJob], movable: Sequence[int]) -> NodesTogether | None:
        """Nodes of the jobs at `movable`; None where the plans one after the other are as good, or time is up."""
        requests = _beside_the_others(jobs, movable)
        posed: list[TogetherJob] = []
        for index, request in zip(movable, requests, strict=True):
            posed.append(self._posed(jobs[index], request, [job.problem for job in posed]))
            if self._expired():
                return None
        shared = shared_nodes(posed)
        if not shared.fits(shared.one_by_one):
            return None
        placed = place_together(shared, self._starts, seed=jobs[0].request.seed)
        if placed.total > placed.before * (1.0 - MIN_SAVING_RATIO):
            return None
        names = {
            index: [self._graph.nodes[position].name for position in shared.positions(at, canonical(placed.orders[at][None, :])[0])]
            for at, index in enumerate(movable)
        }
        return NodesTogether(names, placed.start)

    def _together(self, jobs: Sequence[BegunJob], movable: Sequence[int]) -> TogetherAnswer | None:
        """None where nothing is saved."""
        together = self.search(jobs, movable)
        plans = self._described(jobs, together.names) if together is not None else None
        if together is None or plans is None:
            return None
        saved = _saved_ratio(jobs, plans)
        if saved < MIN_SAVING_RATIO:
            return None
        others = f"{len(movable) - 1} other job{'s' if len(movable) > 2 else ''}"
        sentence = f"placed together with {others}: the sum of their predicted runs is {100.0 * saved:.1f} % lower than one after the other"
        worded = tuple(_with_reason(plan, sentence) if index in together.names else plan for index, plan in enumerate(plans))
        return TogetherAnswer(worded, saved, together.start)

    def _posed(self, job: BegunJob, request: PlanRequest, others: Sequence[Problem]) -> TogetherJob:
        order = tuple(self._graph.index[worker.node] for worker in job.plan.workers)
        workload = self._profile(request)
        alike = next((posed for other in others if (posed := posed_like(other, request, workload)) is not None), None)
        problem = alike or pose(request, self._graph, workload, self._policy)
        return TogetherJob(problem, order, _weight(job), job.slack_ratio * job.plan.objective / _factor(job.plan))

    def _described(self, jobs: Sequence[BegunJob], names: Mapping[int, Sequence[str]]) -> tuple[Plan, ...] | None:
        """Plans in the jobs' order, each on what those before it leave; None where the check refuses one, or time is up."""
        free, reserved = dict(jobs[0].request.free_gpus), _copied(jobs[0].request.reserved_amounts)
        plans: list[Plan] = []
        for index, job in enumerate(jobs):
            request = replace(job.request, free_gpus=dict(free), reserved_amounts=_copied(reserved))
            nodes = names.get(index) or [worker.node for worker in job.plan.workers]
            plan = self._describe(request, self._graph, self._profile(request), self._policy, nodes, job.plan.planner)
            if plan is None or self._expired():
                return None
            plans.append(replace(plan, fallbacks=(*_steps(job.plan), *plan.fallbacks)))
            _take(job.request, plan, free, reserved)
        return tuple(plans)


def posed_like(other: Problem, request: PlanRequest, workload: WorkloadProfile) -> Problem | None:
    """The problem of `request` from that of a job whose workers need the same of a node: vetting many nodes takes longest; else None."""
    demand = demand_of(request, (workload.parameter_bytes + workload.step_bytes) / USABLE_MEMORY_RATIO)
    if demand != other.demand or other.pinned or request.pinned:
        return None
    most = request.workers_fixed or request.job.workers.max_replicas
    slots = np.array([min(most, other.vetting.slots.get(name, 0)) for name in other.names], dtype=np.int64)
    use, use_known = figures_of(other.graph).utilization(other.nodes, slots * demand.gpus, free_gpus(request, other.graph, other.nodes))
    return dataclasses.replace(other, request=request, workload=workload, slots=slots, utilization=use, utilization_known=use_known)


def _saved_ratio(jobs: Sequence[BegunJob], plans: Sequence[Plan]) -> float:
    """Part of the weighted sum that the plans save; 0 where one of them takes longer than its job may."""
    pairs = list(zip(jobs, plans, strict=True))
    if any(plan.objective > job.slack_ratio * job.plan.objective * LIMIT_ROUNDING for job, plan in pairs):
        return 0.0
    before = math.fsum(_weight(job) * job.plan.objective for job in jobs)
    after = math.fsum(_weight(job) * plan.objective for job, plan in pairs)
    return 1.0 - after / before if before > 0.0 else 0.0


def movable_jobs(jobs: Sequence[BegunJob]) -> list[int]:
    """The jobs whose nodes may change, at most MAX_TOGETHER: no rank of theirs is pinned, no person weighs their time against cost."""
    movable: list[int] = []
    workers = 0
    for index, job in enumerate(jobs):
        free = not job.request.pinned and job.request.weights is None
        if free and len(movable) < MAX_TOGETHER and workers + len(job.plan.workers) <= MAX_TOGETHER_WORKERS:
            movable.append(index)
            workers += len(job.plan.workers)
    return movable


def _beside_the_others(jobs: Sequence[BegunJob], movable: Sequence[int]) -> list[PlanRequest]:
    """Requests of the movable jobs on what the plans of all others leave."""
    free, reserved = dict(jobs[0].request.free_gpus), _copied(jobs[0].request.reserved_amounts)
    for index, job in enumerate(jobs):
        if index not in movable:
            _take(job.request, job.plan, free, reserved)
    return [replace(jobs[index].request, free_gpus=dict(free), reserved_amounts=_copied(reserved)) for index in movable]


def _take(request: PlanRequest, plan: Plan, free: dict[str, int], reserved: dict[str, dict[str, float]]) -> None:
    """What the plan takes is gone; `free` names every node that it uses."""
    amounts = amounts_of(request)
    for worker in plan.workers:
        free[worker.node] -= worker.gpus
        of_node = reserved.setdefault(worker.node, {})
        for name, amount in amounts.items():
            of_node[name] = of_node.get(name, 0.0) + amount


def _copied(reserved: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    return {name: dict(amounts) for name, amounts in reserved.items()}


def _weight(job: BegunJob) -> float:
    """Of one second of an epoch: the whole run counts."""
    return job.weight * job.request.job.model.epochs


def _factor(plan: Plan) -> float:
    """What the cost model's figures were multiplied with in the plan."""
    return plan.predicted.calibration.factor if plan.predicted.calibration is not None else 1.0


def _steps(plan: Plan) -> tuple[str, ...]:
    """Steps down that do not come from the figures of the plan's nodes: a planner was missing or failed."""
    return tuple(step for step in plan.fallbacks if step.endswith(("Unavailable", "Failed")))


def _with_reason(plan: Plan, sentence: str) -> Plan:
    """The plan with a reason in front."""
    return replace(plan, reasons=(sentence, *plan.reasons)[:MAX_SENTENCES])
