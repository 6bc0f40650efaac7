"""Raw Kubernetes JSON objects to the few fields that the operator reads. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from hyperscale.model.cluster import Gpu, GpuPaths, Node, Origin, Taint
from hyperscale.model.constants import (
    DATASET_KEY_LABEL,
    GPU_RESOURCE,
    JOB_NAME_LABEL,
    JOB_UID_LABEL,
    KUEUE_QUEUE_LABEL,
    MPI_JOB_NAME_LABEL,
    MPI_JOB_ROLE_LABEL,
    MPI_REPLICA_INDEX_LABEL,
    PARTITION_KEY_LABEL,
    PLAN_ID_LABEL,
    PREFLIGHT_KEY_LABEL,
)
from hyperscale.model.planning import PODS
from hyperscale.model.pods import BATCH_ROLES, INSPECT, LAUNCHER, OOM_KILLED, PARTITION, PREFLIGHT, WORKER, PodView
from hyperscale.observe.kube.demand import MAX_FURTHER, Amounts, further, is_further, mig_devices, pod_demand
from hyperscale.observe.kube.nested import controller_of, entries, nested, text_at
from hyperscale.observe.kube.node_labels import domains, gpu_memory_bytes, gpu_product, has_gpu_labels
from hyperscale.observe.kube.overrides import own_labels, topology_source
from hyperscale.observe.series.network_cards import NO_NETWORK, NodeNetwork
from hyperscale.util.quantity import parse_bytes, parse_number

KEPT_LABELS: Final = (
    DATASET_KEY_LABEL,
    JOB_NAME_LABEL,
    JOB_UID_LABEL,
    KUEUE_QUEUE_LABEL,
    MPI_JOB_NAME_LABEL,
    MPI_JOB_ROLE_LABEL,
    MPI_REPLICA_INDEX_LABEL,
    PARTITION_KEY_LABEL,
    PLAN_ID_LABEL,
    PREFLIGHT_KEY_LABEL,
)
_BATCH_LABELS: Final = ((PARTITION_KEY_LABEL, PARTITION), (DATASET_KEY_LABEL, INSPECT), (PREFLIGHT_KEY_LABEL, PREFLIGHT))
"""What tells pods of each batch Job."""
MAX_TERMINATION: Final = 4096
"""What the kubelet keeps of a container's termination message."""
MAX_MESSAGE: Final = 1024
MAX_REASON: Final = 128
MAX_GPUS: Final = 4096
"""Of one pod or node: 16 GPUs, each shared 256 times. More is no node of this world."""
MAX_REQUESTED_GPUS: Final = 2**31 - 1
"""Of all pods of a node: anyone who may create pods may name the node, any number of times."""
MAX_CPU_CORES: Final = 1e6
MAX_MEMORY_BYTES: Final = 2**53
"""8 PiB, the largest whole number that every JSON reader keeps."""
MAX_AMOUNT: Final = 1e18
"""Of any other resource: an exabyte of disk."""
MAX_SELECTORS: Final = 256
"""Node selectors, tolerations and scheduling gates, of each, in one pod."""
CLOSED: Final = "hyperscale.dev/closed"
"""Among what pods hold on a node: one of them cannot be read, so that all GPUs of the node count as taken."""
_number = lru_cache(maxsize=4096)(parse_number)
_bytes = lru_cache(maxsize=4096)(parse_bytes)
"""Thousands of nodes share a few quantities, and are viewed again with every change."""


def pod_view(pod: Mapping[str, Any]) -> PodView:
    """What we read of a v1 Pod; raises ValueError for a resource quantity that is none or absurd, and for lists without end."""
    metadata, spec, status = nested(pod, "metadata"), nested(pod, "spec"), nested(pod, "status")
    labels, owner = nested(metadata, "labels"), controller_of(metadata)
    demand = pod_demand(spec)
    role, job_name = _role(labels)
    return PodView(
        namespace=text_at(metadata, "namespace"),
        name=text_at(metadata, "name"),
        uid=text_at(metadata, "uid"),
        node=text_at(spec, "nodeName"),
        phase=text_at(status, "phase") or "Pending",
        terminating=bool(metadata.get("deletionTimestamp")),
        gpus=int(_at_most(demand.get(GPU_RESOURCE, 0.0), MAX_GPUS, GPU_RESOURCE)),
        cpu_cores=_at_most(demand.get("cpu", 0.0), MAX_CPU_CORES, "cpu"),
        memory_bytes=int(_at_most(demand.get("memory", 0.0), MAX_MEMORY_BYTES, "memory")),
        further={name: _at_most(amount, MAX_AMOUNT, name) for name, amount in further(demand).items()},
        mig_devices=int(_at_most(mig_devices(demand), MAX_GPUS, "nvidia.com/mig-*")),
        labels={key: labels[key] for key in KEPT_LABELS if key in labels},
        gates=tuple(gate["name"] for gate in _few(spec, "schedulingGates", job_name)),
        node_selector=dict(_few(spec, "nodeSelector", job_name)),
        tolerations=tuple(map(_toleration, _few(spec, "tolerations", job_name))),
        ready=_condition(status, "Ready").get("status") == "True",
        owner_uid=text_at(owner, "uid"),
        owner_kind=text_at(owner, "kind"),
        job_name=job_name,
        role=role,
        index=_index(labels.get(MPI_REPLICA_INDEX_LABEL)) if role == WORKER else None,
        created=text_at(metadata, "creationTimestamp"),
        deletion=text_at(metadata, "deletionTimestamp"),
        reason=str(text_at(status, "reason"))[:MAX_REASON],
        unschedulable=_unschedulable(status),
        termination=_termination(status, role) if role in BATCH_ROLES or role == LAUNCHER else "",
    )


