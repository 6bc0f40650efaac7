"""What tests of watches share: which requests create children, and when everything is watched."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from e2e.cluster.control_plane import wait_until
from e2e.jobs import PATIENCE_SECONDS, Job
from tests.fault.proxy import Asked, FaultProxy

WATCHED: Final = ("gnntrainingjobs", "plannerpolicies", "mpijobs", "pods", "nodes")


def creates(proxy: FaultProxy, job: Job, since: int) -> list[Asked]:
    """Requests that created an MPIJob in the job's namespace."""
    return proxy.asked_since(since, lambda asked: asked.method == "POST" and asked.path == job.mpijob_path.rpartition("/")[0])


def wait_watching(proxy: FaultProxy, since: int, kinds: Collection[str] = WATCHED) -> None:
    """Until all these kinds are watched (again)."""

    def watched() -> bool:
        lines = {asked.path.rpartition("/")[2] for asked in proxy.asked_since(since, lambda asked: asked.is_watch)}
        return lines.issuperset(kinds)

    wait_until(watched, PATIENCE_SECONDS, "not everything is watched")


def wait_created(job: Job) -> None:
    """Until the job's MPIJob exists and the status says so."""
    job.wait(lambda: "mpiJobRef" in job.status(), "no MPIJob in the status")
    assert job.mpijob() is not None
