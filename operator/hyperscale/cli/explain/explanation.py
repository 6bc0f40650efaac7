"""A job's status in sentences: the schema of `hyperscale explain -o json`. Pure."""

from __future__ import annotations

from typing import Final

import msgspec

from hyperscale.cli.explain.run_text import run_sentences
from hyperscale.cli.text_tables import counted, predicted_text, seconds_text
from hyperscale.control.lifecycle.movable import proposed
from hyperscale.control.lifecycle.stoppable import is_preempted, preemption_message
from hyperscale.control.lifecycle.stoppable import proposed as proposed_stop
from hyperscale.model.decision import Reason
from hyperscale.model.plan import NEVER_FITS, Plan, Prediction
from hyperscale.model.status import Condition, JobStatus, Phase

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
    phase: str
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


class Meaning(msgspec.Struct, frozen=True):
    """What a reason means for people; {name} and {namespace} are filled in."""

    happens: str
    waits_for: str = ""
    advice: str = ""


_AGAIN: Final = "It is planned again by itself when GPUs or nodes come free."
_NO_ROOM: Final = "a cluster in which it fits"

MEANINGS: Final[dict[str, Meaning]] = {
    Reason.INVALID_SPEC: Meaning("The spec cannot be used, nothing is created from it.", "", "Correct the field that the message names."),
    Reason.INVALID_POD_TEMPLATE: Meaning(
        "The API server refuses the pods that the templates amount to.", "", "Correct spec.worker.template or spec.launcher.template."
    ),
    Reason.QUOTA_EXCEEDED: Meaning(
        "A ResourceQuota of the namespace refuses an object that this job needs.",
        "room in the quota",
        "Raise the ResourceQuota that the message names, or end other objects of namespace {namespace}; it is tried again by itself.",
    ),
    Reason.RIGHTS_MISSING: Meaning(
        "The operator has no right to create an object that this job needs.",
        "the right",
        "Grant the operator's service account what the message names (docs/rbac.md); it is tried again by itself.",
    ),
    Reason.NAME_CONFLICT: Meaning(
        "An object of a name that this job needs belongs to someone else and is left alone.",
        "the name",
        "Delete what the message names (the MPIJob: `kubectl delete mpijob {name} -n {namespace}`) or give this job another name.",
    ),
    Reason.UNREADABLE_MPIJOB: Meaning(
        "The job's MPIJob holds what no MPIJob can; its pods go on, and nothing is changed or created.",
        "the MPIJob",
        "Delete it with `kubectl delete mpijob {name} -n {namespace}`: the operator creates it again.",
    ),
    Reason.DELETED: Meaning("The job is being deleted; its MPIJob goes with it."),
    Reason.SUSPENDED: Meaning("The job is suspended.", "spec.runPolicy.suspend: false", "Set spec.runPolicy.suspend to false to start it."),
    Reason.SUSPENDED_EXTERNALLY: Meaning(
        "Another than the operator has suspended the MPIJob; the operator leaves it so.",
        "the MPIJob to be resumed",
        "Resume it where it was suspended, or with the command above.",
    ),
    Reason.RESUMED_EXTERNALLY: Meaning(
        "The MPIJob was resumed although spec.runPolicy.suspend is true; new pods stay gated.",
        "spec.runPolicy.suspend: false",
        "Set spec.runPolicy.suspend to false to go on, or suspend the MPIJob.",
    ),
    Reason.QUEUED_BY_KUEUE: Meaning(
        "Kueue manages the MPIJob, which names no queue, and has not admitted it.",
        "Kueue",
        "Set the label kueue.x-k8s.io/queue-name on the job before it is created, or on its MPIJob now.",
    ),
    Reason.QUEUED: Meaning(
        "The MPIJob is in a queue, which has not admitted it.", "quota", "See the queue: `kubectl get workloads -n {namespace}`."
    ),
    Reason.PLANNING: Meaning("The planners are at work.", "a plan"),
    Reason.NO_PLAN: Meaning("No plan fits the cluster as it is.", _NO_ROOM, _AGAIN),
    NEVER_FITS: Meaning(
        "The job does not fit the nodes that the cluster has, even when nothing else runs.",
        "other nodes, or another spec",
        "Change what the message names, or add nodes: the job is planned again when nodes change.",
    ),
    "InsufficientGpus": Meaning("There are not enough free GPUs that suit the job.", "free GPUs", f"Lower spec.workers. {_AGAIN}"),
    "VolumeMissing": Meaning(
        "A PersistentVolumeClaim that the workers mount does not exist; nothing is planned before it does.",
        "the claim",
        "Create the claim that the message names; it is looked for every 30 s.",
    ),
    "GpuMemoryTooSmall": Meaning("No free GPU has enough memory.", _NO_ROOM, f"Lower spec.workers.gpuMemory or raise workers. {_AGAIN}"),
    "NoMatchingNodes": Meaning(
        "No node matches what the job asks for.", _NO_ROOM, "Check spec.placement.nodeSelector, spec.workers.gpuProducts and tolerations."
    ),
    "NodesCannotReachEachOther": Meaning(
        "The nodes that suit cannot all reach each other.", _NO_ROOM, "Lower spec.workers, or see the links: `hyperscale topology`."
    ),
    "MemoryTooSmall": Meaning("No node has enough free memory for a worker.", _NO_ROOM, f"Lower spec.workers.memory. {_AGAIN}"),
    "PlannerFailed": Meaning(
        "Every planner failed or ran out of time.", "the next try", "See the operator's log; planning is tried again."
    ),
    Reason.WAITING_FOR_TURN: Meaning(
        "Other pending jobs go first.", "its turn", "Raise spec.runPolicy.priority, or lower spec.workers.min to fit beside others."
    ),
    Reason.WAITING_FOR_BETTER_NODES: Meaning(
        "It would fit now, but much slower than on nodes that running jobs will leave.",
        "better nodes",
        "It starts by itself when waiting longer cannot pay; PlannerPolicy spec.queue.patience says how choosy jobs are.",
    ),
    Reason.PLAN_ONLY: Meaning("The plan is ready and nothing runs: spec.planOnly is true.", "", "Set spec.planOnly to false to run it."),
    Reason.AWAITING_APPROVAL: Meaning("The plan waits for a person to approve it.", "approval"),
    Reason.PLAN_STALE: Meaning("The cluster moved under the plan, a new one is being made.", "a plan"),
    Reason.SPEC_CHANGED: Meaning("The spec was changed, a new plan is being made.", "a plan"),
    Reason.RESUMED: Meaning("The job was suspended and continues with a new plan.", "its pods"),
    Reason.PARTITIONING: Meaning("A Job writes the parts of the training graph to the shared volume.", "the parts of the training graph"),
    Reason.PARTITIONING_FAILED: Meaning(
        "The Job that writes the parts of the training graph has failed.",
        "a person",
        "Fix what the message names; then delete the Job (`kubectl delete job {name}-partition -n {namespace}`), it is created again.",
    ),
    Reason.CREATING: Meaning("The MPIJob is being created.", "the MPIJob"),
    Reason.PLAN_UNRECORDED: Meaning("The plan is being recorded before any pod is released.", "the next pass"),
    Reason.PODS_MISSING: Meaning(
        "The ranks start together, and not all worker pods exist yet.",
        "the MPI operator to create the pods",
        "If it stays so, look at quotas and at the MPI operator: `kubectl describe mpijob {name} -n {namespace}`.",
    ),
    Reason.WAITING_FOR_QUEUE: Meaning("The queue has admitted the job but not assigned its topology yet.", "the queue"),
    Reason.PLACING: Meaning("Every rank is being sent to its planned node.", "the scheduler to bind the pods"),
    Reason.REPLACING: Meaning("A lost rank is being placed again, the others stay.", "the replacement to start"),
    Reason.WORKER_LOST: Meaning(
        "A worker was lost and spec.recovery.replaceLostWorkers is false.", "a person", "Delete the job and create it again."
    ),
    Reason.REPLANS_EXHAUSTED: Meaning(
        "The plan may not be changed any more.", "a person", "Raise spec.recovery.maxReplans, or delete the job and create it again."
    ),
    Reason.NODE_LOST: Meaning("A planned node was lost.", "replacement pods"),
    Reason.SCHEDULING_TIMEOUT: Meaning(
        "The scheduler left a rank out, so all ranks were released; they are planned again without the nodes that it refused.",
        "another plan",
        "Remove the cause that the scheduler names, or wait: the nodes are left out for half an hour.",
    ),
    Reason.MOVING: Meaning("A better placement pays for a restart: the job stops and starts again there.", "its pods"),
    Reason.PREEMPTED: Meaning(
        "The job was stopped so that all jobs together end sooner; it continues from its last checkpoint when its turn comes.",
        "its turn in the queue",
        "Raise spec.runPolicy.priority. Nobody is stopped where the PlannerPolicy's spec.queue.preemption.mode is Advise or Off.",
    ),
    Reason.WORKERS_STARTING: Meaning("The workers are starting; the launcher follows when all are ready.", "all workers to be ready"),
    Reason.OPENING_LAUNCHER: Meaning("All workers are ready, the launcher is released.", "the launcher"),
    Reason.STARTING: Meaning(
        "The pods are starting.", "the pods", "If it stays so: `kubectl get pods -n {namespace} -l training.kubeflow.org/job-name={name}`."
    ),
    Reason.RUNNING: Meaning("The job is training."),
    Reason.SUCCEEDED: Meaning("The job has finished."),
    Reason.FAILED: Meaning(
        "The job has failed.",
        "",
        "See the launcher's log: `kubectl logs -n {namespace} -l training.kubeflow.org/job-name={name} --tail=50`.",
    ),
}


