from __future__ import annotations

from typing import Any

import pytest

from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import MetricsState
from hyperscale.model.digest import snapshot_digest
from hyperscale.model.metrics_reading import NOT_CONFIGURED, MetricsReading
from hyperscale.observe.files.snapshot_files import encode_snapshot
from hyperscale.observe.kube.fields import pod_view
from hyperscale.observe.snapshot.build_snapshot import build_snapshot
from tests.unit.observe.objects import NOW, raw_node, raw_pod, reading, series

POLICY = PolicySpec()
UNREAD = MetricsReading(taken_at=NOW)


def test_nodes_without_gpus_are_left_out_and_those_that_lost_theirs_stay() -> None:
    nodes = [
        raw_node("b"),
        raw_node("a"),
        raw_node("control-plane", gpus=0),
        raw_node("driver-restarts", gpus=0, labels={"nvidia.com/gpu.present": "true"}),
    ]
    snapshot = build_snapshot(nodes, [], UNREAD, POLICY, NOW)
    assert [node.name for node in snapshot.nodes] == ["a", "b", "driver-restarts"]
    assert snapshot.nodes[2].free_gpus == 0


def test_what_pods_hold_is_not_free() -> None:
    pods = [pod_view(raw_pod("p", node="a", gpus=3))]
    (node,) = build_snapshot([raw_node("a")], pods, UNREAD, POLICY, NOW).nodes
    assert (node.allocatable_gpus, node.requested_gpus, node.free_gpus) == (8, 3, 5)
    assert (node.allocatable_cpu_cores, node.allocatable_memory_bytes) == (63.5, 512 * 2**30)


