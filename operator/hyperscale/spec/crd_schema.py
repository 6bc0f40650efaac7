"""Types to structural OpenAPI v3 schemas: bounds, defaults and descriptions as the types and their docstrings give them."""

from __future__ import annotations

import ast
import json
import textwrap
from functools import cache
from inspect import cleandoc, getsource
from itertools import pairwise
from typing import Any, Final

import msgspec
from msgspec import inspect

from hyperscale.model.api import written_numbers as forms
from hyperscale.spec.introspect import Shape, choices_of, shape_of, words_of
from hyperscale.spec.rules import JOB_RULES, MAX_NAME_LENGTH, NAME_HELP, NAME_PATTERN, Rule
from hyperscale.spec.written import write_field

_FIXED_AFTER_START: Final = ("model", "dataset", "workers", "partitioning", "allreduce", "placement", "planner", "launcher")
_OPTIONAL_FIXED_AFTER_START: Final = ("checkpoint", "policyRef")
"""They may be absent, before and after."""

_STARTED: Final = "has(oldSelf.status) && has(oldSelf.status.mpiJobRef)"


def spec_rules() -> list[dict[str, Any]]:
    """Validations of `spec`."""
    return [_validation(rule) for rule in JOB_RULES]


def root_rules() -> list[dict[str, Any]]:
    """Validations of the whole object: only here are the name, the status and the old spec in sight."""
    return [
        {
            "rule": f"self.metadata.name.size() <= {MAX_NAME_LENGTH} && self.metadata.name.matches({json.dumps(NAME_PATTERN)})",
            "message": NAME_HELP,
            "fieldPath": ".metadata.name",
        },
        *(_fixed(field, f"self.spec.{field} == oldSelf.spec.{field}") for field in _FIXED_AFTER_START),
        *(_fixed(field, _same_optional(field)) for field in _OPTIONAL_FIXED_AFTER_START),
    ]


def _validation(rule: Rule) -> dict[str, Any]:
    validation: dict[str, Any] = {"rule": rule.cel, "fieldPath": f".{rule.path}", "message": rule.message}
    if rule.detail_cel is not None:
        text, values = rule.detail_cel
        validation["messageExpression"] = f"{json.dumps(f'{text}; {rule.message}')}.format([{values}])"
    if rule.required:
        validation["reason"] = "FieldValueRequired"
    return validation


def _same_optional(field: str) -> str:
    """CEL: absent before and after, or equal; comparing optionals (`.?`) is over CEL's cost budget."""
    new, old = f"self.spec.{field}", f"oldSelf.spec.{field}"
    return f"has({new}) == has({old}) && (!has({new}) || {new} == {old})"


def _fixed(field: str, equal: str) -> dict[str, Any]:
    return {
        "rule": f"!({_STARTED}) || ({equal})",
        "message": f"{field} cannot change once the MPIJob exists; delete the job and create it again, or set it back",
        "fieldPath": f".spec.{field}",
        "reason": "FieldValueForbidden",
    }


def key_rules(max_length: int, pattern: str, words: str) -> list[dict[str, Any]]:
    """Validations of a map's keys, which OpenAPI cannot bound; `words` say what a key is."""
    return [
        {
            "rule": f"self.all(key, key.size() > 0 && key.size() <= {max_length} && key.matches({json.dumps(pattern)}))",
            "message": f"every key must be {words}",
        }
    ]


def decimal_rule(limits: tuple[tuple[str, float], ...], words: str) -> dict[str, Any]:
    """Validation of a decimal string; each limit is an operator with its number."""
    return {"rule": " && ".join(f"double(self) {sign} {float(limit)}" for sign, limit in limits), "message": f"write {words}"}


