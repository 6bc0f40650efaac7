"""Which program wrote the annotations of a decision, as the API server notes it beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hyperscale.model import constants

DECIDING: Final = (constants.APPROVED_PLAN_ANNOTATION, constants.REJECTED_PLAN_ANNOTATION, constants.PREFERRED_PLAN_ANNOTATION)
DECIDED_BY: Final = "decidedBy"
"""Key in the metadata that the cache keeps of a job: field manager by annotation."""
MAX_MANAGER: Final = 128
"""Characters."""


def deciders(resource: Mapping[str, Any]) -> dict[str, str]:
    """Return the field manager that wrote each annotation of a decision last, bounded and printable; no entry where none says so."""
    listed = _mapping(resource.get("metadata")).get("managedFields")
    managed = [_mapping(entry) for entry in listed] if isinstance(listed, list) else []
    found_by = {annotation: _newest(managed, annotation) for annotation in DECIDING}
    return {annotation: manager for annotation, manager in found_by.items() if manager}


def _newest(managed: list[Mapping[str, Any]], annotation: str) -> str:
    written = [
        (str(entry.get("time") or ""), str(entry.get("manager") or ""))
        for entry in managed
        if f"f:{annotation}" in _mapping(_mapping(_mapping(entry.get("fieldsV1")).get("f:metadata")).get("f:annotations"))
    ]
    words = " ".join(max(written, default=("", ""))[1].split())
    return "".join(letter if letter.isprintable() else "?" for letter in words)[:MAX_MANAGER]


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
