"""What history teaches an evaluation, as the operator sends it to an evaluation: finished runs, past predictions, lives of nodes.

Without numpy: the operator itself reads this module.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from hyperscale.evaluate.calibration.calibration_report import CalibrationReport
from hyperscale.evaluate.calibration.past_run import PastRun
from hyperscale.evaluate.calibration.plausible_rows import plausible

MAX_FORECAST_RUNS: Final = 400
"""Newest finished runs that the operator's forecasts learn from: their number squared decides the time."""
MAX_ASKED_PAST: Final = 400
"""Newest past predictions in a question."""
MAX_LIVES: Final = 20_000
"""Newest lives of nodes."""


class ForecastRow(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A finished run as the forecast takes it; unknown figures are absent."""

    run: str
    architecture: str
    products: str
    vertices: int
    edges: int
    feature_size: int
    hidden_size: int
    layers: int
    ranks: int
    hosts: int
    measured_seconds: float
    physical_seconds: float
    batch_size: int | None = None


class NodeLife(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A node in service: from the moment that the operator saw it ready until it failed or was taken out."""

    node: str
    unit_class: str
    """Its GPU product."""
    insert_seconds: float
    """Unix seconds."""
    remove_seconds: float | None = None
    """Absent while it is in service."""
    cause: str = ""
    """Why it was removed; empty while it is in service."""


class Lessons(Struct, frozen=True, rename="camel", omit_defaults=True):
    """All that history teaches."""

    runs: tuple[ForecastRow, ...] = ()
    """Oldest first."""
    past: tuple[PastRun, ...] = ()
    """Oldest first."""
    nodes: tuple[NodeLife, ...] = ()
    now: float = 0.0
    """Unix seconds: the end of the records of nodes."""
    report: CalibrationReport | None = None
    """What all runs that stages are scored by say of them: `past` is a part of these. Absent, `past` is judged."""

    def about(self, products: Collection[str], now: float, namespace: str = "") -> Lessons:
        """What a question about a plan on these GPU products takes with it, asked at `now` for a job of a namespace."""
        nodes = tuple(life for life in self.nodes if life.unit_class in products)
        return replace(
            self,
            runs=plausible(self.runs[-MAX_FORECAST_RUNS:], namespace),
            past=self.past[-MAX_ASKED_PAST:],
            nodes=nodes[-MAX_LIVES:],
            now=now,
        )


NO_LESSONS: Final = Lessons()
