"""Which fields a CRD has and which this release expects, so that an old CRD is noticed by what it lacks. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from msgspec import inspect

from hyperscale.model import constants
from hyperscale.model.api.job import JobSpec
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.api.topology import TopologyStatus
from hyperscale.model.status import JobStatus
from hyperscale.spec.introspect import shape_of, struct_of

OUR_CRDS: Final = tuple(
    f"{plural}.{constants.GROUP}" for plural in (constants.JOB_PLURAL, constants.POLICY_PLURAL, constants.TOPOLOGY_PLURAL)
)
_ROOTS: Final = dict(
    zip(OUR_CRDS, ((("spec", JobSpec), ("status", JobStatus)), (("spec", PolicySpec),), (("status", TopologyStatus),)), strict=True)
)
MAX_DEPTH: Final = 24


@cache
def expected_fields(crd: str) -> frozenset[str]:
    """Paths of all fields that this release writes or reads in a kind of ours."""
    return frozenset(path for root, cls in _ROOTS[crd] for path in (root, *_struct(struct_of(cls), root)))


def schema_fields(schema: Mapping[str, Any]) -> frozenset[str]:
    """Paths of all properties below spec and status of a structural schema."""
    properties = schema.get("properties") or {}
    return frozenset(path for root in ("spec", "status") if root in properties for path in (root, *_properties(properties[root], root, 0)))


def _struct(struct: inspect.StructType, path: str) -> Iterator[str]:
    for field in struct.fields:
        below = f"{path}.{field.encode_name}"
        yield below
        yield from _type(field.type, below)


def _type(wrapped: inspect.Type, path: str) -> Iterator[str]:
    bare = shape_of(wrapped).bare
    if isinstance(bare, inspect.StructType):
        yield from _struct(bare, path)
    elif isinstance(bare, inspect.VarTupleType):
        yield from _type(bare.item_type, f"{path}[]")
    elif isinstance(bare, inspect.DictType):
        yield from _type(bare.value_type, f"{path}{{}}")


def _properties(schema: object, path: str, depth: int) -> Iterator[str]:
    """The same paths out of OpenAPI; a schema deeper than any of ours is not followed."""
    if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
        return
    for name, below in sorted((schema.get("properties") or {}).items()):
        yield f"{path}.{name}"
        yield from _properties(below, f"{path}.{name}", depth + 1)
    yield from _properties(schema.get("items"), f"{path}[]", depth + 1)
    yield from _properties(schema.get("additionalProperties"), f"{path}{{}}", depth + 1)
