"""Workers, ranks and bounds of a plan as text, and the nodes that it left out. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from hyperscale.cli.text_tables import counted, predicted_text, table
from hyperscale.model.plan import Plan, Prediction, Rejection, WorkerPlacement

WORKER_COLUMNS: Final = ("WORKER", "RANKS", "NODE", "PRODUCT", "GPUS", "SHARE")
WORKER_NUMBERS: Final = frozenset({0, 1, 4, 5})
"""Columns of numbers."""
SHOWN_NODES: Final = 4
SHOWN_REJECTIONS: Final = 5


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


def bounds_text(predicted: Prediction) -> str:
    """` (1.2 s to 1.5 s)` of an epoch; empty where the model cannot say."""
    if predicted.low_seconds is None or predicted.high_seconds is None:
        return ""
    return f" ({predicted_text(predicted.low_seconds)} to {predicted_text(predicted.high_seconds)})"


def rejected_lines(title: str, rejected: Sequence[Rejection], listed: str = "") -> list[str]:
    """The first few nodes that were turned down, and how many for which reason; none without any."""
    by_reason = sorted(Counter(rejection.reason for rejection in rejected).items(), key=lambda item: (-item[1], item[0]))
    rows = [(rejection.node, rejection.reason, rejection.message) for rejection in rejected[:SHOWN_REJECTIONS]]
    counts = ", ".join(f"{count} {reason}" for reason, count in by_reason)
    return ["", f"{title} ({listed}{counts})", *table(("NODE", "REASON", "WHY"), rows, indent="  ")] if rejected else []
