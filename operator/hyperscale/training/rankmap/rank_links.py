"""What ranks pay to send each other data: links between nodes as a plan lists them, spread over the ranks of the nodes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from hyperscale.model.adjacency import Array
from hyperscale.model.api.node_links import NodeLinks

MIN_SECONDS_PER_BYTE: Final = 1e-18
MAX_SECONDS_PER_BYTE: Final = 1.0
MAX_LATENCY_SECONDS: Final = 1e4
"""Figures outside of these are of no link; products of those within stay finite."""
EVEN: Final = 0.1
"""Links that differ by no more than this part count as equal: probes of one link do, and an order of ranks would follow them."""


class UnusableLinksError(ValueError):
    """The plan's links cannot be used; one line says why."""


@dataclass(frozen=True)
class RankLinks:
    """Ways between ranks of a job."""

    node: Array
    """(ranks,) int64 number of each rank's node, in the order of their first ranks."""
    seconds_per_byte: Array
    """(nodes, nodes) float64; the diagonal between two ranks of one node. All ranks of a node share what leads to another node."""
    latency_seconds: Array
    """(nodes, nodes) float64."""

    @cached_property
    def cost(self) -> Array:
        """(ranks, ranks) seconds of a byte from rank to rank; 0 from a rank to itself."""
        spread: Array = self.seconds_per_byte[np.ix_(self.node, self.node)].copy()
        np.fill_diagonal(spread, 0.0)
        return spread

    @property
    def even(self) -> bool:
        """Whether all ranks are as near to each other as all others."""
        pairs = self.cost[~np.eye(len(self.node), dtype=np.bool_)]
        return not len(pairs) or bool(pairs.max() <= (1.0 + EVEN) * pairs.min())


def rank_links(nodes: Sequence[str], links: NodeLinks | None) -> RankLinks:
    """Return the ways between ranks; without `links` a row between nodes costs 1 and one inside a node nothing.

    nodes: of each rank
    Raises UnusableLinksError where `links` has another number of figures than the nodes need, or a figure that is of no link.
    """
    names = {name: number for number, name in enumerate(dict.fromkeys(nodes))}
    node = np.array([names[name] for name in nodes], dtype=np.int64)
    count = len(names)
    if links is None:
        return RankLinks(node, 1.0 - np.eye(count), np.zeros((count, count)))
    per_byte = _square("secondsPerByte", links.seconds_per_byte, count, MIN_SECONDS_PER_BYTE, MAX_SECONDS_PER_BYTE)
    return RankLinks(node, per_byte, _square("latencySeconds", links.latency_seconds, count, 0.0, MAX_LATENCY_SECONDS))


def _square(field: str, figures: Sequence[float], count: int, least: float, most: float) -> Array:
    """(count, count) symmetric table of the upper triangle `figures`. Raises UnusableLinksError."""
    needed = count * (count + 1) // 2
    if len(figures) != needed:
        raise UnusableLinksError(f"links.{field} has {len(figures)} figures, {count} nodes need {needed}")
    table = np.zeros((count, count))
    pairs = np.triu_indices(count)
    table[pairs] = figures
    wrong = ~((table[pairs] >= least) & (table[pairs] <= most))
    if wrong.any():
        raise UnusableLinksError(f"links.{field} has {table[pairs][wrong][0]:g}, which is not between {least:g} and {most:g}")
    table.T[pairs] = figures
    return table
