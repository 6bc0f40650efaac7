"""Objects of the API before ADR 9 get the names of today: each field of the table, once and for all.

Longer than other modules: one table of fields, read against the table of ADR 9.
"""

from __future__ import annotations

import copy
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperscale.spec.convert import ConvertError, convert
from hyperscale.spec.crd import manifests
from hyperscale.spec.former_fields import FIELDS, JOB_FIELDS, MERGED_JOB_FIELDS, POLICY_FIELDS, STATUS_FIELDS, Change, chart_data
from hyperscale.spec.parse import SpecError, parse_job, parse_policy

Json = dict[str, Any]
FORMER = Path(__file__).parents[2] / "corpus" / "former"
PARSERS = {"GNNTrainingJob": parse_job, "PlannerPolicy": parse_policy}
FILES = {"GNNTrainingJob": "gnntrainingjobs.yaml", "PlannerPolicy": "plannerpolicies.yaml"}


@cache
def former_schema(kind: str, part: str = "spec") -> Json:
    crd = yaml.safe_load((FORMER / FILES[kind]).read_text(encoding="utf-8"))
    schema: Json = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"][part]
    return schema


@cache
def schema_now(kind: str) -> Json:
    crd = next(one for one in manifests().values() if one["spec"]["names"]["kind"] == kind)
    schema: Json = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def has_path(schema: Json, path: str) -> bool:
    """Whether a schema knows a dotted path; `[]` is the entries of a list."""
    for step in path.replace("[]", ".[]").split("."):
        found = schema.get("items") if step == "[]" else schema.get("properties", {}).get(step)
        if found is None:
            return False
        schema = found
    return True


def job(**spec: Any) -> Json:
    base = {"model": {"architecture": "GCN"}, "dataset": {"source": {"builtin": {"name": "Cora"}}}, "workers": {"min": 2, "max": 4}}
    return {"apiVersion": "hyperscale.dev/v1alpha1", "kind": "GNNTrainingJob", "metadata": {"name": "cora"}, "spec": base | spec}


def policy(**spec: Any) -> Json:
    return {"apiVersion": "hyperscale.dev/v1alpha1", "kind": "PlannerPolicy", "metadata": {"name": "default"}, "spec": spec}


def spec_of(resource: Json) -> Json:
    converted: Json = convert(resource).resource["spec"]
    return converted


def values(schema: Json, name: str = "") -> st.SearchStrategy[Any]:
    """Values that the former schema allows; what it cannot bound is left small."""
    if name in ("template", "queries", "nodeSelector", "topology"):
        return st.just({})
    if schema.get("enum"):
        return st.sampled_from(schema["enum"])
    match schema.get("type"):
        case "object":
            fields = {key: values(value, key) for key, value in schema.get("properties", {}).items()}
            required = {key: fields.pop(key) for key in schema.get("required", ()) if key in fields}
            return st.fixed_dictionaries(required, optional=fields)
        case "array":
            return st.lists(values(schema["items"]), max_size=2)
        case "integer":
            return st.integers(int(schema.get("minimum", 0)), min(int(schema.get("maximum", 50)), int(schema.get("minimum", 0)) + 50))
        case "number":
            low = float(schema.get("minimum", 0))
            return st.sampled_from([low + 0.25, low + 0.5, int(low) + 1])
        case "boolean":
            return st.booleans()
    return st.sampled_from(["Auto", 4]) if name == "count" else st.sampled_from(["8", "1Gi"])


@pytest.mark.parametrize("kind", FIELDS)
def test_every_former_field_of_the_table_was_in_the_former_api_and_those_of_other_names_are_gone(kind: str) -> None:
    merged = MERGED_JOB_FIELDS if kind == "GNNTrainingJob" else ()
    now = {"properties": schema_now(kind)["properties"]}
    for path in [*merged, *(field.path for field in FIELDS[kind])]:
        assert has_path({"properties": {"spec": former_schema(kind)}}, path), path
    for path in [*merged, *(field.path for field in FIELDS[kind] if field.now not in ("", field.path))]:
        assert not has_path(now, path), path
    for field in FIELDS[kind]:
        assert not field.now or has_path(now, field.now), field.now


def test_every_former_field_of_the_status_is_named_anew_and_known_today() -> None:
    now = {"properties": schema_now("GNNTrainingJob")["properties"]}
    for field in STATUS_FIELDS:
        assert not field.now or has_path(now, field.now), field.now
        assert field.now == field.path or not has_path(now, field.path), field.path


@pytest.mark.parametrize("kind", FIELDS)
def test_every_field_that_the_former_api_had_and_this_one_has_not_is_in_the_table(kind: str) -> None:
    merged = MERGED_JOB_FIELDS if kind == "GNNTrainingJob" else ()
    listed = {*merged, *(field.path for field in FIELDS[kind])}
    now = {"properties": schema_now(kind)["properties"]}

    def walk(schema: Json, path: str) -> None:
        for name, below in schema.get("properties", {}).items():
            at = f"{path}.{name}"
            if any(one == at or one.startswith((f"{at}.", f"{at}[]")) for one in listed):
                if not below.get("properties") and not below.get("items"):
                    assert at in listed
            else:
                assert has_path(now, at), at
            walk(below, at)
            walk(below.get("items", {}), f"{at}[]")

    walk(former_schema(kind), "spec")


