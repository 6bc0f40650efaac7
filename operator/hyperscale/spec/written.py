"""Decimal strings and quantities: text to the number of a field's type, and back. In: JSON and a type. Out: JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

import msgspec
from msgspec import inspect

from hyperscale.model.api import written_numbers as forms
from hyperscale.spec import errors
from hyperscale.spec.introspect import Shape, shape_of, struct_of, words_of
from hyperscale.util import quantity

_DECIMALS: Final = {form: re.compile(pattern, re.ASCII) for form, pattern in forms.DECIMAL_PATTERNS.items()}

_Change = Callable[[object, Shape, str], object]


class WrittenError(Exception):
    """A value at `path` below the root that is no number of its form, or lies outside its bounds; the message says what to write."""

    def __init__(self, path: str, message: str) -> None:
        self.path = path
        super().__init__(message)


def read(value: object, wrapped: inspect.Type) -> object:
    """`value` with numbers in place of decimal strings and quantities; what has the wrong shape stays as it is. Raises WrittenError."""
    return _changed(value, wrapped, "", _number)


def write(value: msgspec.Struct) -> dict[str, Any]:
    """The JSON that `read` turns into this value, with every default written out and without what is absent."""
    changed = _changed(msgspec.to_builtins(value), struct_of(type(value)), "", _text)
    return changed if isinstance(changed, dict) else {}


def write_field(value: object, wrapped: inspect.Type) -> object:
    """The same for the value of one field."""
    return _changed(msgspec.to_builtins(value), wrapped, "", _text)


def _changed(value: object, wrapped: inspect.Type, path: str, change: _Change) -> object:
    """A copy in which `change` has replaced every value of a marked field."""
    shape = shape_of(wrapped)
    if shape.written:
        return value if value is None and shape.optional else change(value, shape, path)
    if isinstance(shape.bare, inspect.StructType) and isinstance(value, Mapping):
        return _changed_object(value, shape.bare, path, change)
    if isinstance(shape.bare, inspect.DictType) and isinstance(value, Mapping):
        values = shape.bare.value_type
        return {key: _changed(entry, values, f"{path}[{errors.clean(str(key))}]", change) for key, entry in value.items()}
    if isinstance(shape.bare, inspect.VarTupleType) and isinstance(value, list | tuple):
        return [_changed(entry, shape.bare.item_type, f"{path}[{index}]", change) for index, entry in enumerate(value)]
    return value


def _changed_object(value: Mapping[str, object], bare: inspect.StructType, path: str, change: _Change) -> dict[str, object]:
    """The same for an object: unknown fields stay as they are, and null counts as absent."""
    types = {field.encode_name: field.type for field in bare.fields}
    given = {key: entry for key, entry in value.items() if entry is not None}
    return {key: _changed(entry, types[key], f"{path}.{key}", change) if key in types else entry for key, entry in given.items()}


def _number(value: object, shape: Shape, path: str) -> float | str:
    """A decimal string or quantity within the field's bounds as its number, or as its text where the field keeps texts."""
    bare, number = shape.bare, _exact(value, shape.written)
    if number is None:
        raise WrittenError(path, f"{errors.shown(value)} is not allowed; write {words_of(shape)}")
    if fault := _outside(number, bare):
        raise WrittenError(path, f"{errors.shown(value)} is {fault}; write {words_of(shape)}")
    if isinstance(bare, inspect.StrType):
        return str(value)
    return quantity.rounded_up(number) if isinstance(bare, inspect.IntType) else float(number)


def _outside(number: Decimal, bare: inspect.Type) -> str:
    """On which side of its bounds a number lies, "" within; a text's amount is above 0."""
    if not isinstance(bare, inspect.IntType | inspect.FloatType):
        return "too small" if number <= 0 else ""
    if (bare.ge is not None and number < Decimal(bare.ge)) or (bare.gt is not None and number <= Decimal(bare.gt)):
        return "too small"
    if (bare.le is not None and number > Decimal(bare.le)) or (bare.lt is not None and number >= Decimal(bare.lt)):
        return "too large"
    return ""


def _exact(value: object, form: str) -> Decimal | None:
    """The number behind a text; None where it has another form."""
    if form in _DECIMALS:
        is_decimal = isinstance(value, str) and len(value) <= forms.MAX_LENGTH and _DECIMALS[form].fullmatch(value)
        return Decimal(float(value)) if is_decimal else None  # type: ignore[arg-type] # is_decimal
    if isinstance(value, int) and not isinstance(value, bool):
        return Decimal(value)
    if not isinstance(value, str) or len(value) > forms.MAX_LENGTH:
        return None
    try:
        return quantity.parse_exact(value)
    except ValueError:
        return None


def _text(value: object, shape: Shape, _path: str) -> str:
    """The shortest text of a number; a text as it is."""
    if isinstance(value, str):
        return value
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r} is no number")
    return repr(value).removesuffix(".0") if shape.written in _DECIMALS else quantity.shortest(value)
