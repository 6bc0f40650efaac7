"""What is worth writing to the ClusterTopology: a status is compared with the one that was written last. Pure."""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from msgspec.structs import replace

from hyperscale.model.api.condition import Condition
from hyperscale.model.api.topology import METRICS_AVAILABLE, TopologyLink, TopologyStatus

NOISE_RATIO: Final = 1.2
"""A link's figure is written again when the larger of the new and the written one exceeds the smaller by this factor."""
CONFIDENCE_NOISE: Final = 0.15
ALL_PAIRS_NODES: Final = 45
"""Up to this number of nodes agents always measure the same pairs; there a pair that comes or goes is worth a write."""

_Pair = tuple[str, str]


def settled(status: TopologyStatus, written: TopologyStatus) -> TopologyStatus:
    """`status` with the figures that `written` gives wherever they differ by noise only, so that noise is no reason to write.

    A condition keeps the time of its last transition until its status changes.
    A figure is kept as long as it stays within NOISE_RATIO of the one written, whatever it does in between.
    """
    by_pair = {(link.source, link.destination): link for link in written.links}
    return replace(
        status,
        conditions=tuple(_since(condition, written) for condition in status.conditions),
        links=tuple(_settled(link, by_pair.get((link.source, link.destination))) for link in status.links),
    )


def _since(condition: Condition, written: TopologyStatus) -> Condition:
    for before in written.conditions:
        if (before.type, before.status) == (condition.type, condition.status):
            return replace(condition, last_transition_time=before.last_transition_time)
    return condition


def tells_the_same(status: TopologyStatus, written: TopologyStatus) -> bool:
    """Whether there is nothing in `status` worth writing: times, ages and the wording of the metrics' state do not count.

    Nor does it that other pairs were measured than before: agents of large clusters draw new ones every minute, for ever.
    """
    now, then = _by_pair(status), _by_pair(written)
    if any(then.get(pair, link) != link for pair, link in now.items()):
        return False
    if now.keys() != then.keys() and not _drawn_again(now.keys(), then.keys(), cut=status.link_count > len(status.links)):
        return False
    less, more = sorted((status.link_count, written.link_count))
    return more <= NOISE_RATIO * less and _timeless(status) == _timeless(written)


def _by_pair(status: TopologyStatus) -> dict[_Pair, TopologyLink]:
    return {(link.source, link.destination): replace(link, age_seconds=None) for link in status.links}


def _drawn_again(now: Set[_Pair], then: Set[_Pair], cut: bool) -> bool:
    """Whether the pairs are another sample of the same nodes, half of the pairs unchanged.

    cut: not all pairs are shown, so that nodes may be missing.
    """
    nodes, before = ({name for pair in pairs for name in pair} for pairs in (now, then))
    same_nodes = cut or (nodes == before and len(nodes) > ALL_PAIRS_NODES)
    return same_nodes and 2 * len(then - now) <= len(then) and 2 * len(now - then) <= len(now)


def _settled(link: TopologyLink, before: TopologyLink | None) -> TopologyLink:
    if before is None:
        return link
    return replace(
        link,
        latency_seconds=_kept(link.latency_seconds, before.latency_seconds),
        bandwidth_bytes_per_second=_kept(link.bandwidth_bytes_per_second, before.bandwidth_bytes_per_second),
        confidence=before.confidence if abs(link.confidence - before.confidence) <= CONFIDENCE_NOISE else link.confidence,
    )


def _kept(figure: float | None, before: float | None) -> float | None:
    if figure is None or before is None or before <= 0:
        return figure
    return before if before / NOISE_RATIO <= figure <= before * NOISE_RATIO else figure


def _timeless(status: TopologyStatus) -> TopologyStatus:
    """Without links, which are compared by themselves."""
    conditions = tuple(
        replace(condition, message="" if condition.type == METRICS_AVAILABLE else condition.message, last_transition_time="")
        for condition in status.conditions
    )
    return replace(status, snapshot_time="", conditions=conditions, links=(), link_count=0)
