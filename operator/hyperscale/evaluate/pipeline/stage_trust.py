"""What finished runs say of the stages: a stage that cannot be trusted says so and is left out of the score."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from hyperscale.evaluate.calibration.calibration_report import CalibrationReport, sentence
from hyperscale.evaluate.calibration.past_run import PastRun, learned_recalibration
from hyperscale.model.evaluation import MAX_FINDINGS, Interval, Recalibration, StageOutcome

MAX_SENTENCE = 1024


def recalibration_of(past: Sequence[PastRun], report: CalibrationReport, stage: str, from_runs: bool) -> Recalibration | None:
    """Return what finished runs teach about a stage's intervals; None from too few, or where it changes nothing.

    from_runs: its forecast rests on finished runs.
    """
    verdict = report.of(stage)
    learned = learned_recalibration(past, stage, from_runs, drifting=verdict is not None and verdict.drift is not None)
    return None if learned is None or (learned.shift == 0.0 and learned.widening == 1.0) else learned


def with_trust(outcome: StageOutcome, report: CalibrationReport) -> StageOutcome:
    """Return the outcome with what finished runs say of its stage; without a score where it cannot be trusted."""
    verdict = report.of(outcome.stage)
    if verdict is None:
        return outcome
    if verdict.trusted:
        return _saying(outcome, f"Past runs say of {sentence(verdict)}.")
    return replace(_saying(outcome, f"Left out of the score. Past runs say of {sentence(verdict)}."), score=None)


def saying_recalibrated(outcome: StageOutcome, by: Recalibration | None, before: Interval) -> StageOutcome:
    """Return the outcome with a sentence on what was applied to its interval; before: the bounds without it, in seconds."""
    if by is None:
        return outcome
    bounds = f"{before.low:.3g} to {before.high:.3g} s"
    moved = f", moved by {by.shift:+.2g} deviations" if by.shift else ""
    return _saying(
        outcome,
        f"Its interval is {by.widening:.3g} times as wide{moved}, as {by.runs} finished runs teach; before: {bounds}.",
    )


def _saying(outcome: StageOutcome, text: str) -> StageOutcome:
    return replace(outcome, findings=(text[:MAX_SENTENCE], *outcome.findings)[:MAX_FINDINGS])
