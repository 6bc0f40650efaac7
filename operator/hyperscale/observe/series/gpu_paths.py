"""How the GPUs of every node reach each other, as the node agents count their NVLinks. Pure."""

from __future__ import annotations

from typing import Final

from hyperscale.model.api.policy import QualityLimits
from hyperscale.model.cluster import NVLINK, PATH_KINDS, GpuPaths, Origin
from hyperscale.model.metrics_reading import MetricsReading
from hyperscale.observe.identity import NodeIndex
from hyperscale.observe.quality import Point, judge, rules

FIGURE: Final = "gpu_paths"


def paths_by_node(reading: MetricsReading, index: NodeIndex, limits: QualityLimits, now: float) -> dict[str, GpuPaths]:
    """The narrowest way between two GPUs of each node that tells ways; kinds that are not known count for nothing."""
    points: dict[tuple[str, str], list[Point]] = {}
    for one in reading.series.get(FIGURE, ()):
        node, kind = index.of_series(one.labels), one.labels.get("kind", "")
        if node is not None and kind in PATH_KINDS:
            points.setdefault((node, kind), []).append(Point(one.value, one.timestamp, Origin.AGENT))
    rule = rules(limits)[FIGURE]
    narrowest: dict[str, GpuPaths] = {}
    for (node, kind), given in sorted(points.items(), key=lambda entry: (entry[0][0], PATH_KINDS.index(entry[0][1]))):
        links = judge(given, rule, now, limits.max_age_seconds).value
        if links is not None:
            narrowest[node] = GpuPaths(kind, int(links) if kind == NVLINK else 0)
    return narrowest
