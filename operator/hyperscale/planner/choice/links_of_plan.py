"""What a plan tells workers of the links between its nodes, so that parts of a graph can be placed by them. Pure."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from hyperscale.model.api.node_links import MAX_LINKED_NODES, NodeLinks
from hyperscale.model.graph import IntArray, LinkCosts

LINK_DIGITS: Final = 3
"""Significant digits: probes of one link differ by more."""


def links_of_plan(costs: LinkCosts, places: IntArray) -> NodeLinks | None:
    """Return the links between the nodes of a plan; None for one node, and for more than MAX_LINKED_NODES.

    costs: of the nodes · places: (workers,) of each worker's node among them, by worker
    """
    nodes = places[np.sort(np.unique(places, return_index=True)[1])]
    if not 1 < len(nodes) <= MAX_LINKED_NODES or not costs.reachable.all():
        return None
    rows, columns = np.triu_indices(len(nodes))
    pairs = nodes[rows], nodes[columns]
    slower = np.minimum(costs.bandwidth_bytes_per_second, costs.bandwidth_bytes_per_second.T)[pairs]
    later = np.maximum(costs.latency_seconds, costs.latency_seconds.T)[pairs]
    per_byte = tuple(_short(1.0 / rate) for rate in slower.tolist())
    latency = tuple(map(_short, later.tolist()))
    # A stated rate may be so small or large that its inverse is no figure any more.
    return NodeLinks(per_byte, latency) if all(math.isfinite(figure) and figure > 0.0 for figure in per_byte) else None


def _short(figure: float) -> float:
    """`figure` to LINK_DIGITS significant digits."""
    return float(f"{figure:.{LINK_DIGITS}g}")
