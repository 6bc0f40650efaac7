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
from hyperscale.model.graph import FloatArray, Inside
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


HOST_MEMORY: Final = 0.55
"""Of PCIe's nominal rate what a ring moves over the node's memory, between GPUs without peer access (four RTX 5090, nccl_tests.csv)."""


class Board(NamedTuple):
    """Nominal bytes a second, one way, of one GPU."""

    pcie: float
    links: int = 0
    """NVLinks between any two GPUs of a node; 0 where the product has none, or they join some of a node's GPUs only."""
    link: float = 25e9
    """Of one NVLink."""
    sharp: float = 0.0
    """Efficiency of NVLink SHARP; 0 without it."""
    peers: bool = True
    """False where a GPU reaches another one of its node through the node's memory only."""


class Mesh(NamedTuple):
    """NVLinks of a board whose GPUs are joined without NVSwitches."""

    pair: int
    """Between any two GPUs; 0 where some are not joined."""
    ring: int
    """Of a GPU that rings through all of them use."""


HOPPER: Final = 0.85
BLACKWELL: Final = 0.74
"""Part of the links' rate that NVLink SHARP moves (nvlsEfficiency in NCCL's src/graph/tuning.cc); earlier generations have none."""
UNKNOWN: Final = Board(PCIE3)
"""A product in no table: 16 lanes of PCIe 3.0."""

BOARDS: Final[dict[str, Board]] = {
    "A10": Board(PCIE4),
    "A100": Board(PCIE4),
    "A100-SXM": Board(PCIE4, 12),  # the name that early drivers give an A100-SXM4
    "A100-SXM-64GB": Board(PCIE4, 4),  # a board of four without NVSwitch: four of its twelve links lead to each of the others
    "A100-SXM4": Board(PCIE4, 12),
    "A16": Board(PCIE4 / 4),
    "A2": Board(PCIE4 / 2),
    "A30": Board(PCIE4),
    "A40": Board(PCIE4, link=GA102),
    "A800": Board(PCIE4),
    "A800-SXM4": Board(PCIE4, 8),
    "B100": Board(PCIE5, 18, 50e9, BLACKWELL),
    "B200": Board(PCIE5, 18, 50e9, BLACKWELL),
    "B300": Board(PCIE5, 18, 50e9, BLACKWELL),
    "GB200": Board(PCIE5, 18, 50e9, BLACKWELL),
    "GB300": Board(PCIE5, 18, 50e9, BLACKWELL),
    "GH200": Board(PCIE5),
    "GeForce-RTX-2080": Board(PCIE3),
    "GeForce-RTX-3080": Board(PCIE3),
    "GeForce-RTX-3090": Board(PCIE3, link=GA102),
    "GeForce-RTX-4090": Board(PCIE3),
    "GeForce-RTX-5090": Board(PCIE5, peers=False),
    "H100": Board(PCIE5, 18, sharp=HOPPER),
    "H100-NVL": Board(PCIE5),
    "H100-PCIE": Board(PCIE5),
    "H20": Board(PCIE5, 18, sharp=HOPPER),
    "H200": Board(PCIE5, 18, sharp=HOPPER),
    "H200-NVL": Board(PCIE5),
    "H800": Board(PCIE5, 8, sharp=HOPPER),
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
    "Tesla-V100-SXM2": Board(PCIE3),
    "Tesla-V100-SXM3": Board(PCIE3, 6),
    "V100": Board(PCIE3),
    "V100-SXM2": Board(PCIE3),
    "V100-SXM3": Board(PCIE3, 6),
}
"""From NVIDIA's data sheets; a speed for each is in `hyperscale.planner.problem.speeds`.

P100 and V100 SXM2 stand on boards whose NVLinks are a mesh: of eight GPUs each is joined to four. GeForce cards before the 5090, which
have no peer access, count as UNKNOWN does.
"""

MESHES: Final[dict[tuple[str, int], Mesh]] = {
    ("A100-SXM-64GB", 4): Mesh(4, 12),
    ("GH200", 4): Mesh(6, 18),
    ("Tesla-V100-SXM2", 4): Mesh(1, 4),
    ("Tesla-V100-SXM2", 8): Mesh(0, 6),
    ("V100-SXM2", 4): Mesh(1, 4),
    ("V100-SXM2", 8): Mesh(0, 6),
}
"""By product and GPUs of a node (sources: docs/explanation/machines.md). Rings use all links of a GPU, exchanges the narrowest pair."""


BETWEEN_NODES: Final = ("GB200", "GB300")
"""Boards whose NVLink switches join the nodes of one domain (NVL72)."""


DIRECT: Final = (NVLINK, "PcieSwitch")
"""Ways between two GPUs of which a product's data sheet tells the rate."""


