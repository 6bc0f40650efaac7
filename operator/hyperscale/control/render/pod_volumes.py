"""What a job's pods mount: the training graph, its partitions, checkpoints, the plan."""

from __future__ import annotations

from pathlib import PurePosixPath

from hyperscale.control.render import environment
from hyperscale.control.render.plan_file import config_map_name
from hyperscale.control.render.template import Json, mappings_at
from hyperscale.model.api.job import JobSpec
from hyperscale.model.meta import JobMetadata
from hyperscale.model.plan import Plan
from hyperscale.model.runplan import RUN_PLAN_FILE


def mount_data(spec: Json, container: Json, job: JobSpec, path: str) -> None:
    """Mount what the training graph is read from, and shared memory for NCCL and DGL's loaders."""
    source = job.dataset.source
    _mount(spec, container, "hyperscale-shm", {"emptyDir": {"medium": "Memory"}}, "/dev/shm", path)  # noqa: S108 - a mount point, not a file
    if source.persistent_volume_claim is not None:
        claim = {"persistentVolumeClaim": {"claimName": source.persistent_volume_claim.claim_name, "readOnly": True}}
        _mount(spec, container, "hyperscale-dataset", claim, environment.DATA_PATH, path, read_only=True)
    if source.config_map is not None:
        graph = {"configMap": {"name": source.config_map.name}}
        _mount(spec, container, "hyperscale-dataset", graph, environment.DATA_PATH, path, read_only=True)


def mount_partitions(spec: Json, container: Json, job: JobSpec, path: str, *, read_only: bool) -> None:
    """Mount the volume of partitions where the job names one."""
    if (name := job.partitioning.claim_name) is not None:
        claim: Json = {"persistentVolumeClaim": {"claimName": name, **({"readOnly": True} if read_only else {})}}
        _mount(spec, container, "hyperscale-partitions", claim, environment.PARTITION_PATH, path, read_only=read_only)


def mount_run(spec: Json, container: Json, job: JobSpec, path: str) -> None:
    """Mount what a rank reads and writes beside the training graph: partitions and checkpoints."""
    mount_partitions(spec, container, job, path, read_only=True)
    if job.checkpoint is not None:
        claim = {"persistentVolumeClaim": {"claimName": job.checkpoint.claim_name}}
        _mount(spec, container, "hyperscale-checkpoints", claim, environment.CHECKPOINT_PATH, path)


def mount_plan(spec: Json, container: Json, metadata: JobMetadata, plan: Plan | None, path: str) -> None:
    """Mount the ConfigMap of the plan as a folder. The kubelet keeps a folder up to date, but not a single file of the ConfigMap.

    The ConfigMap is there before the MPIJob. Were it optional, a kubelet that does not know it yet would start the pod without it.
    """
    if plan is not None:
        folder = str(PurePosixPath(RUN_PLAN_FILE).parent)
        _mount(spec, container, "hyperscale-plan", {"configMap": {"name": config_map_name(metadata.name)}}, folder, path, read_only=True)


def _mount(spec: Json, container: Json, name: str, source: Json, at: str, path: str, *, read_only: bool = False) -> None:
    """Mount a volume, unless the user's container has something there already."""
    mounts = mappings_at(container, "volumeMounts", f"{path}.containers[0]")
    if any(str(mount.get("mountPath")).rstrip("/") == at for mount in mounts):
        return
    mappings_at(spec, "volumes", path).append({"name": name, **source})
    mounts.append({"name": name, "mountPath": at, **({"readOnly": True} if read_only else {})})
