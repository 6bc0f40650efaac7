"""The cluster without our running jobs, which is what waiting could give."""

from __future__ import annotations

from hyperscale.model.admission_query import Claim
from hyperscale.model.cluster import Gpu
from hyperscale.planner.check.drained_snapshot import emptied
from hyperscale.planner.graph.cluster_graph import build
from tests.builders.clusters import POLICY, gpu_node, measured, snapshot


def test_claims_are_free_again_and_the_busiest_gpus_are_idle() -> None:
    gpus = tuple(Gpu(uuid=f"g{number}", utilization_ratio=measured(load)) for number, load in enumerate((0.1, 0.9, 0.8, 0.2)))
    busy = gpu_node("a", free=4, requested_gpus=3, requested_cpu_cores=6.0, requested_memory_bytes=100, gpus=gpus)
    graph = emptied(build(snapshot(busy, gpu_node("b")), POLICY), {"a": Claim(gpus=2, cpu_cores=4.0, memory_bytes=60)})
    node = graph.nodes[0]
    assert (node.free_gpus, node.requested_cpu_cores, node.requested_memory_bytes) == (3, 2.0, 40)
    assert [gpu.utilization_ratio.value for gpu in node.gpus] == [0.1, 0.0, 0.0, 0.2]
    assert graph.nodes[1].name == "b"


def test_without_claims_it_is_the_same_graph() -> None:
    graph = build(snapshot(gpu_node("a")), POLICY)
    assert emptied(graph, {}) is graph
    assert emptied(graph, {"gone": Claim(gpus=1)}) is graph


def test_other_claims_are_another_cluster() -> None:
    graph = build(snapshot(gpu_node("a", free=4, requested_gpus=4)), POLICY)
    assert emptied(graph, {"a": Claim(gpus=1)}).digest != emptied(graph, {"a": Claim(gpus=2)}).digest
    assert emptied(graph, {"a": Claim(gpus=1)}).digest == emptied(graph, {"a": Claim(gpus=1)}).digest
