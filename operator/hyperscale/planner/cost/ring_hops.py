"""What sets the pace of an allreduce: latencies of the slowest hops, and the most loaded card, inside or uplink. Pure.

For many rings at once; `objective.predict` has the same in plain arithmetic. Formulas: docs/explanation/planner.md.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from hyperscale.model.graph import FloatArray, IntArray
from hyperscale.planner.cost.costs import Costs, volumes

BATCH_ELEMENTS: Final = 2_000_000
"""Largest (B, k, k) intermediate, in numbers: 16 MB stays in a cache-friendly range."""


class SlowestHops(NamedTuple):
    """What sets the pace of an allreduce over each of B rings."""

    nodes: IntArray
    """(B,) different nodes."""
    between_seconds: FloatArray
    """(B,) largest latency of a hop between two nodes; 0 where there is one node."""
    inside_seconds: FloatArray
    """(B,) largest latency inside a node that has several ranks."""
    seconds_per_byte: FloatArray
    """(B,) of the most loaded hop between two nodes: cards and uplinks that several hops share counted; 0 where there is one node."""
    inside_seconds_per_byte: FloatArray
    """(B,) of the slowest inside of a node that has several ranks."""
    sharp: IntArray
    """(B,) class of the nodes, see `Costs.sharp_class`."""


def slowest_hops(costs: Costs, orders: IntArray) -> SlowestHops:
    """The slowest hops of each ring in `orders` (B, k)."""
    following = np.concatenate((orders[:, 1:], orders[:, :1]), axis=1)
    ordered = np.sort(orders, axis=1)
    again = ordered[:, 1:] == ordered[:, :-1]
    between = np.where(orders != following, costs.latency_seconds[orders, following], 0.0).max(axis=1)
    several, counted = (orders, True) if costs.gpus_per_worker > 1 else (ordered[:, 1:], again)
    inside = np.where(counted, costs.inside_latency_seconds[several], 0.0).max(axis=1, initial=0.0)
    inside_per_byte = np.where(counted, costs.inside_seconds_per_byte[several], 0.0).max(axis=1, initial=0.0)
    per_byte = (costs.apart_seconds_per_byte[orders, following] * hop_loads(costs, orders, following)).max(axis=1)
    for domains, uplinks in zip(costs.uplink_domains, costs.uplink_seconds_per_byte, strict=True):
        per_byte = np.maximum(per_byte, _uplink_hops(domains[orders], domains[following], uplinks))
    sharp = costs.sharp_class[orders].min(axis=1)
    return SlowestHops(orders.shape[1] - again.sum(axis=1), between, inside, per_byte, inside_per_byte, sharp)


def _uplink_hops(source: IntArray, target: IntArray, uplinks: FloatArray) -> FloatArray:
    """(B,) seconds per byte of the most loaded uplink; source, target: (B, k) domains of the ends of each hop, -1 for none."""
    leaves = (source != target) & (source >= 0)
    rows, domains = len(source), len(uplinks)
    at = (np.maximum(source, 0) + np.arange(rows)[:, None] * domains).ravel()
    times = np.bincount(at, weights=leaves.ravel(), minlength=rows * domains).reshape(rows, domains)
    most: FloatArray = (times * uplinks).max(axis=1, initial=0.0)
    return most


def hops_seconds(costs: Costs, order: IntArray) -> tuple[FloatArray, FloatArray]:
    """(k,) seconds of an epoch's allreduce at the pace of each hop alone: from each worker of `order` (k,) to the next, and inside each.

    The latter is 0 where workers have one GPU.
    """
    volume, following = volumes(costs, len(order)), np.roll(order, -1)
    shared = hop_loads(costs, order[None, :], following[None, :])[0]
    nodes, same, none = np.full(len(order), len(np.unique(order))), order == following, np.zeros(len(order))
    latency, per_byte = costs.latency_seconds[order, following], shared * costs.seconds_per_byte[order, following]
    between = np.where(same, 0.0, latency), np.where(same, 0.0, per_byte)
    inside = np.where(same, latency, 0.0), np.where(same, per_byte, 0.0)
    sharp = int(costs.sharp_class[order].min())
    apart = volume.allreduce_seconds(nodes, between[0], inside[0], between[1], inside[1], sharp)
    if costs.gpus_per_worker == 1:
        return apart, none
    own = costs.inside_latency_seconds[order], costs.inside_seconds_per_byte[order]
    return apart, volume.allreduce_seconds(nodes, none, own[0], none, own[1], sharp)


def crossings(costs: Costs, orders: IntArray, following: IntArray) -> FloatArray:
    """(B, k) how many hops share the card of the busier end of each hop; 1 for a hop inside a node.

    orders, following: (B, k) where each hop of a ring starts and ends. A ring that enters a node several times shares its card.
    """
    source, target = _leaving(costs, orders, following)
    return np.where(orders != following, np.maximum(source, target), 1.0)


def hop_loads(costs: Costs, orders: IntArray, following: IntArray) -> FloatArray:
    """(B, k) by how much longer a byte takes over each hop than over its idle, filled path; 1 inside a node.

    A card is shared by the hops that leave its node, and only partly filled by few ranks there; the worse end counts.
    """
    if not costs.railed:
        return crossings(costs, orders, following)
    source, target = _leaving(costs, orders, following)
    slow = costs.card_slowness(orders, (orders[:, :, None] == orders[:, None, :]).sum(axis=2))
    far = np.roll(slow, -1, axis=1)
    return np.where(orders != following, np.maximum(source * slow, target * far), 1.0)


def _leaving(costs: Costs, orders: IntArray, following: IntArray) -> tuple[FloatArray, FloatArray]:
    """(B, k) how many hops of the ring leave the node where each hop starts, and the one where it ends; at least 1."""
    rows, workers = orders.shape
    ordered = np.sort(orders, axis=1)
    again = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
    counts = np.ones((2, rows, workers))
    nodes = len(costs.flops_per_second)
    at_once = max(1, BATCH_ELEMENTS // nodes)
    for start in range(0, len(again), at_once):
        chosen = again[start : start + at_once]
        source, target = orders[chosen], following[chosen]
        offset = np.arange(len(chosen))[:, None] * nodes
        leaves = source != target
        times = np.bincount((source + offset).ravel(), weights=leaves.ravel(), minlength=len(chosen) * nodes)
        counts[0][chosen], counts[1][chosen] = np.maximum(times[source + offset], 1.0), np.maximum(times[target + offset], 1.0)
    return counts[0], counts[1]
