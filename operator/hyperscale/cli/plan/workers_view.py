"""Workers and ranks of a plan as text. Pure."""

from __future__ import annotations

from typing import Final

from hyperscale.cli.text_tables import counted
from hyperscale.model.plan import Plan, WorkerPlacement

WORKER_COLUMNS: Final = ("WORKER", "RANKS", "NODE", "PRODUCT", "GPUS", "SHARE")
WORKER_NUMBERS: Final = frozenset({0, 1, 4, 5})
"""Columns of numbers."""
SHOWN_NODES: Final = 4


def worker_row(worker: WorkerPlacement) -> tuple[str, ...]:
    """One worker in WORKER_COLUMNS."""
    ranks = f"{worker.ranks[0]}-{worker.ranks[-1]}" if worker.gpus > 1 else str(worker.first_rank)
    return str(worker.index), ranks, worker.node, worker.product or "unknown", str(worker.gpus), f"{worker.share:.2%}"


def ranks_text(plan: Plan) -> str:
    """How many ranks each node holds, e.g. `8 on each of 2 nodes`."""
    by_node = plan.ranks_by_node
    if len(by_node) > 1 and len(set(by_node.values())) == 1:
        return f"{next(iter(by_node.values()))} on each of {counted(len(by_node), 'node')}"
    shown = [f"{ranks} on {node}" for node, ranks in sorted(by_node.items())[:SHOWN_NODES]]
    more = len(by_node) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
