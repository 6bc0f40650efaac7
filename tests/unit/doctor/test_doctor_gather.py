"""The doctor against API servers and a Prometheus that misbehave: it ends in time, with findings, never with a traceback."""

from __future__ import annotations

import contextlib
import io
import json
import socket
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperscale.cli.doctor import doctor_narrow as narrow
from hyperscale.cli.doctor.doctor_api import read
from hyperscale.cli.doctor.doctor_metrics import QueryAsked
from hyperscale.cli.main import main
from hyperscale.doctor.diagnose import diagnose
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.metrics_reading import Series
from hyperscale.observe.identity import NodeIndex
from hyperscale.observe.prometheus.reader import QueryError
from tests.unit.cli.api_server import World, serving
from tests.unit.doctor.doctor_facts import facts, node, operator

Json = dict[str, Any]
VERSION = (200, json.dumps({"gitVersion": "v1.34.4"}).encode())


def doctor(url: str, folder: Path, *arguments: str) -> tuple[int, Json, str]:
    """Exit code, report, standard error."""
    kubeconfig = folder / "kubeconfig"
    user = {"name": "me", "user": {"token": "t"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "me"}}
    body = {"current-context": "c", "clusters": [{"name": "c", "cluster": {"server": url}}], "users": [user], "contexts": [context]}
    kubeconfig.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **body}))
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["doctor", "--kubeconfig", str(kubeconfig), "-o", "json", *arguments])
    return code, json.loads(out.getvalue() or "{}"), err.getvalue()


def faults(report: Json) -> set[str]:
    return {one["fault"] for check in report["checks"] for one in check["findings"]}


def test_an_empty_cluster_has_everything_missing_and_each_has_a_fix(tmp_path: Path) -> None:
    with serving(World(raw={"/version": VERSION})) as url:
        code, report, err = doctor(url, tmp_path)
    assert code == 4
    assert faults(report) >= {"CRDMissing", "MPIJobCRDMissing", "OperatorMissing", "NoGPUNodes", "PrometheusNotSet"}
    assert all(one["fix"] for check in report["checks"] for one in check["findings"])
    assert err == ""


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'"x"', b"{", b'{"items": [{}]}', b'{"items": [{"metadata": 5, "spec": []}]}', b'{"items": "x"}']
)
def test_answers_that_are_nonsense_are_told_as_not_checked(tmp_path: Path, body: bytes) -> None:
    paths = (
        "/api/v1/nodes",
        "/api/v1/pods",
        "/apis/apps/v1/deployments",
        "/apis/apps/v1/daemonsets",
        "/apis/coordination.k8s.io/v1/leases",
        "/apis/hyperscale.dev/v1alpha1/plannerpolicies",
        "/apis/hyperscale.dev/v1alpha1/gnntrainingjobs",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/plannerpolicies.hyperscale.dev",
        "/apis/kueue.x-k8s.io",
    )
    with serving(World(raw={"/version": VERSION, **dict.fromkeys(paths, (200, body))})) as url:
        code, report, err = doctor(url, tmp_path)
    assert code in (3, 4)
    assert "NotChecked" in faults(report) or body == b'{"items": "x"}'
    assert "internal error" not in err


