"""Simulated figures follow the pods, and the wishes of tests."""

from __future__ import annotations

import re
from typing import Any

import pytest

from e2e.cluster.exporter import RefusedError, reset, set_fault, set_link, set_load
from e2e.cluster.simulation import Simulation
from e2e.cluster.topology import DEFAULT_FILE, load


def _pod(name: str, node: str, gpus: int, phase: str = "Running", **annotations: str) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    return {
        "metadata": {"uid": name, "namespace": "team", "name": name, "annotations": annotations},
        "spec": {"nodeName": node, "containers": [{"name": "worker", "resources": {"limits": limits}}]},
        "status": {"phase": phase},
    }


def _values(simulation: Simulation, metric: str, node: str) -> list[str]:
    pattern = re.compile(rf'^{metric}{{.*[Hh]ostname="{node}".*}} (\S+)$', re.MULTILINE)
    return pattern.findall(simulation.render())


@pytest.fixture
def simulation() -> Simulation:
    return Simulation(load(DEFAULT_FILE))


def test_idle_gpus_show_at_most_two_percent(simulation: Simulation) -> None:
    assert all(float(value) <= 2 for value in _values(simulation, "DCGM_FI_DEV_GPU_UTIL", "eu-h100-0"))


def test_a_running_pod_loads_only_the_gpus_that_it_holds(simulation: Simulation) -> None:
    simulation.pod_changed(_pod("a", "eu-h100-0", 2))
    simulation.pod_changed(_pod("b", "eu-h100-0", 1, **{"hyperscale.dev/simulated-utilization": "40"}))
    values = _values(simulation, "DCGM_FI_DEV_GPU_UTIL", "eu-h100-0")
    assert values[:3] == ["90", "90", "40"]
    assert all(float(value) <= 2 for value in values[3:])
    assert 'namespace="team",pod="b",container="worker"' in simulation.render()


def test_a_pod_keeps_its_gpus_while_others_come_and_go(simulation: Simulation) -> None:
    for name in "abc":
        simulation.pod_changed(_pod(name, "us-l40s-0", 1))
    simulation.pod_gone("b")
    assert [float(value) > 2 for value in _values(simulation, "DCGM_FI_DEV_GPU_UTIL", "us-l40s-0")] == [True, False, True, False]
    simulation.pod_changed(_pod("d", "us-l40s-0", 2))
    assert all(float(value) > 2 for value in _values(simulation, "DCGM_FI_DEV_GPU_UTIL", "us-l40s-0"))


def test_a_pod_that_does_not_run_yet_holds_its_gpus_idle(simulation: Simulation) -> None:
    simulation.pod_changed(_pod("a", "eu-h100-0", 8, phase="Pending"))
    assert all(float(value) <= 2 for value in _values(simulation, "DCGM_FI_DEV_GPU_UTIL", "eu-h100-0"))
    assert simulation.render().count('DCGM_FI_DEV_GPU_UTIL{gpu="0"') == 12
    assert 'pod="a"' in simulation.render()


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_an_ended_pod_gives_its_gpus_back(simulation: Simulation, phase: str) -> None:
    simulation.pod_changed(_pod("a", "eu-h100-0", 8))
    simulation.pod_changed(_pod("a", "eu-h100-0", 8, phase=phase))
    assert 'pod="a"' not in simulation.render()


def test_a_new_list_forgets_pods_that_are_not_in_it(simulation: Simulation) -> None:
    simulation.replace_pods([_pod("a", "eu-h100-0", 1), _pod("b", "eu-h100-0", 1)])
    simulation.replace_pods([_pod("b", "eu-h100-0", 1)])
    assert 'pod="a"' not in simulation.render()
    assert 'pod="b"' in simulation.render()


@pytest.mark.parametrize("text", ["", "many", "nan"])
def test_an_unreadable_wish_of_a_pod_counts_as_none(simulation: Simulation, text: str) -> None:
    simulation.pod_changed(_pod("a", "eu-h100-0", 1, **{"hyperscale.dev/simulated-utilization": text}))
    assert _values(simulation, "DCGM_FI_DEV_GPU_UTIL", "eu-h100-0")[0] == "90"


def test_memory_figures_add_up_to_the_gpu(simulation: Simulation) -> None:
    simulation.pod_changed(_pod("a", "eu-a100-0", 1))
    parts = [_values(simulation, f"DCGM_FI_DEV_FB_{name}", "eu-a100-0") for name in ("USED", "FREE", "RESERVED")]
    assert {sum(map(float, column)) for column in zip(*parts, strict=True)} == {81920.0}


