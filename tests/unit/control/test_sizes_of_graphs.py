"""Jobs that state no sizes of their graph: a Job reads them before the first plan, and plans rest on what it reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

from hyperscale.control.cache.cluster_cache import ClusterCache
from hyperscale.control.cache.records import Key
from hyperscale.control.controller.context import is_progress
from hyperscale.control.decide.chain import decide
from hyperscale.control.history.recorder import RunRecorder
from hyperscale.control.render.batch_jobs import inspect_job
from hyperscale.control.specs.parsed_specs import JobReader
from hyperscale.control.status.conditions import derive
from hyperscale.control.telemetry.metrics import Telemetry
from hyperscale.model.api.datasets import DatasetStatus, SizeSource, dataset_key, dataset_size, is_sized, must_be_read
from hyperscale.model.decision import CreateMpiJob, Decision, EnsureInspection, MakePlan, Reason, Stop, Wait
from hyperscale.model.meta import JobMetadata, RenderDefaults
from hyperscale.model.observed.owned_objects import BatchJobView
from hyperscale.model.observed.reconcile_input import ReconcileInput
from hyperscale.model.pods import INSPECT, PodView
from hyperscale.model.status import JobStatus, StateWord, to_wire
from hyperscale.observe.run_report import read_report
from tests.builders.seen import GONE, UID, changed, condition, job_spec, mpijob, plan, seen, status

STORED: Final = {"source": {"persistentVolumeClaim": {"claimName": "graphs"}}, "path": "own.npz", "format": "NPZ"}
UNSIZED: Final = job_spec(dataset=STORED)
KEY: Final = dataset_key(UNSIZED.dataset)
REPORT: Final = '{"classes": 7, "edges": 10556, "featureSize": 1433, "trainVertices": 140, "vertices": 2708}'
READ: Final = DatasetStatus(2708, 10556, 1433, 7, SizeSource.READ, KEY, 140)
VIEW: Final = BatchJobView(uid="inspect-uid", owner_uid=UID, key=KEY)


def unsized(view: BatchJobView | None = None, **changes: Any) -> ReconcileInput:
    """A job whose graph must be read."""
    return seen(UNSIZED, **{"inspection_key": KEY, "inspection": view, "inspection_read": view is not None, **changes})


def pod(**changes: Any) -> PodView:
    view = PodView(namespace="team", name="cora-inspect-x", owner_uid=VIEW.uid, owner_kind="Job", job_name="cora", role=INSPECT)
    return replace(view, **changes)


def reported(text: str = REPORT) -> ReconcileInput:
    """The Job has ended well; its pod left `text` behind."""
    return unsized(replace(VIEW, succeeded=True), inspection_pods=(pod(phase="Succeeded", termination=text),))


def wire(spec: dict[str, Any], **status: Any) -> dict[str, Any]:
    metadata = {"namespace": "team", "name": "cora", "uid": UID, "generation": 1, "resourceVersion": "1"}
    workers = {"minReplicas": 2, "maxReplicas": 2}
    return {"metadata": metadata, "spec": {"model": {"architecture": "GCN"}, "dataset": spec, "workers": workers}, "status": status}


def planned_condition(decision: Decision, look: ReconcileInput) -> tuple[str, str]:
    (found,) = [one for one in derive(look, decision).conditions if one.type == "Planned"]
    return found.status, found.reason


def test_a_graph_of_unknown_size_is_read_before_the_job_is_planned() -> None:
    assert must_be_read(UNSIZED)
    assert isinstance(decide(unsized()), EnsureInspection)
    waiting = unsized(VIEW)
    decision = decide(waiting)
    assert isinstance(decision, Wait)
    assert (decision.reason, decision.retry_after_seconds) == (Reason.INSPECTING_DATASET, 5.0)
    assert planned_condition(decision, waiting) == ("False", "InspectingDataset")
    assert derive(waiting, decision).state is StateWord.PENDING


def test_what_was_read_is_written_down_and_the_next_reconcile_plans_with_it() -> None:
    look = reported()
    decision = decide(look)
    assert isinstance(decision, Wait)
    assert decision.retry_after_seconds == 0.0
    written = derive(look, decision)
    assert written.dataset == READ
    cache = ClusterCache()
    cache.see_job(wire(STORED, **to_wire(written)))
    record = cache.jobs[Key("team", "cora")]
    job, fault = JobReader().read(record.resource, {})
    assert fault is None
    assert job is not None
    assert dataset_size(job) == (2708, 10556, 1433, 7)
    assert job.dataset.train_vertices == 140
    look = seen(job, status=record.status)
    assert isinstance(decide(look), MakePlan)
    assert derive(look, decide(look)).dataset == READ


def test_the_sizes_of_another_dataset_are_read_anew() -> None:
    other = {**STORED, "path": "other.npz"}
    cache = ClusterCache()
    cache.see_job(wire(other, **to_wire(JobStatus(dataset=READ))))
    job, _ = JobReader().read(cache.jobs[Key("team", "cora")].resource, {})
    assert job is not None
    assert must_be_read(job)


def test_a_job_that_has_started_keeps_the_sizes_that_its_plan_rests_on() -> None:
    started = {"name": "cora", "uid": "m"}
    cache = ClusterCache()
    cache.see_job(wire({**STORED, "path": "other.npz"}, **to_wire(JobStatus(dataset=READ)), mpiJobRef=started))
    job, _ = JobReader().read(cache.jobs[Key("team", "cora")].resource, {})
    assert job is not None
    assert is_sized(job)


def test_stated_sizes_take_precedence_over_those_that_were_read() -> None:
    stated = {**STORED, "classes": 9}
    key = dataset_key(job_spec(dataset=stated).dataset)
    cache = ClusterCache()
    cache.see_job(wire(stated, **to_wire(JobStatus(dataset=replace(READ, dataset_key=key)))))
    job, _ = JobReader().read(cache.jobs[Key("team", "cora")].resource, {})
    assert job is not None
    assert dataset_size(job) == (2708, 10556, 1433, 9)


def test_a_plan_of_another_graph_is_neither_shown_nor_carried_out_while_the_new_one_is_read() -> None:
    two = plan("node-a", "node-b")
    look = unsized(VIEW, plan=two, plan_recorded=True, misfits=(GONE,), status=status(StateWord.PLANNED, condition("Planned"), plan=two))
    decision = decide(look)
    assert decision.reason == Reason.INSPECTING_DATASET
    assert derive(look, decision).plan is None


def test_a_failed_inspection_stops_with_the_last_word_of_its_program() -> None:
    pods = (pod(termination="own.npz: no features\n", phase="Failed"), pod(owner_uid="other", termination="not ours"))
    look = unsized(replace(VIEW, failed=True, message="BackoffLimitExceeded"), inspection_pods=pods)
    decision = decide(look)
    assert isinstance(decision, Stop)
    assert decision.reason == Reason.DATASET_UNREADABLE
    assert decision.message.startswith("own.npz: no features; fix it, or write vertices")
    assert planned_condition(decision, look) == ("False", "DatasetUnreadable")
    assert {"Stalled", "Planned"} <= {one.type for one in derive(look, decision).conditions}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "Traceback (most recent call last):",
        REPORT.replace("2708", "0"),
        REPORT.replace("2708", "-1"),
        REPORT.replace("2708", "1e99"),
        REPORT.replace("2708", '"2708"'),
        REPORT.replace("1433", "1000001"),
        "[" * 4096,
        '{"vertices": 1}',
    ],
)
def test_a_report_that_is_none_never_becomes_a_size(text: str) -> None:
    assert read_report(text, KEY) is None
    decision = decide(reported(text))
    assert isinstance(decision, Stop)
    assert decision.reason == Reason.DATASET_UNREADABLE
    assert derive(reported(text), decision).dataset is None


def test_a_pod_of_another_owner_reports_nothing() -> None:
    look = unsized(replace(VIEW, succeeded=True), inspection_pods=(pod(owner_uid="forged", phase="Succeeded", termination=REPORT),))
    assert decide(look) == EnsureInspection(Reason.INSPECTING_DATASET, again=True)
    assert derive(look, Wait(Reason.INSPECTING_DATASET)).dataset is None


def test_a_report_that_was_lost_with_its_pod_is_made_again() -> None:
    assert decide(unsized(replace(VIEW, succeeded=True))) == EnsureInspection(Reason.INSPECTING_DATASET, again=True)


def test_a_job_that_has_ended_before_its_pod_is_seen_to_end_is_waited_for() -> None:
    look = unsized(replace(VIEW, succeeded=True), inspection_pods=(pod(phase="Running"),))
    assert isinstance(decide(look), Wait)


@pytest.mark.parametrize("other", [replace(VIEW, key="other", succeeded=True), replace(VIEW, deleting=True)], ids=["other", "going"])
def test_an_inspection_of_another_dataset_makes_way_first(other: BatchJobView) -> None:
    decision = decide(unsized(other))
    assert isinstance(decision, Wait)
    assert decision.retry_after_seconds == 1.0


def test_a_running_job_is_not_inspected() -> None:
    assert decide(unsized(plan=plan("node-a"), plan_recorded=True, mpijob=mpijob())).reason != Reason.INSPECTING_DATASET


def test_a_finished_run_whose_sizes_are_gone_is_no_history_and_no_error(tmp_path: Path) -> None:
    recorder = RunRecorder(JobReader(), Telemetry(), f"sqlite:///{tmp_path}/history.sqlite", 1, lambda: 0.0)
    recorder.note(unsized(plan=plan("node-a"), mpijob=mpijob()), status(StateWord.SUCCEEDED))
    assert not recorder._waiting


def test_sizes_are_written_down_at_once_and_not_as_mere_progress() -> None:
    """Else the next reconciles would read the Job again and again until the status may be written."""
    before = derive(unsized(VIEW), decide(unsized(VIEW)))
    look = changed(reported(), status=before)
    assert not is_progress(before, derive(look, decide(look)))


def test_without_a_planner_nothing_waits_for_sizes() -> None:
    blind = job_spec(dataset=STORED, planner="None")
    assert not must_be_read(blind)
    assert isinstance(decide(seen(blind)), CreateMpiJob)


def test_planners_are_not_asked_about_a_graph_of_unknown_size() -> None:
    cache = ClusterCache()
    cache.see_job(wire(STORED))
    assert JobReader().plannable(cache.jobs[Key("team", "cora")].resource, {}) is None


def test_the_sizes_of_public_graphs_are_known() -> None:
    ogb = job_spec(dataset={"source": {"s3": {"bucket": "graphs"}}, "format": "OGB", "path": "data/ogbn_arxiv"})
    assert dataset_size(ogb) == (169_343, 2_332_486, 128, 40)
    look = seen(ogb)
    told = derive(look, decide(look)).dataset
    assert told is not None
    assert told.source is SizeSource.KNOWN
    cora = seen(job_spec())
    assert (found := derive(cora, decide(cora)).dataset) is not None
    assert (found.vertices, found.source) == (2708, SizeSource.KNOWN)


def test_stated_sizes_are_told_as_such() -> None:
    stated = seen(job_spec(dataset={**STORED, "vertices": 10, "edges": 20, "featureSize": 3, "classes": 2}))
    assert derive(stated, decide(stated)).dataset == DatasetStatus(10, 20, 3, 2, SizeSource.SPEC, dataset_key(stated.job.spec.dataset))


def test_the_inspect_job_mounts_the_data_read_only_and_asks_for_no_gpu() -> None:
    parted = replace(UNSIZED, partitioning=replace(UNSIZED.partitioning, claim_name="parts"))
    made = inspect_job(JobMetadata(namespace="team", name="cora", uid=UID), parted, RenderDefaults(worker_image="w:1"))
    (container,) = made["spec"]["template"]["spec"]["containers"]
    mounts = {mount["name"]: mount.get("readOnly", False) for mount in container["volumeMounts"]}
    assert mounts["hyperscale-dataset"]
    assert "hyperscale-partitions" not in mounts
    assert "nvidia.com/gpu" not in str(container.get("resources", {}))
    assert made["metadata"]["labels"]["hyperscale.dev/dataset-key"] == KEY
    assert made["spec"]["template"]["metadata"]["labels"]["hyperscale.dev/dataset-key"] == KEY
    assert made["metadata"]["ownerReferences"][0]["uid"] == UID
