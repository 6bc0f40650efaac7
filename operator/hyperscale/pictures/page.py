"""The cluster as one HTML page without scripts: domains as boxes, nodes as squares coloured by free GPUs, links by latency. Pure.

Everything is in the page itself (SVG and one style), and whatever a name holds is escaped; details show on hover. Made from
ClusterTopology's own status, so it is as bounded as that.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from statistics import median
from typing import Final

from hyperscale.model.api.topology import TopologyLink, TopologyNode, TopologyStatus
from hyperscale.pictures.page_layout import PADDING, PageBox, Place, arranged, boxes_of, squares

MAX_LINES: Final = 400
"""Up to this number of links all lines between single nodes are drawn; of more only the slowest."""
SLOWEST: Final = 12
FREE_COLOURS: Final = ("#b91c1c", "#f59e0b", "#facc15", "#a3e635", "#16a34a")
"""From no GPU free to all free."""
NO_PODS: Final = "#9ca3af"
LATENCY_COLOURS: Final = ("#0ea5e9", "#6366f1", "#a21caf", "#dc2626")
"""From fast to slow, on a log scale over all links of the page."""
STYLE: Final = (
    "body{font:14px/1.4 system-ui,sans-serif;color:#1f2937;background:#fff;margin:1.2em}"
    "h1{font-size:1.2em;margin:0 0 .3em}p{margin:.2em 0}.warn{color:#b91c1c;font-weight:600}"
    "svg{max-width:100%;height:auto;margin-top:.8em}text{font:11px system-ui,sans-serif;fill:#374151}"
    ".box{fill:#f5f6f8;stroke:#cfd4da}.node{stroke:#fff}.node:hover{stroke:#111827;stroke-width:2}.link:hover{stroke-width:6}"
    "table{border-collapse:collapse;margin-top:1em}td,th{padding:.15em .8em .15em 0;text-align:left}td.n{text-align:right}"
)
POLICY: Final = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'sha256-"
    + base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    + "'"
)
"""Content security policy: no script, no request, this one style."""


def page(status: TopologyStatus, refresh_seconds: int | None = None) -> str:
    """The HTML document; with `refresh_seconds` browsers load it again that often."""
    refresh = f'<meta http-equiv="refresh" content="{refresh_seconds}">' if refresh_seconds else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>HyperScale: cluster</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">{refresh}<style>{STYLE}</style></head><body>'
        f"{''.join(_head(status))}{''.join(_picture(status))}{''.join(_table(status))}</body></html>\n"
    )


def _head(status: TopologyStatus) -> Iterator[str]:
    free, every = status.free_gpu_count, status.gpu_count
    yield f"<h1>{status.node_count} node{'s' * (status.node_count != 1)}, {free} of {every} GPUs free, {status.link_count} links</h1>"
    yield f"<p>As of {_text(status.snapshot_time)}.</p>"
    if not status.metrics.available:
        yield f'<p class="warn">No metrics ({_text(status.metrics.reason)}): {_text(status.metrics.message)}</p>'
    elif status.metrics.failed_queries:
        yield f'<p class="warn">Failed queries: {_text(", ".join(status.metrics.failed_queries))}</p>'
    left = (status.node_count - len(status.nodes), status.link_count - len(status.links))
    if any(left):
        yield f"<p>{left[0]} nodes and {left[1]} links are too many to be shown.</p>"


def _picture(status: TopologyStatus) -> Iterator[str]:
    boxes = boxes_of(status)
    corners, size = arranged(boxes)
    places = dict(squares(boxes, corners))
    scale = _Scale(status.links)
    yield f'<svg viewBox="0 0 {size.x:.0f} {size.y:.0f}" width="{size.x:.0f}" role="img" aria-label="Map of the cluster">'
    yield from _routes(status, boxes, corners, scale)
    for box, corner in zip(boxes, corners, strict=True):
        yield f'<rect class="box" x="{corner.x:.0f}" y="{corner.y:.0f}" width="{box.width:.0f}" height="{box.height:.0f}" rx="6"/>'
        for line, title in enumerate(box.titles):
            yield f'<text x="{corner.x + PADDING:.0f}" y="{corner.y + 17 + 15 * line:.0f}">{_text(title)}</text>'
        for node in box.nodes:
            yield _square(node, places[node.name], box.square)
    yield from _lines(status.links, places, scale)
    yield from _legend(size, scale)
    yield "</svg>"


def _square(node: TopologyNode, place: Place, side: float) -> str:
    takes_pods = node.ready and node.schedulable
    state = "" if takes_pods else ", not ready" if not node.ready else ", cordoned"
    domains = ", ".join(domain for domain in node.domains if domain)
    tooltip = f"{node.name}: {node.free_gpus} of {node.gpus} GPUs free{state}\n{node.product or 'product unknown'}\n{domains}"
    part = node.free_gpus / node.gpus if node.gpus else 0.0
    colour = FREE_COLOURS[round(part * (len(FREE_COLOURS) - 1))] if takes_pods else NO_PODS
    corner = f'x="{place.x - side / 2:.1f}" y="{place.y - side / 2:.1f}"'
    return f'<rect class="node" {corner} width="{side:g}" height="{side:g}" rx="2" fill="{colour}"><title>{_text(tooltip)}</title></rect>'


class _Scale:
    """Colours of latencies, on a log scale from the least to the most on the page."""

    def __init__(self, links: Iterable[TopologyLink]) -> None:
        latencies = [link.latency_seconds for link in links if link.latency_seconds]
        self.least, self.most = min(latencies, default=0.0), max(latencies, default=0.0)

    def colour(self, seconds: float) -> str:
        """The colour of one latency."""
        if seconds <= self.least or self.most <= self.least:
            return LATENCY_COLOURS[0]
        part = math.log(seconds / self.least) / math.log(self.most / self.least)
        return LATENCY_COLOURS[min(len(LATENCY_COLOURS) - 1, int(part * len(LATENCY_COLOURS)))]


def _routes(status: TopologyStatus, boxes: Sequence[PageBox], corners: Sequence[Place], scale: _Scale) -> Iterator[str]:
    """Medians between boxes, from centre to centre, behind them."""
    centres = [Place(corner.x + box.width / 2, corner.y + box.height / 2) for box, corner in zip(boxes, corners, strict=True)]
    for (first, second), links in sorted(_measured_between(status.links, boxes).items()):
        latency = median(link.latency_seconds for link in links if link.latency_seconds)
        rates = [link.bandwidth_bytes_per_second for link in links if link.bandwidth_bytes_per_second]
        tooltip = (
            f"{boxes[first].name} to {boxes[second].name}: {_time(latency)} one way{f', {_rate(median(rates))}' if rates else ''}\n"
            f"median of {len(links)} measured links"
        )
        yield _line(centres[first], centres[second], scale.colour(latency), 2.5, tooltip)


def _measured_between(links: Iterable[TopologyLink], boxes: Sequence[PageBox]) -> dict[tuple[int, int], list[TopologyLink]]:
    """Links with a latency between nodes of two boxes, by the boxes' positions, lower one first."""
    owner = {node.name: at for at, box in enumerate(boxes) for node in box.nodes}
    between: dict[tuple[int, int], list[TopologyLink]] = {}
    for link in links:
        first, second = sorted((owner.get(link.source, -1), owner.get(link.destination, -1)))
        if first != second and first >= 0 and link.latency_seconds:
            between.setdefault((first, second), []).append(link)
    return between


