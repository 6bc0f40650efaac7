"""A model's graph, or a script's call graph, as a picture: from top to bottom, the same graph gives the same bytes.

No global state of matplotlib is changed for longer than one picture.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import matplotlib as mpl
import networkx as nx
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from hyperscale.training.modelgraph.analyze import ModelGraph, Operation
from hyperscale.training.modelgraph.calls import COLLECTIVE, MODEL, MODULE, STEP, CallGraph

WIDTH_INCHES: Final = 9.0
MOST_COLUMNS: Final = 5
"""Boxes beside each other that WIDTH_INCHES has room for; more make the picture wider."""
MOST_LETTERS: Final = 22
ROW_INCHES: Final = 0.85
BOX_HEIGHT: Final = 0.52
COLOURS: Final = {"aggregate": "#56B4E9", "dense": "#E69F00", "other": "#e5e7eb", MODEL: "#E69F00", STEP: "#009E73", COLLECTIVE: "#56B4E9"}
"""After Okabe and Ito: what most of an operation's weight is, or what a function does."""
POINTS_AN_INCH: Final = 72.0
LETTER_WIDTH: Final = 0.72
"""Of a bold letter, in its size, with some room at both ends."""
BEHIND: Final = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
"""Labels stay readable where a line passes."""
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
    boxes = [
        GraphBox(
            node,
            *_written(node, directed.nodes[node]["line"]),
            _role_colour(roles[node]),
            0.7,
        )
        for node in shown
    ]
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
    places = {name: ((at + 1) / (len(names) + 1), float(row)) for row, names in members.items() for at, name in enumerate(names)}
    widest = max((len(names) for names in members.values()), default=1)
    depth = max(rows.values(), default=0)
    with mpl.rc_context({"svg.hashsalt": "hyperscale", "svg.fonttype": "none", "font.family": "sans-serif"}):
        figure = Figure(figsize=(WIDTH_INCHES * max(1.0, widest / MOST_COLUMNS), 1.1 + ROW_INCHES * (depth + 1)), facecolor="white")
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0.02, 0.02, 0.96, 0.9))
        axes.axis("off")
        axes.set_xlim(0.0, 1.0)
        axes.set_ylim(depth + 0.6, -0.6)
        for line in lines:
            _draw_line(axes, places[line.source], places[line.target], line)
        for box in boxes:
            _draw_box(axes, places[box.name], box, max(widest, 3))
        figure.text(0.02, 0.965, printable(title), fontsize=10, color=INK, fontweight="bold", va="center", parse_math=False)
        figure.text(0.98, 0.965, key, fontsize=8, color=FAINT, ha="right", va="center")
        buffer = io.StringIO()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of letters that the font here lacks: an SVG holds text, and its reader has fonts of his own
            figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def printable(text: str) -> str:
    """`text` with `?` for what does not print: an SVG with control characters is no XML."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _draw_box(axes: Axes, place: tuple[float, float], box: GraphBox, columns: int) -> None:
    width = (0.62 + 0.3 * box.size) / (columns + 1)
    x, y = place
    axes.add_patch(
        FancyBboxPatch(
            (x - width / 2, y - BOX_HEIGHT / 2),
            width,
            BOX_HEIGHT,
            boxstyle="round,pad=0,rounding_size=0.01",
            mutation_aspect=20.0,
            facecolor=box.colour,
            edgecolor=FAINT,
            linewidth=0.8,
            zorder=3,
        )
    )
    room = width * 0.96 * axes.get_figure(root=True).get_figwidth() * POINTS_AN_INCH  # type: ignore[union-attr] # axes are in a figure
    for text, down, largest, weight in ((box.upper, -0.09 if box.lower else 0.0, 8.0, "bold"), (box.lower, 0.13, 7.0, "normal")):
        size = min(largest, room / (LETTER_WIDTH * max(len(text), 1)))
        axes.text(
            x, y + down, printable(text), ha="center", va="center", fontsize=size, color=INK, fontweight=weight, zorder=4, parse_math=False
        )


def _draw_line(axes: Axes, start: tuple[float, float], end: tuple[float, float], line: Line) -> None:
    (x0, y0), (x1, y1) = start, end
    down = BOX_HEIGHT / 2 if y1 >= y0 else -BOX_HEIGHT / 2
    bend = 0.0 if y1 - y0 == 1.0 else 0.25
    axes.add_patch(
        FancyArrowPatch(
            (x0, y0 + down),
            (x1, y1 - down),
            arrowstyle="-|>",
            mutation_scale=9,
            connectionstyle=f"arc3,rad={bend}",
            linewidth=0.8 + 2.4 * line.size,
            color=FAINT,
            zorder=2,
        )
    )
    if line.label:
        axes.text(
            (x0 + x1) / 2 + 0.012 + bend * 0.1, (y0 + y1) / 2, line.label, fontsize=6.5, color=FAINT, va="center", zorder=4, bbox=BEHIND
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
