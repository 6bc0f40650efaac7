"""Fields of the custom resources and values of the chart, from their JSON schemas."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from tests.reference.markdown import code, page, table

ROOT: Final = Path(__file__).resolve().parents[2]
CHART: Final = ROOT / "charts/hyperscale"
Schema = Mapping[str, Any]
MAX_DEFAULT_CHARACTERS: Final = 60
"""Longer defaults are left out: the source shows them better."""
KINDS: Final = ("gnntrainingjobs", "plannerpolicies", "clustertopologies")


def custom_resources() -> str:
    """Return the page of all fields of all custom resources."""
    documents = [yaml.safe_load((ROOT / f"crds/{name}.hyperscale.dev.yaml").read_text()) for name in KINDS]
    introduction = (
        "Every field of the custom resources, from `crds/`.\nThe command `kubectl explain gnntj.spec` prints the same in a terminal.\n"
        "A field in bold is required."
    )
    return page("Custom resources", introduction, *(_kind(document) for document in documents))


def _kind(document: Schema) -> str:
    names, version = document["spec"]["names"], document["spec"]["versions"][0]
    root = version["schema"]["openAPIV3Schema"]
    short = ", ".join(code(name) for name in names.get("shortNames", ()))
    lines = [f"## {names['kind']}", root.get("description", ""), f"API version `hyperscale.dev/{version['name']}`, short name {short}."]
    for section in ("spec", "status"):
        if section in root["properties"]:
            lines += [
                f"### {names['kind']} {section}",
                table(("field", "type", "default", "meaning"), _fields(root["properties"][section])),
            ]
    rules = [*root.get("x-kubernetes-validations", ()), *root["properties"].get("spec", {}).get("x-kubernetes-validations", ())]
    if rules:
        rows = ((code(rule.get("fieldPath", "")), rule.get("message", "")) for rule in rules)
        lines += [f"### {names['kind']} rules between fields", table(("field", "message when it is refused"), rows)]
    return "\n\n".join(line for line in lines if line)


def _fields(schema: Schema, path: str = "") -> Iterator[tuple[str, str, str, str]]:
    """Rows of all fields below a schema, depth first, in name order."""
    required = set(schema.get("required", ()))
    for name, field in sorted(schema.get("properties", {}).items()):
        here = f"{path}{name}"
        mark = "**" if name in required else ""
        yield f"{mark}{code(here)}{mark}", type_of(field), default_of(field.get("default")), _meaning(field)
        inside = field.get("items", field.get("additionalProperties", field))
        if isinstance(inside, Mapping):
            more = "[]" if "items" in field else ".*" if "additionalProperties" in field else ""
            yield from _fields(inside, f"{here}{more}.")


def _meaning(field: Schema) -> str:
    return str(field.get("description", field.get("items", {}).get("description", "")))


def type_of(field: Schema) -> str:
    """Return type and bounds in a few words."""
    if "enum" in field:
        return ", ".join(code(choice if isinstance(choice, str) else json.dumps(choice)) for choice in field["enum"])
    if "anyOf" in field or "oneOf" in field:
        return _alternatives(field.get("anyOf", field.get("oneOf", ())))
    if written := _written_type(field):
        return written
    if field.get("x-kubernetes-int-or-string"):
        return "integer or string"
    kind = field.get("type", "object")
    words = " or ".join(kind) if isinstance(kind, list) else str(kind)
    if words == "array" and isinstance(field.get("items"), Mapping):
        words = f"list of {type_of(field['items'])}"
    return words + _bounds(field)


def _written_type(field: Schema) -> str:
    """The type that the message of a field's own rule names; "" where no rule does."""
    rules = field.get("x-kubernetes-validations", ()) if "properties" not in field else ()
    messages = (str(rule.get("message", "")) for rule in rules)
    return next((text.removeprefix("write ").partition(", such as")[0] for text in messages if text.startswith("write a")), "")


def _alternatives(choices: Iterable[Schema]) -> str:
    """The types of those choices that name one; the others are rules."""
    typed = [choice for choice in choices if "type" in choice or "enum" in choice]
    return " or ".join(dict.fromkeys(map(type_of, typed))) or "any"


def _bounds(field: Schema) -> str:
    least, most = field.get("minimum", field.get("exclusiveMinimum")), field.get("maximum", field.get("exclusiveMaximum"))
    above = "above " if field.get("exclusiveMinimum") not in (None, False) else "at least "
    words = [f"{above}{least}"] if least is not None and not isinstance(least, bool) else []
    words += [f"at most {most}"] if most is not None and not isinstance(most, bool) else []
    words += [f"at most {field['maxItems']} entries"] if "maxItems" in field else []
    return f", {', '.join(words)}" if words else ""


def default_of(value: object) -> str:
    """Return a default as code, nothing where there is none."""
    if value is None or value in ({}, [], ""):
        return ""
    text = value if isinstance(value, str) else json.dumps(value)
    return code(text) if len(text) <= MAX_DEFAULT_CHARACTERS else "(see source)"


def chart_values() -> str:
    """Return the page of all values of the chart."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    source = (CHART / "values.yaml").read_text()
    rows = _values(schema, yaml.safe_load(source), comments(source), schema["definitions"])
    introduction = (
        "Every value of the chart in `charts/hyperscale`, from `values.yaml` and `values.schema.json`.\n"
        "The schema refuses unknown values and values out of bounds, with their path."
    )
    return page("Chart values", introduction, table(("value", "type", "default", "meaning"), rows))


def _values(schema: Schema, defaults: Any, notes: Mapping[str, str], shared: Schema, path: str = "") -> Iterator[tuple[str, str, str, str]]:
    for name, field in schema.get("properties", {}).items():
        field = shared[field["$ref"].rpartition("/")[2]] if "$ref" in field else field
        default = defaults.get(name) if isinstance(defaults, Mapping) else None
        here = f"{path}{name}"
        if "properties" in field:
            if here in notes:
                yield code(here), "object", "", notes[here]
            yield from _values(field, default, notes, shared, f"{here}.")
        else:
            yield code(here), type_of(_resolved(field, shared)), default_of(default), notes.get(here, field.get("description", ""))


def _resolved(field: Schema, shared: Schema) -> Schema:
    """The schema with references in lists and choices replaced, one level deep."""

    def one(part: Schema) -> Schema:
        return shared[part["$ref"].rpartition("/")[2]] if "$ref" in part else part

    changed = {key: [one(part) for part in field[key]] for key in ("anyOf", "oneOf") if key in field}
    return {**field, **changed, **({"items": one(field["items"])} if isinstance(field.get("items"), Mapping) else {})}


def comments(source: str) -> dict[str, str]:
    """Comments that begin with `# --`, by the path of the key that follows."""
    notes: dict[str, str] = {}
    path: list[tuple[int, str]] = []
    gathered: list[str] = []
    for line in source.splitlines():
        if (comment := re.match(r"\s*# ?(.*)", line)) is not None:
            text = comment.group(1)
            gathered = [text.removeprefix("-- ")] if text.startswith("-- ") else [*gathered, text] if gathered else []
        elif (key := re.match(r"( *)([A-Za-z][\w-]*):", line)) is not None:
            path = [*(step for step in path if step[0] < len(key.group(1))), (len(key.group(1)), key.group(2))]
            if gathered:
                notes[".".join(name for _, name in path)] = " ".join(gathered)
            gathered = []
        else:
            gathered = []
    return notes
