"""The cluster as a graph of GPU nodes and links, with costs for any subset of nodes as dense arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from hyperscale.model.cluster import AbsentLink, ClusterSnapshot, Node
from hyperscale.model.graph_arrays import Estimates as Estimates
from hyperscale.model.graph_arrays import Fabrics as Fabrics
from hyperscale.model.graph_arrays import Inside as Inside
from hyperscale.model.graph_arrays import LinkCosts as LinkCosts
from hyperscale.model.graph_arrays import Machine as Machine
from hyperscale.model.graph_arrays import MeasuredLinks as MeasuredLinks
from hyperscale.model.graph_arrays import PairEstimate as PairEstimate
from hyperscale.model.graph_arrays import Tiers as Tiers
from hyperscale.model.graph_arrays import plain_machine as plain_machine
from hyperscale.util.memo import Memo

if TYPE_CHECKING:
    import networkx

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

MAX_TABLE_NODES: Final = 1_500
"""Nodes of which a table says where each pair's link is: 9 MB. Among more, links are looked up by bisection."""
KEPT_RESULTS: Final = 20
"""Arrays of the nodes, doubts about figures, hidden GPUs, the pod network, and the checks of sixteen different demands of a worker."""


@dataclass(frozen=True)
class ClusterGraph:
    """Nodes and links of one snapshot, ready for arithmetic. Built by `hyperscale.planner.graph.cluster_graph.build`."""

    snapshot: ClusterSnapshot
    digest: str
    """`snapshot_digest` of the snapshot."""

    nodes: tuple[Node, ...]
    """Sorted by name; every array below is aligned with it."""

    index: dict[str, int]
    """Position by node name."""

    domains: IntArray
    """(n, levels) code of each node's domain, -1 where it has no such label."""

    tiers: Tiers
    links: MeasuredLinks
    inside: Inside
    machine: Machine
    estimates: Estimates | None = None
    """Learned from the measured links; None where they are too few: the tiers' figures stand."""
    networks: Memo[Any] = field(default_factory=lambda: Memo(1), repr=False, compare=False)
    """Graphs of other networks between the same nodes; those that `dataclasses.replace` makes share them."""
    results: Memo[Any] = field(default_factory=lambda: Memo(KEPT_RESULTS), init=False, repr=False, compare=False)
    """Results of pure functions of this graph, by function; they live as long as the graph. `dataclasses.replace` starts without any."""

    @cached_property
    def network(self) -> networkx.DiGraph[str]:
        """Directed graph of the nodes (attribute `node`) and the links of the snapshot only.

        Edge attributes: latency_seconds, bandwidth_bytes_per_second; an unusable figure is left out.
        """
        # Imported here: planning needs arrays only, and the import would double the start of `hyperscale plan`.
        import networkx

        network: networkx.DiGraph[str] = networkx.DiGraph()
        network.add_nodes_from((node.name, {"node": node}) for node in self.nodes)
        for link in self.snapshot.links:
            if link.source in self.index and link.destination in self.index:
                figures: dict[str, Any] = {
                    "latency_seconds": link.latency_seconds.value,
                    "bandwidth_bytes_per_second": link.bandwidth_bytes_per_second.value,
                }
                network.add_edge(link.source, link.destination, **{key: value for key, value in figures.items() if value is not None})
        return network

    def common_tier(self, rows: IntArray, columns: IntArray) -> IntArray:
        """(r, c) tier of every pair: 0 nothing in common, 1.. the narrowest common level."""
        tier = np.zeros((len(rows), len(columns)), dtype=np.int64)
        for level in range(self.domains.shape[1]):
            left, right = self.domains[rows, level], self.domains[columns, level]
            tier[(left[:, None] == right[None, :]) & (left >= 0)[:, None]] = level + 1
        return tier

    def link_costs(self, indices: IntArray) -> LinkCosts:
        """Costs among the nodes at `indices` (k,); a node may occur more than once."""
        return self.link_costs_between(indices, indices)

    def link_costs_between(self, rows: IntArray, columns: IntArray) -> LinkCosts:
        """Costs from the nodes at `rows` (r,) to those at `columns` (c,), as (r, c) arrays.

        A figure comes from the pair's own sample, else from the sample of the opposite direction, else from what the measured links
        say about the others, else from the narrowest topology level that both share; an estimated bandwidth is no more than both nodes'
        network cards together carry. A pair without a link is unreachable where the snapshot says that it lists every link, or where either
        direction was measured and is dead.
        """
        rows, columns = np.asarray(rows, dtype=np.int64), np.asarray(columns, dtype=np.int64)
        tier = self.common_tier(rows, columns)
        same = rows[:, None] == columns[None, :]
        there = self._samples(rows, columns)
        back = there if rows is columns else self._samples(columns, rows)
        measured: BoolArray = np.where(same, self.inside.stated[rows][:, None], np.isfinite(there[0]) & np.isfinite(there[1]))
        guess = self._tier_figures(rows, columns, tier)
        if self.estimates is not None:
            guess = self.estimates.latency.estimated(rows, columns, guess[0]), self.estimates.bandwidth.estimated(rows, columns, guess[1])
        card = self.card_bytes_per_second
        over_nvlink = self.nvlink_between(rows, columns, tier)
        bounded = np.where(over_nvlink > 0.0, over_nvlink, np.minimum(guess[1], np.minimum.outer(card[rows], card[columns])))
        latency = np.where(same, self.inside.latency_seconds[rows][:, None], _filled(there[0], back[0].T, guess[0]))
        bandwidth = np.where(same, self.inside.bandwidth_bytes_per_second[rows][:, None], _filled(there[1], back[1].T, bounded))
        if self.snapshot.absent_links is AbsentLink.UNREACHABLE:
            absent = ~(there[2] | same)
            latency[absent] = np.inf
            bandwidth[absent] = 0.0
        dead = (there[1] == 0.0) | (back[1].T == 0.0)
        if dead.any():
            latency[dead] = np.inf
            bandwidth[dead] = 0.0
        return LinkCosts(latency, bandwidth, measured)

    @cached_property
    def cut_off(self) -> dict[int, tuple[int, ...]]:
        """Nodes whose every measured link is dead, to several others, by position: those others.

        With one other it is unknown which of the two it is. Not all links of a large cluster are measured: those of such a node that were
        not measured are no better.
        """
        count = max(1, len(self.nodes))
        ends = self.links.key // count, self.links.key % count
        dead = self.links.bandwidth_bytes_per_second == 0.0
        if not dead.any():
            return {}
        alive = ~dead & (np.isfinite(self.links.latency_seconds) | np.isfinite(self.links.bandwidth_bytes_per_second))
        if self.links.answered is not None:
            alive = ~dead & self.links.answered
        reached = {int(end) for side in ends for end in side[alive]}
        silent: dict[int, set[int]] = {}
        for one, other in zip(ends[0][dead].tolist(), ends[1][dead].tolist(), strict=True):
            silent.setdefault(one, set()).add(other)
            silent.setdefault(other, set()).add(one)
        return {node: tuple(sorted(others)) for node, others in sorted(silent.items()) if len(others) > 1 and node not in reached}

    def _tier_figures(self, rows: IntArray, columns: IntArray, tier: IntArray) -> tuple[FloatArray, FloatArray]:
        """(r, c) latency and bandwidth that the common tier alone says; on one fast network, its latency and the cards' rate."""
        latency, bandwidth = self.tiers.latency_seconds[tier], self.tiers.bandwidth_bytes_per_second[tier]
        fabric, card = self.machine.fabric, self.card_bytes_per_second
        if fabric is None or not fabric.network.any():
            return latency, bandwidth
        shared = self.fabric_between(rows, columns, tier)
        hop = np.maximum.outer(fabric.hop_seconds[rows], fabric.hop_seconds[columns])
        carried = np.minimum.outer(card[rows], card[columns])
        return np.where(shared & np.isfinite(hop), hop, latency), np.where(shared & np.isfinite(carried), carried, bandwidth)

    def fabric_between(self, rows: IntArray, columns: IntArray, tier: IntArray) -> BoolArray:
        """(r, c) True where two nodes with that tier in common are on one fast network."""
        fabric = self.machine.fabric
        if fabric is None:
            return np.zeros(tier.shape, dtype=np.bool_)
        shared: BoolArray = (fabric.network[rows][:, None] == fabric.network[columns]) & (fabric.network[rows] > 0)[:, None]
        return shared & fabric.tiers[tier]

    @property
    def has_fabric(self) -> bool:
        """True where some two nodes are on one fast network."""
        fabric = self.machine.fabric
        return fabric is not None and bool((np.bincount(fabric.network)[1:] > 1).any())

    def nvlink_between(self, rows: IntArray, columns: IntArray, tier: IntArray) -> FloatArray:
        """(r, c) bytes a second that NVLink switches carry between two nodes with that tier in common; 0 where none join them."""
        rate, tiers = self.machine.nvlink_bytes_per_second, self.machine.nvlink_tiers
        if rate is None or tiers is None:
            return np.zeros(tier.shape)
        between: FloatArray = np.where(tiers[tier], np.minimum.outer(rate[rows], rate[columns]), 0.0)
        return between

    @cached_property
    def card_bytes_per_second(self) -> FloatArray:
        """(n,) what each node's network cards carry together; +inf where nothing tells. It bounds what is estimated of its links."""
        if self.machine.card_bytes_per_second is not None:
            return self.machine.card_bytes_per_second
        figures = ((node.network_bytes_per_second.value, node.network_cards or 1) for node in self.nodes)
        return np.array([math.inf if speed is None or speed <= 0 else speed * cards for speed, cards in figures])

    def link_errors_between(self, rows: IntArray, columns: IntArray) -> tuple[FloatArray, FloatArray]:
        """(r, c) relative error to expect of each pair: 0 where either direction was measured, 1 where it is unknown."""
        rows, columns = np.asarray(rows, dtype=np.int64), np.asarray(columns, dtype=np.int64)
        tier = self.common_tier(rows, columns)
        there, back = self._samples(rows, columns), self._samples(columns, rows)
        errors = []
        for at in range(2):
            way = None if self.estimates is None else (self.estimates.latency, self.estimates.bandwidth)[at]
            stated = np.ones(tier.shape) if way is None else way.expected_errors(rows, columns, tier)
            errors.append(np.where(np.isfinite(there[at]) | np.isfinite(back[at].T), 0.0, stated))
        return errors[0], errors[1]

    def _samples(self, rows: IntArray, columns: IntArray) -> tuple[FloatArray, FloatArray, BoolArray]:
        """(r, c) latency and bandwidth samples, NaN where unusable, and whether the snapshot lists the pair at all."""
        shape = (len(rows), len(columns))
        if not len(self.links.key):
            return np.full(shape, np.nan), np.full(shape, np.nan), np.zeros(shape, dtype=np.bool_)
        wanted = rows[:, None] * len(self.nodes) + columns[None, :]
        if len(self.nodes) <= MAX_TABLE_NODES:
            at = self._link_table[2].take(wanted)
            return self._link_table[0].take(at), self._link_table[1].take(at), at >= 0
        at = np.minimum(np.searchsorted(self.links.key, wanted), len(self.links.key) - 1)
        listed: BoolArray = self.links.key[at] == wanted
        figures = self.links.latency_seconds[at], self.links.bandwidth_bytes_per_second[at]
        return np.where(listed, figures[0], np.nan), np.where(listed, figures[1], np.nan), listed

    @cached_property
    def _link_table(self) -> tuple[FloatArray, FloatArray, npt.NDArray[np.int32]]:
        """Latency and bandwidth of the links and NaN at their end, (m + 1,), and (n²,) the first place of each pair there, -1 for none."""
        places = np.full(len(self.nodes) ** 2, -1, dtype=np.int32)
        places[self.links.key[::-1]] = np.arange(len(self.links.key) - 1, -1, -1, dtype=np.int32)
        latency, bandwidth = (np.append(each, np.nan) for each in (self.links.latency_seconds, self.links.bandwidth_bytes_per_second))
        return latency, bandwidth, places


def _filled(samples: FloatArray, opposite: FloatArray, estimates: FloatArray) -> FloatArray:
    """`samples` (r, c) where usable, else `opposite`, else `estimates`."""
    filled = np.where(np.isfinite(samples), samples, opposite)
    chosen: FloatArray = np.where(np.isfinite(filled), filled, estimates)
    return chosen