def _lines(links: Sequence[TopologyLink], places: dict[str, Place], scale: _Scale) -> Iterator[str]:
    """Links between single nodes: all where they are few, else the slowest."""
    shown = [link for link in links if link.latency_seconds and link.source in places and link.destination in places]
    if len(shown) > MAX_LINES:
        shown = _slowest(shown)
    for link in shown:
        yield _line(places[link.source], places[link.destination], scale.colour(link.latency_seconds or 0.0), 1.0, _tooltip(link))


def _slowest(links: Iterable[TopologyLink]) -> list[TopologyLink]:
    """The SLOWEST links of those whose latency is known, slowest first."""
    measured = (link for link in links if link.latency_seconds is not None)
    return sorted(measured, key=lambda link: (-(link.latency_seconds or 0.0), link.source, link.destination))[:SLOWEST]


def _tooltip(link: TopologyLink) -> str:
    rate = _rate(link.bandwidth_bytes_per_second) if link.bandwidth_bytes_per_second else "bandwidth unknown"
    latency = f"{_time(link.latency_seconds)} one way" if link.latency_seconds is not None else "latency unknown"
    source = f" by {', '.join(link.sources)}" if link.sources else ""
    age = f", {link.age_seconds:.0f} s old" if link.age_seconds is not None else ""
    return f"{link.source} to {link.destination}: {latency}, {rate}\n{link.quality.lower()}{source}, confidence {link.confidence:.2f}{age}"


def _line(start: Place, end: Place, colour: str, width: float, tooltip: str) -> str:
    ends = f'x1="{start.x:.1f}" y1="{start.y:.1f}" x2="{end.x:.1f}" y2="{end.y:.1f}"'
    return (
        f'<line class="link" {ends} stroke="{colour}" stroke-width="{width:g}" stroke-opacity="0.6"><title>{_text(tooltip)}</title></line>'
    )


def _legend(size: Place, scale: _Scale) -> Iterator[str]:
    y = size.y - 24.0
    labels = ("none free", "a quarter", "half", "three quarters", "all free")
    for at, (colour, label) in enumerate((*zip(FREE_COLOURS, labels, strict=True), (NO_PODS, "takes no pods"))):
        yield f'<rect x="{20 + at * 110}" y="{y:.0f}" width="12" height="12" fill="{colour}"/>'
        yield f'<text x="{36 + at * 110}" y="{y + 10:.0f}">{label}</text>'
    if scale.most <= 0:
        return
    for at, colour in enumerate(LATENCY_COLOURS):
        low = scale.least * (scale.most / scale.least) ** (at / len(LATENCY_COLOURS))
        yield f'<rect x="{700 + at * 110}" y="{y + 4:.0f}" width="20" height="4" fill="{colour}"/>'
        yield f'<text x="{724 + at * 110}" y="{y + 10:.0f}">from {_time(low)}</text>'


def _table(status: TopologyStatus) -> Iterator[str]:
    """The slowest links as text: for those who cannot hover."""
    slowest = _slowest(status.links)
    if not slowest:
        return
    yield "<table><tr><th>Slowest links</th><th></th><th>one way</th><th>bandwidth</th><th>quality</th><th>measured by</th></tr>"
    for link in slowest:
        rate = _rate(link.bandwidth_bytes_per_second) if link.bandwidth_bytes_per_second else "unknown"
        cells = (
            link.source,
            link.destination,
            _time(link.latency_seconds or 0.0),
            rate,
            link.quality.lower(),
            ", ".join(link.sources) or "unknown",
        )
        yield f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in cells)}</tr>"
    yield "</table>"


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} µs"


def _rate(rate_bytes_per_second: float) -> str:
    return f"{rate_bytes_per_second / 1e9:.3g} GB/s" if rate_bytes_per_second >= 1e9 else f"{rate_bytes_per_second / 1e6:.3g} MB/s"


def _text(text: str) -> str:
    """Whatever a name holds as text of the page; what does not print, or would turn the direction of reading, becomes `?`."""
    return escape("".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in text))
