"""The corpus of preflights: scripts made to fail, sound ones, and what must be said of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from hyperscale.evaluate.preflight.job_trial import Surroundings
from hyperscale.evaluate.preflight.trial_types import Limits, Sandbox
from hyperscale.evaluate.preflight.try_job import preflight
from hyperscale.evaluate.preflight.verdict import asked_bytes
from hyperscale.model.api.job import Architecture, JobSpec, ModelSpec
from hyperscale.model.api.preflight_report import PreflightFault, PreflightReport

CORPUS: Final = Path(__file__).resolve().parents[1] / "unit/evaluate/preflight_corpus"
MEMORY_BYTES: Final = 1536 << 20
"""Of every trial: Python with torch takes some 300 MiB of it."""


class Case(NamedTuple):
    """One script or built-in model."""

    name: str
    fault: PreflightFault | None
    step: int | None
    """In which it fails."""
    says: str
    """Part of the sentence."""
    asked_bytes: int | None
    """Of the allocation that fails."""
    model: ModelSpec

    @property
    def sound(self) -> bool:
        """Whether it must pass."""
        return self.fault is None


def cases() -> tuple[Case, ...]:
    """All 30."""
    return tuple(map(_case, json.loads((CORPUS / "cases.json").read_text())))


def case(name: str) -> Case:
    """The one of that name."""
    return next(each for each in cases() if each.name == name)


def _case(entry: dict[str, Any]) -> Case:
    if "architecture" in entry:
        fields: dict[str, Any] = {name: entry[name] for name in ("architecture", "batchSize", "fanouts") if name in entry}
        model = msgspec.convert(fields | {"hiddenSize": 16}, ModelSpec)
    else:
        model = ModelSpec(Architecture.CUSTOM, parameters=1000, script=f"{entry['name']}.py")
    fault = PreflightFault(entry["fault"]) if "fault" in entry else None
    return Case(entry["name"], fault, entry.get("step"), entry.get("says", ""), entry.get("askedBytes"), model)


def job_of(model: ModelSpec, **changes: Any) -> JobSpec:
    """A job on Cora with one worker."""
    document: dict[str, Any] = {
        "model": {"architecture": "GCN"},
        "dataset": {"source": {"builtin": {"name": "Cora"}}},
        "workers": {"maxReplicas": 1},
    }
    return replace(msgspec.convert(document, JobSpec), model=model, **changes)


def tried(one: Case, sandbox: Sandbox, seconds: float) -> PreflightReport:
    """The report of a case."""
    limits = Limits(seconds=seconds, memory_bytes=MEMORY_BYTES, processes=8)
    return preflight("team/case", job_of(one.model), limits, Surroundings(sandbox, str(CORPUS))).report


def wrong(one: Case, report: PreflightReport) -> tuple[str, ...]:
    """What a report says that is not so; empty where it is right."""
    faults = []
    if report.fault is not one.fault:
        faults.append(f"{report.fault} instead of {one.fault}: {report.sentence}")
    elif one.step is not None and f"in step {one.step}:" not in report.sentence:
        faults.append(f"not step {one.step}: {report.sentence}")
    if one.says not in report.sentence:
        faults.append(f"{one.says!r} is not in: {report.sentence}")
    if one.asked_bytes is not None and abs((asked_bytes(report.sentence) or 0) - one.asked_bytes) > 0.01 * one.asked_bytes:
        faults.append(f"not {one.asked_bytes} bytes: {report.sentence}")
    if one.sound and report.deterministic is False:
        faults.append("not the same losses twice")
    return tuple(faults)
