"""The key of the picture of a cluster: the colour bar of latencies and the legend of what is shown."""

from __future__ import annotations

from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from hyperscale.pictures.cluster_look import ALARM, FAINT, INK, REST, Look, line_points, rate_text, spans_little
from hyperscale.pictures.lettering import beginning
from hyperscale.pictures.scene import Scene


def draw_colour_bar(figure: Figure, look: Look) -> None:
    """Draw the scale of latencies; none without links."""
    if look.norm is None:
        return
    bar = figure.colorbar(ScalarMappable(look.norm, look.colours), cax=figure.add_axes((0.905, 0.25, 0.014, 0.5)))
    bar.set_label("latency, one way (ms)", color=INK, fontsize=10)
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    bar.ax.yaxis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:g}" if spans_little(look) else ""))
    bar.ax.tick_params(labelsize=9, colors=INK)


def draw_legend(figure: Figure, scene: Scene, look: Look) -> None:
    """Draw only what the picture shows."""
    _fitting_legend(figure, [*_product_handles(look), *_node_handles(scene), *_link_handles(scene, look)])


def _product_handles(look: Look) -> list[Line2D]:
    handles = [_dot(beginning(product, 34), colour, colour) for product, colour in look.palette.items() if colour != REST]
    others = len(look.palette) - len(handles)
    if others:
        handles.append(_dot(f"{others} other products" if others > 1 else "another product", REST, REST))
    return handles


def _node_handles(scene: Scene) -> list[Line2D]:
    handles = []
    if any(not item.free_gpus for item in scene.items):
        handles.append(_dot("no GPU free", "white", FAINT))
    if any(not item.usable for item in scene.items):
        handles.append(Line2D([], [], linestyle="none", marker="x", color=ALARM, markersize=8, label="takes no pods"))
    return handles


def _link_handles(scene: Scene, look: Look) -> list[Line2D]:
    handles = []
    if scene.outliers:
        handles.append(Line2D([], [], color=ALARM, linestyle=(0, (5, 2)), linewidth=1.5, label="over 3 × slower than usual there"))
    if any(not edge.measured for edge in scene.routes):
        handles.append(Line2D([], [], color=FAINT, linestyle=(0, (4, 3)), label="estimated from labels"))
    low, high = look.bandwidths
    rates = (low, high) if high > low * 1.01 else ()
    handles += [Line2D([], [], color=FAINT, linewidth=line_points(rate, look), label=rate_text(rate)) for rate in rates]
    return handles


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
