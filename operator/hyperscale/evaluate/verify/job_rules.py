"""What a job, its pods, the namespace and the nodes demand of any placement, as rules that a search may leave out one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from hyperscale.evaluate.verify.normal_form import NO_DOMAIN, NodeLimits, PlanLimits
from hyperscale.evaluate.verify.plan_constraints import limits_of
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.constants import GPU_RESOURCE
from hyperscale.model.planning import PODS, PlanRequest
from hyperscale.planner.check.check_needs import unmet_rules
from hyperscale.planner.check.check_nodes import NODE_RULES

FIELDS: Final[Mapping[str, str]] = {
    "NotReady": "node status.conditions",
    "Cordoned": "node spec.unschedulable",
    "Tainted": "spec.workers.template.spec.tolerations",
    "Constraint": "nodes that lost a worker",
    "SchedulerRefused": "nodes that kube-scheduler refused",
    "SharedGPU": "node labels of shared GPUs",
    "GPUProduct": "spec.workers.gpuProducts",
    "NodeAffinity": "spec.workers.template.spec.affinity.nodeAffinity",
    "Volume": "spec.workers.template.spec.volumes",
}
CLOSES: Final[Mapping[str, str]] = {
    "NotReady": "are ready",
    "Cordoned": "are not cordoned",
    "Tainted": "have no taint that the workers do not tolerate",
    "Constraint": "lost no worker of this job",
    "SchedulerRefused": "were not refused by kube-scheduler",
    "SharedGPU": "offer whole GPUs",
    "GPUProduct": "have an allowed GPU product",
}
LABEL_RULE: Final = "NodeSelector"
MEMORY_RULE: Final = "GPUMemory"


class Rule(msgspec.Struct, frozen=True):
    """One demand. Fields that are empty or None demand nothing."""

    name: str
    field: str
    room: tuple[int, ...] = ()
    """By node: arriving workers that the rule allows there."""
    groups: tuple[int, ...] = ()
    """By node: all workers must be on nodes of one group."""
    fixed_groups: tuple[int, ...] = ()
    """Groups of pinned workers."""
    apart: tuple[tuple[int, int], ...] = ()
    """Pairs of nodes that must not both have workers."""
    least: int | None = None
    """Arriving workers together."""
    most: int | None = None
    words: str = ""
    """What the nodes have that the rule allows, e.g. "carry zone=a"."""


class JobRules(msgspec.Struct, frozen=True):
    """All rules of one job on one cluster."""

    limits: PlanLimits
    rules: tuple[Rule, ...]
    workers: int
    """The fewest that the job allows."""
    arriving: int
    """Of them not yet running."""
    used: frozenset[int]
    """Nodes with pinned workers."""
    impossible: tuple[Rule, ...] = ()
    """Rules that contradict each other whatever the cluster."""

    @property
    def nodes(self) -> tuple[NodeLimits, ...]:
        """Of the cluster."""
        return self.limits.nodes


def rules_of(request: PlanRequest, snapshot: ClusterSnapshot, quota_gpus: int | None = None) -> JobRules:
    """Return the rules for the fewest workers that the job allows: a placement of more always holds one of fewer."""
    limits = limits_of(request, snapshot, quota_gpus)
    count = _fewest(limits)
    workers = limits.workers_min if count is None else count
    pinned = sum(1 for index, _ in limits.pins if index < workers)
    used = frozenset(node for index, node in limits.pins if index < workers and node < len(limits.nodes))
    job = JobRules(limits, (), workers, workers - pinned, used)
    if count is None:
        return msgspec.structs.replace(job, impossible=_impossible(job))
    rules = (
        _workers_rule(job),
        *_label_rules(request, snapshot),
        *_closing_rules(request, snapshot),
        *_memory_rule(limits),
        *_room_rules(limits, pinned),
        *_link_rules(limits, used),
    )
    return msgspec.structs.replace(job, rules=tuple(rule for rule in rules if not _demands_nothing(rule, job)))


def _fewest(limits: PlanLimits) -> int | None:
    """Smallest allowed worker count whose ranks divide the partitions; None without one."""
    asked = limits.partitions_asked
    counts = range(max(1, limits.workers_min, _running(limits)), limits.workers_max + 1)
    return next((count for count in counts if not asked or asked % (count * limits.gpus_each) == 0), None)


def _running(limits: PlanLimits) -> int:
    """Workers that there must be, so that every pinned one is among them."""
    return max((index + 1 for index, _ in limits.pins), default=0)


def _impossible(job: JobRules) -> tuple[Rule, ...]:
    """Rules that no number of workers satisfies."""
    if _running(job.limits) > job.limits.workers_max:
        return Rule("workers allowed", "spec.workers.maxReplicas"), Rule("pins", "workers that run")
    return Rule("workers allowed", "spec.workers"), Rule("partitions", "spec.partitioning.count")


def _demands_nothing(rule: Rule, job: JobRules) -> bool:
    return (
        rule.least is None and rule.most is None and not rule.groups and not rule.apart and all(room >= job.arriving for room in rule.room)
    )


def _workers_rule(job: JobRules) -> Rule:
    return Rule("workers", "spec.workers.minReplicas", least=job.arriving)


def _label_rules(request: PlanRequest, snapshot: ClusterSnapshot) -> Iterator[Rule]:
    """One for each label, so that a contradiction names the labels that matter."""
    for key, value in sorted({*request.job.placement.node_selector.items(), *request.required_labels.items()}):
        field = "spec.placement.nodeSelector" if request.job.placement.node_selector.get(key) == value else "labels of the queue's flavour"
        allowed = tuple(node.labels.get(key) == value for node in snapshot.nodes)
        yield Rule(f"label {key}={value}", field, room=_open(allowed), words=f"carry {key}={value}")


def _closing_rules(request: PlanRequest, snapshot: ClusterSnapshot) -> Iterator[Rule]:
    for reason, broken in NODE_RULES:
        if reason not in (LABEL_RULE, MEMORY_RULE):
            allowed = tuple(broken(node, request) is None for node in snapshot.nodes)
            yield Rule(reason, FIELDS[reason], room=_open(allowed), words=CLOSES[reason])
    for number, rule in enumerate(request.node_rules):
        alone = msgspec.structs.replace(request, node_rules=(rule,))
        allowed = tuple(next(unmet_rules(node, alone), None) is None for node in snapshot.nodes)
        yield Rule(f"{rule.reason} {number}", FIELDS.get(rule.reason, rule.reason), room=_open(allowed), words=f"meet {rule.source}")


def _open(allowed: Sequence[bool]) -> tuple[int, ...]:
    """All workers may be on an allowed node, none on another."""
    return tuple(2**31 - 1 if open_ else 0 for open_ in allowed)


def _memory_rule(limits: PlanLimits) -> Iterator[Rule]:
    if limits.memory_each_bytes:
        allowed = tuple(node.gpu_memory_bytes >= limits.memory_each_bytes for node in limits.nodes)
        words = f"have GPUs with at least {limits.memory_each_bytes / 2**30:.4g} GiB"
        yield Rule("gpu memory", "spec.workers.gpuMemory", room=_open(allowed), words=words)


def _room_rules(limits: PlanLimits, pinned: int) -> Iterator[Rule]:
    """What bounds the number of workers of a node, and of all nodes."""
    each = max(1, limits.gpus_each)
    yield Rule("free gpus", "node free nvidia.com/gpu", room=tuple(node.gpus // each for node in limits.nodes))
    for at, ((name, _), amount) in enumerate(zip(limits.resources, limits.amounts_each, strict=True)):
        field = "node allocatable.pods" if name == PODS else f"spec.workers.resources.requests.{name}"
        yield Rule(f"resource {name}", field, room=tuple(node.amounts[at] // amount for node in limits.nodes))
    if limits.apart:
        taken = {node for _, node in limits.pins}
        room = tuple(0 if node in taken else 1 for node in range(len(limits.nodes)))
        yield Rule("apart", "spec.workers.template.spec.affinity.podAntiAffinity", room=room)
    if limits.quota_gpus is not None:
        yield Rule("quota", f"ResourceQuota requests.{GPU_RESOURCE}", most=limits.quota_gpus // each)


def _link_rules(limits: PlanLimits, used: frozenset[int]) -> Iterator[Rule]:
    if limits.one_domain:
        labelled = tuple(node.domain != NO_DOMAIN for node in limits.nodes)
        groups = tuple(node.domain for node in limits.nodes)
        fixed = tuple(sorted({groups[node] for node in used}))
        yield Rule("topology", "spec.placement.topology.required", room=_open(labelled), groups=groups, fixed_groups=fixed)
    if limits.dead:
        yield Rule("dead links", "links with bandwidth 0", apart=tuple(sorted({(min(pair), max(pair)) for pair in limits.dead})))
    if limits.unreachable:
        groups = _components(limits)
        yield Rule("reach", "links of the cluster", groups=groups, fixed_groups=tuple(sorted({groups[node] for node in used})))


def _components(limits: PlanLimits) -> tuple[int, ...]:
    """By node the strongly connected component: a ring stays inside one."""
    import numpy as np
    from scipy.sparse.csgraph import connected_components

    reach = np.ones((len(limits.nodes), len(limits.nodes)), dtype=np.bool_)
    reach[tuple(zip(*limits.unreachable, strict=True))] = False
    _, labels = connected_components(reach, directed=True, connection="strong")
    return tuple(int(label) for label in labels)
