"""A job's status in sentences: the schema of `hyperscale explain -o json`. Pure."""

from __future__ import annotations

from typing import Final

import msgspec

from hyperscale.cli.explain.meanings import MEANINGS, Meaning
from hyperscale.cli.explain.plan_difference import PlanDifference, choosable_offers, prior_difference
from hyperscale.cli.explain.run_figures import run_sentences
from hyperscale.cli.plan.workers_view import bounds_text
from hyperscale.cli.text_tables import counted, predicted_text, seconds_text
from hyperscale.control.lifecycle.movable import proposed
from hyperscale.control.lifecycle.stoppable import is_preempted, preemption_message
from hyperscale.control.lifecycle.stoppable import proposed as proposed_stop
from hyperscale.control.status.preflight_condition import PREFLIGHT_CONDITION
from hyperscale.model.admission_query import Chooser
from hyperscale.model.api.condition import Condition
from hyperscale.model.api.datasets import SizeSource
from hyperscale.model.decision import Reason
from hyperscale.model.offers.plan_offers import PlanAlternatives
from hyperscale.model.plan import Plan, Prediction
from hyperscale.model.status import JobStatus, StateWord

SHOWN_EVENTS: Final = 8


class RecordedEvent(msgspec.Struct, frozen=True, rename="camel"):
    """One event about the job."""

    type: str
    reason: str
    message: str
    count: int
    last_seen: str
    """RFC 3339; "" when the event does not tell."""


class ExplainedJob(msgspec.Struct, frozen=True):
    """What is known of a job."""

    name: str
    namespace: str
    generation: int
    deleting: bool
    status: JobStatus | None
    """None when the operator has not written one yet."""
    events: tuple[RecordedEvent, ...]
    """Oldest first."""


class Explanation(msgspec.Struct, frozen=True, rename="camel"):
    """What happens, why, and what to do."""

    job: str
    state: str
    reason: str
    """The operator's own word for its last decision."""
    summary: tuple[str, ...]
    """Sentences, the most important first."""
    waits_for: str
    """"" when it waits for nothing."""
    advice: tuple[str, ...]
    """What a person can do; empty when nothing is needed."""
    plan: Plan | None
    conditions: tuple[Condition, ...]
    events: tuple[RecordedEvent, ...]
    """The newest, oldest first."""
    alternatives: PlanAlternatives | None = None
    """Plans that may be preferred, the planners' choice first; their workers are in the job's status."""
    difference: PlanDifference | None = None
    """Of the plan that waits for a person against the one before; None without one."""


def explain(record: ExplainedJob) -> Explanation:
    """The status in sentences; also for a job that the operator has not reconciled yet."""
    status = record.status
    if status is None or not status.observed_generation:
        return _unseen(record)
    meaning = _meaning(record, status)
    message = _message(status)
    advice = [meaning.advice.format(name=record.name, namespace=record.namespace)] if meaning.advice else []
    if status.reason == Reason.AWAITING_APPROVAL and message:
        advice.append(f"{message[0].upper()}{message[1:]}")
        message = ""
    summary = [
        meaning.happens,
        _sentence(message),
        *_sizes(status),
        *_evaluated(status),
        *_preflighted(status),
        *_queue(status),
        *_progress(status),
        *run_sentences(status),
        *_better(status),
        *_stopped(record, status),
        *_stale(record, status),
        *_degraded(status),
    ]
    return Explanation(
        job=f"{record.namespace}/{record.name}",
        state=status.state.value,
        reason=status.reason,
        summary=tuple(sentence for sentence in summary if sentence),
        waits_for=meaning.waits_for,
        advice=tuple(advice),
        plan=status.plan,
        conditions=status.conditions,
        events=record.events[-SHOWN_EVENTS:],
        alternatives=choosable_offers(status),
        difference=prior_difference(status),
    )


def plan_sentence(plan: Plan) -> str:
    """One sentence about a plan."""
    nodes = len({worker.node for worker in plan.workers})
    gpus = sum(worker.gpus for worker in plan.workers)
    predicted = plan.predicted
    ranks = f" ({plan.ranks} ranks)" if plan.ranks > len(plan.workers) else ""
    size = f"{counted(len(plan.workers), 'worker')} with {counted(gpus, 'GPU')}{ranks} on {counted(nodes, 'node')}"
    return (
        f"Plan {plan.plan_id} by {plan.planner}: {size}, {counted(plan.partitions, 'partition')}; "
        f"an epoch should take {predicted_text(predicted.epoch_seconds)}{bounds_text(predicted)}, "
        f"of which {predicted_text(predicted.communication_seconds)} is communication{_corrected(predicted)}."
    )


def _corrected(predicted: Prediction) -> str:
    calibration, waits = predicted.calibration, f"; it waits longest for {predicted.bound_by}" if predicted.bound_by else ""
    if calibration is None:
        return waits
    gpus, runs = calibration.products or "such GPUs", counted(calibration.runs, "finished run")
    if calibration.by_curve:
        return f"; predicted from the steps of {runs} of this workload on {gpus} (spread {calibration.spread:.2g}){waits}"
    taught = f"the median of {runs} on {gpus}" if calibration.search_factor == 1.0 else f"what {runs} of its architecture and others taught"
    return f"; corrected by {calibration.factor:.3g}, {taught} (spread {calibration.spread:.2g}){waits}"


def _unseen(record: ExplainedJob) -> Explanation:
    return Explanation(
        job=f"{record.namespace}/{record.name}",
        state=StateWord.PENDING.value,
        reason="",
        summary=("The operator has not looked at this job yet.",),
        waits_for="the operator",
        advice=("See that it runs and watches this namespace: `kubectl get deployments -A -l app.kubernetes.io/name=hyperscale`.",),
        plan=None,
        conditions=(),
        events=record.events[-SHOWN_EVENTS:],
    )


