"""Who a job is to the API server, and what the renderer may assume where the job says nothing."""

from __future__ import annotations

import msgspec


class JobMetadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The part of a GNNTrainingJob's metadata that its MPIJob depends on."""

    namespace: str
    name: str
    uid: str
    """Goes into the ownerReference; a job that was deleted and made again has another one."""
    labels: dict[str, str] = {}
    """The job's own labels; only those of queues are copied to the MPIJob."""
    annotations: dict[str, str] = {}
    generation: int = 0
    """metadata.generation, counted up by the API server with every change of the spec; 0 when unknown."""
    created: str = ""
    """metadata.creationTimestamp, RFC 3339; empty when unknown."""

    @property
    def key(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"


class RenderDefaults(msgspec.Struct, frozen=True, rename="camel"):
    """Values of the operator's own settings that end up in pods."""

    worker_image: str
    """Image of launcher and workers where the job's template names none."""
