"""A Prometheus that refuses, stalls, never ends or answers nonsense: plans come from labels and say so, and nothing waits for it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from e2e.cluster.control_plane import wait_until
from e2e.jobs import PATIENCE_SECONDS, Job
from hyperscale.model.metrics_reading import FIGURES
from tests.fault.conftest import POLICY, Stage
from tests.fault.process import OperatorProcess, running
from tests.fault.prometheus_stub import PrometheusStub
from tests.fault.watching import wait_created

NODES = ("eu-h100-0", "eu-h100-1")
ONE_READING = 2 * len(FIGURES)
"""Most questions of one reading: each figure, and the time of its scrape."""
MOST_MEMORY_BYTES = 512 * 2**20
"""What the chart grants the operator."""


@pytest.fixture(scope="module")
def operator(stage: Stage, prometheus: PrometheusStub) -> Iterator[OperatorProcess]:
    """It reads twice a second; when it starts, Prometheus stalls."""
    stage.proxy.reset()
    prometheus.stall()
    stage.write_policy(deadlines={"metricsSeconds": 1})
    try:
        with running(stage.operator(prometheus_url=prometheus.url, metrics_poll_seconds=0.5), stage.api) as process:
            process.wait_ready()
            yield process
    finally:
        stage.api.delete(POLICY)


def last_reason(operator: OperatorProcess) -> str:
    """What the log said last about the metrics."""
    found: list[str] = re.findall(r'"message": "metrics: (\w*)"', operator.log)
    return found[-1] if found else ""


def planned_without_figures(operator: OperatorProcess, job: Job, reasons: set[str]) -> None:
    """Create the job; it must be planned, say one of `reasons`, and meanwhile every probe must be answered."""
    slowest = 0.0

    def created() -> bool:
        nonlocal slowest
        asked = time.monotonic()
        assert operator.probe("/healthz") == 200
        slowest = max(slowest, time.monotonic() - asked)
        return "mpiJobRef" in job.status()

    job.create()
    job.wait(created, "no MPIJob")
    degraded = job.condition("Degraded")
    assert degraded["status"] == "True"
    assert degraded["reason"] in reasons
    assert degraded["message"]
    assert len(job.nodes()) == 2
    assert slowest < 3, "the probes' own timeout in the chart"


def test_a_prometheus_that_stalls_holds_up_neither_start_nor_plans(operator: OperatorProcess, prometheus: PrometheusStub, job: Job) -> None:
    assert last_reason(operator) == "PrometheusTimeout"
    planned_without_figures(operator, job, {"PrometheusTimeout"})


def test_a_prometheus_that_is_not_there_is_named(operator: OperatorProcess, prometheus: PrometheusStub, job: Job) -> None:
    prometheus.refuse()
    wait_until(lambda: last_reason(operator) == "PrometheusUnreachable", PATIENCE_SECONDS, "not noticed")
    time.sleep(1.5)  # the reading that was under way when it went says that the connection was closed; the next ones that it is refused
    planned_without_figures(operator, job, {"PrometheusUnreachable"})
    assert "refused" in job.condition("Degraded")["message"]


def test_an_endless_answer_is_cut_off(operator: OperatorProcess, prometheus: PrometheusStub, job: Job) -> None:
    prometheus.drown()
    # On a busy machine the deadline may come before the limit of the body.
    reasons = {"PrometheusBodyTooLarge", "PrometheusTimeout"}
    wait_until(lambda: last_reason(operator) in reasons, PATIENCE_SECONDS, "not noticed")
    planned_without_figures(operator, job, reasons)
    assert operator.peak_memory_bytes() < MOST_MEMORY_BYTES


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "1e300"])
def test_figures_that_cannot_be_true_count_as_none(operator: OperatorProcess, prometheus: PrometheusStub, job: Job, value: str) -> None:
    def figures(query: str, now: float) -> list[tuple[dict[str, str], str]]:
        said = str(now) if query.startswith("timestamp(") else value
        return [({"Hostname": node, "UUID": f"GPU-{node}", "source": node, "destination": NODES[0]}, said) for node in NODES]

    prometheus.answer(figures)
    asked = prometheus.asked
    wait_until(lambda: prometheus.asked > asked + 2 * ONE_READING, PATIENCE_SECONDS, "Prometheus is not asked")
    planned_without_figures(operator, job, {"MetricsEmpty"})
    assert all(figure == figure for figure in job.plan()["predicted"].values())


def test_figures_that_come_back_are_used_again(operator: OperatorProcess, prometheus: PrometheusStub, job: Job) -> None:
    def figures(query: str, now: float) -> list[tuple[dict[str, str], str]]:
        return [({"Hostname": node, "UUID": f"GPU-{node}"}, str(now)) for node in NODES] if query.startswith("timestamp(") else busy(query)

    def busy(query: str) -> list[tuple[dict[str, str], str]]:
        return [({"Hostname": node, "UUID": f"GPU-{node}"}, "25") for node in NODES] if query == "DCGM_FI_DEV_GPU_UTIL" else []

    prometheus.refuse()
    wait_until(lambda: last_reason(operator) == "PrometheusUnreachable", PATIENCE_SECONDS, "not noticed")
    prometheus.answer(figures)
    wait_until(lambda: last_reason(operator) != "PrometheusUnreachable", PATIENCE_SECONDS, "not noticed")
    job.create()
    wait_created(job)
    assert job.condition("Degraded").get("reason") not in ("PrometheusUnreachable", "MetricsEmpty")
