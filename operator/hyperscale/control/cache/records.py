"""What is kept of a GNNTrainingJob, and how objects are named. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from hyperscale.model.status import JobStatus

Json = dict[str, Any]


class Key(NamedTuple):
    """An object by name; a cluster-scoped one has no namespace."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class JobRecord(msgspec.Struct, frozen=True, gc=False):
    """A GNNTrainingJob as last seen."""

    stored: Json | bytes
    """Metadata and spec; JSON where they are not needed any more."""
    status: JobStatus
    status_fault: str = ""
    """Why the status as stored cannot be the operator's own; `status` is without what cannot be."""
    max_workers: int = 0
    """spec.workers.maxReplicas; 0 where the spec cannot be read."""
    gpus_per_worker: int = 0
    uid: str = ""
    version: str = ""
    """metadata.resourceVersion."""
    created: str = ""
    """metadata.creationTimestamp, RFC 3339."""
    generation: int = 0
    undecoded: bool = False
    """Of the job only what identifies it is known, see `api_objects.UNREADABLE`."""

    @property
    def resource(self) -> Json:
        """Metadata and spec."""
        if isinstance(self.stored, bytes):
            decoded: Json = msgspec.json.decode(self.stored)
            return decoded
        return self.stored

    @property
    def reported(self) -> bool:
        """Whether the status is about the spec as it is."""
        return self.status.observed_generation == self.generation

    def at_rest(self) -> JobRecord:
        """The same in a fifth of the memory: thousands of finished jobs stay."""
        return msgspec.structs.replace(self, stored=msgspec.json.encode(self.stored)) if isinstance(self.stored, dict) else self


def job_record(resource: Json, status: JobStatus, status_fault: str = "", max_workers: int = 0, gpus_per_worker: int = 0) -> JobRecord:
    """The record of a narrowed resource."""
    metadata = resource["metadata"]
    return JobRecord(
        stored=resource,
        status=status,
        status_fault=status_fault,
        max_workers=max_workers,
        gpus_per_worker=gpus_per_worker,
        uid=metadata.get("uid") or "",
        version=str(metadata.get("resourceVersion") or ""),
        created=metadata.get("creationTimestamp") or "",
        generation=metadata.get("generation") or 0,
        undecoded="spec" not in resource,
    )


def key_of(resource: Mapping[str, Any]) -> Key:
    """Namespace and name; "" for what is none."""
    return Key(metadata_text(resource, "namespace"), metadata_text(resource, "name"))


def metadata_text(resource: Mapping[str, Any], field: str) -> str:
    """A text of the metadata."""
    metadata = resource.get("metadata")
    value = metadata.get(field) if isinstance(metadata, Mapping) else None
    return value if isinstance(value, str) else ""
