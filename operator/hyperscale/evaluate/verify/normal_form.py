"""The normal form of a plan and of what it must satisfy: frozen, whole numbers only, nodes by position.

Python, z3 and the proved checker read the same two values. `plan_constraints` builds them.
"""

from __future__ import annotations

import enum

import msgspec

UNLIMITED = 2**60
"""Stands for an amount that a node does not state. `planner.check` reads such an amount as unlimited too."""
NO_DOMAIN = 0
"""Domain of a node without the label that the topology requires."""
WHOLE_SHARE = 10**9
"""Shares are whole billionths."""
SHARE_SLACK = 10**3
"""Billionths that the sum of all shares may differ from the whole."""


class Constraint(enum.StrEnum):
    """What a plan must satisfy, in the order in which every checker reports it."""

    WORKERS = "workers"
    """Workers are 0 to k - 1 in order."""
    COUNT = "count"
    """The job allows k workers."""
    RANKS = "ranks"
    """Ranks are 0 to R - 1 in the order of the workers: one rank has one place."""
    GPUS = "gpus"
    """Every worker has as many ranks and GPUs as the job gives each."""
    PLACE = "place"
    """Every worker's node exists."""
    PINS = "pins"
    """Pinned workers are where they run."""
    OPEN = "open"
    """Arriving workers are on nodes that take workers of this job."""
    CAPACITY = "capacity"
    """No node has less free GPUs than its arriving workers take."""
    MEMORY = "memory"
    """No GPU has less memory than a rank on it needs."""
    AMOUNTS = "amounts"
    """No node has less of another resource than its arriving workers request."""
    APART = "apart"
    """Workers that keep apart have a node each."""
    DOMAIN = "domain"
    """All workers are in one domain of the required topology level."""
    DEAD_LINKS = "dead links"
    """No two planned nodes have a dead link."""
    RING = "ring"
    """The ring is a permutation of the workers."""
    HOPS = "hops"
    """Every worker reaches the next worker of the ring."""
    PARTITIONS = "partitions"
    """The number of partitions is as asked, or one for each rank."""
    COVER = "cover"
    """Every partition is on exactly one rank."""
    EVEN = "even"
    """Every rank has the same number of partitions."""
    SCHEDULE = "schedule"
    """The allreduce schedule is a permutation of the gradient tensors."""
    QUOTA = "quota"
    """Arriving workers take no more GPUs than the namespace may."""
    SHARES = "shares"
    """Shares are above 0 and sum to 1."""
    TALLY = "tally"
    """Ranks by node are those of the workers."""


class NodeLimits(msgspec.Struct, frozen=True):
    """What one node offers to arriving workers."""

    name: str
    takes_workers: bool
    gpus: int
    """Free."""
    gpu_memory_bytes: int
    """Of one GPU; UNLIMITED where the node does not state it and the job does not ask."""
    domain: int
    """Of the required topology level, from 1; NO_DOMAIN without the label."""
    amounts: tuple[int, ...]
    """Free amounts of further resources, aligned with `PlanLimits.resources`."""
    closed_by: tuple[tuple[str, str], ...] = ()
    """Reason and sentence of each rule that keeps workers off the node; not empty exactly where it takes none."""


class PlanLimits(msgspec.Struct, frozen=True):
    """What any plan for one job on one cluster must satisfy."""

    nodes: tuple[NodeLimits, ...]
    gpus_each: int
    """GPUs and ranks of a worker."""
    memory_each_bytes: int
    """Memory that each GPU must have; 0 where the job does not ask."""
    resources: tuple[tuple[str, int], ...]
    """Further resources by name, with the unit's divisor: 10^6 for CPU cores in millionths."""
    amounts_each: tuple[int, ...]
    """What a worker requests of each."""
    workers_min: int
    workers_max: int
    apart: bool
    one_domain: bool
    topology_key: str
    """Label of the required topology level, or empty."""
    pins: tuple[tuple[int, int], ...]
    """(worker, node) of workers that stay; a node that the cluster lacks is `len(nodes)`."""
    dead: tuple[tuple[int, int], ...]
    """Pairs of nodes with a dead link, in the direction that was measured."""
    unreachable: tuple[tuple[int, int], ...]
    """Directed pairs of nodes without a path."""
    partitions_asked: int
    """0 where the job does not ask."""
    tensors: int
    """Gradient tensors of one allreduce."""
    quota_gpus: int | None
    """GPUs that the namespace may still take; None without a quota."""
    node_rules: tuple[str, ...] = ()
    """Fields of the job and the pod that close nodes, for messages."""


class PlacedWorker(msgspec.Struct, frozen=True):
    """One worker of a plan."""

    index: int
    node: int
    """Position in `PlanLimits.nodes`; their number where the cluster lacks the node."""
    ranks: tuple[int, ...]
    gpus: int
    share: int
    """Billionths of the training vertices."""
    rank_bytes: int = 0
    """GPU memory that each of its ranks needs; 0 where nothing estimates it."""


class PlanFacts(msgspec.Struct, frozen=True):
    """What one plan states."""

    workers: tuple[PlacedWorker, ...]
    ring: tuple[int, ...]
    """Workers in ring order."""
    partitions: int
    parts_by_rank: tuple[tuple[int, ...], ...]
    schedule: tuple[int, ...]
    """Gradient tensors in the order of their allreduce."""
    ranks_by_node: tuple[tuple[int, int], ...]
    """(node, ranks), sorted."""
