"""A model's graph, or a script's call graph, as SVG: from top to bottom, the same graph gives the same bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

import networkx as nx

from hyperscale.training.modelgraph.analyze import ModelGraph, Operation
from hyperscale.training.modelgraph.calls import COLLECTIVE, MODEL, MODULE, STEP, CallGraph

WIDTH: Final = 900.0
"""Of a picture with up to MOST_COLUMNS boxes beside each other; more make it wider. All lengths are pixels."""
MOST_COLUMNS: Final = 5
MOST_LETTERS: Final = 22
HEAD: Final = 60.0
ROW: Final = 80.0
BOX: Final = 44.0
COLOURS: Final = {"aggregate": "#56B4E9", "dense": "#E69F00", "other": "#e5e7eb", MODEL: "#E69F00", STEP: "#009E73", COLLECTIVE: "#56B4E9"}
"""After Okabe and Ito: what most of an operation's weight is, or what a function does."""
LETTER_WIDTH: Final = 0.72
"""Of a bold letter, in its size, with some room at both ends."""
INK: Final = "#1f2937"
FAINT: Final = "#6b7280"


@dataclass(frozen=True)
class GraphBox:
    """One thing in the picture."""

    name: str
    upper: str
    lower: str
    colour: str
    size: float
    """0..1, for its width."""


@dataclass(frozen=True)
class Line:
    """An arrow between two boxes."""

    source: str
    target: str
    label: str
    size: float
    """0..1, for its thickness."""


def svg(graph: ModelGraph) -> str:
    """A model's graph as SVG."""
    widest = max((one.weight for one in graph.operations), default=1.0) or 1.0
    most = max((passed for _, _, passed in graph.edges), default=1.0) or 1.0
    boxes = [
        GraphBox(
            one.name,
            f"{one.kind} {one.module or (one.name if one.kind == 'input' else '')}".rstrip(),
            "×".join(map(str, one.shape)) + (f"   W {count_text(one.weight)}" if one.weight else ""),
            COLOURS[_colour(one)],
            math.sqrt(one.weight / widest),
        )
        for one in graph.operations
    ]
    lines = [Line(source, target, bytes_text(passed) if passed else "", math.sqrt(passed / most)) for source, target, passed in graph.edges]
    of = graph.statistics
    title = f"{graph.name}: {count_text(graph.weight)} operations forward, {of.vertices:,} vertices, {of.edges:,} edges"
    return _svg(boxes, lines, _by_longest_way(graph.networkx()), title, "blue: aggregation   orange: dense")


def calls_svg(graph: CallGraph, name: str) -> str:
    """A script's call graph as SVG: its own functions, and the collectives that they call."""
    directed = graph.networkx()
    own = [one.name for one in graph.functions]
    shown = [*own, *_collectives_outside(directed)]
    roles = {node: directed.nodes[node]["roles"].split(",") for node in shown}
    boxes = [GraphBox(node, *_written(node, directed.nodes[node]["line"]), _role_colour(roles[node]), 0.7) for node in shown]
    lines = [Line(source, target, "", 0.2) for source, target in directed.edges if source in roles and target in roles and source != target]
    kept = directed.subgraph(shown)
    return _svg(boxes, lines, _by_distance(kept, own), name, "orange: model   green: step   blue: collective")


def _collectives_outside(directed: nx.DiGraph[str]) -> list[str]:
    """Collectives of libraries, which have no line in the script."""
    return sorted(node for node, data in directed.nodes(data=True) if not data["line"] and node != MODULE and data["roles"])


def _role_colour(roles: list[str]) -> str:
    return next((COLOURS[role] for role in (COLLECTIVE, STEP, MODEL) if role in roles), COLOURS["other"])


def _written(name: str, line: int) -> tuple[str, str]:
    """Both lines of a function's box: what is outside of the script stands below its own last name."""
    if line or name == MODULE:
        return name if len(name) <= MOST_LETTERS else "…" + name[1 - MOST_LETTERS :], f"line {line}" if line else ""
    module, _, last = name.rpartition(".")
    return last if len(last) <= MOST_LETTERS else "…" + last[1 - MOST_LETTERS :], module


def _by_longest_way(directed: nx.DiGraph[str]) -> dict[str, int]:
    rows: dict[str, int] = {}
    for name in nx.topological_sort(directed):
        rows[name] = max((rows[before] + 1 for before in directed.predecessors(name)), default=0)
    return rows


