"""Links of a cluster as arrays: what was measured, what is estimated, what the inside of nodes carries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hyperscale.model.shared_resources import BoolArray, FloatArray, IntArray


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
    ring_bytes_per_second: FloatArray
    """(n,) what a ring through all GPUs of the node moves. A board that joins its GPUs pair by pair has more than one pair's figure."""
    sharp_efficiency: FloatArray
    """(n,) part of the links' rate that collectives reach where NVSwitches add up the data (NVLink SHARP); 0 where they do not."""
