"""A source of metrics behind a certificate that no known authority signed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster.control_plane import wait_until
from e2e.jobs import PATIENCE_SECONDS, Job
from tests.fault.conftest import Stage
from tests.fault.process import OperatorProcess
from tests.fault.prometheus_stub import PrometheusStub
from tests.fault.test_broken_prometheus import planned_without_figures
from tests.fault.test_metrics_faults import operator_reading


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of 127.0.0.1, self-signed."""
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command, *subject, "-keyout", str(file), "-out", f"{file}.crt"], check=True, capture_output=True)
    with file.open("ab") as both:
        both.write(Path(f"{file}.crt").read_bytes())
    return str(file)


@pytest.fixture(scope="module")
def operator(stage: Stage, prometheus: PrometheusStub, certificate: str) -> Iterator[OperatorProcess]:
    """It reads twice a second over TLS."""
    prometheus.encrypt(certificate)
    yield from operator_reading(stage, prometheus.url.replace("http://", "https://"))


def test_a_certificate_that_nobody_vouches_for_is_refused_and_named(
    operator: OperatorProcess, prometheus: PrometheusStub, job: Job
) -> None:
    wait_until(lambda: "CERTIFICATE_VERIFY_FAILED" in operator.log, PATIENCE_SECONDS, "not noticed")
    planned_without_figures(operator, job, {"PrometheusUnreachable"})
    assert "certificate" in job.condition("Degraded")["message"].lower()
    assert prometheus.asked == 0, "nothing was asked of a stranger"
