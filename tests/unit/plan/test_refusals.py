"""When nothing fits: the one dominant reason and what to try."""

from __future__ import annotations

from typing import Any

import pytest

from hyperscale.model.cluster import AbsentLink, ClusterSnapshot, Taint
from tests.builders.clusters import GIB, both_ways, gpu_node, refused, snapshot, training

ZONE = "topology.kubernetes.io/zone"


def flat(count: int, **fields: Any) -> ClusterSnapshot:
    return snapshot(*(gpu_node(f"n{index}", **fields) for index in range(count)))


def need(workers: int, **fields: Any) -> dict[str, Any]:
    return {"workers": {"min": workers, "max": workers, **fields}}


CASES: list[tuple[str, ClusterSnapshot, dict[str, Any], str, tuple[str, ...]]] = [
    ("too few nodes", flat(3), need(5), "InsufficientGpus", ("needs 5 GPUs", "3 found", "spec.workers.min: 3")),
    ("no nodes at all", snapshot(), need(1), "InsufficientGpus", ("needs 1 GPU ", "0 found")),
    (
        "everything busy",
        flat(4, requested_gpus=1),
        need(2),
        "InsufficientGpus",
        ("0 found, free among the 4 of the 4 matching nodes, the others are in use", "Wait until GPUs are free"),
    ),
    (
        "the few nodes that match busy, the many others out of the question",
        snapshot(
            *(gpu_node(f"n{index}") for index in range(6)),
            gpu_node("h0", product="H", requested_gpus=1),
            gpu_node("h1", product="H"),
        ),
        need(2, gpuProducts=["H"]),
        "InsufficientGpus",
        ("needs 2 GPUs", "1 found", "2 matching nodes", "Wait until GPUs are free, or try spec.workers.min: 1"),
    ),
    (
        "GPU memory too small",
        flat(4, gpu_memory_bytes=16 * GIB),
        need(2, gpuMemory="24Gi"),
        "GpuMemoryTooSmall",
        (">= 24 GiB", "has 16 GiB"),
    ),
    ("GPU memory not stated", flat(4, gpu_memory_bytes=None), need(2, gpuMemory="24Gi"), "GpuMemoryTooSmall", ("nvidia.com/gpu.memory",)),
    ("product", flat(4), need(2, gpuProducts=["NVIDIA-H100"]), "NoMatchingNodes", ("GpuProduct", "spec.workers.gpuProducts")),
    ("tainted", flat(4, taints=(Taint("team", "x"),)), need(2), "NoMatchingNodes", ("team=x:NoSchedule", "toleration")),
    ("cordoned", flat(4, schedulable=False), need(2), "NoMatchingNodes", ("Cordoned",)),
    ("not ready", flat(4, ready=False), need(2), "NoMatchingNodes", ("NotReady",)),
    (
        "node selector",
        flat(4),
        {**need(2), "placement": {"nodeSelector": {"pool": "gnn"}}},
        "NoMatchingNodes",
        ("label pool is absent, needs gnn",),
    ),
    ("cores", flat(4, allocatable_cpu_cores=2.0), need(2, cpu="4"), "NoMatchingNodes", ("2.0 cores free", "spec.workers.cpu")),
    ("memory", flat(4, allocatable_memory_bytes=GIB), need(2, memory="4Gi"), "NoMatchingNodes", ("1.0 GiB free", "spec.workers.memory")),
    (
        "one domain",
        snapshot(gpu_node("a", domain="eu/a"), gpu_node("b", domain="eu/b")),
        {**need(2), "placement": {"topology": {"required": ZONE}}},
        "InsufficientGpus",
        (f"inside one domain of {ZONE}", "has room for 1"),
    ),
    (
        "links",
        snapshot(*(gpu_node(f"n{index}") for index in range(6)), links=both_ways(["n0", "n1", "n2"]), absent=AbsentLink.UNREACHABLE),
        need(4),
        "NodesCannotReachEachOther",
        ("needs 4 GPUs", "3 found among 6 free ones", "spec.workers.min: 3"),
    ),
    (
        "graph larger than all GPU memory",
        flat(2, gpu_memory_bytes=4 * GIB),
        {
            **need(2),
            "dataset": {"source": {"pvc": {"claimName": "g"}}, "vertices": 50_000_000, "edges": 10**9, "featureSize": 256, "classes": 4},
        },
        "MemoryTooSmall",
        ("GiB of the training graph", "spec.model.batchSize"),
    ),
    (
        "partitions",
        flat(6),
        {"workers": {"min": 4, "max": 5}, "partitioning": {"count": 7}},
        "PartitionCountMismatch",
        ("7 partitions", "4 to 5"),
    ),
]


@pytest.mark.parametrize(("seen", "fields", "reason", "fragments"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_refusal_says_what_was_needed_what_was_found_and_what_to_try(
    seen: ClusterSnapshot, fields: dict[str, Any], reason: str, fragments: tuple[str, ...]
) -> None:
    refusal = refused(seen, training(**fields))
    assert refusal.reason == reason
    assert "\n" not in refusal.message
    for fragment in fragments:
        assert fragment in refusal.message, refusal.message


def test_a_refusal_keeps_a_bounded_list_of_nodes() -> None:
    refusal = refused(flat(100, requested_gpus=1), training(**need(2)))
    assert len(refusal.rejected) == 32
