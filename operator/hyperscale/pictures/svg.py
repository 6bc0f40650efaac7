"""The picture of a cluster as SVG: islands of nodes coloured by product and sized by free GPUs, links coloured by latency. Pure.

Whatever a name holds is escaped; details show on hover. The same cluster gives the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from html import escape
from typing import Final

from hyperscale.model.api.topology import TopologyLink, TopologyStatus
from hyperscale.pictures.scene import Dot, Edge, Island, Scene, arrange

WIDTH: Final = 1240.0
MOST_PIXELS_A_UNIT: Final = 78.0
MARGIN: Final = 64.0
BAR_WIDTH: Final = 110.0
"""Right of the islands: the scale of latencies."""
LEGEND_ROW: Final = 22.0
LETTER: Final = 6.4
"""Width of a letter of 11 pixels, generously."""
PRODUCT_COLOURS: Final = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#8C6D46", "#B5A800")
"""After Okabe and Ito: told apart by colour-blind readers too. Further products share REST."""
REST: Final = "#7F7F7F"
ALARM: Final = "#D1223B"
INK: Final = "#1f2937"
FAINT: Final = "#6b7280"
LATENCY_COLOURS: Final = ("#a8db34", "#5ec962", "#27ad81", "#21918c", "#31688e", "#443983", "#440154")
"""Viridis from fast to slow, without its light end, which would vanish on white."""
LEAST_LATENCY_SECONDS: Final = 1e-7
"""Floor for the colour scale: some sources print 0."""
MAX_LABELLED_ROUTES: Final = 6
"""All pairs of four islands; beyond that the labels would hide the lines."""
LABEL_PLACE: Final = 0.42
"""Part of the way at which a route is labelled; in the middle two diagonals would meet."""
LEAST_LABELLED_UNIT: Final = 44.0
"""Pixels from node to node below which labels would overlap."""


def svg(status: TopologyStatus) -> str:
    """The picture as an SVG document of its own."""
    scene = arrange(status)
    return "".join(_Canvas(scene).document(_title(status)))


def _title(status: TopologyStatus) -> str:
    nodes = "1 node" if status.node_count == 1 else f"{status.node_count} nodes"
    return f"{nodes}, {status.free_gpu_count} of {status.gpu_count} GPUs free, {status.link_count} links listed"


class _Canvas:
    """Pixels, colours and widths of one picture."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        left, top, right, bottom = scene.bounds
        self._unit = min(MOST_PIXELS_A_UNIT, (WIDTH - BAR_WIDTH - 2 * MARGIN) / (right - left))
        self._left = left - ((WIDTH - BAR_WIDTH) / self._unit - (right - left)) / 2
        self._top = top - (MARGIN + 40.0) / self._unit
        self._foot = (bottom - self._top) * self._unit + MARGIN
        lines = (*scene.inside, *scene.routes)
        latencies = [max(edge.latency_seconds, LEAST_LATENCY_SECONDS) for edge in lines]
        self._fast, self._slow = min(latencies, default=0.0), max(latencies, default=0.0)
        rates = [edge.bandwidth_bytes_per_second for edge in lines if edge.bandwidth_bytes_per_second]
        self._rates = (min(rates), max(rates)) if rates and max(rates) > 1.01 * min(rates) else None
        self._products = _ranked(scene.dots)
        self._most_free = max((dot.node.free_gpus for dot in scene.dots), default=1) or 1

    def document(self, title: str) -> Iterator[str]:
        """All parts of the picture, those behind first."""
        legend = list(self._legend())
        height = self._foot + LEGEND_ROW * (legend[-1][1] + 1 if legend else 0) + 12
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:.0f} {height:.0f}" width="{WIDTH:.0f}" role="img" '
            f'aria-label="Map of the cluster" font-family="system-ui,sans-serif" font-size="11" fill="{INK}">'
            f'<rect width="100%" height="100%" fill="#fff"/>'
            f'<text x="20" y="30" font-size="17" font-weight="700">{text_of(title)}</text>'
        )
        for island in self._scene.islands:
            yield self._disc(island)
        yield from self._lines(self._scene.routes, 0.9 if len(self._scene.routes) <= MAX_LABELLED_ROUTES else 0.55)
        yield from self._lines(self._scene.inside, 0.6 if len(self._scene.inside) < 200 else 0.3)
        for edge in self._scene.outliers:
            yield self._line(edge, ALARM, 1.6, 0.9, "6 3")
        if len(self._scene.routes) <= MAX_LABELLED_ROUTES:
            yield from map(self._figures, self._scene.routes)
        for dot in self._scene.dots:
            yield from self._node(dot)
        yield from map(self._name, self._scene.islands)
        yield from self._bar()
        for x, row, part in legend:
            yield f'<g transform="translate({x:.0f} {self._foot + LEGEND_ROW * row:.0f})">{part}</g>'
        yield "</svg>"

    def _place(self, x: float, y: float) -> tuple[float, float]:
        return (x - self._left) * self._unit, (y - self._top) * self._unit

    def _disc(self, island: Island) -> str:
        x, y = self._place(island.x, island.y)
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{island.radius * self._unit:.1f}" fill="#f5f6f8" stroke="#cfd4da"/>'

    def _name(self, island: Island) -> str:
        """Outside its disc: above on the upper half of the picture, else below, so that routes do not cross it."""
        x, y = self._place(island.x, island.y)
        above = island.y <= (self._scene.bounds[1] + self._scene.bounds[3]) / 2 + 1e-9
        rim = island.radius * self._unit
        first = y - rim - 22 if above else y + rim + 17
        name = island.name if len(island.name) <= 40 else f"…{island.name[-39:]}"
        return (
            f'<text x="{x:.1f}" y="{first:.1f}" text-anchor="middle" font-size="13" font-weight="700">{text_of(name)}</text>'
            f'<text x="{x:.1f}" y="{first + 15:.1f}" text-anchor="middle" fill="{FAINT}">{island.free_text}</text>'
        )

    def _lines(self, edges: Iterable[Edge], opacity: float) -> Iterator[str]:
        """Slow lines on top, so that they are not hidden by many fast ones."""
        for edge in sorted(edges, key=lambda edge: (edge.latency_seconds, edge.between)):
            yield self._line(
                edge, self._colour(edge), self._stroke(edge.bandwidth_bytes_per_second), opacity, "" if edge.measured else "5 4"
            )

    def _line(self, edge: Edge, colour: str, width: float, opacity: float, dashes: str) -> str:
        (x1, y1), (x2, y2) = (self._place(*end) for end in edge.ends)
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        return (
            f'<line class="link" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width:.1f}" '
            f'stroke-opacity="{opacity:g}"{dashed}><title>{text_of(tooltip(edge))}</title></line>'
        )

    def _figures(self, edge: Edge) -> str:
        (x1, y1), (x2, y2) = (self._place(*end) for end in edge.ends)
        x, y = x1 + (x2 - x1) * LABEL_PLACE, y1 + (y2 - y1) * LABEL_PLACE
        rate = f", {rate_text(edge.bandwidth_bytes_per_second)}" if edge.bandwidth_bytes_per_second else ""
        text = f"{'' if edge.measured else '~'}{time_text(edge.latency_seconds)}{rate}"
        width = LETTER * len(text) + 12
        return (
            f'<rect x="{x - width / 2:.1f}" y="{y - 10:.1f}" width="{width:.1f}" height="20" rx="4" fill="#fff" stroke="#cfd4da"/>'
            f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle">{text}</text>'
        )

    def _node(self, dot: Dot) -> Iterator[str]:
        """Its area follows its free GPUs; hollow without one, crossed where it takes no pods."""
        node, (x, y) = dot.node, self._place(dot.x, dot.y)
        largest = min(21.0, 0.27 * self._unit)
        radius = max(0.42 * largest, largest * math.sqrt(node.free_gpus / self._most_free))
        colour = self._products.get(node.product or "", REST)
        yield (
            f'<circle class="node" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{colour if node.free_gpus else "#fff"}" '
            f'stroke="{colour}" stroke-width="{min(1.6, radius / 3):.1f}"><title>{text_of(_described(dot))}</title></circle>'
        )
        if not (node.ready and node.schedulable):
            arm = radius * 0.6
            yield f'<path d="M{x - arm:.1f} {y - arm:.1f}l{2 * arm:.1f} {2 * arm:.1f}m0 {-2 * arm:.1f}l{-2 * arm:.1f} {2 * arm:.1f}" '
            yield f'stroke="{ALARM}" stroke-width="1.6"/>'
        if self._unit >= LEAST_LABELLED_UNIT:
            name = dot.label if len(dot.label) <= 14 else f"…{dot.label[-13:]}"
            yield f'<text x="{x:.1f}" y="{y + radius + 11:.1f}" text-anchor="middle" stroke="#fff" stroke-width="3" stroke-opacity=".8" '
            yield f'paint-order="stroke">{text_of(name)} {node.free_gpus}/{node.gpus}</text>'

    def _colour(self, edge: Edge) -> str:
        return LATENCY_COLOURS[min(len(LATENCY_COLOURS) - 1, int(self._part(edge.latency_seconds) * len(LATENCY_COLOURS)))]

    def _part(self, seconds: float) -> float:
        """Of the scale of latencies, 0 for the fastest."""
        if self._slow <= 1.01 * self._fast:
            return 0.5
        return math.log(max(seconds, LEAST_LATENCY_SECONDS) / self._fast) / math.log(self._slow / self._fast)

    def _stroke(self, rate_bytes_per_second: float | None) -> float:
        """Width of a line, on a log scale of bandwidth; thin where it is unknown."""
        if not rate_bytes_per_second or self._rates is None:
            return 1.4
        low, high = self._rates
        return 1.0 + 4.0 * math.log(rate_bytes_per_second / low) / math.log(high / low)

    def _bar(self) -> Iterator[str]:
        """The scale of latencies, slow on top; none without links."""
        if not self._slow:
            return
        x, step = WIDTH - BAR_WIDTH + 10, 34.0
        y = self._foot / 2 - step * len(LATENCY_COLOURS) / 2
        yield f'<text x="{x:.0f}" y="{y - 12:.0f}">latency, one way</text>'
        for at, colour in enumerate(reversed(LATENCY_COLOURS)):
            yield f'<rect x="{x:.0f}" y="{y + step * at:.0f}" width="16" height="{step:.0f}" fill="{colour}"/>'
        for at in range(0, len(LATENCY_COLOURS) + 1, 1 if self._slow > 1.01 * self._fast else len(LATENCY_COLOURS)):
            seconds = self._slow * (self._fast / self._slow) ** (at / len(LATENCY_COLOURS))
            yield f'<text x="{x + 22:.0f}" y="{y + step * at + 4:.0f}">{time_text(seconds)}</text>'

    def _legend(self) -> Iterator[tuple[float, int, str]]:
        """Place, row and drawing of every entry: only what the picture shows."""
        x, row = 20.0, 0
        for text, drawing in self._entries():
            width = 30 + LETTER * len(text) + 18
            if x + width > WIDTH and x > 20.0:
                x, row = 20.0, row + 1
            yield x, row, f'{drawing}<text x="24" y="4">{text_of(text)}</text>'
            x += width

    def _entries(self) -> Iterator[tuple[str, str]]:
        shown = list(self._products.items())[: len(PRODUCT_COLOURS)]
        for product, colour in shown:
            yield (
                (product if len(product) <= 34 else f"{product[:33]}…") or "product unknown",
                f'<circle cx="8" cy="0" r="7" fill="{colour}"/>',
            )
        if (others := len(self._products) - len(shown)) > 0:
            yield f"{others} other products" if others > 1 else "another product", f'<circle cx="8" cy="0" r="7" fill="{REST}"/>'
        yield from self._node_entries()
        yield from self._link_entries()

    def _node_entries(self) -> Iterator[tuple[str, str]]:
        nodes = [dot.node for dot in self._scene.dots]
        if not all(node.free_gpus for node in nodes):
            yield "no GPU free", f'<circle cx="8" cy="0" r="6" fill="#fff" stroke="{FAINT}" stroke-width="1.6"/>'
        if not all(node.ready and node.schedulable for node in nodes):
            yield "takes no pods", f'<path d="M3 -5l10 10m0 -10l-10 10" stroke="{ALARM}" stroke-width="1.6"/>'

    def _link_entries(self) -> Iterator[tuple[str, str]]:
        if self._scene.outliers:
            yield "dead, or over 3 × slower than usual there", _stroke_of(ALARM, 1.6, "6 3")
        if not all(edge.measured for edge in (*self._scene.routes, *self._scene.inside)):
            yield "estimated", _stroke_of(FAINT, 1.6, "5 4")
        for rate in self._rates or ():
            yield rate_text(rate), _stroke_of(FAINT, self._stroke(rate), "")


