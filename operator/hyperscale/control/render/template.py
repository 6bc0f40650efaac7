"""The user's pod template, made safe to work on. Every step into it knows its path, and what cannot be merged is refused by that path.

The template is free-form in the CRD, so nothing about its shape is certain here. What the operator owns is checked or overwritten;
the rest travels as it is and is judged by the API server's dry run of the rendered pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final

from hyperscale.model import constants
from hyperscale.model.api.job import JobSpec
from hyperscale.model.constants import GPU_RESOURCE
from hyperscale.model.meta import JobMetadata
from hyperscale.model.planning import Toleration, toleration
from hyperscale.util.quantity import parse_exact

Json = dict[str, Any]

RESERVED_VOLUMES: Final = frozenset(
    {
        "ssh-auth",
        "mpi-job-config",
        "hyperscale-shm",
        "hyperscale-dataset",
        "hyperscale-checkpoints",
        "hyperscale-plan",
        "hyperscale-partitions",
        "hyperscale-preflight",
        "hyperscale-scratch",
    }
)
"""The first two are added by mpi-operator, the others by the renderer."""
WORKER_RESOURCES: Final = "spec.workers.resources"
GPU_TOLERATION: Final = {"key": GPU_RESOURCE, "operator": "Exists"}
"""GPU nodes commonly carry this taint to keep other pods away."""


class RenderError(ValueError):
    """The job's template cannot be rendered: `path` is the field, `message` says what to write instead."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.message = message


def mapping_at(parent: Json, key: str, path: str) -> Json:
    """The map under `key`, put there when absent or null; raises RenderError when it is something else."""
    value = parent.get(key)
    if value is None:
        value = parent[key] = {}
    if not isinstance(value, dict):
        raise RenderError(f"{path}.{key}", "must be a map")
    return value


def mappings_at(parent: Json, key: str, path: str) -> list[Json]:
    """The list of maps under `key`, put there when absent or null; raises RenderError when it is something else."""
    value = parent.get(key)
    if value is None:
        value = parent[key] = []
    if not isinstance(value, list):
        raise RenderError(f"{path}.{key}", "must be a list")
    for index, item in enumerate(value):
        if not isinstance(item, dict):
            raise RenderError(f"{path}.{key}[{index}]", "must be a map")
    return value


def text_map_at(parent: Json, key: str, path: str) -> dict[str, str]:
    """As `mapping_at`, with text values only: labels, annotations, node selectors."""
    value = mapping_at(parent, key, path)
    for name, item in value.items():
        if not isinstance(name, str) or not isinstance(item, str):
            raise RenderError(f"{path}.{key}.{name}", f"must be text; write {str(item)!r} in quotes")
    return value


def own_copy(template: Mapping[str, Any], path: str) -> Json:
    """A copy of the template to work on, holding nothing but metadata and spec; raises RenderError on any other field."""
    copy: Json = deepcopy(dict(template))
    for key in sorted(copy):
        if key not in {"metadata", "spec"}:
            raise RenderError(f"{path}.{key}", "is no field of a pod template; it holds metadata and spec")
    return copy


def main_container(spec: Json, name: str, path: str) -> Json:
    """The container called `name`, else the first one, else a new one; moved to the front, where mpi-operator looks for it."""
    containers = mappings_at(spec, "containers", path)
    for index, container in enumerate(containers):
        if container.get("name") == name:
            containers.insert(0, containers.pop(index))
            break
    if not containers:
        containers.append({})
    containers[0].setdefault("name", name)
    return containers[0]


def all_containers(spec: Json, path: str) -> list[tuple[str, Json]]:
    """Every container with its path: main and side containers, then init containers."""
    return [
        (f"{path}.{kind}[{index}]", container)
        for kind in ("containers", "initContainers")
        if spec.get(kind) is not None
        for index, container in enumerate(mappings_at(spec, kind, path))
    ]


