"""The real reconciler, cache and planners before an API server that is a table of objects, without a garbage collector."""

from __future__ import annotations

import copy
import itertools
import time
from collections.abc import Callable
from typing import Any, cast

from hyperscale.control.apply import paths
from hyperscale.control.apply.actions import Actions
from hyperscale.control.apply.api_answers import ConflictError, NotFoundError
from hyperscale.control.apply.claims import Claims
from hyperscale.control.apply.client import ApiClient
from hyperscale.control.apply.pace import ServerTime
from hyperscale.control.cache.cluster_cache import ClusterCache
from hyperscale.control.cache.records import Key
from hyperscale.control.controller.reconciler import DEFAULT_HOOKS, Reconciler
from hyperscale.control.controller.workqueue import RetryLaterError, WorkQueue
from hyperscale.control.history.decision_recorder import DecisionRecorder
from hyperscale.control.history.recorder import RunRecorder
from hyperscale.control.scheduler.control_context import ControlContext
from hyperscale.control.scheduler.plan_evaluation import Evaluations
from hyperscale.control.scheduler.planner_client import Planning
from hyperscale.control.specs.parsed_specs import JobReader
from hyperscale.control.telemetry.metrics import Telemetry
from hyperscale.model import constants
from hyperscale.model.admission_query import AdmissionRequest, AdmissionResult
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.meta import RenderDefaults
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.util.rfc3339 import timestamp
from tests.corpus.queue_stage import InThisProcess, gpu_node

Object = dict[str, Any]

CORA, OTHER = Key("team", "cora"), Key("team", "other")
SPEC: Object = {
    "model": {"architecture": "GCN", "epochs": 10},
    "dataset": {"source": {"builtin": {"name": "Cora"}}},
    "workers": {"minReplicas": 2, "maxReplicas": 2},
}
FOUR: Object = {"workers": {"minReplicas": 4, "maxReplicas": 4}}


class Table:
    """Objects by path, with the part of the client that the operator's actions use."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.versions = itertools.count(100)
        self.server_time = ServerTime(time.monotonic)
        self.refused: Callable[[str], None] = lambda path: None
        """Called with the path of everything that is about to be created; raises where the API server refuses it."""

    def put(self, path: str, body: Object) -> Object:
        kept = copy.deepcopy(body)
        kept["metadata"] = {
            "uid": f"of-{next(self.versions)}",
            "generation": 1,
            "managedFields": [{"manager": constants.FIELD_MANAGER}],
            "creationTimestamp": timestamp(time.time() - 1.0),
            **kept["metadata"],
        }
        self.objects[path] = kept
        return self._changed(path)

    def _changed(self, path: str) -> Object:
        self.objects[path]["metadata"]["resourceVersion"] = str(next(self.versions))
        return copy.deepcopy(self.objects[path])

    async def create(self, collection: str, body: Object, query: dict[str, str] | None = None) -> Object:
        if (query and query.get("dryRun")) or collection.endswith("/events"):
            return body
        path = f"{collection}/{body['metadata']['name']}"
        self.refused(path)
        if path in self.objects:
            raise ConflictError(409, "exists")
        return self.put(path, body)

    async def find(self, path: str) -> Object | None:
        return copy.deepcopy(self.objects.get(path))

    async def get(self, path: str, query: dict[str, str] | None = None) -> Object:
        if path not in self.objects:
            raise NotFoundError(404, "there is none")
        return copy.deepcopy(self.objects[path])

    async def delete(self, path: str, uid: str, propagation: str = "") -> None:
        if path in self.objects and self.objects[path]["metadata"]["uid"] == uid:
            del self.objects[path]

    async def apply(self, path: str, body: Object, manager: str) -> Object:
        path, given = path.removesuffix("/status"), body["metadata"]
        current = (await self.get(path))["metadata"]
        if given["uid"] != current["uid"] or given.get("resourceVersion", current["resourceVersion"]) != current["resourceVersion"]:
            raise ConflictError(409, "it has changed")
        self.objects[path] |= {field: value for field, value in body.items() if field != "metadata"}
        return self._changed(path)


class Planner(InThisProcess):
    """Calls `meanwhile` once while the next plan, or the next answer about several jobs, is on its way."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], None] | None = None

    async def plan(self, request: PlanRequest, snapshot: ClusterSnapshot, policy: PolicySpec) -> Plan | Infeasible:
        answer = await super().plan(request, snapshot, policy)
        self._pass_time()
        return answer

    async def turns(self, question: AdmissionRequest, snapshot: ClusterSnapshot, policy: PolicySpec) -> AdmissionResult | None:
        answer = await super().turns(question, snapshot, policy)
        if len(question.jobs) > 1:
            self._pass_time()
        return answer

    def _pass_time(self) -> None:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()


