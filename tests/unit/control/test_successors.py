"""A job that is deleted and made again under its name is another job, whether its deletion is told or not."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from msgspec.structs import replace

from hyperscale.control.apply import paths
from hyperscale.control.apply.api_answers import ApiError
from hyperscale.control.apply.dependents import Companions
from hyperscale.control.controller.workqueue import RetryLaterError
from hyperscale.control.lifecycle import unscheduled
from hyperscale.control.render.mpijob import suspend_annotation
from hyperscale.control.render.pod import common_labels
from hyperscale.control.specs.parsed_specs import JobReader, metadata_of
from hyperscale.evaluate.service.evaluation_process import EvaluationError
from hyperscale.model import constants
from hyperscale.model.api.condition import Condition
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.meta import RenderDefaults
from hyperscale.model.pods import PREFLIGHT
from hyperscale.model.running_query import MigrationAnswer, MigrationQuestion
from hyperscale.model.status import JobStatus, LastPreemption, to_wire
from hyperscale.util.rfc3339 import timestamp
from tests.builders.seen import UID, mpijob, plan, seen, worker
from tests.corpus import watched_cluster
from tests.corpus.reconcile_stage import CORA, FOUR, OTHER, SPEC, ReconcileStage
from tests.unit.control.test_world import cache, job

TOLD = pytest.mark.parametrize("told", [True, False], ids=["deletion told", "deletion not told"])
TOO_LARGE: dict[str, Any] = {"workers": {"minReplicas": 40, "maxReplicas": 40}}
CLAIM: dict[str, Any] = {
    "template": {
        "spec": {
            "containers": [{"name": "worker"}],
            "volumes": [{"name": "state", "persistentVolumeClaim": {"claimName": "state"}}],
        }
    }
}


@TOLD
async def test_the_report_of_an_earlier_job_that_was_put_off_starts_nothing_for_its_successor(told: bool) -> None:
    stage = ReconcileStage()
    stage.create(CORA, "first")
    stage.create(OTHER, "other")
    await stage.reconcile(CORA)
    assert stage.workers(CORA) == ("first", 2)
    stage.replace(CORA, "second", told=told, **FOUR)
    await stage.reconcile(CORA)
    assert stage.workers(CORA) == ("second", 4)


@TOLD
@pytest.mark.parametrize("mpijob_too", [True, False], ids=["MPIJob gone", "MPIJob still there"])
async def test_a_plan_made_for_an_earlier_job_that_was_stopped_for_others_is_not_its_successors(told: bool, mpijob_too: bool) -> None:
    stage = ReconcileStage()
    stage.create(CORA, "first")
    await stage.reconcile(CORA)
    stopped(stage)
    stage.planner.meanwhile = lambda: stage.replace(CORA, "second", told=told, mpijob_too=mpijob_too, **FOUR)
    await stage.reconcile(CORA)
    stage.delete_mpijob(CORA)
    await stage.reconcile(CORA)
    assert stage.workers(CORA) == ("second", 4)
    status = stage.cache.jobs[CORA].status
    assert (status.last_preemption, status.last_migration, status.plan_changes) == (None, None, 0)
    assert not status.is_true("Migrating")


def stopped(stage: ReconcileStage) -> None:
    """The job was stopped for others half a minute ago, as an earlier pass wrote it down."""
    began = timestamp(time.time() - 30.0)
    status = stage.cache.jobs[CORA].status
    condition = Condition("Preempted", "True", "PreemptedForOthers", "for team/other", 1, began)
    preempted = replace(
        status,
        preemptions=1,
        last_preemption=LastPreemption(began, ("team/other",), 7.0, 0.0),
        conditions=tuple(sorted([*status.conditions, condition], key=lambda one: one.type)),
    )
    found = stage.table.objects[paths.mpijobs(*CORA)]
    found["spec"]["runPolicy"]["suspend"] = True
    found["metadata"]["annotations"][constants.SUSPEND_ANNOTATION] = suspend_annotation(True)
    stage.cache.see_mpijob(stage.table.put(paths.mpijobs(*CORA), found))
    found = stage.table.objects[paths.jobs(*CORA)]
    found["metadata"]["creationTimestamp"] = timestamp(time.time() - 3600.0)
    stage.cache.see_job(stage.table.put(paths.jobs(*CORA), {**found, "status": to_wire(preempted)}))


@TOLD
async def test_that_an_earlier_job_never_fits_is_not_said_of_its_successor(told: bool) -> None:
    stage = ReconcileStage()
    stage.create(CORA, "first", **TOO_LARGE)
    stage.planner.meanwhile = lambda: stage.replace(CORA, "second", told=told)
    await stage.reconcile(CORA, passes=2)
    assert stage.workers(CORA) == ("second", 2)


async def test_that_a_spec_never_fits_is_not_said_of_the_spec_that_came_while_it_was_planned() -> None:
    stage = ReconcileStage()
    stage.create(CORA, "first", **TOO_LARGE)
    stage.planner.meanwhile = lambda: stage.edit(CORA)
    await stage.reconcile(CORA, passes=2)
    assert stage.workers(CORA) == ("first", 2)


@pytest.mark.parametrize("edited", [True, False], ids=["the same job, edited", "a successor"])
async def test_claims_that_are_mounted_no_more_bind_no_plan(edited: bool) -> None:
    stage = ReconcileStage()
    stage.table.put(
        paths.claims("team", "state"), {"kind": "PersistentVolumeClaim", "metadata": {"name": "state"}, "spec": {"volumeName": "v"}}
    )
    where = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["elsewhere"]}]}
    volume = {"nodeAffinity": {"required": {"nodeSelectorTerms": [where]}}}
    stage.table.put(paths.volumes("v"), {"kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": volume})
    stage.create(CORA, "first", workers={**SPEC["workers"], **CLAIM})
    await stage.reconcile(CORA)
    assert stage.cache.jobs[CORA].status.reason == "NeverFits"
    if edited:
        stage.edit(CORA)
    else:
        stage.replace(CORA, "second", told=False)
    await stage.reconcile(CORA, passes=2)
    assert CORA in stage.cache.mpijobs


@pytest.mark.parametrize("edited", [True, False], ids=["the same job, edited", "a successor"])
async def test_gpus_are_not_kept_for_a_job_that_was_suspended_while_it_was_asked_about(edited: bool) -> None:
    stage = ReconcileStage()
    stage.create(OTHER, "other")
    stage.create(CORA, "first")

    def meanwhile() -> None:
        if edited:
            stage.edit(CORA, runPolicy={"suspend": True})
        else:
            stage.replace(CORA, "second", told=False, runPolicy={"suspend": True})

    stage.planner.meanwhile = meanwhile
    await stage.reconcile(OTHER)
    assert stage.planner.meanwhile is None
    assert CORA not in stage.cache.assumed_plans


async def test_the_predicted_epoch_of_an_earlier_job_is_exported_no_more() -> None:
    stage = ReconcileStage()
    stage.create(CORA, "first")
    await stage.reconcile(CORA)
    metric = "hyperscale_plan_predicted_epoch_seconds"
    labels = {"namespace": CORA.namespace, "job": CORA.name}
    assert stage.telemetry.registry.get_sample_value(metric, labels) is not None
    stage.replace(CORA, "second", told=False, runPolicy={"suspend": True})
    await stage.reconcile(CORA)
    assert stage.telemetry.registry.get_sample_value(metric, labels) is None


class Failing:
    """Evaluations that fail."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def evaluate(self, ask: object) -> Any:
        self.asked.set()
        raise EvaluationError("it failed")