def refuse_reserved(spec: Json, path: str) -> None:
    """Raises RenderError for what the operator decides alone: the node, the pod's name in DNS, and its own volume names."""
    if spec.get("nodeName"):
        raise RenderError(f"{path}.nodeName", "bypasses the scheduler; remove it and constrain spec.placement.nodeSelector instead")
    for key in ("restartPolicy", "hostname", "subdomain"):
        if spec.get(key):
            raise RenderError(f"{path}.{key}", "is set by mpi-operator; remove it")
    for index, volume in enumerate(spec.get("volumes") or []):
        if isinstance(volume, dict) and volume.get("name") in RESERVED_VOLUMES:
            raise RenderError(f"{path}.volumes[{index}].name", f"{volume['name']!r} is used by the operator; take another name")


def refuse_gpus(containers: list[tuple[str, Json]]) -> None:
    """Raises RenderError when one of these containers asks for GPUs: the plan counts only those of the worker container."""
    for path, container in containers:
        if container.get("resources") is None:
            continue
        resources = mapping_at(container, "resources", path)
        for kind in ("limits", "requests"):
            if resources.get(kind) is not None and GPU_RESOURCE in mapping_at(resources, kind, f"{path}.resources"):
                raise RenderError(
                    f"{path}.resources.{kind}", f"remove {GPU_RESOURCE}: only the worker container has GPUs, by spec.workers.resources"
                )


def refuse_other_resources(container: Json, given: Mapping[str, Mapping[str, object]], path: str) -> None:
    """Raises RenderError where the template's container has a resource that differs from `given`, which are limits and requests."""
    if container.get("resources") is None:
        return
    own = mapping_at(container, "resources", path)
    for kind in sorted(own):
        if kind not in given and own[kind]:
            raise RenderError(f"{path}.resources.{kind}", f"is not in {WORKER_RESOURCES}, which alone decides; remove it")
        if kind in given and own[kind] is not None:
            _refuse_other_amounts(mapping_at(own, kind, f"{path}.resources"), given[kind], kind, path)


def _refuse_other_amounts(own: Json, given: Mapping[str, object], kind: str, path: str) -> None:
    for name, amount in sorted(own.items()):
        at, ours = f"{path}.resources.{kind}[{name}]", given.get(name)
        if ours is None:
            raise RenderError(at, f"is not in {WORKER_RESOURCES}, which alone decides; write it there instead")
        try:
            differs = isinstance(amount, bool) or parse_exact(str(amount)) != parse_exact(str(ours))
        except ValueError as error:
            raise RenderError(at, str(error)) from error
        if differs:
            raise RenderError(at, f"differs from {WORKER_RESOURCES}, which has {ours}; remove it here")


def add_toleration(spec: Json, path: str) -> None:
    """Tolerate the GPU taint once."""
    tolerations = mappings_at(spec, "tolerations", path)
    if not any(entry.get("key") == GPU_RESOURCE and entry.get("operator") == "Exists" and not entry.get("effect") for entry in tolerations):
        tolerations.append(dict(GPU_TOLERATION))


def worker_node_labels(job: JobSpec) -> dict[str, str]:
    """Labels that the worker template itself asks of a node, for `PlanRequest.required_labels`; raises RenderError on a broken template."""
    path = "spec.workers.template.spec"
    return dict(sorted(text_map_at(_worker_pod(job), "nodeSelector", path).items()))


def worker_tolerations(job: JobSpec) -> tuple[Toleration, ...]:
    """Tolerations that the worker pods will have, for `PlanRequest.tolerations`; raises RenderError on a broken template."""
    path = "spec.workers.template.spec"
    pod = _worker_pod(job)
    add_toleration(pod, path)
    return tuple(toleration(entry) for entry in mappings_at(pod, "tolerations", path))


def _worker_pod(job: JobSpec) -> Json:
    copy = own_copy(job.workers.template, "spec.workers.template")
    return mapping_at(copy, "spec", "spec.workers.template")


def owner_references(metadata: JobMetadata) -> list[Json]:
    """`metadata.ownerReferences` with the job as controller."""
    return [
        {
            "apiVersion": constants.API_VERSION,
            "kind": constants.JOB_KIND,
            "name": metadata.name,
            "uid": metadata.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        },
    ]
