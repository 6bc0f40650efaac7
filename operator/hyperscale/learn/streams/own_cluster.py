"""A cluster's own nodes and links for simulated streams: what its agent learns then holds for its fast nodes and its slow links. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from hyperscale.learn.lesson import LessonError, PastRun
from hyperscale.learn.streams.scenario import LEAST_SLOTS, SimulatedNodes, widest_domain
from hyperscale.model.api.job import MAX_WORKERS
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot, Node
from hyperscale.model.graph import BoolArray
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.problem.speeds import gpu_speeds
from hyperscale.planner.queue.likeness import FigureRange, JudgedStreams

MOST_SLOTS: Final = 64
"""The simulator keeps a set of nodes in one word."""
LEAST_LATENCY_SECONDS: Final = 1e-7
LEAST_BYTES_PER_SECOND: Final = 1e3
MOST_BYTES_PER_SECOND: Final = 1e14
"""Figures beyond these are no link's; they count as these."""


def own_nodes(snapshot: ClusterSnapshot, gpus_per_worker: int) -> SimulatedNodes:
    """As many simulated nodes as the cluster holds workers, all its GPUs idle; nodes that take no pods are left out.

    Speeds are those of the table of products. Raises LessonError for a cluster that is too small or too large.
    """
    graph = build(snapshot, PolicySpec())
    rooms = np.array([_room(node, gpus_per_worker) for node in graph.nodes], dtype=np.int64)
    rooms[list(graph.cut_off)] = 0
    slots = int(rooms.sum())
    if not LEAST_SLOTS <= slots <= MOST_SLOTS:
        what = f"holds {slots} workers of {gpus_per_worker} GPU{'s' if gpus_per_worker > 1 else ''}, as most runs had"
        raise LessonError(
            f"--snapshot: the cluster {what}; {LEAST_SLOTS} to {MOST_SLOTS} can be simulated; leave --snapshot out for others"
        )
    places = np.repeat(np.arange(len(rooms)), rooms)
    links = graph.link_costs(places)
    reachable = links.reachable
    if (most := most_together(reachable)) < max(LEAST_SLOTS, slots // 2):
        raise LessonError(
            f"--snapshot: only {most} of {slots} workers reach each other, half are needed; measure again, or repair the links"
        )
    # As the planner has it: exchanges go both ways, so the slower way counts.
    latency = np.maximum(links.latency_seconds, links.latency_seconds.T)
    bandwidth = np.minimum(links.bandwidth_bytes_per_second, links.bandwidth_bytes_per_second.T)
    bandwidth = np.clip(bandwidth, LEAST_BYTES_PER_SECOND, MOST_BYTES_PER_SECOND)
    speed = np.array([speed.flops_per_second for speed in gpu_speeds(graph.nodes, PolicySpec())]) * gpus_per_worker
    return SimulatedNodes(
        speed=speed[places],
        latency_seconds=np.where(reachable, np.maximum(latency, LEAST_LATENCY_SECONDS), 0.0),
        seconds_per_byte=np.where(reachable, 1.0 / bandwidth, 1.0),
        blocked=~reachable,
        domain=widest_domain(graph.domains[places]),
        machine=places,
    )


def most_together(reachable: BoolArray) -> int:
    """Size of a large set of nodes that all reach each other: from every node on, greedily."""
    best = 0
    for first in range(len(reachable)):
        left, size = reachable[first].copy(), 1
        left[first] = False
        while left.any():
            added = int(np.argmax(np.where(left, (reachable & left).sum(axis=1), -1)))
            left &= reachable[added]
            left[added] = False
            size += 1
        best = max(best, size)
    return best


def _room(node: Node, gpus_per_worker: int) -> int:
    return node.allocatable_gpus // gpus_per_worker if node.ready and node.schedulable else 0


def judged_there(streams: JudgedStreams, snapshot: ClusterSnapshot, gpus_per_worker: int) -> JudgedStreams:
    """The ranges as the operator counts its cluster: all nodes with GPUs, also those that take no pods or hold no whole worker.

    As many as were drained in streams may be gone.
    """
    nodes = [node for node in snapshot.nodes if node.allocatable_gpus > 0]
    slots = sum(node.allocatable_gpus for node in nodes) / gpus_per_worker
    speeds = [speed.flops_per_second for speed in gpu_speeds(nodes, PolicySpec())]
    spread = max(speeds) / min(speeds)
    return replace(
        streams,
        nodes=FigureRange(len(nodes) - (streams.nodes.high - streams.nodes.low), float(len(nodes))),
        worker_slots=FigureRange(slots - (streams.worker_slots.high - streams.worker_slots.low), slots),
        speed_spread=FigureRange(min(spread, streams.speed_spread.low), spread),
    )


def usual_gpus(runs: Sequence[PastRun], snapshot: ClusterSnapshot) -> int:
    """GPUs of a worker of most runs; where none says it, all GPUs of a machine as most are. Of two as common the fewer GPUs."""
    said = Counter(run.gpus_per_worker for run in runs if run.gpus_per_worker is not None)
    counts = said or Counter(gpus for node in snapshot.nodes if (gpus := _room(node, 1)))
    return min(counts, key=lambda gpus: (-counts[gpus], gpus), default=1)


def of_usual_workers(runs: Sequence[PastRun], usual: int) -> tuple[PastRun, ...]:
    """The runs with their GPUs in workers of the usual size: what is simulated is all of one size."""
    return tuple(run if run.gpus_per_worker is None else replace(run, workers=_workers(run, usual)) for run in runs)


def _workers(run: PastRun, usual: int) -> int:
    """Workers of the usual size that hold its GPUs."""
    return min(MAX_WORKERS, -(-run.workers * (run.gpus_per_worker or usual) // usual))
