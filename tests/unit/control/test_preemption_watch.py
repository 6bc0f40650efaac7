"""Jobs that wait beside one that runs: who is stopped, told of, left alone, and how the stopped job comes to its turn again.

Longer than other modules: all of it plays on one stage.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hyperscale.control.cache.records import Key
from hyperscale.control.lifecycle.stoppable import PREEMPTED_CONDITION, usable_gpus
from hyperscale.control.render.mpijob import plan_annotation
from hyperscale.control.scheduler.admission import PlanAnswer
from hyperscale.control.scheduler.migration import ADVISES
from hyperscale.control.telemetry.metrics import Telemetry
from hyperscale.model import constants
from hyperscale.model.admission_query import Claim
from hyperscale.model.api.measured import Measured
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import MetricsState
from hyperscale.model.decision import MakePlan, Reason
from hyperscale.model.metrics_reading import MetricsReading, Series
from hyperscale.model.migration_query import RunningJob
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.model.preemption_query import StoppableJob
from hyperscale.model.status import Condition, JobStatus, to_wire
from hyperscale.util.rfc3339 import timestamp
from tests.builders.seen import changed
from tests.builders.seen import plan as seen_plan
from tests.corpus.queue_stage import CREATED, Stage

LONG, SHORT = Key("team", "long"), Key("team", "short")
EPOCHS = 1_000_000
CHECKPOINT = {"volumeClaimName": "state", "everyEpochs": 10}


class Scene(Stage):
    """One node of two GPUs with a long job on both, which has run for an hour, and a short one that waits."""

    def __init__(self, mode: str = "Act", queue: dict[str, Any] | None = None, replan: dict[str, Any] | None = None, **long: Any) -> None:
        super().__init__(nodes=1, gpus=2)
        self.version = 10
        self.queue = {"preemption": {"mode": mode, "checkSeconds": 10, "holdDownSeconds": 60}, **(queue or {})}
        self.set_policy({"queue": self.queue, "replan": {"restartSeconds": 5, **(replan or {})}})
        self.watch = self.planning.stops
        self.watch.wake = self.woken.append
        self.long_spec = {
            "model": {"architecture": "GCN", "epochs": EPOCHS},
            "workers": {"min": 1, "max": 2},
            "checkpoint": CHECKPOINT,
            **long,
        }
        self.plan: Plan | None = None

    def set_policy(self, spec: dict[str, Any]) -> None:
        self.version += 1
        self.world.see_policy({"metadata": {"name": "default", "uid": "p", "generation": self.version}, "spec": spec})

    @property
    def policy(self) -> PolicySpec:
        return self.planning.reader.policy_named("default", self.world.policies)

    async def begin(self) -> None:
        """The long job runs; an hour later the short one comes and is told to wait."""
        self.see_long(JobStatus())
        answer = await self.planning.make(LONG, self.seen(LONG), MakePlan(Reason.PLANNING), self.policy)
        assert isinstance(answer.found, Plan)
        self.plan = answer.found
        self.see_long(JobStatus(plan=self.plan))
        self.see_mpijob(suspended=False)
        self.see_pods(gone=False)
        self.planning.taker.pending.drop(LONG)
        await self.later(3600.0)
        self.add("short", epochs=10, workers={"min": 2, "max": 2})
        await self.ask_for(SHORT)

    async def later(self, seconds: float) -> None:
        self.now += seconds
        use = tuple(Series({"Hostname": "node-0", "gpu": str(gpu)}, 1.0, self.now) for gpu in range(2))
        self.world.snapshots.reading = MetricsReading(self.now, MetricsState(available=True), {"gpu_utilization": use})

    async def ask_for(self, key: Key, preempted: bool = False) -> PlanAnswer:
        """A pass over a job, as far as its plan."""
        look = changed(self.seen(key), preempted=preempted, mpijob=self.world.mpijobs.get(key))
        answer = await self.planning.make(key, look, MakePlan(Reason.PLANNING, workers_fixed=2 if preempted else None), self.policy)
        if answer.found is None or isinstance(answer.found, Infeasible):
            self.planning.taker.pending.settle(key)
        return answer

    def see_long(self, status: JobStatus) -> None:
        self.version += 1
        metadata = {
            "namespace": "team",
            "name": "long",
            "uid": "uid-long",
            "generation": 1,
            "resourceVersion": str(self.version),
            "creationTimestamp": "2026-01-01T00:00:00Z",
        }
        spec = {"dataset": {"source": {"builtin": {"name": "Cora"}}}, **self.long_spec}
        self.world.see_job({"metadata": metadata, "spec": spec, "status": to_wire(status)})

    def see_mpijob(self, suspended: bool, start_time: str = "2026-01-01T00:00:10Z") -> None:
        assert self.plan is not None
        self.version += 1
        gates = [{"name": constants.PLACEMENT_GATE}]
        worker = {"replicas": len(self.plan.workers), "template": {"spec": {"schedulingGates": gates}}}
        metadata = {
            "namespace": "team",
            "name": "long",
            "uid": "mpi-long",
            "resourceVersion": str(self.version),
            "annotations": {constants.PLAN_ANNOTATION: plan_annotation(self.plan)},
            "ownerReferences": [{"uid": "uid-long", "controller": True}],
        }
        conditions = [] if suspended else [{"type": "Running", "status": "True"}]
        spec = {"runPolicy": {"suspend": suspended}, "mpiReplicaSpecs": {"Worker": worker}}
        self.world.see_mpijob({"metadata": metadata, "spec": spec, "status": {"startTime": start_time, "conditions": conditions}})

    def see_pods(self, gone: bool) -> None:
        assert self.plan is not None
        for worker in self.plan.workers:
            self.version += 1
            labels = {
                constants.MPI_JOB_NAME_LABEL: "long",
                constants.MPI_JOB_ROLE_LABEL: "worker",
                constants.MPI_REPLICA_INDEX_LABEL: str(worker.index),
            }
            metadata = {
                "namespace": "team",
                "name": f"long-worker-{worker.index}",
                "uid": f"pod-{worker.index}",
                "resourceVersion": str(self.version),
                "labels": labels,
                "ownerReferences": [{"kind": "MPIJob", "name": "long", "uid": "mpi-long", "controller": True}],
            }
            limits = {"resources": {"limits": {constants.GPU_RESOURCE: str(worker.gpus)}}}
            spec = {"nodeName": worker.node, "containers": [{"name": "w", **limits}]}
            self.world.see_pod({"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}, deleted=gone)

    def outcomes(self) -> dict[str, float]:
        telemetry: Telemetry = self.planning.stops._telemetry
        return {
            sample.labels["outcome"]: sample.value
            for metric in telemetry.preemptions.collect()
            for sample in metric.samples
            if sample.name.endswith("_total")
        }


async def begun(**given: Any) -> Scene:
    scene = Scene(**given)
    await scene.begin()
    return scene


def stopped_status(scene: Scene) -> JobStatus:
    """As it is written down when the stop begins."""
    last = scene.watch.begin(LONG, scene.policy)
    assert last is not None
    assert scene.plan is not None
    preempted = Condition(PREEMPTED_CONDITION, "True", "StoppedForOthers")
    return JobStatus(plan=scene.plan, conditions=(preempted,), last_stop=last, stops=1)


async def test_what_a_stopped_job_keeps_is_what_it_said_last_and_not_what_was_predicted_when_it_was_judged() -> None:
    scene = await begun()
    await scene.watch.check()
    scene.world.progress[LONG] = Measured(epoch=EPOCHS - 5, epochs=EPOCHS)
    last = stopped_status(scene).last_stop
    assert last is not None
    assert last.epochs_done == EPOCHS - 10


async def test_a_long_job_stops_for_a_short_one_and_goes_on_after_it() -> None:
    scene = await begun()
    assert SHORT in scene.world.unstarted
    await scene.watch.check()
    view = scene.watch.view(LONG)
    assert view is not None
    assert view.due
    assert scene.woken == [LONG]
    (question,) = scene.planner.about_stops
    assert [job.running.request.job.workers.min for job in question.running] == [2], "it continues with as many workers as it had"
    status = stopped_status(scene)
    assert status.last_stop is not None
    assert status.last_stop.beneficiaries == (str(SHORT),)
    assert 0.0 < status.last_stop.epochs_done < EPOCHS
    scene.see_long(status)
    assert LONG not in scene.world.unstarted
    scene.see_mpijob(suspended=True)
    assert LONG not in scene.world.unstarted, "its pods still end"
    scene.see_pods(gone=True)
    assert LONG in scene.world.unstarted

    held = await scene.ask_for(LONG, preempted=True)
    assert isinstance(held.found, Infeasible), "the short one goes first"
    assert SHORT in scene.woken
    taken = await scene.ask_for(SHORT)
    assert isinstance(taken.found, Plan)
    scene.start(SHORT, taken.found)
    scene.world.jobs.pop(SHORT)
    scene.world.mpijobs.pop(SHORT)
    scene.world.assume(SHORT, None)
    answer = await scene.ask_for(LONG, preempted=True)
    assert isinstance(answer.found, Plan)
    assert len(answer.found.workers) == 2


async def test_the_queue_knows_what_is_left_of_a_stopped_job_and_counts_its_waiting_from_its_stop() -> None:
    scene = await begun()
    scene.world.progress[LONG] = Measured(epoch=EPOCHS // 2, epochs=EPOCHS)
    await scene.watch.check()
    scene.see_long(stopped_status(scene))
    scene.see_mpijob(suspended=True)
    scene.see_pods(gone=True)
    await scene.later(30.0)
    await scene.ask_for(LONG, preempted=True)
    queued = {job.request.job_key: job for job in scene.planner.questions[-1].jobs}[str(LONG)]
    assert queued.request.job.model.epochs == EPOCHS // 2
    assert (queued.request.job.workers.min, queued.request.job.workers.max, queued.request.workers_fixed) == (2, 2, 2)
    assert queued.waited_seconds == pytest.approx(30.0, abs=1.5)
    assert queued.gap_seconds is None, "it is no new arrival"


async def test_advice_is_told_once_and_stops_nobody() -> None:
    scene = await begun(mode="Advise")
    await scene.watch.check()
    view = scene.watch.view(LONG)
    assert view is not None
    assert not view.due
    assert view.proposal is not None
    assert (view.proposal.beneficiaries, view.proposal.obstacle) == ((str(SHORT),), ADVISES)
    assert view.proposal.saved_seconds > 0.0
    assert scene.watch.begin(LONG, scene.policy) is None
    assert scene.plan is not None
    scene.see_long(JobStatus(plan=scene.plan, stop=view.proposal))
    scene.woken.clear()
    for _ in range(10):
        await scene.later(10.0)
        await scene.ask_for(SHORT)
        await scene.watch.check()
    assert scene.woken.count(LONG) == 0, "the same advice is not told again"
    assert len(scene.planner.about_stops) > 3
    assert scene.outcomes() == {"proposed": 1.0}


async def test_advice_is_taken_back_when_nobody_waits_any_more_or_the_policy_is_off() -> None:
    for change in ("gone", "off"):
        scene = await begun(mode="Advise")
        await scene.watch.check()
        view = scene.watch.view(LONG)
        assert view is not None
        assert scene.plan is not None
        scene.see_long(JobStatus(plan=scene.plan, stop=view.proposal))
        scene.woken.clear()
        await scene.later(60.0)
        if change == "gone":
            scene.world.see_job({**scene.world.jobs[SHORT].resource, "status": {}}, deleted=True)
        else:
            scene.set_policy({"queue": {"preemption": {"mode": "Off"}}})
        await scene.watch.check()
        after = scene.watch.view(LONG)
        assert after is not None
        assert after.proposal is None
        assert scene.woken == [LONG]


async def test_after_a_restart_what_was_told_stays_as_it_was() -> None:
    scene = await begun(mode="Advise")
    await scene.watch.check()
    told = scene.watch.view(LONG)
    assert told is not None
    assert scene.plan is not None
    scene.see_long(JobStatus(plan=scene.plan, stop=told.proposal))
    scene.watch._judged.clear()
    scene.woken.clear()
    await scene.later(60.0)
    await scene.ask_for(SHORT)
    await scene.watch.check()
    again = scene.watch.view(LONG)
    assert again is not None
    assert again.proposal == told.proposal
    assert scene.woken == []


@pytest.mark.parametrize(
    "given",
    [
        {"mode": "Off"},
        {"queue": {"order": "Arrival"}},
        {"checkpoint": None},
        {"placement": {"mode": "Preferred"}},
        {"replan": {"restartSeconds": 86_400}},
        {"queue": {"preemption": {"mode": "Act", "holdDownSeconds": 7200}}},
    ],
    ids=["off", "order of arrival", "no checkpoint", "not strict", "too dear", "just started"],
)
async def test_nobody_is_stopped(given: dict[str, Any]) -> None:
    scene = await begun(**given)
    await scene.watch.check()
    view = scene.watch.view(LONG)
    assert view is None or not (view.due or view.proposal)
    assert LONG not in scene.woken


async def test_nothing_is_asked_without_measurements_or_while_somebody_waits_for_a_plan_or_the_queue_failed() -> None:
    scene = await begun()
    scene.world.snapshots.reading = MetricsReading(scene.now + 1.0, MetricsState(available=False, reason="MetricsStale"))
    await scene.watch.check()
    await scene.later(2.0)
    async with scene.planning._lock:
        await scene.watch.check()
    scene.planner.broken = True
    await scene.later(60.0)
    scene.add("third", epochs=10)
    await scene.ask_for(Key("team", "third"))
    scene.planner.broken = False
    assert scene.planning.taker.failed
    await scene.watch.check()
    assert scene.planner.about_stops == []


async def test_the_queue_is_heard_first() -> None:
    scene = await begun()
    scene.now = CREATED + 3600.0
    record = scene.world.jobs[SHORT].resource
    metadata = {**record["metadata"], "name": "new", "uid": "uid-new", "creationTimestamp": timestamp(scene.now)}
    scene.world.see_job({"metadata": metadata, "spec": record["spec"]})
    await scene.later(1.0)
    await scene.watch.check()
    assert scene.planner.about_stops == []
    await scene.later(10.0)
    await scene.watch.check()
    assert len(scene.planner.about_stops) == 1


async def test_a_planner_that_fails_is_left_alone_for_a_while_and_a_question_rests_after_an_answer() -> None:
    scene = await begun(mode="Advise")
    scene.planner.broken = True
    for _ in range(25):
        await scene.watch.check()
        await scene.later(1.0)
    assert len(scene.planner.about_stops) == 1
    scene.planner.broken = False
    for _ in range(25):
        await scene.watch.check()
        await scene.later(1.0)
    assert 2 <= len(scene.planner.about_stops) <= 4


async def test_a_stop_is_void_when_those_who_would_gain_are_gone() -> None:
    scene = await begun()
    await scene.watch.check()
    scene.world.see_job({**scene.world.jobs[SHORT].resource, "status": {}}, deleted=True)
    assert scene.watch.begin(LONG, scene.policy) is None
    assert scene.outcomes() == {"given up": 1.0}
    view = scene.watch.view(LONG)
    assert view is not None
    assert not view.due


async def test_a_stop_is_void_when_the_policy_only_advises_by_then() -> None:
    scene = await begun()
    await scene.watch.check()
    scene.set_policy({"queue": {"preemption": {"mode": "Advise", "holdDownSeconds": 60}}})
    assert scene.watch.begin(LONG, scene.policy) is None


async def test_a_pod_that_never_ends_does_not_stop_all_questions() -> None:
    scene = await begun()
    await scene.watch.check()
    scene.see_long(stopped_status(scene))
    scene.see_mpijob(suspended=True)
    assert scene.watch._under_way()
    await scene.later(301.0)
    assert not scene.watch._under_way()


async def test_a_job_that_just_went_on_is_not_stopped_again() -> None:
    scene = await begun()
    await scene.watch.check()
    status = stopped_status(scene)
    scene.see_long(msgspec.structs.replace(status, conditions=()))
    scene.see_mpijob(suspended=False, start_time=timestamp(scene.now + 10.0))
    await scene.later(40.0)
    await scene.ask_for(SHORT)
    await scene.watch.check()
    view = scene.watch.view(LONG)
    assert view is None or not view.due
    await scene.later(60.0)
    await scene.ask_for(SHORT)
    await scene.watch.check()
    again = scene.watch.view(LONG)
    assert again is not None
    assert again.due, "after the hold-down it may be stopped again"


async def test_gpus_that_no_job_of_the_question_could_use_do_not_count_as_free() -> None:
    scene = Stage(nodes=3, gpus=4)
    snapshot = scene.world.snapshot(PolicySpec(), scene.now)
    wants = [request_of(scene, "three", 3), request_of(scene, "two", 2)]
    assert usable_gpus(snapshot, {}, wants, ()) == {}, "two workers of two"
    assert usable_gpus(snapshot, {}, wants[:1], ()) == {"node-0": 3, "node-1": 3, "node-2": 3}
    assert usable_gpus(snapshot, {"node-0": 2, "node-1": 0}, wants[:1], ()) == {"node-0": 0, "node-1": 0, "node-2": 3}
    plan = seen_plan("node-2")
    runs = StoppableJob(RunningJob(request_of(scene, "runs", 3), plan, {"node-2": Claim(gpus=1)}))
    assert usable_gpus(snapshot, {"node-2": 2}, wants[:1], [runs]) == {"node-0": 3, "node-1": 3, "node-2": 2}, "with what it gives away"


def request_of(scene: Stage, name: str, gpus_per_worker: int) -> PlanRequest:
    key = scene.add(name, workers={"min": 1, "max": 2, "gpusPerWorker": gpus_per_worker})
    job = scene.seen(key).job.parsed
    assert job is not None
    return PlanRequest(job_key=str(key), job=job)


async def test_of_two_that_stop_for_one_the_first_without_pods_does_not_start_again_before_the_other() -> None:
    scene = await begun()
    await scene.watch.check()
    status = stopped_status(scene)
    scene.see_long(status)
    scene.see_mpijob(suspended=True)
    twin = Key("team", "twin")
    record = scene.world.jobs[LONG].resource
    metadata = {**record["metadata"], "name": "twin", "uid": "uid-twin"}
    scene.world.see_job({"metadata": metadata, "spec": record["spec"], "status": to_wire(status)})
    view = msgspec.structs.replace(scene.world.mpijobs[LONG], name="twin", uid="mpi-twin", owner_uid="uid-twin")
    scene.world.mpijobs[twin] = view
    scene.world._recount(twin)
    assert twin in scene.world.unstarted
    assert scene.world.releasing == {LONG}
    answer = await scene.ask_for(twin, preempted=True)
    assert answer.found is None
    assert answer.turn is not None
    assert (answer.turn.reason, answer.turn.message) == ("WaitingForTurn", "team/long is giving its GPUs to others")
    await scene.ask_for(SHORT)
    assert [job.request.job_key for job in scene.planner.questions[-1].jobs] == [str(SHORT)], "nor by the question of another"
    scene.see_pods(gone=True)
    assert scene.world.releasing == set()
    await scene.ask_for(twin, preempted=True)
    assert scene.woken[-1] == SHORT, "those for whom they stopped go first"


async def test_who_is_kept_back_waits_a_minute_at_most() -> None:
    scene = await begun()
    await scene.watch.check()
    scene.see_long(stopped_status(scene))
    scene.see_mpijob(suspended=True)
    other = scene.add("other", epochs=20)
    pending = scene.planning.taker.pending
    assert pending.kept_back(other) == LONG
    assert pending.kept_back(SHORT) is None
    await scene.later(61.0)
    assert pending.kept_back(other) is None


async def test_while_a_stop_is_under_way_nothing_more_is_asked() -> None:
    scene = await begun()
    await scene.watch.check()
    await scene.later(60.0)
    await scene.watch.check()
    scene.see_long(stopped_status(scene))
    await scene.later(60.0)
    await scene.watch.check()
    assert len(scene.planner.about_stops) == 1
