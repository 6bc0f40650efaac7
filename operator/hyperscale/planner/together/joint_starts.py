"""Assignments of nodes to jobs that the search for joint placements begins from. Pure and deterministic.

Beside the plans made one after the other: the same in other orders, Hulk's sum of link costs (planner/assign), and the classification of
nodes to jobs by an edge-pooled graph network (Hulk, arXiv 2302.13741, section 4).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from hyperscale.model.graph import BoolArray, FloatArray, IntArray
from hyperscale.planner.assign.assign_problem import sized
from hyperscale.planner.assign.search import descended, grown
from hyperscale.planner.search.kernels import kernel
from hyperscale.planner.together.class_features import class_features, pair_seconds
from hyperscale.planner.together.class_network import ClassNetwork
from hyperscale.planner.together.in_sequence import Sequences
from hyperscale.planner.together.shared_nodes import SharedNodes
from hyperscale.planner.together.together_search import JointStart
from hyperscale.util.splitmix import SplitMix64

DEAREST_FIRST: Final = "dearest job first"
LARGEST_FIRST: Final = "largest job first"
BEST_SEQUENCE: Final = "best sequence"
LINK_SUM: Final = "sum of link costs"
CLASSIFIED: Final = "edge-pooled GCN"
MAX_SEQUENCES: Final = 40
"""Sequences tried."""
MAX_PLACEMENTS: Final = 40
"""Placements of one job in all of them."""
MAX_PLACED_WORK: Final = 4_000_000
"""Bound of their steps, two nanoseconds each; see `in_sequence.placing_work`."""
MAX_MACHINES: Final = 192
"""Places of workers that the assignment by link costs divides."""
GROWN: Final = 2
"""Machines that it begins from."""
APART_RATIO: Final = 10.0
"""A pair that cannot talk costs this multiple of the dearest that can."""


def joint_starts(shared: SharedNodes, network: ClassNetwork | None = None) -> list[JointStart]:
    """All starts that have a place for every job; without the network, none by classification."""
    ordered = list(other_orders(shared))
    return [*ordered, *link_sum(shared), *classified(shared, network, ordered[0].orders if ordered else None)]


def other_orders(shared: SharedNodes) -> Iterator[JointStart]:
    """One job after the other: the dearest first, the largest first, and the best sequence near to the better of these."""
    seconds = shared.weights * shared.seconds_before
    sequences = Sequences(shared)
    tried: list[tuple[float, tuple[int, ...], str, list[IntArray]]] = []
    for name, key in ((DEAREST_FIRST, seconds), (LARGEST_FIRST, np.array(shared.workers) * shared.demand[:, 0])):
        if tried and 2 * sequences.work > MAX_PLACED_WORK:
            break
        sequence = tuple(np.argsort(-key, kind="stable").tolist())
        orders, total = sequences.searched(sequence)
        if orders is not None:
            tried.append((total, sequence, name, orders))
    yield from (JointStart(name, orders) for _, _, name, orders in tried)
    first = tuple(np.argsort(-seconds, kind="stable").tolist())
    best = min(tried, key=lambda each: each[:2]) if tried else (np.inf, first, BEST_SEQUENCE, list(shared.one_by_one))
    better = _near(shared, sequences, best[0], best[1])
    if better is not None:
        yield JointStart(BEST_SEQUENCE, better)


def _near(shared: SharedNodes, sequences: Sequences, least: float, sequence: tuple[int, ...]) -> list[IntArray] | None:
    """The best placements met while one job after the other moves to another place of the sequence; None where none is better."""
    random = SplitMix64(len(shared.nodes) + 1000 * len(sequence))
    jobs = len(sequence)
    better: list[IntArray] | None = None
    for _ in range(MAX_SEQUENCES):
        if sequences.placements >= MAX_PLACEMENTS or sequences.work >= MAX_PLACED_WORK:
            break
        job, place = random.below(jobs), random.below(jobs)
        moved = [each for each in sequence if each != sequence[job]]
        moved.insert(place, sequence[job])
        orders, total = sequences.searched(moved)
        if orders is not None and total < least:
            least, sequence, better = total, tuple(moved), orders
    return better


def link_sum(shared: SharedNodes) -> Iterator[JointStart]:
    """Hulk's assignment: the sum of the link costs inside the jobs, every place of a worker a machine."""
    places = _places(shared)
    workers = list(shared.workers)
    if not sum(workers) <= len(places) <= MAX_MACHINES:
        return
    cost = _link_costs(shared)[np.ix_(places, places)]
    np.fill_diagonal(cost, 0.0)
    tasks = sized(cost, workers)
    order = np.argsort(cost.sum(axis=1), kind="stable")
    best = min((descended(tasks, grown(tasks, int(machine)), cycles=False) for machine in _spread(order)), key=lambda each: each.rank)
    orders = seated_orders(shared, places, best.group)
    if orders is not None:
        yield JointStart(LINK_SUM, orders)


def classified(shared: SharedNodes, network: ClassNetwork | None, base: Sequence[IntArray] | None = None) -> Iterator[JointStart]:
    """The likeliest assignment of nodes to jobs by the graph network, with as many workers as each job has (Hungarian method).

    base: placements that the network sees; None: those one after the other
    """
    from scipy.optimize import linear_sum_assignment

    places, wanted = _places(shared), sum(shared.workers)
    if network is None or not wanted <= len(places) <= MAX_MACHINES:
        return
    if base is not None and not np.isfinite(shared.seconds(base)).all():
        base = None  # nothing can be learned from a placement that cannot work
    logits = network.logits(class_features(shared, base))
    seats = np.repeat(np.arange(len(shared.workers)), list(shared.workers))
    gain = (logits[:-1] - logits[-1])[seats][:, places]
    _, chosen = linear_sum_assignment(-gain)
    group = np.full(len(places), len(shared.workers), dtype=np.int64)
    group[chosen] = seats
    orders = seated_orders(shared, places, group)
    if orders is not None:
        yield JointStart(CLASSIFIED, orders)


def seated_orders(shared: SharedNodes, places: IntArray, group: IntArray) -> list[IntArray] | None:
    """Ring orders (k,) of an assignment of places (M,) to jobs; None where a job cannot use one of its nodes."""
    orders: list[IntArray] = []
    for index in range(len(shared.workers)):
        members = shared.back[index, places[group == index]]
        if len(members) != shared.workers[index] or (members < 0).any():
            return None
        orders.append(_in_a_ring(shared, index, np.sort(members)))
    return orders


def _in_a_ring(shared: SharedNodes, index: int, members: IntArray) -> IntArray:
    """(k,) members of a job in a good ring order."""
    if shared.kernels is None:
        order: IntArray = kernel.rings(shared.of_job[index].search_costs, members[None, :])[0]
        return order
    row = members.astype(np.int32)
    shared.kernels[index].rings(row[None, :], np.zeros(len(row), dtype=np.uint8))
    return row.astype(np.int64)


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
    seconds = shared.seconds_before
    for index, each in enumerate(shared.of_job):
        own, blocked = (
            pair_seconds(each.search_costs, shared.workers[index]) / max(float(seconds[index]), 1e-300),
            each.search_costs.blocked,
        )
        if blocked.any():
            own = np.where(blocked, APART_RATIO * float(own.max(initial=0.0, where=~blocked)), own)
        if len(own) == len(total):
            total += own  # a tenth of the time of an index
        else:
            total[np.ix_(each.nodes, each.nodes)] += own
    symmetric: FloatArray = (total + total.T) / (2.0 * len(shared.workers))
    return symmetric
