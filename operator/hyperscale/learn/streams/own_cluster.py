"""A cluster's own nodes and links for simulated streams: what its agent learns then holds for its fast nodes and its slow links. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np

from hyperscale.learn.lesson import LessonError, PastRun
from hyperscale.learn.streams.scenario import SimulatedNodes, widest_domain
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot, Node
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.problem.speeds import gpu_speeds

LEAST_SLOTS: Final = 4
"""Workers that the cluster holds; with fewer there is little to decide."""
MOST_SLOTS: Final = 64
"""The simulator keeps a set of nodes in one word."""


def own_nodes(snapshot: ClusterSnapshot, gpus_per_worker: int) -> SimulatedNodes:
    """As many simulated nodes as the cluster holds workers, all its GPUs idle; nodes that take no pods are left out.

    Speeds are those of the table of products. Raises LessonError for a cluster that is too small or too large.
    """
    graph = build(snapshot, PolicySpec())
    rooms = np.array(
        [node.allocatable_gpus // gpus_per_worker if node.ready and node.schedulable else 0 for node in graph.nodes], dtype=np.int64
    )
    slots = int(rooms.sum())
    if not LEAST_SLOTS <= slots <= MOST_SLOTS:
        what = f"holds {slots} workers of {gpus_per_worker} GPU{'s' if gpus_per_worker > 1 else ''}"
        raise LessonError(
            f"--snapshot: the cluster {what}, {LEAST_SLOTS} to {MOST_SLOTS} can be simulated; leave --snapshot out for others"
        )
    places = np.repeat(np.arange(len(rooms)), rooms)
    links = graph.link_costs(places)
    reachable = links.reachable
    speed = np.array([speed.flops_per_second for speed in gpu_speeds(graph.nodes, PolicySpec())]) * gpus_per_worker
    return SimulatedNodes(
        speed=speed[places],
        latency_seconds=np.where(reachable, links.latency_seconds, 0.0),
        seconds_per_byte=np.divide(1.0, links.bandwidth_bytes_per_second, out=np.ones(reachable.shape), where=reachable),
        blocked=~reachable,
        domain=widest_domain(graph.domains[places]),
        machine=places,
    )


def _room(node: Node, gpus_per_worker: int) -> int:
    return node.allocatable_gpus // gpus_per_worker if node.ready and node.schedulable else 0


def usual_gpus(runs: Sequence[PastRun], snapshot: ClusterSnapshot) -> int:
    """GPUs of a worker of most runs; where none says it, a worker has all GPUs of the smallest node."""
    runs_by_gpus = Counter(run.gpus_per_worker for run in runs if run.gpus_per_worker is not None)
    if runs_by_gpus:
        return max(runs_by_gpus, key=lambda gpus: (runs_by_gpus[gpus], gpus))
    return min((node.allocatable_gpus for node in snapshot.nodes if node.allocatable_gpus > 0), default=1)
