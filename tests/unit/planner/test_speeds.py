from __future__ import annotations

import pytest

from hyperscale.model.api.policy import GpuModel, PolicySpec
from hyperscale.planner.problem.speeds import gpu_speed
from tests.builders.clusters import gpu_node, planned, snapshot, training

POLICY = PolicySpec()


@pytest.mark.parametrize(
    ("product", "teraflops"),
    [
        ("NVIDIA-A100-SXM4-80GB", 13.0),
        ("NVIDIA-A100-PCIE-40GB", 12.0),
        ("NVIDIA-A10", 6.5),
        ("NVIDIA-A10G", 6.5),
        ("NVIDIA-H100-80GB-HBM3", 26.0),
        ("Tesla-V100-SXM2-16GB", 8.0),
        ("NVIDIA L40S", 10.0),
        ("NVIDIA-L4", 3.5),
        ("NVIDIA-GeForce-RTX-3090", 8.0),
        ("NVIDIA-A800-SXM4-80GB", 13.0),
        ("NVIDIA-H20", 22.0),
        ("NVIDIA-B300-SXM6-AC", 50.0),
        ("NVIDIA-GB300", 50.0),
        ("NVIDIA-L20", 8.0),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", 18.0),
        ("NVIDIA-A16", 2.0),
        ("NVIDIA-H800-NVL", 26.0),
        ("NVIDIA-A100-SXM-64GB", 13.0),
    ],
)
def test_the_longest_product_prefix_decides_the_speed(product: str, teraflops: float) -> None:
    speed = gpu_speed(gpu_node("n", product=product), POLICY)
    assert (speed.flops_per_second, speed.assumed) == (teraflops * 1e12, False)


def test_the_policy_overrides_the_table_by_its_own_longest_prefix() -> None:
    policy = PolicySpec(gpus=(GpuModel("NVIDIA-A100", 9000), GpuModel("NVIDIA-A100-SXM4-80GB", 11_000, 2.0)))
    assert gpu_speed(gpu_node("n", product="NVIDIA-A100-SXM4-80GB"), policy) == (11e12, False, 2.0)
    assert gpu_speed(gpu_node("n", product="NVIDIA-A100-SXM4-40GB"), policy) == (9e12, False, None)


def test_an_entry_that_states_a_price_only_leaves_the_speed_to_the_wider_one() -> None:
    policy = PolicySpec(gpus=(GpuModel("NVIDIA-A100", 9000, 1.0), GpuModel("NVIDIA-A100-SXM4-80GB", price_per_hour=2.0)))
    assert gpu_speed(gpu_node("n", product="NVIDIA-A100-SXM4-80GB"), policy) == (9e12, False, 2.0)


def test_an_unknown_product_counts_by_compute_capability_and_is_named() -> None:
    labels = {"nvidia.com/gpu.compute.major": "8", "nvidia.com/gpu.compute.minor": "6", "kubernetes.io/hostname": "n"}
    assert gpu_speed(gpu_node("n", product="NVIDIA-X1", labels=labels), POLICY) == (7e12, True, None)
    plan = planned(snapshot(gpu_node("n", product="NVIDIA-X1", labels=labels)), training(workers={"minReplicas": 1, "maxReplicas": 1}))
    assert plan.fallbacks == ("GPUSpeedAssumed:NVIDIA-X1",)


@pytest.mark.parametrize("labels", [{}, {"nvidia.com/gpu.compute.major": "x"}, {"nvidia.com/gpu.compute.major": "8.0.1"}])
def test_without_any_figure_a_gpu_counts_as_the_slowest(labels: dict[str, str]) -> None:
    assert gpu_speed(gpu_node("n", product=None, labels=labels), POLICY) == (1.2e12, True, None)
