"""The inside of every node: how fast two of its GPUs exchange. Pure.

First what PlannerPolicy says of the product, then the NVLinks that the node agents count, then a table by product. Figures are one way and
between any two GPUs of the node: kubelets hand GPUs out without a look at NVLink, so that the narrowest way counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from hyperscale.model.api.policy import GpuModel, PolicySpec
from hyperscale.model.cluster import NVLINK, GpuPaths, Node
from hyperscale.model.graph import Inside
from hyperscale.model.products import longest, stated

SUSTAINED: Final = 0.8
"""Of a nominal rate what a ring of NCCL moves: 235 of 300 GB/s on A100, 360 of 450 on H100 (bus bandwidth of nccl-tests)."""
NVLINK_SECONDS: Final = 5e-6
PCIE_SECONDS: Final = 8e-6
"""One hop of NCCL, its kernel's share counted."""
PCIE3: Final = 15.75e9
PCIE4: Final = 31.5e9
PCIE5: Final = 63e9
"""Bytes a second, one way, of 16 lanes."""


GA102: Final = 14.0625e9
"""Bytes a second, one way, of one of the four NVLinks of this chip (NVIDIA's GA102 whitepaper), which its boards have for bridges."""


class Board(NamedTuple):
    """Nominal bytes a second, one way, of one GPU."""

    pcie: float
    links: int = 0
    """NVLinks between any two GPUs of a node; 0 where the product has none, or they join some of a node's GPUs only."""
    link: float = 25e9
    """Of one NVLink."""


UNKNOWN: Final = Board(PCIE3)
"""A product in no table: 16 lanes of PCIe 3.0."""

BOARDS: Final[dict[str, Board]] = {
    "A10": Board(PCIE4),
    "A100": Board(PCIE4),
    "A100-SXM": Board(PCIE4, 4),  # a board of four without NVSwitch: four of its twelve links lead to each of the others
    "A100-SXM4": Board(PCIE4, 12),
    "A16": Board(PCIE4 / 4),
    "A2": Board(PCIE4 / 2),
    "A30": Board(PCIE4),
    "A40": Board(PCIE4, link=GA102),
    "A800": Board(PCIE4),
    "A800-SXM4": Board(PCIE4, 8),
    "B100": Board(PCIE5, 18, 50e9),
    "B200": Board(PCIE5, 18, 50e9),
    "B300": Board(PCIE5, 18, 50e9),
    "GB200": Board(PCIE5, 18, 50e9),
    "GB300": Board(PCIE5, 18, 50e9),
    "GH200": Board(PCIE5),
    "GeForce-RTX-2080": Board(PCIE3),
    "GeForce-RTX-3080": Board(PCIE3),
    "GeForce-RTX-3090": Board(PCIE3, link=GA102),
    "GeForce-RTX-4090": Board(PCIE3),
    "GeForce-RTX-5090": Board(PCIE5),
    "H100": Board(PCIE5, 18),
    "H100-NVL": Board(PCIE5),
    "H100-PCIE": Board(PCIE5),
    "H20": Board(PCIE5, 18),
    "H200": Board(PCIE5, 18),
    "H200-NVL": Board(PCIE5),
    "H800": Board(PCIE5, 8),
    "H800-NVL": Board(PCIE5),
    "H800-PCIE": Board(PCIE5),
    "L20": Board(PCIE4),
    "L4": Board(PCIE4 / 2),
    "L40": Board(PCIE4),
    "L40S": Board(PCIE4),
    "P100": Board(PCIE3, link=20e9),
    "P4": Board(PCIE3),
    "P40": Board(PCIE3),
    "Quadro-RTX-6000": Board(PCIE3),
    "Quadro-RTX-8000": Board(PCIE3),
    "RTX-6000-Ada": Board(PCIE4),
    "RTX-A5000": Board(PCIE4, link=GA102),
    "RTX-A6000": Board(PCIE4, link=GA102),
    "RTX-PRO-6000": Board(PCIE5),
    "T4": Board(PCIE3),
    "Tesla-K80": Board(PCIE3),
    "Tesla-M60": Board(PCIE3),
    "Tesla-P100": Board(PCIE3, link=20e9),
    "Tesla-P4": Board(PCIE3),
    "Tesla-P40": Board(PCIE3),
    "Tesla-T4": Board(PCIE3),
    "Tesla-V100": Board(PCIE3),
    "Tesla-V100-SXM3": Board(PCIE3, 6),
    "V100": Board(PCIE3),
    "V100-SXM3": Board(PCIE3, 6),
}
"""From NVIDIA's data sheets; a speed for each is in `hyperscale.planner.problem.speeds`.

P100 and V100 SXM2 stand on boards whose NVLinks are a mesh: of eight GPUs each is joined to four. GeForce cards before the 5090, which
have no peer access, count as UNKNOWN does.
"""


def insides(nodes: Sequence[Node], policy: PolicySpec) -> Inside:
    """The inside of each of `nodes` (n,)."""
    figures_by_kind: dict[tuple[str | None, GpuPaths | None], tuple[float, float, bool]] = {}
    for kind in {(node.gpu_product, node.gpu_paths) for node in nodes}:
        figures_by_kind[kind] = _inside(*kind, policy.gpus)
    figures = [figures_by_kind[node.gpu_product, node.gpu_paths] for node in nodes]
    return Inside(
        latency_seconds=np.array([latency for latency, _, _ in figures], dtype=np.float64),
        bandwidth_bytes_per_second=np.array([bandwidth for _, bandwidth, _ in figures], dtype=np.float64),
        stated=np.array([stated for _, _, stated in figures], dtype=np.bool_),
    )


def _inside(product: str | None, paths: GpuPaths | None, models: Sequence[GpuModel]) -> tuple[float, float, bool]:
    """Latency, bandwidth, and whether an agent or the policy tells the bandwidth; each figure by the longest entry that states it."""
    latency, bandwidth = observed(product, paths)
    waits = stated(product, {model.product: model.intra_node_latency_seconds for model in models})
    rate = stated(product, {model.product: model.intra_node_bytes_per_second for model in models})
    # An agent tells the way, the rate of one way is the product's.
    reported = rate is not None or (paths is not None and longest(product, BOARDS) is not None)
    return latency if waits is None else waits, bandwidth if rate is None else rate, reported


def observed(product: str | None, paths: GpuPaths | None = None) -> tuple[float, float]:
    """Latency and bandwidth inside a node of that product, by its NVLinks where the node reports them, else by the table."""
    name = longest(product, BOARDS)
    board = BOARDS[name] if name is not None else UNKNOWN
    lowered = (product or "").lower()
    links = 0 if "pcie" in lowered else board.links
    if paths is not None:
        links = paths.nvlinks if paths.kind == NVLINK else 0
    if links:
        return NVLINK_SECONDS, SUSTAINED * links * board.link
    return PCIE_SECONDS, SUSTAINED * board.pcie