def _by_distance(directed: nx.DiGraph[str], order: Sequence[str]) -> dict[str, int]:
    """Calls from the script itself; what it does not reach starts on the first row."""
    rows: dict[str, int] = {}
    for start in order:
        if start not in rows:
            for name, far in nx.single_source_shortest_path_length(directed, start).items():
                rows.setdefault(name, far)
    return rows


def _svg(boxes: Sequence[GraphBox], lines: Sequence[Line], rows: dict[str, int], title: str, key: str) -> str:
    members: dict[int, list[str]] = {}
    for box in boxes:
        members.setdefault(rows[box.name], []).append(box.name)
    widest = max((len(names) for names in members.values()), default=1)
    width, height = WIDTH * max(1.0, widest / MOST_COLUMNS), HEAD + ROW * (max(rows.values(), default=0) + 1)
    places = {
        name: (width * (at + 1) / (len(names) + 1), HEAD + ROW * (row + 0.5))
        for row, names in members.items()
        for at, name in enumerate(names)
    }
    drawn = [_line(places[line.source], places[line.target], line) for line in lines]
    drawn += [_box(places[box.name], box, width * (0.62 + 0.3 * box.size) / (max(widest, 3) + 1)) for box in boxes]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" font-family="sans-serif" '
        f'fill="{INK}"><defs><marker id="tip" viewBox="0 0 6 6" refX="6" refY="3" markerWidth="9" markerHeight="9" orient="auto" '
        f'markerUnits="userSpaceOnUse"><path d="M0 0L6 3L0 6z" fill="{FAINT}"/></marker></defs>'
        f'<rect width="100%" height="100%" fill="#fff"/>'
        f'<text x="18" y="34" font-size="14" font-weight="700">{printable(title)}</text>'
        f'<text x="{width - 18:.0f}" y="34" font-size="11" fill="{FAINT}" text-anchor="end">{printable(key)}</text>{"".join(drawn)}</svg>\n'
    )


def printable(text: str) -> str:
    """`text` escaped, with `?` for what does not print: an SVG with control characters is no XML."""
    return escape("".join(letter if letter.isprintable() else "?" for letter in text))


def _box(place: tuple[float, float], box: GraphBox, width: float) -> str:
    x, y = place
    texts = ((box.upper, -3 if box.lower else 4, 11.0, 700), (box.lower, 13, 10.0, 400))
    return (
        f'<rect x="{x - width / 2:.1f}" y="{y - BOX / 2:.1f}" width="{width:.1f}" height="{BOX:.0f}" rx="8" fill="{box.colour}" '
        f'stroke="{FAINT}"/>'
    ) + "".join(
        f'<text x="{x:.1f}" y="{y + down:.1f}" text-anchor="middle" font-weight="{weight}" '
        f'font-size="{min(largest, width * 0.96 / (LETTER_WIDTH * max(len(text), 1))):.1f}">{printable(text)}</text>'
        for text, down, largest, weight in texts
        if text
    )


def _line(start: tuple[float, float], end: tuple[float, float], line: Line) -> str:
    """An arrow, bent where it passes rows in between; its label stays readable where it crosses others."""
    (x0, y0), (x1, y1) = start, end
    down = BOX / 2 if y1 >= y0 else -BOX / 2
    y0, y1 = y0 + down, y1 - down
    bend = 0.0 if abs(y1 - y0 - (ROW - BOX)) < 1.0 else 0.25 * (y1 - y0)
    x, y = (x0 + x1) / 2 + bend, (y0 + y1) / 2
    label = (
        f'<text x="{(x0 + x1) / 2 + bend / 2 + 6:.1f}" y="{y + 3:.1f}" font-size="9" fill="{FAINT}" stroke="#fff" stroke-width="3" '
        f'paint-order="stroke">{line.label}</text>'
    )
    return (
        f'<path d="M{x0:.1f} {y0:.1f}Q{x:.1f} {y:.1f} {x1:.1f} {y1:.1f}" fill="none" stroke="{FAINT}" '
        f'stroke-width="{0.8 + 2.4 * line.size:.1f}" marker-end="url(#tip)"/>{label if line.label else ""}'
    )


def _colour(one: Operation) -> str:
    sparse = sum(part.flops for part in one.parts if part.operation.startswith(("gspmm", "gsddmm", "edge softmax")))
    dense = sum(part.flops for part in one.parts if part.dense)
    if max(sparse, dense) <= one.weight / 4:
        return "other"
    return "aggregate" if sparse >= dense else "dense"


def count_text(value: float) -> str:
    """Three digits and a decimal unit."""
    for factor, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value:.3g}"


def bytes_text(value: float) -> str:
    """The same of bytes."""
    return f"{count_text(value)}B" if value >= 1e3 else f"{value:.3g} B"