def quantity_rule(lowest: int, highest: int, words: str) -> dict[str, Any]:
    """Validation of a quantity within bounds, an integer or a string."""
    bounds = f"!quantity(string(self)).isLessThan(quantity('{lowest}')) && !quantity(string(self)).isGreaterThan(quantity('{highest}'))"
    return {"rule": f"isQuantity(string(self)) && {bounds}", "message": f"write {words}"}


def amount_rule(words: str) -> dict[str, Any]:
    """Validation of what a container asks for: a quantity of 0 asks for nothing, and leaving it out says so without doubt."""
    return {"rule": "isQuantity(string(self)) && quantity(string(self)).isGreaterThan(quantity('0'))", "message": f"write {words}"}


Schema = dict[str, Any]

_LIST_KEYS: Final = {"conditions": "type", "gpus": "product", "Overrides.nodes": "name", "refused": "node"}
"""Lists of objects that are maps by one of their fields, of every type or of one."""
_SET_LISTS: Final = frozenset({"planners", "topologyLevels"})


def schema_of(wrapped: inspect.Type, path: str, defaults: bool) -> Schema:
    """Structural schema of any type; raises TypeError naming `path` where something is unbounded or unknown."""
    shape = shape_of(wrapped)
    bare = shape.bare
    schema: Schema
    if shape.written:
        schema = _written(shape, path)
    elif isinstance(bare, inspect.StructType):
        schema = struct_schema(bare, defaults)
    elif isinstance(bare, (inspect.EnumType, inspect.LiteralType)):
        schema = {"type": "string", "enum": list(choices_of(bare)), "maxLength": max(len(word) for word in choices_of(bare))}
    elif isinstance(bare, (inspect.DictType, inspect.VarTupleType)):
        schema = _container(bare, path, defaults)
    else:
        schema = _scalar(bare, path)
    return schema | {"format": shape.format} if shape.format else schema


def struct_schema(struct: inspect.StructType, defaults: bool) -> Schema:
    """Structural schema of a struct; raises TypeError where something below it is unbounded or unknown."""
    properties = {field.encode_name: _property(struct.cls, field, defaults) for field in struct.fields}
    schema: Schema = {"type": "object", "description": _one_line(struct.cls.__doc__ or ""), "properties": properties}
    required = [field.encode_name for field in struct.fields if field.required]
    return schema | {"required": required} if required else schema


def _property(cls: type, field: inspect.Field, defaults: bool) -> Schema:
    """Schema of one field with its description, default and kind of list."""
    schema = schema_of(field.type, f"{cls.__name__}.{field.name}", defaults)
    documented = _field_docstrings(cls)
    if field.name in documented and (defaults or "description" not in schema):
        schema["description"] = documented[field.name]
    if defaults and (default := _default(field)) is not None:
        schema["default"] = default
    list_key = _LIST_KEYS.get(field.encode_name) or _LIST_KEYS.get(f"{cls.__name__}.{field.encode_name}")
    if list_key is not None and schema.get("items", {}).get("type") == "object":
        schema |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [list_key]}
    if field.encode_name in _SET_LISTS:
        schema["x-kubernetes-list-type"] = "set"
    return schema


def _default(field: inspect.Field) -> object:
    """The default as JSON; None where there is none. A struct of defaults is `{}`: its own fields carry them."""
    if field.required:
        return None
    value = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    if isinstance(value, msgspec.Struct) and value == type(value)():
        return {}
    return write_field(value, field.type)


def _scalar(bare: inspect.Type, path: str) -> Schema:
    if isinstance(bare, inspect.BoolType):
        return {"type": "boolean"}
    if isinstance(bare, (inspect.IntType, inspect.FloatType)):
        return _number(bare)
    if not isinstance(bare, inspect.StrType):
        raise TypeError(f"{path}: no schema for {type(bare).__name__}")
    if bare.max_length is None:
        raise TypeError(f"{path}: a text needs Meta(max_length=...)")
    given = {"minLength": bare.min_length or None, "maxLength": bare.max_length, "pattern": bare.pattern}
    return {"type": "string", **{key: value for key, value in given.items() if value is not None}}


