"""Colours, sizes and figures of the picture of a cluster: how products, latencies, bandwidths and free GPUs look."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from matplotlib import colormaps
from matplotlib.colors import Colormap, ListedColormap, LogNorm

from hyperscale.pictures.scene import Edge, Scene

PRODUCT_COLOURS: Final = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#8C6D46", "#B5A800")
"""After Okabe and Ito: told apart by colour-blind readers too. Further products share REST."""
REST: Final = "#7F7F7F"
ALARM: Final = "#D1223B"
INK: Final = "#1f2937"
FAINT: Final = "#6b7280"
ISLAND_FACE: Final = "#f5f6f8"
ISLAND_EDGE: Final = "#cfd4da"
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


def look_of(scene: Scene, points_per_unit: float) -> Look:
    """Return colours and scales for what a scene holds."""
    gpus: dict[str, int] = {}
    for item in scene.items:
        gpus[item.product] = gpus.get(item.product, 0) + item.gpus
    ranked = sorted(gpus, key=lambda product: (-gpus[product], product))
    lines = (*scene.inside, *scene.routes)
    milliseconds = [milliseconds_of(edge) for edge in lines]
    rates = [rate for edge in lines if (rate := edge.bandwidth_bytes_per_second) > 0]  # NaN and 0 are left out
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
        bandwidths=(min(rates), max(rates)) if rates else (0.0, 0.0),
    )


def dot_points(free_gpus: int, most: int, points_per_unit: float) -> float:
    """Points; the area follows the free GPUs."""
    largest = min(30.0, 0.5 * points_per_unit)
    return max(0.42 * largest, largest * math.sqrt(free_gpus / most))


def line_points(rate_bytes_per_second: float, look: Look) -> float:
    """Points, on a log scale of bandwidth; thin where it is unknown."""
    low, high = look.bandwidths
    if not rate_bytes_per_second > 0 or high <= low * 1.01:
        return 1.2
    return 0.8 + 3.4 * math.log(rate_bytes_per_second / low) / math.log(high / low)


def spans_little(look: Look) -> bool:
    """The colour scale holds less than a decade, so that its minor ticks need numbers."""
    return look.norm is not None and bool((look.norm.vmax or 1.0) < 12 * (look.norm.vmin or 1.0))


def milliseconds_of(edge: Edge) -> float:
    """Return the latency of a line for the colour scale."""
    return max(edge.latency_seconds, LEAST_LATENCY_SECONDS) * 1e3


def figures_text(edge: Edge) -> str:
    """Return latency and bandwidth of a line; ~ marks an estimate."""
    latency, rate = f"{edge.latency_seconds * 1e3:.3g} ms", rate_text(edge.bandwidth_bytes_per_second)
    return f"{'' if edge.measured else '~'}{latency}, {'' if edge.bandwidth_measured else '~'}{rate}"


def rate_text(rate_bytes_per_second: float) -> str:
    """Return a bandwidth with its unit."""
    if rate_bytes_per_second >= 1e9:
        return f"{rate_bytes_per_second / 1e9:.3g} GB/s"
    return f"{rate_bytes_per_second / 1e6:.3g} MB/s"
