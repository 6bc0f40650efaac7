"""Writes crds/ from the types in model/: `python -m hyperscale.spec.crd` writes, `--check` exits 1 where a file differs.

Input:  JobSpec, JobStatus, PolicySpec, TopologyStatus and the rules of crd_cel.py. Output: structural OpenAPI v3, one file per kind,
and the same bytes in charts/hyperscale/files/crds/. A type without a bound is an error: whatever is stored is bounded.
"""

from __future__ import annotations

import argparse
import ast
import sys
import textwrap
from functools import cache
from inspect import cleandoc, getsource
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml
from msgspec import inspect

from hyperscale.model import constants
from hyperscale.model.api.job import JobSpec
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.api.topology import TopologyStatus
from hyperscale.model.status import JobStatus
from hyperscale.spec import crd_cel
from hyperscale.spec.introspect import choices_of, shape_of, struct_of

REPOSITORY: Final = Path(__file__).parents[3]
FOLDERS: Final = ("crds", "charts/hyperscale/files/crds")
HEADER: Final = "# Written by `make crds` from the types in operator/hyperscale/model; change those.\n"
CATEGORY: Final = "gnn"

Schema = dict[str, Any]

_LIST_KEYS: Final = {"conditions": "type", "gpus": "product"}
"""Lists of objects that are maps by one of their fields."""
_SET_LISTS: Final = frozenset({"planners", "topologyLevels"})


def manifests() -> dict[str, Schema]:
    """Every CustomResourceDefinition by file name."""
    made = (_job(), _policy(), _topology())
    return {f"{crd['metadata']['name'].replace('.' + constants.GROUP, '')}.{constants.GROUP}.yaml": crd for crd in made}


def _job() -> Schema:
    spec = _struct(struct_of(JobSpec), defaults=True)
    spec["x-kubernetes-validations"] = crd_cel.spec_rules()
    status = _struct(struct_of(JobStatus), defaults=False)
    _plan_of_any_version(status["properties"]["plan"])
    schema = _root("A GNN training job: measured, planned, placed and run as an MPIJob.", {"spec": spec, "status": status}, ["spec"])
    schema["properties"]["metadata"]["properties"] = {"name": {"type": "string", "maxLength": 253}}
    schema["x-kubernetes-validations"] = crd_cel.root_rules()
    columns = [
        ("Phase", "string", ".status.phase", 0),
        ("Partitions", "integer", ".status.plan.partitions", 0),
        ("Workers", "integer", ".status.workers.planned", 0),
        ("Ready", "string", ".status.ready", 0),
        ("Epoch", "integer", ".status.measured.epoch", 0),
        ("Accuracy", "number", ".status.measured.accuracy", 0),
        ("Planner", "string", ".status.plan.planner", 0),
        ("Predicted", "string", ".status.predictedEpoch", 1),
        ("Measured", "string", ".status.measuredEpoch", 1),
        ("Queue", "string", ".status.queue", 1),
        ("Reason", "string", ".status.reason", 1),
        ("Age", "date", ".metadata.creationTimestamp", 0),
    ]
    return _definition(constants.JOB_KIND, constants.JOB_PLURAL, "gnntj", "Namespaced", schema, columns)


def _plan_of_any_version(plan: Schema) -> None:
    """Plans that an earlier version stored name neither workers' indices nor nodes' ranks: their statuses can still be written."""
    workers = plan["properties"]["workers"]
    workers |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["rank"]}
    workers["items"]["required"].remove("index")
    plan["required"].remove("ranksByNode")


def _policy() -> Schema:
    spec = _struct(struct_of(PolicySpec), defaults=True)
    spec["properties"]["gpus"]["items"]["minProperties"] = 2
    schema = _root("How plans are made and judged; jobs without a policyRef take the one named default.", {"spec": spec}, ["spec"])
    columns = [
        ("Lambda", "number", ".spec.communicationWeight", 0),
        ("Seed", "integer", ".spec.seed", 0),
        ("Deadline", "number", ".spec.deadlines.planSeconds", 0),
        ("Age", "date", ".metadata.creationTimestamp", 0),
    ]
    return _definition(constants.POLICY_KIND, constants.POLICY_PLURAL, "gnnpp", "Cluster", schema, columns)


