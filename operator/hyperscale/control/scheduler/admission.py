"""Whose turn it is: pending jobs asked about together, and what is reported to each of them."""

from __future__ import annotations

import math
from typing import Final, NamedTuple, Protocol

from msgspec.structs import replace

from hyperscale.control.cache.records import Key
from hyperscale.control.lifecycle.movable import short
from hyperscale.control.lifecycle.queue_wait import is_pending
from hyperscale.control.scheduler.control_context import ControlContext
from hyperscale.control.scheduler.pending import Pending
from hyperscale.control.scheduler.queue_entry import CachedVerdict, QueueEntry
from hyperscale.control.scheduler.running_jobs import Running
from hyperscale.model.admission_query import AdmissionRequest, AdmissionResult, Chooser, Deferral, QueueScore
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.decision import Reason
from hyperscale.model.observed.reconcile_input import AdmissionAnswer, ReconcileInput
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.status import JobStatus, QueueDecision
from hyperscale.util.rfc3339 import duration_text

QUEUE_FAILED: Final = "QueueRuleFailed"
"""Step down of a plan that was made in order of arrival because a decision about all pending jobs failed."""
DISTRUST_SECONDS: Final = 30.0
"""After a decision failed, jobs are planned in order of arrival for so long."""
CLOSER: Final = 4
"""A waiting job's place is reported again when it is nearer to the front by this factor, and when the job is the first."""
LONGER_RATIO: Final = 1.25
"""And when its run is predicted so much longer or shorter."""


class AdmissionPlanner(Protocol):
    """The component that decides; in the operator the planner process."""

    async def turns(self, question: AdmissionRequest, snapshot: ClusterSnapshot, policy: PolicySpec) -> AdmissionResult | None:
        """Who of several pending jobs starts, every plan checked; None where that could not be found out. Never raises."""
        ...


class PlanAnswer(NamedTuple):
    """What came of asking."""

    outcome: Plan | Infeasible | None
    """None: the job waits for what `turn` says."""
    snapshot: ClusterSnapshot
    turn: AdmissionAnswer | None = None
    """None where no other job was pending or running."""


class AdmissionScheduler:
    """Asks for decisions and hands them out, job by job. One pass at a time may ask."""

    def __init__(self, context: ControlContext, planner: AdmissionPlanner, pending: Pending, running: Running) -> None:
        self._pending = pending
        self._running = running
        self._cache = context.cache
        self._planner = planner
        self._telemetry = context.telemetry
        self._clock = context.clock
        self._wake = context.wake
        self._monotonic = context.monotonic
        self._distrusted_until = -math.inf
        """By the clock that is never set."""
        self._known_free: tuple[ClusterSnapshot, int, dict[str, int], int] | None = None

    @property
    def failed(self) -> bool:
        """A decision failed lately: jobs are planned in order of arrival."""
        return self._monotonic() < self._distrusted_until

    def alone(self, key: Key, state: ReconcileInput, policy: PolicySpec, plan: Plan) -> Plan:
        """A plan that was made without a decision: the job counts among the arrivals, and the plan says so where a decision failed."""
        entry = self._pending.entry(key, policy) if is_pending(state) else None
        if entry is None:
            return plan
        self._pending.alone(entry, plan)
        return replace(plan, fallbacks=(QUEUE_FAILED, *plan.fallbacks)) if self.failed else plan

    async def take(self, key: Key, state: ReconcileInput, policy: PolicySpec) -> PlanAnswer | None:
        """What the queue says of a job; None where there is nothing to order, where others decide, or where the question had no answer."""
        entry = self._pending.entry(key, policy) if is_pending(state) else None
        if entry is None:
            return None
        if (verdict := self._pending.granted(entry)) is not None:
            return self._answer(entry, verdict, verdict.made_on or self._cache.snapshot(policy, self._clock()), state.job.status)
        if self._pending.cached_verdict(entry, self._cache.snapshot(policy, self._clock())) is None:
            await self.get_ready(policy)
            if (entry := self._pending.entry(key, policy)) is None:
                return None
        snapshot = self._cache.snapshot(policy, self._clock())
        if (releasing := self._pending.kept_back(key)) is not None:
            return PlanAnswer(None, snapshot, self._kept_back(entry, releasing))
        verdict = self._pending.cached_verdict(entry, snapshot) or await self._ask(entry, snapshot)
        return self._answer(entry, verdict, verdict.made_on or snapshot, state.job.status) if verdict is not None else None

    async def get_ready(self, policy: PolicySpec) -> None:
        """Read jobs and count pods beforehand, so that the next question has less to do at once."""
        await self._pending.read_all(policy)
        await self._running.tally()

    async def _ask(self, entry: QueueEntry, snapshot: ClusterSnapshot) -> CachedVerdict | None:
        """Put the question, unless it is plain that the job must wait; None where there is nothing to order, or no answer came."""
        policy = entry.policy
        if self.failed:
            return None
        free_gpus, free = self.free(snapshot)
        bound = policy.queue.starvation_seconds
        if entry.run_seconds is not None and entry.least_gpus > free and self._pending.place(entry, bound)[0] > 1:
            return self._pending.passed_over(entry, snapshot)
        others, running = self._pending.others(entry.key, policy), self._running.shares()
        if not (others or running):
            return None
        asked = self._pending.question_about(entry, others, free, bound)
        question = AdmissionRequest(
            jobs=self._pending.queued(asked),
            running=running,
            free_gpus=free_gpus,
            claims=self._running.claims(snapshot),
            deadline_seconds=policy.plan_deadline_seconds,
            arrivals=self._pending.arrivals,
            reserved_amounts=self._cache.assumed_plans.reserved_amounts(),
            asked_sizes=self._cache.snapshots.asked.sizes(),
            asking=str(entry.key),
        )
        with self._telemetry.plan_seconds.labels(planner="Queue").time():
            turns = await self._planner.turns(question, snapshot, policy)
        if turns is None:
            self._distrusted_until = self._monotonic() + DISTRUST_SECONDS
            self._telemetry.queue_decisions.labels(chooser=Chooser.ARRIVAL, outcome="Failed").inc()
            return None
        for started in self._pending.learn(turns, asked, snapshot):
            if started != entry.key:
                self._wake(started)
        self._telemetry.count_decisions(turns)
        return self._pending.granted(entry) or self._pending.cached_verdict(entry, snapshot)

    def _kept_back(self, entry: QueueEntry, releasing: Key) -> AdmissionAnswer:
        place, count, _ = self._pending.place(entry, entry.policy.queue.starvation_seconds)
        decision = _decision(entry, place, count, entry.run_seconds, None)
        return AdmissionAnswer(decision, Reason.WAITING_FOR_ADMISSION, f"{releasing} is giving its GPUs to others")

    def free(self, snapshot: ClusterSnapshot) -> tuple[dict[str, int], int]:
        """Free GPUs by node where the snapshot does not know, and all of them; pending jobs hold none, so it is the same for each."""
        last = self._known_free
        if last is None or last[0] is not snapshot or last[1] != self._cache.version:
            changed = self._cache.assumed_plans.free_gpus(snapshot)
            free = sum(changed.get(node.name, node.free_gpus) for node in snapshot.nodes)
            last = self._known_free = (snapshot, self._cache.version, changed, free)
        return last[2], last[3]

    def _answer(self, entry: QueueEntry, verdict: CachedVerdict, snapshot: ClusterSnapshot, status: JobStatus) -> PlanAnswer:
        if verdict.start is not None:
            if not entry.stopped:
                self._telemetry.queue_waiting_seconds.observe(max(0.0, self._clock() - entry.waits_since))
            plan = verdict.start.plan
            granted = replace(plan, fallbacks=(*verdict.fallbacks, *plan.fallbacks)) if verdict.fallbacks else plan
            return PlanAnswer(
                granted, snapshot, AdmissionAnswer(_decision(entry, 0, verdict.others, verdict.start.run_seconds, verdict.score))
            )
        assert verdict.hold is not None  # noqa: S101 - a question starts a job or holds it
        place, count, first = self._pending.place(entry, entry.policy.queue.starvation_seconds)
        decision = _decision(entry, place, count, entry.run_seconds, verdict.score)
        turn = settled(AdmissionAnswer(decision, *_words(entry, verdict.hold, place, count, first), verdict.hold.retry_seconds), status)
        refusal = verdict.hold.infeasible
        if refusal is None:
            return PlanAnswer(None, snapshot, turn)
        return PlanAnswer(replace(refusal, message=turn.message), snapshot, replace(turn, reason="", message=""))


