"""What network cards and InfiniBand ports of every node can carry, how many there are, and how busy they are. Pure.

No flow is faster than the cards that it leaves by: a measured bandwidth beyond both nodes' cards is a mistake of the measurement.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from hyperscale.model.api.policy import QualityLimits
from hyperscale.model.cluster import UNKNOWN_SAMPLE, Link, Origin, Quality, Sample
from hyperscale.model.metrics_reading import MetricsReading
from hyperscale.observe.identity import NodeIndex
from hyperscale.observe.quality import Point, judge, rules, unknown

TOLERANCE: Final = 1.1
"""A card's speed is a round figure, and a short burst may come out of a buffer."""
USE_DIGITS: Final = 1
"""A tenth of a card: less changes with every scrape."""
AGE_SECONDS: Final = 15.0
"""One usual interval of scrapes."""
CLIPPED_CONFIDENCE: Final = 0.5
MAX_PORTS: Final = 256
"""Of one node and kind that are judged: cards before parts of cards, by name."""
MAX_COUNTED: Final = 16
"""Equal cards of one node; more are parts of cards under names that do not say so, and their number is unknown."""
KINDS: Final = (("infiniband", Origin.INFINIBAND), ("network", Origin.NODE_EXPORTER))
BONDS: Final = re.compile(r"^(bond|team)\d*")
"""Devices that stand for several cards; their speed may be that of one."""
PARTS_OF_CARDS: Final = re.compile(r"^(ib\d|ibp|vlan|macvlan|macvtap|ipvlan)|[.@]|(?<=\d)v\d+$")
"""Names of devices that repeat a card: VLANs, virtual functions, IP over InfiniBand."""

Port = tuple[str, str]
"""Device and port."""


class NodeNetwork(NamedTuple):
    """The fastest cards of one node, all of one speed and kind."""

    bytes_per_second: Sample = UNKNOWN_SAMPLE
    """Of one card."""
    use_ratio: Sample = UNKNOWN_SAMPLE
    cards: int | None = None
    """None where their number is unknown: then the rate of one counts."""

    @property
    def together(self) -> Sample:
        """Bytes a second of all cards."""
        speed = self.bytes_per_second
        return speed if speed.value is None or not self.cards else replace(speed, value=speed.value * self.cards)


NO_NETWORK: Final = NodeNetwork()


def networks(
    reading: MetricsReading, index: NodeIndex, limits: QualityLimits, now: float, before: Mapping[str, NodeNetwork] | None = None
) -> dict[str, NodeNetwork]:
    """The fastest cards of every node that has usable figures; a node whose cards tell no speed is absent.

    before: the previous answer; cards of which nothing but ages changed, and those by little, are the same object again
    """
    figure_rules = rules(limits)
    best: dict[str, NodeNetwork] = {}
    for kind, origin in KINDS:
        speeds = _ports(f"{kind}_speed", reading, index, origin)
        flows = [_ports(f"{kind}_{way}", reading, index, origin) for way in ("received", "sent")]
        for node in sorted(speeds):
            judged = {
                port: judge(speeds[node][port], figure_rules[f"{kind}_speed"], now, limits.max_age_seconds)
                for port in heapq.nsmallest(MAX_PORTS, speeds[node], key=_cards_first)
            }
            fastest = _fastest(judged, best.get(node, NO_NETWORK).bytes_per_second, origin)
            if fastest:
                uses = [[_flow(flow.get(node, {}).get(port, ()), limits, now) for port in fastest] for flow in flows]
                number = len(fastest) if len(fastest) <= MAX_COUNTED else None
                best[node] = NodeNetwork(judged[fastest[0]], _use(uses, judged[fastest[0]]), number)
    return _with_unchanged_objects(best, before) if before else best


def _cards_first(port: Port) -> tuple[bool, Port]:
    return PARTS_OF_CARDS.search(port[0]) is not None, port


