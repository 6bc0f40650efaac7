"""Other parts of a large cluster, searched one after the other with the best placement so far among them. Pure and deterministic.

Every single way to cut a pool fails on some cluster; a search in turn of the surroundings of the best placement, of one neighbourhood after
the other, and of parts drawn by the seed finds what the first pool lacked.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from hyperscale.model.graph import FloatArray, IntArray
from hyperscale.planner.cost.objective import Costs, volumes
from hyperscale.planner.problem.placement_problem import Problem
from hyperscale.planner.search.improve import SearchBudget
from hyperscale.planner.search.pools import Pools

DOMAIN_LOOK: Final = SearchBudget(seeds=8, starts=2, elements=20_000_000, sweeps=12, beam=128)
"""For every domain of a large cluster."""
WIDE_LOOK: Final = SearchBudget(seeds=32, starts=3, elements=20_000_000, sweeps=12)
"""For other parts of a large cluster."""
WIDE_PARTS: Final = 16
WIDE_WORKERS: Final = 64
"""Larger jobs are placed in the first pool only."""
PART_NODES: Final = 192
"""Candidates of a part beside the members of the best placement."""
MOST_DOMAINS: Final = 96
"""Domains searched, those with the fastest slots."""
KINDS: Final = 4


def domains_with_room(problem: Problem, region: IntArray, workers: int) -> list[IntArray]:
    """Candidates, rising, of every topology domain of moderate size that can host all workers, the fastest first; pinned ones with them."""
    domains = problem.graph.domains[problem.nodes[region]]
    pinned = np.array([candidate for _, candidate in problem.pinned], dtype=np.int64)
    ranked_by_key: dict[bytes, tuple[float, IntArray]] = {}
    for level in range(domains.shape[1]):
        for code in np.unique(domains[domains[:, level] >= 0, level]):
            members = np.unique(np.concatenate((region[domains[:, level] == code], pinned)))
            slots = problem.slots[members]
            if len(members) <= PART_NODES and int(slots.sum()) >= workers - len(pinned):
                speeds = np.sort(np.repeat(problem.flops_per_second[members], slots))[::-1][:workers]
                ranked_by_key[members.tobytes()] = (-float(speeds.sum()), members)
    ranked = sorted(ranked_by_key.values(), key=lambda entry: (entry[0], entry[1].tobytes()))
    return [members for _, members in ranked[:MOST_DOMAINS]]


def part(problem: Problem, region: IntArray, pools: Pools, order: IntArray, number: int) -> IntArray:
    """Candidates, rising: the members of `order` (k,), the pinned ones, and the part with this number of the region (p,)."""
    rng = np.random.default_rng([problem.request.seed, number])
    pinned = np.array([candidate for _, candidate in problem.pinned], dtype=np.int64)
    kind, turn = number % KINDS, number // KINDS
    if kind == 0:
        score = beside(problem, region, order)
    elif kind == 1:
        score = pools.neighbourhood(len(order), turn)
    elif kind == 2:
        score = beside(problem, region, order[rng.integers(len(order), size=1)])
    else:
        score = rng.random(len(region))
    score = np.where(problem.slots[region] > 0, score, np.inf)
    # Equals in another order each time: a cluster known by its labels only has many of them.
    ranked = np.lexsort((rng.random(len(region)), score))[:PART_NODES]
    return np.unique(np.concatenate((region[ranked], order, pinned)))


def beside(problem: Problem, region: IntArray, members: IntArray) -> FloatArray:
    """(p,) seconds that each candidate of the region adds as a partner of all `members` (q,): its links to them and its slowness."""
    links = problem.graph.link_costs_between(problem.nodes[members], problem.nodes[region])
    with np.errstate(divide="ignore"):
        per_byte = np.where(links.bandwidth_bytes_per_second > 0, 1.0 / links.bandwidth_bytes_per_second, np.inf)
    costs: Costs = problem.costs(region[:1])
    workers = max(2, len(members))
    volume = volumes(costs, workers)
    traffic = volume.halo_bytes / workers * per_byte.mean(axis=0) + volume.ring_byte_factor * per_byte.min(axis=0)
    wait = volume.rounds * links.latency_seconds.max(axis=0) + volume.ring_latency_factor * links.latency_seconds.min(axis=0)
    seconds: FloatArray = traffic + wait + problem.workload.epoch_flops / (workers * problem.flops_per_second[region])
    return seconds
