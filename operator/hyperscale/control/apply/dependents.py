"""What stands beside an MPIJob: the ConfigMap with the plan as workers read it, and the Jobs that read the graph and write its partitions.

Neither is watched. Each has a name that follows from the job's, so that a pass that was cut off finds again what it made; what another
owner made under that name is left alone.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from hyperscale.control.apply import paths
from hyperscale.control.apply.api_answers import ApiError, ConflictError
from hyperscale.control.apply.client import ApiClient
from hyperscale.control.cache.cluster_cache import ClusterCache
from hyperscale.control.cache.records import Key
from hyperscale.control.milestones import Milestone, OnMilestone
from hyperscale.control.render.batch_jobs import inspect_job, partition_job
from hyperscale.control.render.plan_file import config_map, config_map_name
from hyperscale.control.render.pod import common_labels
from hyperscale.control.render.preflight_pod import network_policy, preflight_job, trial_pod
from hyperscale.model import constants
from hyperscale.model.api.datasets import graph_bytes, is_sized
from hyperscale.model.api.job import JobSpec
from hyperscale.model.decision import Decision, Reason, Stop, Wait
from hyperscale.model.meta import JobMetadata, RenderDefaults
from hyperscale.model.observed.owned_objects import BatchJobView
from hyperscale.model.observed.reconcile_input import ReconcileInput
from hyperscale.model.plan import Plan

Json = dict[str, Any]

HTTP_FORBIDDEN: Final = 403
UNACCEPTABLE: Final = frozenset({400, HTTP_FORBIDDEN, 422})
"""Codes with which the API server says that this object will not do: malformed, against admission policy, invalid."""

PROGRAM_BYTES: Final = 256 * 2**20
"""Python with its libraries, beside the graph. The program itself knows better what its method needs, and refuses in words."""

_KNOWN: Final = 4096
"""Plan files whose uid is remembered; of others it is read again."""


AGAIN_SECONDS: Final = 30.0
"""Until what a quota or a missing right refused is tried again."""
_CURABLE: Final = {"exceeded quota": Reason.QUOTA_EXCEEDED, "cannot create resource": Reason.FORBIDDEN}
"""What the API server's 403 says where the object itself is sound (apiserver's quota evaluator and RBAC authorizer)."""


class DependentRefusedError(Exception):
    """The API server will not have what the job amounts to; the message names the field or the object."""

    def __init__(self, message: str, reason: Reason = Reason.INVALID_POD_TEMPLATE) -> None:
        super().__init__(message)
        self.reason = reason

    @classmethod
    def of(cls, what: str, error: ApiError) -> DependentRefusedError:
        """For the answer to a creation; `what` begins the message."""
        reasons = (reason for text, reason in _CURABLE.items() if error.status == HTTP_FORBIDDEN and text in error.message)
        return cls(f"{what}: {error.message}", next(reasons, Reason.INVALID_POD_TEMPLATE))

    def decision(self) -> Decision:
        """What the pass ends with: what a quota or a missing right refused is tried again."""
        if self.reason in _CURABLE.values():
            return Wait(self.reason, str(self), retry_after_seconds=AGAIN_SECONDS)
        return Stop(self.reason, str(self))


class _BatchJob(NamedTuple):
    """A kind of Job of ours."""

    label: str
    """Holds what it is made for."""
    views: str
    """Attribute of the cache that keeps it."""
    before: Milestone
    created: Milestone
    deleted: Milestone


_PARTITION: Final = _BatchJob(
    constants.PARTITION_KEY_LABEL, "partitions", Milestone.BEFORE_PARTITION, Milestone.PARTITION_CREATED, Milestone.PARTITION_DELETED
)
_INSPECTION: Final = _BatchJob(
    constants.DATASET_KEY_LABEL, "inspections", Milestone.BEFORE_INSPECTION, Milestone.INSPECTION_CREATED, Milestone.INSPECTION_DELETED
)
_PREFLIGHT: Final = _BatchJob(
    constants.PREFLIGHT_KEY_LABEL, "preflights", Milestone.BEFORE_PREFLIGHT, Milestone.PREFLIGHT_CREATED, Milestone.PREFLIGHT_DELETED
)
_NO_DRY_RUN: Final = "does not support dry run"
"""What the API server says of an admission webhook that cannot judge an object without effects."""


class Companions:
    """Creates and updates them, one pass at a time."""

    def __init__(self, client: ApiClient, cache: ClusterCache, defaults: RenderDefaults, on_milestone: OnMilestone) -> None:
        self._client = client
        self._cache = cache
        self._defaults = defaults
        self._on_milestone = on_milestone
        self._files: dict[str, Json] = {}
        """Uid and resource version of the plan file by uid of its job."""

    async def write_plan_file(self, metadata: JobMetadata, plan: Plan) -> None:
        """Make the plan file say `plan`, before the plan is written down anywhere else: a plan in force has its file.

        Raises RefusedError where a ConfigMap of that name has another owner.
        """
        body = config_map(metadata, plan, common_labels(metadata, plan, "plan"))
        name = config_map_name(metadata.name)
        self._on_milestone(Milestone.BEFORE_PLAN_FILE)
        identity = self._files.get(metadata.uid)
        if identity is None:
            plan_file = await self._create(
                paths.config_maps(metadata.namespace), paths.config_maps(metadata.namespace, name), body, metadata
            )
            self._remember(metadata.uid, plan_file)
            if plan_file.get("data") != body["data"]:
                await self._update(metadata, body)
        else:
            await self._update(metadata, body)
        self._on_milestone(Milestone.PLAN_FILE)

    async def _update(self, metadata: JobMetadata, body: Json) -> None:
        path = paths.config_maps(metadata.namespace, body["metadata"]["name"])
        as_read = {**body, "metadata": {**body["metadata"], **self._files[metadata.uid]}}
        try:
            self._remember(metadata.uid, await self._client.apply(path, as_read, constants.FIELD_MANAGER))
        except ApiError:  # it was deleted, and perhaps made again, or another wrote it: look next time
            self._files.pop(metadata.uid, None)
            raise

    def _remember(self, job_uid: str, plan_file: Json) -> None:
        while len(self._files) >= _KNOWN:
            del self._files[next(iter(self._files))]
        self._files[job_uid] = {name: plan_file["metadata"][name] for name in ("uid", "resourceVersion")}

    async def ensure_partitions(self, key: Key, state: ReconcileInput, job: JobSpec) -> None:
        """Create the partition Job, or read how far it is; one for other partitions is deleted, the next pass creates its successor."""
        memory_bytes = graph_bytes(job) + PROGRAM_BYTES if is_sized(job) else None
        body = partition_job(state.job.metadata, job, state.plan.in_force, self._defaults, memory_bytes)
        await self._ensure(key, state.job.metadata, body, _PARTITION)

    async def ensure_inspection(self, key: Key, state: ReconcileInput, job: JobSpec, *, again: bool) -> None:
        """Create the inspect Job, or read how far it is; one for another `spec.dataset` is deleted, and with `again` any."""
        body = inspect_job(state.job.metadata, job, self._defaults)
        await self._ensure(key, state.job.metadata, body, _INSPECTION, again=again)

    async def ensure_preflight(self, key: Key, metadata: JobMetadata, job: JobSpec) -> None:
        """Create the Job that tries the job's code, after its NetworkPolicy, or read how far it is; one for another key is deleted."""
        body = preflight_job(metadata, job, self._defaults)
        existing = await self._client.find(paths.batch_jobs(key.namespace, body["metadata"]["name"]))
        if existing is None or _owner(existing).get("uid") != metadata.uid:  # the NetworkPolicy of an earlier job selects that job's pods
            await self._limit_network(metadata, network_policy(metadata, job))
            await self._try_pod(trial_pod(body))
        await self._ensure(key, metadata, body, _PREFLIGHT)

    async def _limit_network(self, metadata: JobMetadata, policy: Json) -> None:
        """Make the job's NetworkPolicy be this one: one for other data is replaced."""
        collection = paths.network_policies(metadata.namespace)
        path = paths.network_policies(metadata.namespace, policy["metadata"]["name"])
        existing = await self._create(collection, path, policy, metadata)
        self._check_owner(existing, metadata)
        if not _same_policy(existing["spec"], policy["spec"]):
            await self._client.delete(path, existing["metadata"]["uid"], propagation="Background")
            await self._create(collection, path, policy, metadata)

    async def _try_pod(self, pod: Json) -> None:
        """Dry-run the pod: the Job controller would fail to create what the API server refuses, and tell only the Job."""
        try:
            await self._client.create(paths.pods(pod["metadata"]["namespace"]), pod, {"dryRun": "All"})
        except ApiError as error:
            if error.status in UNACCEPTABLE and _NO_DRY_RUN not in error.message:
                raise DependentRefusedError.of("the preflight's pod was refused", error) from error
            if error.status not in UNACCEPTABLE:
                raise

    async def _ensure(self, key: Key, metadata: JobMetadata, body: Json, kind: _BatchJob, *, again: bool = False) -> None:
        path = paths.batch_jobs(key.namespace, body["metadata"]["name"])
        views: dict[Key, BatchJobView] = getattr(self._cache, kind.views)
        existing = await self._client.find(path) if key in views else None
        if existing is None:
            self._on_milestone(kind.before)
            existing = await self._create(paths.batch_jobs(key.namespace), path, body, metadata)
            self._on_milestone(kind.created)
        self._check_owner(existing, metadata)
        existing_metadata = existing["metadata"]
        other = (existing_metadata.get("labels") or {}).get(kind.label) != body["metadata"]["labels"][kind.label]
        if (other or again) and not existing_metadata.get("deletionTimestamp"):
            await self._client.delete(path, existing_metadata["uid"], propagation="Background")
            self._on_milestone(kind.deleted)
            existing = await self._client.find(path)
        self._cache.see_batch_job(views, key, existing)

    async def _create(self, collection: str, path: str, body: Json, metadata: JobMetadata) -> Json:
        """The object as created, or as it is already; raises RefusedError where it is another owner's, or will not do.

        What an earlier job of this name left behind is taken away: the garbage collector may need half a minute for it.
        """
        query = {"fieldManager": constants.FIELD_MANAGER}
        try:
            return await self._client.create(collection, body, query)
        except ConflictError:
            existing = await self._client.get(path)
            if not self._is_left_over(existing, metadata):
                self._check_owner(existing, metadata)
                return existing
            await self._client.delete(path, existing["metadata"]["uid"], propagation="Background")
            return await self._client.create(collection, body, query)
        except ApiError as error:
            if error.status in UNACCEPTABLE:
                raise DependentRefusedError.of(f"the {body['kind']} {body['metadata']['name']} was refused", error) from error
            raise

    def _is_left_over(self, resource: Json, metadata: JobMetadata) -> bool:
        """The operator made it for a job of this name that is gone.

        A user who may write such an object may give it all these marks, and asks for its deletion by that. The garbage collector would
        delete it as well.
        """
        owner = _owner(resource)
        live = owner.get("uid") in {metadata.uid, *(record.uid for record in self._cache.jobs.values())}
        return not live and _is_marked(resource, owner, metadata.name)

    def _check_owner(self, resource: Json, metadata: JobMetadata) -> None:
        """Raise where the object is not the job's: RefusedError, or ConflictError where an earlier job of this name left it."""
        if _owner(resource).get("uid") == metadata.uid:
            return
        kind, name = resource.get("kind") or "object", resource["metadata"]["name"]
        if self._is_left_over(resource, metadata):
            raise ConflictError(409, f"the {kind} {name} of an earlier job of this name is still there")
        message = f'a {kind} "{name}" of another owner exists in namespace {metadata.namespace}; delete it or rename this job'
        raise DependentRefusedError(message, Reason.NAME_CONFLICT)


def _same_policy(existing: Json, wanted: Json) -> bool:
    """Whether a NetworkPolicy allows what is wanted; the API server leaves empty lists out."""
    fields = ("podSelector", "policyTypes", "ingress", "egress")
    return all((existing.get(field) or None) == (wanted.get(field) or None) for field in fields)


def _owner(resource: Json) -> Json:
    return next((entry for entry in resource["metadata"].get("ownerReferences") or () if entry.get("controller")), {})


def _is_marked(resource: Json, owner: Json, name: str) -> bool:
    """Whether the operator made it for a job of this name and of the uid in the owner reference: everything that it makes says so."""
    metadata = resource["metadata"]
    labels = metadata.get("labels") or {}
    group = str(owner.get("apiVersion") or "").partition("/")[0]
    return (
        (group, owner.get("kind"), owner.get("name")) == (constants.GROUP, constants.JOB_KIND, name)
        and (labels.get(constants.MANAGED_BY_LABEL), labels.get(constants.JOB_NAME_LABEL)) == (constants.FIELD_MANAGER, name)
        and labels.get(constants.JOB_UID_LABEL) == owner.get("uid")
        and any(entry.get("manager") == constants.FIELD_MANAGER for entry in metadata.get("managedFields") or ())
    )
