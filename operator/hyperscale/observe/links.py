"""Link series with labels `source` and `destination` to one `Link` per ordered pair. Pure."""

from __future__ import annotations

from typing import Final

from hyperscale.model.cluster import Link, Origin
from hyperscale.model.metrics import MetricsReading
from hyperscale.model.policy import QualityLimits
from hyperscale.observe.identity import NodeIndex
from hyperscale.observe.provenance import Agents
from hyperscale.observe.quality import Point, judge, rules
from hyperscale.observe.tally import Tally

LINK_FIGURES: Final = ("link_latency", "link_bandwidth")
Pair = tuple[str, str]


def links(reading: MetricsReading, index: NodeIndex, limits: QualityLimits, now: float) -> tuple[tuple[Link, ...], tuple[str, ...]]:
    """Links sorted by (source, destination), and notes on series that describe none; the two directions may differ."""
    tally = Tally()
    agents = Agents(reading)
    by_figure = {figure: _points(figure, reading, index, agents, tally) for figure in LINK_FIGURES}
    figure_rules = rules(limits)
    found = []
    for source, destination in sorted(by_figure["link_latency"].keys() | by_figure["link_bandwidth"].keys()):
        latency, bandwidth = (
            judge(by_figure[figure].get((source, destination), ()), figure_rules[figure], now, limits.max_age_seconds)
            for figure in LINK_FIGURES
        )
        found.append(Link(source=source, destination=destination, latency_seconds=latency, bandwidth_bytes_per_second=bandwidth))
    return tuple(found), tally.notes()


def _points(figure: str, reading: MetricsReading, index: NodeIndex, agents: Agents, tally: Tally) -> dict[Pair, list[Point]]:
    """Points of one link figure by ordered pair of known nodes."""
    points: dict[Pair, list[Point]] = {}
    for series in reading.series.get(figure, ()):
        names = series.labels.get("source", ""), series.labels.get("destination", "")
        source, destination = index.node(names[0]), index.node(names[1])
        if source is None or destination is None:
            tally.add("link series name no node of this cluster", names[0] if source is None else names[1])
        elif source == destination:
            tally.add("link series lead from a node to itself", source)
        else:
            points.setdefault((source, destination), []).append(
                Point(series.value, series.timestamp, Origin.AGENT if agents.made(series.labels) else Origin.PROMETHEUS, series.verdict)
            )
    return points
