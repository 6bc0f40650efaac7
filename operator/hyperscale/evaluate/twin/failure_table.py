"""Tables of events as files: which unit was inserted where, when it was removed, and why. The border: rows in, lives out."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from hyperscale.evaluate.twin.fit_laws import FittedLaw, fit_law
from hyperscale.evaluate.twin.lives import Lives

COLUMNS: Final = ("location", "insert", "remove", "cause")
CLASS: Final = "class"
"""Optional column: the kind of node or unit; without it all are of one class."""
NO_FAILURES: Final = frozenset({"healthy", "planned"})
"""Causes of a removal that say nothing of a unit's life, in small letters."""
OTHERS: Final = "other causes"
"""Name of rare causes that share one law."""
UNIT_SECONDS: Final = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
"""Units of times that are plain numbers."""
MAX_FILE_BYTES: Final = 1 << 30
MAX_TIME_SECONDS: Final = 1e15
"""Either way from zero: beyond it a time is a slip, and sums of lives lose digits."""


class FailureTableError(ValueError):
    """A table of events that cannot be read: the place, the fault and what to write instead, in one line."""


class UnitRecord(msgspec.Struct, frozen=True):
    """One row: a unit at a location."""

    row: int
    """Line of the file in which it ends: the header is row 1."""
    location: str
    insert_seconds: float
    remove_seconds: float | None
    """None: still there."""
    cause: str
    """Empty: still there."""
    unit_class: str = ""

    @property
    def failed(self) -> bool:
        """Whether its unit was removed for a failure."""
        return self.remove_seconds is not None and self.cause.lower() not in NO_FAILURES


def read_failure_table(file: Path, unit: str = "s") -> tuple[UnitRecord, ...]:
    """Return the rows of a CSV file with columns location, insert, remove, cause, and class where it has one.

    unit: of times that are plain numbers, a key of `UNIT_SECONDS`; times with a date are RFC 3339.
    Raises FailureTableError with the row.
    """
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise FailureTableError(f"{file}: larger than 1 GiB; leave out classes and causes that you do not ask for")
        with file.open(newline="", encoding="utf-8-sig") as lines:
            return parse_failure_table(lines, unit)
    except OSError as error:
        raise FailureTableError(f"{file}: {error.strerror}; name a CSV file with columns {', '.join(COLUMNS)}") from error
    except UnicodeDecodeError as error:
        raise FailureTableError(f"{file}: byte {error.start} is no UTF-8; save the table as CSV in UTF-8") from error
    except csv.Error as error:
        raise FailureTableError(f"{file}: {error}; save the table as CSV") from error


def parse_failure_table(lines: Iterator[str] | Sequence[str], unit: str = "s") -> tuple[UnitRecord, ...]:
    """Return the rows of CSV text, header first. Raises FailureTableError with the row."""
    if unit not in UNIT_SECONDS:
        raise FailureTableError(f'unit: "{unit}" is no unit of time; write one of {", ".join(UNIT_SECONDS)}')
    reader = csv.DictReader(lines, skipinitialspace=True)
    reader.fieldnames = _header(reader.fieldnames or ())
    records = []
    dated: bool | None = None
    for fields in reader:
        number = reader.line_num  # blank lines and line breaks in quotes count
        record, own = _record(number, fields, unit)
        if dated is not None and own != dated:
            raise FailureTableError(f"row {number}: times with a date and plain numbers in one table; write all times in one way")
        dated = own
        records.append(record)
    if not records:
        raise FailureTableError("row 2: the table has no units; write one row for each unit")
    _check_order(records)
    return tuple(records)


def _header(names: Sequence[str]) -> list[str]:
    header = [name.strip() for name in names]
    missing = [column for column in COLUMNS if column not in header]
    if missing:
        raise FailureTableError(f"row 1: no column {', '.join(missing)}; the header must name {', '.join(COLUMNS)}")
    if twice := next((name for name in header if name and header.count(name) > 1), ""):
        raise FailureTableError(f'row 1: two columns "{twice[:40]}"; name each column once')
    return header


def _record(number: int, fields: Mapping[str | None, object], unit: str) -> tuple[UnitRecord, bool]:
    """One row, and whether its times have dates."""
    text = {column: value.strip() if isinstance(value := fields.get(column), str) else "" for column in (*COLUMNS, CLASS)}
    if fields.get(None):
        raise FailureTableError(f"row {number}: more fields than the header has; put text with commas in quotes")
    if not text["location"]:
        raise FailureTableError(f"row {number}: location is empty; write where the unit is, e.g. node-7/gpu-3")
    if not text["insert"]:
        raise FailureTableError(f"row {number}: insert is empty; write when the unit was inserted")
    insert, dated = _time(number, "insert", text["insert"], unit)
    remove = None
    if text["remove"]:
        remove, also = _time(number, "remove", text["remove"], unit)
        if also != dated:
            raise FailureTableError(f"row {number}: insert and remove are written in different ways; write both with dates, or neither")
        if not text["cause"]:
            raise FailureTableError(f"row {number}: removed without a cause; write one, e.g. healthy for a unit that did not fail")
        if not remove > insert:
            raise FailureTableError(f"row {number}: removed at {text['remove']}, not after its insertion at {text['insert']}; correct one")
    elif text["cause"]:
        raise FailureTableError(f'row {number}: cause "{text["cause"]}" without a time of removal; write the time, or leave the cause out')
    return UnitRecord(number, text["location"], insert, remove, text["cause"], text[CLASS]), dated


