"""Assignments of nodes to jobs that the search for joint placements begins from. Pure and deterministic.

Beside the plans made one after the other: the same in other orders, Hulk's sum of link costs (planner/assign), and the classification of
nodes to jobs by an edge-pooled graph network (Hulk, arXiv 2302.13741, section 4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np

from hyperscale.model.graph import BoolArray, FloatArray, IntArray
from hyperscale.planner.assign.assign_problem import Tasks, sized
from hyperscale.planner.assign.search import descended, grown
from hyperscale.planner.cost.objective import Costs, volumes
from hyperscale.planner.search.kernels import kernel
from hyperscale.planner.together.shared_nodes import SharedNodes
from hyperscale.planner.together.together_search import JointStart

DEAREST_FIRST: Final = "dearest job first"
LARGEST_FIRST: Final = "largest job first"
LINK_SUM: Final = "sum of link costs"
SEEDS: Final = 3
"""First members that a job is grown from."""
MAX_MACHINES: Final = 256
"""Places of workers that the assignment by link costs divides."""
GROWN: Final = 3
"""Machines that it begins from."""
APART_RATIO: Final = 10.0
"""A pair that cannot talk costs so many times the dearest that can."""


def joint_starts(shared: SharedNodes) -> list[JointStart]:
    """All starts that have a place for every job."""
    return [start for make in STARTS for start in make(shared)]


def other_orders(shared: SharedNodes) -> Iterator[JointStart]:
    """Greedy, one job after the other, those first whose runs count most, and those with most workers first."""
    seconds = shared.weights * shared.seconds(shared.start())
    workers = np.array([job.workers for job in shared.jobs])
    for name, key in ((DEAREST_FIRST, seconds), (LARGEST_FIRST, workers * shared.demand[:, 0])):
        orders = in_order(shared, np.argsort(-key, kind="stable").tolist())
        if orders is not None:
            yield JointStart(name, orders)


def in_order(shared: SharedNodes, sequence: Sequence[int], sweeps: int = 2) -> list[IntArray] | None:
    """Placements (k,) of all jobs by greedy and local search, in this sequence of jobs; None where one finds no place."""
    left = shared.left([None] * len(shared.jobs))
    orders: list[IntArray | None] = [None] * len(shared.jobs)
    for index in sequence:
        costs, workers = shared.of_job[index].search_costs, shared.jobs[index].workers
        room = shared.room(index, left)
        rows = kernel.greedy_all(costs, room, workers, kernel.seed_ranking(costs, room, workers)[:SEEDS])
        if not len(rows):
            return None
        rows, seconds = kernel.local_search(costs, room, rows, sweeps=sweeps)
        order = rows[int(np.argmin(seconds))]
        orders[index] = order
        left = left - _taken(shared, index, order)
    return [order for order in orders if order is not None]


def link_sum(shared: SharedNodes) -> Iterator[JointStart]:
    """Hulk's assignment: the sum of the link costs inside the jobs, every place of a worker a machine."""
    places = _places(shared)
    workers = [job.workers for job in shared.jobs]
    if not sum(workers) <= len(places) <= MAX_MACHINES:
        return
    cost = _link_costs(shared)[np.ix_(places, places)]
    np.fill_diagonal(cost, 0.0)
    tasks = sized(cost, workers)
    order = np.argsort(cost.sum(axis=1), kind="stable")
    best = min((descended(tasks, grown(tasks, int(machine)), cycles=False) for machine in _spread(order)), key=lambda each: each.rank)
    orders = seated_orders(shared, places, best.group, tasks)
    if orders is not None:
        yield JointStart(LINK_SUM, orders)


def seated_orders(shared: SharedNodes, places: IntArray, group: IntArray, tasks: Tasks) -> list[IntArray] | None:
    """Ring orders (k,) of an assignment of places (M,) to jobs; None where a job cannot use one of its nodes."""
    orders: list[IntArray] = []
    for index in range(tasks.idle):
        members = shared.back[index, places[group == index]]
        if len(members) != shared.jobs[index].workers or (members < 0).any():
            return None
        orders.append(kernel.rings(shared.of_job[index].search_costs, np.sort(members)[None, :])[0])
    return orders


def _spread(order: IntArray) -> IntArray:
    """A few machines from near to far from the others."""
    return order[np.unique(np.linspace(0, len(order) - 1, GROWN).astype(np.int64))]


def _places(shared: SharedNodes) -> IntArray:
    """(M,) shared node of every place of a worker, by the largest demand of any job; only nodes that all jobs can use."""
    wanted = shared.demand.max(axis=0)
    asked = wanted > 0.0
    fitting = np.floor(shared.free[:, asked] / wanted[asked]).min(axis=1)
    usable: BoolArray = np.all(shared.back >= 0, axis=0).reshape(-1)
    slots = np.where(usable, np.clip(fitting, 0, int(shared.most.min())), 0).astype(np.int64)
    return np.repeat(np.arange(len(shared.nodes)), slots)


def _link_costs(shared: SharedNodes) -> FloatArray:
    """(P, P) seconds that a pair of workers adds to a job's objective, over the job's objective, mean of the jobs; symmetric."""
    total = np.zeros((len(shared.nodes), len(shared.nodes)))
    seconds = shared.seconds(shared.start())
    for index, each in enumerate(shared.of_job):
        own = pair_seconds(each.search_costs, shared.jobs[index].workers) / max(float(seconds[index]), 1e-300)
        total[np.ix_(each.nodes, each.nodes)] += np.where(each.search_costs.blocked, 0.0, own)
        apart = APART_RATIO * float(own.max(initial=0.0, where=~each.search_costs.blocked))
        total[np.ix_(each.nodes, each.nodes)] += np.where(each.search_costs.blocked, apart, 0.0)
    symmetric: FloatArray = (total + total.T) / (2.0 * len(shared.jobs))
    return symmetric


def pair_seconds(costs: Costs, workers: int) -> FloatArray:
    """(m, m) seconds that a pair of workers adds to an epoch of the job."""
    volume = volumes(costs, workers)
    partners = max(1, workers - 1)
    waits: FloatArray = (volume.rounds + volume.ring_latency_factor) / partners * costs.latency_seconds
    seconds: FloatArray = waits + (volume.halo_bytes / workers + volume.ring_byte_factor) / partners * costs.seconds_per_byte
    return seconds


def _taken(shared: SharedNodes, index: int, order: IntArray) -> FloatArray:
    """(P, R) what a placement takes."""
    counts = np.bincount(shared.of_job[index].nodes[order], minlength=len(shared.nodes))
    taken: FloatArray = counts[:, None] * shared.demand[index]
    return taken


STARTS: Final[tuple[Callable[[SharedNodes], Iterator[JointStart]], ...]] = (other_orders, link_sum)
