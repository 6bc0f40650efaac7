"""What a planner is asked: one job, what its pods ask of a node, the limits within which to answer, and what is already decided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from hyperscale.model.api.datasets import is_sized
from hyperscale.model.api.job import JobSpec
from hyperscale.model.api.policy import HistoryPlacement, PolicySpec
from hyperscale.model.history.corrections import Corrections, own_key
from hyperscale.model.history.step_curves import CurveKey, workload_of
from hyperscale.model.plan import Calibration

PODS: Final = "pods"
"""Resource name under which a node counts its pods; every worker takes one."""


class Toleration(msgspec.Struct, frozen=True, rename="camel"):
    """A pod toleration, as in the core API; an empty key with Exists tolerates everything."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


def toleration(entry: Mapping[str, Any]) -> Toleration:
    """From an entry of a pod's spec.tolerations; what is missing or null is as the core API takes it."""
    return Toleration(
        key=str(entry.get("key") or ""),
        operator=str(entry.get("operator") or "Equal"),
        value=str(entry.get("value") or ""),
        effect=str(entry.get("effect") or ""),
    )


class NodeExpression(msgspec.Struct, frozen=True, rename="camel"):
    """One requirement on a label or field of a node, as `v1.NodeSelectorRequirement`."""

    key: str
    operator: str
    """In, NotIn, Exists, DoesNotExist, Gt or Lt; a node meets no other."""
    values: tuple[str, ...] = ()


class NodeTerm(msgspec.Struct, frozen=True, rename="camel"):
    """Requirements of which all must hold, as `v1.NodeSelectorTerm`; a term without any fits no node."""

    labels: tuple[NodeExpression, ...] = ()
    fields: tuple[NodeExpression, ...] = ()
    """The core API knows `metadata.name` only."""


class NodeRule(msgspec.Struct, frozen=True, rename="camel"):
    """Nodes that something of a pod allows: at least one of the terms must fit."""

    terms: tuple[NodeTerm, ...]
    reason: str = "NodeAffinity"
    """Of a node's `Rejection`: NodeAffinity, or Volume for a volume that can be reached from some nodes only."""
    source: str = "the node affinity of spec.workers.template"
    """What asks for it, for messages."""


class Volumes(NamedTuple):
    """What is known of the claims that a job's pods mount."""

    rules: tuple[NodeRule, ...] = ()
    """Nodes from which their volumes can be reached."""
    missing: tuple[str, ...] = ()
    """Claims that do not exist."""


NO_VOLUMES: Final = Volumes()


class AskedSize(msgspec.Struct, frozen=True, rename="camel"):
    """A size of pods that a cluster is asked for."""

    gpus: int
    cpu_cores: float
    memory_bytes: float
    weight: float = 1.0
    """How many such pods are asked for, relative to other sizes."""


class PlanRequest(msgspec.Struct, frozen=True, rename="camel"):
    """One question to the planners; together with a snapshot, a policy and the code it decides the plan's bytes."""

    job_key: str
    """namespace/name."""

    job: JobSpec

    seed: int = 0

    deadline_seconds: float = 5.0
    """Wall time for all candidates together."""

    free_gpus: dict[str, int] = {}
    """Free GPUs by node where they differ from the snapshot: workers planned but not yet bound are taken already."""

    workers_fixed: int | None = None
    """Exact worker count; set once an MPIJob exists, unless it may be resumed with others."""

    pinned: dict[int, str] = {}
    """Workers that stay where they are, index to node; their GPUs count as free for them."""

    excluded_nodes: tuple[str, ...] = ()
    """Nodes that must not be used, e.g. those that lost a worker."""

    refused_nodes: dict[str, str] = {}
    """Nodes that must not be used because kube-scheduler left a rank of the job out there lately, with its words."""

    required_labels: dict[str, str] = {}
    """Labels every node must have beside the job's own nodeSelector, e.g. those a queue's flavour put into the pods."""

    tolerations: tuple[Toleration, ...] = ()
    """Tolerations of the worker pods."""

    node_rules: tuple[NodeRule, ...] = ()
    """Required node affinity and volumes of the worker pods: a node must meet every rule."""

    apart: bool = False
    """No two workers of the job on one node, as the pod anti-affinity of its template asks."""

    resources: dict[str, float] = {}
    """Requests of a whole worker pod by resource name, without nvidia.com/gpu: cores, bytes, devices. Empty: cpu and memory of
    `job.workers`."""

    reserved_amounts: dict[str, dict[str, float]] = msgspec.field(default_factory=dict, name="held")
    """Amounts by node and resource name that planned but unbound ranks of other jobs reserve, GPUs left out."""

    weights: tuple[float, float, float] | None = None
    """What people of the job's namespace weigh time, cost and risk by, where the policy applies it; they sum to 1."""

    calibration: tuple[Calibration, ...] = ()
    """What finished runs of the job's architecture taught, at most one for each mix of GPU products."""

    corrections: Corrections | None = None
    """What finished runs taught the cost model, where the policy lets history choose placements."""
    asked_sizes: tuple[AskedSize, ...] = ()
    """Sizes of pods that this cluster is asked for; among equal placements those that strand fewer GPUs for them go first."""


def chosen_calibrations(
    by_architecture: Mapping[str, tuple[Calibration, ...]], curves: Mapping[CurveKey, Calibration], job: JobSpec, namespace: str
) -> tuple[Calibration, ...]:
    """What runs taught: those of the job's very workload where they taught a curve, its namespace's own first; else the architecture's."""
    calibrations = by_architecture.get(job.model.architecture, ())
    if not curves or not is_sized(job):
        return calibrations
    workloads = [workload_of(job, one.products) for one in calibrations]
    return tuple(
        curves.get((namespace, workload), curves.get(("", workload), one)) for one, workload in zip(calibrations, workloads, strict=True)
    )


def chosen_corrections(
    by_architecture: Mapping[str, Corrections], job: JobSpec, policy: PolicySpec, namespace: str = ""
) -> Corrections | None:
    """Those of a job's architecture, else of architectures without any run (""); None where the policy says Report, or there are none.

    namespace: the job's, whose own runs may say its range
    """
    if policy.history.placement is not HistoryPlacement.APPLY:
        return None
    name = job.model.architecture.value
    own = by_architecture.get(own_key(name, namespace))
    return own if own is not None else by_architecture.get(name, by_architecture.get(""))


def node_rule(selector: Mapping[str, Any], **about: str) -> NodeRule:
    """From a `v1.NodeSelector`; `about` gives reason and source. What is no list or map counts as empty and so fits no node."""
    terms = (
        NodeTerm(_expressions(term.get("matchExpressions")), _expressions(term.get("matchFields")))
        for term in _mappings(selector.get("nodeSelectorTerms"))
    )
    return NodeRule(tuple(terms), **about)


def _expressions(entries: object) -> tuple[NodeExpression, ...]:
    return tuple(
        NodeExpression(str(entry.get("key") or ""), str(entry.get("operator") or ""), _texts(entry.get("values")))
        for entry in _mappings(entries)
    )


def _mappings(entries: object) -> list[Mapping[str, Any]]:
    return [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list | tuple) else []


def _texts(values: object) -> tuple[str, ...]:
    return tuple(str(value) for value in values) if isinstance(values, list | tuple) else ()
