"""NeverFits is said exactly of jobs that the same nodes refuse when they are empty, ready, uncordoned and without taints."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hyperscale.model.cluster import Node, Taint
from hyperscale.model.plan import Infeasible, Plan
from tests.builders.clusters import GIB, answer, gpu_node, snapshot, training

TRAFFIC = {"requested_gpus": 0, "requested_cpu_cores": 0.0, "requested_memory_bytes": 0, "ready": True, "schedulable": True, "taints": ()}

NODES: st.SearchStrategy[dict[str, Any]] = st.builds(
    dict,
    free=st.integers(0, 8),
    requested_gpus=st.integers(0, 8),
    ready=st.booleans(),
    schedulable=st.booleans(),
    taints=st.sampled_from([(), (Taint("team", "x"),)]),
    product=st.sampled_from(["A", "H"]),
    domain=st.sampled_from(["eu/a", "eu/b"]),
    allocatable_cpu_cores=st.sampled_from([None, 4.0, 16.0]),
    requested_cpu_cores=st.sampled_from([0.0, 4.0]),
    gpu_memory_bytes=st.sampled_from([16 * GIB, 80 * GIB]),
)
JOBS: st.SearchStrategy[dict[str, Any]] = st.builds(
    dict,
    workers=st.integers(1, 4).flatmap(
        lambda least: st.builds(
            dict,
            minReplicas=st.just(least),
            maxReplicas=st.integers(least, 5),
            resources=st.tuples(st.integers(1, 9), st.sampled_from(["1", "8"])).map(
                lambda asked: {"limits": {"nvidia.com/gpu": asked[0]}, "requests": {"cpu": asked[1]}}
            ),
            gpuProducts=st.sampled_from([[], ["H"]]),
            gpuMemory=st.sampled_from(["8Gi", "24Gi"]),
        )
    ),
    placement=st.sampled_from([{}, {"topology": {"required": "topology.kubernetes.io/zone"}}]),
)


def emptied(node: Node) -> Node:
    return replace(node, **TRAFFIC)


@given(st.lists(NODES, max_size=5), JOBS)
def test_never_means_that_an_empty_cluster_refuses_too(given: list[dict[str, Any]], fields: dict[str, Any]) -> None:
    members = [gpu_node(f"n{index}", **node) for index, node in enumerate(given)]
    job = training(**fields)
    now, empty = answer(snapshot(*members), job), answer(snapshot(*map(emptied, members)), job)
    if isinstance(now, Infeasible):
        assert now.never is isinstance(empty, Infeasible), (now, empty)
    else:
        assert isinstance(empty, Plan)
