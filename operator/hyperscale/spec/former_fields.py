"""The names and types that GNNTrainingJob and PlannerPolicy had before ADR 9, and how each value reads today.

One table for all who ask: `hyperscale convert` rewrites by it, and the chart refuses an upgrade by it (files/former-fields.yaml).
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from hyperscale.model import constants


class Change(enum.Enum):
    """What becomes of a value."""

    COPY = "copy"
    ROUND_UP = "round up"
    """The next integer."""
    DECIMAL = "decimal"
    """The shortest decimal string."""
    PERCENT = "percent"
    """Times 100, rounded up."""
    MIGRATION_PERCENT = "percent, at most 99"
    NANOSECONDS = "nanoseconds"
    """Seconds times 10⁹."""
    THOUSANDS = "thousands"
    """Times 1000: teraflops to gigaflops."""
    MEBIBYTES = "mebibytes"
    """N to NMi."""
    DROPPED = "dropped"


class FormerField(NamedTuple):
    """One field; rows apply in their order."""

    path: str
    """From the root; `[]` stands for every entry of a list."""
    now: str
    """Where it stands today; the same path where only the value changed, "" where it goes."""
    change: Change = Change.COPY
    words: Mapping[str, str] | None = None
    """Former values of an enum and those of today; all others stay."""


MODES: Final = {"Off": "Never", "Act": "Automatic"}
_DECIMALS: Final = ("learningRate", "averageDecay", "weightDecay", "dropout", "attentionDropout", "projectedDropout")

JOB_FIELDS: Final = (
    FormerField("spec.runPolicy.priority", "spec.queueWeight"),
    FormerField("spec.workers.min", "spec.workers.minReplicas"),
    FormerField("spec.workers.max", "spec.workers.maxReplicas"),
    FormerField("spec.worker.template", "spec.workers.template"),
    FormerField("spec.partitioning.count", "", Change.DROPPED, {"Auto": ""}),
    FormerField("spec.partitioning.volumeClaimName", "spec.partitioning.claimName"),
    FormerField("spec.checkpoint.volumeClaimName", "spec.checkpoint.claimName"),
    FormerField("spec.dataset.source.pvc.claimName", "spec.dataset.source.persistentVolumeClaim.claimName"),
    FormerField("spec.dataset.source.s3.secretName", "spec.dataset.source.s3.secretRef.name"),
    FormerField("spec.placement.communicationWeight", "spec.placement.communicationWeight", Change.DECIMAL),
    FormerField("spec.recovery.maxReplans", "spec.recovery.maxPlanChanges"),
    *(FormerField(f"spec.model.hyperparameters.{name}", f"spec.model.hyperparameters.{name}", Change.DECIMAL) for name in _DECIMALS),
    FormerField(
        "spec.model.hyperparameters.schedule",
        "spec.model.hyperparameters.learningRateSchedule",
        words={"constant": "Constant", "cosine": "Cosine"},
    ),
    FormerField("spec.model.hyperparameters.aggregator", "spec.model.hyperparameters.aggregator", words={"mean": "Mean", "gcn": "GCN"}),
    FormerField("spec.model.hyperparameters.patience", "spec.model.hyperparameters.patienceEpochs"),
    FormerField("spec.model.hyperparameters.evaluateEvery", "spec.model.hyperparameters.evaluateEveryEpochs"),
    FormerField("spec.model.hyperparameters.cacheBytes", "spec.model.hyperparameters.cacheSize"),
)
"""Of GNNTrainingJob's spec, one field to one."""

MERGED_JOB_FIELDS: Final = {
    "spec.approval": "spec.startPolicy",
    "spec.planOnly": "spec.startPolicy",
    **{f"spec.workers.{name}": "spec.workers.resources" for name in ("gpusPerWorker", "cpu", "memory")},
}
"""Those that several fields together make one of, and that one."""

