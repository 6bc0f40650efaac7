"""The local cluster gives what scenarios rely on: nodes, figures that follow pods, wishes, an audit log, an operator that may be killed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import yaml

from e2e.cluster import audit, prometheus
from e2e.cluster.api import ApiError, Object
from e2e.cluster.cluster import Cluster, up
from e2e.cluster.control_plane import wait_until
from e2e.cluster.nodes import MADE_BY_LABEL
from e2e.cluster.operator import USER, OperatorProcess, start_operator
from e2e.demo import EXAMPLE
from e2e.demo_job import Demo

PODS = "/api/v1/namespaces/default/pods"
SOON_SECONDS = 60.0
"""Patience with several scrapes."""


def _pod(name: str, node: str, annotations: dict[str, str] | None = None) -> Object:
    container = {"name": "worker", "image": "none", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {"containers": [container], "nodeSelector": {"kubernetes.io/hostname": node}, "restartPolicy": "Never"},
    }


def _shows(cluster: Cluster, expression: str, accept: Callable[[float], bool]) -> Callable[[], bool]:
    def shown() -> bool:
        found = prometheus.try_query(cluster.prometheus_url, expression) or ()
        return any(accept(float(series["value"][1])) for series in found)

    return shown


def test_up_finds_the_running_cluster_again(cluster: Cluster) -> None:
    before = {name: cluster.processes.identity(name) for name in cluster.processes.names()}
    assert up(cluster.directory).state == cluster.state
    assert {name: cluster.processes.identity(name) for name in cluster.processes.names()} == before


def test_twelve_gpu_nodes_are_ready(cluster: Cluster) -> None:
    nodes = cluster.api().items("/api/v1/nodes", labelSelector=MADE_BY_LABEL)
    assert len(nodes) == 12
    assert sum(int(node["status"]["allocatable"]["nvidia.com/gpu"]) for node in nodes) == 56 + 8


def test_figures_follow_a_pod_from_binding_to_its_end(calm: Cluster) -> None:
    api = calm.api()
    api.create(PODS, _pod("load", "us-l40s-1", {"hyperscale.dev/simulated-utilization": "63"}))
    try:
        wait_until(_shows(calm, 'DCGM_FI_DEV_GPU_UTIL{pod="load"}', lambda value: value == 63), SOON_SECONDS, "no load is shown")
    finally:
        api.delete(f"{PODS}/load")
    gone = "count(DCGM_FI_DEV_GPU_UTIL{pod='load'}) or vector(0)"
    wait_until(_shows(calm, gone, lambda value: value == 0), SOON_SECONDS, "the load stays")


def test_wishes_reach_prometheus(calm: Cluster) -> None:
    calm.set_load("ap-v100-0", 88)
    calm.slow_link("eu-h100-0", "eu-h100-1", 10)
    calm.set_fault("eu-a100-0", fault="nan", metric="DCGM_FI_DEV_GPU_UTIL")
    load = 'min(DCGM_FI_DEV_GPU_UTIL{Hostname="ap-v100-0"})'
    link = 'hyperscale_link_latency_seconds{source="eu-h100-0",destination="eu-h100-1"}'
    broken = 'max(DCGM_FI_DEV_GPU_UTIL{Hostname="eu-a100-0"})'
    wait_until(_shows(calm, load, lambda value: value == 88), SOON_SECONDS, "the load is not shown")
    wait_until(_shows(calm, link, lambda value: value > 1e-4), SOON_SECONDS, "the slow link is not shown")
    wait_until(_shows(calm, broken, lambda value: value != value), SOON_SECONDS, "the fault is not shown")


def test_prometheus_can_be_stopped_and_started(calm: Cluster) -> None:
    calm.stop_prometheus()
    assert not prometheus.has_scraped(calm.prometheus_url)
    assert calm.faults() == [], "a part that was stopped on purpose is not a fault"
    calm.start_prometheus()
    assert prometheus.has_scraped(calm.prometheus_url)


def test_a_failing_node_turns_not_ready_and_back(cluster: Cluster) -> None:
    api, path = cluster.api(), "/api/v1/nodes/ap-v100-1"
    label = "hyperscale.dev/simulated-node-failure"

    def ready(wanted: str) -> Callable[[], bool]:
        return lambda: any(one["type"] == "Ready" and one["status"] == wanted for one in api.get(path)["status"]["conditions"])

    api.patch(path, {"metadata": {"labels": {label: ""}}})
    wait_until(ready("False"), SOON_SECONDS, "the node stays Ready")
    api.patch(path, {"metadata": {"labels": {label: None}}})
    wait_until(ready("True"), SOON_SECONDS, "the node does not come back")


def test_every_rank_runs_on_its_planned_node(operator: OperatorProcess, calm: Cluster) -> None:
    demo = Demo(calm.api(), yaml.safe_load(EXAMPLE.read_text()))
    offset = calm.position()
    demo.apply()
    try:
        demo.wait_bound()
        assert demo.misplaced() == []
        wait_until(lambda: audit.writes(calm.audit_log, USER, offset)[USER, "patch", "pods"] > 0, SOON_SECONDS, "no write of the operator")
        assert calm.processes.identity("operator"), "the operator still runs"
    finally:
        demo.remove_old()


def test_the_operators_account_may_not_touch_nodes(installed: Cluster) -> None:
    api = installed.api_as("operator")
    with pytest.raises(ApiError, match=r"^403"):
        api.patch("/api/v1/nodes/eu-h100-0", {"metadata": {"labels": {"x": "y"}}})


def test_a_killed_operator_is_ready_again(installed: Cluster) -> None:
    process = start_operator(installed)
    process.kill()
    assert process.pid is None
    again = start_operator(installed)
    assert "hyperscale_build_info" in again.metrics()
    again.stop()
    assert again.pid is None
