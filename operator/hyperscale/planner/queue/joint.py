"""Pending jobs decided together: who starts now with how many workers where, who waits for what. Pure and deterministic.

A chooser (the index rule, or the trained agent) is asked again and again for the next start; between two starts every option is placed
again by the planner on what is left. Guarantees hold whatever it says: a job that has waited for the bound goes first on good nodes, and
from twice the bound on no other job gets nodes that it could use; patience for better nodes ends when it has cost as much as poor nodes
would, and soon after that no chooser may start nothing while the job fits (wait_bounds.py); where nothing runs, some job that fits starts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from hyperscale.model.admission_query import AdmissionRequest, AdmissionResult, Arrivals, Chooser, QueueScore, Start
from hyperscale.model.api.policy import QueuePolicy
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.planner.queue.arrival_history import history_of
from hyperscale.planner.queue.deferrals import deferrals, unseen
from hyperscale.planner.queue.later_ends import Ending, LaterEnd, LaterTerms, claims_of_plan, later_ends
from hyperscale.planner.queue.options import Catalogue, CatalogueEntry, FreeGpus, run_seconds
from hyperscale.planner.queue.placement_oracle import PlacementOracle
from hyperscale.planner.queue.queue_policies import Choosers, settings_of
from hyperscale.planner.queue.queue_types import ArrivalHistory, ClusterState, PendingJob, QueueChoice, QueueRunningJob
from hyperscale.planner.queue.rollout import Choose, Started, weighted_mean_seconds
from hyperscale.planner.queue.rule import LaterWait, by_age, good_start, later_waits, start_slowdown
from hyperscale.planner.queue.seen_jobs import SeenJobs, profile_of, seen_jobs
from hyperscale.planner.queue.wait_bounds import STRICT_BOUNDS, overdue, quickest
from hyperscale.planner.together.start_together import BegunJob, Together

AGENT_FAILED: Final = "LearnedQueueFailed"
MIN_RUN_SECONDS: Final = 1e-9


class QueueError(Exception):
    """A chooser chose what cannot be."""


class OutOfTimeError(QueueError):
    """Time was up before any job could be looked at."""


def take_turns(
    question: AdmissionRequest, desk: PlacementOracle, policy: QueuePolicy, choosers: Choosers, together: Together | None = None
) -> AdmissionResult:
    """Who starts and who waits. Raises QueueError when the rule fails, OutOfTimeError when no job could be looked at.

    choosers: an agent that was judged on streams like these decides; another's choice is carried out only where the rule, rolled forward,
    rates it no worse
    together: places the jobs that start together; None: each is placed on what those before it leave
    """
    catalogue = Catalogue(desk, question.claims)
    looked_at = seen_jobs(question, catalogue)
    entries = looked_at.entries
    if looked_at.unseen and not entries:
        raise OutOfTimeError("time ran out before any job was looked at")
    feasible = [entry for entry in entries if entry.feasible]
    arrivals = looked_at.arrivals(question, catalogue)
    make = partial(StartSequence, question, desk, policy, catalogue, looked_at, history_of(arrivals))
    asked = choosers.on(profile_of(feasible, desk, arrivals, policy)) if feasible else choosers
    catalogue.later = _later_terms(policy, arrivals, asked)
    chosen, score, fallbacks = _best_sequence(make, asked, desk) if feasible else (make().run(choosers.rule), None, choosers.fallbacks)
    holds = deferrals(entries, chosen, _used(score)) + tuple(unseen(key) for key in looked_at.unseen)
    starts, steps = _placed_together(chosen, together)
    return AdmissionResult(starts=starts, holds=holds, score=score, arrivals=arrivals, fallbacks=(*fallbacks, *steps))


def _used(score: QueueScore | None) -> Chooser:
    """Whose choices are carried out; the rule's where no job could start."""
    return score.used if score is not None else Chooser.RULE


def _later_terms(policy: QueuePolicy, arrivals: Arrivals, asked: Choosers) -> LaterTerms | None:
    """For which jobs later starts are looked for; None: for none."""
    if not policy.min_wait_speedup and asked.agent is None:
        return None
    return LaterTerms(settings_of(policy), history_of(arrivals), exact=asked.agent is not None)


def _placed_together(chosen: StartSequence, together: Together | None) -> tuple[tuple[Start, ...], tuple[str, ...]]:
    """The starts on nodes that suit all of them, and steps down; as chosen where time is short or nodes are reserved."""
    starts = chosen.starts()
    if together is None or len(starts) < 2 or chosen.ledger.reserved or chosen.desk.hurried():
        return starts, ()
    answer = together([_begun(start, chosen) for start in starts])
    return tuple(chosen.start_of(start.key, plan) for start, plan in zip(starts, answer.plans, strict=True)), answer.fallbacks


