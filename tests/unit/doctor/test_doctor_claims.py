"""Where Dynamic Resource Allocation gives the GPUs, nothing is told to install the device plugin beside it."""

from __future__ import annotations

from typing import Any

import pytest

from hyperscale.doctor.checks.gpus import device_plugin, discovery
from hyperscale.doctor.diagnose import diagnose
from hyperscale.doctor.facts import Facts, WorkloadFacts
from hyperscale.doctor.faults import Fault
from hyperscale.doctor.findings import Finding
from tests.unit.doctor.doctor_facts import NODES, agent, dra_driver, facts, mpi_operator, node, operator, plugin

DRIVERS = (
    dra_driver(),
    dra_driver(images=()),
    dra_driver(name="nvidia-k8s-dra-driver-kubelet-plugin", images=()),
    dra_driver(name="gpus", images=("nvcr.io/nvidia/k8s-dra-driver-gpu:v25.3.0",)),
    dra_driver(name="gpu-dra-kubelet-plugin", images=()),
)
SILENT = tuple(node(name, 0) for name in NODES)


def given(*workloads: WorkloadFacts, nodes: tuple[dict[str, Any], ...] = SILENT) -> Facts:
    return facts(nodes=nodes, workloads=(operator(), agent(), mpi_operator(), *workloads))


def findings(of: Facts) -> tuple[Finding, ...]:
    return diagnose(of, "https://example").findings


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda one: str(one.name))
def test_gpus_given_by_claim_are_told_with_their_driver_and_no_command(driver: WorkloadFacts) -> None:
    (found,) = findings(given(driver))
    assert (found.fault, found.where) == (Fault.GPUS_BY_CLAIM, NODES)
    assert f"DRA gives their GPUs by ResourceClaims (DaemonSet {driver.place}, 3 of 3 pods ready)" in found.cause
    assert "HyperScale does not plan" in found.cause
    assert "helm" not in found.fix


@pytest.mark.parametrize(
    "other",
    [
        dra_driver(kind="Deployment", name="nvidia-dra-driver-gpu-controller"),
        dra_driver(name="dra-driver-cpu", images=("registry.k8s.io/dra-driver/dra-driver-cpu:v0.1",)),
    ],
    ids=lambda one: str(one.name),
)
def test_a_driver_that_gives_no_gpus_leaves_the_device_plugin_missing(other: WorkloadFacts) -> None:
    assert [one.fault for one in findings(given(other))] == [Fault.DEVICE_PLUGIN_MISSING]


def test_a_cluster_without_labels_on_its_nodes_is_not_told_to_install_the_device_plugin() -> None:
    found = {one.fault: one for one in findings(given(dra_driver(wanted=0, ready=0), nodes=()))}
    assert "DRA" in found[Fault.NO_GPU_NODES].cause
    assert "helm" not in found[Fault.NO_GPU_NODES].fix


def test_missing_labels_are_written_by_hand_beside_the_driver() -> None:
    _, found = discovery(given(dra_driver(), nodes=tuple(node(name, 0, gpu_product=None) for name in NODES)))
    (bare,) = [one for one in found if one is not None]
    assert bare.fault is Fault.GPU_LABELS_MISSING
    assert bare.fix.startswith("kubectl label node gpu-1")


def test_a_device_plugin_that_should_serve_the_silent_nodes_too_is_named_beside_the_driver() -> None:
    _, found = device_plugin(given(dra_driver(), plugin(wanted=3), nodes=(node("gpu-1"), node("gpu-2"), node("gpu-3", 0))))
    (silent,) = [one for one in found if one is not None]
    assert (silent.fault, silent.where) == (Fault.DEVICE_PLUGIN_SILENT, ("gpu-3",))
    assert "kubectl describe daemonset -n nvidia nvidia-device-plugin" in silent.fix
    assert "nvidia-dra/nvidia-dra-driver-gpu-kubelet-plugin" in silent.cause
    assert "not both" in silent.fix


def test_slices_beside_gpus_given_by_claim_leave_no_gpu_that_can_be_planned() -> None:
    sliced = node("gpu-3", 7)
    sliced["metadata"]["labels"]["nvidia.com/gpu.product"] = "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"
    found = {one.fault: one.state for one in findings(given(dra_driver(), nodes=(*SILENT[:2], sliced)))}
    assert found[Fault.GPUS_BY_CLAIM] is Fault.DEVICE_PLUGIN_MISSING.state
