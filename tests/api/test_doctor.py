"""`hyperscale doctor` on a real API server and a real Prometheus: a sound installation, and one broken in each of many ways."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from e2e.cluster import audit, prometheus
from e2e.cluster.api import Api
from e2e.cluster.control_plane import ControlPlane, kubeconfig_path, wait_until
from e2e.cluster.ports import free_ports
from tests.api import doctor_scraped as scraped
from tests.api import doctor_world as world
from tests.api.doctor_broken import Broken
from tests.api.doctor_scenarios import SCENARIOS
from tests.api.doctor_site import REPOSITORY, Site, all_fixes, findings, run_as_printed
from tests.fault.prometheus_stub import PrometheusStub


@pytest.fixture(scope="module")
def site(binaries: dict[str, Path], plane: ControlPlane, api: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    try:
        prometheus.executable()
    except prometheus.PrometheusMissingError as error:
        pytest.skip(str(error))
    helm = [str(binaries["helm"]), "--kubeconfig", str(plane.kubeconfig), "--namespace", world.NAMESPACE]
    api.apply(f"/api/v1/namespaces/{world.NAMESPACE}", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": world.NAMESPACE}})
    chart = str(REPOSITORY / "charts" / "hyperscale")
    installed = subprocess.run([*helm, "install", "hyperscale", chart, "--take-ownership"], capture_output=True, text=True, check=False)
    assert installed.returncode == 0, installed.stderr
    try:
        world.build(api, binaries)
        directory = tmp_path_factory.mktemp("prometheus")
        with scraped.Exporter(scraped.dcgm(), scraped.links()) as exporter, scraped.serving_prometheus(directory, exporter) as url:
            tools = os.pathsep.join(str(binaries[name].parent) for name in ("kubectl", "helm"))
            yield Site(api, plane.kubeconfig, exporter, url, tools)
    finally:
        world.remove(api)
        subprocess.run([*helm, "uninstall", "hyperscale", "--ignore-not-found"], capture_output=True, check=False)


def test_a_sound_installation_has_no_finding_above_a_note(site: Site) -> None:
    code, report, table = site.doctor()
    assert findings(report) == {}, table
    assert code == 0
    assert report["state"] in ("ok", "info")
    assert {check["check"] for check in report["checks"]} >= {"api", "rights", "crds", "mpi-operator", "gpus", "queries", "links"}


def _settled(site: Site, broken: Broken) -> tuple[int, str]:
    """The doctor's answer after the fix; a CRD takes a moment to be served again, a role to be in force."""
    last: list[tuple[int, str]] = []

    def gone() -> bool:
        code, report, table = site.doctor(*broken.arguments)
        last.append((code, table))
        return broken.fault not in findings(report)

    wait_until(gone, 60.0, f"{broken.fault} is still found")
    return last[-1]


@pytest.mark.parametrize("broken", SCENARIOS, ids=lambda broken: broken.name)
def test_the_fault_is_found_and_the_right_fix_named(site: Site, broken: Broken) -> None:
    try:
        broken.break_it(site)
        code, report, table = site.doctor(*broken.arguments)
        if broken.runs:
            for command in all_fixes(report, broken.fault):
                run_as_printed(site, command)
            mended, after = _settled(site, broken)
            assert mended == 0, after
    finally:
        broken.mend(site)
    found = findings(report)
    assert broken.fault in found, table
    fix = found[broken.fault]["fix"]
    for text in broken.fix:
        assert any(part in fix for part in text.split("|")), fix
    assert code == broken.code, table
    assert set(found) <= {broken.fault} | broken.also, table
    assert f"fix:   {fix}" in table


def test_prometheus_that_only_the_cluster_can_reach_is_asked_through_the_api_server(site: Site) -> None:
    address = scraped.own_address()
    if address is None:
        pytest.skip("this machine has no address but loopback, which the API server's proxy refuses")
    with scraped.forwarded(address, site.url) as port:
        world.put_service(site.api, "monitoring", "prometheus", address, port)
        variable = {"name": "HYPERSCALE_PROMETHEUS_URL", "value": f"http://prometheus.monitoring:{port}"}
        world.set_variable(site.api, variable)
        world.wait_proxied(site.api, f"/api/v1/namespaces/monitoring/services/prometheus:{port}/proxy/api/v1/query?query=1")
        try:
            code, _, table = site.doctor(prometheus=False)
        finally:
            world.set_variable(site.api, {**variable, "value": ""})
            world.remove_service(site.api, "monitoring", "prometheus")
    assert code == 0, table
    assert "asked through the API server" in table


def test_without_a_prometheus_the_one_that_is_in_the_cluster_is_proposed(site: Site) -> None:
    world.put_service(site.api, "monitoring", "kube-prometheus", "192.0.2.1", 9090)
    try:
        code, report, table = site.doctor(prometheus=False)
    finally:
        world.remove_service(site.api, "monitoring", "kube-prometheus")
    found = findings(report)
    assert (code, set(found)) == (3, {"PrometheusNotSet"}), table
    assert "prometheus.url=http://kube-prometheus.monitoring:9090" in found["PrometheusNotSet"]["fix"]


def test_a_clock_that_is_off_is_told_with_what_sets_it_right(site: Site) -> None:
    with PrometheusStub() as stub:
        stub.answer(lambda query, now: [({}, str(now + 3600.0))] if query == "vector(time())" else [])
        _, report, table = site.doctor("--prometheus", stub.url)
    found = findings(report)
    assert found["PrometheusClockSkew"]["state"] == "error", table
    assert "timedatectl" in found["PrometheusClockSkew"]["fix"]


def test_a_user_who_may_read_little_is_told_what_could_not_be_checked(site: Site, plane: ControlPlane) -> None:
    kubeconfig = kubeconfig_path(plane.directory, "scheduler")
    _, report, table = site.doctor("--kubeconfig", str(kubeconfig))
    assert findings(report)["NotChecked"]["state"] == "warning", table
    for check in report["checks"]:
        for one in check["findings"]:
            assert one["fix"], one


def test_an_api_server_that_does_not_answer_is_the_one_finding(site: Site, tmp_path: Path) -> None:
    raw = yaml.safe_load(site.kubeconfig.read_text(encoding="utf-8"))
    raw["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{free_ports(1)[0]}"
    broken = tmp_path / "kubeconfig"
    broken.write_text(yaml.safe_dump(raw), encoding="utf-8")
    code, report, table = site.doctor("--kubeconfig", str(broken))
    assert code == 4
    assert set(findings(report)) == {"APIUnreachable"}, table


def test_nothing_is_written_by_a_run(site: Site, plane: ControlPlane) -> None:
    site.doctor()
    end = audit.caught_up(site.api, plane.audit_log)  # the log is written late, and its last line may not be whole
    done = [json.loads(line) for line in plane.audit_log.read_bytes()[:end].splitlines()[-2000:]]
    ours = [one for one in done if "OpenAPI-Generator" in str(one.get("userAgent"))]
    assert ours
    written = {(one["verb"], one["objectRef"]["resource"]) for one in ours if one["verb"] not in ("get", "list", "watch")}
    assert written <= {("create", "subjectaccessreviews"), ("create", "selfsubjectaccessreviews")}
