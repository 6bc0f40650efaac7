"""When nothing fits: the one dominant reason and what to try."""

from __future__ import annotations

from typing import Any

import pytest

from hyperscale.model.cluster import AbsentLink, ClusterSnapshot, Node, Taint
from hyperscale.model.constants import GPU_RESOURCE
from tests.builders.clusters import GIB, both_ways, gpu_node, refused, snapshot, training

ZONE = "topology.kubernetes.io/zone"


def flat(count: int, **fields: Any) -> ClusterSnapshot:
    return snapshot(*(gpu_node(f"n{index}", **fields) for index in range(count)))


def need(workers: int, gpus: int = 1, *, requests: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    resources = {"limits": {GPU_RESOURCE: gpus}, "requests": requests or {}}
    return {"workers": {"minReplicas": workers, "maxReplicas": workers, "resources": resources, **fields}}


def beside(seen: ClusterSnapshot, *further: Node) -> ClusterSnapshot:
    return snapshot(*seen.nodes, *further)


AWAY = tuple(
    gpu_node(f"away{index}", product="H", gpu_memory_bytes=4096 * GIB, labels={"pool": "gnn"}, schedulable=False) for index in (0, 1)
)
"""Nodes that would do, were they not cordoned."""
LARGE_GRAPH = {
    "source": {"persistentVolumeClaim": {"claimName": "g"}},
    "vertices": 50_000_000,
    "edges": 10**9,
    "featureSize": 256,
    "classes": 4,
}


CASES: list[tuple[str, ClusterSnapshot, dict[str, Any], str, tuple[str, ...]]] = [
    (
        "too few free nodes",
        beside(flat(3), gpu_node("x0", requested_gpus=1), gpu_node("x1", requested_gpus=1)),
        need(5),
        "InsufficientGPUs",
        ("needs 5 GPUs", "3 found", "spec.workers.minReplicas: 3"),
    ),
    (
        "everything busy",
        flat(4, requested_gpus=1),
        need(2),
        "InsufficientGPUs",
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
        "InsufficientGPUs",
        ("needs 2 GPUs", "1 found", "2 matching nodes", "Wait until GPUs are free, or try spec.workers.minReplicas: 1"),
    ),
    (
        "GPU memory too small",
        beside(flat(4, gpu_memory_bytes=16 * GIB), *AWAY),
        need(2, gpuMemory="24Gi"),
        "GPUMemoryTooSmall",
        (">= 24 GiB", "has 16 GiB"),
    ),
    ("GPU memory not stated", flat(4, gpu_memory_bytes=None), need(2, gpuMemory="24Gi"), "GPUMemoryTooSmall", ("nvidia.com/gpu.memory",)),
    ("product", beside(flat(4), *AWAY), need(2, gpuProducts=["H"]), "NoMatchingNodes", ("GPUProduct", "spec.workers.gpuProducts")),
    ("tainted", flat(4, taints=(Taint("team", "x"),)), need(2), "NoMatchingNodes", ("team=x:NoSchedule", "toleration")),
    ("cordoned", flat(4, schedulable=False), need(2), "NoMatchingNodes", ("Cordoned",)),
    ("not ready", flat(4, ready=False), need(2), "NoMatchingNodes", ("NotReady",)),
    (
        "node selector",
        beside(flat(4), *AWAY),
        {**need(2), "placement": {"nodeSelector": {"pool": "gnn"}}},
        "NoMatchingNodes",
        ("label pool is absent, needs gnn",),
    ),
    (
        "cores",
        flat(4, allocatable_cpu_cores=4.0, requested_cpu_cores=2.0),
        need(2, requests={"cpu": "4"}),
        "NoMatchingNodes",
        ("2.0 cores free", "cpu in spec.workers.resources"),
    ),
    (
        "memory",
        flat(4, allocatable_memory_bytes=4 * GIB, requested_memory_bytes=3 * GIB),
        need(2, requests={"memory": "4Gi"}),
        "NoMatchingNodes",
        ("1.0 GiB free", "memory in spec.workers.resources"),
    ),
    (
        "one domain",
        snapshot(gpu_node("a0", domain="eu/a"), gpu_node("a1", domain="eu/a", requested_gpus=1), gpu_node("b", domain="eu/b")),
        {**need(2), "placement": {"topology": {"required": ZONE}}},
        "InsufficientGPUs",
        (f"inside one domain of {ZONE}", "has room for 1"),
    ),
    (
        "links",
        snapshot(*(gpu_node(f"n{index}") for index in range(6)), links=both_ways(["n0", "n1", "n2"]), absent=AbsentLink.UNREACHABLE),
        need(4),
        "NodesCannotReachEachOther",
        ("needs 4 GPUs", "3 found among 6 free ones", "spec.workers.minReplicas: 3"),
    ),
    (
        "graph larger than the memory of free GPUs",
        beside(flat(2, gpu_memory_bytes=4 * GIB), *AWAY),
        {**need(2), "dataset": LARGE_GRAPH},
        "MemoryTooSmall",
        ("GiB of a GPU", "spec.model.batchSize"),
    ),
    (
        "partitions",
        flat(6),
        {"workers": {"minReplicas": 4, "maxReplicas": 5}, "partitioning": {"count": 7}},
        "PartitionCountMismatch",
        ("7 partitions", "4 to 5"),
    ),
]


NEVER: list[tuple[str, ClusterSnapshot, dict[str, Any], tuple[str, ...]]] = [
    (
        "more GPUs a worker than any node has",
        snapshot(gpu_node("big", free=8, requested_gpus=8), gpu_node("down", free=4, ready=False)),
        need(2, gpus=16),
        ("spec.workers.resources asks for 16 GPUs", "largest of the 2 GPU nodes, big, has 8", "at most 8", "add nodes"),
    ),
    ("fewer nodes than workers", flat(3), need(5), ("5 workers", "host 3 of them", "spec.workers.minReplicas to at most 3", "add nodes")),
    ("no nodes at all", snapshot(), need(1), ("no GPU nodes", "Add nodes")),
    ("a product that no node has", flat(4), need(2, gpuProducts=["NVIDIA-H200"]), ("spec.workers.gpuProducts", "NVIDIA-A100-SXM4-80GB")),
    (
        "GPU memory",
        flat(4, gpu_memory_bytes=16 * GIB),
        need(2, gpuMemory="24Gi"),
        ("spec.workers.gpuMemory asks for 24 GiB", "has 16 GiB", "16Gi"),
    ),
    (
        "a label that no node has",
        flat(4),
        {**need(2), "placement": {"nodeSelector": {"pool": "gnn"}}},
        ("label pool is absent, needs gnn", "add nodes"),
    ),
    (
        "cores",
        flat(4, allocatable_cpu_cores=2.0),
        need(2, requests={"cpu": "4"}),
        ("4 CPU cores", "has 2", "cpu in spec.workers.resources"),
    ),
    (
        "memory",
        flat(4, allocatable_memory_bytes=GIB),
        need(2, requests={"memory": "4Gi"}),
        ("4 GiB of memory", "has 1 GiB", "memory in spec.workers.resources"),
    ),
    (
        "a domain",
        snapshot(gpu_node("a", domain="eu/a"), gpu_node("b", domain="eu/b")),
        {**need(2), "placement": {"topology": {"required": ZONE}}},
        (f"one domain of {ZONE}", "host 1 of them"),
    ),
    (
        "two demands that only different nodes meet",
        snapshot(gpu_node("small", product="H", free=4), gpu_node("large", product="A", free=8)),
        need(1, gpuProducts=["H"], gpus=8),
        ("no single one", "spec.workers.gpuProducts", "spec.workers.resources"),
    ),
    (
        "a graph that the largest GPU does not hold a part of",
        flat(2, gpu_memory_bytes=4 * GIB),
        {**need(2), "dataset": LARGE_GRAPH},
        ("GiB of a GPU", "Try spec.model.batchSize"),
    ),
    (
        "a graph of which more workers would take smaller parts",
        flat(8, gpu_memory_bytes=4 * GIB),
        {**need(2), "dataset": LARGE_GRAPH},
        ("for 2 workers", "Try a larger spec.workers.maxReplicas, or spec.model.batchSize"),
    ),
    (
        "a graph whose equal parts are too large where no others are allowed",
        flat(2, gpu_memory_bytes=4 * GIB),
        {**need(2), "dataset": LARGE_GRAPH, "partitioning": {"balance": "Equal"}},
        ("spec.partitioning.balance: Equal allows no other parts",),
    ),
    (
        "a graph that only GPUs of another product could hold",
        snapshot(gpu_node("small", product="H", gpu_memory_bytes=4 * GIB), gpu_node("large", product="A", gpu_memory_bytes=4096 * GIB)),
        {**need(1, gpuProducts=["H"]), "dataset": LARGE_GRAPH},
        ("host one have at most 4 GiB", "Try spec.model.batchSize"),
    ),
    (
        "a graph that more workers could hold than there is room for",
        flat(2, gpu_memory_bytes=80 * GIB),
        {"workers": {"minReplicas": 1, "maxReplicas": 32}, "dataset": LARGE_GRAPH},
        ("an equal part for 2 workers", "add nodes"),
    ),
]


@pytest.mark.parametrize(("seen", "fields", "fragments"), [case[1:] for case in NEVER], ids=[case[0] for case in NEVER])
def test_what_no_node_could_ever_take_is_told_apart_from_what_must_wait(
    seen: ClusterSnapshot, fields: dict[str, Any], fragments: tuple[str, ...]
) -> None:
    refusal = refused(seen, training(**fields))
    assert (refusal.reason, refusal.never) == ("NeverFits", True), refusal
    assert "Wait" not in refusal.message
    assert "\n" not in refusal.message
    for fragment in fragments:
        assert fragment in refusal.message, refusal.message


@pytest.mark.parametrize(
    "now",
    [
        {"requested_gpus": 8},
        {"ready": False},
        {"schedulable": False},
        {"taints": (Taint("team", "x"),)},
        {"requested_cpu_cores": 16.0},
        {"gpu_memory_bytes": None},
    ],
    ids=["in use", "not ready", "cordoned", "tainted", "cores in use", "GPU memory not stated"],
)
def test_what_may_pass_is_not_never(now: dict[str, Any]) -> None:
    nodes = flat(4, **{"free": 8, "allocatable_cpu_cores": 16.0, **now})
    refusal = refused(nodes, training(**need(4, gpus=8, requests={"cpu": "8"}, gpuMemory="24Gi")))
    assert not refusal.never, refusal


@pytest.mark.parametrize("offered", [0, 7])
def test_waiting_is_no_advice_for_gpus_that_the_device_plugin_does_not_offer(offered: int) -> None:
    hidden = gpu_node("n0", free=offered, labels={"nvidia.com/gpu.count": "8"})
    refusal = refused(snapshot(hidden), training(**need(1, gpus=8)))
    assert refusal.reason == "InsufficientGPUs"
    assert f"The device plugin offers {offered} of 8 GPUs of n0: `hyperscale doctor`" in refusal.message
    assert "Wait" not in refusal.message
    assert refusal.rejected[0].message.endswith(f"a worker needs 8; the device plugin offers {offered} of 8")
    held = gpu_node("n1", free=8, allocatable_gpus=8, requested_gpus=8)
    assert "Wait until GPUs are free" in refused(snapshot(hidden, held), training(**need(1, gpus=8))).message


def test_gpus_that_a_broken_device_plugin_hides_are_still_the_nodes() -> None:
    hidden = gpu_node("n0", free=0, labels={"nvidia.com/gpu.count": "8"})
    assert not refused(snapshot(hidden), training(**need(1, gpus=8))).never
    assert refused(snapshot(hidden), training(**need(1, gpus=16))).never


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


def test_a_graph_that_no_gpu_holds_is_refused_where_the_only_count_is_searched_closely_at_once() -> None:
    """Beyond 40 candidates a single count gets no rough look first, so that no placement is known when the proof would begin."""
    refusal = refused(flat(48, gpu_memory_bytes=16 * GIB), training(dataset=LARGE_GRAPH, **need(2)))
    assert refusal.reason == "NeverFits"
