"""Asking the planners: one question at a time, with what is decided and taken already; and asking whether a plan still fits.

Jobs that are not decided on elsewhere (admission.py) are asked about together, unless one is alone on an idle cluster.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Final, Protocol

import msgspec

from hyperscale.control.cache.records import Key
from hyperscale.control.lifecycle.queue_wait import is_pending
from hyperscale.control.lifecycle.stoppable import run_is_over
from hyperscale.control.lifecycle.unscheduled import refused_nodes
from hyperscale.control.scheduler.admission import AdmissionPlanner, AdmissionScheduler, PlanAnswer
from hyperscale.control.scheduler.alternative_search import AlternativeSearch
from hyperscale.control.scheduler.control_context import ControlContext
from hyperscale.control.scheduler.evaluated_question import question_as_planned
from hyperscale.control.scheduler.migration import MigrationPlanner, MigrationSearch
from hyperscale.control.scheduler.pending import Pending
from hyperscale.control.scheduler.plan_evaluation import MAX_FAULT, Evaluations, PlanEvaluator
from hyperscale.control.scheduler.pod_demand import as_pod_asks
from hyperscale.control.scheduler.preemption import PreemptionPlanner, PreemptionSearch
from hyperscale.control.scheduler.queue_beside import queue_beside
from hyperscale.control.scheduler.running_jobs import Running
from hyperscale.control.scheduler.waiting import Waiting
from hyperscale.control.specs.plan_question import missing_volumes, question_about, worker_asks
from hyperscale.model.admission_query import claims_of
from hyperscale.model.api.job import JobSpec, StartPolicy
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.decision import MakePlan
from hyperscale.model.observed.reconcile_input import ReconcileInput
from hyperscale.model.plan import Infeasible, Plan, Rejection
from hyperscale.model.planning import PlanRequest, Volumes
from hyperscale.model.pods import WORKER, PodView
from hyperscale.planner.check.drained_snapshot import emptied_snapshot
from hyperscale.planner.check.plan_check import misfits, violations
from hyperscale.planner.choice.age import with_figures
from hyperscale.planner.migration.vacated import vacated, vacated_request
from hyperscale.planner.problem.amounts import amounts_of

OPERATOR: Final = "Operator"
"""Source of the figures of the operator's plans."""
SAME_SHARE_RATIO: Final = 0.05
"""Parts of METIS differ from their shares by 3 % themselves."""


class Planner(AdmissionPlanner, MigrationSearch, PreemptionSearch, Protocol):
    """The component that answers requests; in the operator a process of its own."""

    async def plan(self, request: PlanRequest, snapshot: ClusterSnapshot, policy: PolicySpec) -> Plan | Infeasible:
        """A checked plan, or why there is none; never raises, never takes longer than the request's deadline by much."""
        ...


class ClaimReader(Protocol):
    """Reads the claims of a job's pods."""

    async def read(self, key: tuple[str, str], claims: tuple[str, ...]) -> Volumes:
        """What they say now."""
        ...

    def claimed_volumes(self, key: tuple[str, str]) -> Volumes:
        """What was read last."""
        ...

    def forget(self, key: tuple[str, str]) -> None:
        """Nothing is claimed any more."""
        ...