@TOLD
async def test_an_evaluation_that_failed_for_an_earlier_job_is_tried_for_its_successor(told: bool) -> None:
    evaluations = Failing()
    stage = ReconcileStage(evaluations=evaluations)
    assert stage.planning.evaluator is not None
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(stage.planning.evaluator.run())
        for uid in ("first", "second"):
            if uid == "first":
                stage.create(CORA, uid, startPolicy="Manual")
            else:
                stage.replace(CORA, uid, told=told, startPolicy="Manual")
            await stage.reconcile(CORA)
            async with asyncio.timeout(10.0):
                await evaluations.asked.wait()
            evaluations.asked.clear()
            await stage.reconcile(CORA)
        running.cancel()


async def test_an_mpijob_that_is_refused_while_the_job_is_replaced_says_nothing_of_the_successor() -> None:
    stage = ReconcileStage()
    stage.create(CORA, "first")

    def refused(path: str) -> None:
        if path == paths.mpijobs(*CORA):
            stage.table.refused = lambda _: None
            stage.replace(CORA, "second", told=False, runPolicy={"suspend": True})
            raise ApiError(422, "a webhook says no", "Invalid")

    stage.table.refused = refused
    with pytest.raises(RetryLaterError, match="replaced during the pass"):
        await stage.reconciler.reconcile(CORA)
    assert stage.cache.jobs[CORA].status == JobStatus()
    await stage.reconcile(CORA)
    assert stage.cache.jobs[CORA].status.reason == "Suspended"


