"""Resources of nodes that all traffic through them shares: network cards, their networks, uplinks of topology domains."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


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