def explain(record: ExplainedJob) -> Explanation:
    """The status in sentences; also for a job that nobody has looked at."""
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
        phase=status.phase.value,
        reason=status.reason,
        summary=tuple(sentence for sentence in summary if sentence),
        waits_for=meaning.waits_for,
        advice=tuple(advice),
        plan=status.plan,
        conditions=status.conditions,
        events=record.events[-SHOWN_EVENTS:],
    )


def plan_sentence(plan: Plan) -> str:
    """One sentence about a plan."""
    nodes = len({worker.node for worker in plan.workers})
    gpus = sum(worker.gpus for worker in plan.workers)
    predicted = plan.predicted
    bounds = ""
    if predicted.low_seconds is not None and predicted.high_seconds is not None:
        bounds = f" ({predicted_text(predicted.low_seconds)} to {predicted_text(predicted.high_seconds)})"
    ranks = f" ({plan.ranks} ranks)" if plan.ranks > len(plan.workers) else ""
    size = f"{counted(len(plan.workers), 'worker')} with {counted(gpus, 'GPU')}{ranks} on {counted(nodes, 'node')}"
    return (
        f"Plan {plan.plan_id} by {plan.planner}: {size}, {counted(plan.partitions, 'partition')}; "
        f"an epoch should take {predicted_text(predicted.epoch_seconds)}{bounds}, "
        f"of which {predicted_text(predicted.communication_seconds)} is communication{_corrected(predicted)}."
    )