def settled(turn: AdmissionAnswer, status: JobStatus) -> AdmissionAnswer:
    """The turn as last told, where nothing changed that a person would care about: waiting jobs are not written again each time."""
    before, now = status.queue_decision, turn.decision
    written = status.condition("Planned")
    if before is None or written is None or written.reason != turn.reason or not before.position:
        return turn
    if _nearer(before, now) or _differs(before.run_seconds, now.run_seconds):
        return turn
    return replace(turn, decision=before, message=written.message)


def _nearer(before: QueueDecision, now: QueueDecision) -> bool:
    """Or farther from the front."""
    if before.position == 1 or now.position == 1:
        return before.position != now.position or before.pending != now.pending
    return now.position * CLOSER <= before.position or before.position * CLOSER <= now.position


def _differs(before: float | None, now: float | None) -> bool:
    if before is None or now is None:
        return before is not now
    return not before / LONGER_RATIO <= now <= before * LONGER_RATIO


def _words(entry: QueueEntry, hold: Deferral, place: int, count: int, first: QueueEntry | None) -> tuple[str, str]:
    """Reason and message."""
    if entry.hopeless:
        return hold.reason, hold.message
    if first is None:
        behind = f"first of {count} in the queue" if count > 1 else ""
        reason = hold.reason if hold.reason != Reason.WAITING_FOR_ADMISSION or hold.message else Reason.PLANNING
        return str(reason), "; ".join(text for text in (hold.message.rstrip("."), behind) if text)
    own, other = _length(entry), _length(first)
    order = f"number {place} of {count} in the queue"
    if hold.reason == Reason.WAITING_FOR_ADMISSION and not hold.unseen:
        why = f" ({hold.message})" if hold.message else ""
        return hold.reason, f"{order}, {first.key} goes first{why}: {other} against {own}"
    if hold.unseen:
        return hold.reason, f"{hold.message}; {order}"
    return hold.reason, f"{hold.message.rstrip('.')}; {order}, first is {first.key}: {other} against {own}"


def _length(entry: QueueEntry) -> str:
    seconds = "a run of unknown length" if entry.run_seconds is None else f"a run of {duration_text(entry.run_seconds)}"
    return seconds if entry.weight == 1 else f"{seconds} of priority {entry.weight:g}"


def _decision(entry: QueueEntry, place: int, count: int, run_seconds: float | None, score: QueueScore | None) -> QueueDecision:
    return QueueDecision(
        position=place,
        pending=count,
        chosen_by=str(score.used if score is not None else Chooser.RULE),
        run_seconds=_rounded(run_seconds),
        queue_weight=int(entry.weight),
        rule_score=_rounded(score.rule) if score is not None else None,
        learned_score=_rounded(score.agent) if score is not None else None,
        chooser_reason=score.reason or None if score is not None else None,
    )


def _rounded(figure: float | None) -> float | None:
    return None if figure is None else short(figure)
