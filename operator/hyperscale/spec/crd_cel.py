"""CEL of the GNNTrainingJob CRD: the rules of `rules.py`, the name, and what may not change once an MPIJob exists."""

from __future__ import annotations

import json
from typing import Any, Final

from hyperscale.spec.rules import JOB_RULES, MAX_NAME_LENGTH, NAME_HELP, NAME_PATTERN, Rule

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
