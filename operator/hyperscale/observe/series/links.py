"""Link series with labels `source` and `destination` to one `Link` per ordered pair. Pure."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from hyperscale.model.api.policy import QualityLimits
from hyperscale.model.cluster import NVLINK, PATH_KINDS, GpuPaths, Link, Origin, Sample
from hyperscale.model.metrics_reading import MetricsReading
from hyperscale.observe.dropped_counter import Tally
from hyperscale.observe.identity import Agents, NodeIndex
from hyperscale.observe.quality import Point, judge, rules, unknown

LINK_FIGURES: Final = ("link_latency", "link_bandwidth", "link_loss")
SILENT: Final = "no probe is answered"
"""Fault of the latency of a link that loses everything."""
BLOCKED: Final = "no probe of any node is answered: is the agents' port blocked?"
MAX_LATENCY_SECONDS: Final = 3600.0
"""As in snapshot files."""
LARGEST_LOSS: Final = 0.999
"""A link that loses no less is dead."""
Pair = tuple[str, str]


def links(reading: MetricsReading, index: NodeIndex, limits: QualityLimits, now: float) -> tuple[tuple[Link, ...], tuple[str, ...]]:
    """Links sorted by (source, destination), and notes on series that describe none; the two directions may differ.

    A link that loses a part of what is sent is as much slower, for that has to be sent again; one that loses all carries 0 bytes a second.
    """
    tally = Tally()
    agents = Agents(reading)
    by_figure = {figure: _points(figure, reading, index, agents, tally) for figure in LINK_FIGURES}
    figure_rules = rules(limits)
    judged = []
    for source, destination in sorted(set().union(*by_figure.values())):
        latency, bandwidth, loss = (
            judge(by_figure[figure].get((source, destination), ()), figure_rules[figure], now, limits.max_age_seconds)
            for figure in LINK_FIGURES
        )
        judged.append(_lossy(Link(source, destination, latency, bandwidth), loss))
    return tuple(judged), tally.notes()


def _lossy(link: Link, loss: Sample) -> Link:
    """The link with what it loses taken into its figures."""
    if not loss.value:
        return link
    if loss.value >= LARGEST_LOSS:
        return Link(
            link.source,
            link.destination,
            unknown(SILENT, loss.age_seconds, loss.source),
            replace(loss, value=0.0),
        )
    kept = 1.0 - loss.value
    latency, bandwidth = link.latency_seconds, link.bandwidth_bytes_per_second
    if latency.value is not None:
        latency = replace(latency, value=min(latency.value / kept, MAX_LATENCY_SECONDS))
    if bandwidth.value is not None:
        bandwidth = replace(bandwidth, value=bandwidth.value * kept)
    return Link(link.source, link.destination, latency, bandwidth)


def believed(links: tuple[Link, ...]) -> tuple[Link, ...]:
    """The same, but where no link at all answers: then it is the probes that are stopped, and nothing is known of any link."""
    if not links or any(link.latency_seconds.value is not None or link.bandwidth_bytes_per_second.value != 0.0 for link in links):
        return links
    return tuple(
        replace(link, bandwidth_bytes_per_second=unknown(BLOCKED, link.bandwidth_bytes_per_second.age_seconds))
        if link.latency_seconds.fault == SILENT
        else link
        for link in links
    )


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
                Point(series.value, series.timestamp, Origin.AGENT if agents.exported(series.labels) else Origin.PROMETHEUS, series.verdict)
            )
    return points


FIGURE: Final = "gpu_paths"


def paths_by_node(reading: MetricsReading, index: NodeIndex, limits: QualityLimits, now: float) -> dict[str, GpuPaths]:
    """The narrowest way between two GPUs of each node that tells ways; kinds that are not known count for nothing."""
    points: dict[tuple[str, str], list[Point]] = {}
    for one in reading.series.get(FIGURE, ()):
        node, kind = index.of_series(one.labels), one.labels.get("kind", "")
        if node is not None and kind in PATH_KINDS:
            points.setdefault((node, kind), []).append(Point(one.value, one.timestamp, Origin.AGENT))
    rule = rules(limits)[FIGURE]
    narrowest: dict[str, GpuPaths] = {}
    for (node, kind), given in sorted(points.items(), key=lambda entry: (entry[0][0], PATH_KINDS.index(entry[0][1]))):
        links = judge(given, rule, now, limits.max_age_seconds).value
        if links is not None:
            narrowest[node] = GpuPaths(kind, int(links) if kind == NVLINK else 0)
    return narrowest
