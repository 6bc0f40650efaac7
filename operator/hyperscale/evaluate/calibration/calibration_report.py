"""All stages together: whether predictions are calibrated, with which bounds, and which stage is left out of the score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from hyperscale.evaluate.calibration.past_run import SCORED, PastRun, errors_of
from hyperscale.evaluate.calibration.stage_verdict import Coverage, CoverageVerdict, StageVerdict, VerdictReason, judge

PLAN: Final = "plan"
"""The range that a plan states of its epoch."""
NO_RUNS: Final = "NoFinishedRuns"
_WORST_FIRST: Final = (CoverageVerdict.FALSE, CoverageVerdict.UNKNOWN, CoverageVerdict.TRUE)
_SAYINGS: Final = {
    VerdictReason.CALIBRATED: "its intervals hold as stated",
    VerdictReason.TOO_NARROW: "its intervals are too narrow",
    VerdictReason.TOO_WIDE: "its intervals are wider than stated",
    VerdictReason.DRIFTING: "recent runs differ from earlier ones",
    VerdictReason.BOUNDS_OPEN: "the bounds do not decide",
}


class CalibrationReport(Struct, frozen=True, rename="camel"):
    """What finished runs say of the predictions that were made of them."""

    verdict: CoverageVerdict
    reason: str
    message: str
    runs: int
    """Most that one stage was scored by."""
    stages: tuple[StageVerdict, ...] = ()

    def of(self, stage: str) -> StageVerdict | None:
        """The verdict on a stage; None where no finished run had its statement."""
        return next((each for each in self.stages if each.stage == stage), None)


def report_of(past: Sequence[PastRun], plan_errors: Sequence[float] = (), cut: bool = False) -> CalibrationReport:
    """Return the report of finished runs, oldest first.

    plan_errors: errors of the ranges that plans stated, oldest first, also of runs that were not evaluated; cut: older runs were left out.
    """
    errors = {PLAN: list(plan_errors)} | {stage: errors_of(past, stage) for stage in SCORED}
    return combined({stage: each for stage, each in errors.items() if each}, cut)


def combined(errors: Mapping[str, Sequence[float]], cut: bool = False) -> CalibrationReport:
    """Return the report from each stage's errors: False where one stage is, True where all are, else Unknown."""
    stages = tuple(judge(stage, each, len(errors), cut) for stage, each in errors.items())
    if not stages:
        return CalibrationReport(CoverageVerdict.UNKNOWN, NO_RUNS, "no finished run had a prediction to compare with", 0)
    runs = max(stage.runs for stage in stages)
    by_verdict = {verdict: [stage for stage in stages if stage.verdict is verdict] for verdict in _WORST_FIRST}
    verdict = next(each for each in _WORST_FIRST if by_verdict[each])
    shown = [stage for each in _WORST_FIRST for stage in by_verdict[each]]
    unknown = f"Unknown ({runs} runs): " if verdict is CoverageVerdict.UNKNOWN else ""
    return CalibrationReport(verdict, shown[0].reason.value, unknown + "; ".join(map(sentence, shown)), runs, stages)


def sentence(stage: StageVerdict) -> str:
    """Return what is known of one stage, with the number of runs and the bounds."""
    one, two = stage.one_sigma, stage.two_sigma
    if one is None or two is None:
        return f"{stage.stage}: {stage.runs} runs are too few to judge"
    return f"{stage.stage}: {_SAYINGS[stage.reason]}, {_share(one)} and {_share(two)}"


def _share(coverage: Coverage) -> str:
    bounds = f"{100 * coverage.low:.0f} to {100 * coverage.high:.0f} %"
    return f"{coverage.covered} of {coverage.runs} within the {100 * coverage.stated:.0f} % interval (true share {bounds})"
