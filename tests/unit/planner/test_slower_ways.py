"""Ranks whose pods cannot take the fastest way, or may not: the plan counts or doubts it, and says what to do."""

from __future__ import annotations

from typing import Any

import pytest

from hyperscale.model.api.policy import GpuModel, PolicySpec
from hyperscale.model.cluster import GpuPaths, Origin, Quality, Sample
from hyperscale.model.plan import Plan
from tests.builders.clusters import PRODUCTS, both_ways, gpu_node, planned, snapshot, training
from tests.unit.planner.graph.test_probes_on_fabrics import INFINIBAND, probed

NVLINK = GpuPaths("NVLink", 12)
TWO_NODES: dict[str, Any] = {"minReplicas": 2, "maxReplicas": 2, "resources": {"limits": {"nvidia.com/gpu": 8}}}


def on_fabric(source: str = Origin.AGENT, device: str | None = None, bandwidth: float = 1.2e9) -> Plan:
    nodes = [gpu_node(name, free=8, gpu_paths=NVLINK, **INFINIBAND) for name in "ab"]
    limits = {"nvidia.com/gpu": 8} | ({device: 8} if device else {})
    workers = TWO_NODES | {"resources": {"limits": limits}}
    return planned(snapshot(*nodes, links=probed(source, bandwidth=bandwidth, names="ab")), training(workers=workers))


def test_pods_that_ask_for_no_device_of_a_fabric_are_planned_on_the_pod_network() -> None:
    plan, measured = on_fabric(), on_fabric(source=Origin.PROMETHEUS)
    assert "FabricNotRequested" in plan.fallbacks
    assert plan.predicted == measured.predicted
    percent = 100.0 * on_fabric(device="rdma/ib").predicted.epoch_seconds / plan.predicted.epoch_seconds
    (said,) = [reason for reason in plan.reasons if "Ask for one in spec.workers.resources.limits" in reason]
    assert f"an epoch would take {percent:.3g} % of the time by this placement" in said


@pytest.mark.parametrize(("device", "nodes"), [(None, 1), ("rdma/ib", 4)])
def test_more_nodes_are_used_where_pods_may_use_their_fabric(device: str | None, nodes: int) -> None:
    limits = {"nvidia.com/gpu": 8} | ({device: 1} if device else {})
    plan = on_four_nodes({"minReplicas": 1, "maxReplicas": 4, "resources": {"limits": limits}})
    assert len(plan.ranks_by_node) == nodes
    assert ("FabricNotRequested" in plan.fallbacks) is (device is None)
    assert any(" by 4 workers on 4 nodes" in reason for reason in plan.reasons) is (device is None)


def test_a_job_with_all_the_workers_it_may_have_on_one_node_needs_no_device() -> None:
    plan = on_four_nodes(TWO_NODES | {"minReplicas": 1, "maxReplicas": 1})
    assert plan.fallbacks == ()


def on_four_nodes(workers: dict[str, Any]) -> Plan:
    nodes = [gpu_node(name, free=8, gpu_paths=NVLINK, **INFINIBAND) for name in "abcd"]
    return planned(snapshot(*nodes, links=probed(Origin.AGENT, names="abcd")), training(workers=workers))


@pytest.mark.parametrize("device", ["rdma/hca_shared_devices_a", "vpc.amazonaws.com/efa", "nvidia.com/hostdev", "rdma/ib"])
def test_pods_that_ask_for_one_are_counted_on_the_fabric_alone(device: str) -> None:
    plan, without = on_fabric(device=device), on_fabric()
    assert "FabricNotRequested" not in plan.fallbacks
    assert 20 * plan.predicted.epoch_seconds < without.predicted.epoch_seconds


def test_what_other_sources_measured_is_what_the_pods_have() -> None:
    assert "FabricNotRequested" not in on_fabric(source=Origin.PROMETHEUS).fallbacks


def test_one_node_needs_no_fabric() -> None:
    plan = planned(snapshot(gpu_node("a", free=8, **INFINIBAND)), training(workers=TWO_NODES | {"minReplicas": 1, "maxReplicas": 1}))
    assert "FabricNotRequested" not in plan.fallbacks


def on_one_node(workers: int, gpus: int, policy: PolicySpec | None = None, **fields: Any) -> Plan:
    card: dict[str, Any] = {"network_bytes_per_second": Sample(12.5e9, 3.0, Quality.MEASURED), "network_cards": 1}
    node = gpu_node("a", free=8, product=PRODUCTS[3], **card | fields)
    counts = {"minReplicas": workers, "maxReplicas": workers, "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    return planned(snapshot(node, links=both_ways(["a"])), training(workers=counts), **({"policy": policy} if policy else {}))


def width(plan: Plan) -> float:
    assert plan.predicted.high_seconds is not None
    return plan.predicted.high_seconds / plan.predicted.epoch_seconds


def test_pods_of_one_node_may_exchange_over_its_cards() -> None:
    apart, whole = on_one_node(8, 1, gpu_paths=GpuPaths("NVLink", 18)), on_one_node(1, 8, gpu_paths=GpuPaths("NVLink", 18))
    assert apart.fallbacks == (f"IntraNodeLinkAssumed:{PRODUCTS[3]}",)
    assert whole.fallbacks == ()
    assert width(apart) > 2 * width(whole)


def test_who_owns_the_nodes_may_know_better() -> None:
    policy = PolicySpec(gpus=(GpuModel(PRODUCTS[3], intra_node_bytes_per_second=3e11),))
    assert on_one_node(8, 1, policy).fallbacks == ()


@pytest.mark.parametrize(
    ("kind", "known"), [("NVLink", True), ("PcieSwitch", True), ("PcieBridge", False), ("Socket", False), ("System", False)]
)
def test_a_way_over_bridges_and_processors_is_as_unsure_as_an_unknown_one(kind: str, known: bool) -> None:
    plan, blind = on_one_node(1, 8, gpu_paths=GpuPaths(kind, 18 if kind == "NVLink" else 0)), on_one_node(1, 8)
    assert bool(plan.fallbacks) is not known
    assert (width(plan) < width(blind)) is known or kind != "NVLink"