class Exchange(NamedTuple):
    """Of one node; bytes a second are sustained, one way."""

    latency_seconds: float
    bandwidth: float
    """Between any two GPUs."""
    ring: float
    """Of a ring through all of them."""
    sharp: float
    """Efficiency of NVLink SHARP, 0 without it."""


def insides(nodes: Sequence[Node], policy: PolicySpec) -> Inside:
    """The inside of each of `nodes` (n,)."""
    kinds = [(node.gpu_product, node.gpu_paths, node.allocatable_gpus) for node in nodes]
    by_kind = {kind: _inside(*kind, policy.gpus) for kind in set(kinds)}
    exchanges = np.array([by_kind[kind][0] for kind in kinds], dtype=np.float64).reshape(len(nodes), len(Exchange._fields))
    return Inside(
        latency_seconds=exchanges[:, 0].copy(),
        bandwidth_bytes_per_second=exchanges[:, 1].copy(),
        sharp_efficiency=exchanges[:, 3].copy(),
        stated=np.array([by_kind[kind][1] for kind in kinds], dtype=np.bool_),
    )


def between_nodes(nodes: Sequence[Node], inside: Inside) -> FloatArray:
    """(n,) bytes a second, one way, of all GPUs of a node over NVLink to other nodes of its domain; 0 without such switches."""
    products = {node.gpu_product for node in nodes}
    switched = {product for product in products if longest(product, BOARDS) in BETWEEN_NODES}
    joined = [node.gpu_product in switched and (node.gpu_paths is None or node.gpu_paths.kind == NVLINK) for node in nodes]
    gpus = np.array([node.allocatable_gpus for node in nodes], dtype=np.float64)
    rate: FloatArray = np.where(joined, gpus * inside.bandwidth_bytes_per_second, 0.0)
    return rate


def _inside(product: str | None, paths: GpuPaths | None, gpus: int, models: Sequence[GpuModel]) -> tuple[Exchange, bool]:
    """The inside, and whether an agent or the policy tells its bandwidth; each figure by the longest entry that states it."""
    exchange = exchange_of(product, paths, gpus)
    waits = stated(product, {model.product: model.intra_node_latency_seconds for model in models})
    rate = stated(product, {model.product: model.intra_node_bytes_per_second for model in models})
    # An agent tells the way, the rate of one way is the product's. Over a node's bridges and processors it is anyone's guess.
    direct = paths is not None and paths.kind in DIRECT and longest(product, BOARDS) is not None
    reported = rate is not None or direct
    if waits is not None:
        exchange = exchange._replace(latency_seconds=waits)
    # A stated rate is that of rings too: what an administrator measured includes what the switches add up.
    return exchange if rate is None else exchange._replace(bandwidth=rate, ring=rate, sharp=0.0), reported


def observed(product: str | None, paths: GpuPaths | None = None) -> tuple[float, float]:
    """Latency and bandwidth inside a node of that product, by its NVLinks where the node reports them, else by the table."""
    exchange = exchange_of(product, paths)
    return exchange.latency_seconds, exchange.bandwidth


def exchange_of(product: str | None, paths: GpuPaths | None = None, gpus: int = 0) -> Exchange:
    """The inside of a node with `gpus` GPUs of that product (0 where unknown), by reported NVLinks, else by the tables."""
    name = longest(product, BOARDS)
    board = BOARDS[name] if name is not None else UNKNOWN
    mesh = MESHES.get((name or "", gpus))
    pair = _pair_links(product, paths, board, mesh)
    switched = mesh is None and 0 < pair == board.links
    ring = _ring_links(pair, board, gpus)
    if mesh is not None and (paths is None or paths.nvlinks == mesh.pair):
        ring = mesh.ring
    slow = SUSTAINED * board.pcie if board.peers else HOST_MEMORY * board.pcie
    bandwidth = SUSTAINED * pair * board.link if pair else slow
    return Exchange(
        latency_seconds=NVLINK_SECONDS if pair else PCIE_SECONDS,
        bandwidth=bandwidth,
        ring=max(bandwidth, SUSTAINED * ring * board.link),
        sharp=board.sharp if switched else 0.0,
    )


def _pair_links(product: str | None, paths: GpuPaths | None, board: Board, mesh: Mesh | None) -> int:
    """NVLinks between the two GPUs of a node that have the fewest: as reported, else of the machine, else of the product."""
    if paths is not None:
        return paths.nvlinks if paths.kind == NVLINK else 0
    if mesh is not None:
        return mesh.pair
    return 0 if "pcie" in (product or "").lower() else board.links


def _ring_links(pair: int, board: Board, gpus: int) -> int:
    """NVLinks of a GPU that rings use where `pair` join every two GPUs: no more than the product has."""
    return min(pair * max(gpus - 1, 1), max(board.links, pair))
