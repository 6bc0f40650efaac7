"""Which fields a CRD has and which this release expects, so that an old CRD is noticed by what it lacks. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from hyperscale.model import constants
from hyperscale.spec.crd import manifests

OUR_CRDS: Final = tuple(
    f"{plural}.{constants.GROUP}" for plural in (constants.JOB_PLURAL, constants.POLICY_PLURAL, constants.TOPOLOGY_PLURAL)
)
MAX_DEPTH: Final = 24


@cache
def _expected() -> dict[str, frozenset[str]]:
    manifest = manifests()
    return {crd: schema_fields(manifest[f"{crd}.yaml"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]) for crd in OUR_CRDS}


def expected_fields(crd: str) -> frozenset[str]:
    """Paths of all fields that this release writes or reads in a kind of ours."""
    return _expected()[crd]


def schema_fields(schema: Mapping[str, Any]) -> frozenset[str]:
    """Paths of all properties below spec and status of a structural schema."""
    properties = schema.get("properties") or {}
    return frozenset(path for root in ("spec", "status") if root in properties for path in (root, *_properties(properties[root], root, 0)))


def _properties(schema: object, path: str, depth: int) -> Iterator[str]:
    """The same paths out of OpenAPI; a schema deeper than any of ours is not followed."""
    if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
        return
    for name, below in sorted((schema.get("properties") or {}).items()):
        yield f"{path}.{name}"
        yield from _properties(below, f"{path}.{name}", depth + 1)
    yield from _properties(schema.get("items"), f"{path}[]", depth + 1)
    yield from _properties(schema.get("additionalProperties"), f"{path}{{}}", depth + 1)
