"""A cluster graph as a picture: domains as islands, nodes coloured by product and sized by free GPUs, links coloured by latency.

Touches no file, no clock and no global state of matplotlib; the same graph gives the same bytes.
"""

from __future__ import annotations

import io
from typing import Final

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from hyperscale.model.graph import ClusterGraph
from hyperscale.pictures.cluster_legend import draw_colour_bar, draw_legend
from hyperscale.pictures.cluster_look import (
    ALARM,
    FAINT,
    INK,
    ISLAND_EDGE,
    ISLAND_FACE,
    Look,
    dot_points,
    figures_text,
    line_points,
    look_of,
    milliseconds_of,
)
from hyperscale.pictures.lettering import ending
from hyperscale.pictures.scene import Edge, Item, Scene, arrange

DPI: Final = 130
WIDTH_INCHES: Final = 13.0
HEIGHT_INCHES: Final = 9.0
MAX_LABELLED_ROUTES: Final = 6
"""All pairs of four islands; beyond that the labels would hide the lines."""
LABEL_PLACE: Final = 0.42
"""Part of the way at which a route is labelled; in the middle two diagonals would meet."""
LEAST_FONT_POINTS: Final = 4.8
LETTER_EMS: Final = 0.56
"""Width of a letter of the default font in font sizes, on average."""
KEY: Final = "dot area: free GPUs   line colour: latency   line width: bandwidth"


def png(graph: ClusterGraph) -> bytes:
    """The picture as PNG."""
    buffer = io.BytesIO()
    draw(graph).savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
    return buffer.getvalue()


def draw(graph: ClusterGraph) -> Figure:
    """The picture as a matplotlib figure with an Agg canvas."""
    scene = arrange(graph)
    figure = Figure(figsize=(WIDTH_INCHES, HEIGHT_INCHES), facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.01, 0.075, 0.86, 0.865))
    points_per_unit = _frame(axes, scene)
    look = look_of(scene, points_per_unit)
    _draw_islands(axes, scene, look)
    _draw_routes(axes, scene, look)
    _draw_edges(axes, scene.inside, look, alpha=0.55 if len(scene.inside) < 200 else 0.3)
    _draw_outliers(axes, scene)
    _draw_items(axes, scene, look)
    draw_colour_bar(figure, look)
    draw_legend(figure, scene, look)
    figure.text(0.02, 0.965, scene.title, fontsize=14, color=INK, fontweight="bold", va="center")
    figure.text(0.985, 0.965, KEY, fontsize=9, color=FAINT, ha="right", va="center")
    return figure


def _frame(axes: Axes, scene: Scene) -> float:
    """Limits with equal scales and room for the islands' names; returns points per unit."""
    axes.axis("off")
    axes.set_aspect("equal")
    left, bottom, right, top = scene.bounds
    margin = 0.05 * max(right - left, top - bottom) + 0.35
    axes.set_xlim(left - 0.3, right + 0.3)
    axes.set_ylim(bottom - margin, top + margin)
    box = axes.get_position()
    return 72.0 * min(WIDTH_INCHES * box.width / (right - left + 0.6), HEIGHT_INCHES * box.height / (top - bottom + 2 * margin))


def _draw_islands(axes: Axes, scene: Scene, look: Look) -> None:
    """Discs with their names, outside: above the middle on top, else below, so that routes do not cross them."""
    size = min(11.0, max(8.0, look.points_per_unit * 0.28))
    middle = (scene.bounds[1] + scene.bounds[3]) / 2.0
    for island in scene.islands:
        axes.add_patch(Circle((island.x, island.y), island.radius, facecolor=ISLAND_FACE, edgecolor=ISLAND_EDGE, linewidth=1.0, zorder=1))
        above = island.y >= middle - 1e-9
        rim = (island.x, island.y + (island.radius if above else -island.radius))
        axes.annotate(
            ending(island.name, 28),
            rim,
            xytext=(0, size * 1.15 + 2 if above else -2.5),
            textcoords="offset points",
            ha="center",
            va="bottom" if above else "top",
            fontsize=size,
            color=INK,
            fontweight="bold",
            zorder=7,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.6},
        )
        text = f"{island.free_gpus} of {island.gpus} GPUs free"
        axes.annotate(
            text,
            rim,
            xytext=(0, 2.5 if above else -size * 1.3 - 2.5),
            textcoords="offset points",
            ha="center",
            va="bottom" if above else "top",
            fontsize=size * 0.8,
            color=FAINT,
            zorder=7,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.6},
        )


