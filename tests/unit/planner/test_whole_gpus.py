"""Parts of GPUs, MIG slices, shared cards and slices by vGPU, are not planned as whole ones."""

from __future__ import annotations

import pytest

from hyperscale.model.cluster import Node
from hyperscale.model.products import PRODUCT_LABEL, sliced
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
    (parts(nvidia_com__gpu_product="NVIDIA-A10-4Q"), "SharedGPU", "offers vGPUs of 4 GB, parts of a card of 24 GB"),
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


@pytest.mark.parametrize(("node", "reason", "words"), PARTS[:6])
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


@pytest.mark.parametrize(
    ("product", "words"),
    [
        ("NVIDIA-A10-12Q", "of 12 GB, parts of a card of 24 GB"),
        ("NVIDIA A10-8C", "of 8 GB, parts of a card of 24 GB"),
        ("GRID-T4-2B", "of 2 GB, parts of a card of 16 GB"),
        ("GRID-T4-2B4", "of 2 GB, parts of a card of 16 GB"),
        ("GRID-V100D-16Q", "of 16 GB, parts of a card of 32 GB"),
        ("NVIDIA-A100-1-5C", "of 5 GB, parts of a card of 40 GB"),
        ("NVIDIA-A100-1-5CME", "of 5 GB, parts of a card of 40 GB"),
        ("NVIDIA-A100D-40C", "of 40 GB, parts of a card of 80 GB"),
        ("NVIDIA-L40S-24Q", "of 24 GB, parts of a card of 48 GB"),
        ("NVIDIA-RTX6000-Ada-24Q", "of 24 GB, parts of a card of 48 GB"),
        ("NVIDIA-RTX-Pro-6000-Blackwell-DC-48Q", "of 48 GB, parts of a card of 96 GB"),
        ("NVIDIA-A16-1A", "of 1 GB, parts of a card of 16 GB"),
        ("NVIDIA-X9-80C", "of 80 GB, of a card whose memory is in no table"),
    ],
)
def test_a_vgpu_with_less_memory_than_its_card_is_a_part_of_a_gpu(product: str, words: str) -> None:
    assert sliced({PRODUCT_LABEL: product}) == ("SharedGPU", f"offers vGPUs {words} ({PRODUCT_LABEL}: {product})")


@pytest.mark.parametrize(
    "product",
    [
        *("NVIDIA-A10-24Q", "NVIDIA-A10-24C", "GRID-T4-16Q", "GRID-V100-16C", "GRID-V100D-32Q", "NVIDIA-L4-24Q", "NVIDIA-L40S-48Q"),
        *("NVIDIA-A100-40C", "NVIDIA-A100X-40C", "NVIDIA-A100DX-80C", "NVIDIA-A100-7-40C"),
        *("NVIDIA-H100XM-80C", "NVIDIA-H100XS-64C", "NVIDIA-H100L-94C"),
        *("NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3", "Tesla-V100-SXM2-32GB", "NVIDIA-B300-SXM6-AC", "NVIDIA-GH200-480GB"),
        *("NVIDIA-GeForce-RTX-4090", "NVIDIA-A30", "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "Quadro-RTX-6000", "NVIDIA-L20"),
    ],
)
def test_a_whole_card_is_whole_in_a_virtual_machine_too(product: str) -> None:
    assert sliced({PRODUCT_LABEL: product, "nvidia.com/vgpu.present": "true"}) is None


def test_a_card_passed_through_to_a_machine_with_a_vgpu_label_is_planned() -> None:
    labels = {PRODUCT_LABEL: "NVIDIA-A10", "nvidia.com/vgpu.present": "true"}
    assert planned(snapshot(gpu_node("whole", free=8, labels=labels)), JOB).ranks_by_node == {"whole": 4}