def test_half_of_the_nodes_spell_the_label_the_old_way(simulation: Simulation) -> None:
    text = simulation.render()
    assert len(set(re.findall(r'Hostname="([^"]+)"', text))) == 6
    assert len(set(re.findall(r'[,{]hostname="([^"]+)"', text))) == 6


def test_load_reaches_every_gpu_of_the_node_and_goes_with_a_reset(simulation: Simulation) -> None:
    set_load(simulation, {"node": "ap-v100-0", "utilization": 97})
    assert set(_values(simulation, "DCGM_FI_DEV_GPU_UTIL", "ap-v100-0")) == {"97"}
    reset(simulation, "/load")
    assert all(float(value) <= 2 for value in _values(simulation, "DCGM_FI_DEV_GPU_UTIL", "ap-v100-0"))


def test_a_factor_slows_a_link_from_its_natural_figures_however_often_it_is_set(simulation: Simulation) -> None:
    before = simulation.figures("eu-h100-0", "eu-h100-1")
    for _ in range(2):
        set_link(simulation, {"source": "eu-h100-0", "destination": "eu-h100-1", "factor": 10, "bothWays": True})
    after = simulation.figures("eu-h100-0", "eu-h100-1")
    assert after.latency_seconds == pytest.approx(10 * before.latency_seconds)
    assert after.bandwidth_bytes_per_second == pytest.approx(before.bandwidth_bytes_per_second / 10)
    assert simulation.figures("eu-h100-1", "eu-h100-0") != simulation.natural_figures("eu-h100-1", "eu-h100-0")
    reset(simulation, "/")
    assert simulation.figures("eu-h100-0", "eu-h100-1") == before


def test_figures_of_a_link_can_be_given(simulation: Simulation) -> None:
    set_link(simulation, {"source": "eu-h100-0", "destination": "us-l40s-0", "latency": 0.5, "bandwidth": 1e6})
    text = simulation.render()
    assert 'hyperscale_link_latency_seconds{source="eu-h100-0",destination="us-l40s-0"} 0.5' in text
    assert 'hyperscale_link_bandwidth_bytes_per_second{source="eu-h100-0",destination="us-l40s-0"} 1000000' in text


@pytest.mark.parametrize(("kind", "written"), [("nan", {"NaN"}), ("infinite", {"+Inf"}), ("negative", {"-1"}), ("absent", set())])
def test_a_fault_spoils_one_metric_of_one_node(simulation: Simulation, kind: str, written: set[str]) -> None:
    set_fault(simulation, {"node": "eu-h100-1", "fault": kind, "metric": "DCGM_FI_DEV_GPU_UTIL"})
    assert set(_values(simulation, "DCGM_FI_DEV_GPU_UTIL", "eu-h100-1")) == written
    assert len(_values(simulation, "DCGM_FI_DEV_FB_USED", "eu-h100-1")) == 8
    assert len(_values(simulation, "DCGM_FI_DEV_GPU_UTIL", "eu-h100-0")) == 8


def test_an_xid_shows_on_the_first_gpu(simulation: Simulation) -> None:
    set_fault(simulation, {"node": "eu-h100-1", "xid": 79})
    assert _values(simulation, "DCGM_FI_DEV_XID_ERRORS", "eu-h100-1")[:2] == ["79", "0"]


@pytest.mark.parametrize(
    ("control", "body", "message"),
    [
        (set_load, {"node": "nowhere", "utilization": 1}, "node"),
        (set_load, {"node": "eu-h100-0", "utilization": 101}, "utilization"),
        (set_load, {"node": "eu-h100-0", "utilization": True}, "utilization"),
        (set_load, {"node": "eu-h100-0", "utilization": float("nan")}, "utilization"),
        (set_link, {"source": "eu-h100-0", "destination": "eu-h100-1", "factor": 0}, "factor"),
        (set_link, {"source": "eu-h100-0", "destination": "eu-h100-1", "latency": 1}, "bandwidth"),
        (set_link, {"source": "eu-h100-0"}, "destination"),
        (set_fault, {"node": "eu-h100-0", "fault": "fire"}, "fault"),
        (set_fault, {"node": "eu-h100-0", "fault": "nan", "metric": "UP"}, "metric"),
    ],
)
def test_a_wish_that_means_nothing_is_refused_with_its_field(
    simulation: Simulation, control: Any, body: dict[str, Any], message: str
) -> None:
    with pytest.raises(RefusedError, match=f"^{message}:"):
        control(simulation, body)
