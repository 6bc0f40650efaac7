"""Every way in which the source of metrics can fail ends in its own named state; plans are made and probes are answered meanwhile.

How long the event loop was held is printed, and judged by benchmarks/telemetry.py: a test on a busy machine cannot.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from e2e.cluster.control_plane import wait_until
from e2e.jobs import PATIENCE_SECONDS, Job
from tests.fault.conftest import POLICY, Stage
from tests.fault.process import OperatorProcess, running
from tests.fault.prometheus_stub import PrometheusStub
from tests.fault.test_broken_prometheus import AT_ONCE, LONG, last_reason, planned_without_figures, set_deadline

NODES = ("eu-h100-0", "eu-h100-1")
MOST_MEMORY_BYTES = 512 * 2**20
FLOOD_BYTES = 200 * 2**20


@pytest.fixture(scope="module")
def operator(stage: Stage, prometheus: PrometheusStub) -> Iterator[OperatorProcess]:
    """It reads twice a second over plain HTTP."""
    yield from operator_reading(stage, prometheus.url)


def operator_reading(stage: Stage, url: str, **settings: object) -> Iterator[OperatorProcess]:
    """An operator that reads twice a second from there."""
    stage.proxy.reset()
    set_deadline(stage, LONG)
    try:
        with running(stage.operator((), "", prometheus_url=url, metrics_poll_seconds=0.5, **settings), stage.api) as process:
            process.wait_ready()
            yield process
    finally:
        stage.api.delete(POLICY)


class Watched:
    """Asks for /healthz all the time; tells the longest wait."""

    def __init__(self, operator: OperatorProcess) -> None:
        self._operator = operator
        self._over = threading.Event()
        self.longest_seconds = 0.0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Watched:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        sys.stdout.write(f"the longest wait for /healthz was {self.longest_seconds * 1e3:.0f} ms\n")

    def _run(self) -> None:
        while not self._over.wait(0.02):
            began = time.monotonic()
            assert self._operator.probe("/healthz") == 200
            self.longest_seconds = max(self.longest_seconds, time.monotonic() - began)


FAULTS: dict[str, tuple[Callable[[PrometheusStub], None], set[str]]] = {
    "refuses connections": (lambda stub: stub.refuse(), {"PrometheusUnreachable"}),
    "answers nothing": (lambda stub: stub.stall(), {"PrometheusTimeout"}),
    "drips": (lambda stub: stub.drip(), {"PrometheusTimeout"}),
    "429": (lambda stub: stub.reject(429, Retry_After="3600"), {"PrometheusRefused"}),
    "503": (lambda stub: stub.reject(503), {"PrometheusRefused"}),
    "redirects": (lambda stub: stub.reject(302, Location="http://127.0.0.1:1/"), {"PrometheusRefused"}),
    # On a busy machine the deadline may come before the limit of the body.
    "200 MB": (lambda stub: stub.flood(FLOOD_BYTES), {"PrometheusBodyTooLarge", "PrometheusTimeout"}),
    "no series": (lambda stub: stub.answer(lambda query, now: []), {"MetricsEmpty"}),
}


@pytest.mark.parametrize("fault", list(FAULTS))
def test_a_source_that_fails_has_a_name_for_it_and_holds_nobody_up(
    operator: OperatorProcess, prometheus: PrometheusStub, stage: Stage, job: Job, fault: str
) -> None:
    break_it, reasons = FAULTS[fault]
    set_deadline(stage, LONG)
    prometheus.answer(two_gpus)
    wait_until(lambda: last_reason(operator) == "MetricsAvailable", PATIENCE_SECONDS, "it was not well before")
    set_deadline(stage, AT_ONCE if "PrometheusTimeout" in reasons else LONG)
    break_it(prometheus)
    with Watched(operator):
        wait_until(lambda: last_reason(operator) in reasons, PATIENCE_SECONDS, f"not noticed: {last_reason(operator)}")
        planned_without_figures(operator, job, reasons | {"PrometheusUnreachable"})
    assert operator.peak_memory_bytes() < MOST_MEMORY_BYTES


def two_gpus(query: str, now: float) -> list[tuple[dict[str, str], str]]:
    if query.startswith("timestamp("):
        return [({"Hostname": node, "UUID": f"GPU-{node}"}, str(now)) for node in NODES]
    return [({"Hostname": node, "UUID": f"GPU-{node}"}, "25") for node in NODES] if query == "DCGM_FI_DEV_GPU_UTIL" else []
