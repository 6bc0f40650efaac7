"""Domains of a large cluster that are searched one after the other. Pure and deterministic."""

from __future__ import annotations

from typing import Final

import numpy as np

from hyperscale.model.graph import IntArray
from hyperscale.planner.problem.placement_problem import Problem
from hyperscale.planner.search.improve import SearchBudget

DOMAIN_LOOK: Final = SearchBudget(seeds=8, starts=2, elements=20_000_000, sweeps=12, beam=128)
"""For every domain of a large cluster."""
WIDE_WORKERS: Final = 64
"""Larger jobs are placed in the first pool only."""
DOMAIN_NODES: Final = 192
"""Candidates of the largest domain that is searched."""
MOST_DOMAINS: Final = 96
"""Domains searched, those with the fastest slots."""
WHOLE_NODES: Final = 900
"""Candidates among which the best placements of single domains may then move a worker.

All pairs take some tens of milliseconds and some 40 MiB: a planner with little memory has no room for more.
"""
WHOLE_STARTS: Final = 8
"""How many of these placements do."""


def racks_of(problem: Problem, pool: IntArray) -> IntArray:
    """(p,) narrowest topology domain of each candidate of the pool; 0 where the cluster has no levels."""
    domains = problem.graph.domains[problem.nodes[pool]]
    return domains[:, -1] if domains.shape[1] else np.zeros(len(pool), dtype=np.int64)


def spread_nodes(problem: Problem, region: IntArray, workers: int) -> IntArray | None:
    """Candidates, rising, of many narrowest domains, the fastest of each: all workers spread load each uplink least.

    None where no uplink is limited, or fewer than two domains or too few slots are there.
    """
    domains = problem.graph.domains[problem.nodes[region]]
    if not domains.shape[1] or not np.isfinite(problem.machine.uplink_bytes_per_second).any():
        return None
    members = region[(domains[:, -1] >= 0) & (problem.slots[region] > 0)]
    codes = problem.graph.domains[problem.nodes[members], -1]
    speed = problem.flops_per_second[members]
    order = np.lexsort((members, -speed, codes))
    starts = np.searchsorted(codes[order], np.unique(codes))
    if len(starts) < 2:
        return None
    place = np.empty(len(members), dtype=np.int64)
    place[order] = np.arange(len(members)) - np.repeat(starts, np.diff(np.append(starts, len(members))))
    # The domains with the fastest nodes, no more than there are workers.
    best = codes[order][starts][np.lexsort((starts, -speed[order][starts]))][:workers]
    chosen = members[np.isin(codes, best) & (place < max(1, DOMAIN_NODES // len(best)))]
    return chosen if int(problem.slots[chosen].sum()) >= workers else None


def domains_with_room(problem: Problem, region: IntArray, workers: int) -> list[IntArray]:
    """Candidates, rising, of every topology domain of moderate size that can host all workers, the fastest first; pinned ones with them."""
    domains = problem.graph.domains[problem.nodes[region]]
    pinned = np.array([candidate for _, candidate in problem.pinned], dtype=np.int64)
    ranked_by_key: dict[bytes, tuple[float, IntArray]] = {}
    for level in range(domains.shape[1]):
        for code in np.unique(domains[domains[:, level] >= 0, level]):
            members = np.unique(np.concatenate((region[domains[:, level] == code], pinned)))
            slots = problem.slots[members]
            if len(members) <= DOMAIN_NODES and int(slots.sum()) >= workers - len(pinned):
                speeds = np.sort(np.repeat(problem.flops_per_second[members], slots))[::-1][:workers]
                ranked_by_key[members.tobytes()] = (-float(speeds.sum()), members)
    ranked = sorted(ranked_by_key.values(), key=lambda entry: (entry[0], entry[1].tobytes()))
    return [members for _, members in ranked[:MOST_DOMAINS]]