def _written(shape: Shape, path: str) -> Schema:
    """A decimal string, or a quantity: OpenAPI cannot bound a text's number, CEL can."""
    bare = shape.bare
    if isinstance(bare, inspect.StrType):
        return _quantity(amount_rule(words_of(shape)))
    if not isinstance(bare, inspect.IntType | inspect.FloatType):
        raise TypeError(f"{path}: only a number can be written as text")
    given = ((">=", bare.ge), (">", bare.gt), ("<=", bare.le), ("<", bare.lt))
    limits = tuple((sign, limit) for sign, limit in given if limit is not None)
    if len(limits) != 2:
        raise TypeError(f"{path}: a number written as text needs a lower and an upper bound")
    if (pattern := forms.DECIMAL_PATTERNS.get(shape.written)) is not None:
        rule = decimal_rule(limits, words_of(shape))
        return {"type": "string", "maxLength": forms.MAX_LENGTH, "pattern": pattern, "x-kubernetes-validations": [rule]}
    if bare.ge is None or bare.le is None:
        raise TypeError(f"{path}: a quantity needs Meta(ge=..., le=...)")
    return _quantity(quantity_rule(int(bare.ge), int(bare.le), words_of(shape)))


def _quantity(rule: Schema) -> Schema:
    return {
        "x-kubernetes-int-or-string": True,
        "maxLength": forms.MAX_LENGTH,
        "pattern": forms.QUANTITY_PATTERN,
        "x-kubernetes-validations": [rule],
    }


def _number(bare: inspect.IntType | inspect.FloatType) -> Schema:
    schema: Schema = {"type": "integer", "format": "int64"} if isinstance(bare, inspect.IntType) else {"type": "number"}
    if bare.ge is not None:
        schema["minimum"] = bare.ge
    if bare.gt is not None:
        schema |= {"minimum": bare.gt, "exclusiveMinimum": True}
    if bare.le is not None:
        schema["maximum"] = bare.le
    if bare.lt is not None:
        schema |= {"maximum": bare.lt, "exclusiveMaximum": True}
    return schema


def _container(bare: inspect.DictType | inspect.VarTupleType, path: str, defaults: bool) -> Schema:
    if bare.max_length is None:
        raise TypeError(f"{path}: needs Meta(max_length=...)")
    if isinstance(bare, inspect.VarTupleType):
        least = {"minItems": bare.min_length} if bare.min_length else {}
        return {"type": "array", **least, "maxItems": bare.max_length, "items": schema_of(bare.item_type, f"{path}[]", defaults)}
    if isinstance(bare.value_type, inspect.AnyType):
        return {"type": "object", "maxProperties": bare.max_length, "x-kubernetes-preserve-unknown-fields": True}
    schema: Schema = {
        "type": "object",
        "maxProperties": bare.max_length,
        "additionalProperties": schema_of(bare.value_type, path, defaults),
    }
    key = shape_of(bare.key_type).bare
    if isinstance(key, inspect.StrType) and key.pattern is not None and key.max_length is not None:
        schema["x-kubernetes-validations"] = key_rules(key.max_length, key.pattern, words_of(shape_of(bare.key_type)))
    return schema


@cache
def _field_docstrings(cls: type) -> dict[str, str]:
    """Texts that stand under the fields of a class, by field."""
    body = ast.parse(textwrap.dedent(getsource(cls))).body[0]
    statements = body.body if isinstance(body, ast.ClassDef) else []
    docstrings: dict[str, str] = {}
    for field, text in pairwise(statements):
        is_text = isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and is_text:
            docstrings[field.target.id] = _one_line(ast.literal_eval(text.value))  # type: ignore[attr-defined] # is_text
    return docstrings


def _one_line(docstring: str) -> str:
    return " ".join(cleandoc(docstring).split("\n\n", 1)[0].split())