@pytest.mark.parametrize(
    ("change", "free"),
    [
        pytest.param({"spec": {"unschedulable": True}}, 0, id="cordoned"),
        pytest.param({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}, 0, id="kubelet lost"),
        pytest.param({"status": {"conditions": []}}, 0, id="never said it is ready"),
        pytest.param({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, 0, id="being deleted"),
        pytest.param({"spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}}, 8, id="tainted is for the planner to judge"),
    ],
)
def test_a_node_that_takes_no_pods_has_nothing_free(change: dict[str, dict[str, Any]], free: int) -> None:
    raw = raw_node("a")
    for part, fields in change.items():
        raw[part].update(fields)
    (node,) = build_snapshot([raw], [], UNREAD, POLICY, NOW).nodes
    assert node.free_gpus == free


def test_levels_of_the_policy_win_over_detected_ones() -> None:
    nodes = [raw_node("a", labels={"topology.kubernetes.io/zone": "z", "example.com/row": "r1"})]
    assert build_snapshot(nodes, [], UNREAD, POLICY, NOW).levels == ("topology.kubernetes.io/zone",)
    chosen = build_snapshot(nodes, [], UNREAD, PolicySpec(topology_levels=("example.com/row",)), NOW)
    assert (chosen.levels, chosen.nodes[0].domains) == (("example.com/row",), ("r1",))


def test_without_prometheus_the_snapshot_says_so_and_has_no_gpus() -> None:
    snapshot = build_snapshot([raw_node("a")], [], UNREAD, POLICY, NOW)
    assert snapshot.metrics == NOT_CONFIGURED
    assert snapshot.nodes[0].gpus == ()


def test_only_stale_figures_are_as_good_as_none() -> None:
    stale = reading(power=(series(300, 600, node="a", UUID="GPU-1"),))
    state = build_snapshot([raw_node("a")], [], stale, POLICY, NOW).metrics
    assert (state.available, state.reason) == (False, "MetricsStale")


def test_figures_of_strangers_only_are_as_good_as_none() -> None:
    strange = reading(power=(series(300, node="elsewhere", UUID="GPU-1"),))
    state = build_snapshot([raw_node("a")], [], strange, POLICY, NOW).metrics
    assert (state.available, state.reason) == (False, "MetricsEmpty")
    assert "1 GPU series name no node of this cluster (elsewhere)" in state.message


def test_one_fresh_figure_is_enough_and_what_was_left_out_is_said() -> None:
    mixed = reading(power=(series(300, node="a", UUID="GPU-1"), series(1, node="elsewhere", UUID="GPU-2")))
    snapshot = build_snapshot([raw_node("a")], [], mixed, POLICY, NOW)
    assert snapshot.metrics.available
    assert "elsewhere" in snapshot.metrics.message


def test_a_failed_reading_keeps_its_reason() -> None:
    failed = MetricsReading(taken_at=NOW, state=MetricsState(False, "PrometheusTimeout", "too slow", ("power",)))
    assert build_snapshot([raw_node("a")], [], failed, POLICY, NOW).metrics == failed.state


def test_the_order_of_the_input_does_not_matter() -> None:
    nodes = [raw_node(f"n{number}", labels={"topology.kubernetes.io/zone": f"z{number % 3}"}) for number in range(9)]
    pods = [pod_view(raw_pod(f"p{number}", node=f"n{number % 9}", gpus=1)) for number in range(20)]
    points = [series(number, node=f"n{number % 9}", UUID=f"G{number}") for number in range(30)]
    first = build_snapshot(nodes, pods, reading(power=tuple(points)), POLICY, NOW)
    for turned in (nodes, pods, points):
        turned.reverse()
    second = build_snapshot(nodes, pods, reading(power=tuple(points)), POLICY, NOW)
    assert encode_snapshot(first) == encode_snapshot(second)


def test_the_digest_sees_values_and_not_the_clock() -> None:
    def digest(value: float, age: float, now: float) -> str:
        return snapshot_digest(
            build_snapshot([raw_node("a")], [], reading(gpu_utilization=(series(value, age, node="a", UUID="G"),)), POLICY, now)
        )

    assert digest(30, 5, NOW) == digest(30, 7, NOW + 1)
    assert digest(30, 5, NOW) != digest(31, 5, NOW)
    assert digest(30, 5, NOW) != digest(30, 500, NOW)


@pytest.mark.parametrize("figure", ["power", "temperature", "memory_used"])
def test_figures_that_no_plan_reads_leave_the_digest_as_it_is(figure: str) -> None:
    def digest(value: float) -> str:
        given = {figure: (series(value, 5, node="a", UUID="G"),), "gpu_utilization": (series(30, 5, node="a", UUID="G"),)}
        return snapshot_digest(build_snapshot([raw_node("a")], [], reading(**given), POLICY, NOW))

    assert digest(60) == digest(61)


def test_one_reading_serves_many_snapshots_while_nodes_and_pods_change() -> None:
    figures = reading(power=(series(300, Hostname="exporter-1", UUID="GPU-1"), series(200, node="b", UUID="GPU-2")))

    def seen(nodes: str, exporter_on: str, now: float = NOW) -> dict[str, list[str]]:
        pods = [pod_view(raw_pod("exporter-1", node=exporter_on))]
        snapshot = build_snapshot([raw_node(name) for name in nodes], pods, figures, POLICY, now)
        return {node.name: [gpu.uuid for gpu in node.gpus if gpu.power_watts.value is not None] for node in snapshot.nodes}

    assert seen("ab", "a") == {"a": ["GPU-1"], "b": ["GPU-2"]}
    assert seen("ab", "a", NOW + 9) == {"a": ["GPU-1"], "b": ["GPU-2"]}
    assert seen("ab", "b") == {"a": [], "b": ["GPU-1", "GPU-2"]}
    assert seen("a", "a") == {"a": ["GPU-1"]}
    assert seen("abc", "c") == {"a": [], "b": ["GPU-2"], "c": ["GPU-1"]}


def test_ages_are_those_at_the_reading_until_the_reading_itself_is_too_old() -> None:
    figures = reading(power=(series(300, 5, node="a", UUID="GPU-1"),))
    soon, late = (build_snapshot([raw_node("a")], [], figures, POLICY, NOW + later) for later in (100, 121))
    assert soon.nodes[0].gpus[0].power_watts.age_seconds == 5.0
    assert (late.metrics.reason, late.nodes[0].gpus[0].power_watts.value) == ("MetricsStale", None)
    assert build_snapshot([raw_node("a")], [], figures, POLICY, NOW).metrics.available
