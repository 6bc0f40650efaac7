from __future__ import annotations

from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families

from hyperscale.model.api.policy import MetricQueries
from hyperscale.model.metrics_reading import MetricsReading, Series
from tests.unit.observe.objects import NOW, reading

FIGURES = ("gpu_utilization", "memory_used", "memory_free", "memory_reserved", "temperature", "power", "xid")


def samples(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Samples by metric name; raises ValueError where the text is not in Prometheus' format."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    untyped = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("# TYPE"))  # it would rename DCGM's counters
    for family in text_string_to_metric_families(untyped):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((dict(sample.labels), sample.value))
    return found


def scraped(text: str, target: Mapping[str, str], *, honor_labels: bool = True, queries: MetricQueries | None = None) -> MetricsReading:
    """What the operator's queries give once Prometheus has scraped the text: a target's labels win, or give way."""
    queries = queries or MetricQueries()
    found = samples(text)
    figures = {}
    for figure in FIGURES:
        query = getattr(queries, figure)
        series = [Series(_labels(labels, target, honor_labels), value, NOW - 5) for labels, value in found.get(query, [])]
        if series:
            figures[figure] = tuple(series)
    return reading(**figures)


def _labels(exposed: Mapping[str, str], target: Mapping[str, str], honor_labels: bool) -> dict[str, str]:
    """Prometheus' rules: an empty label is none; of a conflict the exporter's label is renamed unless it is honoured."""
    labels = {key: value for key, value in exposed.items() if value}
    if honor_labels:
        return {**target, **labels}
    return {**{(f"exported_{key}" if key in target else key): value for key, value in labels.items()}, **target}
