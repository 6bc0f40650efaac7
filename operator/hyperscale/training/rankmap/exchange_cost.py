"""What one exchange of boundary rows costs with parts on given ranks: rows between nodes, seconds of all links, the busiest. Pure."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hyperscale.model.adjacency import Array
from hyperscale.training.rankmap.rank_links import RankLinks


class ExchangeCost(NamedTuple):
    """Of one exchange, in which every rank sends each of the others the rows that this one holds copies of."""

    rows: int
    """Between nodes."""
    seconds: float
    """Bytes × seconds per byte, summed over all pairs of ranks: what the search over ranks lowers."""
    bottleneck_seconds: float
    """Of the busiest card of a node, or of the busiest rank inside its node: the exchange takes no less."""


def exchange_cost(flow: Array, links: RankLinks, rank: Array, row_bytes: float = 1.0) -> ExchangeCost:
    """Return what an exchange costs with part i on rank `rank[i]`.

    flow: (parts, parts) float64 rows that the row's part sends the column's part
    """
    place = links.node[rank]
    return ExchangeCost(
        rows=round(float(flow[place[:, None] != place[None, :]].sum())),
        seconds=row_bytes * float((flow * links.cost[np.ix_(rank, rank)]).sum()),
        bottleneck_seconds=bottleneck_seconds(flow, links, rank, row_bytes),
    )


def bottleneck_seconds(flow: Array, links: RankLinks, rank: Array, row_bytes: float = 1.0) -> float:
    """Return the seconds of the busiest card or rank. Both ways go at once, so that the one with more counts; the longest wait adds.

    flow: as of `exchange_cost`
    """
    place = links.node[rank]
    member = (place[:, None] == np.arange(len(links.seconds_per_byte))).astype(np.float64)
    between = member.T @ flow @ member  # whole numbers, hence the same on every machine
    np.fill_diagonal(between, 0.0)
    busy = row_bytes * between * links.seconds_per_byte
    waits = np.where(between > 0.0, links.latency_seconds, 0.0)
    card = np.maximum(busy.sum(axis=0) + waits.max(axis=0), busy.sum(axis=1) + waits.max(axis=1))
    near = np.where(place[:, None] == place[None, :], flow, 0.0)
    np.fill_diagonal(near, 0.0)
    rows = np.maximum(near.sum(axis=0), near.sum(axis=1))
    inside = row_bytes * rows * links.seconds_per_byte[place, place] + np.where(rows > 0.0, links.latency_seconds[place, place], 0.0)
    return float(max(card.max(), inside.max()))
