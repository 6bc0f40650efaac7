"""Parts of API objects, which may be absent or null. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Json = Mapping[str, Any]


def nested(resource: Json, *path: str) -> Json:
    """Return the object at a path of fields; empty where one is absent, null or empty. Raises AttributeError where one is no object."""
    for field in path:
        resource = resource.get(field) or {}
    return resource


def entries(resource: Json, field: str) -> tuple[Json, ...]:
    """Return the objects of a list; empty where it is absent or null."""
    return tuple(resource.get(field) or ())


def controller_of(metadata: Json) -> Json:
    """Return the owner reference of the controller; empty without one."""
    return next((owner for owner in entries(metadata, "ownerReferences") if owner.get("controller")), {})


def text_at(resource: Json, field: str) -> str:
    """Return a text; "" where it is absent or null."""
    text: str = resource.get(field) or ""
    return text
