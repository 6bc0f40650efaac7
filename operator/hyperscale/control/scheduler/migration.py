"""Running jobs on a changing cluster: each is scored on fresh measurements now and then, a better placement is reported or carried out.

What is known lives in memory; after a restart the job's status tells since when a move has been proposed. How far a run has come is
as the run says where it can be heard, else elapsed time over the predicted epoch, by what was measured meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple, Protocol

from msgspec.structs import replace

from hyperscale.control.cache.records import JobRecord, Key
from hyperscale.control.lifecycle.movable import ADVISES, material, migration_blocker, shown_move
from hyperscale.control.lifecycle.stoppable import epochs_kept, undisturbed
from hyperscale.control.scheduler.control_context import ControlContext
from hyperscale.control.scheduler.running_job_evaluator import RunningJobEvaluator
from hyperscale.control.scheduler.running_jobs import LATE_RATIO
from hyperscale.model.admission_query import claims_of
from hyperscale.model.api.job import JobSpec, PlannerChoice
from hyperscale.model.api.measured import Measured
from hyperscale.model.api.policy import MigrationMode, MigrationPolicy, PolicySpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.observed.owned_objects import MpiJobView
from hyperscale.model.observed.reconcile_input import MigrationView
from hyperscale.model.plan import Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.model.pods import PodView
from hyperscale.model.running_query import MAX_MOVE_JOBS, JobMigration, MigrationAnswer, MigrationQuestion, RunningJob
from hyperscale.model.status import LastMigration, ProposedMigration
from hyperscale.util.rfc3339 import timestamp, unix_seconds
from hyperscale.util.slices import Slices


class MigrationEvaluation(NamedTuple):
    """The last result for one job."""

    since: float | None = None
    """Unix seconds since when a migration has paid without interruption; None where none pays."""
    shown: ProposedMigration | None = None
    plan: Plan | None = None
    """To be carried out."""
    epochs_kept: float = 0.0
    """Predicted, what the checkpoints hold."""

    @property
    def due(self) -> bool:
        """Whether a plan is to be carried out."""
        return self.plan is not None


class MigrationTerms(NamedTuple):
    """What advice is measured against."""

    policy: MigrationPolicy
    blocker: str
    """Why the operator must not migrate the job; "" where it may."""
    last: LastMigration | None
    now: float
    """Unix seconds."""


def evaluate(before: MigrationEvaluation, advice: JobMigration, running: Plan, terms: MigrationTerms) -> MigrationEvaluation:
    """Return the next evaluation of a job that runs on the plan `running`."""
    pays = advice.plan is not None and advice.gain_ratio >= terms.policy.min_gain_ratio
    # A proposal that people see stays as long as any migration pays its cost: figures swing around the threshold.
    lasts = pays or (before.shown is not None and advice.plan is not None)
    since = (before.since or terms.now) if lasts else None
    if since is None or not _held_down(since, terms):
        return MigrationEvaluation(since)
    if pays and not terms.blocker:
        return MigrationEvaluation(since, plan=advice.plan)
    fresh = shown_move(advice, running, timestamp(since), terms.blocker)
    return MigrationEvaluation(since, fresh if before.shown is None or material(before.shown, fresh) else before.shown)


def _held_down(since: float, terms: MigrationTerms) -> bool:
    """Whether the gain, and the last migration, are both at least the hold-down time old."""
    newest = since if terms.last is None else max(since, unix_seconds(terms.last.start_time))
    return terms.now - newest >= terms.policy.hold_down_seconds


DEADLINE_SECONDS: Final = 0.5
"""Of one question: pending jobs wait behind it."""


class MigrationSearch(Protocol):
    """The component that judges; in the operator the planner process."""

    async def moves(self, question: MigrationQuestion, snapshot: ClusterSnapshot, policy: PolicySpec) -> MigrationAnswer | None:
        """Advice for running jobs, every plan checked; None where that could not be found out. Never raises."""
        ...


RequestFor = Callable[[Key, JobSpec, PodView | None, PolicySpec, ClusterSnapshot], PlanRequest]


class MigrationProgress(NamedTuple):
    """How far a run had come at a time, and its pace from then on."""

    start_time: str
    """Of the MPIJob: another one is another run, or the same after a suspension."""
    at: float
    epochs: float
    epoch_seconds: float
    reported: int | None = None
    """Finished epochs as the run reports them; None where it reports nothing."""
    looked: float = 0.0
    """Unix seconds at which they were last read."""

    def epochs_at(self, now: float) -> float:
        """Finished epochs and the part of the running one. Predicted; where the run reports its epochs, less than one more."""
        since = max(0.0, now - self.at) / max(self.epoch_seconds, 1e-9)
        return self.epochs + (since if self.reported is None else min(since, 1.0))

    def heard(self, run: Measured, began: float, kept: float, now: float) -> MigrationProgress:
        """Return the progress with what the run reports at `now`; it began at `began` with `kept` epochs (Unix seconds).

        The running epoch counts from the earliest time at which it can have begun. That is the last look that still showed the epoch
        before. At the first look it is as many epochs after the beginning as have ended since.
        """
        stated = run.epoch_seconds or 0.0
        seconds = stated if stated > 0.0 else self.epoch_seconds
        if run.epoch == self.reported:
            return self._replace(epoch_seconds=seconds, looked=now)
        resumed = run.resumed_epoch if run.resumed_epoch is not None else kept
        at = self.looked if self.reported is not None else min(now, began + max(0.0, run.epoch - resumed) * seconds)
        return MigrationProgress(self.start_time, at, float(run.epoch), seconds, run.epoch, now)

    def judged(self, epoch_seconds: float, now: float) -> MigrationProgress:
        """Return the progress with another pace from `now` on."""
        if self.reported is not None:
            return self._replace(epoch_seconds=epoch_seconds)
        return self._replace(at=now, epochs=self.epochs_at(now), epoch_seconds=epoch_seconds)


class MigrationPlanner(RunningJobEvaluator[MigrationEvaluation]):
    """Judges running jobs, a few at a time."""

    def __init__(self, context: ControlContext, planner: MigrationSearch, request_for: RequestFor) -> None:
        super().__init__(context, "Migration")
        self._planner = planner
        self._request_for = request_for
        self._due: dict[Key, float] = {}
        """By the clock that is never set."""
        self._progress: dict[Key, MigrationProgress] = {}

    def view(self, key: Key) -> MigrationView | None:
        """What a pass over a job should know; None where the job was not judged yet."""
        judged = self._evaluations.get(key)
        return MigrationView(judged.shown, judged.plan, judged.epochs_kept) if judged is not None else None

    def take(self, key: Key) -> None:
        """The plan to be carried out was taken up, or found not to fit any more: it is not offered again before the next judgement."""
        if key in self._evaluations:
            self._evaluations[key] = self._evaluations[key]._replace(plan=None)

    async def check(self) -> None:
        """One question about the jobs that have waited longest."""
        now = self._monotonic()
        due = self._due_jobs(now)
        if not due or self._must_rest():
            return
        policy = self._policy(due[0])
        snapshot = self._cache.snapshot(policy, self._clock())
        jobs: dict[str, tuple[Key, RunningJob]] = {}
        slices = Slices()
        for key in due:
            await slices.pause_if_due()
            if len(jobs) == MAX_MOVE_JOBS or key not in self._cache.jobs or self._policy(key) != policy:
                continue
            job = self.running_job(key, policy, snapshot) if snapshot.metrics.available else None
            if job is None:
                self._due[key] = now + policy.migration.check_period_seconds
            else:
                jobs[str(key)] = key, job
        if jobs:
            await self._ask(jobs, snapshot, policy)

    async def _ask(self, jobs: dict[str, tuple[Key, RunningJob]], snapshot: ClusterSnapshot, policy: PolicySpec) -> None:
        deadline_seconds = min(DEADLINE_SECONDS, policy.plan_deadline_seconds)
        question = MigrationQuestion(tuple(job for _, job in jobs.values()), deadline_seconds)
        asked = self._runs(key for key, _ in jobs.values())
        moves = await self._answered(self._planner.moves(question, snapshot, policy))
        if moves is None:
            return
        now = self._monotonic()
        answered = {advice.key: advice for advice in moves.advice}
        runs = self._runs(asked)
        for name, (key, job) in jobs.items():
            advice = answered.get(name)
            if advice is not None and runs.get(key) == asked.get(key):
                self._learn(key, job, advice, policy)
            if advice is not None or len(answered) == 0:
                self._due[key] = now + policy.migration.check_period_seconds

    def _learn(self, key: Key, job: RunningJob, advice: JobMigration, policy: PolicySpec) -> None:
        """Take in one judgement; a pass is asked for where people should know, or the move is due."""
        record, view = self._cache.jobs.get(key), self._cache.mpijobs.get(key)
        if record is None or view is None or not undisturbed(record.status, view):
            return
        now, proposal = self._clock(), record.status.proposed_migration
        self._progress[key] = self._progress[key].judged(advice.now_epoch_seconds, now)
        proposed = unix_seconds(proposal.first_proposed_time) if proposal else None
        before = self._evaluations.get(key) or MigrationEvaluation(proposed, proposal)
        acts = policy.migration.mode is MigrationMode.AUTOMATIC
        blocker = migration_blocker(job.request.job, view, record.status.plan_changes) if acts else ADVISES
        terms = MigrationTerms(policy.migration, blocker, record.status.last_migration, now)
        # Of what was asked about: a run that reports nothing may be past its predicted end.
        kept = max(0.0, job.request.job.model.epochs - job.remaining_epochs - job.redone_epochs)
        after = evaluate(before, advice, job.plan, terms)._replace(epochs_kept=kept)
        self._keep(key, before, after, proposal)

    def running_job(self, key: Key, policy: PolicySpec, snapshot: ClusterSnapshot) -> RunningJob | None:
        """A job as the question has it; None where not every worker runs undisturbed."""
        record, view, plan = self._cache.jobs.get(key), self._cache.mpijobs.get(key), self._cache.plans_of(key).recorded
        if record is None or view is None or plan is None:
            return None
        job = self._reader.plannable(record.resource, self._cache.policies)
        pods = _workers(self._cache.pods_of(key, view.uid), len(plan.workers))
        if job is None or job.planner is PlannerChoice.NONE or pods is None:
            return None
        done = min(self._epochs_done(key, record, view, plan), (1.0 - LATE_RATIO) * job.model.epochs)
        return RunningJob(
            request=self._request_for(key, job, pods[0], policy, snapshot),
            plan=replace(plan, workers=tuple(replace(worker, node=pods[worker.index].node) for worker in plan.workers)),
            claims=claims_of(pods.values()),
            remaining_epochs=job.model.epochs - done,
            redone_epochs=done if job.checkpoint is None else min(done, float(job.checkpoint.every_epochs)),
        )

    def _epochs_done(self, key: Key, record: JobRecord, view: MpiJobView, plan: Plan) -> float:
        """As the run itself says, with the part of the running epoch; else by its predicted epoch."""
        now, progress = self._clock(), self._progress.get(key)
        began, kept = unix_seconds(view.start_time), epochs_kept(record.status)
        if progress is None or progress.start_time != view.start_time:
            progress = self._progress[key] = MigrationProgress(view.start_time, began, kept, plan.predicted.epoch_seconds)
        if (reported := self._cache.progress.get(key) or record.status.measured) is not None:
            progress = self._progress[key] = progress.heard(reported, began, kept, now)
        return progress.epochs_at(now)

    def _due_jobs(self, now: float) -> list[Key]:
        """Jobs to judge, the longest due first; forgets those that do not run any more."""
        running = dict(self._running())
        for key in [key for key in self._due if key not in running]:
            self._due.pop(key)
            self._evaluations.pop(key, None)
        self._progress = {key: progress for key, progress in self._progress.items() if key in self._cache.live}
        for key, check_seconds in running.items():
            self._due.setdefault(key, now + check_seconds)
        return sorted((key for key in running if self._due[key] <= now), key=lambda key: (self._due[key], key))

    def _running(self) -> Iterator[tuple[Key, float]]:
        """Jobs that run undisturbed under a policy that wants to know, and how often."""
        for key, record, _ in self._undisturbed():
            migration = self._policy(key).migration
            if migration.mode is not MigrationMode.NEVER:
                yield key, migration.check_period_seconds
            elif key not in self._due:
                self._withdraw(key, record.status.proposed_migration, MigrationEvaluation())


def _workers(pods: Iterable[PodView], count: int) -> dict[int | None, PodView] | None:
    """Return a job's worker pods by index; None where one of its `count` workers has no pod that runs undisturbed."""
    workers = {pod.index: pod for pod in pods if pod.role == "worker" and pod.holds_resources}
    if any(index not in workers or workers[index].terminating for index in range(count)):
        return None
    return workers
