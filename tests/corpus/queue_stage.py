"""A cache of pending jobs and nodes with the real planners and decisions in this process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from hyperscale.control.cache.cluster_cache import ClusterCache
from hyperscale.control.cache.records import Key
from hyperscale.control.render.mpijob import plan_annotation, render
from hyperscale.control.scheduler.admission import PlanAnswer
from hyperscale.control.scheduler.control_context import ControlContext
from hyperscale.control.scheduler.planner_client import Planning
from hyperscale.control.specs.parsed_specs import JobReader, metadata_of
from hyperscale.control.telemetry.metrics import Telemetry
from hyperscale.model import constants
from hyperscale.model.admission_query import AdmissionRequest, AdmissionResult
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.decision import MakePlan, Reason
from hyperscale.model.observed.reconcile_input import JobState, ReconcileClock, ReconcileInput
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.model.running_query import MigrationAnswer, MigrationQuestion, PreemptionAnswer, PreemptionQuestion
from hyperscale.model.status import JobStatus, to_wire
from hyperscale.planner.choice.given_order import plan_in_order
from hyperscale.planner.choice.portfolio import make_plan
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.preempt.preemption_problem import Terms
from hyperscale.planner.preempt.preemption_question import evaluate_preemptions
from hyperscale.planner.queue.joint import take_turns
from hyperscale.planner.queue.placement_oracle import PlacementOracle
from hyperscale.planner.queue.queue_policies import choosers
from hyperscale.planner.together.start_together import TogetherPlanner
from hyperscale.planner.workload.profile import profile
from hyperscale.util.rfc3339 import timestamp
from tests.builders.placement import DEFAULTS

CREATED = 1_767_225_600.0
POLICY = PolicySpec()
STEP = MakePlan(Reason.PLANNING)


class InThisProcess:
    """The real planners and the real decisions, without the process around them."""

    def __init__(self) -> None:
        self.questions: list[AdmissionRequest] = []
        self.about_stops: list[PreemptionQuestion] = []
        self.broken = False

    async def plan(self, request: PlanRequest, snapshot: ClusterSnapshot, policy: PolicySpec) -> Plan | Infeasible:
        return make_plan(request, build(snapshot, policy), profile(request.job), policy)

    async def turns(self, question: AdmissionRequest, snapshot: ClusterSnapshot, policy: PolicySpec) -> AdmissionResult | None:
        self.questions.append(question)
        if self.broken:
            return None
        together = TogetherPlanner(build(snapshot, policy), policy, lambda request: profile(request.job), plan_in_order)
        return take_turns(question, _desk(snapshot, policy), policy.queue, choosers(policy.queue), together)

    async def moves(self, question: MigrationQuestion, snapshot: ClusterSnapshot, policy: PolicySpec) -> MigrationAnswer | None:
        return None

    async def preempt(self, question: PreemptionQuestion, snapshot: ClusterSnapshot, policy: PolicySpec) -> PreemptionAnswer | None:
        self.about_stops.append(question)
        if self.broken:
            return None
        preemption = policy.queue.preemption
        terms = Terms(preemption.min_gain_ratio, preemption.hold_down_seconds, policy.migration.restart_seconds, preemption.max_jobs)
        return evaluate_preemptions(question, _desk(snapshot, policy), policy.queue, terms, choosers(policy.queue))


class Stage:
    """A cache of jobs and nodes, and the planning in it."""

    def __init__(self, nodes: int = 4, gpus: int = 2) -> None:
        self.now = CREATED + 1.0
        self.step_seconds = 0.0
        """By which the clock was set."""
        self.reader = JobReader()
        self.cache = ClusterCache(lambda: self.now, may_start=self.reader.may_start)
        self.cache.replace("Node", [gpu_node(f"node-{number}", gpus) for number in range(nodes)])
        self.planner = InThisProcess()
        self.woken: list[Key] = []
        self.context = ControlContext(
            self.cache, self.reader, Telemetry(), lambda: self.now + self.step_seconds, self.woken.append, monotonic=lambda: self.now
        )
        self.planning = Planning(self.context, self.planner)

    def add(
        self,
        name: str,
        *,
        epochs: int = 10,
        labels: dict[str, str] | None = None,
        version: int = 1,
        created: float = CREATED,
        status: JobStatus | None = None,
        **spec: Any,
    ) -> Key:
        metadata = {
            "namespace": "team",
            "name": name,
            "uid": f"uid-{name}",
            "generation": version,
            "resourceVersion": str(version),
            "creationTimestamp": timestamp(created),
            "labels": labels or {},
        }
        given = {
            "model": {"architecture": "GCN", "epochs": epochs},
            "dataset": {"source": {"builtin": {"name": "Cora"}}},
            "workers": {"minReplicas": 2, "maxReplicas": 3},
        }
        self.cache.see_job({"metadata": metadata, "spec": {**given, **spec}, "status": to_wire(status) if status is not None else {}})
        return Key("team", name)

    def seen(self, key: Key, status: JobStatus | None = None) -> ReconcileInput:
        record = self.cache.jobs[key]
        job, fault = self.reader.read(record.resource, {})
        state = JobState(metadata_of(record.resource), job, status or record.status, fault)
        return ReconcileInput(job=state, clock=ReconcileClock(self.now))

    async def ask(self, key: Key, policy: PolicySpec = POLICY, status: JobStatus | None = None) -> PlanAnswer:
        return await self.planning.make(key, self.seen(key, status), STEP, policy)

    def start(self, key: Key, plan: Plan, conditions: Mapping[str, bool] | None = None, start_time: str = "2026-01-01T00:00:00Z") -> None:
        """Its MPIJob is there, with these conditions."""
        told = [{"type": kind, "status": str(holds)} for kind, holds in (conditions or {}).items()]
        seen = self.seen(key)
        assert seen.job.parsed is not None
        replicas = render(seen.job.metadata, seen.job.parsed, plan, DEFAULTS)["spec"]["mpiReplicaSpecs"]
        self.cache.see_mpijob(
            {
                "metadata": {
                    "namespace": "team",
                    "name": key.name,
                    "uid": f"mpi-{key.name}",
                    "resourceVersion": "7",
                    "annotations": {constants.PLAN_ANNOTATION: plan_annotation(plan)},
                    "ownerReferences": [{"uid": f"uid-{key.name}", "controller": True}],
                },
                "spec": {"mpiReplicaSpecs": replicas},
                "status": {"startTime": start_time or None, "conditions": told},
            }
        )
        self.planning.end_reconcile(key)

    async def run(self, *keys: Key) -> dict[Key, Plan]:
        """Passes over these jobs, one after the other; those that got a plan."""
        plans = {}
        for key in keys:
            answer = await self.ask(key)
            if isinstance(answer.outcome, Plan):
                plans[key] = answer.outcome
                self.start(key, answer.outcome)
            else:
                self.planning.end_reconcile(key)
        return plans


def _desk(snapshot: ClusterSnapshot, policy: PolicySpec) -> PlacementOracle:
    return PlacementOracle(
        build(snapshot, policy), policy, lambda request, graph, _: make_plan(request, graph, profile(request.job), policy)
    )


def gpu_node(name: str, gpus: int) -> dict[str, Any]:
    """A Ready node of `gpus` A100, as the API server gives it."""
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}},
        "status": {
            "allocatable": {"cpu": "32", "memory": "256Gi", constants.GPU_RESOURCE: str(gpus)},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def taken(plans: dict[Key, Plan]) -> Counter[str]:
    return sum((Counter(plan.gpus_by_node()) for plan in plans.values()), Counter())