POLICY_FIELDS: Final = (
    FormerField("spec.communicationWeight", "spec.communicationWeight", Change.DECIMAL),
    FormerField("spec.deadlines.planSeconds", "spec.planDeadlineSeconds", Change.ROUND_UP),
    FormerField("spec.deadlines.metricsSeconds", "spec.metricsTimeoutSeconds", Change.ROUND_UP),
    FormerField("spec.deadlines.schedulingSeconds", "spec.schedulingTimeoutSeconds"),
    FormerField("spec.queue.thrift", "spec.queue.minScalingExponent", Change.DECIMAL),
    FormerField("spec.queue.thriftAlone", "spec.queue.minScalingExponentAlone", Change.DECIMAL),
    FormerField("spec.queue.patience", "spec.queue.maxStartSlowdown", Change.DECIMAL),
    FormerField("spec.queue.maxPriority", "spec.queue.maxQueueWeight"),
    FormerField("spec.queue.starvationSeconds", "spec.queue.starvationSeconds", Change.ROUND_UP),
    FormerField("spec.queue.preemption.mode", "spec.queue.preemption.mode", words=MODES),
    FormerField("spec.queue.preemption.checkSeconds", "spec.queue.preemption.checkPeriodSeconds", Change.ROUND_UP),
    FormerField("spec.queue.preemption.holdDownSeconds", "spec.queue.preemption.holdDownSeconds", Change.ROUND_UP),
    FormerField("spec.queue.preemption.minGainRatio", "spec.queue.preemption.minGainPercent", Change.PERCENT),
    FormerField("spec.replan.mode", "spec.migration.mode", words=MODES),
    FormerField("spec.replan.checkSeconds", "spec.migration.checkPeriodSeconds", Change.ROUND_UP),
    FormerField("spec.replan.minGainRatio", "spec.migration.minGainPercent", Change.MIGRATION_PERCENT),
    FormerField("spec.replan.holdDownSeconds", "spec.migration.holdDownSeconds", Change.ROUND_UP),
    FormerField("spec.replan.restartSeconds", "spec.migration.restartSeconds", Change.ROUND_UP),
    FormerField("spec.replan.moveSeconds", "spec.migration.workerReloadSeconds", Change.ROUND_UP),
    FormerField("spec.replan.maxMoves", "spec.migration.maxMigratedWorkers"),
    FormerField("spec.limits.maxAgeSeconds", "spec.limits.maxAgeSeconds", Change.ROUND_UP),
    FormerField("spec.limits.settleSeconds", "spec.limits.releaseGraceSeconds", Change.ROUND_UP),
    FormerField("spec.limits.jumpRatio", "spec.limits.jumpRatio", Change.ROUND_UP),
    FormerField("spec.limits.maxTemperatureCelsius", "spec.limits.maxTemperatureCelsius", Change.ROUND_UP),
    FormerField("spec.limits.maxLatencySeconds", "spec.limits.maxLatencySeconds", Change.ROUND_UP),
    FormerField("spec.limits.maxBandwidthBytesPerSecond", "spec.limits.maxBandwidthBytesPerSecond", Change.ROUND_UP),
    FormerField("spec.overrides.nodes[].gpuMemoryMib", "spec.overrides.nodes[].gpuMemory", Change.MEBIBYTES),
    FormerField("spec.overrides.nodes[].networkBytesPerSecond", "spec.overrides.nodes[].networkBytesPerSecond", Change.ROUND_UP),
    FormerField("spec.overrides.links[].latencySeconds", "spec.overrides.links[].latencyNanoseconds", Change.NANOSECONDS),
    FormerField("spec.overrides.links[].bandwidthBytesPerSecond", "spec.overrides.links[].bandwidthBytesPerSecond", Change.ROUND_UP),
    FormerField("spec.gpus[].teraflops", "spec.gpus[].gigaflops", Change.THOUSANDS),
    FormerField("spec.gpus[].pricePerHour", "spec.gpus[].pricePerHour", Change.DECIMAL),
    FormerField("spec.gpus[].insideBytesPerSecond", "spec.gpus[].intraNodeBytesPerSecond", Change.ROUND_UP),
    FormerField("spec.gpus[].insideLatencySeconds", "spec.gpus[].intraNodeLatencyNanoseconds", Change.NANOSECONDS),
)
"""Of PlannerPolicy's spec."""