def _meaning(record: ExplainedJob, status: JobStatus) -> Meaning:
    if record.deleting:
        return MEANINGS[Reason.DELETED]
    return MEANINGS.get(status.reason, Meaning(f"The job is {status.state.value.lower()} ({status.reason or 'no reason given'})."))


def _message(status: JobStatus) -> str:
    """The operator's message with its last reason: the condition that carries it, those that speak of trouble first."""
    order = ("Stalled", "Reconciling", "Approved", "Suspended", "Failed", "Planned", "Succeeded", "Running")
    carrying = {condition.type: condition.message for condition in status.conditions if condition.reason == status.reason}
    ended = {condition.type: condition.message for condition in status.conditions if condition.type in (status.state.value, "Stalled")}
    return next((text for messages in (carrying, ended) for kind in order if (text := messages.get(kind))), "")


def _progress(status: JobStatus) -> list[str]:
    sentences = []
    if status.workers is not None and status.state in (StateWord.STARTING, StateWord.RUNNING):
        workers = status.workers
        sentences.append(f"{workers.placed} of {workers.planned} ranks are bound to a node, {workers.ready} are ready.")
    if status.queue and status.state is StateWord.QUEUED:
        sentences.append(f"Its queue is {status.queue}.")
    if status.restarts or status.plan_changes:
        sentences.append(
            f"Since the start: {counted(status.restarts, 'launcher restart')}, {counted(status.plan_changes, 'change')} of the plan."
        )
    return sentences


def _evaluated(status: JobStatus) -> list[str]:
    """What was found out about the plan, until the run has ended."""
    condition = status.condition("Evaluated")
    if condition is None or not condition.message or status.ended:
        return []
    return [f"The plan {'was not evaluated' if condition.status == 'Unknown' else 'was evaluated'}: {condition.message}."]


def _preflighted(status: JobStatus) -> list[str]:
    """How the preflight ended or where it stands, unless the last step says so."""
    condition = status.condition(PREFLIGHT_CONDITION)
    if condition is None or status.reason in (Reason.PREFLIGHTING, Reason.PREFLIGHT_FAILED, Reason.PREFLIGHT_UNKNOWN, condition.reason):
        return []
    if condition.status == "True":
        return [f"The preflight passed: {_sentence(condition.message)}"]
    verb = (
        "found a fault"
        if condition.status == "False"
        else "says nothing of the code yet"
        if status.preflight is None
        else "says nothing of the code"
    )
    return [f"The preflight {verb} ({condition.reason}): {_sentence(condition.message)}"]


def _sizes(status: JobStatus) -> list[str]:
    """The sizes that the operator has read: the spec does not state them, and the plan rests on them."""
    read = status.dataset
    if read is None or read.source is not SizeSource.READ:
        return []
    return [
        f"The graph was read: {read.vertices:,} vertices, {read.edges:,} directed edges, {read.feature_size:,} features a vertex, "
        f"{read.classes:,} classes."
    ]


def _queue(status: JobStatus) -> list[str]:
    """How the queue of pending jobs decided on this one; the message says its position while it waits."""
    decision = status.queue_decision
    if decision is None:
        return []
    sentences = []
    if decision.position == 0:
        chooser = "learned policy" if decision.chosen_by == Chooser.LEARNED else decision.chosen_by.lower()
        among = f"among {counted(decision.pending + 1, 'pending job')}" if decision.pending else "beside running jobs"
        sentences.append(f"Its start was chosen {among} by the {chooser}.")
    if decision.rule_score is not None and decision.learned_score is not None:
        scores = seconds_text(decision.rule_score), seconds_text(decision.learned_score)
        sentences.append("Predicted weighted mean time until those jobs end: {} by the rule, {} by the learned policy.".format(*scores))
    if decision.chooser_reason is not None:
        sentences.append(f"The rule decides and not the learned policy: {decision.chooser_reason}.")
    return sentences


def _better(status: JobStatus) -> list[str]:
    """A better placement of a running job."""
    proposal = status.proposed_migration
    return [f"Elsewhere it would be faster: {_sentence(proposed(proposal).message)}"] if proposal is not None else []


def _stopped(record: ExplainedJob, status: JobStatus) -> list[str]:
    """What would be gained if it stopped for others, or what was."""
    key = f"{record.namespace}/{record.name}"
    if status.proposed_preemption is not None:
        return [_sentence(proposed_stop(status.proposed_preemption, key).message)]
    if status.last_preemption is None:
        return []
    planned = next((condition for condition in status.conditions if condition.type == "Planned"), None)
    waiting = [_sentence(planned.message)] if is_preempted(status) and planned is not None and planned.reason != status.reason else []
    times = f" It has been stopped for others {counted(status.preemptions, 'time')}." if status.preemptions > 1 else ""
    return [*waiting, f"{_sentence(preemption_message(status.last_preemption, key))}{times}"]


def _stale(record: ExplainedJob, status: JobStatus) -> list[str]:
    if record.generation <= status.observed_generation:
        return []
    return [f"The spec is newer (generation {record.generation}) than what the operator has answered to ({status.observed_generation})."]


def _degraded(status: JobStatus) -> list[str]:
    degraded = next((condition for condition in status.conditions if condition.type == "Degraded" and condition.status == "True"), None)
    return [] if degraded is None else [_sentence(f"Planned with less than everything ({degraded.reason}): {degraded.message}")]


def _sentence(text: str) -> str:
    """Upper case at the start, a full stop at the end, unless it is empty."""
    if not text:
        return ""
    whole = text[0].upper() + text[1:]
    return whole if whole.endswith((".", "!", "?")) else f"{whole}."