@settings(max_examples=50, deadline=None)
@given(st.data())
@pytest.mark.parametrize("kind", FIELDS)
def test_what_is_converted_stays_as_it_is_and_holds_no_former_field(kind: str, data: st.DataObject) -> None:
    spec = data.draw(values(former_schema(kind)))
    resource = {"apiVersion": "hyperscale.dev/v1alpha1", "kind": kind, "metadata": {"name": "one"}, "spec": spec}
    before = copy.deepcopy(resource)
    once = convert(resource)
    assert resource == before
    again = convert(once.resource)
    assert (again.resource, again.changed, again.notes) == (once.resource, (), ())
    for entry in chart_data()[kind]:
        if set(entry) == {"path"}:
            assert not held(once.resource, entry["path"]), entry


def held(value: object, path: list[str]) -> bool:
    if not path:
        return value is not None
    if path[0] == "[]":
        return isinstance(value, list) and any(held(entry, path[1:]) for entry in value)
    return isinstance(value, dict) and path[0] in value and held(value[path[0]], path[1:])


@pytest.mark.parametrize(
    ("former", "start_policy"),
    [
        ({"planOnly": True}, "Never"),
        ({"planOnly": True, "approval": "Manual"}, "Never"),
        ({"planOnly": False, "approval": "Manual"}, "Manual"),
        ({"approval": "Automatic"}, "Automatic"),
        ({"planOnly": False}, "Automatic"),
    ],
    ids=str,
)
def test_a_job_that_was_only_planned_never_starts(former: Json, start_policy: str) -> None:
    assert spec_of(job(**former))["startPolicy"] == start_policy
    assert not {"planOnly", "approval"} & spec_of(job(**former)).keys()


def test_what_a_worker_asked_for_is_in_its_resources() -> None:
    container = {"name": "worker", "image": "mine:1", "resources": {"limits": {"rdma/hca": 1}, "requests": {"cpu": "2000m"}}}
    loose = {"min": 1, "max": 2, "gpusPerWorker": 2, "cpu": "2", "memory": "8Gi"}
    spec = spec_of(job(workers=loose, worker={"template": {"spec": {"containers": [container]}}}))
    assert spec["workers"] == {
        "minReplicas": 1,
        "maxReplicas": 2,
        "template": {"spec": {"containers": [{"name": "worker", "image": "mine:1"}]}},
        "resources": {
            "limits": {"nvidia.com/gpu": 2, "memory": "8Gi", "rdma/hca": 1},
            "requests": {"cpu": "2000m", "memory": "8Gi"},
        },
    }
    assert "worker" not in spec


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"startPolicy": "Never", "planOnly": True}, "spec.planOnly"),
        ({"workers": {"max": 4, "maxReplicas": 4}}, "spec.workers.max"),
        ({"workers": {"max": 4, "cpu": "2", "resources": {}}}, "spec.workers.cpu"),
        (
            {"worker": {"template": {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 8}}}]}}}},
            "spec.workers.template.spec.containers[0].resources.limits.nvidia.com/gpu",
        ),
        (
            {"worker": {"template": {"spec": {"containers": [{"resources": {"claims": [{"name": "nic"}]}}]}}}},
            "spec.workers.template.spec.containers[0].resources.claims",
        ),
        ({"runPolicy": {"priority": 2}, "queueWeight": 2}, "spec.runPolicy.priority"),
    ],
    ids=str,
)
def test_an_object_that_says_one_thing_twice_is_refused_with_the_path(spec: Json, path: str) -> None:
    with pytest.raises(ConvertError) as refused:
        convert(job(**spec))
    assert refused.value.path == path


@pytest.mark.parametrize(
    ("former", "now", "noted"),
    [
        ({"deadlines": {"planSeconds": 2.5}}, {"planDeadlineSeconds": 3}, True),
        ({"deadlines": {"planSeconds": 2.0}}, {"planDeadlineSeconds": 2}, False),
        ({"communicationWeight": 0.1}, {"communicationWeight": "0.1"}, False),
        ({"replan": {"mode": "Act", "minGainRatio": 1.0}}, {"migration": {"mode": "Automatic", "minGainPercent": 99}}, True),
        (
            {"queue": {"preemption": {"mode": "Off", "minGainRatio": 0.07}}},
            {"queue": {"preemption": {"mode": "Never", "minGainPercent": 7}}},
            False,
        ),
        ({"gpus": [{"product": "X", "teraflops": 19.5}]}, {"gpus": [{"product": "X", "gigaflops": 19500}]}, False),
        ({"overrides": {"links": [{"latencySeconds": 2.5e-7}]}}, {"overrides": {"links": [{"latencyNanoseconds": 250}]}}, False),
        (
            {"overrides": {"nodes": [{"name": "a", "gpuMemoryMib": 1}, {"name": "a", "gpuMemoryMib": 24564}]}},
            {"overrides": {"nodes": [{"name": "a", "gpuMemory": "24564Mi"}]}},
            True,
        ),
        ({"limits": {"maxBandwidthBytesPerSecond": 1e12}}, {"limits": {"maxBandwidthBytesPerSecond": 10**12}}, False),
    ],
    ids=str,
)
def test_a_figure_of_a_policy_has_the_type_of_today_and_what_was_rounded_is_told(former: Json, now: Json, noted: bool) -> None:
    converted = convert(policy(**former))
    assert converted.resource["spec"] == now
    assert bool(converted.notes) == noted
    parse = {"limits", "communicationWeight", "deadlines", "replan", "queue", "gpus"}
    if parse & former.keys():
        parse_policy(converted.resource)