def _draw_routes(axes: Axes, scene: Scene, look: Look) -> None:
    """Medians between islands; labelled with figures where there are few."""
    _draw_edges(axes, scene.routes, look, alpha=0.9 if len(scene.routes) <= MAX_LABELLED_ROUTES else 0.55)
    if len(scene.routes) > MAX_LABELLED_ROUTES:
        return
    for edge in scene.routes:
        (x1, y1), (x2, y2) = edge.ends
        axes.annotate(
            figures_text(edge),
            (x1 + (x2 - x1) * LABEL_PLACE, y1 + (y2 - y1) * LABEL_PLACE),
            ha="center",
            va="center",
            fontsize=8.5,
            color=INK,
            zorder=6,
            bbox={"facecolor": "white", "edgecolor": ISLAND_EDGE, "boxstyle": "round,pad=0.3", "linewidth": 0.6},
        )


def _draw_edges(axes: Axes, edges: tuple[Edge, ...], look: Look, alpha: float) -> None:
    """Slow lines on top, so that they are not hidden by many fast ones."""
    if look.norm is None or not edges:
        return
    ordered = sorted(edges, key=lambda edge: (edge.latency_seconds, edge.ends))
    axes.add_collection(
        LineCollection(
            [edge.ends for edge in ordered],
            colors=[look.colours(look.norm(milliseconds_of(edge))) for edge in ordered],
            linewidths=[line_points(edge.bandwidth_bytes_per_second, look) for edge in ordered],
            linestyles=["solid" if edge.measured else (0, (4, 3)) for edge in ordered],
            alpha=alpha,
            zorder=2,
        )
    )


def _draw_outliers(axes: Axes, scene: Scene) -> None:
    if scene.outliers:
        axes.add_collection(
            LineCollection(
                [edge.ends for edge in scene.outliers], colors=ALARM, linewidths=1.5, linestyles=[(0, (5, 2))], alpha=0.9, zorder=4
            )
        )


def _draw_items(axes: Axes, scene: Scene, look: Look) -> None:
    most = max((item.free_gpus for item in scene.items), default=1) or 1
    label, font_points = _item_labels(scene, look.points_per_unit)
    for item in scene.items:
        diameter = dot_points(item.free_gpus, most, look.points_per_unit)
        colour = look.palette[item.product]
        face = colour if item.free_gpus else "white"
        axes.plot(item.x, item.y, "o", markersize=diameter, markerfacecolor=face, markeredgecolor=colour, markeredgewidth=1.4, zorder=5)
        if not item.usable:
            axes.plot(item.x, item.y, "x", markersize=diameter * 0.75, markeredgecolor=ALARM, markeredgewidth=1.6, zorder=6)
        if font_points >= LEAST_FONT_POINTS:
            _name_item(axes, item, label.format(ending(item.label, 18), item.free_gpus, item.gpus), diameter, font_points)


def _item_labels(scene: Scene, points_per_unit: float) -> tuple[str, float]:
    """The fullest label of which two neighbours fit side by side, no higher than leaves the dot below in sight, and its font size.

    A size that is too small means none.
    """
    size = 0.0
    for label in ("{0}  {1}/{2}", "{0}"):
        letters = max(len(label.format(ending(item.label, 18), item.free_gpus, item.gpus)) for item in scene.items)
        size = min(8.5, 0.3 * points_per_unit, 1.15 * points_per_unit / (LETTER_EMS * letters))
        if size >= LEAST_FONT_POINTS:
            return label, size
    return "{0}", size


def _name_item(axes: Axes, item: Item, text: str, diameter: float, font_points: float) -> None:
    axes.annotate(
        text,
        (item.x, item.y),
        xytext=(0, -diameter / 2 - 1.5),
        textcoords="offset points",
        ha="center",
        va="top",
        fontsize=font_points,
        color=INK,
        zorder=7,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.65, "pad": 0.4},
    )
