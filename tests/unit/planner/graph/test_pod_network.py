"""Pods that ask for no device of a fast network: its cards, their traffic and its history tell nothing of the network that they have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hyperscale.model.admission_query import Claim
from hyperscale.model.api.policy import Overrides, PolicySpec, UplinkOverride
from hyperscale.model.cluster import ClusterSnapshot, GpuPaths, Link, Origin, Quality, Sample
from hyperscale.model.history.corrections import Corrections, Factor
from hyperscale.model.plan import Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.check.drained_snapshot import emptied
from hyperscale.planner.choice import used_nodes
from hyperscale.planner.graph import cluster_graph
from hyperscale.planner.graph.cluster_graph import build, on_pod_network
from hyperscale.planner.problem.placement_problem import Problem, pose
from hyperscale.planner.together.shared_nodes import TogetherJob, shared_nodes
from hyperscale.planner.workload.profile import profile
from tests.builders.clusters import LEVELS, POLICY, gpu_node, planned, snapshot, training
from tests.unit.planner.graph.test_probes_on_fabrics import INFINIBAND, probed

CLIQUE = "nvidia.com/gpu.clique"
NVLINK = GpuPaths("NVLink", 18)
BUSY = Sample(0.9, 3.0, Quality.MEASURED)


def infiniband(use: Sample | None = None, names: str = "abcd", bandwidth: float = 1.2e9, **fields: Any) -> ClusterSnapshot:
    traffic: dict[str, Any] = {} if use is None else {"network_use_ratio": use}
    nodes = (gpu_node(name, free=8, gpu_paths=NVLINK, **INFINIBAND, **traffic, **fields) for name in names)
    return snapshot(*nodes, links=probed(Origin.AGENT, bandwidth=bandwidth, names=names))


def workers(count: int, gpus: int = 8, device: str | None = None, most: int | None = None) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": gpus} | ({device: 1} if device else {})
    return {"minReplicas": count, "maxReplicas": most or count, "resources": {"limits": limits}}


def two(seen: ClusterSnapshot, device: str | None = None, policy: PolicySpec = POLICY, **asked: Any) -> Plan:
    return planned(seen, training(workers=workers(2, device=device)), policy, **asked)


def test_traffic_on_the_fast_network_takes_nothing_of_it() -> None:
    assert two(infiniband(BUSY)).predicted.epoch_seconds == two(infiniband()).predicted.epoch_seconds
    assert two(infiniband(BUSY), "rdma/ib").predicted.epoch_seconds > two(infiniband(), "rdma/ib").predicted.epoch_seconds


def test_cards_of_the_fast_network_do_not_size_its_uplinks() -> None:
    racks = PolicySpec(overrides=Overrides(uplinks=(UplinkOverride(level=LEVELS[1], oversubscription=16.0),)))
    cards = [build(infiniband(), racks).machine, on_pod_network(build(infiniband(), racks), racks).machine]
    fabric, pods = (float(machine.uplink_bytes_per_second.max()) for machine in cards)
    assert pods < fabric / 10


def test_jobs_that_end_leave_the_network_as_it_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = build(infiniband(), POLICY)
    slower = on_pod_network(graph, POLICY)
    monkeypatch.setattr(cluster_graph, "build", lambda *_, **__: pytest.fail("built again"))
    later = emptied(graph, {"a": Claim(gpus=2)})
    assert on_pod_network(later, POLICY).nodes == later.nodes
    assert on_pod_network(later, POLICY).links is slower.links
    assert on_pod_network(later, POLICY).digest == later.digest != slower.digest


def test_jobs_on_both_networks_are_placed_together_each_on_its_own() -> None:
    graph = build(infiniband(), POLICY)

    def posed(device: str | None) -> Problem:
        job = training(workers=workers(2, gpus=4, device=device))
        return pose(PlanRequest(job_key=f"team/{device}", job=job), graph, profile(job), POLICY)

    jobs = [TogetherJob(posed(device), (0, 1)) for device in ("rdma/ib", None)]
    alone = [float(shared_nodes([job]).seconds_before[0]) for job in jobs]
    assert shared_nodes(jobs).seconds_before.tolist() == alone
    assert shared_nodes(jobs[::-1]).seconds_before.tolist() == alone[::-1]
    assert alone[1] > 10 * alone[0]


def cliques(product: str) -> tuple[ClusterSnapshot, dict[str, Any]]:
    """Two nodes of different NVLink domains, and a worker of one GPU on each."""
    nodes = [
        gpu_node(name, free=1, product=product, domains=("eu", "eu/a", f"eu/a/{name}"), gpu_paths=NVLINK, **INFINIBAND) for name in "ab"
    ]
    return snapshot(*nodes, links=probed(Origin.AGENT, bandwidth=1.2e9, names="ab"), levels=(*LEVELS, CLIQUE)), workers(2, gpus=1)


def test_boards_with_nvlink_between_nodes_have_no_more_rails_where_no_partner_is() -> None:
    seconds = []
    for product in ("NVIDIA-GB200", "NVIDIA-H100-80GB-HBM3"):
        seen, asked = cliques(product)
        plan = planned(seen, training(workers=asked))
        seconds.append(plan.predicted.communication_seconds)
        assert not any("on one fabric" in reason for reason in plan.reasons)
    assert seconds[0] == pytest.approx(seconds[1], rel=1e-6)


def test_what_the_pod_network_taught_says_nothing_of_the_fast_one() -> None:
    untried = Factor(name="", factor=1.0, error=0.1, runs=0)
    slow = tuple(Factor(name=name, factor=3.0, error=0.01, runs=12) for name in ("apart", *LEVELS))
    given = Corrections(untried=untried, tiers=slow, untried_link_error=0.1, all_runs=12)
    unmeasured = snapshot(*infiniband().nodes)
    for device, factor in (("rdma/ib", 1.0), (None, 3.0)):
        plain = two(unmeasured, device).predicted.communication_seconds
        corrected = two(unmeasured, device, corrections=given).predicted.communication_seconds
        assert corrected / plain == pytest.approx(factor, rel=0.1)


@pytest.mark.parametrize("fixed", [None, 1])
def test_the_queue_s_choice_of_workers_hides_nothing(fixed: int | None) -> None:
    """The queue plans with the count that it chose; what a device would give needs more."""
    plan = planned(infiniband(), training(workers=workers(1, most=4)), workers_fixed=fixed)
    assert len(plan.workers) == 1
    assert "FabricNotRequested" in plan.fallbacks
    assert any("by 4 workers on 4 nodes" in reason for reason in plan.reasons)


@pytest.mark.parametrize("device", ["devices.kubevirt.io/kvm", "vpc.amazonaws.com/pod-eni", "nvidia.com/gpumem", "smarter-devices/fuse"])
def test_devices_of_other_kinds_open_no_network(device: str) -> None:
    assert two(infiniband(), device).predicted.epoch_seconds == two(infiniband()).predicted.epoch_seconds


def test_a_device_that_gains_nothing_is_not_asked_for() -> None:
    """A small graph waits for round trips, and those of EFA are longer than the measured ones."""
    small = {
        "dataset": {
            "source": {"persistentVolumeClaim": {"claimName": "g"}},
            "vertices": 2708,
            "edges": 10556,
            "featureSize": 1433,
            "classes": 7,
        }
    }
    typed = [gpu_node(name, free=8, labels={"node.kubernetes.io/instance-type": "p3dn.24xlarge"}) for name in "ab"]
    links: tuple[Link, ...] = probed(Origin.AGENT, latency=3e-5, bandwidth=11e9, names="ab")
    plan = planned(snapshot(*typed, links=links), training(workers=workers(2), **small))
    assert build(snapshot(*typed, links=links), POLICY).has_fabric
    assert "FabricNotRequested" not in plan.fallbacks
    assert np.isfinite(plan.objective)


def test_more_workers_that_are_as_fast_on_the_pod_network_are_no_gain_of_a_device() -> None:
    """The queue fixed one worker; four would be faster, with a device or without."""
    plan = planned(infiniband(bandwidth=4e11), training(workers=workers(1, most=4)), workers_fixed=1)
    more = planned(infiniband(bandwidth=4e11), training(workers=workers(4)))
    assert more.predicted.epoch_seconds < 0.9 * plan.predicted.epoch_seconds
    assert "FabricNotRequested" not in plan.fallbacks


def test_a_job_of_very_many_workers_is_compared_in_its_own_placement_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(used_nodes, "MOST_COMPARED", 1)
    plan = two(infiniband())
    assert any("by this placement" in reason for reason in plan.reasons)


@pytest.mark.parametrize("fabrics", [True, False])
def test_a_cluster_without_nodes_has_no_network(fabrics: bool) -> None:
    graph = build(snapshot(), POLICY, fabrics=fabrics)
    assert not graph.has_fabric
    assert len(graph.machine.rails) == 0
