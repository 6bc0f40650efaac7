"""What an allreduce takes by each of NCCL's algorithms and protocols: hops of latency and factors on bytes. Pure.

Source of every constant: NCCL's own tuning model (src/graph/tuning.cc of https://github.com/NVIDIA/nccl): baseLatencies, hwLatencies,
efficiencies of LL128 and of trees. A ring passes every rank twice. A tree goes through a node's ranks in a chain and between nodes in as
many levels as a binary tree has. With NVLink SHARP the switches add up the data (NVLS), between nodes in a tree of nodes.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

MICROSECONDS: Final = 1e-6
RING_HOP: Final = 5.0
"""Microseconds that the latency of an inside with NVLink stands for: NCCL's 3.4 of a ring with Simple, times its plateau of 1.4."""
SHARP_SECONDS: Final = 25.0 * MICROSECONDS
"""NVLS inside of a node."""
SHARP_HOP_SECONDS: Final = 20.9 * MICROSECONDS
"""A level of the tree of NVLS between nodes, beside the network's latency."""
MIN_SHARP_RANKS: Final = 2
"""Ranks of a node from which on the switches add up."""


class Collective(NamedTuple):
    """One algorithm with one protocol; see `Collective.seconds` for what the figures mean."""

    between_hops: float
    inside_hops: float
    byte_factor: float
    """Times the bytes: what passes the network cards of a node each way; on one node what passes a GPU's links."""
    inside_byte_factor: float = 0.0
    """Times the bytes: what passes a GPU's links inside of a node each way; 0 where a node has one rank."""
    base_seconds: float = 0.0
    """Launch, and NCCL's own handling of every hop between nodes."""

    def seconds(self, payload: float, between: tuple[float, float], inside: tuple[float, float]) -> float:
        """Return what `payload` bytes take.

        between, inside: latency of the slowest hop and seconds per byte of the most loaded one, between nodes and inside of them
        """
        waits = self.base_seconds + self.between_hops * between[0] + self.inside_hops * inside[0]
        if self.between_hops == 0.0:
            return waits + self.inside_byte_factor * payload * inside[1]
        return waits + payload * max(self.byte_factor * between[1], self.inside_byte_factor * inside[1])


class Protocol(NamedTuple):
    """Latencies in microseconds and efficiencies, ring and tree."""

    ring_base: float
    ring_inside: float
    ring_between: float
    ring_efficiency: float
    tree_base: float
    tree_inside: float
    tree_between: float
    tree_efficiency: float
    tree_single_efficiency: float
    """On one node."""


LL128: Final = Protocol(14.0, 1.9, 4.0, 0.92, 14.0, 1.25, 8.5, 0.92 * 120 / 128, 0.92 * 7 / 9)
SIMPLE: Final = Protocol(8.4, 3.4, 14.0, 1.0, 8.4, 4.0, 14.0, 0.92, 0.92)
PROTOCOLS: Final = (LL128, SIMPLE)
"""LL is left out: it moves half of the bytes and wins below some hundred KiB only."""


def allreduce(ranks: int, nodes: int, sharp_efficiency: float = 0.0) -> tuple[Collective, ...]:
    """Return the algorithms for `ranks` ranks on `nodes` nodes: rings, trees, NVLS; the fastest counts. Empty for one rank.

    sharp_efficiency: of NVLink SHARP, the least of the nodes (`Inside.sharp_efficiency`); 0 where switches do not add up
    """
    if ranks < 2:
        return ()
    rings = tuple(_ring(ranks, nodes, protocol) for protocol in PROTOCOLS)
    trees = tuple(_tree(ranks, nodes, protocol) for protocol in PROTOCOLS)
    if sharp_efficiency <= 0.0:
        return rings + trees
    # As many entries for every number of nodes: callers keep them in one array.
    return (*rings, *trees, _sharp(ranks, nodes, sharp_efficiency) if ranks >= MIN_SHARP_RANKS * nodes else rings[-1])


def _ring(ranks: int, nodes: int, protocol: Protocol) -> Collective:
    """2 (n - 1) hops, of which the crossings between nodes have their part; 2 (n - 1) / n of the bytes over each."""
    crossings = nodes if nodes > 1 else 0
    steps = 2.0 * (ranks - 1)
    between, inside = steps * crossings / ranks, steps * (ranks - crossings) / ranks
    factor = steps / ranks / protocol.ring_efficiency
    base = MICROSECONDS * (protocol.ring_base + between * protocol.ring_between)
    return Collective(between, inside * protocol.ring_inside / RING_HOP, factor, factor if ranks > nodes else 0.0, base)


def _tree(ranks: int, nodes: int, protocol: Protocol) -> Collective:
    """Up and down a double binary tree: all bytes twice over the links of a GPU, over the cards as `_tree_load` says."""
    levels = 2.0 * math.ceil(math.log2(nodes))
    chain = 2.0 * max(ranks / nodes - 1.0, 0.0)
    inside = 2.0 / (protocol.tree_efficiency if nodes > 1 else protocol.tree_single_efficiency)
    between = _tree_load(nodes) / protocol.tree_efficiency if nodes > 1 else inside
    base = MICROSECONDS * (protocol.tree_base + levels * protocol.tree_between)
    return Collective(levels, chain * protocol.tree_inside / RING_HOP, between, inside if ranks > nodes else 0.0, base)


def _tree_load(nodes: int) -> float:
    """Times the bytes over a node's cards each way. Every node is a leaf of one tree and inside the other; of two nodes each is a root."""
    return 1.0 if nodes == 2 else 2.0


def _sharp(ranks: int, nodes: int, efficiency: float) -> Collective:
    """Each GPU gives all bytes to the switches once and passes its own part; between nodes the parts go up and down a tree."""
    members = ranks / nodes
    levels = 2.0 * math.ceil(math.log2(nodes))
    inside = (1.0 + 1.0 / members) / efficiency
    return Collective(levels, 0.0, _tree_load(nodes) if nodes > 1 else inside, inside, SHARP_SECONDS + levels * SHARP_HOP_SECONDS)