def test_what_the_operator_reads_back_from_a_status_is_kept() -> None:
    former = {
        "replans": 2,
        "stops": 1,
        "lastStop": {"time": "2026-01-01T00:00:00Z", "epochsDone": 7},
        "move": {"moves": 1, "moved": [{"index": 0, "source": "a", "target": "b"}]},
        "conditions": [{"type": "Moving", "status": "True"}],
        "ready": "2/2",
    }
    assert convert({**job(), "status": former}).resource["status"] == {
        "planChanges": 2,
        "preemptions": 1,
        "lastPreemption": {"startTime": "2026-01-01T00:00:00Z", "completedEpochs": 7},
        "proposedMigration": {"migratedWorkers": 1, "workerMigrations": [{"index": 0, "sourceNode": "a", "targetNode": "b"}]},
        "conditions": [{"type": "Migrating", "status": "True"}],
    }


def test_objects_of_other_kinds_and_versions_stay_as_they_are() -> None:
    for other in ({"kind": "ConfigMap", "spec": {"planOnly": True}}, {**job(planOnly=True), "apiVersion": "hyperscale.dev/v2"}):
        assert convert(other) == (other, (), ())


def test_numbers_of_one_type_only_are_looked_for_in_the_cluster_where_the_name_stayed() -> None:
    kinds = {tuple(sorted(entry.keys() - {"path"})) for entries in chart_data().values() for entry in entries}
    assert kinds == {(), ("type",), ("words",)}
    assert all(field.words or field.change is not Change.COPY for field in (*JOB_FIELDS, *POLICY_FIELDS) if field.path == field.now)


STEPS = {step for fields in (*FIELDS.values(), STATUS_FIELDS) for field in fields for step in field.path.replace("[]", "").split(".")}
OTHERS = {"approval", "planOnly", "gpusPerWorker", "cpu", "memory", "template", "containers", "resources", "limits", "nvidia.com/gpu"}
NAMES = st.sampled_from(sorted(STEPS | OTHERS))
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(FIELDS)), st.fixed_dictionaries({}, optional={"spec": ANYTHING, "status": ANYTHING, "metadata": ANYTHING}))
def test_nothing_that_a_stranger_can_write_is_more_than_a_refusal_with_a_path(kind: str, parts: Json) -> None:
    path = "spec"
    try:
        convert({"apiVersion": "hyperscale.dev/v1alpha1", "kind": kind, **parts})
    except ConvertError as refused:
        path = refused.path
    assert path.startswith(("spec", "status"))


@pytest.mark.parametrize(
    ("kind", "spec", "path", "named"),
    [
        ("GNNTrainingJob", {"planOnly": True}, "spec.planOnly", "spec.startPolicy"),
        ("GNNTrainingJob", {"workers": {"max": 4}}, "spec.workers.max", "spec.workers.maxReplicas"),
        ("GNNTrainingJob", {"workers": {"gpusPerWorker": 2}}, "spec.workers.gpusPerWorker", "spec.workers.resources"),
        ("GNNTrainingJob", {"worker": {"template": {}}}, "spec.worker", "spec.workers.template"),
        ("PlannerPolicy", {"replan": {"mode": "Act"}}, "spec.replan", "spec.migration"),
        ("PlannerPolicy", {"deadlines": {"planSeconds": 2}}, "spec.deadlines", "spec.planDeadlineSeconds"),
        ("PlannerPolicy", {"gpus": [{"product": "X", "teraflops": 19.5}]}, "spec.gpus[0].teraflops", "spec.gpus[].gigaflops"),
    ],
)
def test_a_field_of_the_former_api_is_refused_with_its_name_of_today(kind: str, spec: Json, path: str, named: str) -> None:
    """Else `planOnly` is answered with "did you mean planner?"."""
    with pytest.raises(SpecError) as refused:
        PARSERS[kind]({"kind": kind, "metadata": {"name": "x"}, "spec": spec})
    assert refused.value.path == path
    assert re.search(rf"write .*{re.escape(named)}\b.*hyperscale convert -f FILE", refused.value.message)


def test_an_unknown_field_in_a_list_is_named() -> None:
    with pytest.raises(SpecError, match=r"^spec\.gpus\[1\]\.gigaflop: unknown field; did you mean gigaflops\?$"):
        parse_policy({"spec": {"gpus": [{"product": "X", "gigaflops": 1}, {"product": "Y", "gigaflop": 1}]}})
