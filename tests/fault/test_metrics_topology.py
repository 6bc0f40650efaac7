"""The ClusterTopology on a real API server, under the chart's own role: written once, not for noise, not again after a restart."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from e2e.cluster import audit
from e2e.cluster.control_plane import wait_until
from e2e.jobs import PATIENCE_SECONDS
from tests.fault.conftest import Stage
from tests.fault.process import OperatorProcess, running
from tests.fault.prometheus_stub import PrometheusStub

TOPOLOGY = "/apis/hyperscale.dev/v1alpha1/clustertopologies/default"
NODES = ("eu-h100-0", "eu-h100-1")
ONE_READING = 30
LOOKS_READINGS = 8
"""Longer than two looks of the writer: readings are at least 0.3 s apart, its looks a second."""
_noise = itertools.cycle((1.0, 1.1, 0.93, 1.15))


def links(latency: float) -> Callable[[str, float], list[tuple[dict[str, str], str]]]:
    """Two links whose latency is never twice the same."""

    def figures(query: str, now: float) -> list[tuple[dict[str, str], str]]:
        if "link_latency" not in query:
            return []
        pairs = [{"source": a, "destination": b} for a, b in itertools.permutations(NODES, 2)]
        return [(pair, str(now) if query.startswith("timestamp(") else f"{latency * next(_noise):g}") for pair in pairs]

    return figures


def operating(stage: Stage, prometheus: PrometheusStub) -> OperatorProcess:
    return stage.operator(prometheus_url=prometheus.url, metrics_poll_seconds=0.3, topology_seconds=1)


def written(stage: Stage) -> int:
    """Successful writes of its status so far."""
    entries = audit.settled(stage.api, stage.cluster.audit_log)
    return sum(e.resource == "clustertopologies/status" and e.verb in audit.WRITES and e.code < 300 for e in entries)


def latency_of(stage: Stage) -> float:
    found = (stage.api.find(TOPOLOGY) or {}).get("status", {}).get("links") or [{}]
    return float(found[0].get("latencySeconds") or 0.0)


def read_again(prometheus: PrometheusStub, readings: int) -> None:
    asked = prometheus.asked
    wait_until(lambda: prometheus.asked > asked + readings * ONE_READING, PATIENCE_SECONDS, "Prometheus is not asked")


def test_noise_is_not_written_a_change_is_and_a_restart_writes_nothing_that_is_there(stage: Stage, prometheus: PrometheusStub) -> None:
    stage.proxy.reset()
    stage.api.delete(TOPOLOGY)
    prometheus.answer(links(1e-3))
    with running(operating(stage, prometheus), stage.api) as operator:
        operator.wait_ready()
        wait_until(lambda: 0.5e-3 < latency_of(stage) < 2e-3, PATIENCE_SECONDS, f"no ClusterTopology with links:\n{operator.log}")
        seen = stage.api.get(TOPOLOGY)["status"]
        assert (seen["nodeCount"], seen["linkCount"], seen["conditions"][0]["reason"]) == (12, 2, "MetricsAvailable")
        read_again(prometheus, 1)
        before = written(stage)
        read_again(prometheus, LOOKS_READINGS)
        assert written(stage) == before, "noise was written"
        prometheus.answer(links(5e-3))
        wait_until(lambda: latency_of(stage) > 4e-3, PATIENCE_SECONDS, "a slower link was not written")
    after = written(stage)
    assert after > before
    with running(operating(stage, prometheus), stage.api) as operator:
        operator.wait_ready()
        read_again(prometheus, LOOKS_READINGS)
        assert written(stage) == after, "a restart wrote what was there"
