"""Untrusted JSON-like values to one-line errors: which field, what it holds, what to write instead."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import inspect

from hyperscale.spec.introspect import choices_of, shape_of, words_for

Fault = tuple[str, str]
"""(path below the root, message)."""

_REPORT: Final = re.compile(r"(?P<what>.*?)(?: - at (?P<key>`key` in )?`\$(?P<path>[^`]*)`)?", re.DOTALL)
_MISSING: Final = re.compile(r"Object missing required field `(?P<name>[^`]*)`")
_TOKEN: Final = re.compile(r"\.(?P<field>[A-Za-z0-9_]+)|\[(?P<index>[0-9]+)\]|\[\.\.\.\]")
_SHOWN_CHARACTERS: Final = 48


def shown(value: object) -> str:
    """A short, printable, one-line picture of any value."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, (list, tuple)):
        return f"a list of {len(value)}"
    if isinstance(value, int) and value.bit_length() > 64:
        return "a number beyond 64 bits"  # Python refuses to print the longest ones
    text = ascii(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."


def unknown_field(value: object, wrapped: inspect.Type, path: str = "") -> Fault | None:
    """The first field, in sorted order, that no type knows; None when all are known."""
    bare = shape_of(wrapped).bare
    if isinstance(bare, inspect.VarTupleType):
        return _unknown_in_list(value, bare, path)
    if not isinstance(bare, inspect.StructType) or not isinstance(value, Mapping):
        return None
    fields = {field.encode_name: field for field in bare.fields}
    for name in sorted(str(key) for key in value):
        if name not in fields:
            return f"{path}.{clean(name)}", "unknown field; " + _nearest(name, tuple(fields))
    for name, field in fields.items():
        fault = unknown_field(value.get(name), field.type, f"{path}.{name}")
        if fault is not None:
            return fault
    return None


def _unknown_in_list(value: object, bare: inspect.VarTupleType, path: str) -> Fault | None:
    if not isinstance(value, list):
        return None
    faults = (unknown_field(entry, bare.item_type, f"{path}[{index}]") for index, entry in enumerate(value))
    return next((fault for fault in faults if fault is not None), None)


def clean(name: str) -> str:
    """A field name as it may stand in a path: printable and short."""
    return ascii(name)[1:-1][:_SHOWN_CHARACTERS]


def explain(error: msgspec.ValidationError, root: object, wrapped: inspect.Type) -> Fault:
    """What msgspec found wrong with `root`, in our words."""
    report = _REPORT.fullmatch(str(error))
    what, raw_path = (report["what"], report["path"] or "") if report else (str(error), "")
    path, value, at = _resolve(raw_path, root, wrapped)
    missing = _MISSING.fullmatch(what)
    if missing is not None:
        name = missing["name"]
        bare = shape_of(at).bare
        wanted = next((field.type for field in getattr(bare, "fields", ()) if field.encode_name == name), at)
        return f"{path}.{name}", f"required; write {words_for(wanted)}"
    bare = shape_of(at).bare
    if isinstance(bare, inspect.DictType) and isinstance(value, Mapping):
        entry = _bad_entry(value, bare)
        if entry is not None:
            return f"{path}.{clean(entry[0])}", entry[1]
    return path, f"{_problem(value, bare)}; write {words_for(bare)}"


def _bad_entry(value: Mapping[Any, Any], bare: inspect.DictType) -> Fault | None:
    """First entry of a string map that breaks its own key's or value's type."""
    key_type, value_type = shape_of(bare.key_type).bare, shape_of(bare.value_type).bare
    for key in sorted(value, key=str):
        if not _fits(key, key_type):
            return str(key), f"this key is not allowed; write {words_for(key_type)}"
        if not _fits(value[key], value_type):
            return str(key), f"{_problem(value[key], value_type)}; write {words_for(value_type)}"
    return None


def _fits(value: object, bare: inspect.Type) -> bool:
    """Whether a value satisfies a string type; every other type counts as satisfied."""
    if not isinstance(bare, inspect.StrType):
        return True
    if not isinstance(value, str) or not (bare.min_length or 0) <= len(value) <= (bare.max_length or len(value)):
        return False
    return bare.pattern is None or re.search(bare.pattern, value) is not None


def _resolve(raw_path: str, root: object, wrapped: inspect.Type) -> tuple[str, Any, inspect.Type]:
    """Follow msgspec's path through the value and its type; stops at a map whose key msgspec does not tell."""
    path, value, at = "", root, wrapped
    for token in _TOKEN.finditer(raw_path):
        bare = shape_of(at).bare
        if token["field"] is not None:
            path += f".{token['field']}"
            value = value.get(token["field"]) if isinstance(value, Mapping) else None
            at = next((field.type for field in getattr(bare, "fields", ()) if field.encode_name == token["field"]), at)
        elif token["index"] is not None:
            path += f"[{token['index']}]"
            value = value[int(token["index"])] if isinstance(value, Sequence) else None
            at = getattr(bare, "item_type", at)
    return path, value, at


def _problem(value: object, bare: inspect.Type) -> str:
    """What is wrong with a value of the wrong type or outside its bounds."""
    if isinstance(bare, (inspect.IntType, inspect.FloatType)) and isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"{shown(value)} is {_wrong_size(value, bare)}"
    if isinstance(value, str) and isinstance(bare, (inspect.EnumType, inspect.LiteralType)):
        near = difflib.get_close_matches(value[:_SHOWN_CHARACTERS], choices_of(bare), n=1, cutoff=0.6)
        return f"{shown(value)} is not known" + (f", did you mean {near[0]}?" if near else "")
    if isinstance(value, str) and isinstance(bare, inspect.StrType) and bare.max_length is not None and len(value) > bare.max_length:
        return f"{shown(value)} has {len(value)} characters"
    return f"{shown(value)} is not allowed"


def _wrong_size(value: float, bare: inspect.IntType | inspect.FloatType) -> str:
    """On which side of its bounds a number lies."""
    if (bare.ge is not None and value < bare.ge) or (bare.gt is not None and value <= bare.gt):
        return "too small"
    if (bare.le is not None and value > bare.le) or (bare.lt is not None and value >= bare.lt):
        return "too large"
    return "not allowed"


def _nearest(name: str, fields: tuple[str, ...]) -> str:
    """The field that is spelled alike, or the only one that begins or ends with the name; else all of them."""
    longer = [field for field in fields if field.startswith(name) or field.endswith(name[:1].upper() + name[1:])]
    if len(longer) == 1 and name:
        return f"did you mean {longer[0]}?"
    near = difflib.get_close_matches(name[:_SHOWN_CHARACTERS].lower(), [field.lower() for field in fields], n=1, cutoff=0.6)
    if near:
        return "did you mean " + next(field for field in fields if field.lower() == near[0]) + "?"
    return "known are " + ", ".join(fields)