def _role(labels: Mapping[str, Any]) -> tuple[str, str]:
    """Role of a pod of ours and the name of its MPIJob; a batch Job's pod has that of its GNNTrainingJob, a pod of others ""."""
    role, job_name = labels.get(MPI_JOB_ROLE_LABEL, ""), labels.get(MPI_JOB_NAME_LABEL, "")
    batch = next((kind for label, kind in _BATCH_LABELS if label in labels), "") if not job_name else ""
    if batch:
        return batch, labels.get(JOB_NAME_LABEL, "")
    return role if role in BATCH_ROLES or role in {LAUNCHER, WORKER} else "", job_name


def closing_view(pod: Mapping[str, Any]) -> PodView:
    """What must be known of a pod that `pod_view` cannot read: its node counts as full for as long as it may run. Never raises."""
    metadata, spec, status = (part if isinstance(part := pod.get(key), Mapping) else {} for key in ("metadata", "spec", "status"))
    return PodView(
        namespace=_text(metadata.get("namespace")),
        name=_text(metadata.get("name")),
        uid=_text(metadata.get("uid")),
        node=_text(spec.get("nodeName")),
        phase=_text(status.get("phase")) or "Pending",
        terminating=bool(metadata.get("deletionTimestamp")),
        unreadable=True,
    )


def node_view(
    node: Mapping[str, Any],
    requested: Amounts,
    gpus: tuple[Gpu, ...],
    levels: tuple[str, ...],
    network: NodeNetwork = NO_NETWORK,
    paths: GpuPaths | None = None,
) -> Node:
    """What we read of a v1 Node.

    requested: what pods hold on it, by resource name (see `requested_by_node`)
    gpus:      its GPUs as DCGM sees them
    levels:    topology label keys, widest first
    network:   its fastest cards
    paths:     the narrowest way between two of its GPUs
    Raises ValueError for a resource quantity that is none or absurd.
    """
    metadata, spec, status = node["metadata"], nested(node, "spec"), nested(node, "status")
    labels = {str(key): str(value) for key, value in sorted(own_labels(metadata).items())}
    product, memory = gpu_product(labels), gpu_memory_bytes(labels)
    allocatable = nested(status, "allocatable")
    offered = _further(allocatable)
    gpus_there = int(_at_most(_number(str(allocatable.get(GPU_RESOURCE, "0"))), MAX_GPUS, GPU_RESOURCE))
    return Node(
        name=metadata["name"],
        gpu_product=product,
        gpu_memory_bytes=memory,
        allocatable_gpus=gpus_there,
        requested_gpus=min(MAX_REQUESTED_GPUS, max(int(requested.get(GPU_RESOURCE, 0)), gpus_there if CLOSED in requested else 0)),
        ready=_condition(status, "Ready").get("status") == "True",
        # A node being deleted takes no new pod that would live; the API has no field that says so.
        schedulable=not spec.get("unschedulable") and not metadata.get("deletionTimestamp"),
        taints=_taints(spec),
        labels=labels,
        domains=domains(nested(metadata, "labels"), levels),
        gpus=gpus,
        allocatable_cpu_cores=_at_most(_number(str(allocatable["cpu"])), MAX_CPU_CORES, "cpu") if "cpu" in allocatable else None,
        allocatable_memory_bytes=(
            int(_at_most(_bytes(str(allocatable["memory"])), MAX_MEMORY_BYTES, "memory")) if "memory" in allocatable else None
        ),
        requested_cpu_cores=round(requested.get("cpu", 0.0), 6),
        requested_memory_bytes=int(min(requested.get("memory", 0), MAX_MEMORY_BYTES)),
        allocatable=offered,
        requested={name: round(requested[name], 6) for name in offered if requested.get(name)},
        network_bytes_per_second=network.bytes_per_second,
        network_cards=network.cards,
        network_use_ratio=network.use_ratio,
        gpu_paths=paths,
        sources=_sources(product, memory, topology_source(metadata, levels)),
    )


