"""The queue as a question about one job takes it. Without numpy: the operator itself reads this module."""

from __future__ import annotations

import msgspec

from hyperscale.planner.queue.queue_types import PendingJob, QueueRunningJob


class QueueFigures(msgspec.Struct, frozen=True, rename="camel"):
    """Who runs and who waits, as the operator's queue knows them."""

    free_gpus: int
    total_gpus: int
    running: tuple[QueueRunningJob, ...] = ()
    waiting: tuple[PendingJob, ...] = ()
    """The first in order; at most `rollout.MOST_ROLLED` are rolled forward."""
