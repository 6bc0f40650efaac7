"""The summary of a cluster as a table for people. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from hyperscale.cli.text_tables import memory_text, pairs, rate_text, seconds_text, table
from hyperscale.cli.topology.domains import DomainPair
from hyperscale.cli.topology.topology_summary import LinkRow, NodeRow, Summary

SHOWN_NODES: Final = 60
SHOWN_PAIRS: Final = 21
"""All pairs of six domains."""


def topology_table(summary: Summary) -> list[str]:
    """Lines: head, levels, nodes, what lies between domains, worst links, how well figures are known."""
    return [
        *_head(summary),
        *_levels(summary),
        *_nodes(summary),
        *_uplinks(summary),
        *_domain_pairs(summary.domain_pairs),
        *_links("Slowest links", summary.slowest_links),
        *_links("Narrowest links", summary.narrowest_links),
        *_quality(summary),
    ]


def _head(summary: Summary) -> list[str]:
    taken = datetime.fromtimestamp(summary.taken_at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if summary.taken_at else ""
    products = ", ".join(f"{count} {product}" for product, count in summary.products.items())
    metrics = "available" if summary.metrics.available else f"none ({summary.metrics.message or summary.metrics.reason})"
    meaning = "they cannot talk" if summary.absent_links == "unreachable" else "they are estimated from the topology levels"
    unlisted = f"; {summary.unlisted_pairs} ordered pairs have none: {meaning}" if summary.unlisted_pairs else ""
    return pairs(
        [
            ("Source", summary.source),
            ("Taken", taken),
            ("Digest", summary.digest[:16]),
            ("Nodes", str(len(summary.nodes))),
            ("GPUs", f"{summary.free_gpus} free of {summary.allocatable_gpus} ({products})"),
            ("Links", f"{summary.links} listed{unlisted}"),
            ("Metrics", metrics),
        ]
    )


def _levels(summary: Summary) -> list[str]:
    rows = [(level.label, str(level.domains), str(level.unlabelled_nodes)) for level in summary.levels]
    return ["", *table(("LEVEL", "DOMAINS", "UNLABELLED"), rows, right=frozenset({1, 2}))] if rows else []


def _nodes(summary: Summary) -> list[str]:
    header: tuple[str, ...] = ("NODE", "PRODUCT", "MEMORY", "FREE", "GPUS", "UTIL", "HOTTEST", "DOMAIN", "STATE")
    shown = summary.nodes[:SHOWN_NODES]
    rows = [_node_cells(row) for row in shown]
    if any(row.network_bytes_per_second is not None for row in shown):
        header = (*header, "CARDS")
        rows = [(*cells, _cards(row)) for cells, row in zip(rows, shown, strict=True)]
    lines = ["", *table(header, rows, right=frozenset({2, 3, 4, 5, 6}))]
    more = len(summary.nodes) - SHOWN_NODES
    return [*lines, f"... and {more} more (all with -o json)"] if more > 0 else lines


def _node_cells(row: NodeRow) -> tuple[str, ...]:
    return (
        row.name,
        row.product or "unknown",
        memory_text(row.gpu_memory_bytes),
        str(row.free_gpus),
        str(row.allocatable_gpus),
        "unknown" if row.utilization_ratio is None else f"{row.utilization_ratio:.0%}",
        "unknown" if row.hottest_celsius is None else f"{row.hottest_celsius:.0f} °C",
        next((domain for domain in reversed(row.domains) if domain), "-"),
        row.state,
    )


def _cards(row: NodeRow) -> str:
    """Network cards of a node and where the figure came from."""
    if row.network_bytes_per_second is None:
        return "unknown"
    source = row.sources.get("networkBytesPerSecond", "")
    return f"{row.network_cards or 1} x {rate_text(row.network_bytes_per_second)}{f' ({source})' if source else ''}"


def _uplinks(summary: Summary) -> list[str]:
    rows = [
        (each.name, str(each.nodes), rate_text(each.bytes_per_second), rate_text(each.left_bytes_per_second)) for each in summary.uplinks
    ]
    return ["", *table(("UPLINKS OF", "NODES", "CARRY", "LEFT"), rows, right=frozenset({1, 2, 3}))] if rows else []


def _domain_pairs(domain_pairs: tuple[DomainPair, ...]) -> list[str]:
    """The slowest pairs, slowest last; medians, `~` marks an estimate from the topology level."""
    if not domain_pairs:
        return []
    shown = sorted(domain_pairs, key=lambda pair: (pair.latency_seconds, pair.first, pair.second))[-SHOWN_PAIRS:]
    rows = [
        (
            pair.first if pair.first == pair.second else f"{pair.first} - {pair.second}",
            f"{'' if pair.latency_samples else '~'}{seconds_text(pair.latency_seconds)}",
            f"{'' if pair.bandwidth_samples else '~'}{rate_text(pair.bandwidth_bytes_per_second)}",
            str(max(pair.latency_samples, pair.bandwidth_samples)),
        )
        for pair in shown
    ]
    return ["", *table(("BETWEEN", "LATENCY", "BANDWIDTH", "LINKS"), rows, right=frozenset({1, 2, 3}))]


def _links(title: str, links: tuple[LinkRow, ...]) -> list[str]:
    rows = [
        (link.source, link.destination, seconds_text(link.latency_seconds), rate_text(link.bandwidth_bytes_per_second)) for link in links
    ]
    return ["", title, *table(("FROM", "TO", "LATENCY", "BANDWIDTH"), rows, right=frozenset({2, 3}), indent="  ")] if rows else []


def _quality(summary: Summary) -> list[str]:
    rows = [
        (
            name,
            str(counts.measured),
            str(counts.estimated),
            str(counts.unknown),
            "-" if counts.confidence is None else f"{counts.confidence:.2f}",
            ", ".join(f"{source} {count}" for source, count in counts.sources.items()) or "-",
        )
        for name, counts in summary.quality.items()
    ]
    columns = ("FIGURE", "MEASURED", "ESTIMATED", "UNKNOWN", "CONFIDENCE", "FROM")
    return ["", *table(columns, rows, right=frozenset({1, 2, 3, 4}))]
