"""Who runs and who waits, as the operator tells it to who may ask."""

from __future__ import annotations

from hyperscale.cli.plan.known_inputs import KnownInputs
from hyperscale.evaluate.impact.queue_figures import QueueFigures
from hyperscale.planner.queue.queue_types import QueueRunningJob


def queue_figures(sources: KnownInputs) -> QueueFigures | None:
    """Return the operator's queue; None where the figures are not its own, and where jobs wait: it tells their number, not their sizes."""
    state = sources.state
    if state is None or state.queue.pending:
        return None
    nodes = sources.snapshot.nodes
    return QueueFigures(
        free_gpus=sum(state.free_gpus.get(node.name, node.free_gpus) for node in nodes),
        total_gpus=sum(node.allocatable_gpus for node in nodes),
        running=tuple(QueueRunningJob(share.key, share.gpus, share.remaining_seconds) for share in state.queue.running),
    )