def _topology() -> Schema:
    status = _struct(struct_of(TopologyStatus), defaults=False)
    schema = _root("The node and link graph as last measured; written by the operator.", {"status": status}, [])
    columns = [
        ("Nodes", "integer", ".status.nodeCount", 0),
        ("Links", "integer", ".status.linkCount", 0),
        ("GPUs", "integer", ".status.gpuCount", 0),
        ("Free", "integer", ".status.freeGpuCount", 0),
        ("Metrics", "string", ".status.metrics.reason", 0),
        ("Taken", "date", ".status.takenAt", 0),
    ]
    return _definition(constants.TOPOLOGY_KIND, constants.TOPOLOGY_PLURAL, "gnntopo", "Cluster", schema, columns)


def _definition(kind: str, plural: str, short: str, scope: str, schema: Schema, columns: list[tuple[str, str, str, int]]) -> Schema:
    version: Schema = {"name": constants.VERSION, "served": True, "storage": True}
    if "status" in schema["properties"]:
        version["subresources"] = {"status": {}}
    version["additionalPrinterColumns"] = [
        {"name": name, "type": kind_of, "jsonPath": path, **({"priority": priority} if priority else {})}
        for name, kind_of, path, priority in columns
    ]
    version["schema"] = {"openAPIV3Schema": schema}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{constants.GROUP}"},
        "spec": {
            "group": constants.GROUP,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": [short],
                "categories": [CATEGORY],
            },
            "scope": scope,
            "versions": [version],
        },
    }


def _root(description: str, properties: Schema, required: list[str]) -> Schema:
    schema: Schema = {
        "type": "object",
        "description": description,
        "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}, **properties},
    }
    return schema | {"required": required} if required else schema


def schema_of(wrapped: inspect.Type, path: str, defaults: bool) -> Schema:
    """Structural schema of any type; raises TypeError naming `path` where something is unbounded or unknown."""
    shape = shape_of(wrapped)
    bare = shape.bare
    made: Schema
    if isinstance(bare, inspect.StructType):
        made = _struct(bare, defaults)
    elif isinstance(bare, (inspect.EnumType, inspect.LiteralType)):
        made = {"type": "string", "enum": list(choices_of(bare)), "maxLength": max(len(word) for word in choices_of(bare))}
    elif isinstance(bare, inspect.UnionType):
        made = _int_or_word(bare, path)
    elif isinstance(bare, (inspect.DictType, inspect.VarTupleType)):
        made = _container(bare, path, defaults)
    else:
        made = _scalar(bare, path)
    return {**made, "description": shape.description} if shape.description else made


def _struct(struct: inspect.StructType, defaults: bool) -> Schema:
    documented = _field_docstrings(struct.cls)
    properties: Schema = {}
    for field in struct.fields:
        schema = schema_of(field.type, f"{struct.cls.__name__}.{field.name}", defaults)
        if "description" not in schema and field.name in documented:
            schema["description"] = documented[field.name]
        if defaults and (default := _default(field)) is not None:
            schema["default"] = default
        if field.encode_name in _LIST_KEYS and schema.get("items", {}).get("type") == "object":
            schema |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [_LIST_KEYS[field.encode_name]]}
        if field.encode_name in _SET_LISTS:
            schema["x-kubernetes-list-type"] = "set"
        properties[field.encode_name] = schema
    made: Schema = {"type": "object", "description": _one_line(struct.cls.__doc__ or ""), "properties": properties}
    required = [field.encode_name for field in struct.fields if field.required]
    return made | {"required": required} if required else made


def _default(field: inspect.Field) -> object:
    """The default as JSON; None where there is none. A struct of defaults is `{}`: its own fields carry them."""
    if field.required:
        return None
    value = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    if isinstance(value, msgspec.Struct):
        return _plain(value) if value != type(value)() else {}
    return _plain(value)


def _plain(value: object) -> object:
    """As JSON has it: lists for tuples, texts for enums."""
    return msgspec.json.decode(msgspec.json.encode(value))


