"""Network cards, their running traffic and the uplinks of topology domains: what all traffic through them shares. Pure.

A node's cards come from the first of these that tells them: PlannerPolicy, InfiniBand ports as exporters count them, the table of machines
by instance type, the fastest Ethernet cards seen. Figures that cannot be used are unknown: one card, no traffic, uplinks without limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hyperscale.model.api.policy import PolicySpec, UplinkOverride
from hyperscale.model.cluster import Node, Origin, Quality, Sample
from hyperscale.model.graph import BoolArray, Fabrics, FloatArray, IntArray, Machine, Tiers
from hyperscale.planner.graph.machines_table import InstanceType, instance_type
from hyperscale.planner.graph.tiers import ZONE, accelerator_tiers

MIN_LEFT_RATIO: Final = 0.05
"""Part of cards and uplinks that running traffic always leaves: a new job gets its turn on a full network too."""
LEAVING_RATIO: Final = 0.5
"""Part of what nodes send that is counted on their uplinks: where traffic goes is not measured, and jobs are packed into domains."""
INFINIBAND: Final = "InfiniBand"
"""Ports of nodes that no table knows: those of one zone count as one network, whatever their rates."""
TABLE: Final = "instance-type"
"""Source of figures from the table of machines."""


class Cards(NamedTuple):
    """Network cards of one node."""

    number: int | None
    """None where nothing tells: one counts."""
    bytes_per_second: float | None
    """Of one card, one way; None where nothing tells."""
    source: str
    """See `Origin`; TABLE for the table of machines, "" where nothing tells."""

    @property
    def together(self) -> float:
        """Bytes a second of all cards, one way; +inf where nothing tells."""
        return math.inf if self.bytes_per_second is None else self.bytes_per_second * (self.number or 1)


UNKNOWN: Final = Cards(None, None, "")


def cards_of(node: Node) -> Cards:
    """The network cards of a node, by the best source that tells them."""
    return _cards(node, instance_type(node.labels))


def _cards(node: Node, entry: InstanceType | None) -> Cards:
    """entry: the node's machine type."""
    sample = node.network_bytes_per_second
    speed = _usable(sample)
    stated = node.sources.get("networkCards") == Origin.OVERRIDE
    if entry is None or (speed is not None and sample.source not in (Origin.NODE_EXPORTER, Origin.INFINIBAND)):
        return Cards(node.network_cards, speed, sample.source if speed is not None else "")
    if speed is not None and sample.source == Origin.INFINIBAND:
        # Virtual functions are ports too: no machine has more cards than its type.
        seen_cards = node.network_cards or entry.cards
        return Cards(seen_cards if stated else min(seen_cards, entry.cards), speed, sample.source)
    return Cards(node.network_cards if stated else entry.cards, entry.card_bytes_per_second, TABLE)


def machine(
    nodes: Sequence[Node], assumed: Tiers, tiers: Tiers, of_fabrics: Tiers | None, policy: PolicySpec, nvlink: FloatArray
) -> Machine:
    """The shared resources of `nodes` (n,).

    assumed, tiers: estimated links before and after measurements were read
    of_fabrics: after those between nodes of one fast network were; None where no pod reaches it: its cards and their traffic tell nothing
    nvlink: (n,) see `inside.between_nodes`
    """
    entries = [instance_type(node.labels) for node in nodes]
    reached = [_reached(node, entry, of_fabrics is not None) for node, entry in zip(nodes, entries, strict=True)]
    cards = [each for each, _ in reached]
    together = np.array([each.together for each in cards], dtype=np.float64)
    domains, capacity, names = _uplinks(nodes, tiers, together, policy.overrides.uplinks)
    joined = bool((nvlink > 0.0).any())
    plain = Machine(
        rails=np.array([_rails(*each) for each in zip(cards, nodes, nvlink.tolist(), strict=True)], dtype=np.int64),
        cards_left_ratio=np.array([left for _, left in reached], dtype=np.float64),
        uplink_domains=domains,
        uplink_bytes_per_second=capacity,
        uplink_names=names,
        card_bytes_per_second=together,
        uplink_capacity_bytes_per_second=capacity,
        fabric=None if of_fabrics is None else _fabrics(cards, entries, assumed, of_fabrics),
        nvlink_bytes_per_second=nvlink if joined else None,
        nvlink_tiers=accelerator_tiers(assumed.names[1:]) if joined else None,
    )
    return _with_uplinks_left(plain)


