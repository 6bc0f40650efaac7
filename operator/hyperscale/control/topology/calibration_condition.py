"""The condition PredictionsCalibrated of the ClusterTopology: do predictions hold as often as they say? Pure."""

from __future__ import annotations

from typing import Final

from hyperscale.evaluate.calibration.calibration_report import CalibrationReport
from hyperscale.model.api.condition import Condition
from hyperscale.util.rfc3339 import timestamp

PREDICTIONS_CALIBRATED: Final = "PredictionsCalibrated"
MAX_MESSAGE: Final = 1024


def calibration_condition(report: CalibrationReport, now: float) -> Condition:
    """Return the report as a condition that changed at `now` (Unix seconds); the writer keeps an earlier time."""
    return Condition(PREDICTIONS_CALIBRATED, report.verdict.value, report.reason, report.message[:MAX_MESSAGE], 0, timestamp(now))
