"""A Prometheus behind a private CA that wants a token, a password or a tenant: all from files, which may change, and shown nowhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster.control_plane import wait_until
from e2e.cluster.pki import Pki
from e2e.jobs import PATIENCE_SECONDS, Job
from tests.fault.conftest import Stage
from tests.fault.mounted import Mounted
from tests.fault.process import OperatorProcess
from tests.fault.prometheus_stub import PrometheusStub
from tests.fault.test_broken_prometheus import last_reason
from tests.fault.test_metrics_faults import operator_reading, two_gpus

TOKEN = "first-secret-4711"
NEXT_TOKEN = "second-secret-0815"


@pytest.fixture(scope="module")
def mounted(tmp_path_factory: pytest.TempPathFactory) -> Mounted:
    return Mounted(tmp_path_factory.mktemp("mounted"))


@pytest.fixture(scope="module")
def operator(stage: Stage, prometheus: PrometheusStub, authorities: tuple[Pki, Pki], mounted: Mounted) -> Iterator[OperatorProcess]:
    """It knows the first authority and the first token."""
    mounted.write(**{"ca.crt": authorities[0].authority.read_text(), "token": TOKEN + "\n"})
    url = prometheus.url.replace("http://", "https://")
    access = {"prometheus_ca_file": mounted.folder / "ca.crt", "prometheus_token_file": mounted.folder / "token"}
    yield from operator_reading(stage, url, prometheus_tenant="team-a", **access)


def demand(prometheus: PrometheusStub, pki: Pki, token: str) -> None:
    wanted = {"Authorization": f"Bearer {token}", "X-Scope-OrgID": "team-a"}
    prometheus.guard(pki.server_certificate, pki.server_key, wanted, two_gpus)


def wait_reason(operator: OperatorProcess, reason: str) -> None:
    wait_until(lambda: last_reason(operator) == reason, PATIENCE_SECONDS, f"{reason} expected, {last_reason(operator)} seen")


def test_figures_come_from_a_private_authority_with_token_and_tenant(
    operator: OperatorProcess, prometheus: PrometheusStub, authorities: tuple[Pki, Pki], job: Job
) -> None:
    demand(prometheus, authorities[0], TOKEN)
    wait_reason(operator, "MetricsAvailable")


def test_a_token_and_an_authority_that_are_exchanged_are_read_again(
    operator: OperatorProcess, prometheus: PrometheusStub, authorities: tuple[Pki, Pki], mounted: Mounted
) -> None:
    demand(prometheus, authorities[1], NEXT_TOKEN)
    wait_reason(operator, "PrometheusUnreachable")
    mounted.write(**{"ca.crt": authorities[1].authority.read_text(), "token": TOKEN})
    wait_reason(operator, "PrometheusDenied")
    mounted.write(**{"ca.crt": authorities[1].authority.read_text(), "token": NEXT_TOKEN})
    wait_reason(operator, "MetricsAvailable")


def test_a_refused_credential_is_told_with_its_setting_and_shown_nowhere(
    operator: OperatorProcess, prometheus: PrometheusStub, authorities: tuple[Pki, Pki], mounted: Mounted, job: Job, stage: Stage
) -> None:
    mounted.write(**{"ca.crt": authorities[1].authority.read_text(), "token": TOKEN})
    demand(prometheus, authorities[1], NEXT_TOKEN)
    wait_reason(operator, "PrometheusDenied")
    job.create()
    job.wait(lambda: "mpiJobRef" in job.status(), "no MPIJob")
    message = job.condition("Degraded")["message"]
    assert "HTTP 401" in message
    assert "prometheus.auth" in message
    shown = [operator.log, json.dumps(job.status()), json.dumps(job.mpijob())]
    shown += [json.dumps(stage.api.find("/apis/hyperscale.dev/v1alpha1/clustertopologies/default") or {})]
    for pid in (operator.pid, *operator.planner_pids()):
        shown += [Path(f"/proc/{pid}/{file}").read_text(errors="replace") for file in ("cmdline", "environ")]
    assert all(TOKEN not in text and NEXT_TOKEN not in text for text in shown)


def test_a_redirect_takes_the_credential_nowhere(
    operator: OperatorProcess, prometheus: PrometheusStub, authorities: tuple[Pki, Pki], mounted: Mounted
) -> None:
    mounted.write(**{"ca.crt": authorities[1].authority.read_text(), "token": NEXT_TOKEN})
    demand(prometheus, authorities[1], NEXT_TOKEN)
    wait_reason(operator, "MetricsAvailable")
    with PrometheusStub() as elsewhere:
        elsewhere.guard(authorities[1].server_certificate, authorities[1].server_key, {}, two_gpus)
        prometheus.redirect(authorities[1].server_certificate, authorities[1].server_key, elsewhere.url.replace("http:", "https:"))
        wait_reason(operator, "PrometheusRefused")
        assert elsewhere.asked == 0


@pytest.mark.parametrize("token", ["", "two\nlines"])
def test_a_token_file_without_a_usable_token_is_named(
    operator: OperatorProcess, prometheus: PrometheusStub, authorities: tuple[Pki, Pki], mounted: Mounted, job: Job, token: str
) -> None:
    mounted.write(**{"ca.crt": authorities[1].authority.read_text(), "token": NEXT_TOKEN})
    demand(prometheus, authorities[1], NEXT_TOKEN)
    wait_reason(operator, "MetricsAvailable")
    mounted.write(**{"ca.crt": authorities[1].authority.read_text(), "token": token})
    wait_reason(operator, "PrometheusCredentials")
    asked = prometheus.asked
    job.create()
    job.wait(lambda: "mpiJobRef" in job.status(), "no MPIJob")
    assert str(mounted.folder / "token") in job.condition("Degraded")["message"]
    assert prometheus.asked == asked
