"""The inside of a node: by policy, by the NVLinks that agents count, by a table of products."""

from __future__ import annotations

import numpy as np
import pytest

from hyperscale.model.api.policy import GpuModel, PolicySpec
from hyperscale.model.cluster import GpuPaths, Node
from hyperscale.model.products import longest
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.graph.inside import BOARDS, SUSTAINED
from hyperscale.planner.problem.speeds import TERAFLOPS
from tests.builders.clusters import gpu_node, snapshot


def inside(node: Node, policy: PolicySpec | None = None) -> tuple[float, float]:
    """Latency and bandwidth of the node to itself."""
    costs = build(snapshot(node, gpu_node("other")), policy or PolicySpec()).link_costs(np.arange(2))
    place = sorted([node.name, "other"]).index(node.name)
    return float(costs.latency_seconds[place, place]), float(costs.bandwidth_bytes_per_second[place, place])


@pytest.mark.parametrize(
    ("product", "gigabytes"),
    [
        ("NVIDIA-H100-80GB-HBM3", 360),
        ("NVIDIA-H100-PCIe", 50.4),
        ("NVIDIA-H100-NVL", 50.4),
        ("NVIDIA-H200", 360),
        ("NVIDIA-A100-SXM4-80GB", 240),
        ("NVIDIA-A100-80GB-PCIe", 25.2),
        ("NVIDIA-B200", 720),
        ("Tesla-V100-SXM2-32GB", 12.6),
        ("Tesla-P100-SXM2-16GB", 12.6),
        ("Tesla-V100-SXM3-32GB", 120),
        ("NVIDIA-A100-SXM-64GB", 80),
        ("NVIDIA-H800-NVL", 50.4),
        ("NVIDIA-A16", 6.3),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", 50.4),
        ("NVIDIA-L4", 12.6),
        ("NVIDIA-L40S", 25.2),
        ("NVIDIA-A10", 25.2),
        ("Tesla-T4", 12.6),
        ("NVIDIA-X1", 12.6),
        (None, 12.6),
    ],
)
def test_a_table_by_product_tells_the_inside_of_a_node(product: str | None, gigabytes: float) -> None:
    latency, bandwidth = inside(gpu_node("n", product=product))
    assert bandwidth == pytest.approx(gigabytes * 1e9)
    assert latency == (5e-6 if gigabytes > 60 else 8e-6)


def test_nvlinks_that_an_agent_counts_go_before_the_table() -> None:
    product = "NVIDIA-H100-80GB-HBM3"
    assert inside(gpu_node("n", product=product, gpu_paths=GpuPaths("NVLink", 9)))[1] == pytest.approx(SUSTAINED * 9 * 25e9)
    assert inside(gpu_node("n", product=product, gpu_paths=GpuPaths("System")))[1] == pytest.approx(SUSTAINED * 63e9)
    assert inside(gpu_node("n", product="NVIDIA-B200", gpu_paths=GpuPaths("NVLink", 18)))[1] == pytest.approx(SUSTAINED * 18 * 50e9)


def test_the_policy_goes_before_both_and_each_figure_by_itself() -> None:
    node = gpu_node("n", product="NVIDIA-H100-80GB-HBM3", gpu_paths=GpuPaths("System"))
    stated = PolicySpec(gpus=(GpuModel("H100", intra_node_bytes_per_second=1e11), GpuModel("A100", intra_node_bytes_per_second=1.0)))
    assert inside(node, stated) == (8e-6, 1e11)
    assert inside(node, PolicySpec(gpus=(GpuModel("NVIDIA-H100", intra_node_latency_nanoseconds=2000),))) == (2e-6, SUSTAINED * 63e9)


def test_an_entry_that_states_a_price_only_leaves_the_inside_to_the_wider_one() -> None:
    wide = GpuModel("NVIDIA-H100", intra_node_bytes_per_second=1e10, intra_node_latency_nanoseconds=10_000)
    narrow = GpuModel("NVIDIA-H100-80GB-HBM3", price_per_hour=3.0)
    assert inside(gpu_node("n", product="NVIDIA-H100-80GB-HBM3"), PolicySpec(gpus=(wide, narrow))) == (1e-5, 1e10)


def test_a_product_is_in_both_tables_or_in_none() -> None:
    assert [product for product in BOARDS if longest(product, TERAFLOPS) is None] == []
    assert [product for product in TERAFLOPS if longest(product, BOARDS) is None] == []


@pytest.mark.parametrize(
    ("product", "links", "gigabytes"),
    [
        ("NVIDIA-A40", 4, 56.25),
        ("NVIDIA-RTX-A6000", 4, 56.25),
        ("NVIDIA-GeForce-RTX-3090", 4, 56.25),
        ("NVIDIA-A30", 4, 100),
        ("Tesla-P100-SXM2-16GB", 1, 20),
        ("Tesla-V100-SXM2-16GB", 1, 25),
    ],
)
def test_links_of_bridges_have_the_rate_of_their_chip(product: str, links: int, gigabytes: float) -> None:
    found = inside(gpu_node("n", product=product, gpu_paths=GpuPaths("NVLink", links)))[1]
    assert found == pytest.approx(SUSTAINED * gigabytes * 1e9)
