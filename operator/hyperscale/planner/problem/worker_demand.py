"""What every worker of a job needs of its node, read from the request."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from hyperscale.model import constants
from hyperscale.model.planning import NodeRule, PlanRequest, Toleration
from hyperscale.planner.problem.amounts import amounts_of

GPU_TOLERATION: Final = Toleration(key=constants.GPU_RESOURCE, operator="Exists")
"""The renderer gives every worker this one."""
OTHER_DEVICES: Final = (
    "devices.kubevirt.io/",
    "github.com/fuse",
    "nvidia.com/gpu",
    "nvidia.com/mig-",
    "smarter-devices/",
    "squat.ai/",
    "vpc.amazonaws.com/PrivateIPv4Address",
    "vpc.amazonaws.com/pod-eni",
)
"""Beginnings of the names of devices that no fast network has; nvidia.com/gpu: memory and cores of shared GPUs."""
Failure = tuple[str, str]
"""Reason and message."""


class WorkerDemand(NamedTuple):
    """What every worker needs of its node."""

    gpus: int
    gpu_memory_bytes: int
    """Memory of each GPU: what the job asks for, or what the model needs at least."""
    gpu_memory_asked: bool
    """True where the job asks for it: then a node that does not say what it has is no candidate."""
    cpu_cores: float
    memory_bytes: int
    products: frozenset[str]
    labels: tuple[tuple[str, str], ...]
    """Sorted; a key asked for with two values fits no node."""
    required_key: str | None
    tolerations: tuple[Toleration, ...]
    rules: tuple[NodeRule, ...]
    further: tuple[tuple[str, float], ...]
    """Other resources by name, sorted; pods among them."""
    apart: bool
    """At most one worker a node."""
    barred: dict[str, Failure]
    """Nodes that the request itself leaves out, and why."""
    free_gpus: dict[str, int]
    reserved: dict[str, dict[str, float]]
    """The last three change from request to request; see `Lasting`."""

    @property
    def has_devices(self) -> bool:
        """True where pods ask for a device that may be that of a fast network.

        The operator refuses pods the host's network and all privileges, so that a device is the only way in. Plugins name them as they
        like (rdma/hca_shared_devices_a, vpc.amazonaws.com/efa, nvidia.com/resibp24s0).
        """
        return any("/" in name and not name.startswith(OTHER_DEVICES) for name, _ in self.further)


def demand_of(request: PlanRequest, least_gpu_bytes: float = 0.0) -> WorkerDemand:
    """Needs of one worker. least_gpu_bytes: what the model itself needs on every GPU, whatever its share."""
    job = request.job
    workers = job.workers
    asked = workers.gpu_memory or 0
    amounts = amounts_of(request)
    return WorkerDemand(
        gpus=workers.gpus_per_worker,
        gpu_memory_bytes=max(asked, math.ceil(least_gpu_bytes)),
        gpu_memory_asked=asked > 0,
        cpu_cores=amounts.pop("cpu", 0.0),
        memory_bytes=math.ceil(amounts.pop("memory", 0.0)),
        products=frozenset(workers.gpu_products),
        labels=tuple(sorted({*job.placement.node_selector.items(), *request.required_labels.items()})),
        required_key=job.placement.topology.required,
        tolerations=(GPU_TOLERATION, *request.tolerations),
        rules=request.node_rules,
        further=tuple(sorted(amounts.items())),
        apart=request.apart,
        barred=_barred(request),
        free_gpus=request.free_gpus,
        reserved=request.reserved_amounts,
    )


def _barred(request: PlanRequest) -> dict[str, Failure]:
    """Nodes that may host no further worker, whatever they have."""
    there = "a worker of this job is there, and spec.workers.template keeps workers apart"
    return {
        **{name: ("Constraint", there) for name in request.pinned.values() if request.apart},
        **dict.fromkeys(request.excluded_nodes, ("Constraint", "excluded: it lost a rank of this job")),
        **{name: ("SchedulerRefused", words) for name, words in request.refused_nodes.items()},
    }
