"""A long job that runs, a short one that waits, and the watch that weighs one against the other."""

from __future__ import annotations

from typing import Any

from hyperscale.control.cache.records import Key
from hyperscale.control.lifecycle.queue_wait import WAITING_CONDITION
from hyperscale.control.lifecycle.stoppable import PREEMPTED_CONDITION
from hyperscale.control.render.mpijob import plan_annotation
from hyperscale.control.scheduler.admission import PlanAnswer
from hyperscale.control.telemetry.metrics import Telemetry
from hyperscale.model import constants
from hyperscale.model.api.condition import Condition
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import MetricsState
from hyperscale.model.decision import MakePlan, Reason
from hyperscale.model.metrics_reading import MetricsReading, Series
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.model.status import JobStatus, to_wire
from tests.builders.seen import changed
from tests.corpus.queue_stage import Stage

LONG, SHORT = Key("team", "long"), Key("team", "short")

EPOCHS = 1_000_000

CHECKPOINT = {"claimName": "state", "everyEpochs": 10}


class Scene(Stage):
    """One node of two GPUs with a long job on both, which has run for an hour, and a short one that waits."""

    def __init__(
        self, mode: str = "Automatic", queue: dict[str, Any] | None = None, migration: dict[str, Any] | None = None, **long: Any
    ) -> None:
        super().__init__(nodes=1, gpus=2)
        self.version = 10
        self.queue = {"preemption": {"mode": mode, "checkPeriodSeconds": 10, "holdDownSeconds": 60}, **(queue or {})}
        self.set_policy({"queue": self.queue, "migration": {"restartSeconds": 5, **(migration or {})}})
        self.watch = self.planning.preemption
        self.long_spec = {
            "model": {"architecture": "GCN", "epochs": EPOCHS},
            "workers": {"minReplicas": 1, "maxReplicas": 2},
            "checkpoint": CHECKPOINT,
            **long,
        }
        self.plan: Plan | None = None

    def set_policy(self, spec: dict[str, Any]) -> None:
        self.version += 1
        self.cache.see_policy({"metadata": {"name": "default", "uid": "p", "generation": self.version}, "spec": spec})

    @property
    def policy(self) -> PolicySpec:
        return self.reader.policy_named("default", self.cache.policies)

    async def begin(self) -> None:
        """The long job runs; an hour later the short one comes and gets the answer to wait."""
        self.see_long(JobStatus())
        answer = await self.planning.make(LONG, self.seen(LONG), MakePlan(Reason.PLANNING), self.policy)
        assert isinstance(answer.outcome, Plan)
        self.plan = answer.outcome
        self.see_long(JobStatus(plan=self.plan))
        self.see_mpijob(suspended=False)
        self.see_pods(gone=False)
        self.planning.drop(LONG)
        await self.later(3600.0)
        self.add("short", epochs=10, workers={"minReplicas": 2, "maxReplicas": 2})
        await self.ask_for(SHORT)

    async def later(self, seconds: float) -> None:
        self.now += seconds
        use = tuple(Series({"Hostname": "node-0", "gpu": str(gpu)}, 1.0, self.now) for gpu in range(2))
        self.cache.snapshots.reading = MetricsReading(self.now, MetricsState(available=True), {"gpu_utilization": use})

    async def ask_for(self, key: Key, preempted: bool = False) -> PlanAnswer:
        """A pass over a job, as far as its plan."""
        look = changed(self.seen(key), preempted=preempted, mpijob=self.cache.mpijobs.get(key))
        answer = await self.planning.make(key, look, MakePlan(Reason.PLANNING, workers_fixed=2 if preempted else None), self.policy)
        if answer.outcome is None or isinstance(answer.outcome, Infeasible):
            self.planning.end_reconcile(key)
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
        self.cache.see_job({"metadata": metadata, "spec": spec, "status": to_wire(status)})

    async def begin_alone(self, workers: int, resizable: bool) -> None:
        """The long job runs with `workers` workers and nothing waits; an hour later its measurements are fresh."""
        self.see_long(JobStatus())
        answer = await self.planning.make(LONG, self.seen(LONG), MakePlan(Reason.PLANNING, workers_fixed=workers), self.policy)
        assert isinstance(answer.outcome, Plan)
        self.plan = answer.outcome
        self.see_long(JobStatus(plan=self.plan))
        self.see_mpijob(suspended=False, resizable=resizable)
        self.see_pods(gone=False)
        self.planning.drop(LONG)
        await self.later(3600.0)

    def see_mpijob(self, suspended: bool, start_time: str = "2026-01-01T00:00:10Z", resizable: bool = False) -> None:
        assert self.plan is not None
        self.version += 1
        gates = [{"name": constants.PLACEMENT_GATE}]
        worker = {"replicas": len(self.plan.workers), "template": {"spec": {"schedulingGates": gates}}}
        metadata = {
            "namespace": "team",
            "name": "long",
            "uid": "mpi-long",
            "resourceVersion": str(self.version),
            "annotations": {constants.PLAN_ANNOTATION: plan_annotation(self.plan)}
            | ({constants.RESIZABLE_ANNOTATION: ""} if resizable else {}),
            "ownerReferences": [{"uid": "uid-long", "controller": True}],
        }
        conditions = [] if suspended else [{"type": "Running", "status": "True"}]
        spec = {"runPolicy": {"suspend": suspended}, "mpiReplicaSpecs": {"Worker": worker}}
        self.cache.see_mpijob({"metadata": metadata, "spec": spec, "status": {"startTime": start_time, "conditions": conditions}})

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
            self.cache.see_pod({"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}, deleted=gone)

    def outcomes(self) -> dict[str, float]:
        telemetry: Telemetry = self.planning.preemption._telemetry
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
    preempted = Condition(PREEMPTED_CONDITION, "True", "PreemptedForOthers")
    waiting = Condition(WAITING_CONDITION, "True", "InQueue", observed_generation=1, last_transition_time=last.start_time)
    return JobStatus(plan=scene.plan, conditions=(preempted, waiting), last_preemption=last, preemptions=1)


def request_of(scene: Stage, name: str, gpus_per_worker: int) -> PlanRequest:
    key = scene.add(name, workers={"minReplicas": 1, "maxReplicas": 2, "resources": {"limits": {"nvidia.com/gpu": gpus_per_worker}}})
    job = scene.seen(key).job.parsed
    assert job is not None
    return PlanRequest(job_key=str(key), job=job)
