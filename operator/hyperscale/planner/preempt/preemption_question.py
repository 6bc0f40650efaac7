"""Answer which running jobs to preempt, checked by the queue's own next decision. Pure.

The preemptions that `preempt` chooses are simulated: the queue decides with all its planners on the cluster without those pods.
They are advised only where the jobs that start there make all jobs end sooner.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Final

from msgspec.structs import replace

from hyperscale.model.admission_query import AdmissionRequest, AdmissionResult, QueuedJob, RunningShare
from hyperscale.model.api.policy import QueuePolicy
from hyperscale.model.plan import Plan
from hyperscale.model.running_query import JobPreemption, PreemptionAnswer, PreemptionQuestion
from hyperscale.planner.check.artifact import rounded
from hyperscale.planner.check.drained_snapshot import added, without
from hyperscale.planner.preempt.preempt import advise, margin_seconds
from hyperscale.planner.preempt.preemption_problem import PreemptionProblem, Terms, resumed
from hyperscale.planner.queue.forecast import mean_seconds
from hyperscale.planner.queue.joint import QueueError, take_turns
from hyperscale.planner.queue.kinds import Contender
from hyperscale.planner.queue.options import LARGE_NODES
from hyperscale.planner.queue.placement_oracle import PlacementOracle
from hyperscale.planner.queue.queue_policies import Choosers, settings_of

ATTEMPTS: Final = 3
"""Rounds of checking; each leaves out the preemptions that serve no job."""


def evaluate_preemptions(
    question: PreemptionQuestion, desk: PlacementOracle, policy: QueuePolicy, terms: Terms, choosers: Choosers
) -> PreemptionAnswer:
    """Return the preemptions that pay, most often none; none where the time is too short to check them.

    Jobs that may resume with another worker count are asked about with all their counts first, then with the one that they have.
    The rollout starts a preempted job with few workers and lets it keep them, although a later check lets it grow again.
    """
    if not any(job.held_seconds >= terms.hold_down_seconds for job in question.running):
        return PreemptionAnswer()
    answer = _answered(question, desk, policy, terms, choosers)
    if answer.stops or not question.pending or not any(job.resizable for job in question.running):
        return answer
    same = tuple(replace(job, resizable=False) for job in question.running)
    return _answered(replace(question, running=same), desk, policy, terms, choosers)


def _answered(
    question: PreemptionQuestion, desk: PlacementOracle, policy: QueuePolicy, terms: Terms, choosers: Choosers
) -> PreemptionAnswer:
    """The preemptions that pay with the worker counts of the question."""
    large = len(desk.graph.nodes) > LARGE_NODES
    scene = PreemptionProblem(question, desk.rough() if large else desk, terms)
    jobs = scene.contenders()
    advice = advise(jobs, scene.free, terms.min_gain_ratio, settings_of(policy), desk.hurried, terms.max_stops)
    try:
        return _checked(scene, jobs, [stop.key for stop in advice.stops], policy, choosers)
    except QueueError:
        return PreemptionAnswer()


def _checked(
    scene: PreemptionProblem, jobs: Sequence[Contender], stopped: list[str], policy: QueuePolicy, choosers: Choosers
) -> PreemptionAnswer:
    """As much of the advice as survives the queue's own decision."""
    base = _Trial(scene, jobs, (), policy, choosers) if stopped else None
    for _ in range(ATTEMPTS):
        if base is None or not stopped or scene.desk.expired():
            return PreemptionAnswer()
        trial = _Trial(scene, jobs, stopped, policy, choosers)
        served = {key: trial.beneficiaries(key, base) for key in stopped}
        if all(served.values()):
            saved = base.mean_seconds - trial.mean_seconds
            margin = len(stopped) * margin_seconds(jobs, base.ends, scene.terms.min_gain_ratio)
            stops = tuple(_advice(scene, key, served[key], saved, trial.resized(key)) for key in stopped)
            return PreemptionAnswer(stops if saved > margin else ())
        stopped = [key for key in stopped if served[key]]
    return PreemptionAnswer()


def _advice(scene: PreemptionProblem, key: str, beneficiaries: tuple[str, ...], saved_seconds: float, workers: int | None) -> JobPreemption:
    running = scene.running[key].running
    price = scene.terms.restart_seconds + running.redone_epochs * running.plan.predicted.epoch_seconds
    return JobPreemption(key, beneficiaries, saved_seconds=rounded(saved_seconds), price_seconds=rounded(price), workers=workers)


