"""What the link probe serves: few series for every destination that is measured now, none for those that are not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

LABELS: Final = ("source", "destination")
MAX_SERIES: Final = 57
"""Of the link probe. An agent has three more of its own: at most 60 without those of GPUs."""
_HELP: Final = {
    "hyperscale_link_latency_seconds": "One way: half the smoothed round trip of 64 bytes.",
    "hyperscale_link_bandwidth_bytes_per_second": "Smoothed rate of short bursts.",
    "hyperscale_link_bandwidth_at_least_bytes_per_second": "What this agent can send at most, where the link is faster than that.",
    "hyperscale_link_probe_loss_ratio": "Part of the last round trips that never ended, where any did; 1 where nothing comes back.",
}


@dataclass
class ProbeSeries:
    """All figures of one destination."""

    latency_seconds: float | None = None
    bandwidth_bytes_per_second: float | None = None
    bandwidth_at_least: float | None = None
    """Bytes a second; where the link is faster than this agent can send."""
    loss_ratio: float = 0.0
    """0 to 1, of the last visits; 1 for a peer that is silent."""
    rank: int = 0
    """Among the destinations: those that matter most come first."""

    def lines(self) -> list[tuple[str, float]]:
        """(metric, value) of each figure that there is."""
        loss = self.loss_ratio if self.loss_ratio > 0 else None
        values = (self.latency_seconds, self.bandwidth_bytes_per_second, self.bandwidth_at_least, loss)
        return [(name, value) for name, value in zip(_HELP, values, strict=True) if value is not None]


class ProbeResult(Protocol):
    """What the probe has measured."""

    @property
    def series(self) -> Mapping[str, ProbeSeries]:
        """By destination."""

    @property
    def sent(self) -> int:
        """Round trips begun."""

    @property
    def lost(self) -> int:
        """Round trips that never ended."""


class LinkCollector(Collector):
    """Reads what was found and refused, and the facts set here, at every scrape."""

    def __init__(self, source: str, result: ProbeResult, refused: Mapping[str, int]) -> None:
        """source: this node; refused: by reason."""
        self._source, self._found, self._refused = source, result, refused
        self.peers = 0
        self.spent_bytes = 0.0

    def describe(self) -> Iterable[Metric]:
        """Nothing: names are checked when scraped."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """All families, at most MAX_SERIES series in all, destinations in name order."""
        own = list(self._own())
        rows = self._rows(MAX_SERIES - sum(len(family.samples) for family in own))
        for name, help_text in _HELP.items():
            gauge = GaugeMetricFamily(name, help_text, labels=LABELS)
            for destination in sorted(rows):
                for metric, value in rows[destination]:
                    if metric == name:
                        gauge.add_metric((self._source, destination), value)
            yield gauge
        yield from own

    def _rows(self, room: int) -> dict[str, list[tuple[str, float]]]:
        """Figures by destination, as many as there is room for: links that lose something first, then by rank."""
        rows: dict[str, list[tuple[str, float]]] = {}
        for destination, series in sorted(self._found.series.items(), key=lambda row: (row[1].loss_ratio == 0, row[1].rank)):
            lines = series.lines()
            if len(lines) <= room:
                rows[destination] = lines
                room -= len(lines)
        return rows

    def _own(self) -> Iterable[Metric]:
        """About the probe itself."""
        refused = CounterMetricFamily("hyperscale_link_probe_refused", "Connections and bursts refused.", labels=("reason",))
        for reason, count in sorted(self._refused.items()):
            refused.add_metric((reason,), count)
        yield refused
        yield CounterMetricFamily("hyperscale_link_probe_sent", "Round trips begun, to all destinations.", value=self._found.sent)
        yield CounterMetricFamily("hyperscale_link_probe_lost", "Round trips that never ended.", value=self._found.lost)
        yield GaugeMetricFamily("hyperscale_link_probe_peers", "Other agents that are known.", value=self.peers)
        yield CounterMetricFamily(
            "hyperscale_link_probe_spent_bytes", "What the budget granted, sent and received.", value=self.spent_bytes
        )