def _stroke_of(colour: str, width: float, dashes: str) -> str:
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<path d="M0 0h18" stroke="{colour}" stroke-width="{width:.1f}"{dashed}/>'


def _ranked(dots: Iterable[Dot]) -> dict[str, str]:
    """Colour by product, the product with the most GPUs first."""
    gpus: dict[str, int] = {}
    for dot in dots:
        gpus[dot.node.product or ""] = gpus.get(dot.node.product or "", 0) + dot.node.gpus
    ranked = sorted(gpus, key=lambda product: (-gpus[product], product))
    return {product: PRODUCT_COLOURS[at] if at < len(PRODUCT_COLOURS) else REST for at, product in enumerate(ranked)}


def _described(dot: Dot) -> str:
    node = dot.node
    state = "" if node.ready and node.schedulable else ", not ready" if not node.ready else ", cordoned"
    domains = ", ".join(domain for domain in node.domains if domain)
    return f"{node.name}: {node.free_gpus} of {node.gpus} GPUs free{state}\n{node.product or 'product unknown'}\n{domains}"


def tooltip(edge: Edge) -> str:
    """What a line says of itself: each link with quality and source, or the median of many."""
    if len(edge.links) > 2:
        rate = f", {rate_text(edge.bandwidth_bytes_per_second)}" if edge.bandwidth_bytes_per_second else ""
        return f"{edge.between[0]} to {edge.between[1]}: {time_text(edge.latency_seconds)} one way{rate}\nmedian of {len(edge.links)} links"
    return "\n".join(map(link_text, edge.links))


def link_text(link: TopologyLink) -> str:
    """A link in two lines: its figures, and how well they are known."""
    rate = rate_text(link.bandwidth_bytes_per_second) if link.bandwidth_bytes_per_second is not None else "bandwidth unknown"
    latency = f"{time_text(link.latency_seconds)} one way" if link.latency_seconds is not None else "latency unknown"
    source = f" by {', '.join(link.sources)}" if link.sources else ""
    age = f", {link.age_seconds:.0f} s old" if link.age_seconds is not None else ""
    return f"{link.source} to {link.destination}: {latency}, {rate}\n{link.quality.lower()}{source}, confidence {link.confidence:.2f}{age}"


def time_text(seconds: float) -> str:
    """A latency with its unit."""
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} µs"


def rate_text(rate_bytes_per_second: float) -> str:
    """A bandwidth with its unit."""
    return f"{rate_bytes_per_second / 1e9:.3g} GB/s" if rate_bytes_per_second >= 1e9 else f"{rate_bytes_per_second / 1e6:.3g} MB/s"


def text_of(text: str) -> str:
    """Whatever a name holds as text; what does not print, or would turn the direction of reading, becomes `?`."""
    return escape("".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in text))
