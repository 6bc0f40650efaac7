"""Prometheus' text format, written by hand: DCGM's counters have no _total at the end, which the client library would add. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_VALUE_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
_HELP_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\n": "\\n"})


class ExpositionLine(NamedTuple):
    """One sample."""

    labels: Mapping[str, str]
    """In the order in which they are written; empty values are left out, which means the same to Prometheus."""
    value: float


class Family(NamedTuple):
    """One metric with all its samples."""

    name: str
    kind: str
    """gauge, counter or untyped."""
    help: str
    lines: tuple[ExpositionLine, ...]


def render(families: Iterable[Family]) -> str:
    """The text of all families that have samples."""
    return "".join(_family(family) for family in families if family.lines)


def _family(family: Family) -> str:
    head = f"# HELP {family.name} {family.help.translate(_HELP_ESCAPES)}\n# TYPE {family.name} {family.kind}\n"
    return head + "".join(f"{family.name}{_labels(line.labels)} {number(line.value)}\n" for line in family.lines)


def _labels(labels: Mapping[str, str]) -> str:
    written = ",".join(f'{key}="{value.translate(_VALUE_ESCAPES)}"' for key, value in labels.items() if value)
    return f"{{{written}}}" if written else ""


def number(value: float) -> str:
    """A value as Prometheus writes it: whole numbers without a fraction, NaN, +Inf, -Inf."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(float(value))
