"""Questions of several jobs at once on generated clusters, and their labels: which job has which node in the best answer found. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from hyperscale.learn.topologies import GPUS_PER_WORKER, Topology, costs_of, generate
from hyperscale.learn.workloads import scale_of, workload_at
from hyperscale.model.api.job import Balance
from hyperscale.model.graph import FloatArray, IntArray
from hyperscale.model.workload import WorkloadProfile
from hyperscale.planner.together.in_sequence import Sequences
from hyperscale.planner.together.joint_starts import link_sum, other_orders
from hyperscale.planner.together.shared_nodes import JobCosts, SharedNodes, job_costs
from hyperscale.planner.together.together_search import JointStart, place_together

FAMILIES: Final = ("geo", "fattree", "zones", "random", "wan")
MIN_NODES, MAX_NODES = 32, 97
MIN_JOBS, MAX_JOBS = 4, 12
LABEL_EFFORT: Final = 2.0
"""Steps of the search behind a label, as a factor of the planner's."""


class JointQuestion(NamedTuple):
    """One case."""

    shared: SharedNodes
    owners: FloatArray
    """(J + 1, P) part of each node's places that each job has in the best answer found; the last row: none."""
    total: float
    """Weighted sum of that answer."""


def question(family: str, seed: int) -> SharedNodes | None:
    """Jobs that all find a place one after the other; None where the cluster of this seed has none for some."""
    rng = np.random.default_rng([seed, *family.encode(), 12])
    topology = generate(family, int(rng.integers(MIN_NODES, MAX_NODES)), seed)
    jobs = int(rng.integers(MIN_JOBS, MAX_JOBS + 1))
    part = rng.dirichlet(np.full(jobs, 2.0)) * rng.uniform(0.5, 1.0) * int(topology.slots.sum())
    counts = np.clip(np.floor(part).astype(np.int64), 1, 32)
    of_job = [_job(topology, int(workers), bool(rng.integers(2)), seed * MAX_JOBS + number) for number, workers in enumerate(counts)]
    nodes = np.arange(len(topology.slots))
    shared = SharedNodes(
        one_by_one=tuple(np.zeros(workers, dtype=np.int64) for workers in counts),
        weights=np.ones(jobs),
        limits=np.full(jobs, np.inf),
        nodes=nodes,
        demand=np.full((jobs, 1), float(GPUS_PER_WORKER)),
        free=np.asarray(topology.slots[:, None] * GPUS_PER_WORKER, dtype=np.float64),
        most=counts,
        back=np.tile(nodes, (jobs, 1)),
        of_job=tuple(of_job),
    )
    # The planner shows the network the dearest job's choice first; other sequences keep it from learning only to repeat that.
    sequence = np.argsort([-each.costs.workload.epoch_flops / workers for each, workers in zip(of_job, counts, strict=True)], kind="stable")
    orders = Sequences(shared).orders((sequence if seed % 2 else rng.permutation(jobs)).tolist())
    placed = replace(shared, one_by_one=tuple(orders)) if orders is not None else None
    return placed if placed is not None and np.isfinite(placed.total(list(placed.one_by_one))) else None


def labelled(shared: SharedNodes, seed: int) -> JointQuestion:
    """The question with the best answer of a longer search."""

    def starts(given: SharedNodes) -> list[JointStart]:
        return [*other_orders(given), *link_sum(given)]

    placed = place_together(shared, starts, seed, LABEL_EFFORT)
    owners = np.zeros((len(shared.workers) + 1, len(shared.nodes)))
    for index, order in enumerate(placed.orders):
        owners[index] = np.bincount(shared.of_job[index].nodes[order], minlength=len(shared.nodes))
    places = np.maximum(shared.free[:, 0] / GPUS_PER_WORKER, 1.0)
    owners[-1] = np.maximum(places - owners[:-1].sum(axis=0), 0.0)
    return JointQuestion(shared, owners / owners.sum(axis=0), placed.total)


def _job(topology: Topology, workers: int, equal: bool, seed: int) -> JobCosts:
    balance = Balance.EQUAL if equal else Balance.CAPACITY
    idle = WorkloadProfile(1, 1, 1.0, 0.0, 0.0, 0.0, None, 0, 0.0, 0.0, 0.0, 0.0)
    workload = workload_at(scale_of(costs_of(topology, idle, balance)), workers, seed)
    slots: IntArray = topology.slots.astype(np.int64)
    return job_costs(workers, np.arange(len(slots)), costs_of(topology, workload, balance), slots)