class Planning:
    """Plans for jobs, made one after the other so that no two get the same GPUs."""

    def __init__(
        self, context: ControlContext, planner: Planner, claims: ClaimReader | None = None, evaluations: Evaluations | None = None
    ) -> None:
        """claims: reads what the pods' volumes allow; None where nothing can be read, in tests of planning alone.

        evaluations: answers about plans in force; None in tests of planning alone
        """
        self._cache, self._reader, self._telemetry, self._clock = context.cache, context.reader, context.telemetry, context.clock
        self._lock = context.planner_lock
        self._planner = planner
        self._claims = claims
        self.waiting = Waiting(context)
        self.pending = Pending(context.cache, context.reader, context.clock, context.monotonic)
        self.running = Running(context.cache, context.reader, context.clock)
        self.admission = AdmissionScheduler(context, planner, self.pending, self.running)
        self.migration = MigrationPlanner(context, planner, self._request_for)
        self.alternatives = AlternativeSearch(context, planner, self._unbound_question)
        as_planned = partial(question_as_planned, context.cache, self._request_for)
        beside = partial(queue_beside, context.cache, context.reader, self.pending, self.running)
        self.evaluator = PlanEvaluator(context, evaluations, as_planned, beside) if evaluations is not None else None
        self.preemption = PreemptionPlanner(context, planner, self.admission, self.pending, self.running, self.migration)

    async def make(self, key: Key, state: ReconcileInput, step: MakePlan, policy: PolicySpec) -> PlanAnswer:
        """Ask for a plan; a plan's GPUs are assumed taken until the pass ends or its MPIJob is seen.

        Raises ApiError where the claims of its volumes cannot be read now.
        """
        if (missing := await self._missing_volumes(key, state)) is not None:
            snapshot = self._cache.snapshot(policy, self._clock())
            self._count(missing, snapshot)
            return PlanAnswer(missing, snapshot)
        if is_pending(state) and (standing := self.waiting.refusal(key, policy)) is not None:
            return PlanAnswer(standing.outcome, self._cache.snapshot(policy, self._clock()), standing.turn)
        async with self._lock:
            basis = self.waiting.basis(key, policy)
            answer = await self.admission.take(key, state, policy)
            if answer is None:
                answer = await self._ask(key, state, step, policy)
            elif answer.outcome is not None:
                self._count(answer.outcome, answer.snapshot)
                if isinstance(answer.outcome, Plan) and state.restart.preempted:
                    answer = answer._replace(outcome=steady(answer.outcome, state.plan.in_force))
        self.waiting.learn(key, basis, answer)
        if not isinstance(answer.outcome, Plan):
            return answer
        elapsed = max(0.0, self._clock() - answer.snapshot.taken_at)
        return answer._replace(outcome=with_figures(answer.outcome, answer.snapshot, OPERATOR, elapsed))

    async def _missing_volumes(self, key: Key, state: ReconcileInput) -> Infeasible | None:
        """Read the claims that the workers mount; a refusal where nothing exists yet and one of them is missing.

        Its pods would hold GPUs and never start. A plan that nothing follows from needs no volume.
        """
        job = state.job.parsed
        claims = worker_asks(job).claims if self._claims is not None and job is not None else ()
        if self._claims is None or job is None:
            return None
        if not claims:
            self._claims.forget(key)
            return None
        missing = (await self._claims.read(key, claims)).missing
        if not missing or state.gang.mpijob is not None or job.start_policy is StartPolicy.NEVER:
            return None
        return missing_volumes(key.namespace, missing)

    async def _ask(self, key: Key, state: ReconcileInput, step: MakePlan, policy: PolicySpec) -> PlanAnswer:
        snapshot = self._cache.snapshot(policy, self._clock())
        request = msgspec.structs.replace(
            self._request(key, state, policy, snapshot),
            workers_fixed=step.workers_fixed,
            pinned=step.pinned,
            excluded_nodes=step.excluded_nodes,
        )
        with self._telemetry.plan_seconds.labels(planner=str(state.job.parsed.planner if state.job.parsed else "")).time():
            answer = await self._planner.plan(request, snapshot, policy)
            if isinstance(answer, Infeasible) and step.may_shrink:
                neither = f"{answer.message.removesuffix('.')}; fewer workers find no room either"
                fewer = await self._shrunk(state, request, snapshot, policy)
                answer = fewer or msgspec.structs.replace(answer, message=neither)
        self._count(answer, snapshot)
        if isinstance(answer, Plan):
            answer = steady(answer, state.plan.in_force)
            answer = self.admission.alone(key, state, policy, answer)
            self._cache.assume(key, answer, amounts_of(request))
        return PlanAnswer(answer, snapshot)

    async def _shrunk(self, state: ReconcileInput, request: PlanRequest, snapshot: ClusterSnapshot, policy: PolicySpec) -> Plan | None:
        """A plan with fewer workers than the MPIJob has, on the cluster without its pods; None where even that does not fit."""
        if state.gang.mpijob is None:
            return None
        claims = claims_of(pod for pod in state.gang.pods if pod.role == WORKER)
        counts = msgspec.structs.replace(request.job.workers, max_replicas=state.gang.mpijob.workers - 1)
        fewer = msgspec.structs.replace(request, workers_fixed=None, job=msgspec.structs.replace(request.job, workers=counts))
        answer = await self._planner.plan(vacated(fewer, claims), emptied_snapshot(snapshot, claims), policy)
        return answer if isinstance(answer, Plan) else None

    def drop(self, key: Key) -> None:
        """Give back what was planned for a job before its MPIJob exists: its spec changed."""
        self.pending.drop(key)

    def forget(self, key: Key) -> None:
        """Forget a job that is gone."""
        self.pending.drop(key)
        self.waiting.forget(key)
        if self._claims is not None:
            self._claims.forget(key)
        self.alternatives.forget(key)
        if self.evaluator is not None:
            self.evaluator.forget(key)

    def end_reconcile(self, key: Key) -> None:
        """Note that a reconcile of the job has ended."""
        self.pending.release_grant(key)

    async def begin_move(self, key: Key, plan: Plan, policy: PolicySpec) -> ClusterSnapshot | None:
        """Take the GPUs of a running job's new plan, until the pass ends; the snapshot that it fits, None where it fits no more."""
        self.migration.take(key)
        async with self._lock:
            snapshot = self._cache.snapshot(policy, self._clock())
            job = self.migration.running_job(key, policy, snapshot)
            if job is None or violations(plan, vacated_request(job), emptied_snapshot(snapshot, job.claims)):
                self._telemetry.migrations.labels(outcome="Abandoned").inc()
                return None
            self._cache.assume(key, plan, amounts_of(job.request))
            self._telemetry.migrations.labels(outcome="Started").inc()
            return snapshot

    async def take_alternative(self, key: Key, state: ReconcileInput, plan: Plan, policy: PolicySpec) -> tuple[ClusterSnapshot, str]:
        """Take the GPUs of the plan that a person prefers, until the pass ends; the snapshot, and why it does not fit, or ""."""
        async with self._lock:
            snapshot = self._cache.snapshot(policy, self._clock())
            request = self._request(key, state, policy, snapshot)
            wrong = violations(plan, request, snapshot)
            if not wrong:
                self._cache.assume(key, plan, amounts_of(request))
            return snapshot, f"it does not fit any more: {'; '.join(wrong[:3])}"[:MAX_FAULT] if wrong else ""

    def misfits(self, key: Key, state: ReconcileInput, policy: PolicySpec) -> tuple[Rejection, ...]:
        """Planned nodes of workers not yet bound that could not take them now."""
        plan = state.plan.in_force
        if plan is None or state.job.parsed is None or not _places_workers(state):
            return ()
        bound = {pod.index: pod.node for pod in state.gang.workers if pod.bound and pod.index is not None}
        if len(bound) >= len(plan.workers):
            return ()
        waiting = {worker.node for worker in plan.workers if worker.index not in bound}
        snapshot = self._cache.snapshot(policy, self._clock())
        request = msgspec.structs.replace(self._request(key, state, policy, snapshot, waiting), pinned=bound)
        return tuple(misfit for misfit in misfits(plan, request, snapshot) if misfit.node in waiting)

    def _unbound_question(self, key: Key, job: JobSpec, policy: PolicySpec, snapshot: ClusterSnapshot) -> PlanRequest:
        """The question about a job that has no pods."""
        return self._request_for(key, job, None, policy, snapshot)

    def _request(
        self, key: Key, state: ReconcileInput, policy: PolicySpec, snapshot: ClusterSnapshot, nodes: Collection[str] | None = None
    ) -> PlanRequest:
        """The question about a job; it knows what other plans hold of these `nodes`, or of all."""
        if state.job.parsed is None:
            raise ValueError("a job whose spec cannot be read is not planned")
        return self._request_for(key, state.job.parsed, next(iter(state.gang.workers), None), policy, snapshot, nodes)

    def _request_for(
        self,
        key: Key,
        job: JobSpec,
        example: PodView | None,
        policy: PolicySpec,
        snapshot: ClusterSnapshot,
        nodes: Collection[str] | None = None,
    ) -> PlanRequest:
        """A question about a job; `example` is one of its worker pods where it has any."""
        free, volumes = self._cache.assumed_plans.free_gpus(snapshot, key), self._reader.volumes(key).rules
        corrections = self._reader.placement_corrections(job, policy, key.namespace)
        asked = question_about(str(key), job, policy, self._reader.calibration(job, key.namespace), free, volumes, corrections)
        record = self._cache.jobs.get(key)
        refused = refused_nodes(record.status, self._clock()) if record is not None else {}
        asked = msgspec.structs.replace(
            asked,
            reserved_amounts=self._cache.assumed_plans.reserved_amounts(key, nodes),
            refused_nodes=refused,
            weights=self._reader.applied_weights(key.namespace, policy),
            asked_sizes=self._cache.snapshots.asked.sizes(),
        )
        return asked if example is None else as_pod_asks(asked, example)

    def _count(self, answer: Plan | Infeasible, snapshot: ClusterSnapshot) -> None:
        planner, outcome = (answer.planner, "Planned") if isinstance(answer, Plan) else ("none", answer.reason)
        self._telemetry.plans.labels(planner=planner, outcome=outcome).inc()
        if isinstance(answer, Plan):
            self._telemetry.count_scores(answer)
        self._telemetry.topology_nodes.set(len(snapshot.nodes))
        self._telemetry.topology_links.set(len(snapshot.links))


def steady(plan: Plan, before: Plan | None) -> Plan:
    """The plan with the shares of the one before, where none differs by more than SAME_SHARE_RATIO.

    Shares follow what the GPUs are measured to do, and move a little with every measurement: that is not worth partitioning again.
    """
    if before is None or len(before.workers) != len(plan.workers) or before.partitions != plan.partitions:
        return plan
    pairs = tuple(zip(plan.workers, before.workers, strict=True))
    if any(abs(new.share - old.share) > SAME_SHARE_RATIO * old.share for new, old in pairs):
        return plan
    return msgspec.structs.replace(plan, workers=tuple(msgspec.structs.replace(new, share=old.share) for new, old in pairs))


def _places_workers(state: ReconcileInput) -> bool:
    """Whether the job's plan is yet to be carried out: its MPIJob does not exist, or runs and has gated workers.

    A plan of another graph, whose sizes are still to be read, is not.
    """
    mpijob = state.gang.mpijob
    if state.inspection.key:
        return False
    if mpijob is None:
        return not run_is_over(state.job.status)
    return mpijob.gated and not mpijob.suspended and bool(state.gang.workers)
