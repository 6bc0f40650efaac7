"""A Prometheus behind a private CA that wants a name and a password, and another header for the tenant."""

from __future__ import annotations

import base64
from contextlib import contextmanager
from pathlib import Path

from e2e.cluster.control_plane import wait_until
from e2e.cluster.pki import Pki
from e2e.jobs import PATIENCE_SECONDS
from tests.fault.conftest import Stage
from tests.fault.mounted import Mounted
from tests.fault.prometheus_stub import PrometheusStub
from tests.fault.test_broken_prometheus import last_reason
from tests.fault.test_metrics_faults import operator_reading, two_gpus

PASSWORD = "pass-secret-1234"


def test_a_name_and_a_password_from_files_are_sent_as_basic_authentication(
    stage: Stage, prometheus: PrometheusStub, authorities: tuple[Pki, Pki], tmp_path: Path
) -> None:
    mounted = Mounted(tmp_path)
    mounted.write(**{"ca.crt": authorities[0].authority.read_text(), "username": "reader", "password": PASSWORD + "\n"})
    pair = base64.b64encode(f"reader:{PASSWORD}".encode()).decode()
    one = authorities[0]
    prometheus.guard(one.server_certificate, one.server_key, {"Authorization": f"Basic {pair}", "THANOS-TENANT": "team-a"}, two_gpus)
    files = {f"prometheus_{kind}_file": mounted.folder / name for kind, name in (("ca", "ca.crt"), ("username", "username"))}
    more = {"prometheus_password_file": mounted.folder / "password", "prometheus_tenant": "team-a"}
    url = prometheus.url.replace("http://", "https://")
    with contextmanager(operator_reading)(stage, url, prometheus_tenant_header="THANOS-TENANT", **files, **more) as process:
        wait_until(lambda: last_reason(process) == "MetricsAvailable", PATIENCE_SECONDS, "no figures")
        assert PASSWORD not in process.log
