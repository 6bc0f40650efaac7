"""Which rank takes which part: parts that send each other most share a node, where links are fast. Pure.

A partitioner numbers parts as it makes them; ranks are numbered node by node. The plan spreads boundary data evenly over pairs of ranks,
because the cut does not exist when it is made; here it does. Quadratic assignment of parts to ranks (Koopmans & Beckmann 1957): flows are
rows that parts send each other, distances are seconds per byte of the plan's links.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from hyperscale.model.adjacency import Array, TrainingGraph
from hyperscale.training.rankmap.exchange_cost import ExchangeCost, bottleneck_seconds, exchange_cost
from hyperscale.training.rankmap.quadratic import COMPILED, assign_places
from hyperscale.training.rankmap.rank_links import RankLinks

MAX_PARTS: Final = 512 if COMPILED else 32
"""Parts beyond which their numbers stay: a table of all pairs, and a search through them, grow with the square."""
SHARE_DIGITS: Final = 9
"""Ranks whose shares differ by less take each other's parts."""


@dataclass(frozen=True)
class PartRanks:
    """Ranks of parts, and what each exchange costs with them."""

    rank: Array
    """(parts,) int64."""
    before: ExchangeCost
    """With part i on rank i."""
    after: ExchangeCost

    @property
    def moved(self) -> bool:
        """Whether any part has another rank than its number."""
        return bool((self.rank != np.arange(len(self.rank))).any())


def may_move(links: RankLinks, shares: Sequence[float]) -> bool:
    """Return whether other ranks of parts can make an exchange cheaper: ask before the table, which reads the whole graph.

    shares: of each rank
    """
    count = len(links.node)
    alike = len(np.unique(np.round(shares, SHARE_DIGITS))) < count
    return 2 < count <= MAX_PARTS and len(shares) == count and len(links.seconds_per_byte) > 1 and alike and not links.even


def boundary_table(graph: TrainingGraph, assignment: Array, parts: int) -> Array:
    """Return (parts, parts) int64: vertices of the row's part that the column's part holds copies of.

    assignment: (n,) part of each vertex
    """
    owner = np.asarray(assignment, dtype=np.int64)
    table = np.zeros((parts, parts), dtype=np.int64)
    sizes = np.diff(graph.indptr)
    for part in range(parts):  # the pairs of all edges at once would take as much memory as the graph
        owned = np.flatnonzero(owner == part)
        ends = np.cumsum(sizes[owned])
        entries = np.arange(ends[-1] if len(ends) else 0) + np.repeat(graph.indptr[owned] - ends + sizes[owned], sizes[owned])
        table[:, part] = np.bincount(owner[np.unique(graph.indices[entries])], minlength=parts)
        table[part, part] = 0
    return table


def merged_table(table: Array, ranks: int) -> Array:
    """Return the table of `ranks` blocks of consecutive parts: a bound from above, since two parts may copy one vertex."""
    each = len(table) // ranks
    sums: Array = table.reshape(ranks, each, ranks, each).sum(axis=(1, 3))
    np.fill_diagonal(sums, 0)
    return sums


def place_parts(table: Array, links: RankLinks, shares: Sequence[float], *, row_bytes: float = 1.0, seed: int = 0) -> PartRanks | None:
    """Return the ranks of parts with the least sum of bytes × seconds per byte; None where that gains nothing.

    Of equal sums it is the one with the lower bottleneck, and the bottleneck is never above that of part i on rank i.

    table:     (ranks, ranks) as of `boundary_table`
    links:     between the ranks
    shares:    of each rank; a part goes to ranks of its own share alone, since it was cut for it
    row_bytes: of one row in an exchange
    """
    count = len(table)
    if len(links.node) != count or not may_move(links, shares):
        return None
    kind = np.unique(np.round(shares, SHARE_DIGITS), return_inverse=True)[1].astype(np.int64)
    flow = table.astype(np.float64)
    # Scaled, so that sums of a search are of one size whatever the links are.
    cost = links.cost / links.cost.max()
    rank = assign_places(flow, cost, kind, seed=seed, worst=lambda place: bottleneck_seconds(flow, links, place, row_bytes))
    before, after = (exchange_cost(flow, links, place, row_bytes) for place in (np.arange(count), rank))
    placed = PartRanks(rank, before, after)
    return placed if placed.moved else None
