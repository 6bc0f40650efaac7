"""Rows of finished runs that can be read: SQLite takes any value in any column, and one bad row keeps the others from no reader."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, get_args

from msgspec.structs import fields

from hyperscale.control.history.runs_table import FinishedRun

_KINDS: Final[dict[str, tuple[type, ...]]] = {field.name: get_args(field.type) or (field.type,) for field in fields(FinishedRun)}
_SMALLEST: Final = {"batch_size": 1, "vertices": 0, "edges": 0, "workers": 0, "gpus": 0}
_NAMES: Final[dict[type, str]] = {str: "text", int: "whole number", float: "finite number"}


def row_fault(row: Mapping[Any, object]) -> str:
    """Return what is wrong with the first bad column of a row, without its value; "" where all can be read. Other columns are ignored."""
    for name, value in row.items():
        kinds = _KINDS.get(name)
        if kinds is not None and not _fits(value, kinds):
            kind = next(_NAMES[each] for each in kinds if each in _NAMES)
            return f"its {name} is no {kind}"
        if isinstance(value, int) and value < _SMALLEST.get(name, value):
            return f"its {name} is below {_SMALLEST[name]}"
    return ""


def _fits(value: object, kinds: tuple[type, ...]) -> bool:
    if isinstance(value, float):
        return float in kinds and math.isfinite(value)
    if isinstance(value, int):
        return int in kinds or float in kinds
    return isinstance(value, kinds)
