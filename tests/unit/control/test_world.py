"""The operator's picture of the cluster."""

from __future__ import annotations

from typing import Any

import msgspec

from hyperscale.control.cache.cluster_cache import ClusterCache
from hyperscale.control.cache.intake import MPIJOB, NODE, POD
from hyperscale.control.cache.records import Key
from hyperscale.control.render.mpijob import plan_annotation
from hyperscale.model import constants
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.status import JobStatus, to_wire
from tests.builders.seen import MPIJOB_UID, UID, plan

CORA = Key("team", "cora")
OTHER = Key("team", "other")
TWO = plan("node-a", "node-b")


def node(name: str, gpus: int = 2, version: int = 1) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "resourceVersion": str(version), "labels": {"kubernetes.io/hostname": name}},
        "status": {
            "allocatable": {"cpu": "32", "memory": "256Gi", constants.GPU_RESOURCE: str(gpus)},
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": f"2026-01-01T00:00:{version:02d}Z"}],
        },
    }


def pod(name: str, *, on: str = "", gpus: int = 1, version: int = 1, rank: int = 0, job: str = "cora") -> dict[str, Any]:
    return {
        "metadata": {
            "namespace": "team",
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": str(version),
            "labels": {
                constants.MPI_JOB_NAME_LABEL: job,
                constants.MPI_JOB_ROLE_LABEL: "worker",
                constants.MPI_REPLICA_INDEX_LABEL: str(rank),
            },
            "ownerReferences": [{"kind": "MPIJob", "name": job, "uid": MPIJOB_UID, "controller": True}],
        },
        "spec": {"nodeName": on, "containers": [{"name": "w", "resources": {"limits": {constants.GPU_RESOURCE: str(gpus)}}}]},
        "status": {"phase": "Running" if on else "Pending"},
    }


def mpijob(name: str = "cora", *, version: int = 1, suspended: bool = False, ended: str = "") -> dict[str, Any]:
    return {
        "metadata": {
            "namespace": "team",
            "name": name,
            "uid": MPIJOB_UID,
            "resourceVersion": str(version),
            "annotations": {constants.PLAN_ANNOTATION: plan_annotation(TWO)},
            "ownerReferences": [{"uid": UID, "controller": True}],
        },
        "spec": {
            "runPolicy": {"suspend": suspended},
            "mpiReplicaSpecs": {"Worker": {"replicas": 2, "template": {"spec": {"schedulingGates": [{"name": constants.PLACEMENT_GATE}]}}}},
        },
        "status": {"conditions": [{"type": ended, "status": "True"}] if ended else []},
    }


def job(name: str = "cora", *, version: int = 1, **status: object) -> dict[str, Any]:
    """A job of at most two workers with one GPU each."""
    metadata = {"namespace": "team", "name": name, "uid": UID, "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": {"workers": {"minReplicas": 2, "maxReplicas": 2}}, "status": status}


def cache(*, with_job: bool = True) -> ClusterCache:
    """Two nodes of two GPUs each, and a job that has no MPIJob yet."""
    made = ClusterCache()
    made.replace(NODE, [node("node-a"), node("node-b")])
    if with_job:
        made.see_job(job())
    return made


def free(seen: ClusterCache, asking: Key) -> dict[str, int]:
    snapshot = seen.snapshot(PolicySpec(), 0.0)
    overlay = seen.assumed_plans.free_gpus(snapshot, asking)
    return {n.name: overlay.get(n.name, n.free_gpus) for n in snapshot.nodes}


def test_gpus_of_a_planned_rank_are_taken_before_its_pod_is_bound_and_counted_once_afterwards() -> None:
    seen = cache()
    seen.see_mpijob(mpijob())
    assert free(seen, OTHER) == {"node-a": 1, "node-b": 1}
    seen.see_pod(pod("cora-worker-0", on="node-a"))
    assert free(seen, OTHER) == {"node-a": 1, "node-b": 1}


def test_a_job_does_not_stand_in_its_own_way() -> None:
    seen = cache()
    seen.see_mpijob(mpijob())
    assert free(seen, CORA) == {"node-a": 2, "node-b": 2}


def test_a_suspended_or_finished_job_holds_nothing() -> None:
    for resource in (mpijob(suspended=True), mpijob(ended="Succeeded"), mpijob(ended="Failed")):
        seen = cache()
        seen.see_mpijob(resource)
        assert free(seen, OTHER) == {"node-a": 2, "node-b": 2}


def test_a_plan_made_in_a_pass_that_is_not_over_is_taken_into_account() -> None:
    seen = cache()
    seen.assume(CORA, TWO)
    assert free(seen, OTHER) == {"node-a": 1, "node-b": 1}
    seen.assume(CORA, None)
    assert free(seen, OTHER) == {"node-a": 2, "node-b": 2}


def test_terminating_pods_still_hold_their_gpus() -> None:
    seen = cache()
    leaving = pod("cora-worker-0", on="node-a")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    seen.see_pod(leaving)
    assert free(seen, OTHER)["node-a"] == 1
    seen.see_pod({**leaving, "metadata": {**leaving["metadata"], "resourceVersion": "2"}}, deleted=True)
    assert free(seen, OTHER)["node-a"] == 2