def _time(number: int, column: str, text: str, unit: str) -> tuple[float, bool]:
    """Seconds, and whether the text has a date."""
    try:
        seconds = float(text) * UNIT_SECONDS[unit]
    except ValueError:
        return _date(number, column, text), True
    if not abs(seconds) <= MAX_TIME_SECONDS:
        raise FailureTableError(
            f'row {number}: {column} is "{text}"; write a number of at most 1e15 s, or no remove for a unit still there'
        )
    return seconds, False


def parse_time(text: str, unit: str) -> float:
    """Return the seconds of a number in `unit` or of an RFC 3339 time. Raises FailureTableError."""
    try:
        return _time(0, "time", text, unit)[0]
    except FailureTableError as error:
        raise FailureTableError(str(error).removeprefix("row 0: ")) from None


def _date(number: int, column: str, text: str) -> float:
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00").replace("z", "+00:00"))
    except ValueError:
        raise FailureTableError(f'row {number}: {column} is "{text}"; write RFC 3339, e.g. 2026-01-31T12:00:00Z, or a number') from None
    if moment.tzinfo is None:
        raise FailureTableError(f'row {number}: {column} "{text}" has no time zone; write RFC 3339, e.g. 2026-01-31T12:00:00Z')
    return moment.timestamp()


def _check_order(records: Sequence[UnitRecord]) -> None:
    """Raise FailureTableError where a location's units are not in the order of time, or two are there at once."""
    last: dict[str, UnitRecord] = {}
    for record in records:
        before = last.get(record.location)
        if before is not None:
            where = f'row {record.row}: location "{record.location}"'
            if record.insert_seconds < before.insert_seconds:
                raise FailureTableError(f"{where} is inserted before row {before.row}; sort each location's rows by time")
            if before.remove_seconds is None or record.insert_seconds < before.remove_seconds:
                raise FailureTableError(f"{where} is inserted while the unit of row {before.row} is there; correct the times")
        last[record.location] = record


def pooled(records: Sequence[UnitRecord], most: int) -> tuple[tuple[UnitRecord, ...], int]:
    """Return the records with one cause in place of all but the `most` frequent causes of failures, and how many it stands for."""
    counts = Counter(record.cause for record in records if record.failed)
    rare = {cause for cause, _ in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[most:]}
    return tuple(replace(record, cause=OTHERS) if record.cause in rare else record for record in records), len(rare)


def lives_of(records: Sequence[UnitRecord], unit_class: str, cause: str, observed_until_seconds: float | None = None) -> Lives:
    """Return lives of the units of a class, failed where they were removed for `cause`.

    observed_until_seconds: end of the records, for units still there; None: the latest time in the records. A unit that was
    inserted at that very moment says nothing yet and is left out.
    Raises FailureTableError where a time lies after the end of the records.
    """
    until = max(map(_last_seconds, records)) if observed_until_seconds is None else observed_until_seconds
    own = [record for record in records if record.unit_class == unit_class]
    late = next((record for record in own if _last_seconds(record) > until), None)
    if late is not None:
        raise FailureTableError(f"row {late.row}: its times are after the end of the records; state a later end")
    ends = np.array([until if record.remove_seconds is None else record.remove_seconds for record in own], dtype=np.float64)
    seconds = ends - np.array([record.insert_seconds for record in own], dtype=np.float64)
    failed = np.array([record.remove_seconds is not None and record.cause == cause for record in own], dtype=np.bool_)
    return Lives(seconds[seconds > 0.0], failed[seconds > 0.0])


def _last_seconds(record: UnitRecord) -> float:
    return record.insert_seconds if record.remove_seconds is None else record.remove_seconds


def fitted_laws(records: Sequence[UnitRecord], observed_until_seconds: float | None = None) -> dict[tuple[str, str], FittedLaw]:
    """Return (class, cause) -> law for every cause that removed a unit of a class, sorted. Other causes censor its lives."""
    pairs = sorted({(record.unit_class, record.cause) for record in records if record.remove_seconds is not None})
    return {pair: fit_law(lives_of(records, *pair, observed_until_seconds)) for pair in pairs}