def _reached(node: Node, entry: InstanceType | None, fabrics: bool) -> tuple[Cards, float]:
    """Cards that pods reach, and the part that running traffic leaves of them. fabrics: whether pods reach fast networks."""
    if not fabrics and _rated_fabric(node, entry):
        return UNKNOWN, 1.0
    return _cards(node, entry), _left_ratio(node.network_use_ratio)


def _fabrics(cards: Sequence[Cards], entries: Sequence[InstanceType | None], assumed: Tiers, measured: Tiers) -> Fabrics:
    """Fast networks of nodes (n,); assumed, measured: estimated links before and after those between its nodes were read."""
    return Fabrics(
        network=numbered([_fabric(each, entry) for each, entry in zip(cards, entries, strict=True)]),
        hop_seconds=np.array([_hop(entry) for entry in entries], dtype=np.float64),
        tiers=(measured.bandwidth_bytes_per_second == assumed.bandwidth_bytes_per_second) & in_one_zone(assumed),
    )


def without_own_traffic(whole: Machine, places: Iterable[int]) -> Machine:
    """The machine as if no traffic left the nodes at `places`, where a job's own pods run.

    Cards count the traffic of a node, not that of a job: other jobs' traffic on these nodes is left out with it.
    """
    left = whole.cards_left_ratio.copy()
    left[list(places)] = 1.0
    return _with_uplinks_left(replace(whole, cards_left_ratio=left))


def _with_uplinks_left(whole: Machine) -> Machine:
    """`whole` with the uplinks that LEAVING_RATIO of all running traffic leaves."""
    capacity = whole.uplink_capacity_bytes_per_second
    if capacity is None or not capacity.size or whole.card_bytes_per_second is None:
        return whole
    card = np.where(np.isfinite(whole.card_bytes_per_second), whole.card_bytes_per_second, 0.0)
    sent = LEAVING_RATIO * (1.0 - whole.cards_left_ratio) * card
    left = capacity.copy()
    for level, domains in enumerate(whole.uplink_domains):
        inside = domains >= 0
        left[level] -= np.bincount(domains[inside], weights=sent[inside], minlength=capacity.shape[1])
    return replace(whole, uplink_bytes_per_second=np.maximum(left, MIN_LEFT_RATIO * capacity))


def _uplinks(
    nodes: Sequence[Node], tiers: Tiers, together: FloatArray, uplinks: tuple[UplinkOverride, ...]
) -> tuple[IntArray, FloatArray, tuple[tuple[str, ...], ...]]:
    """(levels, n) domains, (levels, domains) capacities and their names, of every level that an entry speaks of."""
    levels = tiers.names[1:]
    stated_levels = {uplink.level for uplink in uplinks}
    limited = [*(level for level in levels if level in stated_levels), *sorted(stated_levels - set(levels))]
    rows: list[list[int]] = []
    capacities: list[list[float]] = []
    names: list[list[str]] = []
    for level in limited:
        of_nodes = [_domain(node, levels, level) for node in nodes]
        domains = sorted(set(of_nodes) - {""})
        place = {domain: at for at, domain in enumerate(domains)}
        rows.append([place.get(domain, -1) for domain in of_nodes])
        members: NDArray[np.int64] = np.array(rows[-1], dtype=np.int64)
        filled = _filled(level, tiers)
        capacities.append([_capacity(domain, filled(together[members == at]), level, uplinks) for at, domain in enumerate(domains)])
        names.append([f"{level.rpartition('/')[2]}/{domain}" for domain in domains])
    width = max(map(len, capacities), default=0)
    capacity = np.full((len(limited), width), np.inf)
    for at, figures in enumerate(capacities):
        capacity[at, : len(figures)] = figures
    padded = tuple((*row, *[""] * (width - len(row))) for row in names)
    return np.array(rows, dtype=np.int64).reshape(len(limited), len(nodes)), capacity, padded


def _domain(node: Node, levels: tuple[str, ...], level: str) -> str:
    """Name of the node's domain; a label that is no topology level has its bare values."""
    if level in levels:
        at = levels.index(level)
        return node.domains[at] if at < len(node.domains) else ""
    return node.labels.get(level, "")


