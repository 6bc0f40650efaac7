"""What the operator would decide about new jobs, from all that it goes by: with the same questions to the same planners. No output."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from hyperscale.cli.plan.inputs import JobInput
from hyperscale.cli.plan.known_inputs import KnownInputs
from hyperscale.cli.plan.outcome import PlanOutcome
from hyperscale.model.admission_query import AdmissionRequest, AdmissionResult, Deferral, QueuedJob, QueueScore, Start
from hyperscale.model.api.policy import QueueOrder
from hyperscale.model.graph import ClusterGraph
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.model.preview import PreviewQueue
from hyperscale.planner.choice.age import with_figures
from hyperscale.planner.choice.given_order import plan_in_order
from hyperscale.planner.choice.portfolio import make_plan
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.learned.learned_planner import planners
from hyperscale.planner.problem.amounts import amounts_of
from hyperscale.planner.queue.joint import take_turns
from hyperscale.planner.queue.placement_oracle import Expired, PlacementOracle
from hyperscale.planner.queue.queue_policies import choosers
from hyperscale.planner.together.joint_starts import joint_starts
from hyperscale.planner.together.start_together import TogetherPlanner
from hyperscale.planner.workload.profile import profile


@dataclass(frozen=True)
class AskedJob:
    """One job that is asked about."""

    job: JobInput
    request: PlanRequest
    outcome: PlanOutcome
    refusal: Infeasible | None = None
    """Why the operator does not even ask its planners."""
    missing: tuple[str, ...] = ()
    """What could not be read of this job."""


@dataclass
class Decided:
    """What comes of all of them."""

    starts: list[Start] = field(default_factory=list)
    """Of the jobs that the operator's queue starts now, in the order chosen."""
    holds: list[Deferral] = field(default_factory=list)
    """Of those that it lets wait, in the order in which they go next."""
    others: list[tuple[AskedJob, Plan | Infeasible]] = field(default_factory=list)
    """Of those that it plans and does not start."""
    missing: tuple[str, ...] = ()
    """What the plans were made without."""
    score: QueueScore | None = None
    fallbacks: tuple[str, ...] = ()