class _Trial:
    """The queue's decision if these jobs were preempted, and the ends of all jobs that follow."""

    def __init__(
        self, scene: PreemptionProblem, jobs: Sequence[Contender], stopped: Collection[str], policy: QueuePolicy, choosers: Choosers
    ) -> None:
        self._scene = scene
        self._jobs = {job.key: job for job in jobs}
        self._stopped = sorted(stopped)
        self._released = added(scene.running[key].running.claims for key in self._stopped)
        self._plans = {start.key: start.plan for start in self._turns(jobs, policy, choosers).starts if start.key in self._jobs}
        self.ends, self.mean_seconds = mean_seconds([self._settled(job) for job in jobs], self._free(), settings_of(policy))

    def beneficiaries(self, key: str, base: _Trial) -> tuple[str, ...]:
        """Jobs that would start on nodes of a preempted job, by falling gain; itself last where it continues at once on others.

        Empty where no job would, or where the job would resume on its own nodes with as many workers.
        """
        nodes = self._scene.running[key].running.claims.keys()
        own = self._plans.get(key)
        if own is not None and self.resized(key) is None and own.gpus_by_node().keys() <= nodes:
            return ()
        using = [other for other, plan in self._plans.items() if other != key and plan.gpus_by_node().keys() & nodes]
        gains = {other: self._jobs[other].weight * (base.ends[other] - self.ends[other]) for other in using}
        served = sorted((other for other in using if gains[other] > 0.0), key=lambda other: (-gains[other], other))
        return (*served, *([key] if own is not None else []))

    def resized(self, key: str) -> int | None:
        """Workers with which a preempted job would resume at once; None where they are as many as before, or it would wait."""
        own = self._plans.get(key)
        if own is None or len(own.workers) == len(self._scene.running[key].running.plan.workers):
            return None
        return len(own.workers)

    def _turns(self, jobs: Sequence[Contender], policy: QueuePolicy, choosers: Choosers) -> AdmissionResult:
        """The queue's decision with the stopped jobs among the pending ones, on the cluster without their pods."""
        question = self._scene.question
        again = tuple(self._queued(key) for key in self._stopped)
        if not question.pending and not again:
            return AdmissionResult()
        claims = {share.key: share.claims for share in question.others}
        claims |= {key: job.running.claims for key, job in self._scene.running.items()}
        shares = [
            RunningShare(job.key, sum(job.gpus_by_kind), job.left_seconds, claims=claims.get(job.key, {}))
            for job in jobs
            if job.runs and job.key not in self._stopped
        ]
        asked = AdmissionRequest(
            jobs=(*question.pending, *again),
            running=tuple(sorted(shares, key=lambda share: (share.remaining_seconds, share.key))),
            free_gpus={name: gpus + self._gpus(name) for name, gpus in question.free_gpus.items()},
            reserved_amounts=question.reserved_amounts,
            claims=without(question.claims, self._released),
            deadline_seconds=question.deadline_seconds,
            arrivals=question.arrivals,
        )
        return take_turns(asked, self._scene.desk.vacated(self._released), policy, choosers)

    def _queued(self, key: str) -> QueuedJob:
        """A stopped job as it will be pending, with all its work since the last checkpoint."""
        job = self._scene.running[key]
        request = resumed(job)
        model = replace(request.job.model, epochs=max(1, math.ceil(job.running.remaining_epochs + job.running.redone_epochs)))
        return QueuedJob(replace(request, job=replace(request.job, model=model)), 0.0, job.weight)

    def _settled(self, job: Contender) -> Contender:
        """The job as it would be right after the decision."""
        plan = self._plans.get(job.key)
        if plan is not None:
            gpus_by_kind = self._scene.kinds.counted(plan.gpus_by_node())
            return replace(job, gpus_by_kind=gpus_by_kind, left_seconds=job.start_seconds + self._seconds(job, plan), stoppable=False)
        return replace(job, gpus_by_kind=(), stoppable=False) if job.key in self._stopped else job

    def _seconds(self, job: Contender, plan: Plan) -> float:
        """Of what is left to do, by the plan."""
        if job.key in self._scene.running:
            running = self._scene.running[job.key].running
            return plan.predicted.epoch_seconds * (running.remaining_epochs + running.redone_epochs)
        request = next(queued.request for queued in self._scene.question.pending if queued.request.job_key == job.key)
        return plan.predicted.epoch_seconds * request.job.model.epochs

    def _free(self) -> tuple[int, ...]:
        """GPUs of each kind that stay free."""
        kinds = self._scene.kinds
        given = kinds.counted({name: claim.gpus for name, claim in self._released.items()})
        taken = [kinds.counted(plan.gpus_by_node()) for plan in self._plans.values()]
        return tuple(
            max(0, free + back - sum(each[kind] for each in taken))
            for kind, (free, back) in enumerate(zip(self._scene.free, given, strict=True))
        )

    def _gpus(self, node: str) -> int:
        claim = self._released.get(node)
        return claim.gpus if claim is not None else 0
