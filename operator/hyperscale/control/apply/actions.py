"""Carrying a decision out: the few writes that the operator makes. Each may be repeated after a crash without doing harm twice."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from typing import Any, Final

import msgspec

from hyperscale.control.apply import paths
from hyperscale.control.apply.api_answers import ApiError, ConflictError, NotFoundError
from hyperscale.control.apply.client import ApiClient
from hyperscale.control.apply.dependents import HTTP_FORBIDDEN, UNACCEPTABLE, Companions, DependentRefusedError
from hyperscale.control.apply.undeclared_fields import UndeclaredFields
from hyperscale.control.cache.cluster_cache import ClusterCache
from hyperscale.control.cache.records import Key
from hyperscale.control.lifecycle.movable import resizes
from hyperscale.control.milestones import Milestone, OnMilestone
from hyperscale.control.render.mpijob import launcher_pod_for_dry_run, plan_annotation, render, suspend_annotation, worker_pod_for_dry_run
from hyperscale.control.render.release import launcher_release_patch, release_patch
from hyperscale.model import constants
from hyperscale.model.api.job import JobSpec
from hyperscale.model.decision import DeletePods, OpenLauncher, ReleaseWorkers, SetSuspend
from hyperscale.model.meta import JobMetadata, RenderDefaults
from hyperscale.model.observed.owned_objects import MpiJobView
from hyperscale.model.observed.reconcile_input import ReconcileInput
from hyperscale.model.plan import Plan
from hyperscale.model.pods import LAUNCHER, PodView
from hyperscale.model.status import JobStatus, to_wire
from hyperscale.util.rfc3339 import timestamp

_LOG = logging.getLogger(__name__)

Json = dict[str, Any]

_CHECKED_TEMPLATES: Final = 1024
"""Templates remembered as accepted by the API server."""


LOOK_HOLDS_SECONDS: Final = 0.25
"""How long after its beginning a pass may create without asking the API server again; watches deliver within milliseconds."""


class Actions:
    """Writes to the API on behalf of one pass at a time; every answer goes straight into the cache."""

    def __init__(
        self, client: ApiClient, cache: ClusterCache, defaults: RenderDefaults, on_milestone: OnMilestone, clock: Callable[[], float]
    ) -> None:
        self._client = client
        self._cache = cache
        self._defaults = defaults
        self._clock = clock
        self._on_milestone = on_milestone
        self._accepted: dict[str, None] = {}
        self._undeclared = UndeclaredFields()
        self._companions = Companions(client, cache, defaults, on_milestone)
        self._told_of_workloads = False

    def server_ahead_seconds(self, now: float) -> float:
        """By how much the API server's clock is ahead of `now` (Unix seconds of this machine)."""
        return self._client.server_time.ahead_seconds(now)

    async def create_mpijob(self, key: Key, state: ReconcileInput, job: JobSpec, began: float) -> None:
        """Create the MPIJob, after its plan file, unless the job moved meanwhile; raises RefusedError where the API server refuses.

        The watch has just reported a new job. Where the job was reconciled before, or the pass that `began` then took long, the API
        server itself is asked: what a watch that broke did not tell must not come back to life.
        """
        await self._confirm_unless_new(key, state, began)
        manifest = render(state.job.metadata, job, state.plan.in_force, self._defaults)
        await self._check_templates(key, job, manifest)
        if state.plan.in_force is not None:
            await self._companions.write_plan_file(state.job.metadata, state.plan.in_force)
        self._on_milestone(Milestone.BEFORE_CREATE)
        try:
            created = await self._client.create(paths.mpijobs(key.namespace), manifest, {"fieldManager": constants.FIELD_MANAGER})
        except ApiError as error:
            if error.status in UNACCEPTABLE:
                raise DependentRefusedError.of("the MPIJob was refused", error) from error
            raise
        self._cache.see_mpijob(created, created_here=True)
        self._on_milestone(Milestone.CREATED)

    async def write_plan_file(self, metadata: JobMetadata, plan: Plan) -> None:
        """Tell running workers, and those to come, of a new plan."""
        await self._companions.write_plan_file(metadata, plan)

    async def ensure_partitions(self, key: Key, state: ReconcileInput, job: JobSpec, began: float) -> None:
        """Create the Job that writes partitions, or read how far it is."""
        await self._confirm_unless_new(key, state, began)
        await self._companions.ensure_partitions(key, state, job)

    async def ensure_inspection(self, key: Key, state: ReconcileInput, job: JobSpec, began: float, *, again: bool) -> None:
        """Create the Job that reads the sizes of the graph, or read how far it is; `again` deletes one whose report is gone."""
        await self._confirm_unless_new(key, state, began)
        await self._companions.ensure_inspection(key, state, job, again=again)

    async def ensure_preflight(self, key: Key, state: ReconcileInput, job: JobSpec) -> None:
        """Create the Job that tries the job's code, or read how far it is; raises ConflictError where the job has changed meanwhile."""
        await self._confirm(key, state)
        await self._companions.ensure_preflight(key, state.job.metadata, job)

    async def _confirm_unless_new(self, key: Key, state: ReconcileInput, began: float) -> None:
        if state.job.status.observed_generation or self._clock() - began > LOOK_HOLDS_SECONDS:
            await self._confirm(key, state)

    async def _confirm(self, key: Key, state: ReconcileInput) -> None:
        """Raise ConflictError when the job is not what the pass saw."""
        current = await self._client.find(paths.jobs(*key))
        if current is None or current["metadata"]["uid"] != state.job.metadata.uid:
            raise ConflictError(409, "the job was deleted during the pass")
        if current["metadata"].get("generation") != state.job.metadata.generation or current["metadata"].get("deletionTimestamp"):
            self._cache.see_job(current)
            raise ConflictError(409, "the job was changed during the pass")

    async def release(self, state: ReconcileInput, step: ReleaseWorkers, job: JobSpec) -> None:
        """Open the gates of all workers; each patch tests its gate, so that no newer decision of others is overwritten."""
        for count, pod in enumerate(pod for pod in state.gang.workers if pod.uid in step.nodes):
            hostname = self._cache.snapshots.hostname(step.nodes[pod.uid])
            await self._patch_pod(pod, release_patch(pod, hostname, job.placement.mode))
            if count == 0:
                self._on_milestone(Milestone.FIRST_GATE_OPENED)
        self._on_milestone(Milestone.GATES_OPENED)

    async def open_launcher(self, state: ReconcileInput, step: OpenLauncher) -> None:
        """Open the launcher's gate.

        Where the launcher goes by the plan file that must say the plan in force: one that a crash kept from being written down is there
        as a file only.
        """
        plan, mpijob = state.plan.in_force, state.gang.mpijob
        if plan is not None and mpijob is not None and mpijob.resizable:
            await self._companions.write_plan_file(state.job.metadata, plan)
        self._on_milestone(Milestone.BEFORE_LAUNCHER)
        for pod in state.gang.launchers:
            if pod.uid in step.pod_uids:
                await self._patch_pod(pod, launcher_release_patch(pod))

    async def delete_pods(self, state: ReconcileInput, step: DeletePods) -> None:
        """Delete exactly these pods, by uid; by force only where the job opted in."""
        for pod in state.gang.pods:
            if pod.uid in step.pod_uids:
                await self._client.delete(paths.pods(pod.namespace, pod.name), pod.uid, grace_seconds=0 if step.force else None)
                if step.force and pod.role == LAUNCHER:
                    await self._untrack(pod)

    async def _untrack(self, pod: PodView) -> None:
        """Take a launcher from its Job.

        mpi-operator 0.8.2 has the Job keep what has not failed, with a finalizer, and make no other launcher before; on a lost node no
        component says that it failed.
        """
        path = paths.pods(pod.namespace, pod.name)
        left = await self._client.find(path)
        finalizers = left["metadata"].get("finalizers", []) if left is not None and left["metadata"]["uid"] == pod.uid else []
        if left is not None and constants.JOB_TRACKING_FINALIZER in finalizers:
            others = [name for name in finalizers if name != constants.JOB_TRACKING_FINALIZER]
            metadata = {"uid": pod.uid, "resourceVersion": left["metadata"]["resourceVersion"], "finalizers": others or None}
            await self._client.merge(path, {"metadata": metadata}, constants.FIELD_MANAGER)

    async def set_suspend(self, key: Key, state: ReconcileInput, step: SetSuspend) -> None:
        """Carry `suspend` to an MPIJob that no queue owns."""
        mpijob = state.gang.mpijob
        if mpijob is None:
            return
        self._on_milestone(Milestone.BEFORE_SUSPEND if step.suspend else Milestone.BEFORE_RESUME)
        self._cache.see_mpijob(await self._client.merge(paths.mpijobs(*key), suspension(mpijob, state, step), constants.FIELD_MANAGER))

    async def find_workload(self, key: Key, mpijob: MpiJobView) -> str | None:
        """Name of the Kueue Workload that stands for an MPIJob; "" where there is none, None where Kueue cannot be asked."""
        query = {"labelSelector": f"{constants.KUEUE_JOB_UID_LABEL}={mpijob.uid}", "limit": "1"}
        for path in paths.kueue_workloads(key.namespace):
            try:
                workloads = await self._client.get(path, query)
            except NotFoundError:
                continue
            except ApiError as error:
                if error.status != HTTP_FORBIDDEN:
                    raise
                if not self._told_of_workloads:
                    self._told_of_workloads = True
                    _LOG.warning("Kueue's Workloads cannot be listed, messages do not name them: %s", error)
                return None
            return next((str(item["metadata"]["name"]) for item in workloads.get("items") or ()), "")
        return None

    async def write_status(self, key: Key, metadata: JobMetadata, status: JobStatus, version: str) -> None:
        """Server-side apply of the whole status to the job as it was seen, by uid and resource version; raises ConflictError for another.

        A status that the operator cannot have written is taken away first: applying leaves fields that others own as they are.
        """
        self._on_milestone(Milestone.BEFORE_STATUS)
        record = self._cache.jobs.get(key)
        if record is not None and record.status_fault:
            cleared = {"metadata": {"uid": metadata.uid, "resourceVersion": version}, "status": None}
            answer = await self._client.merge(f"{paths.jobs(*key)}/status", cleared, constants.FIELD_MANAGER)
            version = answer["metadata"]["resourceVersion"]
        identity = {"name": key.name, "namespace": key.namespace, "uid": metadata.uid}
        body: Json = {
            "apiVersion": constants.API_VERSION,
            "kind": constants.JOB_KIND,
            "metadata": identity | ({"resourceVersion": version} if version else {}),
        }
        self._cache.see_job(await self._apply_status(f"{paths.jobs(*key)}/status", body, to_wire(status)))
        self._cache.wrote_status(key, metadata.uid, status)
        self._on_milestone(Milestone.AFTER_STATUS)

    async def _apply_status(self, path: str, body: Json, status: Json) -> Json:
        """Apply the status; without the fields that the API server does not know, where the CRD is of an earlier version."""
        given = self._undeclared.left_out(status, self._clock())
        try:
            return await self._client.apply(path, {**body, "status": given}, constants.FIELD_MANAGER)
        except ApiError as error:
            if not self._undeclared.learn(error.message, self._clock()):
                raise
        given = self._undeclared.left_out(status, self._clock())
        return await self._client.apply(path, {**body, "status": given}, constants.FIELD_MANAGER)

    async def emit(self, metadata: JobMetadata, reason: str, message: str, warning: bool) -> None:
        """A v1 Event on the job; losing one is logged and harms nothing."""
        now = timestamp(self._clock())
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{metadata.name}.", "namespace": metadata.namespace},
            "involvedObject": {
                "apiVersion": constants.API_VERSION,
                "kind": constants.JOB_KIND,
                "name": metadata.name,
                "namespace": metadata.namespace,
                "uid": metadata.uid,
            },
            "reason": reason,
            "message": message[:1024],
            "type": "Warning" if warning else "Normal",
            "source": {"component": "hyperscale"},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            await self._client.create(paths.events(metadata.namespace), body)
        except ApiError as error:
            _LOG.warning("an event was lost: %s", error, extra={"job": metadata.key, "reason": reason})

    async def _patch_pod(self, pod: PodView, operations: list[Json]) -> None:
        self._cache.see_pod(await self._client.json_patch(paths.pods(pod.namespace, pod.name), operations, constants.FIELD_MANAGER))

    async def _check_templates(self, key: Key, job: JobSpec, manifest: Json) -> None:
        """Dry-run the rendered pods where the job brings templates of its own: a bad one is shown here, not in a pod controller's log."""
        templates = {"launcher": job.launcher.template, "workers": job.workers.template}
        if not any(templates.values()):
            return
        digest = hashlib.sha256(msgspec.json.encode([key.namespace, templates], order="deterministic")).hexdigest()
        if digest in self._accepted:
            return
        for section, pod in (("workers", worker_pod_for_dry_run(manifest)), ("launcher", launcher_pod_for_dry_run(manifest))):
            try:
                await self._client.create(paths.pods(key.namespace), pod, {"dryRun": "All"})
            except ApiError as error:
                if error.status in UNACCEPTABLE:
                    raise DependentRefusedError.of(f"spec.{section}.template", error) from error
                raise
        while len(self._accepted) >= _CHECKED_TEMPLATES:
            del self._accepted[next(iter(self._accepted))]
        self._accepted[digest] = None


def suspension(mpijob: MpiJobView, state: ReconcileInput, step: SetSuspend) -> Json:
    """The merge patch that suspends or resumes the MPIJob; with a move the plan too, where a lost status is made good from.

    It says in the same request that the operator did so, and fails where the MPIJob was changed meanwhile: what another writes to `suspend`
    is not overwritten.
    Its number of workers follows when none is left: mpi-operator takes away only the pods of workers that the MPIJob has.
    """
    metadata = {"uid": mpijob.uid, "annotations": {constants.SUSPEND_ANNOTATION: suspend_annotation(step.suspend)}}
    body: Json = {"metadata": metadata, "spec": {"runPolicy": {"suspend": step.suspend}}}
    if mpijob.resource_version:
        body["metadata"]["resourceVersion"] = mpijob.resource_version
    plan = state.plan.in_force
    if state.restart.migrating and plan is not None:
        body["metadata"]["labels"] = {constants.PLAN_ID_LABEL: plan.plan_id}
        body["metadata"]["annotations"][constants.PLAN_ANNOTATION] = plan_annotation(plan)
        if resizes(state) and not step.suspend:
            body["spec"]["mpiReplicaSpecs"] = {"Worker": {"replicas": len(plan.workers)}}
    return body
