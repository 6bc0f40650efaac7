"""Rings through all GPUs of a node, and switches that add up: by product, GPUs of the node and reported NVLinks."""

from __future__ import annotations

import numpy as np
import pytest

from hyperscale.model.api.policy import GpuModel, PolicySpec
from hyperscale.model.cluster import GpuPaths
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.graph.inside import exchange_of
from tests.builders.clusters import gpu_node, snapshot


@pytest.mark.parametrize(
    ("product", "gpus", "pair", "ring"),
    [
        ("NVIDIA-H100-80GB-HBM3", 8, 360.0, 360.0),
        ("Tesla-V100-SXM2-16GB", 8, 12.6, 120.0),
        ("Tesla-V100-SXM2-16GB", 4, 20.0, 80.0),
        ("Tesla-V100-SXM2-16GB", 2, 12.6, 12.6),
        ("NVIDIA-GH200-120GB", 4, 120.0, 360.0),
        ("NVIDIA-GH200-120GB", 1, 50.4, 50.4),
        ("NVIDIA-A100-SXM-64GB", 4, 80.0, 240.0),
        ("NVIDIA-A100-SXM-80GB", 8, 240.0, 240.0),
        ("NVIDIA-A100-SXM-80GB", 4, 240.0, 240.0),
        ("NVIDIA-A100-SXM-40GB", 8, 240.0, 240.0),
        ("NVIDIA-GeForce-RTX-5090", 4, 34.65, 34.65),
        ("NVIDIA-L40S", 8, 25.2, 25.2),
    ],
)
def test_a_board_joined_pair_by_pair_has_rings_faster_than_its_pairs(product: str, gpus: int, pair: float, ring: float) -> None:
    exchange = exchange_of(product, None, gpus)
    assert (exchange.bandwidth / 1e9, exchange.ring / 1e9) == pytest.approx((pair, ring))


def test_links_that_an_agent_counts_by_pair_make_rings_of_all_of_them() -> None:
    four = exchange_of("NVIDIA-A100-SXM4-40GB", GpuPaths("NVLink", 4), 4)
    assert (four.bandwidth / 1e9, four.ring / 1e9) == pytest.approx((80.0, 240.0))
    switched = exchange_of("NVIDIA-A100-SXM4-40GB", GpuPaths("NVLink", 12), 8)
    assert switched.bandwidth == switched.ring == pytest.approx(240e9)


def test_a_mesh_whose_pairs_an_agent_sees_over_pcie_keeps_its_rings() -> None:
    mesh = exchange_of("Tesla-V100-SXM2-16GB", GpuPaths("System"), 8)
    assert (mesh.bandwidth / 1e9, mesh.ring / 1e9) == pytest.approx((12.6, 120.0))


@pytest.mark.parametrize(
    ("product", "paths", "efficiency"),
    [
        ("NVIDIA-H100-80GB-HBM3", None, 0.85),
        ("NVIDIA-H100-80GB-HBM3", GpuPaths("NVLink", 18), 0.85),
        ("NVIDIA-H100-80GB-HBM3", GpuPaths("NVLink", 9), 0.0),
        ("NVIDIA-H100-80GB-HBM3", GpuPaths("System"), 0.0),
        ("NVIDIA-H100-NVL", None, 0.0),
        ("NVIDIA-H100-PCIe", None, 0.0),
        ("NVIDIA-B200", None, 0.74),
        ("NVIDIA-A100-SXM4-80GB", None, 0.0),
        (None, None, 0.0),
    ],
)
def test_switches_add_up_where_all_links_of_a_new_enough_gpu_lead_to_them(
    product: str | None, paths: GpuPaths | None, efficiency: float
) -> None:
    assert exchange_of(product, paths, 8).sharp == efficiency


def test_a_rate_that_the_policy_states_is_that_of_rings_too() -> None:
    stated = PolicySpec(gpus=(GpuModel("NVIDIA-H100", intra_node_bytes_per_second=1e11),))
    inside = build(snapshot(gpu_node("a", product="NVIDIA-H100-80GB-HBM3"), gpu_node("b")), stated).inside
    assert (inside.bandwidth_bytes_per_second[0], inside.sharp_efficiency[0]) == (1e11, 0.0)
    assert np.isfinite(inside.bandwidth_bytes_per_second).all()
