"""Decisions about partitions, progress in status, and runs on their way into history."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hyperscale.control.cache.cluster_cache import ClusterCache
from hyperscale.control.cache.records import Key
from hyperscale.control.controller.context import is_progress
from hyperscale.control.decide.chain import decide
from hyperscale.control.history.progress import MOST_WRITES, ProgressWatch
from hyperscale.control.history.recorder import RunRecorder
from hyperscale.control.history.run_store import RunStore
from hyperscale.control.scheduler.planner_client import steady
from hyperscale.control.specs.parsed_specs import JobReader
from hyperscale.control.status.conditions import derive
from hyperscale.control.telemetry.metrics import Telemetry
from hyperscale.model import constants
from hyperscale.model.api.measured import Measured
from hyperscale.model.decision import CreateMpiJob, EnsurePartitions, MakePlan, Reason, ReleaseWorkers, Stop, Wait
from hyperscale.model.observed.owned_objects import PartitionView
from hyperscale.model.observed.reconcile_input import ReconcileInput
from hyperscale.model.plan import Correction, Plan, Prediction
from hyperscale.model.pods import PARTITION, PodView
from hyperscale.model.status import JobStatus, Phase, read_status, to_wire
from hyperscale.observe.prometheus.reader import PrometheusReader
from hyperscale.util.rfc3339 import unix_seconds
from tests.builders.seen import GONE, MEASURED, MPIJOB_UID, UID, changed, launcher, mpijob, plan, seen, worker

TWO = plan("node-a", "node-b")
KEY = "feedfacefeedface"
VIEW = PartitionView(uid="partition-uid", owner_uid=UID, key=KEY)
TRAINS_ITSELF: dict[str, Any] = {"spec": {"containers": [{"name": "launcher", "command": ["mpirun", "my-own"]}]}}
SAID = Measured(epoch=7, epochs=100, loss=0.4, accuracy=0.8, epoch_seconds=2.0)


def planned(view: PartitionView | None = None, **changes: Any) -> ReconcileInput:
    """A job with a plan, no MPIJob, and partitions wanted."""
    return seen(plan=TWO, plan_recorded=True, partition_key=KEY, partition=view, **changes)


def partition_pod(**changes: Any) -> PodView:
    view = PodView(namespace="team", name="cora-partition-x", owner_uid=VIEW.uid, owner_kind="Job", job_name="cora", role=PARTITION)
    return replace(view, **changes)


def test_partitions_come_before_the_mpijob() -> None:
    assert isinstance(decide(planned()), EnsurePartitions)
    assert isinstance(decide(planned(replace(VIEW, succeeded=True))), CreateMpiJob)


def test_without_a_volume_nothing_waits_for_partitions() -> None:
    assert isinstance(decide(seen(plan=TWO, metrics=MEASURED)), CreateMpiJob)


def test_the_partition_job_is_looked_at_once_a_pass_and_then_waited_for() -> None:
    assert isinstance(decide(planned(VIEW)), EnsurePartitions)
    decision = decide(planned(VIEW, partition_read=True))
    assert isinstance(decision, Wait)
    assert (decision.reason, decision.retry_after_seconds) == (Reason.PARTITIONING, 5.0)


def test_once_its_pod_has_ended_the_partition_job_is_asked_soon() -> None:
    decision = decide(planned(VIEW, partition_read=True, partition_pods=(partition_pod(phase="Succeeded"),)))
    assert isinstance(decision, Wait)
    assert decision.retry_after_seconds == 1.0


def test_why_the_partition_pod_does_not_start_is_passed_on() -> None:
    decision = decide(planned(VIEW, partition_read=True, partition_pods=(partition_pod(unschedulable="Insufficient memory"),)))
    assert "Insufficient memory" in decision.message


def test_a_failed_partition_job_stops_with_the_last_word_of_its_own_program() -> None:
    pods = (partition_pod(termination="needs 40 GiB\n"), partition_pod(owner_uid="other", termination="not ours"))
    decision = decide(planned(replace(VIEW, failed=True, message="BackoffLimitExceeded"), partition_read=True, partition_pods=pods))
    assert isinstance(decision, Stop)
    assert (decision.reason, decision.message) == (Reason.PARTITIONING_FAILED, "needs 40 GiB")
    assert decide(planned(replace(VIEW, failed=True, message="why"), partition_read=True)).message == "why"


@pytest.mark.parametrize("other", [replace(VIEW, key="other", succeeded=True), replace(VIEW, deleting=True)], ids=["other parts", "going"])
def test_a_partition_job_for_other_parts_makes_way_first(other: PartitionView) -> None:
    assert isinstance(decide(planned(other)), EnsurePartitions)
    assert isinstance(decide(planned(other, partition_read=True)), Wait)


def test_a_plan_that_went_stale_while_partitions_were_written_is_made_anew() -> None:
    assert isinstance(decide(planned(VIEW, misfits=(GONE,))), MakePlan)


def test_a_job_whose_parts_cannot_be_written_is_not_planned_again_while_others_take_its_nodes() -> None:
    """Its plan holds nothing any more; the reason of the failure must stay readable however full the cluster becomes."""
    failed = planned(replace(VIEW, failed=True, message="why"), misfits=(GONE,))
    assert isinstance(decide(failed), EnsurePartitions), "whether the failed Job is still there is read once a pass"
    assert decide(changed(failed, partition_read=True)).reason == Reason.PARTITIONING_FAILED
    other_parts = planned(replace(VIEW, failed=True, key="other"), misfits=(GONE,))
    assert isinstance(decide(other_parts), MakePlan)


def replaced(view: PartitionView) -> ReconcileInput:
    """Rank 1 was lost, its new pod waits, the plan for it is recorded."""
    pods = (launcher(gated=True), worker(0, node="node-a", ready=True), worker(1, gated=True))
    return planned(view, mpijob=mpijob(), pods=pods)


def test_a_replaced_rank_waits_for_the_parts_of_its_new_shares() -> None:
    assert isinstance(decide(replaced(replace(VIEW, key="old", succeeded=True))), EnsurePartitions)
    assert isinstance(decide(replaced(replace(VIEW, succeeded=True))), ReleaseWorkers)


def test_a_running_job_does_not_ask_for_partitions_again() -> None:
    pods = (launcher(), worker(0, node="node-a", ready=True), worker(1, node="node-b", ready=True))
    running = planned(mpijob=mpijob(conditions={"Running": (True, "", "")}), pods=pods)
    assert decide(running).reason == Reason.RUNNING


def test_partitioning_is_a_phase_and_a_condition() -> None:
    waiting = planned(VIEW, partition_read=True)
    status = derive(waiting, decide(waiting))
    assert status.phase is Phase.PARTITIONING
    assert [(found.status, found.reason) for found in status.conditions if found.type == "Partitioned"] == [("False", "Partitioning")]
    done = planned(replace(VIEW, succeeded=True), status=status, mpijob=mpijob())
    assert [found.status for found in derive(done, Wait(Reason.STARTING)).conditions if found.type == "Partitioned"] == ["True"]


def test_a_failed_partition_job_is_stalled() -> None:
    status = derive(planned(replace(VIEW, failed=True)), Stop(Reason.PARTITIONING_FAILED, "needs 40 GiB"))
    assert {"Stalled", "Partitioned"} <= {found.type for found in status.conditions}
    assert status.phase is Phase.PENDING


def test_what_the_run_says_stays_in_status_until_it_says_something_else() -> None:
    first = derive(seen(plan=TWO, measured=SAID), Wait(Reason.RUNNING))
    assert first.measured == SAID
    later = derive(seen(plan=TWO, status=first), Wait(Reason.RUNNING))
    assert later.measured == SAID
    assert is_progress(first, replace(first, measured=replace(SAID, epoch=8)))
    assert read_status(to_wire(first)).measured == SAID


@pytest.mark.parametrize("by_curve", [False, True], ids=["by a factor", "by a curve"])
def test_calibration_and_allreduce_cost_survive_the_status(by_curve: bool) -> None:
    known = Correction("A100", 1.5, 0.1, 7, by_curve)
    corrected = replace(TWO, predicted=Prediction(1.5, 0.15, 1.0, 2.0, None, known))
    assert read_status(to_wire(JobStatus(plan=corrected))).plan == corrected


def wire_job(name: str, uid: str = UID, **status: Any) -> dict[str, Any]:
    spec = {"model": {"architecture": "GCN"}, "dataset": {"source": {"builtin": {"name": "Cora"}}}, "workers": {"min": 2, "max": 2}}
    return {"metadata": {"namespace": "team", "name": name, "uid": uid, "generation": 1}, "spec": spec, "status": status}


def world_with(count: int) -> ClusterCache:
    """A world in which so many jobs run."""
    world = ClusterCache()
    for number in range(count):
        name = f"job-{number:03d}"
        world.see_job(wire_job(name, f"uid-{number}"))
        world.see_mpijob(
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
    return world


def watch_over(world: ClusterCache) -> tuple[ProgressWatch, list[Key]]:
    woken: list[Key] = []
    watch = ProgressWatch(world, PrometheusReader(""), 10.0, lambda: float(len(woken)))
    watch.wake = woken.append
    return watch, woken


def test_only_jobs_that_got_on_are_woken_and_strangers_never() -> None:
    watch, woken = watch_over(world_with(2))
    told = {Key("team", "job-000"): SAID, Key("team", "unknown"): SAID}
    watch.take(told)
    watch.take(told)
    assert woken == [Key("team", "job-000")]


def test_of_many_jobs_those_told_longest_ago_come_first() -> None:
    world = world_with(MOST_WRITES + 50)
    watch, woken = watch_over(world)
    for epoch in (1, 2):
        watch.take({key: replace(SAID, epoch=epoch) for key in world.jobs})
        assert len(woken) == epoch * MOST_WRITES
    assert len(set(woken)) == MOST_WRITES + 50


def test_the_result_beats_the_progress_and_the_last_launcher_counts() -> None:
    world = world_with(1)
    key = Key("team", "job-000")
    world.progress[key] = SAID
    newer = launcher(name="b", created="2026-01-02T00:00:00Z", termination='{"epoch": 9, "epochs": 9}')
    older = launcher(name="a", created="2026-01-01T00:00:00Z", termination='{"epoch": 1, "epochs": 9}')
    assert world.measured(key, [newer, older]) == Measured(epoch=9, epochs=9)
    assert world.measured(key, [launcher(termination="mpirun: a rank died")]) == SAID
    world.see_job(wire_job("job-000", "uid-0"), deleted=True)
    assert world.progress == {}


def test_partition_pods_are_the_jobs_but_none_of_the_mpijobs() -> None:
    world = world_with(1)
    labels = {constants.PARTITION_KEY_LABEL: KEY, constants.JOB_NAME_LABEL: "job-000"}
    owner = [{"kind": "Job", "uid": "j", "controller": True}]
    world.see_pod({"metadata": {"namespace": "team", "name": "p", "labels": labels, "ownerReferences": owner}, "spec": {}, "status": {}})
    assert [pod.name for pod in world.partition_pods_of(Key("team", "job-000"))] == ["p"]
    assert world.pods_of(Key("team", "job-000"), MPIJOB_UID) == ()


def ended(number: int, measured: Measured | None, of: Plan = TWO) -> tuple[ReconcileInput, JobStatus]:
    look = seen(plan=of)
    metadata = replace(look.job.metadata, uid=f"uid-{number}")
    return changed(look, metadata=metadata), JobStatus(phase=Phase.SUCCEEDED, measured=measured, completion_time="2026-01-01T00:00:00Z")


def test_finished_runs_reach_history_and_come_back_as_a_correction(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/history.sqlite"
    reader = JobReader()

    async def play() -> None:
        recorder = RunRecorder(reader, Telemetry(), url, 3, lambda: 0.0)
        running = asyncio.create_task(recorder.run())
        for number in range(3):
            look, status = ended(number, SAID)
            recorder.note(look, replace(status, phase=Phase.RUNNING))  # not yet
            recorder.note(look, replace(status, measured=None))
            recorder.note(look, status)
            recorder.note(look, status)
        async with asyncio.timeout(20):
            while not reader.calibrations:  # noqa: ASYNC110 - it sends no event
                await asyncio.sleep(0.02)
        running.cancel()

    asyncio.run(play())
    (known,) = reader.calibration(seen().job.spec)
    assert (known.products, known.factor, known.runs) == ("A100", 2.0, 3)
    assert len(RunStore(url).runs(10)) == 3


@pytest.mark.parametrize(("generated", "observed"), [(False, 1.0), (True, 0.0)])
def test_how_good_predictions_are_is_not_told_by_a_stand_in(tmp_path: Path, generated: bool, observed: float) -> None:
    telemetry = Telemetry()
    recorder = RunRecorder(JobReader(), telemetry, f"sqlite:///{tmp_path}/h", 1, lambda: 0.0)
    recorder.note(*ended(0, replace(SAID, generated=generated)))
    (family,) = telemetry.prediction_ratio.collect()
    assert sum(sample.value for sample in family.samples if sample.name.endswith("_count")) == observed
    assert recorder._waiting, "it is recorded all the same"


def test_what_was_corrected_is_taken_back_before_it_teaches_again(tmp_path: Path) -> None:
    corrected = replace(TWO, predicted=Prediction(2.0, 0.2, calibration=Correction("A100", 2.0, 0.1, 5)))
    recorder = RunRecorder(JobReader(), Telemetry(), f"sqlite:///{tmp_path}/h", 1, lambda: 0.0)
    recorder.note(*ended(0, SAID, corrected))
    (run,) = recorder._waiting.values()
    assert (run.predicted_seconds, run.correction, run.ratio) == (1.0, 2.0, 2.0)


def test_without_a_url_nothing_is_kept() -> None:
    recorder = RunRecorder(JobReader(), Telemetry(), "", 1, lambda: 0.0)
    recorder.note(*ended(0, SAID))
    asyncio.run(recorder.run())
    assert recorder._waiting == {}


def test_a_database_that_is_away_keeps_runs_waiting(tmp_path: Path) -> None:
    telemetry = Telemetry()
    recorder = RunRecorder(JobReader(), telemetry, f"sqlite:///{tmp_path}/missing/h", 1, lambda: 0.0)
    recorder.note(*ended(0, SAID))

    def failures() -> float | None:
        return telemetry.registry.get_sample_value("hyperscale_history_failures_total")

    async def play() -> None:
        running = asyncio.create_task(recorder.run())
        async with asyncio.timeout(20):
            while not failures():  # noqa: ASYNC110 - it sends no event
                await asyncio.sleep(0.02)
        running.cancel()

    asyncio.run(play())
    assert len(recorder._waiting) == 1


def test_less_memory_than_the_graph_alone_is_refused_by_its_path() -> None:
    large = wire_job("large")
    large["spec"]["dataset"] |= {"vertices": 100_000_000, "edges": 1_000_000_000, "featureSize": 128, "classes": 10}
    large["spec"]["workers"]["memory"] = "16Gi"
    _, fault = JobReader().read(large, {})
    assert fault is not None
    assert (fault.path, "53.6 GiB" in fault.message) == ("spec.workers.memory", True)
    large["spec"]["dataset"]["source"] = {"pvc": {"claimName": "graphs"}}
    large["spec"]["partitioning"] = {"method": "Precomputed"}
    _, fault = JobReader().read(large, {})
    assert fault is not None, "ranks read the whole graph to take their part of it, whoever made the parts"
    large["spec"]["partitioning"] = {"volumeClaimName": "parts"}
    assert JobReader().read(large, {})[1] is None


@pytest.mark.parametrize("volume", [{}, {"volumeClaimName": "parts"}], ids=["no volume", "volume"])
def test_method_none_has_no_job_that_partitions_so_that_the_graph_must_fit_with_a_volume_too(volume: dict[str, str]) -> None:
    large = wire_job("large")
    large["spec"]["dataset"] |= {"vertices": 100_000_000, "edges": 1_000_000_000, "featureSize": 128, "classes": 10}
    large["spec"]["workers"]["memory"] = "16Gi"
    large["spec"]["partitioning"] = {"method": "None", **volume}
    _, fault = JobReader().read(large, {})
    assert fault is not None
    assert fault.path == "spec.workers.memory"
    assert "name a spec.partitioning.volumeClaimName with another spec.partitioning.method than None" in fault.message


@pytest.mark.parametrize("own", [{"model": {"script": "train.py"}}, {"launcher": {"template": TRAINS_ITSELF}}], ids=["script", "command"])
def test_what_a_users_own_program_reads_is_its_own_affair(own: dict[str, Any]) -> None:
    large = wire_job("large")
    large["spec"]["dataset"] |= {"vertices": 100_000_000, "edges": 1_000_000_000, "featureSize": 128, "classes": 10}
    large["spec"]["workers"]["memory"] = "16Gi"
    for field, value in own.items():
        large["spec"][field] = large["spec"].get(field, {}) | value
    assert JobReader().read(large, {})[1] is None


def with_shares(*shares: float) -> Plan:
    return replace(TWO, workers=tuple(replace(each, share=share) for each, share in zip(TWO.workers, shares, strict=True)))


def test_shares_that_moved_with_a_measurement_stay_and_so_do_the_partitions() -> None:
    assert steady(with_shares(0.51, 0.49), TWO) == TWO
    assert steady(with_shares(0.6, 0.4), TWO) == with_shares(0.6, 0.4)
    assert steady(with_shares(0.51, 0.49), None) == with_shares(0.51, 0.49)
    assert steady(plan("a", "b", "c"), TWO) == plan("a", "b", "c")


def test_runs_that_are_too_old_are_deleted_and_not_recorded_again(tmp_path: Path) -> None:
    url, day, reader = f"sqlite:///{tmp_path}/history.sqlite", 86_400.0, JobReader()
    finished = unix_seconds("2026-01-01T00:00:00Z")
    now = finished + day

    async def play(runs: int, *numbers: int) -> None:
        recorder = RunRecorder(reader, Telemetry(), url, 1, lambda: now, days=30.0)
        for number in numbers:
            recorder.note(*ended(number, SAID))
        running = asyncio.create_task(recorder.run())
        async with asyncio.timeout(20):
            while len(RunStore(url).runs(10)) != runs:  # noqa: ASYNC110 - it sends no event
                await asyncio.sleep(0.02)
        running.cancel()

    asyncio.run(play(2, 0, 1))
    now = finished + 31 * day
    asyncio.run(play(0))
    old = RunRecorder(reader, Telemetry(), url, 1, lambda: now, days=30.0)
    old.note(*ended(0, SAID))
    assert old._waiting == {}
