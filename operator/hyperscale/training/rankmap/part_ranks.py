"""Which rank takes which part: parts that send each other most share a node, where links are fast. Pure.

A partitioner numbers parts as it makes them; ranks are numbered node by node. The plan spreads boundary data evenly over pairs of ranks,
because the cut does not exist when it is made; here it does. Quadratic assignment of parts to ranks (Koopmans & Beckmann 1957).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from hyperscale.model.adjacency import Array, TrainingGraph
from hyperscale.training.rankmap.quadratic import COMPILED, assign_places, assignment_cost

MAX_PARTS: Final = 512 if COMPILED else 32
"""Parts beyond which their numbers stay: a table of all pairs, and a search through them, grow with the square."""
SHARE_DIGITS: Final = 9
"""Ranks whose shares differ by less take each other's parts."""


@dataclass(frozen=True)
class PartRanks:
    """Ranks of parts, and the rows that cross nodes in each exchange."""

    rank: Array
    """(parts,) int64."""
    rows_before: int
    """With part i on rank i."""
    rows: int

    @property
    def moved(self) -> bool:
        """Whether any part has another rank than its number."""
        return bool((self.rank != np.arange(len(self.rank))).any())


def may_move(nodes: Sequence[str], shares: Sequence[float]) -> bool:
    """Return whether parts can change ranks, and rows between nodes with them: ask before the table, which reads the whole graph.

    nodes, shares: of each rank
    """
    count = len(nodes)
    equal = len(np.unique(np.round(shares, SHARE_DIGITS))) < count
    return 2 < count <= MAX_PARTS and len(shares) == count and 1 < len(set(nodes)) < count and equal


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


def place_parts(table: Array, nodes: Sequence[str], shares: Sequence[float], *, seed: int = 0) -> PartRanks | None:
    """Return the ranks of parts with the fewest rows between nodes; None where that changes nothing.

    table:  (ranks, ranks) as of `boundary_table`
    nodes:  of each rank
    shares: of each rank; a part goes to ranks of its own share alone, since it was cut for it
    """
    count = len(table)
    if len(nodes) != count or not may_move(nodes, shares):
        return None
    names = {name: number for number, name in enumerate(sorted(set(nodes)))}
    node = np.array([names[name] for name in nodes])
    apart = (node[:, None] != node[None, :]).astype(np.float64)
    kind = np.unique(np.round(shares, SHARE_DIGITS), return_inverse=True)[1].astype(np.int64)
    flow = table.astype(np.float64)
    rank = assign_places(flow, apart, kind, seed=seed)
    before, after = (round(assignment_cost(flow, apart, place)) for place in (np.arange(count), rank))
    return PartRanks(rank, before, after) if after < before else None
