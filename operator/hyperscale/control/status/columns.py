"""Text for the columns of `kubectl get gnntj`. Pure."""

from __future__ import annotations

from hyperscale.model.api.measured import Measured
from hyperscale.model.plan import Plan
from hyperscale.model.status import ReadyCount, StatusColumns
from hyperscale.util.rfc3339 import PREDICTED_DIGITS, duration_text


def columns(workers: ReadyCount | None, plan: Plan | None, measured: Measured | None, ended: bool) -> StatusColumns | None:
    """What kubectl shows of a job; None where there is nothing to show. ended: its workers are gone, or going."""
    shown = StatusColumns(
        ready=f"{workers.ready}/{workers.planned}" if workers and not ended else "",
        epoch=f"{measured.epoch}/{measured.epochs}" if measured else "",
        accuracy=f"{measured.accuracy:.1%}" if measured and measured.accuracy is not None else "",
        predicted=_column(plan.predicted.epoch_seconds if plan else None, PREDICTED_DIGITS),
        measured=_column(measured.epoch_seconds if measured else None),
    )
    return shown if shown != StatusColumns() else None


def _column(epoch_seconds: float | None, digits: int = 3) -> str:
    """A time of an epoch without spaces, which separate kubectl's columns."""
    return "" if epoch_seconds is None else duration_text(epoch_seconds, digits).replace(" ", "")