async def test_a_preflight_is_confined_by_a_policy_of_its_own_though_the_job_of_an_earlier_one_is_still_there() -> None:
    stage = ReconcileStage()
    stage.create(CORA, "first", preflight="Require")
    companions = Companions(stage.table, stage.cache, RenderDefaults(worker_image="example.com/worker:1"), lambda _: None)  # type: ignore[arg-type] # the part that is used
    policy = paths.network_policies("team", "cora-preflight")
    for uid in ("first", "second"):
        if uid == "second":
            stage.replace(CORA, uid, told=True, preflight="Require")
        resource = stage.cache.jobs[CORA].resource
        spec = JobReader().read(resource, {})[0]
        assert spec is not None
        await companions.ensure_preflight(CORA, metadata_of(resource), spec)
        selected = stage.table.objects[policy]["spec"]["podSelector"]["matchLabels"]
        assert selected[constants.JOB_UID_LABEL] == uid


def test_the_scheduling_timeout_does_not_run_for_an_mpijob_of_another_owner() -> None:
    pods = (worker(0), worker(1))
    own, others = (seen(plan=plan("node-a", "node-b"), mpijob=mpijob(owner_uid=owner), pods=pods) for owner in (UID, "another"))
    assert unscheduled.observed(own) is not None
    assert unscheduled.observed(others) is None


def test_an_mpijob_that_was_made_for_an_earlier_job_is_not_trusted_for_its_successor() -> None:
    known = cache()
    known.owners.note_created(CORA, "mpi")
    successor = job(version=9)
    successor["metadata"]["uid"] = "second"
    known.see_job(successor)
    assert not known.owners._made


def test_a_status_that_was_written_to_an_earlier_job_is_not_put_on_a_successor_that_cannot_be_decoded() -> None:
    known = cache()
    nested: Any = "end"
    for _ in range(600):
        nested = [nested]
    successor = {**job(version=9), "spec": {"model": nested}}
    successor["metadata"]["uid"] = "second"
    known.see_job(successor)
    known.wrote_status(CORA, "first", JobStatus(plan_changes=3))
    assert known.jobs[CORA].status == JobStatus()


class Replaced(watched_cluster.InProcess):
    """While a question about running jobs is on its way, the job's MPIJob becomes another one."""

    cluster: watched_cluster.Cluster

    async def moves(self, question: MigrationQuestion, snapshot: ClusterSnapshot, policy: PolicySpec) -> MigrationAnswer | None:
        answer = await super().moves(question, snapshot, policy)
        number = str(100 + len(self.asked))
        successor = watched_cluster.mpijob()
        successor["metadata"] |= {"uid": f"mpi-{number}", "resourceVersion": number}
        self.cluster.cache.see_mpijob(successor)
        for rank, name in enumerate(("node-a", "node-b")):
            pod = watched_cluster.pod(rank, name)
            pod["metadata"] |= {"uid": f"pod-{number}-{rank}", "resourceVersion": number}
            pod["metadata"]["ownerReferences"][0]["uid"] = f"mpi-{number}"
            self.cluster.cache.see_pod(pod)
        return answer


@pytest.mark.parametrize("replaced", [True, False])
async def test_an_answer_about_a_run_is_not_taken_for_the_run_that_has_its_name_by_then(replaced: bool) -> None:
    cluster = watched_cluster.Cluster()
    if replaced:
        cluster.planner = Replaced()
        cluster.planner.cluster = cluster
        cluster.start()
    await cluster.pass_time(400.0, slow=("node-a",))
    view = cluster.watch.view(CORA)
    assert len(cluster.planner.asked) > 3
    assert (view is None or view.proposal is None) is replaced


def test_pods_of_an_earlier_jobs_preflight_are_not_its_successors() -> None:
    known = cache()
    labels = {**common_labels(metadata_of(known.jobs[CORA].resource), None, "preflight"), constants.PREFLIGHT_KEY_LABEL: "key"}
    for number, uid in enumerate(("earlier", UID)):
        metadata: dict[str, Any] = {"namespace": "team", "name": f"of-{uid}", "uid": f"pod-{number}", "resourceVersion": "3"}
        owner = {"kind": "Job", "name": "cora-preflight", "uid": f"job-{number}", "controller": True}
        known.see_pod(
            {"metadata": {**metadata, "labels": {**labels, constants.JOB_UID_LABEL: uid}, "ownerReferences": [owner]}, "spec": {}}
        )
    assert [pod.name for pod in known.batch_pods_of(CORA, PREFLIGHT)] == [f"of-{UID}"]
