"""What is measured decides: load and slow links are avoided; without measurements the plan comes from labels, and says so."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

import pytest

from e2e.cluster.api import Object
from e2e.cluster.cluster import Cluster
from e2e.cluster.operator import OperatorProcess
from e2e.jobs import Job, namespace

SPREAD: Final[Object] = {"workers": {"minReplicas": 2, "maxReplicas": 2, "resources": {"limits": {"nvidia.com/gpu": 8}}}}
"""Eight GPUs a worker fill a node each."""

UNANSWERED = ("PrometheusUnreachable", "PrometheusTimeout")
POLL_SECONDS = 2.0
"""Between two readings of the operator, and somewhat more than one takes."""
SEEN_SECONDS = 60.0
"""Patience with two scrapes and one poll of the operator."""


@pytest.fixture
def space(calm: Cluster, operator: OperatorProcess, request: pytest.FixtureRequest) -> Iterator[str]:
    calm.reset_exporter()
    calm.wait_scraped(time.time())  # else the first plan keeps off what the test before made bad
    time.sleep(2 * POLL_SECONDS)
    with namespace(calm.api(), "metrics") as name:
        yield name


def planned(calm: Cluster, space: str, name: str, **spec: Any) -> Job:  # noqa: ANN401 - any JSON
    """A job that is only planned, so that nothing it runs changes the next plan."""
    job = Job(calm.api(), space, name)
    job.create(startPolicy="Never", **spec)
    job.wait_reason("StartPolicyNever")
    return job


def planned_elsewhere(calm: Cluster, space: str, avoided: set[str]) -> Job:
    """Plan again and again until the metrics have arrived and the plan keeps off `avoided`."""
    deadline = time.monotonic() + SEEN_SECONDS
    attempt = 0
    while True:
        attempt += 1
        job = planned(calm, space, f"again-{attempt}")
        if not avoided & set(job.nodes()) or time.monotonic() > deadline:
            return job
        time.sleep(1.0)


def test_load_on_the_planned_nodes_moves_the_next_identical_job_elsewhere(calm: Cluster, space: str) -> None:
    first = planned(calm, space, "first")
    assert first.condition("Degraded")["reason"] in ("MetricsAvailable", "IntraNodeLinkAssumed")
    loaded = set(first.nodes())
    for node in loaded:
        calm.set_load(node, 97)
    again = planned_elsewhere(calm, space, loaded)
    assert not loaded & set(again.nodes())


def test_a_link_made_ten_times_slower_is_avoided(calm: Cluster, space: str) -> None:
    first = planned(calm, space, "first", **SPREAD)
    one, other = first.nodes()
    assert one != other, "eight GPUs a worker fill a node each"
    for source, destination in ((one, other), (other, one)):
        calm.slow_link(source, destination, 10)
    deadline = time.monotonic() + SEEN_SECONDS
    attempt = 0
    while True:
        attempt += 1
        again = planned(calm, space, f"again-{attempt}", **SPREAD)
        if set(again.nodes()) != {one, other} or time.monotonic() > deadline:
            break
        time.sleep(1.0)
    assert set(again.nodes()) != {one, other}


def test_without_prometheus_the_job_still_gets_a_plan_from_labels_and_says_that_it_is_degraded(calm: Cluster, space: str) -> None:
    calm.stop_prometheus()
    deadline = time.monotonic() + SEEN_SECONDS
    attempt = 0
    while True:
        attempt += 1
        job = planned(calm, space, f"blind-{attempt}", **SPREAD)
        degraded = job.condition("Degraded")
        if degraded["reason"] in UNANSWERED or time.monotonic() > deadline:
            break
        time.sleep(1.0)
    assert (degraded["status"], degraded["reason"] in UNANSWERED) == ("True", True), degraded
    assert "LinksEstimatedFromLabels" in job.plan()["fallbacks"]
    assert len(job.nodes()) == 2
    job.patch(spec={"startPolicy": "Automatic"})
    job.wait_bound()
    assert job.pod_nodes() == job.nodes()


def test_a_node_whose_metrics_are_nonsense_is_not_taken_for_an_idle_one(calm: Cluster, space: str) -> None:
    first = planned(calm, space, "first")
    (node, *_) = first.nodes()
    calm.set_fault(node, metric="DCGM_FI_DEV_GPU_UTIL", fault="nan")
    deadline = time.monotonic() + SEEN_SECONDS
    attempt = 0
    while True:
        attempt += 1
        job = planned(calm, space, f"nan-{attempt}")
        if "UtilizationUnknown" in job.plan()["fallbacks"] or node not in job.nodes() or time.monotonic() > deadline:
            break
        time.sleep(1.0)
    assert "UtilizationUnknown" in job.plan()["fallbacks"] or node not in job.nodes()
