"""What the link probe serves: one series of each kind for every destination that is measured now, none for those that are gone."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

BUCKETS: Final = (2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 1e-1, 2e-1, 5e-1, 1.0)
"""Seconds: from a rack to the other side of the world."""
LABELS: Final = ("source", "destination")


@dataclass
class Series:
    """All figures of one destination."""

    latency_seconds: float | None = None
    bandwidth_bytes_per_second: float | None = None
    bandwidth_at_least: float | None = None
    """Bytes a second; where the link is faster than this agent can send."""
    sent: int = 0
    lost: int = 0
    bytes: int = 0
    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    total_seconds: float = 0.0

    def observe(self, seconds: float) -> None:
        """One round trip."""
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.total_seconds += seconds


class LinkCollector(Collector):
    """Reads `series` (by destination), `refused` (by reason) and `facts` at every scrape."""

    def __init__(self, source: str, series: Mapping[str, Series], refused: Mapping[str, int]) -> None:
        """source: this node."""
        self._source, self._series, self._refused = source, series, refused
        self.peers = 0
        self.spent_bytes = 0.0

    def describe(self) -> Iterable[Metric]:
        """Nothing: names are checked when scraped."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """All families, destinations in name order."""
        rows = sorted(self._series.items())
        yield self._gauge("hyperscale_link_latency_seconds", "One way: half the smoothed round trip of 64 bytes.", "latency_seconds", rows)
        yield self._gauge(
            "hyperscale_link_bandwidth_bytes_per_second", "Smoothed rate of short bursts.", "bandwidth_bytes_per_second", rows
        )
        yield self._gauge(
            "hyperscale_link_bandwidth_at_least_bytes_per_second",
            "What this agent can send at most, where the link is faster than that.",
            "bandwidth_at_least",
            rows,
        )
        trips = HistogramMetricFamily("hyperscale_link_round_trip_seconds", "Round trips of 64 bytes.", labels=LABELS)
        for name, series in rows:
            trips.add_metric((self._source, name), _cumulative(series.counts), series.total_seconds)
        yield trips
        for metric, help_text in (
            ("sent", "Round trips begun."),
            ("lost", "Round trips that never ended."),
            ("bytes", "Bytes sent to measure."),
        ):
            counter = CounterMetricFamily(f"hyperscale_link_probe_{metric}", help_text, labels=LABELS)
            for name, series in rows:
                counter.add_metric((self._source, name), getattr(series, metric))
            yield counter
        refused = CounterMetricFamily("hyperscale_link_probe_refused", "Connections and bursts refused.", labels=("reason",))
        for reason, count in sorted(self._refused.items()):
            refused.add_metric((reason,), count)
        yield refused
        yield GaugeMetricFamily("hyperscale_link_probe_peers", "Other agents that are known.", value=self.peers)
        yield CounterMetricFamily(
            "hyperscale_link_probe_spent_bytes", "What the budget granted, sent and received.", value=self.spent_bytes
        )

    def _gauge(self, name: str, help_text: str, attribute: str, rows: list[tuple[str, Series]]) -> GaugeMetricFamily:
        gauge = GaugeMetricFamily(name, help_text, labels=LABELS)
        for destination, series in rows:
            value = getattr(series, attribute)
            if value is not None:
                gauge.add_metric((self._source, destination), value)
        return gauge


def _cumulative(counts: list[int]) -> list[tuple[str, float]]:
    total, found = 0, []
    for bound, count in zip((*map(str, BUCKETS), "+Inf"), counts, strict=True):
        total += count
        found.append((bound, float(total)))
    return found
