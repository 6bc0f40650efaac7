"""Untrusted YAML or JSON text to one plain mapping: bounded in size, nesting and expansion, without surprises of YAML 1.1.

Refused with InputError, which names the file and the line or field: more than 1 MiB, more than one document, duplicate keys, keys that
are no text, aliases that grow or refer to themselves, deep nesting, unknown tags, NaN and infinity. Dates stay text, as in Kubernetes.
"""

from __future__ import annotations

import contextlib
import math
import re
import sys
from pathlib import Path
from typing import Any, Final

import yaml

from hyperscale.cli.exit_codes import InputError
from hyperscale.cli.yaml_scalars import NUMBERS, TAG_PREFIX

MAX_DOCUMENT_BYTES: Final = 1 << 20
"""etcd refuses larger objects, so no manifest is larger."""
MAX_DEPTH: Final = 64
"""A pod template is about 15 deep; libyaml composes recursively and would exhaust the C stack."""
MAX_VALUES: Final = 100_000
"""Values after aliases are expanded; stops the billion-laughs file."""

MAX_DOCUMENTS: Final = 1000
_MARKER: Final = re.compile(r"^---(?=\s|$)", re.MULTILINE)
"""A line that begins with it begins a document, whatever stands before: no scalar may hold it."""

STDIN: Final = "-"

TAGS: Final = frozenset({f"{TAG_PREFIX}{kind}" for kind in ("str", "int", "float", "bool", "null", "map", "seq", "merge")})
"""What JSON knows, and the merge key; sets, binaries and dates have no place in an API object."""


class Loader(yaml.CSafeLoader):
    """Safe YAML as kubectl reads it: `2026-01-01` stays text, `3:20` too, and `1e-2` is a number."""


