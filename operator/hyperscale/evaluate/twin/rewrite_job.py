"""The job file as it should be: fields that the twin, the memory estimate and the planner would set otherwise, each with a reason.

A proposal, not a decision: the caller shows it as a diff.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from hyperscale.evaluate.twin.twin_types import Outlook
from hyperscale.util.quantity import parse_bytes, shortest
from hyperscale.util.rfc3339 import duration_text

MIN_SAVED_PART: Final = 0.002
"""Of the expected end: a change that saves less is not proposed."""
MIN_P_GAIN: Final = 0.01
"""Rise of P(ends by deadline) from which a spare is proposed even where it saves less."""
MIN_SPARE_PART: Final = 0.01
"""Of the expected end: what one more spare must save."""
SHRINK_AFTER_SECONDS: Final = 600
"""Proposed where lost ranks find no node: a node that reboots is often back by then."""
GIB: Final = 1 << 30
GPU_MEMORY: Final = "workers.gpuMemory"
KEEP_METHODS: Final = ("Precomputed",)
"""Partitioning that the user made: never replaced."""


class RewriteFindings(msgspec.Struct, frozen=True):
    """What evaluation found out about a job. None: nothing is known, and nothing is changed for that reason."""

    outlook: Outlook | None = None
    """With `epoch_seconds` in its job, so that the best interval is whole epochs."""
    needed_gpu_memory_bytes: int | None = None
    """Peak of one GPU by the estimate."""
    largest_gpu_memory_bytes: int | None = None
    """Of the GPUs that the job may use."""
    largest_batch_size: int | None = None
    """That fits in `largest_gpu_memory_bytes`."""
    partitioning_method: str | None = None
    """The planner's choice, a value of `partitioning.method`."""
    partitioning_reason: str = ""


class FieldChange(msgspec.Struct, frozen=True):
    """One field that should be otherwise."""

    path: str
    """Below `spec`, with dots."""
    before: Any
    """None: the field was left out."""
    after: Any
    reason: str
    """One sentence with figures."""


class Rewrite(msgspec.Struct, frozen=True):
    """The changed job and why."""

    job: dict[str, Any]
    changes: tuple[FieldChange, ...]
    notes: tuple[str, ...]
    """What should change too, and needs something that only a person can give."""


