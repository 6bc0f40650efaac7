"""A cluster graph as a picture: domains as islands, nodes coloured by product and sized by free GPUs, links coloured by latency.

Touches no file, no clock and no global state of matplotlib; the same graph gives the same bytes. Longer than other modules by its
constants of colour and size, which belong beside what they draw.
"""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import Final

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Colormap, ListedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle
from matplotlib.ticker import FuncFormatter

from hyperscale.model.graph import ClusterGraph
from hyperscale.pictures.lettering import beginning, ending
from hyperscale.pictures.scene import Edge, Item, Scene, arrange

DPI: Final = 130
WIDTH_INCHES: Final = 13.0
HEIGHT_INCHES: Final = 9.0
PRODUCT_COLOURS: Final = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#8C6D46", "#B5A800")
"""After Okabe and Ito: told apart by colour-blind readers too. Further products share REST."""
REST: Final = "#7F7F7F"
ALARM: Final = "#D1223B"
INK: Final = "#1f2937"
FAINT: Final = "#6b7280"
ISLAND_FACE: Final = "#f5f6f8"
ISLAND_EDGE: Final = "#cfd4da"
MAX_LABELLED_ROUTES: Final = 6
"""All pairs of four islands; beyond that the labels would hide the lines."""
LABEL_PLACE: Final = 0.42
"""Part of the way at which a route is labelled; in the middle two diagonals would meet."""
LEAST_FONT_POINTS: Final = 4.8
LETTER_EMS: Final = 0.56
"""Width of a letter of the default font in font sizes, on average."""
KEY: Final = "dot area: free GPUs   line colour: latency   line width: bandwidth"
LEAST_LATENCY_SECONDS: Final = 1e-7
"""Floor for the colour scale: some sources print 0."""


@dataclass(frozen=True)
class Look:
    """What all parts of one picture share."""

    palette: dict[str, str]
    """Colour by product."""
    norm: LogNorm | None
    """Latency in milliseconds to 0..1; None without links."""
    colours: Colormap
    points_per_unit: float
    """Length of the scene's unit on paper, in points of 1/72 inch."""
    bandwidths: tuple[float, float]
    """Least and most bandwidth of any line, bytes per second; (0, 0) without."""


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
    look = _look(scene, points_per_unit)
    _draw_islands(axes, scene, look)
    _draw_routes(axes, scene, look)
    _draw_edges(axes, scene.inside, look, alpha=0.55 if len(scene.inside) < 200 else 0.3)
    _draw_outliers(axes, scene)
    _draw_items(axes, scene, look)
    _draw_colour_bar(figure, look)
    _draw_legend(figure, scene, look)
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


def _look(scene: Scene, points_per_unit: float) -> Look:
    gpus: dict[str, int] = {}
    for item in scene.items:
        gpus[item.product] = gpus.get(item.product, 0) + item.gpus
    ranked = sorted(gpus, key=lambda product: (-gpus[product], product))
    lines = (*scene.inside, *scene.routes)
    milliseconds = [_milliseconds(edge) for edge in lines]
    known = [rate for edge in lines if (rate := edge.bandwidth_bytes_per_second) > 0]  # NaN and 0 are left out
    norm = None
    if milliseconds:
        low, high = min(milliseconds), max(milliseconds)
        norm = LogNorm(low, high) if high > low * 1.01 else LogNorm(low / 2, high * 2)
    # The light end of the map would vanish on white.
    colours = ListedColormap(colormaps["viridis_r"]([0.12 + 0.88 * step / 255 for step in range(256)]))
    return Look(
        palette={product: PRODUCT_COLOURS[at] if at < len(PRODUCT_COLOURS) else REST for at, product in enumerate(ranked)},
        norm=norm,
        colours=colours,
        points_per_unit=points_per_unit,
        bandwidths=(min(known), max(known)) if known else (0.0, 0.0),
    )


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
            _figures(edge),
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
            colors=[look.colours(look.norm(_milliseconds(edge))) for edge in ordered],
            linewidths=[_line_width(edge.bandwidth_bytes_per_second, look) for edge in ordered],
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
        diameter = _diameter(item.free_gpus, most, look.points_per_unit)
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


