"""API objects as they arrive: cut out of lists and watch events one by one, so that one that cannot be decoded spoils no other. Pure.

The API server stores up to 10,000 levels of nesting in fields without a schema (sigs.k8s.io/json) and 1.5 MiB in one object (etcd);
a decoder of nested values stops after some 1,000 to 10,000 levels, the limit here is lower.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from hyperscale.util.nesting import MAX_LEVELS, shallow

MAX_OBJECT_BYTES: Final = 4 << 20
"""JSON of one object: etcd holds 1.5 MiB, escapes make a text up to six times as long, and useful objects are far smaller."""
MAX_VALUES: Final = 100_000
"""Lists, objects and separators in one object. Decoding that number takes 20 ms; a job of 1,000 workers has 15,000."""
UNREADABLE: Final = "hyperscale.dev/unreadable"
"""Key of an object that stands for one that cannot be decoded: {path, message}. Of the rest only what identifies it is there."""

Json = dict[str, Any]

MAX_IDENTITY_BYTES: Final = 65_536
"""JSON of one field of what identifies an object that cannot be decoded; a longer one is left out."""

_TOKEN: Final = re.compile(rb'"(?>[^"\\]+|\\.)*+"|[\[\]{},:]', re.DOTALL)
_IDENTITY: Final = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "labels",
    "ownerReferences",
)


class ListPage(NamedTuple):
    """One page of a list; its items are JSON."""

    version: int
    """Of the whole list: later pages are of the same moment."""
    token: str
    """Asks for the next page; "" on the last."""
    items: list[bytes]


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    resourceVersion: str = ""  # noqa: N815 - the API's own name
    continues: str = msgspec.field(name="continue", default="")


class _Head(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _List(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Bound(msgspec.Struct):
    nodeName: str = ""  # noqa: N815 - the API's own name


class _Running(msgspec.Struct):
    phase: str = ""


_Identity: Final = msgspec.defstruct("_Identity", [(name, msgspec.Raw, msgspec.Raw()) for name in _IDENTITY])
"""Metadata of which nothing is decoded yet: labels and owners may be almost all of an object."""


class _Stub(msgspec.Struct):
    metadata: _Identity  # type: ignore[valid-type] # made of the names above
    spec: _Bound = msgspec.field(default_factory=_Bound)
    status: _Running = msgspec.field(default_factory=_Running)


class Head(NamedTuple):
    """What identifies an object, and its version."""

    namespace: str
    name: str
    version: int


_LISTS: Final = msgspec.json.Decoder(_List)
_HEADS: Final = msgspec.json.Decoder(_Head)
_STUBS: Final = msgspec.json.Decoder(_Stub)
_EVENTS: Final = msgspec.json.Decoder(_Event)


def list_page(body: bytes) -> ListPage:
    """A page of a list, its items not decoded; raises ValueError where it is none, RecursionError where `nested_list_page` can read it."""
    page = _LISTS.decode(body)
    return ListPage(version_of(page.metadata.resourceVersion), page.metadata.continues, [bytes(item) for item in page.items or ()])


def nested_list_page(body: bytes) -> ListPage:
    """The same at any depth of nesting; takes up to half a second for a megabyte of brackets. Raises ValueError where it is none."""
    spans = dict(_entries(body))
    metadata = _decoded(spans.get("metadata", b""))
    if not isinstance(metadata, dict) or "items" not in spans:
        raise ValueError("no list with items and metadata")
    items = [item for _, item in _entries(spans["items"])]
    return ListPage(version_of(metadata.get("resourceVersion")), str(metadata.get("continue") or ""), items)


def watch_event(line: bytes) -> tuple[str, bytes]:
    """Type and object of one line of a watch, the object not decoded; raises ValueError where it is none, RecursionError as `list_page`."""
    event = _EVENTS.decode(line)
    return event.type, bytes(event.object)


def nested_watch_event(line: bytes) -> tuple[str, bytes]:
    """The same at any depth of nesting; raises ValueError where it is none."""
    spans = dict(_entries(line))
    kind = _decoded(spans.get("type", b""))
    if not isinstance(kind, str) or "object" not in spans:
        raise ValueError("no event of a watch")
    return kind, spans["object"]


def head(raw: bytes) -> Head | None:
    """What identifies an object, without decoding the rest; None where that cannot be determined so cheaply."""
    try:
        metadata = _HEADS.decode(raw).metadata
    except (RecursionError, ValueError):  # msgspec's errors are ValueErrors
        return None
    return Head(metadata.namespace, metadata.name, version_of(metadata.resourceVersion)) if metadata.name else None


def bookmark(raw: bytes) -> int:
    """The version that a BOOKMARK event tells; 0 where it tells none."""
    try:
        return version_of(_HEADS.decode(raw).metadata.resourceVersion)
    except (RecursionError, ValueError):
        return 0


def read(raw: bytes) -> Json:
    """One object, or a stand-in under UNREADABLE; raises ValueError where not even its name can be found."""
    if len(raw) > MAX_OBJECT_BYTES:
        return stand_in(raw, f"more than {MAX_OBJECT_BYTES:,} bytes of JSON")
    if _has_too_many_values(raw):
        return stand_in(raw, f"more than {MAX_VALUES:,} values")
    try:
        decoded = msgspec.json.decode(shallow(raw))
    except RecursionError:
        return stand_in(raw, f"nested more than {MAX_LEVELS} levels deep")
    except ValueError as error:
        return stand_in(raw, f"no JSON that can be decoded: {error}")
    metadata = decoded.get("metadata") if isinstance(decoded, dict) else None
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise ValueError("an object without a name")
    readable: Json = decoded
    return readable


def stand_in(raw: bytes, message: str, path: str = "") -> Json:
    """What identifies an object that cannot be decoded, with the reason; raises ValueError where not even its name can be found.

    Of a pod its node and phase too.
    """
    fault = {UNREADABLE: {"path": path, "message": message[:256]}}
    try:
        stub = _STUBS.decode(raw)
    except (RecursionError, ValueError):
        return {**_by_brackets(raw), **fault}
    given = {name: bytes(getattr(stub.metadata, name)) for name in _IDENTITY}
    metadata = {name: _decoded(text) for name, text in given.items() if 0 < len(text) <= MAX_IDENTITY_BYTES}
    if not metadata.get("name"):
        raise ValueError("an object without a name")
    bound = {"spec": {"nodeName": stub.spec.nodeName}, "status": {"phase": stub.status.phase}} if stub.spec.nodeName else {}
    return {"metadata": metadata, **bound, **fault}


def _by_brackets(raw: bytes) -> Json:
    """The same of an object that nests too deeply for a decoder; raises ValueError."""
    kind, fields = None, dict[str, Json]()
    for key, text in _entries(raw):
        if key == "kind":
            kind = _decoded(text)
        elif key == "metadata":
            fields[key] = {
                name: _decoded(value) for name, value in _entries(text) if name in _IDENTITY and len(value) <= MAX_IDENTITY_BYTES
            }
            if kind not in (None, "Pod"):
                break  # the API server sorts the fields of custom resources: what is large comes after
        elif key in ("spec", "status"):
            fields[key] = {name: _decoded(value) for name, value in _entries(text) if name in ("nodeName", "phase")}
    if not isinstance(fields.get("metadata", {}).get("name"), str):
        raise ValueError("an object without a name")
    return fields


def fault_of(resource: Mapping[str, Any]) -> tuple[str, str] | None:
    """Path and message of a stand-in; None for an object that could be decoded."""
    fault = resource.get(UNREADABLE)
    return (str(fault.get("path", "")), str(fault.get("message", ""))) if isinstance(fault, Mapping) else None


def version_of(text: object) -> int:
    """A resource version as a number; 0 where it is none. Those of one resource are ordered (kubernetes/enhancements#5504)."""
    return int(text) if isinstance(text, str) and text.isascii() and text.isdecimal() and len(text) < 20 else 0


def _has_too_many_values(raw: bytes) -> bool:
    """Whether more than MAX_VALUES lists, objects and separators stand outside the texts of a JSON object.

    In a few passes over the bytes that make a bounded number of pieces: no call here holds the interpreter for longer than a decoder does.
    """
    if _values(raw) <= MAX_VALUES:
        return False
    plain = raw.replace(b"\\\\", b"").replace(b'\\"', b"")  # no quotation mark but those around texts
    if plain.count(b'"') > 4 * MAX_VALUES:
        return True  # every text is a value or a key, so that more than 2 * MAX_VALUES texts are in more than MAX_VALUES of them
    return _values(b"".join(plain.split(b'"')[::2])) > MAX_VALUES


def _values(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _decoded(text: bytes) -> object:
    try:
        decoded: object = msgspec.json.decode(shallow(text))
    except (RecursionError, ValueError):
        return None
    return decoded


def _entries(text: bytes) -> Iterator[tuple[str, bytes]]:
    """Keys and values of a JSON object, or "" and the items of an array, by counting brackets: works at any depth."""
    depth, key, start = 0, "", 0
    for token in _TOKEN.finditer(text):
        mark = text[token.start()]
        if mark in b"[{":
            depth += 1
            if depth == 1:
                start = token.end()
        elif depth == 1 and mark == ord(":"):
            name = _decoded(text[start : token.start()])
            key, start = name if isinstance(name, str) else "", token.end()
        elif depth == 1 and mark in b",]}":
            value = text[start : token.start()].strip()
            if value:
                yield key, value
            key, start = "", token.end()
        if mark in b"]}":
            depth -= 1
            if depth == 0:
                return
