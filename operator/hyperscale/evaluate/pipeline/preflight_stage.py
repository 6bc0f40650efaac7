"""The stage `preflight`: what the first steps of the job's own code did, and whether its memory fits the GPUs of the plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hyperscale.evaluate.pipeline.evaluation_question import TriedJob
from hyperscale.model.api.preflight_report import PreflightReport
from hyperscale.model.evaluation import MAX_FINDINGS, StageOutcome, StageState

PREFLIGHT: Final = "preflight"
UNREPEATABLE_SCORE: Final = 0.75
"""Of code that gives other losses with the same seed: it trains, and its results cannot be had again."""
MIB: Final = 1 << 20


def judge_preflight(tried: TriedJob | None) -> StageOutcome:
    """Return Failed with the fault, or where a GPU of the plan is too small; Warned where the same seed gives other losses.

    It is Skipped where the code asks for a GPU.
    """
    if tried is None:
        return StageOutcome(PREFLIGHT, StageState.SKIPPED, "the job's code was not tried; name the stage with --stage preflight")
    report = tried.report
    findings = (*tried.too_small, *_findings(report))[:MAX_FINDINGS]
    if report.needs_gpu:
        return StageOutcome(PREFLIGHT, StageState.SKIPPED, report.sentence, findings)
    if report.fault is not None:
        return StageOutcome(PREFLIGHT, StageState.FAILED, f"{report.fault.value}: {report.sentence}"[:1024], findings, 0.0)
    if tried.too_small:
        return StageOutcome(PREFLIGHT, StageState.FAILED, f"OutOfMemory on a GPU of the plan: {tried.too_small[0]}"[:1024], findings, 0.0)
    if report.deterministic is False:
        return StageOutcome(PREFLIGHT, StageState.WARNED, report.sentence, findings, UNREPEATABLE_SCORE)
    return StageOutcome(PREFLIGHT, StageState.PASSED, report.sentence, findings, 1.0)


def _findings(report: PreflightReport) -> Iterator[str]:
    if report.predicted_gpu_bytes is not None:
        yield f"A GPU is predicted to need {report.predicted_gpu_bytes / MIB:,.0f} MiB with an equal share; predicted, not executed."
    for words, names in (
        ("Without a gradient", report.idle_parameters),
        ("Written outside", report.files_written),
        ("Addresses", report.addresses),
        ("Limits that held", report.limits_held),
    ):
        if names:
            yield f"{words}: {', '.join(names)}."[:1024]