Loader.yaml_implicit_resolvers = {
    first: [(tag, NUMBERS.get(tag, pattern)) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def read_text(path: str) -> str:
    """The UTF-8 text of a file, or of standard input for `-`; at most MAX_DOCUMENT_BYTES are read."""
    shown = display_name(path)
    if not path:
        raise InputError("-f: the file name is empty; name a YAML or JSON file, or - for standard input")
    try:
        with contextlib.nullcontext(sys.stdin.buffer) if path == STDIN else Path(path).open("rb") as file:
            raw = file.read(MAX_DOCUMENT_BYTES + 1)
    except IsADirectoryError:
        raise InputError(f"{shown}: is a directory; name one YAML or JSON file") from None
    except FileNotFoundError:
        raise InputError(f"{shown}: no such file; name a YAML or JSON file, or - for standard input") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{shown}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(raw) > MAX_DOCUMENT_BYTES:
        raise InputError(f"{shown}: is larger than {MAX_DOCUMENT_BYTES >> 20} MiB; a manifest is smaller")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{shown}: is not UTF-8 text; name a YAML or JSON file") from None
    if "\0" in text:
        raise InputError(f"{shown}: is a binary file; name a YAML or JSON file")
    return text


def read_object(path: str) -> dict[str, Any]:
    """The one object in a file."""
    return load_mapping(read_text(path), display_name(path))


def read_objects(path: str) -> list[tuple[str, dict[str, Any]]]:
    """All objects in a file, its documents and the items of Lists among them, each with what to call it in messages."""
    text, shown = read_text(path), display_name(path)
    parts = [part for part in _MARKER.split(text) if any(line.strip() and not line.lstrip().startswith("#") for line in part.splitlines())]
    if len(parts) < 2:
        return _items(load_mapping(text, shown), shown)
    if len(parts) > MAX_DOCUMENTS:
        raise InputError(f"{shown}: holds more than {MAX_DOCUMENTS} documents; write fewer jobs")
    named = [(f"{shown}: document {number}", part) for number, part in enumerate(parts, 1)]
    return [item for name, part in named for item in _items(load_mapping(part, name), name)]


def _items(document: dict[str, Any], shown: str) -> list[tuple[str, dict[str, Any]]]:
    """The object, or the items where it is a List."""
    items = document.get("items")
    if document.get("kind") != "List" or not isinstance(items, list) or not items:
        return [(shown, document)]
    if not all(isinstance(item, dict) for item in items):
        raise InputError(f"{shown}: items: holds what is no object; write a list of GNNTrainingJobs")
    return [(shown if len(items) == 1 else f"{shown}: item {number}", item) for number, item in enumerate(items, 1)]


def load_mapping(text: str, shown: str) -> dict[str, Any]:
    """The single mapping in `text`."""
    try:
        _check_events(text, shown)
        loader = Loader(text)
        try:
            root = loader.get_single_node()
            if root is None:
                raise InputError(f"{shown}: is empty; write one object")
            _check_nodes(root, shown)
            document = loader.construct_document(root)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        raise InputError(_yaml_fault(error, shown)) from None
    except yaml.YAMLError as error:
        raise InputError(f"{shown}: is not YAML: {error}") from None
    except (ValueError, TypeError, OverflowError, LookupError) as error:  # an integer of 5,000 digits, `!!bool maybe`
        reason = "an integer of thousands of digits; write a smaller one" if "digits" in str(error) else str(error)
        raise InputError(f"{shown}: holds a value that cannot be read: {reason}") from None
    if not isinstance(document, dict):
        raise InputError(f"{shown}: holds a {_kind_of(document)}; write one object with apiVersion, kind, metadata and spec")
    _check_finite(document, "", shown)
    return document


def display_name(path: str) -> str:
    """How a file is called in messages."""
    return "standard input" if path == STDIN else path or "-f"


def _check_events(text: str, shown: str) -> None:
    """Nesting, size and number of documents, from the flat stream of events (nothing recursive has run yet)."""
    depth = documents = 0
    for count, event in enumerate(yaml.parse(text, Loader=Loader)):
        if count > 2 * MAX_VALUES:
            raise InputError(f"{shown}: holds more than {MAX_VALUES:,} values; write a smaller object")
        line = event.start_mark.line + 1 if event.start_mark is not None else 0
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise InputError(f"{shown}: line {line}: is nested deeper than {MAX_DEPTH} levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise InputError(f"{shown}: line {line}: a second document starts; keep one object in the file")


def _check_nodes(root: yaml.Node, shown: str) -> None:
    """Size and depth after expansion, self-reference, duplicate and non-text keys."""
    extents: dict[int, tuple[int, int]] = {}
    open_nodes: set[int] = set()

    def extent(node: yaml.Node) -> tuple[int, int]:
        """(values, levels) of a node with its aliases written out; each node is visited once."""
        line = node.start_mark.line + 1
        if node.tag not in TAGS:
            raise InputError(f"{shown}: line {line}: the tag {node.tag.replace(TAG_PREFIX, '!!')!r} is not known here; write a plain value")
        if isinstance(node, yaml.ScalarNode):
            return 1, 0
        if id(node) in extents:
            return extents[id(node)]
        if id(node) in open_nodes:
            raise InputError(f"{shown}: line {line}: an alias refers to what contains it; write the value out")
        open_nodes.add(id(node))
        inner = [extent(child) for child in _children(node, shown)]
        open_nodes.discard(id(node))
        values, levels = 1 + sum(size for size, _ in inner), 1 + max((depth for _, depth in inner), default=0)
        if values > MAX_VALUES:
            raise InputError(f"{shown}: line {line}: holds more than {MAX_VALUES:,} values once aliases are written out")
        if levels > MAX_DEPTH:
            raise InputError(f"{shown}: line {line}: is nested deeper than {MAX_DEPTH} levels once aliases are written out")
        extents[id(node)] = values, levels
        return values, levels

    extent(root)


def _children(node: yaml.Node, shown: str) -> list[yaml.Node]:
    """Values of a mapping, whose keys are checked here, or items of a sequence."""
    if isinstance(node, yaml.MappingNode):
        _check_keys(node, shown)
        return [value for _, value in node.value]
    return list(node.value)


def _check_keys(node: yaml.MappingNode, shown: str) -> None:
    keys: set[str] = set()
    for key, _ in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode) or key.tag not in (f"{TAG_PREFIX}str", f"{TAG_PREFIX}merge"):
            text = key.value if isinstance(key, yaml.ScalarNode) else "?"
            raise InputError(f"{shown}: line {line}: key {text!r} is no text in YAML; put it in quotes")
        if key.value in keys:
            raise InputError(f"{shown}: line {line}: key {key.value!r} is given twice; keep one")
        keys.add(key.value)


def _check_finite(value: object, path: str, shown: str) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            _check_finite(inner, f"{path}.{key}" if path else str(key), shown)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _check_finite(inner, f"{path}[{index}]", shown)
    elif isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{shown}: {path}: is {value}; write a finite number")


def _yaml_fault(error: yaml.MarkedYAMLError, shown: str) -> str:
    mark = error.problem_mark or error.context_mark
    where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
    return f"{shown}: {where}is not valid YAML: {error.problem or error.context or 'cannot be parsed'}"


def _kind_of(value: object) -> str:
    return {list: "list", str: "text", int: "number", float: "number", bool: "truth value", type(None): "null"}.get(type(value), "value")