def _corrected(predicted: Prediction) -> str:
    known = predicted.calibration
    if known is None:
        return ""
    gpus = known.products or "such GPUs"
    if known.by_curve:
        runs = counted(known.runs, "finished run")
        return f"; predicted from the steps of {runs} of this workload on {gpus} (spread {known.spread:.2g})"
    return f"; corrected by {known.factor:.3g}, the median of {counted(known.runs, 'finished run')} on {gpus} (spread {known.spread:.2g})"


def _unseen(record: ExplainedJob) -> Explanation:
    return Explanation(
        job=f"{record.namespace}/{record.name}",
        phase=Phase.PENDING.value,
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
    return MEANINGS.get(status.reason, Meaning(f"The job is {status.phase.value.lower()} ({status.reason or 'no reason given'})."))


def _message(status: JobStatus) -> str:
    """The operator's message with its last reason: the condition that carries it, those that speak of trouble first."""
    order = ("Stalled", "Reconciling", "Approved", "Suspended", "Failed", "Planned", "Succeeded", "Running")
    carrying = {condition.type: condition.message for condition in status.conditions if condition.reason == status.reason}
    ended = {condition.type: condition.message for condition in status.conditions if condition.type in (status.phase.value, "Stalled")}
    return next((text for known in (carrying, ended) for kind in order if (text := known.get(kind))), "")


def _progress(status: JobStatus) -> list[str]:
    sentences = []
    if status.workers is not None and status.phase in (Phase.STARTING, Phase.RUNNING):
        workers = status.workers
        sentences.append(f"{workers.placed} of {workers.planned} ranks are bound to a node, {workers.ready} are ready.")
    if status.queue and status.phase is Phase.QUEUED:
        sentences.append(f"Its queue is {status.queue}.")
    if status.restarts or status.replans:
        sentences.append(
            f"Since the start: {counted(status.restarts, 'launcher restart')}, {counted(status.replans, 'change')} of the plan."
        )
    return sentences


def _queue(status: JobStatus) -> list[str]:
    """How the queue of pending jobs decided on this one; its place is told by the message while it waits."""
    decision = status.queue_decision
    if decision is None:
        return []
    sentences = []
    if decision.position == 0:
        among = f"among {counted(decision.pending + 1, 'pending job')}" if decision.pending else "beside running jobs"
        sentences.append(f"Its start was chosen {among} by the {decision.chosen_by.lower()}.")
    if decision.rule_score is not None and decision.agent_score is not None:
        sentences.append(
            f"Predicted weighted mean time until those jobs end: {seconds_text(decision.rule_score)} as the rule orders them, "
            f"{seconds_text(decision.agent_score)} as the agent does; the agent's choice is used only where it is no worse."
        )
    return sentences


def _better(status: JobStatus) -> list[str]:
    """A better placement of a running job."""
    return [f"Elsewhere it would be faster: {_sentence(proposed(status.move).message)}"] if status.move is not None else []


def _stopped(record: ExplainedJob, status: JobStatus) -> list[str]:
    """What would be gained if it stopped for others, or what was."""
    key = f"{record.namespace}/{record.name}"
    if status.stop is not None:
        return [_sentence(proposed_stop(status.stop, key).message)]
    if status.last_stop is None:
        return []
    planned = next((condition for condition in status.conditions if condition.type == "Planned"), None)
    waiting = [_sentence(planned.message)] if is_preempted(status) and planned is not None and planned.reason != status.reason else []
    times = f" It has been stopped for others {counted(status.stops, 'time')}." if status.stops > 1 else ""
    return [*waiting, f"{_sentence(preemption_message(status.last_stop, key))}{times}"]


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
