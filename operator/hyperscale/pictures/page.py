"""The cluster as one HTML page without scripts: its picture, and the slowest links as a table. Pure.

Everything is in the page itself (SVG and one style), and whatever a name holds is escaped.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator
from html import escape
from typing import Final

from hyperscale.model.api.topology import TopologyLink, TopologyStatus
from hyperscale.pictures.svg import rate_text, svg, text_of, time_text

SLOWEST: Final = 12
STYLE: Final = (
    "body{font:14px/1.4 system-ui,sans-serif;color:#1f2937;background:#fff;margin:1.2em}"
    "h1{font-size:1.2em;margin:0 0 .3em}p{margin:.2em 0}.warn{color:#b91c1c;font-weight:600}"
    "svg{max-width:100%;height:auto;margin-top:.8em}.node:hover{stroke:#111827;stroke-width:3}.link:hover{stroke-width:7}"
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
        f"{''.join(_head(status))}{svg(status) if status.nodes else ''}{''.join(_table(status))}</body></html>\n"
    )


def _head(status: TopologyStatus) -> Iterator[str]:
    yield f"<h1>Cluster as of {text_of(status.snapshot_time)}</h1>"
    if not status.metrics.available:
        yield f'<p class="warn">No metrics ({text_of(status.metrics.reason)}): {text_of(status.metrics.message)}</p>'
    elif status.metrics.failed_queries:
        yield f'<p class="warn">Failed queries: {text_of(", ".join(status.metrics.failed_queries))}</p>'
    left = (status.node_count - len(status.nodes), status.link_count - len(status.links))
    if any(left):
        yield f"<p>{left[0]} nodes and {left[1]} links are too many to be shown.</p>"


def _slowest(links: Iterable[TopologyLink]) -> list[TopologyLink]:
    """The SLOWEST links of those whose latency is known, slowest first."""
    measured = (link for link in links if link.latency_seconds is not None)
    return sorted(measured, key=lambda link: (-(link.latency_seconds or 0.0), link.source, link.destination))[:SLOWEST]


def _table(status: TopologyStatus) -> Iterator[str]:
    """The slowest links as text: for those who cannot hover."""
    slowest = _slowest(status.links)
    if not slowest:
        return
    yield "<table><tr><th>Slowest links</th><th></th><th>one way</th><th>bandwidth</th><th>quality</th><th>measured by</th></tr>"
    for link in slowest:
        rate = rate_text(link.bandwidth_bytes_per_second) if link.bandwidth_bytes_per_second else "unknown"
        cells = (
            link.source,
            link.destination,
            time_text(link.latency_seconds or 0.0),
            rate,
            link.quality.lower(),
            ", ".join(link.sources) or "unknown",
        )
        yield f"<tr>{''.join(f'<td>{text_of(cell)}</td>' for cell in cells)}</tr>"
    yield "</table>"
