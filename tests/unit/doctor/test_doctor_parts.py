"""Parts of the doctor: rights as the chart grants them, names out of PromQL, summaries of series, narrowing, table, document."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperscale.cli.doctor import doctor_narrow as narrow
from hyperscale.cli.doctor.doctor_command import report_lines
from hyperscale.cli.doctor.doctor_urls import without_secrets
from hyperscale.doctor.checks.rights import agent_rights, operator_rights, words
from hyperscale.doctor.checks.schema import OUR_CRDS, expected_fields, schema_fields
from hyperscale.doctor.diagnose import diagnose
from hyperscale.doctor.facts import Right
from hyperscale.doctor.faults import Fault
from hyperscale.doctor.findings import Report
from hyperscale.doctor.series import metric_names, selector_labels, summarize
from hyperscale.model.metrics_reading import Series
from tests.unit.chart.conftest import Render
from tests.unit.chart.conftest import helm as helm
from tests.unit.chart.conftest import render as render
from tests.unit.chart.conftest import render_text as render_text
from tests.unit.doctor.doctor_facts import facts, mpi_operator, operator, plugin

REPOSITORY = Path(__file__).resolve().parents[3]


def granted(render: Render, values: dict[str, object] | None, part: str) -> set[Right]:
    """Every right of the chart's roles whose name contains `part` (all without the people's ones)."""
    found = set()
    for resource in render(values):
        name = resource["metadata"]["name"]
        if (
            resource["kind"] not in ("Role", "ClusterRole")
            or name.endswith(("-editor", "-viewer", "-reader"))
            or ("-agent" in name) != (part == "agent")
        ):
            continue
        namespace = resource["metadata"].get("namespace", "")
        for rule in resource["rules"]:
            for path in rule["resources"]:
                plain, _, sub = path.partition("/")
                for object_name in rule.get("resourceNames", [""]):
                    found |= {Right(verb, rule["apiGroups"][0], plain, sub, namespace, object_name) for verb in rule["verbs"]}
    return found


@pytest.mark.parametrize("watched", [(), ("team-a", "team-b")])
def test_the_rights_asked_about_are_those_that_the_chart_grants(render: Render, watched: tuple[str, ...]) -> None:
    values: dict[str, object] = {"watchNamespaces": list(watched), "recovery": {"deletePods": False}}
    assert set(operator_rights("hyperscale-system", watched)) == granted(render, values, "operator")


def test_the_agents_rights_are_those_that_the_chart_grants(render: Render) -> None:
    assert set(agent_rights("hyperscale-system")) == granted(render, None, "agent")


def test_a_right_reads_as_kubectl_writes_it() -> None:
    assert words(Right("patch", "hyperscale.dev", "gnntrainingjobs", "status", "a")) == "patch gnntrainingjobs.hyperscale.dev/status in a"
    assert words(Right("get", "", "pods")) == "get pods"


@pytest.mark.parametrize("name", OUR_CRDS)
def test_the_shipped_crds_have_every_field_that_is_expected(name: str) -> None:
    raw = yaml.safe_load((REPOSITORY / "crds" / f"{name}.yaml").read_text(encoding="utf-8"))
    assert schema_fields(raw["spec"]["versions"][0]["schema"]["openAPIV3Schema"]) == expected_fields(name)


@pytest.mark.parametrize(
    ("query", "metrics", "labels"),
    [
        ("DCGM_FI_DEV_GPU_UTIL", ("DCGM_FI_DEV_GPU_UTIL",), ()),
        ('avg by (Hostname) (A{Hostname=~"x{y}=1", job!="j"}[5m]) / 1048576', ("A",), ("Hostname", "job")),
        ("rate(a:b[2m] offset 5m) * on (x) group_left (y) c", ("a:b", "c"), ()),
        ("label_replace(A, 'node', '$1', 'Hostname', '(.*)') or B unless bool C", ("A", "B", "C"), ()),
        ("100 * 1e3 - inf", (), ()),
        ("", (), ()),
    ],
)
def test_metrics_and_labels_of_a_query(query: str, metrics: tuple[str, ...], labels: tuple[str, ...]) -> None:
    assert metric_names(query) == metrics
    assert selector_labels(query) == labels


@given(st.text(max_size=200))
@settings(max_examples=50, deadline=None)
def test_no_query_is_too_odd_to_be_looked_at(text: str) -> None:
    assert all(metric_names(text)) or metric_names(text) == ()
    selector_labels(text)


@given(st.lists(st.floats(), max_size=30))
@settings(max_examples=50, deadline=None)
def test_a_summary_is_finite_whatever_the_values(values: list[float]) -> None:
    series = [Series({"gpu": str(at)}, value, 0.0) for at, value in enumerate(values)]
    found = summarize(
        "q", series, lambda labels: labels["gpu"] != "0" or None, lambda value, _: None if math.isfinite(value) else "bad", 5.0
    )
    assert found.count == len(values)
    assert found.finite + found.faults.get("bad", 0) == len(values)
    assert all(map(math.isfinite, (found.low, found.middle, found.high)))
    assert found.placed == max(0, len(values) - 1)


def test_workloads_that_no_check_looks_at_are_not_kept() -> None:
    def raw(name: str, image: str) -> dict[str, object]:
        return {"metadata": {"name": name}, "spec": {"template": {"spec": {"containers": [{"image": image}]}}}}

    assert narrow.matters(raw("kueue-controller-manager", "x"))
    assert narrow.matters(raw("x", "registry/team/mpi-operator:1"))
    assert narrow.matters(raw("nvidia-dra-driver-gpu-kubelet-plugin", "x"))
    assert narrow.matters(raw("gpu-dra-kubelet-plugin", "x"))
    assert not narrow.matters(raw("web", "nginx:1"))


def test_kueues_configuration_is_read_out_of_its_config_map() -> None:
    text = "integrations:\n  frameworks: [batch/job, kubeflow.org/mpijob]\n  externalFrameworks: [a.b.c]\n"
    assert narrow.frameworks({"data": {"x": text}}) == (("batch/job", "kubeflow.org/mpijob"), ("a.b.c",))
    assert narrow.frameworks({"data": {"x": "{["}}) == (None, ())
    assert narrow.frameworks({}) == (None, ())


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:secret@db:5432/runs?sslmode=x", "postgresql://me@db:5432/runs"),
        ("postgresql://db/runs?user=me&password=secret", "postgresql://db/runs"),
        ("postgresql://me:sec/secret@db:5432/runs", "postgresql://…"),
        ("postgresql://me:sec#secret@db/runs", "postgresql://…"),
        ("postgresql://me:secret@[db/runs", "postgresql://…"),
        ("postgresql://me:secret@db:secret/runs", "postgresql://…"),
        ("me:secret@db/runs", "…"),
        ("sqlite:////tmp/x", "sqlite:////tmp/x"),
        ("", ""),
    ],
)
def test_a_password_is_never_shown(url: str, shown: str) -> None:
    assert without_secrets(url) == shown
    assert "me" not in without_secrets(url, user=False).removeprefix("postgresql://")


def test_the_table_shows_every_check_and_a_fix_on_one_line() -> None:
    slow = facts(workloads=(operator(), mpi_operator("-v=1"), plugin()))
    lines = report_lines(diagnose(slow, "https://example"))
    assert lines[0].split() == ["STATE", "CHECK", "LOOKED", "AT"]
    fix = next(line for line in lines if line.startswith("  fix:") and "-kube-api-qps=100" in line)
    assert fix.endswith("]'")
    assert lines[-1].startswith("0 errors, 1 warning")


def test_the_report_survives_json() -> None:
    report = diagnose(facts(nodes=()), "https://example")
    assert msgspec.json.decode(msgspec.json.encode(report), type=Report) == report


def test_the_document_explains_every_fault() -> None:
    text = (REPOSITORY / "docs" / "doctor.md").read_text(encoding="utf-8")
    assert [fault for fault in Fault if fault not in text] == []


@pytest.mark.parametrize(
    ("kind", "status", "counts"),
    [("Succeeded", "True", False), ("Failed", "True", False), ("Succeeded", "Unknown", True), ("Running", "True", True)],
)
def test_a_job_whose_conditions_say_that_it_ended_is_left_out(kind: str, status: str, counts: bool) -> None:
    raw = {
        "metadata": {"namespace": "team", "name": "cora"},
        "status": {"conditions": [{"type": kind, "status": status, "reason": "Test"}]},
    }
    assert (narrow.job(raw) is not None) is counts
