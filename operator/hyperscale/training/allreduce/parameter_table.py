"""A table of a model's parameters: names and sizes of the gradients, and when each is ready."""

from __future__ import annotations

import csv
import enum
import io
import math
from typing import Final

import msgspec

from hyperscale.training.allreduce.schedule import ScheduleError

MOST_GRADIENTS: Final = 20_000
"""More is a mistake in the file: the largest published models have some thousands."""
NUMBER_BYTES: Final = 4
"""Of a number in single precision."""


class Spread(enum.StrEnum):
    """How a backward pass is divided among gradients where it was not measured."""

    TENSORS = "tensors"
    """Each takes as long as any other: many small kernels, as in convolutional networks and GNNs."""
    NUMBERS = "numbers"
    """Each takes time by its size: dense layers, as in transformers."""


class Layers(msgspec.Struct, frozen=True, rename="camel"):
    """Gradients by row of the table, (L,) each."""

    names: tuple[str, ...]
    sizes_bytes: tuple[float, ...]
    backward_order: tuple[int, ...]
    """Rows, first ready first."""
    ready_seconds: tuple[float, ...] | None = None
    """Measured, from the beginning of the backward pass."""


def parse(text: str, number_bytes: int = NUMBER_BYTES) -> Layers:
    """Columns: `name`, then `bytes` or `numel`, then `ready_seconds` or `forward_order`; without both the order is that of the rows.

    Raises ScheduleError, which names the line and the column.
    """
    rows = _rows(text)
    columns = set(rows[0])
    size = next((name for name in ("bytes", "numel") if name in columns), None)
    if "name" not in columns or size is None:
        raise ScheduleError(f"columns are {', '.join(sorted(str(name) for name in columns))}; give name, and bytes or numel")
    names = _names(rows)
    factor = 1 if size == "bytes" else number_bytes
    sizes = tuple(factor * number for number in _numbers(rows, size))
    if "ready_seconds" in columns:
        ready = _numbers(rows, "ready_seconds")
        return Layers(names, sizes, tuple(sorted(range(len(rows)), key=lambda at: ready[at])), ready)
    place = _numbers(rows, "forward_order") if "forward_order" in columns else range(len(rows))
    return Layers(names, sizes, tuple(sorted(range(len(rows)), key=lambda at: -place[at])))


def _rows(text: str) -> list[dict[str, str | None]]:
    """Rows below the header line, by column."""
    reader = csv.DictReader(io.StringIO(text))
    columns = reader.fieldnames or ()
    if len(set(columns)) < len(columns):
        raise ScheduleError("line 1: two columns of one name; name each once")
    rows: list[dict[str, str | None]] = list(reader)
    if not rows or len(rows) > MOST_GRADIENTS:
        raise ScheduleError(f"{len(rows)} rows; give a header line and 1 to {MOST_GRADIENTS} gradients")
    return rows


def _names(rows: list[dict[str, str | None]]) -> tuple[str, ...]:
    """Names of the gradients, each its own."""
    lines: dict[str, int] = {}
    for line, row in enumerate(rows, start=2):
        name = row["name"] or ""
        if name in lines:
            raise ScheduleError(f"line {line}: name: {name!r} occurs twice; give every gradient its own name")
        lines[name] = line
    return tuple(lines)


def ready_times(layers: Layers, backward_seconds: float | None, spread: Spread = Spread.TENSORS) -> tuple[float, ...]:
    """(L,) seconds from the beginning of the backward pass: measured ones scaled to `backward_seconds` where given, else spread over it.

    Raises ScheduleError where neither is known.
    """
    if layers.ready_seconds is not None:
        last = max(layers.ready_seconds)
        factor = 1.0 if backward_seconds is None or last <= 0 else backward_seconds / last
        return tuple(factor * at for at in layers.ready_seconds)
    if backward_seconds is None:
        raise ScheduleError("nothing says when gradients are ready; give a column ready_seconds, or the seconds of the backward pass")
    shares = [size if spread is Spread.NUMBERS else 1.0 for size in layers.sizes_bytes]
    total = math.fsum(shares) or 1.0
    ready, passed = [0.0] * len(shares), 0.0
    for at in layers.backward_order:
        passed += shares[at]
        ready[at] = backward_seconds * passed / total
    return tuple(ready)


def _numbers(rows: list[dict[str, str | None]], column: str) -> tuple[float, ...]:
    return tuple(_number(row, column, line) for line, row in enumerate(rows, start=2))


def _number(row: dict[str, str | None], column: str, line: int) -> float:
    try:
        value = float(row[column] or "")
    except (ValueError, TypeError):
        value = math.nan
    if not 0 <= value < 1e15:
        raise ScheduleError(f"line {line}: {column}: {row[column]!r} is no number of 0 or more; write one, for example 4096")
    return value