def _fastest(speeds: Mapping[Port, Sample], best: Sample, origin: Origin) -> tuple[Port, ...]:
    """Ports of the highest usable speed where it is above `best`, which may be unknown; none that stands for another one among them.

    A bond of the highest speed counts instead of its cards: whether they carry its traffic at once is not told.
    """
    usable = {port: speed.value for port, speed in speeds.items() if speed.value is not None}
    top = max(usable.values(), default=0.0)
    if top <= (best.value or 0.0):
        return ()
    ports = [port for port, value in usable.items() if value == top]
    return tuple(ports) if origin is Origin.INFINIBAND else _without_doubles(ports)


def _without_doubles(ports: Sequence[Port]) -> tuple[Port, ...]:
    """Bonds where there are some, else cards, else one port that is a part of a card."""
    bonds = [port for port in ports if BONDS.match(port[0]) and PARTS_OF_CARDS.search(port[0]) is None]
    cards = [port for port in ports if PARTS_OF_CARDS.search(port[0]) is None]
    return tuple(bonds or cards or ports[:1])


def bounded(links: tuple[Link, ...], speeds: Mapping[str, Sample]) -> tuple[Link, ...]:
    """Links whose bandwidth is no more than the slower of both nodes' cards carries."""
    if not speeds:
        return links
    return tuple(_bounded(link, speeds) for link in links)


def _bounded(link: Link, speeds: Mapping[str, Sample]) -> Link:
    given = link.bandwidth_bytes_per_second
    ends = [sample for name in (link.source, link.destination) if (sample := speeds.get(name)) is not None and sample.value is not None]
    bound = min(ends, key=lambda sample: sample.value or 0.0, default=None)
    if bound is None or bound.value is None or given.value is None or given.value <= TOLERANCE * bound.value:
        return link
    clipped = Sample(bound.value, given.age_seconds, Quality.ESTIMATED, source=bound.source, confidence=CLIPPED_CONFIDENCE)
    return replace(link, bandwidth_bytes_per_second=clipped)


def _with_unchanged_objects(cards: Mapping[str, NodeNetwork], before: Mapping[str, NodeNetwork]) -> dict[str, NodeNetwork]:
    return {node: last if (last := before.get(node)) is not None and _same(last, card) else card for node, card in cards.items()}


def _same(last: NodeNetwork, card: NodeNetwork) -> bool:
    return last.cards == card.cards and all(
        old.value == new.value and old.source == new.source and abs((old.age_seconds or 0.0) - (new.age_seconds or 0.0)) <= AGE_SECONDS
        for old, new in ((last.bytes_per_second, card.bytes_per_second), (last.use_ratio, card.use_ratio))
    )


def _ports(figure: str, reading: MetricsReading, index: NodeIndex, origin: Origin) -> dict[str, dict[Port, list[Point]]]:
    """Points by node and port; machines that are no GPU nodes of ours are left out."""
    points: dict[str, dict[Port, list[Point]]] = {}
    for one in reading.series.get(figure, ()):
        if (node := index.of_series(one.labels)) is not None:
            port = one.labels.get("device", ""), one.labels.get("port", "")
            points.setdefault(node, {}).setdefault(port, []).append(Point(one.value, one.timestamp, origin))
    return points


def _flow(points: Sequence[Point], limits: QualityLimits, now: float) -> Sample:
    return judge(points, rules(limits)["network_received"], now, limits.max_age_seconds)


def _use(ways: Sequence[Sequence[Sample]], speed: Sample) -> Sample:
    """The busier direction as a part of the speed: the mean over the cards whose flow is known.

    ways: samples of every card, by direction
    """
    usable = [[flow for flow in flows if flow.value is not None] for flows in ways]
    if not any(usable) or speed.value is None:
        first = ways[0][0]
        return unknown(first.fault or UNKNOWN_SAMPLE.fault or "", first.age_seconds, speed.source)
    busiest = max((flows for flows in usable if flows), key=_mean)
    oldest = max(busiest, key=lambda flow: flow.age_seconds or 0.0)
    return replace(oldest, value=round(min(1.0, _mean(busiest) / speed.value), USE_DIGITS))


def _mean(flows: Sequence[Sample]) -> float:
    return sum(flow.value or 0.0 for flow in flows) / len(flows)
