"""What network cards and InfiniBand ports of every node can carry, and how busy they are. Pure.

No flow is faster than the card that it leaves by: a measured bandwidth beyond both nodes' cards is a mistake of the measurement.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from hyperscale.model.api.policy import QualityLimits
from hyperscale.model.cluster import UNKNOWN_SAMPLE, Link, Origin, Quality, Sample
from hyperscale.model.metrics_reading import MetricsReading
from hyperscale.observe.identity import NodeIndex
from hyperscale.observe.quality import Point, QualityRule, judge, rules, unknown

TOLERANCE: Final = 1.1
"""A card's speed is a round figure, and a short burst may come out of a buffer."""
USE_DIGITS: Final = 1
"""A tenth of a card: less changes with every scrape."""
AGE_SECONDS: Final = 15.0
"""One usual interval of scrapes."""
CLIPPED_CONFIDENCE: Final = 0.5
KINDS: Final = (("infiniband", Origin.INFINIBAND), ("network", Origin.NODE_EXPORTER))

Port = tuple[str, str]
"""Device and port."""


class NodeNetwork(NamedTuple):
    """The fastest card of one node."""

    bytes_per_second: Sample = UNKNOWN_SAMPLE
    use_ratio: Sample = UNKNOWN_SAMPLE


NO_NETWORK: Final = NodeNetwork()


def networks(
    reading: MetricsReading, index: NodeIndex, limits: QualityLimits, now: float, before: Mapping[str, NodeNetwork] | None = None
) -> dict[str, NodeNetwork]:
    """The fastest card of every node that has usable figures; a node whose cards tell no speed is absent.

    before: the previous answer; a card of which nothing but ages changed, and those by little, is the same object again
    """
    figure_rules = rules(limits)
    best: dict[str, NodeNetwork] = {}
    for kind, origin in KINDS:
        speeds = _ports(f"{kind}_speed", reading, index, origin)
        flows = [_ports(f"{kind}_{way}", reading, index, origin) for way in ("received", "sent")]
        for node in sorted(speeds):
            for port, points in sorted(speeds[node].items()):
                speed = judge(points, figure_rules[f"{kind}_speed"], now, limits.max_age_seconds)
                if _is_faster(speed, best.get(node, NO_NETWORK).bytes_per_second):
                    uses = [judge(flow.get(node, {}).get(port, ()), _flow_rule(limits), now, limits.max_age_seconds) for flow in flows]
                    best[node] = NodeNetwork(speed, _use(uses, speed))
    return _with_unchanged_objects(best, before) if before else best


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


def _is_faster(speed: Sample, best: Sample) -> bool:
    """Whether a card's speed is usable and above the best one, which may be unknown."""
    return speed.value is not None and speed.value > (best.value or 0.0)


def _with_unchanged_objects(cards: Mapping[str, NodeNetwork], before: Mapping[str, NodeNetwork]) -> dict[str, NodeNetwork]:
    return {node: last if (last := before.get(node)) is not None and _same(last, card) else card for node, card in cards.items()}


def _same(last: NodeNetwork, card: NodeNetwork) -> bool:
    return all(
        old.value == new.value and old.source == new.source and abs((old.age_seconds or 0.0) - (new.age_seconds or 0.0)) <= AGE_SECONDS
        for old, new in zip(last, card, strict=True)
    )


def _ports(figure: str, reading: MetricsReading, index: NodeIndex, origin: Origin) -> dict[str, dict[Port, list[Point]]]:
    """Points by node and port; machines that are no GPU nodes of ours are left out."""
    points: dict[str, dict[Port, list[Point]]] = {}
    for one in reading.series.get(figure, ()):
        if (node := index.of_series(one.labels)) is not None:
            port = one.labels.get("device", ""), one.labels.get("port", "")
            points.setdefault(node, {}).setdefault(port, []).append(Point(one.value, one.timestamp, origin))
    return points


def _flow_rule(limits: QualityLimits) -> QualityRule:
    return rules(limits)["network_received"]


def _use(flows: list[Sample], speed: Sample) -> Sample:
    """The busier direction as a part of the speed."""
    usable = [flow for flow in flows if flow.value is not None]
    if not usable or speed.value is None:
        return unknown(flows[0].fault or UNKNOWN_SAMPLE.fault or "", flows[0].age_seconds, speed.source)
    busiest = max(usable, key=lambda flow: flow.value or 0.0)
    return replace(busiest, value=round(min(1.0, (busiest.value or 0.0) / speed.value), USE_DIGITS))
