"""What an allreduce takes by each of NCCL's algorithms: hops of latency and a factor on bytes. Pure.

Source: NCCL's own tuning model (src/graph/tuning.cc): a ring passes every rank twice, a tree goes through a node's ranks in a chain and
between nodes in as many levels as a binary tree has.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class Collective(NamedTuple):
    """One algorithm: seconds = between_hops · latency between + inside_hops · latency inside + byte_factor · bytes · seconds per byte.

    The latencies are those of the slowest hop of each kind, the seconds per byte those of the most loaded hop.
    """

    between_hops: float
    inside_hops: float
    byte_factor: float


def allreduce(ranks: int, nodes: int) -> tuple[Collective, ...]:
    """Return the algorithms for `ranks` ranks on `nodes` nodes: ring, then tree; the fastest counts. Empty for one rank."""
    if ranks < 2:
        return ()
    crossings = nodes if nodes > 1 else 0
    ring = Collective(2.0 * (ranks - 1) * crossings / ranks, 2.0 * (ranks - 1) * (ranks - crossings) / ranks, 2.0 * (ranks - 1) / ranks)
    tree = Collective(2.0 * math.ceil(math.log2(nodes)) if nodes > 1 else 0.0, 2.0 * max(ranks / nodes - 1.0, 0.0), 2.0)
    return ring, tree
