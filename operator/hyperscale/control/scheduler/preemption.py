"""Running jobs beside those that wait: now and then it is asked whether all would end sooner if some of them stopped for others.

What is known lives in memory. A stop that has begun is in the job's status, and continues from there whatever becomes of this process.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Final, NamedTuple, Protocol

from msgspec.structs import replace

from hyperscale.control.cache.records import Key
from hyperscale.control.lifecycle.movable import resizable
from hyperscale.control.lifecycle.stoppable import (
    begun,
    epochs_safe,
    is_preempted,
    may_grow,
    preemption_blocker,
    run_before_stop_seconds,
    undisturbed,
    usable_gpus,
)
from hyperscale.control.scheduler.admission import AdmissionScheduler
from hyperscale.control.scheduler.control_context import ControlContext
from hyperscale.control.scheduler.migration import MigrationPlanner
from hyperscale.control.scheduler.pending import Pending
from hyperscale.control.scheduler.preemption_evaluation import PreemptionEvaluation, advised, not_advised
from hyperscale.control.scheduler.queue_entry import QueueEntry, with_workers
from hyperscale.control.scheduler.running_job_evaluator import RunningJobEvaluator
from hyperscale.control.scheduler.running_jobs import Running
from hyperscale.model.admission_query import MAX_RUNNING
from hyperscale.model.api.policy import PolicySpec, PreemptionMode
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.observed.reconcile_input import PreemptionView
from hyperscale.model.running_query import MAX_STOPPABLE, JobPreemption, PreemptibleJob, PreemptionAnswer, PreemptionQuestion
from hyperscale.model.status import LastPreemption
from hyperscale.util.rfc3339 import unix_seconds
from hyperscale.util.slices import Slices

DEADLINE_SECONDS: Final = 1.0
"""Of one question: pending jobs wait behind it."""
UNDECIDED_SECONDS: Final = 5.0
"""The queue itself comes first: nothing is asked while a job that came so short a time ago has had no answer."""
ENDING_SECONDS: Final = 300.0
"""Nothing is asked while pods of a stopped job end, but no longer than this: some hang on a lost node."""


class PreemptionSearch(Protocol):
    """The component that judges; in the operator the planner process."""

    async def preempt(self, question: PreemptionQuestion, snapshot: ClusterSnapshot, policy: PolicySpec) -> PreemptionAnswer | None:
        """Which running jobs would better stop for others; None where that could not be found out. Never raises."""
        ...


class _Group(NamedTuple):
    """Running jobs of one policy."""

    policy: PolicySpec
    keys: list[Key]


class PreemptionPlanner(RunningJobEvaluator[PreemptionEvaluation]):
    """Puts the question, one policy at a time, and keeps the answers."""

    def __init__(
        self,
        context: ControlContext,
        planner: PreemptionSearch,
        admission: AdmissionScheduler,
        pending: Pending,
        running: Running,
        migration: MigrationPlanner,
    ) -> None:
        super().__init__(context, "Preemption")
        self._planner = planner
        self._admission = admission
        self._pending = pending
        self._running = running
        self._migration = migration
        self._asked: list[tuple[PolicySpec, float]] = []
        """When the question of a policy was put last, by the clock that is never set."""

    def view(self, key: Key) -> PreemptionView | None:
        """What a pass over a job should know; None where the job was not judged yet."""
        judged = self._evaluations.get(key)
        return PreemptionView(judged.shown, judged.due) if judged is not None else None

    def begin(self, key: Key, policy: PolicySpec) -> LastPreemption | None:
        """Take up a due stop; None where it is void: the job may no longer be stopped, or no job is left to gain."""
        judged, record, view = self._evaluations.get(key), self._cache.jobs.get(key), self._cache.mpijobs.get(key)
        if judged is None or record is None or view is None or not judged.due:
            return None
        now = self._clock()
        held_long_enough = now - unix_seconds(view.start_time) >= run_before_stop_seconds(record.status, policy.queue)
        acts = policy.queue.preemption.mode is PreemptionMode.AUTOMATIC and undisturbed(record.status, view) and self._may_stop(key, policy)
        good = acts and held_long_enough and any(self._gains(name, key) for name in judged.beneficiaries)
        self._evaluations[key] = PreemptionEvaluation(begun=good)
        self._telemetry.preemptions.labels(outcome="Started" if good else "Abandoned").inc()
        job = self._reader.read(record.resource, self._cache.policies)[0]
        kept = epochs_safe(job, self._cache.progress.get(key), record.status, judged.epochs_kept)
        return begun(record.status, judged.beneficiaries, kept, now) if good else None

    async def check(self) -> None:
        """Put one question, about the policy that has waited longest, where jobs wait or a running one may grow onto free GPUs."""
        now = self._clock()
        groups = self._groups()
        self._forget(groups)
        if self._must_rest() or self._admission.failed or self._under_way():
            return
        at = self._monotonic()
        due = [group for group in groups if at - self._last(group.policy) >= group.policy.queue.preemption.check_period_seconds]
        for group in sorted(due, key=lambda group: (self._last(group.policy), group.keys[0])):
            if await self._ask(group, now):
                return

    async def _ask(self, group: _Group, now: float) -> bool:
        """Put the question; False where there is none to put."""
        policy = group.policy
        await self._admission.get_ready(policy)
        pending = self._pending.others(None, policy)
        if any(not entry.asked and now - entry.waits_since < UNDECIDED_SECONDS for entry in pending):
            return False
        waiting = [entry for entry in pending if entry.asked]
        snapshot = self._cache.snapshot(policy, now)
        wanted = bool(waiting) or not self._any_waits()
        running = await self._stoppable(group, snapshot) if snapshot.metrics.available and wanted else {}
        if not waiting and not may_grow(running.values(), self._admission.free(snapshot)[1]):
            running = {}
        if not running:
            self._learn(group.keys, {}, {}, policy)
            return False
        await self._put(group, self._question(waiting, running, snapshot, policy), snapshot, running, now)
        return True

    def _any_waits(self) -> bool:
        """Whether a job of any policy waits for GPUs that it could use, as far as is known."""
        for key in self._cache.unstarted:
            record = self._cache.jobs.get(key)
            if record is not None and key not in self._cache.assumed_plans:
                entry = self._pending.entry(key, self._reader.policy_of(record.resource, self._cache.policies))
                if entry is not None and not entry.hopeless:
                    return True
        return False

    async def _put(
        self, group: _Group, question: PreemptionQuestion, snapshot: ClusterSnapshot, running: dict[Key, PreemptibleJob], now: float
    ) -> None:
        """Ask the planner, note when it was asked, and take its answer in."""
        policy, asked = group.policy, self._runs(group.keys)
        stops = await self._answered(self._planner.preempt(question, snapshot, policy))
        self._asked = [(other, at) for other, at in self._asked if other != policy] + [(policy, self._monotonic())]
        if stops is not None:
            runs = self._runs(asked)
            same = [key for key in group.keys if runs.get(key) == asked.get(key)]
            self._learn(same, {advice.key: advice for advice in stops.stops}, running, policy)

    def _question(
        self, waiting: list[QueueEntry], running: dict[Key, PreemptibleJob], snapshot: ClusterSnapshot, policy: PolicySpec
    ) -> PreemptionQuestion:
        free_gpus, free = self._admission.free(snapshot)
        free += sum(claim.gpus for job in running.values() for claim in job.running.claims.values())
        asked = self._pending.question_about(waiting[0], waiting[1:], free, policy.queue.starvation_seconds) if waiting else []
        names = {str(key) for key in running}
        return PreemptionQuestion(
            pending=self._pending.queued(asked),
            running=tuple(running.values()),
            others=tuple(share for share in self._running.every() if share.key not in names)[:MAX_RUNNING],
            free_gpus=usable_gpus(snapshot, free_gpus, [entry.request for entry in asked], running.values()),
            claims=self._running.claims(snapshot),
            deadline_seconds=min(DEADLINE_SECONDS, policy.plan_deadline_seconds),
            arrivals=self._pending.arrivals,
            reserved_amounts=self._cache.assumed_plans.reserved_amounts(),
        )

    async def _stoppable(self, group: _Group, snapshot: ClusterSnapshot) -> dict[Key, PreemptibleJob]:
        """Jobs that may be stopped, those with the most work left for their weight."""
        policy, now = group.policy, self._clock()
        left = {share.key: share.remaining_seconds for share in self._running.every()}
        stoppable: dict[Key, PreemptibleJob] = {}
        weights = {key: self._weight(key, policy) for key in group.keys if self._may_stop(key, policy)}
        slices = Slices()
        for key in sorted(weights, key=lambda key: (-left.get(str(key), 0.0) / weights[key], key)):
            await slices.pause_if_due()
            job = self._migration.running_job(key, policy, snapshot)
            if job is not None:
                view = self._cache.mpijobs[key]
                sized = resizable(job.request.job, view)
                request = replace(job.request, workers_fixed=None) if sized else with_workers(job.request, len(job.plan.workers))
                held_seconds = max(0.0, now - unix_seconds(view.start_time))
                stoppable[key] = PreemptibleJob(replace(job, request=request), weights[key], held_seconds, sized)
            if len(stoppable) == MAX_STOPPABLE:
                break
        return stoppable

    def _may_stop(self, key: Key, policy: PolicySpec) -> bool:
        record, view = self._cache.jobs.get(key), self._cache.mpijobs.get(key)
        if record is None or view is None:
            return False
        # The hold-down of a first stop is the planner's to check: its answer says which other jobs would gain.
        run_seconds = self._clock() - unix_seconds(view.start_time)
        if record.status.preemptions and run_seconds < run_before_stop_seconds(record.status, policy.queue):
            return False
        job = self._reader.read(record.resource, self._cache.policies)[0]
        return job is not None and not preemption_blocker(job, view, record.status, policy.queue)

    def _weight(self, key: Key, policy: PolicySpec) -> float:
        job = self._reader.read(self._cache.jobs[key].resource, self._cache.policies)[0]
        return float(min(job.queue_weight, policy.queue.max_queue_weight)) if job is not None else 1.0

    def _learn(self, keys: list[Key], answers: dict[str, JobPreemption], asked: dict[Key, PreemptibleJob], policy: PolicySpec) -> None:
        """Take in an answer; passes are asked for where people should know, or a stop is due."""
        for key in keys:
            record, view = self._cache.jobs.get(key), self._cache.mpijobs.get(key)
            if record is None or view is None or not undisturbed(record.status, view):
                continue
            before = self._evaluations.get(key) or PreemptionEvaluation(record.status.proposed_preemption)
            advice = answers.get(str(key))
            if advice is not None:
                after = advised(before, advice, asked[key], policy.queue.preemption.mode, self._clock())
            else:
                after = not_advised(before, bool(asked))
            self._keep(key, before, after, record.status.proposed_preemption)

    def _gains(self, name: str, own: Key) -> bool:
        """Whether a job for which another one should stop still needs that: it waits, or is stopped with it."""
        key = Key(*name.split("/", 1))
        record, judged = self._cache.jobs.get(key), self._evaluations.get(key)
        if record is None or key == own:
            return key == own
        stops_too = is_preempted(record.status) or (judged is not None and (judged.due or judged.begun))
        return stops_too or (key in self._cache.unstarted and key not in self._cache.assumed_plans)

    def _groups(self) -> list[_Group]:
        """Undisturbed running jobs by policy, where the policy wants to know; jobs and groups in order of their keys."""
        groups: list[_Group] = []
        for key, _, _ in self._undisturbed():
            policy = self._policy(key)
            if policy.queue.preemption.mode is PreemptionMode.NEVER:
                continue
            group = next((other for other in groups if other.policy is policy or other.policy == policy), None)
            if group is None:
                groups.append(group := _Group(policy, []))
            group.keys.append(key)
        return groups

    def _withdraw_except(self, watched: Collection[Key]) -> None:
        """Have the reconciles of all other running jobs withdraw their proposals."""
        for key, record, _ in self._undisturbed():
            if key not in watched:
                self._withdraw(key, record.status.proposed_preemption, PreemptionEvaluation())

    def _forget(self, groups: list[_Group]) -> None:
        """Drop what is no longer evaluated: policies, and jobs that no group has; visible proposals of such jobs are withdrawn."""
        watched = {key for group in groups for key in group.keys}
        self._asked = [(policy, at) for policy, at in self._asked if any(policy == group.policy for group in groups)]
        self._withdraw_except(watched)
        running = self._cache.live.keys() & self._cache.jobs.keys()
        self._evaluations = {
            key: judged for key, judged in self._evaluations.items() if key in running and (key in watched or not judged.due)
        }

    def _under_way(self) -> bool:
        """Whether a stop is due, or its pods still end: the outcome is not known yet."""
        return any(judged.due for judged in self._evaluations.values()) or any(self._ends(key) for key in self._cache.live)

    def _ends(self, key: Key) -> bool:
        record = self._cache.jobs.get(key)
        stop = record.status.last_preemption if record is not None else None
        if record is None or stop is None or key in self._cache.unstarted or not is_preempted(record.status):
            return False
        return abs(self._clock() - unix_seconds(stop.start_time)) < ENDING_SECONDS  # the clock may be set back

    def _last(self, policy: PolicySpec) -> float:
        return next((at for asked, at in self._asked if asked == policy), -math.inf)
