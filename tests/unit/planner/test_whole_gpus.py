"""Parts of GPUs, MIG slices and shared cards, are not planned as whole ones."""

from __future__ import annotations

import pytest

from hyperscale.model.cluster import Node
from tests.builders.clusters import GIB, gpu_node, planned, refused, snapshot, training

JOB = training(workers={"minReplicas": 1, "maxReplicas": 1, "resources": {"limits": {"nvidia.com/gpu": 4}}})


def parts(free: int = 8, **labels: str) -> Node:
    """A node whose labels name the A100 and tell of parts of that GPU; __ is a slash, _ a dot."""
    written = {name.replace("__", "/").replace("_", "."): value for name, value in labels.items()}
    return gpu_node("parts", free=free, labels={"kubernetes.io/hostname": "parts", **written})


PARTS = [
    (parts(7, nvidia_com__gpu_product="NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"), "MIGDevice", "offers MIG slices (1g.10gb), not whole GPUs"),
    (parts(nvidia_com__gpu_product="NVIDIA-A100-SXM4-80GB-MIG-1g.10gb-SHARED"), "MIGDevice", "1g.10gb"),
    (parts(nvidia_com__gpu_product="NVIDIA-H100-80GB-HBM3-MIG-1g.10gb.me"), "MIGDevice", "1g.10gb.me"),
    (parts(nvidia_com__gpu_product="NVIDIA-A100-SXM4-80GB-SHARED"), "SharedGPU", "NVIDIA-A100-SXM4-80GB-SHARED"),
    (parts(nvidia_com__gpu_replicas="8"), "SharedGPU", "offers each GPU 8 times (nvidia.com/gpu.replicas)"),
    (parts(nvidia_com__gpu_count="1"), "SharedGPU", "offers 8 GPUs and has 1 (nvidia.com/gpu.count)"),
    (gpu_node("parts", free=8, labels={"nvidia.com/gpu.sharing-strategy": "mps"}), "SharedGPU", "mps"),
    (gpu_node("parts", free=8, labels={"cloud.google.com/gke-gpu-sharing-strategy": "time-sharing"}), "SharedGPU", "time-sharing"),
    (gpu_node("parts", free=8, labels={"cloud.google.com/gke-gpu-partition-size": "1g.5gb"}), "MIGDevice", "1g.5gb"),
]


@pytest.mark.parametrize(("node", "reason", "words"), PARTS)
def test_parts_of_gpus_are_left_out_and_named(node: Node, reason: str, words: str) -> None:
    plan = planned(snapshot(node, gpu_node("whole", free=4, product="NVIDIA-L40S", gpu_memory_bytes=48 * GIB)), JOB)
    assert set(plan.ranks_by_node) == {"whole"}
    assert [(entry.node, entry.reason) for entry in plan.rejected] == [("parts", reason)]
    assert words in plan.rejected[0].message


@pytest.mark.parametrize(("node", "reason", "words"), PARTS[:5])
def test_a_cluster_of_parts_is_refused_with_what_to_change(node: Node, reason: str, words: str) -> None:
    refusal = refused(snapshot(node), JOB)
    assert refusal.reason == "NoMatchingNodes"
    assert f"ruled out by {reason}" in refusal.message
    assert words in refusal.message
    assert "or add nodes with whole GPUs" in refusal.message


@pytest.mark.parametrize(
    "labels",
    [
        {
            "nvidia.com/gpu.replicas": "1",
            "nvidia.com/gpu.count": "8",
            "nvidia.com/mig.strategy": "single",
            "nvidia.com/mig.capable": "true",
        },
        {"nvidia.com/gpu.replicas": "0", "nvidia.com/gpu.sharing-strategy": "none"},
        {"nvidia.com/gpu.replicas": "many", "nvidia.com/gpu.count": "x"},
        {"nvidia.com/mig.strategy": "mixed", "nvidia.com/mig-1g.10gb.count": "7", "nvidia.com/mig-1g.10gb.replicas": "2"},
    ],
)
def test_whole_gpus_are_not_taken_for_parts(labels: dict[str, str]) -> None:
    assert planned(snapshot(gpu_node("whole", free=8, labels=labels)), JOB).ranks_by_node == {"whole": 4}
