"""What every benchmark shares: its arguments, its rows, its table, its goals, its JSON."""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Row:
    """One figure of one method on one case."""

    benchmark: str
    case: str
    method: str
    metric: str
    value: float
    unit: str
    seed: int = 0
    limit: float | None = None
    """Only of rows with metric `goal`: the figure that must not be exceeded."""
    holds: bool | None = None
    """Only of rows with metric `goal`."""


def goal(benchmark: str, case: str, method: str, value: float, limit: float, unit: str) -> Row:
    """A row that says whether `value` keeps within `limit`."""
    return Row(benchmark, case, method, "goal", value, unit, limit=limit, holds=value <= limit)


def parser(description: str) -> argparse.ArgumentParser:
    """Arguments that every benchmark takes; add others to what is returned."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--json", type=Path, metavar="FILE", help="write all rows as JSON, e.g. --json rows.json")
    made.add_argument("--quick", action="store_true", help="fewer and smaller cases, within 60 s")
    return made


def percentile(values: Sequence[float], part: float) -> float:
    """The value below which `part` (0..1) of the values lie, linearly interpolated."""
    ordered = sorted(values)
    place = part * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def median(values: Sequence[float]) -> float:
    """The middle value."""
    return statistics.median(values)


def report(rows: Iterable[Row], json_file: Path | None) -> int:
    """Print the rows as a table, goals last, and write them as JSON where asked to. The exit code: 1 where a goal is missed, else 0."""
    rows = list(rows)
    figures = [row for row in rows if row.metric != "goal"]
    print(table(("case", "method", "metric", "value", "unit", "seed"), [_cells(row) for row in figures]))
    goals = [row for row in rows if row.metric == "goal"]
    if goals:
        print()
        print(table(("goal", "method", "value", "limit", "unit", "holds"), [_goal_cells(row) for row in goals]))
    if json_file is not None:
        write(rows, json_file)
    return int(any(row.holds is False for row in goals))


def write(rows: Iterable[Row], file: Path) -> None:
    """Write rows as JSON objects, without the fields that they leave out."""
    file.write_text(json.dumps([_wire(row) for row in rows], indent=1) + "\n")


def table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell."""
    widths = [max(len(line[column]) for line in [header, *lines]) for column in range(len(header))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in [header, *lines])


def _cells(row: Row) -> list[str]:
    return [row.case, row.method, row.metric, f"{row.value:.6g}", row.unit, str(row.seed)]


def _goal_cells(row: Row) -> list[str]:
    return [row.case, row.method, f"{row.value:.4g}", f"{row.limit:.4g}", row.unit, "yes" if row.holds else "NO"]


def _wire(row: Row) -> dict[str, Any]:
    return {name: value for name, value in asdict(row).items() if value is not None}
