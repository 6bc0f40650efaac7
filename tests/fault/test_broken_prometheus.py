"""A Prometheus that refuses, stalls, never ends or answers nonsense: plans come from labels and say so, and nothing waits for it."""

from __future__ import annotations

import itertools
import re
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
AT_ONCE, LONG = 1, 60
"""Seconds of deadline for a question: for one that must reach it, and for one that must not, however busy the machine."""


@pytest.fixture(scope="module")
def operator(stage: Stage, prometheus: PrometheusStub) -> Iterator[OperatorProcess]:
    """It reads twice a second; when it starts, Prometheus stalls."""
    stage.proxy.reset()
    prometheus.stall()
    set_deadline(stage, AT_ONCE)
    try:
        with running(stage.operator(prometheus_url=prometheus.url, metrics_poll_seconds=0.5), stage.api) as process:
            process.wait_ready()
            yield process
    finally:
        stage.api.delete(POLICY)


def set_deadline(stage: Stage, seconds: int) -> None:
    """How long the next readings wait for an answer."""
    stage.write_policy(metricsTimeoutSeconds=seconds)


def last_reason(operator: OperatorProcess) -> str:
    """What the log said last about the metrics."""
    found: list[str] = re.findall(r'"message": "metrics: (\w*)"', operator.log)
    return found[-1] if found else ""


def wait_told(job: Job, words: str) -> None:
    """Until plans of this moment are said to be made without figures for a reason in these words."""
    numbers = itertools.count(1)

    def told() -> bool:
        look = Job(job.api, job.namespace, f"look-{next(numbers)}")
        look.create(startPolicy="Never")
        look.wait_reason("StartPolicyNever")
        return words in look.condition("Degraded").get("message", "")

    wait_until(told, PATIENCE_SECONDS, f"{words} is not said")


def planned_without_figures(operator: OperatorProcess, job: Job, reasons: set[str]) -> None:
    """Create the job; it must be planned, say one of `reasons`, and meanwhile every probe must be answered."""

    def created() -> bool:
        assert operator.probe("/healthz") == 200
        return "mpiJobRef" in job.status()

    job.create()
    job.wait(created, "no MPIJob")
    degraded = job.condition("Degraded")
    assert degraded["status"] == "True"
    assert degraded["reason"] in reasons
    assert degraded["message"]
    assert len(job.nodes()) == 2


def test_a_prometheus_that_stalls_holds_up_neither_start_nor_plans(operator: OperatorProcess, prometheus: PrometheusStub, job: Job) -> None:
    assert last_reason(operator) == "PrometheusTimeout"
    planned_without_figures(operator, job, {"PrometheusTimeout"})


def test_a_probe_is_answered_while_a_question_to_prometheus_is_not(
    operator: OperatorProcess, prometheus: PrometheusStub, stage: Stage
) -> None:
    set_deadline(stage, LONG)
    prometheus.stall()

    def answered_meanwhile() -> bool:
        """The same question waits before the probe and after its answer."""
        waiting = prometheus.waiting()
        assert operator.probe("/healthz") == 200
        return bool(waiting & prometheus.waiting())

    wait_until(answered_meanwhile, PATIENCE_SECONDS, "no probe was answered while Prometheus was asked")


def test_a_prometheus_that_is_not_there_is_named(operator: OperatorProcess, prometheus: PrometheusStub, stage: Stage, job: Job) -> None:
    set_deadline(stage, LONG)
    prometheus.refuse()
    wait_until(lambda: last_reason(operator) == "PrometheusUnreachable", PATIENCE_SECONDS, "not noticed")
    # The reading that was under way when it went says that the connection was closed; each one after it, that it is refused.
    wait_told(job, "refused")
    planned_without_figures(operator, job, {"PrometheusUnreachable"})
    assert "refused" in job.condition("Degraded")["message"]


def test_an_endless_answer_is_cut_off(operator: OperatorProcess, prometheus: PrometheusStub, stage: Stage, job: Job) -> None:
    set_deadline(stage, AT_ONCE)
    prometheus.drown()
    # On a busy machine the deadline may come before the limit of the body.
    reasons = {"PrometheusBodyTooLarge", "PrometheusTimeout"}
    wait_until(lambda: last_reason(operator) in reasons, PATIENCE_SECONDS, "not noticed")
    planned_without_figures(operator, job, reasons)
    assert operator.peak_memory_bytes() < MOST_MEMORY_BYTES


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "1e300"])
def test_figures_that_cannot_be_true_count_as_none(
    operator: OperatorProcess, prometheus: PrometheusStub, stage: Stage, job: Job, value: str
) -> None:
    def figures(query: str, now: float) -> list[tuple[dict[str, str], str]]:
        said = str(now) if query.startswith("timestamp(") else value
        return [({"Hostname": node, "UUID": f"GPU-{node}", "source": node, "destination": NODES[0]}, said) for node in NODES]

    set_deadline(stage, LONG)
    prometheus.answer(figures)
    asked = prometheus.asked
    wait_until(lambda: prometheus.asked > asked + 2 * ONE_READING, PATIENCE_SECONDS, "Prometheus is not asked")
    planned_without_figures(operator, job, {"MetricsEmpty"})
    assert all(figure == figure for figure in job.plan()["predicted"].values())


def test_figures_that_come_back_are_used_again(operator: OperatorProcess, prometheus: PrometheusStub, stage: Stage, job: Job) -> None:
    def figures(query: str, now: float) -> list[tuple[dict[str, str], str]]:
        return [({"Hostname": node, "UUID": f"GPU-{node}"}, str(now)) for node in NODES] if query.startswith("timestamp(") else busy(query)

    def busy(query: str) -> list[tuple[dict[str, str], str]]:
        return [({"Hostname": node, "UUID": f"GPU-{node}"}, "25") for node in NODES] if query == "DCGM_FI_DEV_GPU_UTIL" else []

    set_deadline(stage, LONG)
    prometheus.refuse()
    wait_until(lambda: last_reason(operator) == "PrometheusUnreachable", PATIENCE_SECONDS, "not noticed")
    prometheus.answer(figures)
    wait_until(lambda: last_reason(operator) != "PrometheusUnreachable", PATIENCE_SECONDS, "not noticed")
    job.create()
    wait_created(job)
    assert job.condition("Degraded").get("reason") not in ("PrometheusUnreachable", "MetricsEmpty")
