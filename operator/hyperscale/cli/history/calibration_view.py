"""How well finished runs were predicted, and what they correct, as tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from hyperscale.cli.text_tables import table
from hyperscale.evaluate.calibration.calibration_report import CalibrationReport
from hyperscale.evaluate.calibration.stage_verdict import Coverage, StageVerdict
from hyperscale.model.history.corrections import Corrections, Factor

HEADER: Final = ("STAGE", "RUNS", "JUDGED", "CALIBRATED", "REASON", "BIAS", "SPREAD", "DRIFT", "IN 68 %", "IN 95 %")
NUMBERS: Final = frozenset({1, 2, 5, 6, 7})


def calibration_lines(report: CalibrationReport | None) -> list[str]:
    """Return the table of stages; empty where no run had a prediction to compare with. Errors are in stated deviations."""
    if report is None or not report.stages:
        return []
    return ["", *table(HEADER, map(_row, report.stages), right=NUMBERS)]


def _row(stage: StageVerdict) -> tuple[str, ...]:
    figures = (_signed(stage.bias), "-" if stage.spread is None else f"{stage.spread:.2f}", _signed(stage.drift))
    verdict = (stage.verdict.value, stage.reason.value)
    return stage.stage, str(stage.runs), str(stage.judged), *verdict, *figures, _share(stage.one_sigma), _share(stage.two_sigma)


def _signed(figure: float | None) -> str:
    return "-" if figure is None else f"{round(figure, 2) + 0.0:+.2f}"


def _share(coverage: Coverage | None) -> str:
    if coverage is None:
        return "-"
    return f"{100 * coverage.covered / coverage.runs:.0f} % ({100 * coverage.low:.0f} to {100 * coverage.high:.0f})"


def factor_lines(corrections: Mapping[str, Corrections]) -> list[str]:
    """The factors of seconds that placements are chosen by; what all architectures share is printed once."""
    if not corrections:
        return []
    rows = [
        _factor_cells(name or "any other", "compute", factor)
        for name, each in sorted(corrections.items())
        for factor in (*each.products, replace(each.untried, name="untried"))
    ]
    shared = next(iter(corrections.values()))
    kinds = (("links", shared.tiers), ("inside", shared.insides), ("card", shared.cards))
    rows += [_factor_cells("all", kind, factor) for kind, factors in kinds for factor in factors]
    return ["", *table(("MODEL", "SECONDS OF", "NAME", "FACTOR", "ERROR", "RUNS"), rows, right=frozenset({3, 4, 5}))]


def _factor_cells(model: str, kind: str, factor: Factor) -> tuple[str, ...]:
    return (model, kind, factor.name, f"{factor.factor:.3g}", f"{factor.error:.2f}", str(factor.runs))