def _begun(start: Start, chosen: StartSequence) -> BegunJob:
    """A job that starts, on what was free before any did.

    It may run as long as its length allows at a start, communication counted once; one that has waited too long may not run longer.
    """
    queued, question = chosen.entries[start.key].queued, chosen.question
    late = 0 < chosen.policy.starvation_seconds <= queued.waited_seconds
    before = FreeGpus(chosen.ledger.base, {**chosen.ledger.base, **question.free_gpus}, reserved_amounts=dict(question.reserved_amounts))
    most_seconds = start_slowdown(start.best_seconds, chosen.past, settings_of(chosen.policy)) * start.best_seconds
    slack = 1.0 if late else max(1.0, most_seconds / max(start.run_seconds, MIN_RUN_SECONDS))
    return BegunJob(before.open_to(queued.request, len(start.plan.workers)), start.plan, queued.weight, slack)


def _best_sequence(
    make: Callable[[], StartSequence], choosers: Choosers, desk: PlacementOracle
) -> tuple[StartSequence, QueueScore, tuple[str, ...]]:
    """Return the starts of the learned policy or of the rule; score and fallbacks.

    A policy that was judged on such streams decides; of another the rollout by the rule must score the starts no worse.
    """
    rule, agent, fallbacks = choosers.rule, choosers.agent, choosers.fallbacks
    by_rule = make().run(rule)
    value = _value(by_rule, rule)
    if agent is None or desk.hurried():
        return by_rule, QueueScore(rule=value, reason=choosers.reason), fallbacks
    try:
        by_agent = make().run(agent)
        proposed = _value(by_agent, rule)
    except QueueError:
        return by_rule, QueueScore(rule=value), (*fallbacks, AGENT_FAILED)
    if choosers.decides or proposed <= value:
        return by_agent, QueueScore(rule=value, agent=proposed, used=Chooser.LEARNED), fallbacks
    return by_rule, QueueScore(rule=value, agent=proposed, used=Chooser.RULE), fallbacks


