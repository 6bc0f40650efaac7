"""Jobs whose parts are written before training, and what their runs report."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from hyperscale.control.cache.cluster_cache import ClusterCache
from hyperscale.control.cache.records import Key
from hyperscale.control.history.progress import ProgressWatch
from hyperscale.model.api.measured import Measured
from hyperscale.model.observed.owned_objects import BatchJobView
from hyperscale.model.observed.reconcile_input import ReconcileInput
from hyperscale.model.plan import Plan
from hyperscale.model.pods import PARTITION, PodView
from hyperscale.model.status import JobStatus, StateWord
from hyperscale.observe.prometheus.reader import PrometheusReader
from tests.builders.seen import UID, changed, launcher, mpijob, plan, seen, status, worker

TWO = plan("node-a", "node-b")

KEY = "feedfacefeedface"

VIEW = BatchJobView(uid="partition-uid", owner_uid=UID, key=KEY)

TRAINS_ITSELF: dict[str, Any] = {"spec": {"containers": [{"name": "launcher", "command": ["mpirun", "my-own"]}]}}

SAID = Measured(epoch=7, epochs=100, loss=0.4, accuracy=0.8, epoch_seconds=2.0)


def planned(view: BatchJobView | None = None, **changes: Any) -> ReconcileInput:
    """A job with a plan, no MPIJob, and partitions wanted."""
    return seen(plan=TWO, plan_recorded=True, partition_key=KEY, partition=view, **changes)


def partition_pod(**changes: Any) -> PodView:
    view = PodView(namespace="team", name="cora-partition-x", owner_uid=VIEW.uid, owner_kind="Job", job_name="cora", role=PARTITION)
    return replace(view, **changes)


def replaced(view: BatchJobView) -> ReconcileInput:
    """Rank 1 was lost, its new pod waits, the plan for it is recorded."""
    pods = (launcher(gated=True), worker(0, node="node-a", ready=True), worker(1, gated=True))
    return planned(view, mpijob=mpijob(), pods=pods)


def wire_job(name: str, uid: str = UID, **status: Any) -> dict[str, Any]:
    spec = {
        "model": {"architecture": "GCN"},
        "dataset": {"source": {"builtin": {"name": "Cora"}}},
        "workers": {"minReplicas": 2, "maxReplicas": 2},
    }
    return {"metadata": {"namespace": "team", "name": name, "uid": uid, "generation": 1}, "spec": spec, "status": status}


def world_with(count: int) -> ClusterCache:
    """A cache in which `count` jobs run."""
    cache = ClusterCache()
    for number in range(count):
        name = f"job-{number:03d}"
        cache.see_job(wire_job(name, f"uid-{number}"))
        cache.see_mpijob(
            {
                "metadata": {
                    "namespace": "team",
                    "name": name,
                    "uid": f"m{number}",
                    "ownerReferences": [{"uid": f"uid-{number}", "controller": True}],
                },
                "status": {"conditions": [{"type": "Running", "status": "True"}]},
            }
        )
    return cache


def watch_over(cache: ClusterCache) -> tuple[ProgressWatch, list[Key]]:
    woken: list[Key] = []
    watch = ProgressWatch(cache, PrometheusReader(""), 10.0, lambda: float(len(woken)), woken.append)
    return watch, woken


def ended(number: int, measured: Measured | None, of: Plan = TWO) -> tuple[ReconcileInput, JobStatus]:
    look = seen(plan=of)
    metadata = replace(look.job.metadata, uid=f"uid-{number}")
    return changed(look, metadata=metadata), status(StateWord.SUCCEEDED, measured=measured, completion_time="2026-01-01T00:00:00Z")


def with_shares(*shares: float) -> Plan:
    return replace(TWO, workers=tuple(replace(each, share=share) for each, share in zip(TWO.workers, shares, strict=True)))
