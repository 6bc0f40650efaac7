"""Laws of failure from tables of units: right family and shape on generated tables, or the fit of any file.

Run: python benchmarks/failures.py [--quick] [--seeds N] [--json FILE]
     python benchmarks/failures.py --failures FILE [--unit h] [--until TIME]

--failures FILE  prints the law of each class and cause of a CSV file: location, insert, remove, cause, and class where it has one
--unit UNIT      of times that are plain numbers: s, min, h or d
--until TIME     end of the records in the file's own unit or RFC 3339; without it the latest time in the file
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import common
from benchmarks.common import Row, goal, report
from benchmarks.failure_tables import BATHTUB, FAMILIES, MEAN_HOURS, Family, table
from hyperscale.evaluate.twin.failure_table import (
    UNIT_SECONDS,
    FailureTableError,
    fitted_laws,
    lives_of,
    parse_failure_table,
    parse_time,
    read_failure_table,
)
from hyperscale.evaluate.twin.fit_laws import MAX_MISFIT, FittedLaw, fit_law
from hyperscale.evaluate.twin.twin_types import LawFamily, LifeLaw
from hyperscale.util.rfc3339 import duration_text

NAME = "failures"
SHAPE_ERROR = 0.1
MAX_WRONG = 0.05
CASES = ((1000, 4.0), (1000, 2.0), (2000, 2.0))
"""Units, and mean lives until the records end: the first is the goal's, the others show what more censoring costs."""


def fitted(family: Family, units: int, mean_lives: float, seed: int) -> FittedLaw:
    """The law of one generated table, read as a file is."""
    records = parse_failure_table(table(family, units, seed, mean_lives), "h")
    return fit_law(lives_of(records, "", "gpu", mean_lives * MEAN_HOURS * UNIT_SECONDS["h"]))


def rows(tables: int, cases: Sequence[tuple[int, float]]) -> list[Row]:
    """How often family and shape are right, on `tables` tables of each family and case; the first case is judged."""
    result: list[Row] = []
    for number, (units, mean_lives) in enumerate(cases):
        wrong = 0
        for family in FAMILIES:
            fits = [fitted(family, units, mean_lives, seed) for seed in range(tables)]
            wrong += sum(not is_right(family, fit) for fit in fits)
            result += family_rows(family, units, mean_lives, fits)
        share = 100.0 * wrong / (tables * len(FAMILIES))
        case = f"{tables * len(FAMILIES)} tables of {units} units, records of {mean_lives:g} mean lives"
        if number == 0:
            result.append(goal(NAME, f"{case}: family or shape wrong", "likelihood, BIC", share, 100.0 * MAX_WRONG, "%"))
        else:
            result.append(Row(NAME, case, "likelihood, BIC", "family or shape wrong", share, "%"))
        fits = [fitted(BATHTUB, units, mean_lives, seed) for seed in range(tables)]
        result += family_rows(BATHTUB, units, mean_lives, fits)
    return result


def is_right(family: Family, fit: FittedLaw) -> bool:
    """Whether the family is the one that lives were drawn from, and the shape within a tenth of its own."""
    near = family.shape is None or abs(fit.law.shape / family.shape - 1.0) <= SHAPE_ERROR
    return fit.law.family == family.family and near


def family_rows(family: Family, units: int, mean_lives: float, fits: Sequence[FittedLaw]) -> list[Row]:
    """Figures of the fits to tables of one family."""
    case, method = f"{family.name}, {units} units", f"records of {mean_lives:g} mean lives"
    right = [fit for fit in fits if fit.law.family == family.family]
    figures = {
        "censored": sum(1.0 - fit.events / fit.units for fit in fits) / len(fits),
        "family right": len(right) / len(fits),
        "family and shape right": sum(is_right(family, fit) for fit in fits) / len(fits),
    }
    if family.shape is not None and right:
        covered = sum((fit.shape_low or 0.0) <= family.shape <= (fit.shape_high or 0.0) for fit in right)
        figures["95 % interval of the shape covers, where the family is right"] = covered / len(right)
    return [Row(NAME, case, method, metric, 100.0 * part, "%") for metric, part in figures.items()]


def print_file(file: Path, unit: str, until: str | None) -> int:
    """Print the laws of a file; the exit code, 1 with one line where it cannot be read."""
    try:
        records = read_failure_table(file, unit)
        laws = fitted_laws(records, None if until is None else parse_time(until, unit))
    except FailureTableError as error:
        print(error, file=sys.stderr)
        return 1
    header = (
        "class",
        "cause",
        "units",
        "failed",
        "law",
        "scale",
        "95 %",
        "shape",
        "95 %",
        "misfit",
        "families with shape, BIC above the best",
    )
    print(common.table(header, [_cells(*pair, law) for pair, law in laws.items()]))
    print(f"\nmisfit: above {MAX_MISFIT} no family fits, and the law is the lives' own (empirical)")
    return 0


def _cells(unit_class: str, cause: str, fit: FittedLaw) -> list[str]:
    scale = "" if fit.scale_low_seconds is None or fit.scale_high_seconds is None else _range(fit.scale_low_seconds, fit.scale_high_seconds)
    shape = "" if fit.shape_low is None or fit.shape_high is None else f"{fit.shape_low:.3g} to {fit.shape_high:.3g}"
    first = fit.candidates[0].bic
    others = ", ".join(f"{_name(each.law)} {each.bic - first:+.1f}" for each in fit.candidates)
    own_shape = f"{fit.law.shape:.3g}" if shape else ""
    return [
        unit_class or "(all)", cause, str(fit.units), str(fit.events), fit.law.family, duration_text(fit.law.scale_seconds), scale,
        own_shape, shape, f"{fit.misfit:.2f}", others,
    ]  # fmt: skip


def _name(law: LifeLaw) -> str:
    return str(law.family) if law.family == LawFamily.EXPONENTIAL else f"{law.family} {law.shape:.3g}"


def _range(low: float, high: float) -> str:
    return f"{duration_text(low)} to {duration_text(high)}"


def main() -> int:
    """Print the laws of a file, or figures and goals of generated tables."""
    parser = common.parser(__doc__ or "")
    parser.add_argument("--seeds", type=int, default=None, help="tables of each family; 40, or 8 with --quick")
    parser.add_argument("--failures", type=Path, metavar="FILE", help="fit this table of units instead")
    parser.add_argument("--unit", choices=sorted(UNIT_SECONDS), default="s", help="of times that are plain numbers")
    parser.add_argument("--until", metavar="TIME", help="end of the records; the latest time in the file without it")
    arguments = parser.parse_args()
    if arguments.failures is not None:
        return print_file(arguments.failures, arguments.unit, arguments.until)
    tables = arguments.seeds or (8 if arguments.quick else 40)
    return report(rows(tables, CASES[:1] if arguments.quick else CASES), arguments.json)


if __name__ == "__main__":
    sys.exit(main())
