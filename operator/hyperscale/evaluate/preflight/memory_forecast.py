"""Memory of a rank before it runs: built-in models by the planner's count of tensors, own scripts from trials on smaller graphs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from hyperscale.evaluate.preflight.trial_types import MIB
from hyperscale.model.api.choices import Architecture
from hyperscale.model.api.job import JobSpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.plan import Plan
from hyperscale.planner.problem.figures import gpu_memory_bytes
from hyperscale.planner.problem.placement_problem import USABLE_MEMORY_RATIO
from hyperscale.planner.workload.profile import profile
from hyperscale.planner.workload.training_memory import LIBRARIES

MIN_RATIO: Final = 1.25
"""Of the sizes of two trials: closer ones say more of noise than of size."""


class TrialPeak(NamedTuple):
    """One trial."""

    scale: float
    """Its vertices for each of the job's."""
    bytes: float


class PeakLine(NamedTuple):
    """Peak of a rank that holds a part of the graph.

    At a given mean degree every moment of a training step is linear in the vertices.
    """

    fixed_bytes: float
    graph_bytes: float

    def bytes(self, share: float) -> float:
        """With that part of the vertices."""
        return self.fixed_bytes + share * self.graph_bytes


def line_of(trials: Sequence[TrialPeak]) -> PeakLine | None:
    """Return the line through the trials by least squares; None where their sizes are too close to say how the peak grows.

    One trial on the whole graph is a bound: a part needs no more.
    """
    if len(trials) == 1 and trials[0].scale >= 1.0:
        return PeakLine(trials[0].bytes, 0.0)
    scales = np.array([trial.scale for trial in trials])
    if len(trials) < 2 or scales.max() < MIN_RATIO * scales.min():
        return None
    slope, fixed = np.polyfit(scales, np.array([trial.bytes for trial in trials]), 1)
    return PeakLine(max(0.0, float(fixed)), max(0.0, float(slope)))


def gpu_bytes(job: JobSpec, share: float, ranks: int, trials: Sequence[TrialPeak] = ()) -> float | None:
    """Return the peak of a GPU that holds `share` of the vertices; None for an own script without trials of two sizes.

    ranks: of the job, into which the graph is cut
    """
    if job.model.architecture is not Architecture.CUSTOM and job.model.script is None:
        return profile(job).gpu_bytes(share, ranks, 1)
    line = line_of(trials)
    return None if line is None else line.bytes(share) + LIBRARIES


def equal_share_bytes(job: JobSpec, trials: Sequence[TrialPeak] = ()) -> float | None:
    """Return the peak of a GPU without a plan: the fewest workers with equal shares, which need most each."""
    ranks = job.workers.min_replicas * job.workers.gpus_per_worker
    return gpu_bytes(job, 1.0 / ranks, ranks, trials)


def plan_bytes(job: JobSpec, plan: Plan, trials: Sequence[TrialPeak] = ()) -> float | None:
    """Return the peak of the GPU of the plan that needs most."""
    shares = [worker.share / worker.gpus for worker in plan.workers]
    return gpu_bytes(job, max(shares), plan.ranks, trials)


def too_small(job: JobSpec, plan: Plan, snapshot: ClusterSnapshot, trials: Sequence[TrialPeak] = ()) -> tuple[str, ...]:
    """Return a sentence for each GPU product of the plan that the job is predicted not to fit, the worst worker of each."""
    return tuple(
        f"{product}: with {100 * share:.3g} % of the vertices it is predicted to need {need / MIB:,.0f} MiB, and has {has / MIB:,.0f} MiB"
        for product, (share, need, has) in _tightest(job, plan, snapshot, trials).items()
        if need > has
    )


def _tightest(job: JobSpec, plan: Plan, snapshot: ClusterSnapshot, trials: Sequence[TrialPeak]) -> dict[str, tuple[float, float, int]]:
    """(share, need, memory) by product of the worker with the least room."""
    tightest: dict[str, tuple[float, float, int]] = {}
    for product, share, memory in _ranks(plan, snapshot):
        need = gpu_bytes(job, share, plan.ranks, trials)
        if need is not None and (product not in tightest or memory - need < tightest[product][2] - tightest[product][1]):
            tightest[product] = (share, need, memory)
    return tightest


def _ranks(plan: Plan, snapshot: ClusterSnapshot) -> Iterator[tuple[str, float, int]]:
    """Product, share of one GPU, and its memory, where that is known."""
    nodes = {node.name: node for node in snapshot.nodes}
    for worker in plan.workers:
        node = nodes.get(worker.node)
        memory = None if node is None else gpu_memory_bytes(node)
        if node is not None and memory is not None:
            yield worker.product or node.gpu_product or worker.node, worker.share / worker.gpus, int(USABLE_MEMORY_RATIO * memory)


def memory_by_product(snapshot: ClusterSnapshot) -> Mapping[str, int]:
    """Return the least memory that a job can use of each GPU product of a cluster; nodes whose memory is unknown say nothing."""
    least: dict[str, int] = {}
    for node in snapshot.nodes:
        memory = gpu_memory_bytes(node)
        if memory is not None and node.gpu_product is not None:
            usable = int(USABLE_MEMORY_RATIO * memory)
            least[node.gpu_product] = min(usable, least.get(node.gpu_product, usable))
    return dict(sorted(least.items()))