def test_an_event_older_than_the_operators_own_write_changes_nothing() -> None:
    seen = cache()
    seen.see_mpijob(mpijob(version=7))
    assert not seen.see_mpijob(mpijob(version=5, suspended=True))
    assert not seen.mpijobs[CORA].suspended


def test_a_full_listing_takes_away_what_the_watch_forgot_to_report() -> None:
    seen = cache()
    seen.see_mpijob(mpijob())
    seen.see_pod(pod("cora-worker-0", on="node-a"))
    seen.replace(POD, [], version=9)
    seen.replace(MPIJOB, [], version=9)
    assert not seen.mpijobs
    assert free(seen, OTHER) == {"node-a": 2, "node-b": 2}


def test_a_listing_does_not_take_away_what_was_made_after_it() -> None:
    seen = cache()
    seen.see_mpijob(mpijob(version=12))
    seen.replace(MPIJOB, [], version=9)
    assert CORA in seen.mpijobs


def test_a_late_answer_does_not_bring_a_deleted_job_back() -> None:
    seen = cache()
    seen.see_mpijob(mpijob(version=3))
    seen.see_mpijob(mpijob(version=5), deleted=True)
    assert not seen.see_mpijob(mpijob(version=4))
    assert CORA not in seen.mpijobs
    assert free(seen, OTHER) == {"node-a": 2, "node-b": 2}


def test_a_nodes_heartbeat_is_no_change() -> None:
    seen = cache()
    before = seen.snapshot(PolicySpec(), 0.0)
    assert not seen.see_node(node("node-a", version=9))
    assert seen.snapshot(PolicySpec(), 1.0) is before
    assert seen.see_node(node("node-a", gpus=1, version=10))
    assert seen.snapshot(PolicySpec(), 1.0) is not before


def test_pods_of_an_earlier_mpijob_of_the_same_name_are_not_this_ones() -> None:
    seen = cache()
    seen.see_pod(pod("cora-worker-0"))
    assert len(seen.pods_of(CORA, MPIJOB_UID)) == 1
    assert not seen.pods_of(CORA, "a-later-uid")


def test_the_plan_in_status_counts_before_the_one_on_the_mpijob() -> None:
    seen = cache()
    seen.see_mpijob(mpijob())
    assert seen.plans_of(CORA).in_force == TWO
    replanned = plan("node-b", "node-a", plan_id="feedfeedfeedfeed")
    status = to_wire(msgspec.structs.replace(JobStatus(), plan=replanned))
    seen.see_job({**job(version=3), "status": status})
    assert seen.plans_of(CORA).in_force == replanned


def test_the_result_of_an_earlier_job_of_the_same_name_is_not_this_jobs() -> None:
    seen = cache()
    seen.see_mpijob(mpijob())
    for uid, epoch in (("uid-of-the-one-before", 9), (UID, 3), ("", 4)):
        labels = {constants.MPI_JOB_NAME_LABEL: "cora", constants.MPI_JOB_ROLE_LABEL: "launcher"} | (
            {constants.JOB_UID_LABEL: uid} if uid else {}
        )
        ended = {"terminated": {"message": f'{{"epoch": {epoch}, "epochs": 9}}'}}
        launcher = {
            "metadata": {
                "namespace": "team",
                "name": f"cora-launcher-{epoch}",
                "uid": f"launcher-{epoch}",
                "resourceVersion": "2",
                "labels": labels,
                "creationTimestamp": f"2026-01-01T00:00:0{epoch}Z",
                "ownerReferences": [{"kind": "Job", "name": "cora-launcher", "uid": f"job-{epoch}", "controller": True}],
            },
            "spec": {"containers": [{"name": "l"}]},
            "status": {"phase": "Succeeded", "containerStatuses": [{"state": ended}]},
        }
        seen.see_pod(launcher)
    pods = seen.pods_of(CORA, MPIJOB_UID)
    assert [pod.name for pod in pods] == ["cora-launcher-3", "cora-launcher-4"]
    measured = seen.measured(CORA, pods)
    assert measured is not None
    assert measured.epoch == 4


def test_ranks_of_a_queue_that_were_released_hold_nothing_though_their_mpijob_is_not_suspended() -> None:
    seen = cache()
    queued = mpijob()
    queued["metadata"]["labels"] = {constants.KUEUE_QUEUE_LABEL: "gold"}
    seen.see_mpijob(queued)
    assert free(seen, OTHER) == {"node-a": 1, "node-b": 1}
    released = {"type": "Placed", "status": "False", "reason": "SchedulingTimeout", "message": "", "lastTransitionTime": ""}
    seen.see_job(job(version=2, conditions=[released], mpiJobRef={"name": "cora", "uid": MPIJOB_UID}))
    assert free(seen, OTHER) == {"node-a": 2, "node-b": 2}


def test_the_plan_of_a_reconcile_counts_before_what_is_written_and_a_plan_that_it_has_not_taken_does_not() -> None:
    seen, granted = cache(), plan("node-b", "node-a", plan_id="feedfeedfeedfeed")
    seen.see_mpijob(mpijob())
    seen.assume(CORA, granted)
    plans = seen.plans_of(CORA)
    assert (plans.in_force, plans.recorded) == (granted, TWO)
    assert plans.with_unwritten(None).in_force == TWO