def _scalar(bare: inspect.Type, path: str) -> Schema:
    if isinstance(bare, inspect.BoolType):
        return {"type": "boolean"}
    if isinstance(bare, (inspect.IntType, inspect.FloatType)):
        made: Schema = {"type": "integer", "format": "int64"} if isinstance(bare, inspect.IntType) else {"type": "number"}
        if bare.ge is not None:
            made["minimum"] = bare.ge
        if bare.gt is not None:
            made |= {"minimum": bare.gt, "exclusiveMinimum": True}
        if bare.le is not None:
            made["maximum"] = bare.le
        if bare.lt is not None:
            made |= {"maximum": bare.lt, "exclusiveMaximum": True}
        return made
    if not isinstance(bare, inspect.StrType):
        raise TypeError(f"{path}: no schema for {type(bare).__name__}")
    if bare.max_length is None:
        raise TypeError(f"{path}: a text needs Meta(max_length=...)")
    given = {"minLength": bare.min_length or None, "maxLength": bare.max_length, "pattern": bare.pattern}
    return {"type": "string", **{key: value for key, value in given.items() if value is not None}}


def _container(bare: inspect.DictType | inspect.VarTupleType, path: str, defaults: bool) -> Schema:
    if bare.max_length is None:
        raise TypeError(f"{path}: needs Meta(max_length=...)")
    if isinstance(bare, inspect.VarTupleType):
        least = {"minItems": bare.min_length} if bare.min_length else {}
        return {"type": "array", **least, "maxItems": bare.max_length, "items": schema_of(bare.item_type, f"{path}[]", defaults)}
    if isinstance(bare.value_type, inspect.AnyType):
        return {"type": "object", "maxProperties": bare.max_length, "x-kubernetes-preserve-unknown-fields": True}
    made: Schema = {"type": "object", "maxProperties": bare.max_length, "additionalProperties": schema_of(bare.value_type, path, defaults)}
    key = shape_of(bare.key_type).bare
    if isinstance(key, inspect.StrType) and key.pattern is not None and key.max_length is not None:
        made["x-kubernetes-validations"] = crd_cel.key_rules(key.max_length, key.pattern)
    return made


def _int_or_word(bare: inspect.UnionType, path: str) -> Schema:
    """A whole number or one of some words, as partitioning.count."""
    members = [shape_of(wrapped).bare for wrapped in bare.types]
    number = next((member for member in members if isinstance(member, inspect.IntType)), None)
    words = next((member for member in members if isinstance(member, inspect.LiteralType)), None)
    if number is None or words is None or len(bare.types) != 2 or number.ge is None or number.le is None:
        raise TypeError(f"{path}: of unions only a bounded int with a Literal is known")
    rule = crd_cel.int_or_word_rule(int(number.ge), int(number.le), choices_of(words))
    return {"x-kubernetes-int-or-string": True, "x-kubernetes-validations": [rule]}


@cache
def _field_docstrings(cls: type) -> dict[str, str]:
    """Texts that stand under the fields of a class, by field."""
    body = ast.parse(textwrap.dedent(getsource(cls))).body[0]
    statements = body.body if isinstance(body, ast.ClassDef) else []
    found: dict[str, str] = {}
    for field, text in pairwise(statements):
        is_text = isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and is_text:
            found[field.target.id] = _one_line(ast.literal_eval(text.value))  # type: ignore[attr-defined] # is_text
    return found


def _one_line(docstring: str) -> str:
    return " ".join(cleandoc(docstring).split("\n\n", 1)[0].split())


class _Dumper(yaml.SafeDumper):
    """YAML without anchors: repeated parts are written out."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def text_of(manifest: Schema) -> str:
    """The file's content."""
    return HEADER + yaml.dump(manifest, Dumper=_Dumper, sort_keys=False, width=140, allow_unicode=True)


def main(arguments: list[str] | None = None) -> int:
    """Write the files, or with --check say which differ; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m hyperscale.spec.crd", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 when a file differs from the types")
    check = parser.parse_args(arguments).check
    stale = []
    for folder in FOLDERS:
        for name, manifest in manifests().items():
            path, text = REPOSITORY / folder / name, text_of(manifest)
            if path.is_file() and path.read_text(encoding="utf-8") == text:
                continue
            stale.append(f"{folder}/{name}")
            if not check:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
    for name in stale:
        sys.stderr.write(f"{name}: {'differs from the types; run `make crds`' if check else 'written'}\n")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