def test_a_server_that_never_answers_ends_at_the_timeout(tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        code, report, _ = doctor(f"http://127.0.0.1:{silent.getsockname()[1]}", tmp_path, "--timeout", "0.2")
    assert (code, faults(report)) == (4, {"APIUnreachable"})


def test_a_prometheus_that_never_answers_ends_at_the_timeout(tmp_path: Path) -> None:
    with socket.socket() as silent, serving(World(raw={"/version": VERSION})) as url:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        there = f"http://127.0.0.1:{silent.getsockname()[1]}"
        _, report, _ = doctor(url, tmp_path, "--prometheus", there, "--timeout", "0.3")
    assert "PrometheusTimeout" in faults(report)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(("--prometheus", "ftp://x"), "--prometheus"), (("--timeout", "0"), "--timeout"), (("--nonsense",), "--nonsense")],
)
def test_bad_arguments_are_bad_input(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    code, _, err = doctor("http://127.0.0.1:1", tmp_path, *arguments)
    assert code == 2
    assert said in err
    assert err.count("\n") == 1


def test_a_list_without_end_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hyperscale.cli.doctor.doctor_api.DoctorCluster.max_pages", 3)
    nodes = {"items": [{"metadata": {"name": f"n{at}"}} for at in range(5)]}
    world = World(objects={"/api/v1/nodes": nodes}, raw={"/version": VERSION}, endless=True)
    with serving(world) as url:
        doctor(url, tmp_path)
    assert sum(path.startswith("/api/v1/nodes?") for path in world.asked) == 2 * 3, "once for facts, once as the operator reads them"


OPERATOR = {
    "metadata": {"namespace": "h", "name": "hyperscale", "labels": operator().labels},
    "spec": {
        "template": {
            "spec": {
                "containers": [{"image": "o", "env": [{"name": "HYPERSCALE_HISTORY_URL", "value": "postgresql://me:pw@db.data:5432/runs"}]}]
            }
        }
    },
    "status": {"availableReplicas": 1},
}
SERVICE = "/api/v1/namespaces/data/services/db"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/data/endpointslices"


@pytest.mark.parametrize(
    ("objects", "complaint"),
    [
        ({}, "there is no Service db in namespace data"),
        ({SERVICE: {"spec": {}}, SLICES: {"items": []}}, "has no ready endpoint"),
        ({SERVICE: {"spec": {}}, SLICES: {"items": [{"endpoints": [{"conditions": {"ready": True}}]}]}}, ""),
    ],
)
def test_the_database_of_the_operator_is_looked_for_by_its_service(tmp_path: Path, objects: dict[str, Json], complaint: str) -> None:
    listed = {"/apis/apps/v1/deployments": {"items": [OPERATOR]}}
    with serving(World(objects={**listed, **objects}, raw={"/version": VERSION})) as url:
        _, report, _ = doctor(url, tmp_path)
    found = [one["message"] for check in report["checks"] for one in check["findings"] if one["fault"] == "HistoryUnreachable"]
    assert len(found) == bool(complaint)
    assert all(complaint in one and "pw" not in one for one in found)


def test_a_database_that_is_named_is_asked_and_nothing_is_made(tmp_path: Path) -> None:
    there, absent, broken = tmp_path / "a.sqlite", tmp_path / "b.sqlite", tmp_path / "c.sqlite"
    sqlite3.connect(there).close()
    there.touch()
    broken.write_bytes(b"no database" * 1000)
    told = {}
    with serving(World(raw={"/version": VERSION})) as url:
        for file in (there, absent, broken):
            told[file] = faults(doctor(url, tmp_path, "--history-url", f"sqlite:///{file}")[1])
    assert ["HistoryUnreachable" in told[file] for file in (there, absent, broken)] == [False, True, True]
    assert not absent.exists()
    assert there.stat().st_size == 0


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["metadata", "name", "spec", "status", "labels"]), inner),
    max_leaves=8,
)
NARROWERS: tuple[Callable[[Any], object], ...] = (
    narrow.crd,
    lambda raw: narrow.workload("Deployment", raw),
    narrow.pod,
    lambda raw: narrow.lease(raw, 0.0),
    narrow.node,
    narrow.policy,
    narrow.job,
)


@pytest.mark.parametrize("narrower", range(len(NARROWERS)))
@given(raw=ANY)
@settings(max_examples=50, deadline=None)
def test_no_object_is_too_odd_to_be_narrowed_or_told(narrower: int, raw: object) -> None:
    read(lambda: NARROWERS[narrower](raw))


@given(values=st.lists(st.floats(), max_size=6))
@settings(max_examples=30, deadline=None)
def test_no_value_of_prometheus_is_too_odd_to_be_judged(values: list[float]) -> None:
    def ask(query: str) -> list[Series]:
        if query == "vector(time())":
            return [Series({}, 1e9, 1e9)]
        return [Series({"Hostname": "gpu-1", "source": "gpu-1", "destination": "gpu-2", "__name__": "x"}, one, one) for one in values]

    nodes = [node("gpu-1"), node("gpu-2")]
    asked = QueryAsked(ask, PolicySpec(), NodeIndex(nodes), frozenset({"gpu-1", "gpu-2"}), lambda message: None)
    found = asked.metrics("http://p", "directly")
    report = diagnose(facts(nodes=tuple(nodes), metrics=found), "")
    assert all(one.fix for one in report.findings)


def test_a_failure_in_the_middle_leaves_the_other_figures() -> None:
    def ask(query: str) -> list[Series]:
        if "POWER" in query:
            raise QueryError("PrometheusTimeout", "slow")
        return [Series({}, 1e9, 1e9)] if query == "vector(time())" else []

    found = QueryAsked(ask, PolicySpec(), NodeIndex([]), frozenset(), lambda message: None).metrics("http://p", "directly")
    assert found.figures["power"].failure == ("PrometheusTimeout", "slow")
    assert found.figures["xid"].failure is None
