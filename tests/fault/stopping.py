"""A planner that is stopped while it is asked, so that a test can act during planning."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from e2e.cluster.control_plane import wait_until
from e2e.jobs import PATIENCE_SECONDS, Job
from tests.fault.process import OperatorProcess


@contextmanager
def planning(operator: OperatorProcess, job: Job) -> Iterator[Job]:
    """Create the job; in the block its plan is asked for and not answered. Gives another job, which is reconciled next.

    The operator must have one worker (concurrent_reconciles=1): while the second job waits in its queue, the first is being planned.
    """

    def waiting() -> float:
        return operator.metric("hyperscale_workqueue_depth")

    wait_until(lambda: waiting() == 0, PATIENCE_SECONDS, "the queue does not get empty")
    planner = operator.planner_pid()
    os.kill(planner, signal.SIGSTOP)
    try:
        job.create()
        other = Job(job.api, job.namespace, "other")
        other.create(startPolicy="Never")
        wait_until(lambda: waiting() == 1, PATIENCE_SECONDS, "nothing is being planned")
        yield other
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(planner, signal.SIGCONT)