def _capacity(domain: str, cards: FloatArray, level: str, uplinks: tuple[UplinkOverride, ...]) -> float:
    """Bytes a second of one domain's uplinks; +inf without an entry. cards: (m,) of the domain's nodes."""
    of_level = [uplink for uplink in uplinks if uplink.level == level]
    named = [uplink for uplink in of_level if uplink.domain and _named(domain, uplink.domain)]
    stated = (_stated(uplink, cards) for uplink in named or [uplink for uplink in of_level if not uplink.domain])
    return next((capacity for capacity in stated if capacity < math.inf), math.inf)


def _stated(uplink: UplinkOverride, cards: FloatArray) -> float:
    """Bytes a second that one entry states for a domain with `cards` (m,); +inf where it states none."""
    if uplink.bytes_per_second is not None:
        return uplink.bytes_per_second
    return math.inf if uplink.oversubscription is None else float(cards.mean()) * len(cards) / uplink.oversubscription


def _filled(level: str, tiers: Tiers) -> Callable[[FloatArray], FloatArray]:
    """Fill the cards (m,) of a domain in: those of unknown speed, +inf, count as the mean of the others.

    Where none is known, all count as the links inside a domain of `level` are estimated, which such nodes are planned with.
    """
    estimate = float(tiers.bandwidth_bytes_per_second[tiers.names.index(level) if level in tiers.names else -1])

    def filled(cards: FloatArray) -> FloatArray:
        usable = cards[np.isfinite(cards)]
        return np.where(np.isfinite(cards), cards, float(usable.mean()) if len(usable) else estimate)

    return filled


def _named(domain: str, value: str) -> bool:
    """True where `value` is the whole name of a domain, or the value of its label: names carry the wider domains before (eu/eu-a/r1)."""
    return domain == value or domain.endswith(f"/{value}")


def _rails(cards: Cards, node: Node, nvlink: float) -> int:
    """nvlink: of its GPUs to other nodes; each GPU has NVLinks of its own."""
    return max(1, node.allocatable_gpus if nvlink > 0.0 else min(cards.number or 1, node.allocatable_gpus))


def in_one_zone(assumed: Tiers) -> BoolArray:
    """(levels + 1,) True for tiers of nodes that may be on one fabric; assumed: before measurements were read."""
    near: BoolArray = assumed.latency_seconds <= ZONE.latency_seconds
    return near


def on_fabrics(nodes: Sequence[Node]) -> IntArray:
    """(n,) number of the network that carries all of a node's cards' traffic, 0 without one or where its cards tell no rate.

    What an agent counts is the card of the pod network.
    """
    return numbered([_rated_fabric(node, instance_type(node.labels)) for node in nodes])


def numbered(fabrics: Sequence[str]) -> IntArray:
    """(n,) number of each name in alphabetical order, from 1; 0 for an empty one."""
    place = {name: at for at, name in enumerate(sorted(set(fabrics) - {""}), 1)}
    return np.array([place.get(name, 0) for name in fabrics], dtype=np.int64)


def _rated_fabric(node: Node, entry: InstanceType | None) -> str:
    if entry is None and node.network_bytes_per_second.source != Origin.INFINIBAND:
        return ""
    cards = _cards(node, entry)
    return "" if cards.bytes_per_second is None or cards.source == Origin.AGENT else _fabric(cards, entry)


def _fabric(cards: Cards, entry: InstanceType | None) -> str:
    """Kind of the network over which all cards of the node may send at full rate to nodes of its zone; "" without one."""
    if entry is not None and entry.fabric:
        return entry.fabric
    return INFINIBAND if cards.source == Origin.INFINIBAND else ""


def _hop(entry: InstanceType | None) -> float:
    return math.nan if entry is None or entry.hop_seconds is None else entry.hop_seconds


def _left_ratio(use: Sample) -> float:
    """Part of a node's cards that running traffic leaves; an estimate or an absurd figure tells nothing."""
    if use.quality is not Quality.MEASURED or use.value is None or not math.isfinite(use.value) or not 0.0 <= use.value <= 1.0:
        return 1.0
    return max(MIN_LEFT_RATIO, 1.0 - use.value)


def _usable(sample: Sample) -> float | None:
    """A speed above 0; None where it may not be used."""
    value = sample.value
    return value if value is not None and sample.quality is not Quality.UNKNOWN and math.isfinite(value) and value > 0.0 else None