class ReconcileStage:
    """Passes over jobs."""

    def __init__(self, nodes: int = 4, gpus: int = 2, evaluations: Evaluations | None = None) -> None:
        self.table, self.planner = Table(), Planner()
        client = cast("ApiClient", self.table)
        claims = Claims(client, time.time)
        reader = JobReader(claims.claimed_volumes)
        self.cache = ClusterCache(time.time, may_start=reader.may_start)
        self.cache.replace("Node", [gpu_node(f"node-{number}", gpus) for number in range(nodes)])
        self.queue: WorkQueue[Key] = WorkQueue(4, lambda error: None)
        self.telemetry = Telemetry()
        context = ControlContext(self.cache, reader, self.telemetry, time.time, self.queue.add)
        self.planning = Planning(context, self.planner, claims, evaluations)
        self.actions = Actions(client, self.cache, RenderDefaults(worker_image="example.com/worker:1"), lambda _: None, time.time)
        recorders = RunRecorder(reader, self.telemetry, "", 1, time.time), DecisionRecorder(reader, self.telemetry, "", time.time)
        self.reconciler = Reconciler(context, self.queue, self.planning, self.actions, recorders, DEFAULT_HOOKS)

    def create(self, key: Key, uid: str, **spec: Any) -> None:
        """A job, told to the cache."""
        known = key in self.cache.jobs
        body = {"metadata": {"namespace": key.namespace, "name": key.name, "uid": uid}, "spec": {**SPEC, **spec}}
        self.cache.see_job(self.table.put(paths.jobs(*key), body))
        if not known:
            self.reconciler.enqueue_first(key)

    def edit(self, key: Key, **spec: Any) -> None:
        found = self.table.objects[paths.jobs(*key)]
        metadata = {**found["metadata"], "generation": found["metadata"]["generation"] + 1}
        self.cache.see_job(self.table.put(paths.jobs(*key), {**found, "metadata": metadata, "spec": {**SPEC, **spec}}))

    def replace(self, key: Key, uid: str, *, told: bool, mpijob_too: bool = True, **spec: Any) -> None:
        """The job is deleted and another one of its name made, before a pass sees that; told: the deletion reaches the cache."""
        gone = self.table.objects.pop(paths.jobs(*key))
        gone["metadata"]["resourceVersion"] = str(next(self.table.versions))
        if told:
            self.cache.see_job(gone, deleted=True)
        if mpijob_too:
            self.delete_mpijob(key)
        self.create(key, uid, **spec)

    def delete_mpijob(self, key: Key) -> None:
        gone = self.table.objects.pop(paths.mpijobs(*key), None)
        if gone is not None:
            gone["metadata"]["resourceVersion"] = str(next(self.table.versions))
            self.cache.see_mpijob(gone, deleted=True)

    async def reconcile(self, key: Key, passes: int = 1) -> None:
        """Passes; one that is to be made again is."""
        for _ in range(passes):
            try:
                await self.reconciler.reconcile(key)
            except RetryLaterError:
                await self.reconciler.reconcile(key)

    def workers(self, key: Key) -> tuple[str, int]:
        """Owner and workers of the MPIJob."""
        view = self.cache.mpijobs[key]
        return view.owner_uid, view.workers
