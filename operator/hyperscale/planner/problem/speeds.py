"""How fast a GPU trains graph networks: policy first, then a table by product, then by compute capability. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import Node
from hyperscale.model.products import longest, stated


class Speed(NamedTuple):
    """Sustained speed of one GPU."""

    flops_per_second: float
    assumed: bool
    """True where the product is in no table."""
    price_per_hour: float | None


TERAFLOPS: Final[dict[str, float]] = {
    "A10": 6.5,
    "A100": 13.0,
    "A100-PCIE": 12.0,
    "A16": 2.0,
    "A2": 2.0,
    "A30": 8.0,
    "A40": 8.0,
    "A800": 13.0,
    "A800-PCIE": 12.0,
    "B100": 45.0,
    "B200": 50.0,
    "B300": 50.0,
    "GB200": 50.0,
    "GB300": 50.0,
    "GH200": 30.0,
    "GeForce-RTX-2080": 5.0,
    "GeForce-RTX-3080": 7.0,
    "GeForce-RTX-3090": 8.0,
    "GeForce-RTX-4090": 11.0,
    "GeForce-RTX-5090": 18.0,
    "H100": 26.0,
    "H100-PCIE": 20.0,
    "H20": 22.0,
    "H200": 30.0,
    "H800": 26.0,
    "H800-PCIE": 20.0,
    "L20": 8.0,
    "L4": 3.5,
    "L40": 9.0,
    "L40S": 10.0,
    "P100": 4.5,
    "P4": 1.8,
    "P40": 3.5,
    "Quadro-RTX-6000": 5.5,
    "Quadro-RTX-8000": 5.5,
    "RTX-6000-Ada": 10.0,
    "RTX-A5000": 7.0,
    "RTX-A6000": 8.0,
    "RTX-PRO-6000": 18.0,
    "T4": 2.7,
    "Tesla-K80": 1.2,
    "Tesla-M60": 1.4,
    "Tesla-P100": 4.5,
    "Tesla-P4": 1.8,
    "Tesla-P40": 3.5,
    "Tesla-T4": 2.7,
    "Tesla-V100": 8.0,
    "V100": 8.0,
}
"""Sustained TFLOP/s on full-graph training. A100 is fitted (docs/explanation/planner.md), the others scaled by bandwidth and FP32."""

CAPABILITY_TERAFLOPS: Final[tuple[tuple[float, float], ...]] = (
    (10.0, 45.0),
    (9.0, 26.0),
    (8.9, 8.0),
    (8.6, 7.0),
    (8.0, 12.0),
    (7.5, 2.7),
    (7.0, 8.0),
    (6.1, 3.5),
    (6.0, 4.5),
    (5.0, 1.4),
    (0.0, 1.2),
)
"""Typical card of each compute capability and above."""

CAPABILITY_LABELS: Final = ("nvidia.com/gpu.compute.major", "nvidia.com/gpu.compute.minor")


def gpu_speeds(nodes: Sequence[Node], policy: PolicySpec) -> tuple[Speed, ...]:
    """`gpu_speed` of every node; alike nodes are looked up once."""
    speed_by_kind: dict[tuple[str | None, ...], Speed] = {}
    speeds: list[Speed] = []
    major, minor = CAPABILITY_LABELS
    for node in nodes:
        kind = (node.gpu_product, node.labels.get(major), node.labels.get(minor))
        if kind not in speed_by_kind:
            speed_by_kind[kind] = gpu_speed(node, policy)
        speeds.append(speed_by_kind[kind])
    return tuple(speeds)


def gpu_speed(node: Node, policy: PolicySpec) -> Speed:
    """Speed and price of one GPU of `node`, each by the longest prefix of its product that the policy states it for.

    Without a match: by the labels nvidia.com/gpu.compute.major and .minor, else as slow as the slowest card of the table.
    """
    price = stated(node.gpu_product, {model.product: model.price_per_hour for model in policy.gpus})
    gigaflops = stated(node.gpu_product, {model.product: model.gigaflops for model in policy.gpus})
    if gigaflops is not None:
        return Speed(gigaflops * 1e9, False, price)
    product = longest(node.gpu_product, TERAFLOPS)
    if product is not None:
        return Speed(TERAFLOPS[product] * 1e12, False, price)
    return Speed(_by_capability(node.labels) * 1e12, True, price)


def _by_capability(labels: dict[str, str]) -> float:
    """TFLOP/s by compute capability, the slowest known where the labels say nothing."""
    text = f"{labels.get('nvidia.com/gpu.compute.major', '')}.{labels.get('nvidia.com/gpu.compute.minor', '') or '0'}"
    try:
        capability = float(text)
    except ValueError:
        capability = 0.0
    return next((teraflops for least, teraflops in CAPABILITY_TERAFLOPS if capability >= least), CAPABILITY_TERAFLOPS[-1][1])