class StartSequence:
    """One chooser's starts, one after the other."""

    def __init__(
        self,
        question: AdmissionRequest,
        desk: PlacementOracle,
        policy: QueuePolicy,
        catalogue: Catalogue,
        looked_at: SeenJobs,
        past: ArrivalHistory,
    ) -> None:
        self.catalogue, self.past = catalogue, past
        self.question, self.desk = question, desk
        reserved = dict(question.reserved_amounts)
        self.ledger = FreeGpus(desk.free({}), dict(question.free_gpus), reserved_amounts=reserved, asked_sizes=question.asked_sizes)
        self.pending = {entry.key: entry for entry in looked_at.entries if entry.feasible}
        self.entries = dict(self.pending)
        self._unseen = frozenset(looked_at.unseen)
        self.running = [QueueRunningJob(share.key, share.gpus, max(0.0, share.remaining_seconds)) for share in question.running]
        self._waits: dict[str, LaterWait] | None = None
        self._ends: tuple[LaterEnd, ...] | None = None
        self.begun: list[Ending] = []
        """Jobs that this decision starts."""
        self.starving: list[CatalogueEntry] = []
        """Jobs beyond twice the bound that do not fit yet, the longest wait first."""
        self.policy = policy
        self.settled = False
        """The chooser has said that nothing more starts now."""

    def run(self, choose: Choose) -> StartSequence:
        """Start what the chooser starts; returns itself."""
        self._late_first()
        while self.pending and not self._out_of_time():
            choice = self._choice(choose)
            if choice.job is None:
                self.settled = True
                break
            self._start(self.pending[choice.job], choice.workers)
        return self

    def starts(self) -> tuple[Start, ...]:
        """In the order chosen."""
        return tuple(self.start_of(key, plan) for key, plan in self.ledger.starts.items())

    def start_of(self, key: str, plan: Plan) -> Start:
        """The job's start with this plan."""
        entry = self.entries[key]
        return Start(key, replace(plan, runs_alone=entry.runs_alone), run_seconds(entry.queued.request, plan), entry.best_seconds)

    def ends(self) -> tuple[LaterEnd, ...]:
        """Of the jobs that run, and of those that this decision starts."""
        if self._ends is None:
            running = ((max(0.0, share.remaining_seconds), share.claims) for share in self.question.running)
            self._ends = later_ends(running, self.begun)
        return self._ends

    def waits(self) -> dict[str, LaterWait]:
        """Pending jobs that the rule would keep for running jobs that end soon, and what that gains."""
        if self._waits is None:
            ends = self.ends()
            pending = self._options(ends)
            self._waits = later_waits(by_age(pending), self.cluster(), settings_of(self.policy), busy=bool(self.running))
        return self._waits

    def cluster(self) -> ClusterState:
        """As a chooser sees it."""
        return ClusterState(self.ledger.free_slots, self.desk.total_slots, self.desk.speed_ratio(self.ledger.open_nodes), self.past)

    def _choice(self, choose: Choose) -> QueueChoice:
        """What the chooser says; where it would start nothing, the first in order that fits if nothing runs, else the first overdue."""
        pending = self._options(self.ends())
        try:
            choice = choose(pending, self.running, self.cluster())
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise QueueError(f"{type(error).__name__}: {error}") from error
        if choice.job is not None:
            options = next((job.options for job in pending if job.key == choice.job), ())
            if not any(option.workers == choice.workers and option.fits for option in options):
                raise QueueError(f"{choice.job} with {choice.workers} workers was chosen, which does not fit")
            return choice
        return self._overdue(pending, choice) if self.running else self._first_that_fits()

    def _options(self, ends: tuple[LaterEnd, ...]) -> tuple[PendingJob, ...]:
        """The jobs that a chooser may start; where time is short, one at most that must be placed for that first: the one that asks."""
        options, placed = dict[str, PendingJob](), False
        for entry in sorted(self.pending.values(), key=lambda entry: entry.key != self.question.asking):
            costs = self.desk.hurried() and not self.catalogue.is_known(entry, self.ledger)
            if entry not in self.starving and not (costs and placed):
                options[entry.key] = self.catalogue.pending(entry, self.ledger, ends)
                placed = placed or costs
        return tuple(options[key] for key in self.pending if key in options)

    def _overdue(self, pending: Sequence[PendingJob], choice: QueueChoice) -> QueueChoice:
        """The job that fits and has waited longest beyond the bound on idle GPUs, else the chooser's own answer, which is to wait."""
        for job in by_age(pending):
            if (option := overdue(job, self.ledger.free_slots)) is not None:
                return QueueChoice(job.key, option.workers)
        return choice

    def _first_that_fits(self) -> QueueChoice:
        for entry in sorted(self.pending.values(), key=lambda entry: entry.index):
            if (option := quickest(self.catalogue.pending(entry, self.ledger), self.ledger.free_slots)) is not None:
                return QueueChoice(entry.key, option.workers)
        return QueueChoice(None)

    def _late_first(self) -> None:
        """Jobs beyond the bound, the longest wait first, on good nodes; beyond twice the bound on any, or what they could use is kept.

        It is kept too for jobs that there was no time to look at, if they have waited for twice the bound.
        """
        bound = self.policy.starvation_seconds
        late = [job for job in self.question.jobs if 0 < bound <= job.waited_seconds]
        for job in sorted(late, key=lambda job: (-job.waited_seconds, job.request.job_key)):
            if self._out_of_time():
                return
            strict = job.waited_seconds >= STRICT_BOUNDS * bound
            entry = self.pending.get(job.request.job_key)
            if entry is not None:
                self._late(entry, strict=strict)
            elif job.request.job_key in self._unseen and strict:
                self.ledger.reserved |= self.desk.suitable(job.request)

    def _late(self, entry: CatalogueEntry, *, strict: bool) -> None:
        settings, busy = settings_of(self.policy), bool(self.running) and not strict
        job, alpha = self.catalogue.pending(entry, self.ledger), settings.alpha(len(self.pending))
        option = good_start(job, self.cluster(), settings, alpha, busy=busy)
        if option is not None:
            self._start(entry, option.workers)
        elif strict:
            self.starving.append(entry)
            self.ledger.reserved |= self.desk.suitable(entry.queued.request)

    def _out_of_time(self) -> bool:
        return self.desk.hurried() if self.ledger.starts else self.desk.expired()

    def _start(self, entry: CatalogueEntry, workers: int) -> None:
        plan = self.desk.final(self.ledger.open_to(entry.queued.request, workers))
        if isinstance(plan, Infeasible):
            raise QueueError(f"{entry.key}: {plan.reason}")
        self.ledger.take(entry.queued.request, plan)
        self._ends = None
        self.begun.append((run_seconds(entry.queued.request, plan), claims_of_plan(entry.queued.request, plan)))
        self.running.append(QueueRunningJob(entry.key, sum(plan.gpus_by_node().values()), run_seconds(entry.queued.request, plan)))
        del self.pending[entry.key]


def _value(sequence: StartSequence, rule: Choose) -> float:
    """Weighted mean seconds to the end of all jobs of the question, this sequence first and the rule from then on."""
    entries = sequence.entries
    started = [
        Started(key, sum(plan.gpus_by_node().values()), run_seconds(entries[key].queued.request, plan), entries[key].queued.weight)
        for key, plan in sequence.ledger.starts.items()
    ]
    waiting = tuple(sequence.catalogue.ideal(entry) for entry in sorted(sequence.pending.values(), key=lambda entry: entry.index))
    shares = sequence.question.running
    running = tuple(QueueRunningJob(share.key, share.gpus, max(0.0, share.remaining_seconds)) for share in shares)
    return weighted_mean_seconds(started, waiting, running, sequence.cluster(), rule, settled=sequence.settled)
