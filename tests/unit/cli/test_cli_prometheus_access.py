"""The command line asks a Prometheus behind a private authority, with credentials from files, and shows them nowhere."""

from __future__ import annotations

import contextlib
import io
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.pki import Pki
from hyperscale.cli.main import main
from tests.fault.prometheus_stub import PrometheusStub
from tests.unit.cli.api_server import World, kubeconfig, serving, world
from tests.unit.cli.cli_samples import Ran, run

TOKEN = "cli-secret-4711"
WANTED = {"Authorization": f"Bearer {TOKEN}", "X-Scope-OrgID": "team-a"}


def busy(query: str, now: float) -> list[tuple[dict[str, str], str]]:
    if query == "vector(time())":
        return [({}, str(now))]
    return [({"Hostname": "gpu-node-00", "UUID": "GPU-0"}, "25")] if query == "DCGM_FI_DEV_GPU_UTIL" else []


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    made = Pki(tmp_path_factory.mktemp("pki") / "one")
    made.create({})
    return made


@pytest.fixture(scope="module")
def prometheus(pki: Pki) -> Iterator[str]:
    with PrometheusStub() as stub:
        stub.guard(pki.server_certificate, pki.server_key, WANTED, busy)
        yield stub.url.replace("http://", "https://")


@pytest.fixture
def config(tmp_path: Path) -> Iterator[str]:
    with serving(world()) as url:
        yield kubeconfig(tmp_path, url)


def options(pki: Pki, folder: Path, token: str = TOKEN) -> tuple[str, ...]:
    (folder / "token").write_text(token + "\n")
    return "--prometheus-ca-file", str(pki.authority), "--prometheus-token-file", str(folder / "token"), "--prometheus-tenant", "team-a"


def test_a_snapshot_has_the_figures_and_not_the_token(pki: Pki, prometheus: str, config: str, tmp_path: Path) -> None:
    target = tmp_path / "cluster.json"
    ran = run("snapshot", "-o", str(target), "--kubeconfig", config, "--prometheus", prometheus, *options(pki, tmp_path))
    assert ran.code == 0, ran
    taken = json.loads(target.read_text())
    assert taken["metrics"]["available"] is True
    assert TOKEN not in target.read_text() + ran.out + ran.err


def test_the_operators_own_variables_count_where_no_option_is_given(
    pki: Pki, prometheus: str, config: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text(TOKEN)
    given = {"URL": prometheus, "CA_FILE": str(pki.authority), "TOKEN_FILE": str(tmp_path / "token"), "TENANT": "team-a"}
    for name, text in given.items():
        monkeypatch.setenv(f"HYPERSCALE_PROMETHEUS_{name}", text)
    assert "25" in run("topology", "--kubeconfig", config, "-o", "json").out
    (tmp_path / "user").write_text("reader")
    login = ("--prometheus-username-file", str(tmp_path / "user"), "--prometheus-password-file", str(tmp_path / "user"))
    denied = run("topology", "--kubeconfig", config, *login)
    assert "denies access (HTTP 401" in denied.err, "a name and a password take the token's place"


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (("--prometheus-username-file", "/u", "--prometheus-token-file", "/t"), "--prometheus-token-file: a request carries"),
        (("--prometheus-username-file", "/u"), "--prometheus-password-file: basic authentication needs"),
        (("--prometheus-tenant", "a b"), "--prometheus-tenant: a tenant consists of"),
        (("--prometheus-tenant-header", "Cookie"), "--prometheus-tenant-header: 'Cookie' cannot be"),
    ],
)
def test_options_that_contradict_each_other_are_one_line_and_exit_code_2(config: str, extra: tuple[str, ...], message: str) -> None:
    ran: Ran = run("topology", "--kubeconfig", config, *extra)
    assert ran.code == 2
    assert message in ran.err
    assert ran.err.count("\n") == 1


def test_access_to_prometheus_is_of_no_use_with_a_snapshot() -> None:
    ran = run("topology", "--snapshot", "x.json", "--prometheus-ca-file", "ca.crt")
    assert (ran.code, "--prometheus-ca-file: is of no use with --snapshot" in ran.err) == (2, True)


def doctor(config: str, *arguments: str) -> tuple[dict[str, Any], str]:
    """What it finds about Prometheus, and everything that it printed."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        main(["doctor", "--kubeconfig", config, "-o", "json", *arguments])
    (check,) = [one for one in json.loads(out.getvalue())["checks"] if one["check"] == "prometheus"]
    return check, out.getvalue() + err.getvalue()


def test_doctor_asks_with_the_same_options_and_names_a_refused_token(pki: Pki, prometheus: str, config: str, tmp_path: Path) -> None:
    check, shown = doctor(config, "--prometheus", prometheus, *options(pki, tmp_path))
    assert check["findings"] == []
    assert TOKEN not in shown
    check, shown = doctor(config, "--prometheus", prometheus, *options(pki, tmp_path, "another-secret"))
    assert [one["fault"] for one in check["findings"]] == ["PrometheusDenied"]
    assert "another-secret" not in shown
    check, _ = doctor(config, "--prometheus", prometheus)
    assert "--prometheus-ca-file" in check["findings"][0]["message"]


def test_a_certificate_for_another_name_asks_for_another_url_and_not_for_an_authority(
    pki: Pki, prometheus: str, config: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *more: real("127.0.0.1" if host == "prometheus.test" else host, *more))
    port = prometheus.rpartition(":")[2]
    check, _ = doctor(config, "--prometheus", f"https://prometheus.test:{port}", *options(pki, tmp_path))
    message = check["findings"][0]["message"]
    assert "write its URL with a name that is in its certificate" in message
    assert "authority" not in message


def installed(**environment: str) -> World:
    """A cluster with an operator whose container has these variables."""
    served = world()
    variables = [{"name": f"HYPERSCALE_{name}", "value": text} for name, text in environment.items()]
    labels = {"app.kubernetes.io/part-of": "hyperscale", "app.kubernetes.io/component": "operator"}
    container = {"name": "operator", "image": "hyperscale/operator:0.1.0", "env": variables}
    spec = {"replicas": 1, "template": {"spec": {"serviceAccountName": "hyperscale", "containers": [container]}}}
    deployment = {"metadata": {"name": "hyperscale", "namespace": "hyperscale-system", "labels": labels}, "spec": spec, "status": {}}
    served.objects["/apis/apps/v1/deployments"] = {"items": [deployment]}
    return served


PROXY = "/api/v1/namespaces/monitoring/services/https:thanos:9091/proxy/api/v1/query"


def test_doctor_says_how_to_log_in_where_the_api_server_passes_no_credentials_on(tmp_path: Path) -> None:
    served = installed(PROMETHEUS_URL="https://thanos.monitoring:9091", PROMETHEUS_TOKEN_FILE="/prometheus/token", PROMETHEUS_TENANT="a")
    served.raw[PROXY] = (401, b"who are you")
    with serving(served) as url:
        check, _ = doctor(kubeconfig(tmp_path, url))
    (finding,) = check["findings"]
    assert finding["fault"] == "NotChecked"
    assert "--prometheus-token-file" in finding["fix"]
