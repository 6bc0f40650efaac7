"""Resources of nodes that all traffic through them shares, as the cost model reads them. Pure."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from hyperscale.model.graph import BoolArray, Fabrics, FloatArray, IntArray, Machine

LEAST_LEFT_RATIO: Final = 0.05
"""A new job gets some turn on cards that others fill; keeps figures finite."""
LEAST_BYTES_PER_SECOND: Final = 1.0
"""Of uplinks that running jobs fill; likewise."""


@dataclass(frozen=True)
class MachineCosts:
    """What m candidates share."""

    rails: IntArray
    """(m,) see `Costs.rails`; empty where one GPU fills the cards everywhere."""
    left: FloatArray
    """(m,) part of their network cards that running jobs leave; empty where they leave all."""
    uplink_domains: IntArray
    """(levels, m) only levels on which some uplink is limited."""
    uplink_seconds_per_byte: FloatArray
    """(levels, domains)"""

    def slowed(self, seconds_per_byte: FloatArray) -> FloatArray:
        """`seconds_per_byte` (m, m) where running jobs have their part of both ends' cards; the inside of nodes stays."""
        if not len(self.left):
            return seconds_per_byte
        slowed: FloatArray = seconds_per_byte / np.minimum(self.left[:, None], self.left)
        np.fill_diagonal(slowed, np.diagonal(seconds_per_byte))
        return slowed


def machine_costs(machine: Machine, nodes: IntArray) -> MachineCosts:
    """The part of `machine` that concerns the nodes at positions `nodes` (m,)."""
    rails, left = machine.rails[nodes], cards_left(machine, nodes)
    bandwidth, domains, used = machine.uplink_bytes_per_second, machine.uplink_domains, _limited_levels(machine)
    return MachineCosts(
        rails=rails if (rails > 1).any() else rails[:0],
        left=left if (left < 1.0).any() else left[:0],
        uplink_domains=domains[used][:, nodes],
        uplink_seconds_per_byte=1.0 / np.maximum(bandwidth[used], LEAST_BYTES_PER_SECOND) if used.any() else np.zeros((0, 0)),
    )


def cards_left(machine: Machine, nodes: IntArray) -> FloatArray:
    """(m,) part of the network cards of the nodes at positions `nodes` (m,) that running jobs leave, never quite nothing."""
    left: FloatArray = np.maximum(machine.cards_left_ratio[nodes], LEAST_LEFT_RATIO)
    return left


def uplink_name(machine: Machine, level: int, domain: int) -> str:
    """Name of a domain at one of the levels that `machine_costs` keeps."""
    at = int(np.flatnonzero(_limited_levels(machine))[level])
    return machine.uplink_names[at][domain] if len(machine.uplink_names) > at else f"level {at}, domain {domain}"


def _limited_levels(machine: Machine) -> BoolArray:
    """(levels,) True where some uplink is limited."""
    bandwidth = machine.uplink_bytes_per_second
    if not bandwidth.size:
        return np.zeros(len(machine.uplink_domains), dtype=np.bool_)
    limited: BoolArray = np.any(np.isfinite(bandwidth), axis=1)
    return limited


def machine_identity(machine: Machine | Fabrics) -> tuple[Hashable, ...]:
    """Everything of `machine` as one value: a search may depend on each of its fields."""
    return tuple(_identity(getattr(machine, each.name)) for each in fields(machine))


def _identity(value: Fabrics | FloatArray | tuple[tuple[str, ...], ...] | None) -> Hashable:
    if isinstance(value, Fabrics):
        return machine_identity(value)
    return (value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value