class Preview:
    """Decides on what is known, within a time."""

    def __init__(self, known_inputs: KnownInputs, deadline_seconds: float) -> None:
        self._known = known_inputs
        self._missing = known_inputs.missing
        self._ends = time.monotonic() + deadline_seconds
        self._hurries = self._ends - deadline_seconds / 2
        self._graph = build(known_inputs.snapshot, known_inputs.policy)
        self._planners = planners()
        state = known_inputs.state
        self._queue = state.queue if state is not None else PreviewQueue()
        self._free = dict(state.free_gpus) if state is not None else {}
        self._held = dict(state.reserved_amounts) if state is not None else {}
        self._sizes = known_inputs.asked_sizes

    def decide(self, asked: Sequence[AskedJob]) -> Decided:
        """Jobs of the queue together, as it decides; the others each on what those leave free.

        Raises QueueError where time ran out before any job was looked at; ValueError for a job that cannot be profiled.
        """
        self._missing = tuple(dict.fromkeys((*self._known.missing, *(text for one in asked for text in one.missing))))
        of_queue = [one for one in asked if one.outcome.decided_by_operator]
        queued = [one for one in of_queue if one.refusal is None]
        decided = self._together(queued) if self._orders(queued) else self._in_order(queued)
        decided.holds += [_refused(one.job.key, one.refusal) for one in of_queue if one.refusal is not None]
        decided.others = [(one, self._apart(one)) for one in asked if not one.outcome.decided_by_operator]
        decided.missing = self._missing
        return decided

    def _apart(self, one: AskedJob) -> Plan | Infeasible:
        """The answer about a job that the operator's queue does not decide on."""
        answer = one.refusal or self._alone(one)
        return self._dated(answer) if isinstance(answer, Plan) else answer

    def _orders(self, queued: Sequence[AskedJob]) -> bool:
        """Whether there is anything to order, as control/scheduler/admission.py sees it."""
        others = bool(self._queue.running or self._queue.pending or len(queued) > 1)
        return bool(queued) and others and self._known.policy.queue.order is not QueueOrder.ARRIVAL

    def _in_order(self, queued: Sequence[AskedJob]) -> Decided:
        decided = Decided()
        for one in queued:
            answer = self._alone(one)
            if isinstance(answer, Plan):
                self._take(answer, one.request)
                seconds = answer.predicted.epoch_seconds * one.request.job.model.epochs
                decided.starts.append(Start(one.job.key, self._dated(answer), seconds, seconds))
            else:
                decided.holds.append(_refused(one.job.key, answer))
        return decided

    def _together(self, queued: Sequence[AskedJob]) -> Decided:
        policy = self._known.policy
        desk = PlacementOracle(self._graph, policy, self._place)
        desk.expired, desk.hurried = self._expired, lambda: time.monotonic() >= self._hurries
        requests = [one.request for one in queued]
        first = self._queue.since_last_arrival_seconds or 0.0
        jobs = tuple(
            QueuedJob(request, weight=float(min(request.job.queue_weight, policy.queue.max_queue_weight)), gap_seconds=gap)
            for request, gap in zip(requests, (first, *(0.0 for _ in requests[1:])), strict=True)
        )
        question = AdmissionRequest(
            jobs=jobs,
            running=self._queue.running,
            free_gpus=self._free,
            claims=self._queue.claims,
            deadline_seconds=policy.plan_deadline_seconds,
            arrivals=self._queue.arrivals,
            reserved_amounts=self._held,
            asked_sizes=self._sizes,
        )
        together = TogetherPlanner(
            self._graph, policy, lambda request: profile(request.job), plan_in_order, joint_starts, expired=self._expired
        )
        turns: AdmissionResult = take_turns(question, desk, policy.queue, choosers(policy.queue), together)
        by_key = {request.job_key: request for request in requests}
        for start in turns.starts:
            self._take(start.plan, by_key[start.key])
        starts = [replace(start, plan=self._dated(start.plan)) for start in turns.starts]
        return Decided(starts, list(turns.holds), score=turns.score, fallbacks=turns.fallbacks)

    def _alone(self, one: AskedJob) -> Plan | Infeasible:
        request = replace(one.request, free_gpus=self._free, reserved_amounts=self._held, asked_sizes=self._sizes)
        return self._place(request, self._graph, self._expired)

    def _place(self, request: PlanRequest, graph: ClusterGraph, expired: Expired) -> Plan | Infeasible:
        return make_plan(request, graph, profile(request.job), self._known.policy, expired=expired, planners=self._planners)

    def _take(self, plan: Plan, request: PlanRequest) -> None:
        """What a plan takes is no longer there for the next job."""
        taken = Counter(plan.gpus_by_node())
        for node in self._known.snapshot.nodes:
            if node.name in taken:
                self._free[node.name] = max(0, self._free.get(node.name, node.free_gpus) - taken[node.name])
        amounts = amounts_of(request)
        for worker in plan.workers:
            reserved = self._held.get(worker.node, {})
            self._held[worker.node] = {name: reserved.get(name, 0.0) + amounts.get(name, 0.0) for name in sorted({*reserved, *amounts})}

    def _dated(self, plan: Plan) -> Plan:
        known_inputs = self._known
        return with_figures(plan, known_inputs.snapshot, known_inputs.source, known_inputs.elapsed_seconds, self._missing)

    def _expired(self) -> bool:
        return time.monotonic() >= self._ends


def _refused(key: str, refusal: Infeasible) -> Deferral:
    """A job that waits because there is no plan for it."""
    return Deferral(key, refusal.reason, refusal.message, infeasible=refusal)
