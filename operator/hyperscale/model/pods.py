"""A pod as far as this operator cares: where it runs, what it holds, which worker it is, what keeps it waiting."""

from __future__ import annotations

import msgspec

LAUNCHER = "launcher"
WORKER = "worker"
PARTITION = "partition"
INSPECT = "inspect"
PREFLIGHT = "preflight"
OOM_KILLED = "OOMKilled"
"""The kubelet's reason for a container that took more memory than its limit."""
BATCH_ROLES = frozenset({PARTITION, INSPECT, PREFLIGHT})
"""Roles of pods of the Jobs that a run rests on."""
FINISHED_PHASES = frozenset({"Succeeded", "Failed"})


class PodView(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Projection of one v1 Pod; everything absent in the API object is empty, 0 or None here."""

    namespace: str
    name: str
    uid: str = ""
    node: str = ""
    """spec.nodeName; "" until the pod is bound."""
    phase: str = "Pending"
    """status.phase: Pending, Running, Succeeded, Failed or Unknown."""
    terminating: bool = False
    """A deletion timestamp is set; the pod's devices are not free until it is gone."""
    gpus: int = 0
    """nvidia.com/gpu held: sum over containers or the largest init container, whichever is more."""
    cpu_cores: float = 0.0
    memory_bytes: int = 0
    further: dict[str, float] = {}
    """Requests of other resources by name, e.g. rdma/hca or ephemeral-storage (bytes)."""
    mig_devices: int = 0
    """nvidia.com/mig-* devices held; they are slices, not GPUs of ours, and never count in `gpus`."""
    labels: dict[str, str] = {}
    """Only the labels that the operator reads (job, role, replica index, plan, queue)."""
    gates: tuple[str, ...] = ()
    """Names of the scheduling gates still on the pod, in the pod's order."""
    node_selector: dict[str, str] = {}
    tolerations: tuple[dict[str, str], ...] = ()
    """Tolerations with key, operator, value and effect as text; the seconds are left out."""
    ready: bool = False
    """Condition Ready is True."""
    owner_uid: str = ""
    """uid of the controlling owner; "" without one."""
    owner_kind: str = ""
    job_name: str = ""
    """Name of the MPIJob (label training.kubeflow.org/job-name), or of the job that a batch Job is for; "" for pods of others."""
    role: str = ""
    """launcher, worker, partition, inspect, preflight, or "" for pods of others."""
    index: int | None = None
    """Label training.kubeflow.org/replica-index of a worker; None where absent or not a whole number."""
    created: str = ""
    """metadata.creationTimestamp, RFC 3339."""
    deletion: str = ""
    """metadata.deletionTimestamp, RFC 3339; "" unless terminating."""
    reason: str = ""
    """status.reason, e.g. Evicted or NodeLost."""
    unschedulable: str = ""
    """Message of PodScheduled=False with reason Unschedulable; "" otherwise."""

    unreadable: bool = False
    """The pod cannot be read: what it holds is not known, so that it counts as holding all GPUs of its node."""
    termination: str = ""
    """What the program left behind at its end, of launcher and batch pods: their first container's termination message."""

    @property
    def key(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"

    @property
    def finished(self) -> bool:
        """Whether its containers have ended for good; it holds nothing on its node."""
        return self.phase in FINISHED_PHASES

    @property
    def bound(self) -> bool:
        """A node is written into the pod."""
        return self.node != ""

    @property
    def holds_resources(self) -> bool:
        """Counts against its node: bound and not finished, Terminating included."""
        return self.bound and not self.finished
