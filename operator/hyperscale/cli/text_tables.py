"""Plain text tables: columns padded to the widest cell, two spaces between, nothing after the last cell.

Names and messages come from files and clusters: what does not print (it could move a terminal's cursor) becomes `?`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec
import yaml

from hyperscale.cli.yaml_scalars import TO_QUOTE
from hyperscale.util.rfc3339 import PREDICTED_DIGITS, duration_text


class _Dumper(yaml.CSafeDumper):
    """What kubectl would read as a number is quoted, an id such as 1234e5 for one."""

    yaml_implicit_resolvers = TO_QUOTE


def data_text(document: Any, form: str = "json", order: Literal["deterministic"] | None = None) -> str:  # noqa: ANN401 - any document
    """A document as YAML, or as JSON without a newline at its end."""
    if form == "yaml":
        return str(yaml.dump(msgspec.to_builtins(document), Dumper=_Dumper, sort_keys=False, allow_unicode=True))
    return msgspec.json.format(msgspec.json.encode(document, order=order), indent=2).decode()


def print_answer(document: Any, lines: Iterable[str], form: str) -> None:  # noqa: ANN401 - any document
    """Print a document as JSON, or its lines."""
    print(data_text(document) if form == "json" else "\n".join(lines))


def table(header: Sequence[str], rows: Iterable[Sequence[str]], right: frozenset[int] = frozenset(), indent: str = "") -> list[str]:
    """Lines of a table; columns whose index is in `right` are right-aligned."""
    cells = [list(header), *([printable(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    return [indent + _line(row, widths, right) for row in cells]


def pairs(rows: Iterable[tuple[str, str]]) -> list[str]:
    """Lines `Name    value` with the values in one column."""
    filled = [(name, printable(value)) for name, value in rows if value]
    width = max((len(name) for name, _ in filled), default=0)
    return [f"{name:<{width}}  {value}" for name, value in filled]


def bullets(title: str, sentences: Iterable[str]) -> list[str]:
    """A titled list after an empty line; nothing when there are no sentences."""
    lines = [f"  - {printable(sentence)}" for sentence in sentences]
    return ["", title, *lines] if lines else []


def counted(count: int, thing: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def printable(text: str) -> str:
    """`text` with `?` for every character that does not print."""
    return text if text.isprintable() else "".join(letter if letter.isprintable() else "?" for letter in text)


def seconds_text(value_seconds: float | None) -> str:
    """Seconds with three significant digits and the unit that reads best."""
    return "unknown" if value_seconds is None else duration_text(value_seconds)


def predicted_text(value_seconds: float) -> str:
    """Predicted seconds, with no more digits than a prediction is worth."""
    return duration_text(value_seconds, PREDICTED_DIGITS)


def gap_text(gap: float | None) -> str:
    """How far a plan can be from the best possible one; empty where that is unknown."""
    if gap is None:
        return ""
    return "0, proven optimal" if gap == 0.0 else f"at most {gap * 100.0:.3g} % above the best possible"


def score_text(planner: str, objective: float, regret: float, candidates: int) -> str:
    """How one planner did."""
    behind = "none better" if regret == 0.0 else f"{regret * 100.0:.3g} % above the plan"
    return f"{planner}: objective {seconds_text(objective)}, {behind}; {counted(candidates, 'placement')} proposed"


def bytes_text(value_bytes: float | None) -> str:
    """Bytes with three significant digits in decimal units."""
    if value_bytes is None:
        return "unknown"
    for factor, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value_bytes >= factor:
            return f"{value_bytes / factor:.3g} {unit}"
    return f"{value_bytes:.3g} B"


def memory_text(value_bytes: float | None) -> str:
    """Memory in GiB, as GPUs are sold, e.g. `80 GiB`."""
    return "unknown" if value_bytes is None else f"{value_bytes / 2**30:.3g} GiB"


def rate_text(value_bytes_per_second: float | None) -> str:
    """A rate, e.g. `1.25 GB/s`."""
    return "unknown" if value_bytes_per_second is None else f"{bytes_text(value_bytes_per_second)}/s"


def _line(row: Sequence[str], widths: Sequence[int], right: frozenset[int]) -> str:
    padded = [f"{cell:>{width}}" if at in right else f"{cell:<{width}}" for at, (cell, width) in enumerate(zip(row, widths, strict=True))]
    return "  ".join(padded).rstrip()
