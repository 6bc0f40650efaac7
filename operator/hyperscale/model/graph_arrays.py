"""A cluster's links and what nodes share, as arrays: measured and estimated figures, insides of nodes, cards, fabrics, uplinks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class LinkCosts:
    """Costs of every ordered pair of k chosen nodes; row = source, column = destination.

    Where a node meets itself, the figures are those between two of its GPUs.
    """

    latency_seconds: FloatArray
    """(k, k) one way; +inf where two nodes cannot talk."""

    bandwidth_bytes_per_second: FloatArray
    """(k, k) sustained one way; 0 where two nodes cannot talk."""

    measured: BoolArray
    """(k, k) True where both figures come from the pair's own samples; where a node meets itself, see `Inside.stated`."""

    @property
    def reachable(self) -> BoolArray:
        """(k, k) True where both directions can talk; the diagonal is True."""
        talks = np.isfinite(self.latency_seconds) & (self.bandwidth_bytes_per_second > 0)
        both: BoolArray = talks & talks.T
        return both


@dataclass(frozen=True)
class Tiers:
    """Estimated link figures by what two nodes have in common, widest first."""

    names: tuple[str, ...]
    """"" for nothing in common, then the topology levels."""

    latency_seconds: FloatArray
    """(levels + 1,) one way."""

    bandwidth_bytes_per_second: FloatArray
    """(levels + 1,) sustained one way."""


@dataclass(frozen=True)
class MeasuredLinks:
    """Directed links of the snapshot in coordinate form, sorted by key; what cannot be used is NaN, the bandwidth of a dead link 0."""

    key: IntArray
    """(m,) source × n + destination."""

    latency_seconds: FloatArray
    """(m,)"""
    bandwidth_bytes_per_second: FloatArray
    """(m,)"""
    confidence: FloatArray
    """(m,) the lesser of both samples' confidences; 1 where neither is known."""
    answered: BoolArray | None = None
    """(m,) True where a sample tells whether the link is alive, also one that counts for nothing else. None: where a figure is usable."""


class PairEstimate(Protocol):
    """How one figure of an unmeasured pair is estimated; see `hyperscale.planner.graph.completion`."""

    def estimated(self, rows: IntArray, columns: IntArray, tier_figures: FloatArray) -> FloatArray:
        """(r, c) figures; tier_figures (r, c) are what the topology tier alone says."""

    def expected_errors(self, rows: IntArray, columns: IntArray, tier: IntArray) -> FloatArray:
        """(r, c) relative error to expect, 0..1; tier (r, c)."""


@dataclass(frozen=True)
class Estimates:
    """Of both figures."""

    latency: PairEstimate
    bandwidth: PairEstimate


@dataclass(frozen=True)
class Inside:
    """Links between two GPUs of one node, any two, one way."""

    latency_seconds: FloatArray
    """(n,)"""
    bandwidth_bytes_per_second: FloatArray
    """(n,) sustained."""
    stated: BoolArray
    """(n,) True where an agent or the policy states the bandwidth, False where it is assumed for the product."""
    sharp_efficiency: FloatArray
    """(n,) part of the links' rate that collectives reach where NVSwitches add up the data (NVLink SHARP); 0 where they do not."""


@dataclass(frozen=True)
class Fabrics:
    """Networks that carry the traffic of all cards of their nodes: InfiniBand, EFA and the like."""

    network: IntArray
    """(n,) number of the network that a node is on, from 1; 0 for none. Those of one kind in one zone count as one."""
    hop_seconds: FloatArray
    """(n,) its latency, NaN where only the topology tells."""
    tiers: BoolArray
    """(topology levels + 1,) True where nodes with that in common may share one, and no measurement tells its speed."""


@dataclass(frozen=True)
class Machine:
    """Resources of n nodes that all traffic through them shares."""

    rails: IntArray
    """(n,) GPUs of a node that must send at once to fill its network cards: the smaller of cards and GPUs; 1 where unknown."""
    cards_left_ratio: FloatArray
    """(n,) 0..1, above 0: part of a node's network cards that the traffic of running jobs leaves; 1 where unknown."""
    uplink_domains: IntArray
    """(levels, n) domain of each node at each level with limited uplinks, -1 where it has none."""
    uplink_bytes_per_second: FloatArray
    """(levels, domains) what running traffic leaves of each domain's uplinks, one way; +inf where unlimited."""
    uplink_names: tuple[tuple[str, ...], ...] = ()
    """(levels, domains) such as leaf/rack-3, for a plan's reasons."""
    card_bytes_per_second: FloatArray | None = None
    """(n,) what all network cards of a node carry together, one way; +inf where unknown. None: the nodes' own figures."""
    uplink_capacity_bytes_per_second: FloatArray | None = None
    """(levels, domains) what uplinks carry without running traffic; None where that is `uplink_bytes_per_second`."""
    fabric: Fabrics | None = None
    nvlink_bytes_per_second: FloatArray | None = None
    """(n,) what all GPUs of a node send over NVLink to other nodes of its domain, one way; 0 where no switches join them."""
    nvlink_tiers: BoolArray | None = None
    """(topology levels + 1,) True where nodes with that in common are of one NVLink domain; None with `nvlink_bytes_per_second`."""


def plain_machine(nodes: int) -> Machine:
    """Return the machine of `nodes` nodes of which neither rails, traffic nor uplinks are known."""
    none = np.zeros((0, nodes), dtype=np.int64)
    return Machine(np.ones(nodes, dtype=np.int64), np.ones(nodes), none, np.zeros((0, 0)))
