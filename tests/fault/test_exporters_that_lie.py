"""Exporters that answer in time and are wrong: frozen, in another unit, twice, of strangers, with gaps. Each ends in a named state."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import permutations

import pytest

from e2e.cluster.control_plane import wait_until
from e2e.cluster.topology import DEFAULT_FILE, load
from e2e.jobs import PATIENCE_SECONDS, Job
from hyperscale.model.api.policy import MetricQueries
from hyperscale.model.metrics_reading import FIGURES
from tests.fault.conftest import POLICY, Stage
from tests.fault.process import OperatorProcess, running
from tests.fault.prometheus_stub import PrometheusStub
from tests.fault.watching import wait_created

TOPOLOGY = load(DEFAULT_FILE)
GPUS = {machine.name: TOPOLOGY.gpus_of(machine) for machine in TOPOLOGY.nodes}
NODES = tuple(GPUS)
ONE_READING = 2 * len(FIGURES)
FREEZE_READINGS = 4
WORKERS = 9
"""More than a node has GPUs: links count."""
ESTIMATED, UNKNOWN_USE = "LinksEstimatedFromLabels", "UtilizationUnknown"
QUERIES = {getattr(MetricQueries(), figure): figure for figure in FIGURES}

Vector = list[tuple[dict[str, str], str]]
Exporter = Callable[[str, float], Vector]
"""(figure, time) to labels and value of each series."""


def gpus(value: str, nodes: tuple[str, ...] = NODES, **labels: str) -> Vector:
    return [({"Hostname": node, "UUID": f"GPU-{node}-{index}", **labels}, value) for node in nodes for index in range(GPUS.get(node, 1))]


def links(latency: str, bandwidth: str) -> dict[str, Vector]:
    pairs = [{"source": a, "destination": b} for a, b in permutations(NODES, 2)]
    return {"link_latency": [(pair, latency) for pair in pairs], "link_bandwidth": [(pair, bandwidth) for pair in pairs]}


def healthy(figure: str, now: float) -> Vector:
    """Idle GPUs whose power moves, and good links."""
    known = {
        "gpu_utilization": gpus("1"),
        "temperature": gpus("40"),
        "power": gpus(f"{60 + now % 5:.3f}"),
        **links("0.00005", "1250000000"),
    }
    return known.get(figure, [])


def frozen(figure: str, _now: float) -> Vector:
    return {"gpu_utilization": gpus("87"), "temperature": gpus("71"), "power": gpus("388.25")}.get(figure, [])


def twice(figure: str, now: float) -> Vector:
    """Two exporters on every node that contradict each other."""
    return [*healthy(figure, now), *gpus("77", instance="second")] if figure == "gpu_utilization" else healthy(figure, now)


def strangers(figure: str, now: float) -> Vector:
    """Series of another cluster."""
    return gpus("1", ("other-1", "other-2")) if figure == "gpu_utilization" else []


def without_use(figure: str, now: float) -> Vector:
    return [] if figure == "gpu_utilization" else healthy(figure, now)


def milliseconds(figure: str, now: float) -> Vector:
    """Latency in another unit."""
    return links("0.05", "1")["link_latency"] if figure == "link_latency" else healthy(figure, now)


@pytest.fixture(scope="module")
def operator(stage: Stage, prometheus: PrometheusStub) -> Iterator[OperatorProcess]:
    """It reads twice a second."""
    stage.proxy.reset()
    stage.write_policy(metricsTimeoutSeconds=60, limits={"freezeReadings": FREEZE_READINGS, "jumpReadings": 1000, "unitReadings": 1000})
    export(prometheus, healthy)
    try:
        with running(stage.operator(prometheus_url=prometheus.url, metrics_poll_seconds=0.5), stage.api) as process:
            process.wait_ready()
            yield process
    finally:
        stage.api.delete(POLICY)


def export(prometheus: PrometheusStub, exporter: Exporter) -> None:
    """From now on Prometheus has these series, freshly scraped."""

    def answered(query: str, now: float) -> Vector:
        figure = QUERIES.get(query.removeprefix("timestamp(").removesuffix(")") if query.startswith("timestamp(") else query, "")
        found = exporter(figure, now)
        return [(labels, str(now)) for labels, _ in found] if query.startswith("timestamp(") else found

    prometheus.answer(answered)


def read_often(prometheus: PrometheusStub, readings: int) -> None:
    """Until `readings` whole readings more have been made."""
    asked = prometheus.asked
    wait_until(lambda: prometheus.asked > asked + readings * ONE_READING, PATIENCE_SECONDS, "Prometheus is not asked")


def degraded(operator: OperatorProcess, job: Job) -> tuple[str, str]:
    """Reason and message of a new job's Degraded condition; every probe must be answered meanwhile."""
    job.create(workers={"minReplicas": WORKERS, "maxReplicas": WORKERS})
    assert operator.probe("/healthz") == 200
    wait_created(job)
    assert len(set(job.nodes())) > 1
    assert all(figure == figure for figure in job.plan()["predicted"].values())
    found = job.condition("Degraded")
    return found["reason"], found.get("message", "")


def test_good_figures_are_used(operator: OperatorProcess, prometheus: PrometheusStub, job: Job) -> None:
    export(prometheus, healthy)
    read_often(prometheus, 2)
    reason, message = degraded(operator, job)
    assert ESTIMATED not in message
    assert UNKNOWN_USE not in message
    assert reason not in ("MetricsStale", "MetricsEmpty")


def test_an_exporter_that_repeats_itself_under_new_timestamps_is_stale(
    operator: OperatorProcess, prometheus: PrometheusStub, job: Job
) -> None:
    export(prometheus, frozen)
    wait_until(lambda: re.findall(r"metrics: (\w+)", operator.log)[-1:] == ["MetricsStale"], PATIENCE_SECONDS, "not noticed")
    reason, message = degraded(operator, job)
    assert reason == "MetricsStale"
    assert "frozen" in message


def test_a_unit_that_changes_is_not_taken_for_a_slow_network(operator: OperatorProcess, prometheus: PrometheusStub, job: Job) -> None:
    export(prometheus, healthy)
    read_often(prometheus, 4)
    export(prometheus, milliseconds)
    read_often(prometheus, 3)
    _, message = degraded(operator, job)
    assert ESTIMATED in message
    assert job.plan()["predicted"]["communicationSeconds"] < 60


def test_two_exporters_that_contradict_each_other_say_nothing(operator: OperatorProcess, prometheus: PrometheusStub, job: Job) -> None:
    export(prometheus, twice)
    read_often(prometheus, 3)
    assert UNKNOWN_USE in degraded(operator, job)[1]


def test_a_figure_that_is_missing_is_unknown_and_not_zero(operator: OperatorProcess, prometheus: PrometheusStub, job: Job) -> None:
    export(prometheus, without_use)
    read_often(prometheus, 3)
    assert UNKNOWN_USE in degraded(operator, job)[1]


def test_series_of_another_cluster_are_named(operator: OperatorProcess, prometheus: PrometheusStub, job: Job) -> None:
    export(prometheus, strangers)
    read_often(prometheus, 3)
    reason, message = degraded(operator, job)
    assert reason == "MetricsEmpty"
    assert "name no node of this cluster (other-1, other-2)" in message
