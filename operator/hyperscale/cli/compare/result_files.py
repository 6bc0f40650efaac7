"""Result files: rows of a benchmark, a table with columns, or a list of numbers, as JSON or CSV.

An unknown value (empty, null, NaN) and an infinite one are left out and counted, never zero. All else that is no number is refused.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from hyperscale.cli.exit_codes import InputError
from hyperscale.cli.files import read_bounded
from hyperscale.evaluate.statistics.result_rows import ResultRow

MAX_FILE_BYTES: Final = 64 * 2**20
MAX_ROWS: Final = 200_000
MAX_COLUMNS: Final = 1000
MIN_VALUE: Final = 1e-100
MAX_VALUE: Final = 1e100
"""Bounds of magnitudes: squares and sums of values neither vanish nor overflow."""
GOAL: Final = "goal"
"""Metric of rows that state a goal; they repeat figures of other rows."""
PLACES: Final = ("benchmark", "case", "method", "seed", "unit")
"""Columns that say what a value is of."""
UNITS: Final = {"_per_second": "/s", "_per_s": "/s", "_seconds": "s", "_s": "s", "_ms": "ms", "_us": "us", "_bytes": "B"}
"""By how the name of a column ends, the first that fits; a rate of another time has none."""
Record = dict[str, str]


class ResultFile(NamedTuple):
    """What one file holds."""

    rows: tuple[ResultRow, ...]
    records: tuple[Record, ...]
    """All columns of each row, as text; empty for unknown."""
    left_out: int
    """Rows whose value is unknown or infinite."""


def read_results(name: str, column: str | None = None) -> ResultFile:
    """Return the rows of a file; `column`: the values of a table with several numeric ones. Raises InputError."""
    text = _text(name)
    records = _records(text, name)
    if not records:
        raise InputError(f"{name}: no rows; give a list of numbers, or a table with a header")
    if len(records) > MAX_ROWS:
        raise InputError(f"{name}: {len(records):,} rows; give at most {MAX_ROWS:,}")
    return rows_of(records, name, column)


def rows_of(records: Sequence[Record], name: str, column: str | None = None) -> ResultFile:
    """Return records as rows: their `value` by their `metric`, or one column as the metric of its name. Raises InputError."""
    by_metric = column is None and {"metric", "value"} <= records[0].keys()
    values = "value" if by_metric else column or _numeric_column(records, name)
    if values not in records[0]:
        raise InputError(f"{name}: no column {values!r}; write one of {', '.join(records[0])}")
    rows: list[ResultRow] = []
    left_out = 0
    for at, record in enumerate(records, 1):
        if by_metric and record.get("metric") == GOAL:
            continue
        value = _number(record.get(values, ""), f"{name}: row {at}: {values}")
        if value is None:
            left_out += 1
        else:
            rows.append(_row(record, value, "" if by_metric else values))
    return ResultFile(tuple(rows), tuple(records), left_out)


def _row(record: Record, value: float, column: str) -> ResultRow:
    """A row of a table whose metric is the name of a column, or, where that is empty, of one with a column `metric`."""
    places = {place: record.get(place, "") for place in PLACES}
    unit = places.pop("unit") or _unit_of(column)
    return ResultRow(value, column or record.get("metric", ""), unit, columns=record, **places)


def _unit_of(column: str) -> str:
    """Of a column by its name; "" where it says none."""
    unit = next((unit for end, unit in UNITS.items() if column.endswith(end)), "")
    return "" if "_per_" in column and unit != "/s" else unit


def numbers(records: Sequence[Record], column: str, name: str) -> list[float | None]:
    """Return one column as numbers, None for unknown ones. Raises InputError."""
    if column not in records[0]:
        raise InputError(f"{name}: no column {column!r}; write one of {', '.join(records[0])}")
    return [_number(record.get(column, ""), f"{name}: row {at}: {column}") for at, record in enumerate(records, 1)]


def _text(name: str) -> str:
    try:
        raw = read_bounded(Path(name), MAX_FILE_BYTES)
    except (OSError, ValueError) as error:
        raise InputError(f"{name}: cannot be read: {getattr(error, 'strerror', None) or error}; name a JSON or CSV file") from None
    if len(raw) > MAX_FILE_BYTES:
        raise InputError(f"{name}: is larger than {MAX_FILE_BYTES >> 20} MiB; give fewer rows")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{name}: is no text in UTF-8; name a JSON or CSV file") from None


def _records(text: str, name: str) -> list[Record]:
    if text.lstrip().startswith(("[", "{")):
        return _json_records(text, name)
    try:
        lines = [line for line in csv.reader(io.StringIO(text), strict=True) if any(cell.strip() for cell in line)]
    except csv.Error as error:
        raise InputError(f"{name}: is no CSV: {error}; give lines of columns with commas") from None
    if not lines:
        return []
    return _table(["value"], lines, name) if _is_numeric(lines[0]) else _table([cell.strip() for cell in lines[0]], lines[1:], name)


def _table(header: list[str], body: Sequence[Sequence[str]], name: str) -> list[Record]:
    if len(set(header)) < len(header) or "" in header or len(header) > MAX_COLUMNS:
        raise InputError(f"{name}: line 1: columns need names, each once; write a header")
    for at, line in enumerate(body, 1):
        if len(line) != len(header):
            raise InputError(f"{name}: row {at}: {len(line)} columns, {len(header)} expected ({', '.join(header)[:80]})")
    return [dict(zip(header, (cell.strip() for cell in line), strict=True)) for line in body]


def _json_records(text: str, name: str) -> list[Record]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name}: is no JSON: {str(error)[:120]}; give a list of rows or numbers") from None
    if not isinstance(document, list):
        raise InputError(f"{name}: holds one object; give a list of rows or numbers")
    if isinstance(next((item for item in document if item is not None), None), dict):
        return [_json_row(item, name, at) for at, item in enumerate(document, 1)]
    for at, item in enumerate(document, 1):
        if not isinstance(item, int | float | None) or isinstance(item, bool):
            raise InputError(f"{name}: row {at}: is no number; give a list of numbers, or of rows alone")
    return [{"value": _cell(item, name, at)} for at, item in enumerate(document, 1)]


def _json_row(item: Any, name: str, at: int) -> Record:  # noqa: ANN401 - any JSON
    if not isinstance(item, dict):
        raise InputError(f"{name}: row {at}: is no object; give a list of rows, or of numbers alone")
    return {key: _cell(value, name, at) for key, value in item.items()}


def _cell(value: Any, name: str, at: int) -> str:  # noqa: ANN401 - any JSON
    """A value as text; what is nested has no place in a column and is left empty."""
    if value is None or isinstance(value, dict | list):
        return ""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 1000:
        raise InputError(f"{name}: row {at}: an integer of hundreds of digits; write a smaller one")
    return str(value)


def _is_numeric(cells: Sequence[str]) -> bool:
    return len(cells) == 1 and _as_float(cells[0]) is not None


def _as_float(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _number(cell: str, place: str) -> float | None:
    """None where the value is unknown or infinite."""
    if not cell:
        return None
    value = _as_float(cell)
    if value is None:
        raise InputError(f"{place}: {cell[:40]!r} is no number; write one, or leave it empty where it is unknown")
    if math.isfinite(value) and value != 0.0 and not MIN_VALUE <= abs(value) <= MAX_VALUE:
        raise InputError(f"{place}: {cell[:40]} is out of range; write 0 or {MIN_VALUE:g} to {MAX_VALUE:g}, in another unit")
    return value if math.isfinite(value) else None


def _numeric_column(records: Sequence[Record], name: str) -> str:
    """The one column whose cells are all numbers or unknown, places aside."""
    columns = [
        column
        for column in records[0]
        if column not in PLACES and all(not cell or _as_float(cell) is not None for cell in _column(records, column))
    ]
    if len(columns) == 1:
        return columns[0]
    if not columns:
        raise InputError(f"{name}: no column holds numbers alone; give rows with metric and value, or a column of numbers")
    raise InputError(f"{name}: several columns hold numbers; write --column with one of {', '.join(columns)}")


def _column(records: Sequence[Mapping[str, str]], column: str) -> list[str]:
    return [record.get(column, "") for record in records]
