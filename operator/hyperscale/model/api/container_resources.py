"""What the worker container asks for: `GNNTrainingJob.spec.workers.resources`, a container's `resources` without `claims`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, field

from hyperscale.model.api.written_numbers import MAX_LENGTH, QUANTITY, QUANTITY_PATTERN
from hyperscale.model.constants import GPU_RESOURCE
from hyperscale.util.quantity import parse_exact

RESOURCE_NAME = (
    r"^(cpu|memory|ephemeral-storage|hugepages-[1-9][0-9]*(Ki|Mi|Gi)"
    r"|[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)$"
)
"""Kubernetes' own resources of a container, and extended resources, which have a domain."""
MAX_NAMES = 16
"""Resources of one container; real ones ask for about five. It bounds what the rules of the CRD cost."""

ResourceName = Annotated[str, Meta(min_length=1, max_length=317, pattern=RESOURCE_NAME)]
Amount = Annotated[str, Meta(min_length=1, max_length=MAX_LENGTH, pattern=QUANTITY_PATTERN, extra=QUANTITY)]
"""A quantity as the user wrote it, so that the pod says the same."""
Amounts = dict[ResourceName, Amount]


class ResourceRequirements(Struct, frozen=True, gc=False, rename="camel", forbid_unknown_fields=True):
    """Of the worker container, as in any container (core/v1 ResourceRequirements), without claims."""

    limits: Annotated[Amounts, Meta(max_length=MAX_NAMES)] = field(default_factory=dict)
    """Most that the worker container may use. nvidia.com/gpu is its number of GPUs and MPI ranks, from 1 to 16; absent is 1."""
    requests: Annotated[Amounts, Meta(max_length=MAX_NAMES)] = field(default_factory=dict)
    """What the node must have free for the worker container; absent is the limit."""

    @property
    def gpus(self) -> int:
        """GPUs of the container; what spec/rules.py lets pass is a whole number."""
        return int(parse_exact(self.limits.get(GPU_RESOURCE, "1")))

    def asked(self) -> dict[str, str]:
        """Requests by name; where there is none the limit stands in, as the API server's defaulting does."""
        return {**self.limits, **self.requests}
