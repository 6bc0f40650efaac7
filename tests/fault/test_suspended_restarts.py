"""An MPIJob that another suspended while no operator ran: the next one leaves it so."""

from __future__ import annotations

from e2e.jobs import Job
from tests.fault.conftest import Stage
from tests.fault.players import is_suspended, set_suspend, wait_suspended, writes_to_mpijob
from tests.fault.proxy import FaultProxy


def test_a_new_operator_leaves_an_mpijob_suspended_that_another_suspended_while_none_ran(stage: Stage, proxy: FaultProxy, job: Job) -> None:
    with stage.watching():
        job.create()
        job.wait_reason("Starting")
    set_suspend(job, True)
    since = len(proxy.asked)
    with stage.watching():
        wait_suspended(job, "SuspendedExternally")
        assert is_suspended(job)
    assert writes_to_mpijob(proxy, job, since) == 0
