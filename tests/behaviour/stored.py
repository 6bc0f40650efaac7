"""Recorded outputs: where they are stored, their one text form, and the first difference between two."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).with_name("recorded")
LINE: Final = 116
"""A value that fits a line of this length stays on one: a difference in review then shows one placement, not one digit."""
RELATIVE: Final = 1e-7
"""Figures of plans have nine digits; another processor may sum in another order."""


def path_of(kind: str, case: str) -> Path:
    return FOLDER / kind / f"{case}.json"


def text(value: Any) -> str:
    """JSON with sorted keys; the same value gives the same bytes."""
    return _text(json.loads(json.dumps(value, allow_nan=False)), "") + "\n"


def read(kind: str, case: str) -> Any:
    """The recorded output; fails the test where there is none."""
    path = path_of(kind, case)
    assert path.exists(), f"{kind}/{case} is not recorded; run: python -m tests.behaviour.record {kind}"
    return json.loads(path.read_text(encoding="utf-8"))


def write(kind: str, outputs: Mapping[str, Any]) -> int:
    """Write the outputs of all cases of a kind, remove files of cases that are gone, and return how many files differ from before."""
    folder = FOLDER / kind
    folder.mkdir(parents=True, exist_ok=True)
    changed = 0
    for stale in sorted(folder.glob("*.json")):
        if stale.stem not in outputs:
            stale.unlink()
            changed += 1
    for case, output in outputs.items():
        path, fresh = path_of(kind, case), text(output).encode()
        if not path.exists() or path.read_bytes() != fresh:
            path.write_bytes(fresh)
            changed += 1
    return changed


def difference(recorded: Any, now: Any, path: str = "") -> str | None:
    """The first path at which two outputs differ and both values there; None where they are equal."""
    if isinstance(recorded, dict) and isinstance(now, dict):
        return _difference_of_maps(recorded, now, path)
    if isinstance(recorded, list) and isinstance(now, list):
        for index, (old, new) in enumerate(zip(recorded, now, strict=False)):
            if (found := difference(old, new, f"{path}[{index}]")) is not None:
                return found
        return None if len(recorded) == len(now) else f"{path}: recorded {len(recorded)} entries, now {len(now)}"
    return None if _same(recorded, now) else f"{path}: recorded {_short(recorded)}, now {_short(now)}"


def _difference_of_maps(recorded: dict[str, Any], now: dict[str, Any], path: str) -> str | None:
    """The first key, in order of names, that one of the maps lacks or whose values differ."""
    for key in sorted({*recorded, *now}):
        there = f"{path}.{key}" if path else str(key)
        if key not in now:
            return f"{there}: recorded {_short(recorded[key])}, now absent"
        if key not in recorded:
            return f"{there}: recorded as absent, now {_short(now[key])}"
        if (found := difference(recorded[key], now[key], there)) is not None:
            return found
    return None


def assert_as_recorded(kind: str, case: str, now: Any) -> None:
    """Fail with the case and the first differing path."""
    found = difference(read(kind, case), json.loads(text(now)))
    assert found is None, f"{kind}/{case} differs from its record at {found}"


def _same(recorded: Any, now: Any) -> bool:
    if isinstance(recorded, float) or isinstance(now, float):
        numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (recorded, now))
        return numbers and math.isclose(recorded, now, rel_tol=RELATIVE)
    return type(recorded) is type(now) and bool(recorded == now)


def _text(value: Any, indent: str) -> str:
    line = json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)
    if len(indent) + len(line) <= LINE or not isinstance(value, dict | list) or not value:
        return line
    inner = indent + " "
    if isinstance(value, list):
        return "[\n" + ",\n".join(inner + _text(entry, inner) for entry in value) + f"\n{indent}]"
    entries = (f"{inner}{json.dumps(str(key), ensure_ascii=False)}: {_text(value[key], inner)}" for key in sorted(value))
    return "{\n" + ",\n".join(entries) + f"\n{indent}}}"


def _short(value: Any) -> str:
    line = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return line if len(line) <= 200 else f"{line[:200]}…"