_STATUS: Final = {
    "replans": "planChanges",
    "stops": "preemptions",
    "queueDecision.agentScore": "queueDecision.learnedScore",
    "move.nowEpochSeconds": "proposedMigration.currentEpochSeconds",
    "move.thenEpochSeconds": "proposedMigration.proposedEpochSeconds",
    "move.moves": "proposedMigration.migratedWorkers",
    "move.workers": "proposedMigration.workers",
    "move.remainingEpochs": "proposedMigration.remainingEpochs",
    "move.savedSeconds": "proposedMigration.savedSeconds",
    "move.priceSeconds": "proposedMigration.costSeconds",
    "move.since": "proposedMigration.firstProposedTime",
    "move.moved": "proposedMigration.workerMigrations",
    "proposedMigration.workerMigrations[].source": "proposedMigration.workerMigrations[].sourceNode",
    "proposedMigration.workerMigrations[].target": "proposedMigration.workerMigrations[].targetNode",
    "move.obstacle": "proposedMigration.blocker",
    "lastMove.time": "lastMigration.startTime",
    "lastMove.moves": "lastMigration.migratedWorkers",
    "lastMove.epochsDone": "lastMigration.completedEpochs",
    "stop.beneficiaries": "proposedPreemption.beneficiaries",
    "stop.savedSeconds": "proposedPreemption.savedSeconds",
    "stop.priceSeconds": "proposedPreemption.costSeconds",
    "stop.since": "proposedPreemption.firstProposedTime",
    "stop.obstacle": "proposedPreemption.blocker",
    "lastStop.time": "lastPreemption.startTime",
    "lastStop.beneficiaries": "lastPreemption.beneficiaries",
    "lastStop.epochsDone": "lastPreemption.completedEpochs",
    "lastStop.waitedSeconds": "lastPreemption.waitedSeconds",
    "scheduling.waitingSince": "scheduling.waitingStartTime",
    "scheduling.releasedAt": "scheduling.lastReleaseTime",
    "scheduling.refused[].time": "scheduling.refused[].refusalTime",
}
_NODE_REASONS: Final = {
    "GpuProduct": "GPUProduct",
    "GpuMemory": "GPUMemory",
    "GpuFault": "GPUFault",
    "MigGpu": "MIGDevice",
    "SharedGpu": "SharedGPU",
    "NoFreeGpus": "NoFreeGPUs",
    "Cpu": "CPU",
}
STATUS_FIELDS: Final = (
    FormerField("status.queueDecision.weight", "status.queueDecision.queueWeight", Change.ROUND_UP),
    FormerField("status.plan.rejected[].reason", "status.plan.rejected[].reason", words=_NODE_REASONS),
    *(FormerField(f"status.{path}", f"status.{now}") for path, now in _STATUS.items()),
    FormerField("status.queueDecision.chosenBy", "status.queueDecision.chosenBy", words={"Agent": "Learned"}),
    FormerField("status.conditions[].type", "status.conditions[].type", words={"Moving": "Migrating"}),
    FormerField("status.ready", "", Change.DROPPED),
    FormerField("status.predictedEpoch", "", Change.DROPPED),
    FormerField("status.measuredEpoch", "", Change.DROPPED),
)
"""Of GNNTrainingJob's status, which the operator reads back after a restart."""

FIELDS: Final = {constants.JOB_KIND: JOB_FIELDS, constants.POLICY_KIND: POLICY_FIELDS}
"""One field to one, by kind."""


def advice_on(kind: str, path: str) -> str | None:
    """What to write instead of an unknown field, where this path or one below it is of the former API."""
    former = {field.path: field.now for field in FIELDS[kind] if field.path != field.now}
    if kind == constants.JOB_KIND:
        former |= MERGED_JOB_FIELDS
    plain = re.sub(r"\[[0-9]+\]", "[]", path)
    now = sorted({now for name, now in former.items() if now and f"{name}.".startswith(f"{plain}.")})
    if not now:
        return None
    parents = {name.rpartition(".")[0] for name in now}
    if len(now) > 1 and len(parents) == 1 and "spec" not in parents:
        now = sorted(parents)
    return f"a field of the former API; write {', '.join(now)}, or run: hyperscale convert -f FILE"


def chart_data() -> dict[str, list[dict[str, Any]]]:
    """What the chart looks for in stored objects, by kind.

    `path` alone: the field is former. With `words`: it is where it has one of these values. With `type: Number`: it is as a number. With
    `type: Fraction`: it is as a number that is no integer.
    """
    merged = [{"path": path.split(".")} for path in MERGED_JOB_FIELDS]
    return {
        constants.JOB_KIND: [*merged, *map(_in_chart, JOB_FIELDS)],
        constants.POLICY_KIND: [*map(_in_chart, POLICY_FIELDS)],
    }


def _in_chart(field: FormerField) -> dict[str, Any]:
    path = field.path.replace("[]", ".[]").split(".")
    if field.path != field.now and field.change is not Change.DROPPED:
        return {"path": path}
    if field.words is not None:
        return {"path": path, "words": sorted(field.words)}
    return {"path": path, "type": "Number" if field.change is Change.DECIMAL else "Fraction"}