def _draw_colour_bar(figure: Figure, look: Look) -> None:
    if look.norm is None:
        return
    bar = figure.colorbar(ScalarMappable(look.norm, look.colours), cax=figure.add_axes((0.905, 0.25, 0.014, 0.5)))
    bar.set_label("latency, one way (ms)", color=INK, fontsize=10)
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    bar.ax.yaxis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:g}" if _spans_little(look) else ""))
    bar.ax.tick_params(labelsize=9, colors=INK)


def _draw_legend(figure: Figure, scene: Scene, look: Look) -> None:
    """Only what the picture shows."""
    handles = [_dot(beginning(product, 34), colour, colour) for product, colour in look.palette.items() if colour != REST]
    others = len(look.palette) - len(handles)
    if others:
        handles.append(_dot(f"{others} other products" if others > 1 else "another product", REST, REST))
    if any(not item.free_gpus for item in scene.items):
        handles.append(_dot("no GPU free", "white", FAINT))
    if any(not item.usable for item in scene.items):
        handles.append(Line2D([], [], linestyle="none", marker="x", color=ALARM, markersize=8, label="takes no pods"))
    if scene.outliers:
        handles.append(Line2D([], [], color=ALARM, linestyle=(0, (5, 2)), linewidth=1.5, label="over 3 × slower than usual there"))
    if any(not edge.measured for edge in scene.routes):
        handles.append(Line2D([], [], color=FAINT, linestyle=(0, (4, 3)), label="estimated from labels"))
    low, high = look.bandwidths
    rates = (low, high) if high > low * 1.01 else ()
    handles += [Line2D([], [], color=FAINT, linewidth=_line_width(rate, look), label=_rate(rate)) for rate in rates]
    _fitting_legend(figure, handles)


def _fitting_legend(figure: Figure, handles: list[Line2D]) -> None:
    """Below the picture in as many columns as its width holds."""
    for columns in range(6, 1, -1):
        legend = figure.legend(
            handles=handles, loc="lower left", bbox_to_anchor=(0.012, 0.004), ncols=columns, frameon=False, fontsize=9, labelcolor=INK
        )
        if columns == 2 or legend.get_window_extent().x1 <= figure.bbox.x1:
            return
        legend.remove()


def _dot(label: str, face: str, edge: str) -> Line2D:
    return Line2D([], [], linestyle="none", marker="o", markersize=9, markerfacecolor=face, markeredgecolor=edge, label=label)


def _diameter(free_gpus: int, most: int, points_per_unit: float) -> float:
    """Points; the area follows the free GPUs."""
    largest = min(30.0, 0.5 * points_per_unit)
    return max(0.42 * largest, largest * math.sqrt(free_gpus / most))


def _line_width(rate_bytes_per_second: float, look: Look) -> float:
    """Points, on a log scale of bandwidth; thin where it is unknown."""
    low, high = look.bandwidths
    if not rate_bytes_per_second > 0 or high <= low * 1.01:
        return 1.2
    return 0.8 + 3.4 * math.log(rate_bytes_per_second / low) / math.log(high / low)


def _spans_little(look: Look) -> bool:
    """The colour scale holds less than a decade, so that its minor ticks need numbers."""
    return look.norm is not None and bool((look.norm.vmax or 1.0) < 12 * (look.norm.vmin or 1.0))


def _milliseconds(edge: Edge) -> float:
    return max(edge.latency_seconds, LEAST_LATENCY_SECONDS) * 1e3


def _figures(edge: Edge) -> str:
    latency, rate = f"{edge.latency_seconds * 1e3:.3g} ms", _rate(edge.bandwidth_bytes_per_second)
    return f"{'' if edge.measured else '~'}{latency}, {'' if edge.bandwidth_measured else '~'}{rate}"


def _rate(rate_bytes_per_second: float) -> str:
    if rate_bytes_per_second >= 1e9:
        return f"{rate_bytes_per_second / 1e9:.3g} GB/s"
    return f"{rate_bytes_per_second / 1e6:.3g} MB/s"
