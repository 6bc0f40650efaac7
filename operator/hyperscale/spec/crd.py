"""Writes crds/ from the types in model/: `python -m hyperscale.spec.crd` writes, `--check` exits 1 where a file differs.

Input:  JobSpec, JobStatus, PolicySpec, TopologyStatus and the rules of rules.py. Output: structural OpenAPI v3, one file per kind,
and the same bytes in charts/hyperscale/files/crds/. A type without a bound is an error: whatever is stored is bounded.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

import yaml

from hyperscale.model import constants
from hyperscale.model.api.job import JobSpec
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.api.topology import METRICS_AVAILABLE, TopologyStatus
from hyperscale.model.status import SUMMARY_CONDITION, JobStatus
from hyperscale.spec.crd_schema import Schema, root_rules, spec_rules, struct_schema
from hyperscale.spec.former_fields import chart_data
from hyperscale.spec.introspect import struct_of
from hyperscale.spec.rules import ONE_UPLINK_FIGURE, PAIRS_ONCE, SAME_STAGE

REPOSITORY: Final = Path(__file__).parents[3]
FOLDERS: Final = ("crds", "charts/hyperscale/files/crds")
FORMER_FIELDS: Final = "charts/hyperscale/files/former-fields.yaml"
"""What the chart looks for in stored objects before it replaces the CRDs."""
FORMER_HEADER: Final = "# Written by `make crds` from operator/hyperscale/spec/former_fields.py; change that.\n"
HEADER: Final = "# Written by `make crds` from the types in operator/hyperscale/model; change those.\n"
CATEGORY: Final = "gnn"


def manifests() -> dict[str, Schema]:
    """Every CustomResourceDefinition by file name."""
    definitions = (_job(), _policy(), _topology())
    return {f"{crd['metadata']['name'].replace('.' + constants.GROUP, '')}.{constants.GROUP}.yaml": crd for crd in definitions}


def _job() -> Schema:
    spec = struct_schema(struct_of(JobSpec), defaults=True)
    spec["x-kubernetes-validations"] = spec_rules()
    status = struct_schema(struct_of(JobStatus), defaults=False)
    _plan_of_any_version(status["properties"]["plan"])
    schema = _root("A GNN training job: measured, planned, placed and run as an MPIJob.", {"spec": spec, "status": status}, ["spec"])
    schema["properties"]["metadata"]["properties"] = {"name": {"type": "string", "maxLength": 253}}
    schema["x-kubernetes-validations"] = root_rules()
    columns = [
        ("Status", "string", f'.status.conditions[?(@.type=="{SUMMARY_CONDITION}")].reason', 0),
        ("Partitions", "integer", ".status.plan.partitions", 0),
        ("Workers", "integer", ".status.workers.planned", 0),
        ("Ready", "string", ".status.columns.ready", 0),
        ("Epoch", "string", ".status.columns.epoch", 0),
        ("Accuracy", "string", ".status.columns.accuracy", 0),
        ("Planner", "string", ".status.plan.planner", 0),
        ("Predicted", "string", ".status.columns.predicted", 0),
        ("Measured", "string", ".status.columns.measured", 1),
        ("Queue", "string", ".status.queue", 1),
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
    spec = struct_schema(struct_of(PolicySpec), defaults=True)
    spec["properties"]["gpus"]["items"]["minProperties"] = 2
    _pairs_of_stages(spec["properties"]["evaluation"]["properties"]["comparisons"])
    _uplinks(spec["properties"]["overrides"]["properties"]["uplinks"])
    schema = _root("How plans are made and judged; jobs without a policyRef take the one named default.", {"spec": spec}, ["spec"])
    columns = [
        ("Lambda", "string", ".spec.communicationWeight", 0),
        ("Seed", "integer", ".spec.seed", 0),
        ("Deadline-Seconds", "integer", ".spec.planDeadlineSeconds", 0),
        ("Age", "date", ".metadata.creationTimestamp", 0),
    ]
    return _definition(constants.POLICY_KIND, constants.POLICY_PLURAL, "gnnpp", "Cluster", schema, columns)


def _uplinks(uplinks: Schema) -> None:
    """Every domain of a level once, with one of both figures."""
    uplinks |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["level", "domain"]}
    one = "has(self.bytesPerSecond) != has(self.oversubscription)"
    uplinks["items"]["x-kubernetes-validations"] = [{"rule": one, "message": ONE_UPLINK_FIGURE}]


def _pairs_of_stages(comparisons: Schema) -> None:
    """Every pair of two stages once; whether comparisons contradict each other is beyond CEL, and parse.py says it."""
    same = "(a.stage == b.stage && a.comparedWith == b.comparedWith)"
    turned = "(a.stage == b.comparedWith && a.comparedWith == b.stage)"
    once = f"self.all(a, self.exists_one(b, {same} || {turned}))"
    comparisons["x-kubernetes-validations"] = [{"rule": once, "message": PAIRS_ONCE}]
    comparisons["items"]["x-kubernetes-validations"] = [{"rule": "self.stage != self.comparedWith", "message": SAME_STAGE}]


def _topology() -> Schema:
    status = struct_schema(struct_of(TopologyStatus), defaults=False)
    schema = _root("The node and link graph as last measured; written by the operator.", {"status": status}, [])
    columns = [
        ("Nodes", "integer", ".status.nodeCount", 0),
        ("Links", "integer", ".status.linkCount", 0),
        ("GPUs", "integer", ".status.gpuCount", 0),
        ("Free-GPUs", "integer", ".status.freeGPUCount", 0),
        ("Metrics", "string", f'.status.conditions[?(@.type=="{METRICS_AVAILABLE}")].reason', 0),
        ("Snapshot-Age", "date", ".status.snapshotTime", 0),
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
    texts = {f"{folder}/{name}": text_of(manifest) for folder in FOLDERS for name, manifest in manifests().items()}
    texts[FORMER_FIELDS] = FORMER_HEADER + yaml.dump(chart_data(), sort_keys=False, width=140)
    for name, text in texts.items():
        path = REPOSITORY / name
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for name in stale:
        sys.stderr.write(f"{name}: {'differs from the types; run `make crds`' if check else 'written'}\n")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