class _Draft:
    """A copy of the job while it is changed."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        self.job: dict[str, Any] = copy.deepcopy(dict(job))
        spec = self.job.get("spec")
        if not isinstance(spec, dict):
            raise ValueError("spec: no object; write the fields of a GNNTrainingJob below spec")
        self._spec = spec
        self.changes: list[FieldChange] = []
        self.notes: list[str] = []

    def get(self, path: str) -> Any:  # noqa: ANN401 - as parsed from YAML
        """The value of a field, None where it is left out. Raises ValueError where a part of the path is no object."""
        value: Any = self._spec
        for part in path.split("."):
            if value is None:
                return None
            if not isinstance(value, dict):
                raise ValueError(f"spec.{path}: a field above it is no object; write {path.split('.')[0]} as an object")
            value = value.get(part)
        return value

    def number(self, path: str, absent: int | None) -> int | None:
        """A whole number. Raises ValueError where the field is something else."""
        value = self.get(path)
        if value is None:
            return absent
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"spec.{path}: {value!r} is no whole number; write one")
        return value

    def set(self, path: str, after: object, reason: str) -> None:
        """Change a field that has another value now."""
        before = self.get(path)
        if before == after:
            return
        *folders, name = path.split(".")
        parent = self._spec
        for folder in folders:
            parent[folder] = parent = parent.get(folder) or {}
        parent[name] = after
        self.changes.append(FieldChange(path, before, after, reason))


def rewrite_job(job: Mapping[str, Any], findings: RewriteFindings) -> Rewrite:
    """Return the job as it should be, with a reason for each change; `job` itself stays as it is.

    job: a GNNTrainingJob as parsed from YAML. Raises ValueError with the field where it is no job.
    """
    draft = _Draft(job)
    for rule in RULES:
        rule(draft, findings)
    return Rewrite(draft.job, tuple(draft.changes), tuple(draft.notes))


def _interval(draft: _Draft, findings: RewriteFindings) -> None:
    outlook = findings.outlook
    if outlook is None or outlook.best_interval.epochs is None:
        return
    best = outlook.best_interval
    if draft.get("checkpoint") is None:
        if outlook.expected_failures > 0.0:
            draft.notes.append(
                f"{outlook.expected_failures:.2g} failures are expected and no checkpoint survives one; give checkpoint.claimName a "
                f"ReadWriteMany claim, and checkpoint.everyEpochs: {best.epochs}"
            )
        return
    current = draft.number("checkpoint.everyEpochs", 1)
    saved = best.current_end_seconds - best.expected_end_seconds
    if current == best.epochs or saved < MIN_SAVED_PART * best.current_end_seconds:
        return
    reason = f"ends {duration_text(saved)} earlier in the mean ({outlook.expected_failures:.2g} failures expected)"
    draft.set("checkpoint.everyEpochs", best.epochs, reason)


def _spare(draft: _Draft, findings: RewriteFindings) -> None:
    outlook = findings.outlook
    if outlook is None:
        return
    worth = outlook.spare_worth
    gains = worth.p_gain is not None and worth.p_gain >= MIN_P_GAIN
    if not gains and worth.saved_seconds < MIN_SPARE_PART * outlook.best_interval.current_end_seconds:
        return
    why = f"waiting for repairs costs {duration_text(max(worth.saved_seconds, 1.0))} in the mean that one more node would save"
    if worth.p_gain is not None:
        why += f"; P(ends by deadline) would rise by {100.0 * worth.p_gain:.2g} points"
    if draft.get("recovery.replaceLostWorkers") is False:
        draft.set("recovery.replaceLostWorkers", True, f"a lost rank takes a spare node: {why}")
    _shrinking(draft, why)


def _shrinking(draft: _Draft, why: str) -> None:
    """Let the job continue with one worker fewer: its own nodes are then each other's spares."""
    most, least = draft.number("workers.maxReplicas", None), draft.number("workers.minReplicas", 1)
    if most is None or least is None or most < 2 or draft.get("checkpoint") is None:
        draft.notes.append(f"{why}; leave one node of the cluster free for this job")
        return
    if draft.get("partitioning.count") is not None:
        draft.notes.append(f"{why}; leave out partitioning.count, so that the job can continue with fewer workers, or leave one node free")
        return
    if least >= most:
        draft.set("workers.minReplicas", most - 1, f"the job can continue with one worker fewer: {why}")
    if draft.get("recovery.shrinkAfterSeconds") is None:
        draft.set("recovery.shrinkAfterSeconds", SHRINK_AFTER_SECONDS, f"the job continues with fewer workers: {why}")


def _memory(draft: _Draft, findings: RewriteFindings) -> None:
    needed, largest = findings.needed_gpu_memory_bytes, findings.largest_gpu_memory_bytes
    if needed is None:
        return
    if largest is not None and needed > largest:
        _batch(draft, findings, needed, largest)
        return
    stated = draft.get(GPU_MEMORY)
    try:
        current = 0 if stated is None else parse_bytes(str(stated))
    except ValueError as error:
        raise ValueError(f"spec.{GPU_MEMORY}: {error}") from error
    if current < needed:
        after = shortest(math.ceil(needed / GIB) * GIB)
        draft.set(GPU_MEMORY, after, f"each GPU needs {_gib(needed)} by the estimate; smaller GPUs would run out of memory")


def _batch(draft: _Draft, findings: RewriteFindings, needed: int, largest: int) -> None:
    current = draft.number("model.batchSize", None)
    why = f"each GPU needs {_gib(needed)} by the estimate and the largest has {_gib(largest)}"
    if findings.largest_batch_size is None or current is None or findings.largest_batch_size >= current:
        draft.notes.append(f"{why}; raise workers.maxReplicas, or train on sampled neighbours (model.fanouts and model.batchSize)")
        return
    draft.set("model.batchSize", findings.largest_batch_size, f"{why}: this is the largest batch that fits")


def _partitioning(draft: _Draft, findings: RewriteFindings) -> None:
    method = findings.partitioning_method
    if method is None:
        return
    current = draft.get("partitioning.method") or "Auto"
    if current in (*KEEP_METHODS, method):
        return
    draft.set("partitioning.method", method, findings.partitioning_reason or f"the planner's choice for this graph is {method}")


def _gib(size: int) -> str:
    return f"{size / GIB:.3g} GiB"


RULES: Final[tuple[Callable[[_Draft, RewriteFindings], None], ...]] = (_interval, _spare, _memory, _partitioning)