def _sources(product: str | None, memory: int | None, topology: str) -> dict[str, str]:
    """Where labels come from, by field of `Node`; fields without a value have no source."""
    named = {
        "gpuProduct": Origin.GFD.value if product is not None else "",
        "gpuMemoryBytes": Origin.GFD.value if memory is not None else "",
        "domains": topology,
    }
    return {name: source for name, source in named.items() if source}


def _taints(spec: Mapping[str, Any]) -> tuple[Taint, ...]:
    return tuple(sorted(map(_taint, entries(spec, "taints")), key=lambda taint: (taint.key, taint.effect, taint.value)))


def is_gpu_node(node: Mapping[str, Any]) -> bool:
    """True where the device plugin offers GPUs, or GPU Feature Discovery saw some."""
    offered = [nested(node, "status", kind).get(GPU_RESOURCE, "0") for kind in ("allocatable", "capacity")]
    return any(str(count) != "0" for count in offered) or has_gpu_labels(nested(node, "metadata", "labels"))


def requested_by_node(pods: Iterable[PodView]) -> dict[str, Amounts]:
    """What pods hold by node: all that are bound and neither Succeeded nor Failed, Terminating ones included."""
    by_node: dict[str, Amounts] = {}
    for pod in sorted((pod for pod in pods if pod.holds_resources), key=lambda pod: (pod.namespace, pod.name, pod.uid)):
        amounts = by_node.setdefault(pod.node, {GPU_RESOURCE: 0.0, "cpu": 0.0, "memory": 0.0})
        amounts[GPU_RESOURCE] += pod.gpus
        amounts["cpu"] += pod.cpu_cores
        amounts["memory"] += pod.memory_bytes
        for name, amount in {PODS: 1.0, **pod.further}.items():
            amounts[name] = amounts.get(name, 0.0) + amount
        if pod.unreadable:
            amounts[CLOSED] = 1.0
    return by_node


def _further(allocatable: Mapping[str, Any]) -> Amounts:
    """Further resources that a node offers; a quantity that is none, or absurd, counts as not offered."""
    offered: Amounts = {}
    for name in sorted(name for name in allocatable if is_further(name))[:MAX_FURTHER]:
        try:
            offered[name] = _at_most(_number(str(allocatable[name])), MAX_AMOUNT, name)
        except ValueError:
            continue
    return offered


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _at_most(amount: float, limit: float, name: str) -> float:
    """`amount`; raises ValueError where it is none that hardware can have."""
    if not 0 <= amount <= limit:
        raise ValueError(f"{name}: {amount:g} is not from 0 to {limit:g}")
    return amount


def _few(spec: Mapping[str, Any], field: str, job_name: str) -> Any:  # noqa: ANN401 - a list or an object
    """A list or object of a job's pod spec, empty for other pods; raises ValueError where it has too many entries."""
    content = (spec.get(field) if job_name else None) or ()
    if len(content) > MAX_SELECTORS:
        raise ValueError(f"spec.{field} has {len(content)} entries, more than {MAX_SELECTORS}")
    return content


def _condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    return next((entry for entry in entries(status, "conditions") if entry.get("type") == kind), {})


def _unschedulable(status: Mapping[str, Any]) -> str:
    condition = _condition(status, "PodScheduled")
    if condition.get("status") == "False" and condition.get("reason") == "Unschedulable":
        return str(condition.get("message", ""))[:MAX_MESSAGE]
    return ""


def _termination(status: Mapping[str, Any], role: str) -> str:
    """Termination message of the first container; of its last end while it runs again.

    Of a preflight that the kernel killed for its memory: OOM_KILLED, since its log says nothing of that.
    """
    container = next(iter(entries(status, "containerStatuses")), {})
    for state in ("state", "lastState"):
        ended = nested(container, state, "terminated")
        if role == PREFLIGHT and ended.get("reason") == OOM_KILLED:
            return OOM_KILLED
        if ended.get("message"):
            return str(ended["message"])[:MAX_TERMINATION]
    return ""


def _index(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 10 else None


def _taint(entry: Mapping[str, Any]) -> Taint:
    return Taint(key=entry["key"], value=entry.get("value") or "", effect=entry.get("effect") or "")


def _toleration(entry: Mapping[str, Any]) -> dict[str, str]:
    return {key: str(entry[key]) for key in ("key", "operator", "value", "effect") if entry.get(key)}
