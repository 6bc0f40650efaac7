"""Placements without the dearest nodes, for people who weigh cost: a search for the fastest placement proposes few of them. Pure."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from hyperscale.planner.problem.placement_problem import Problem, pose
from hyperscale.planner.search.heuristic import Expired, Heuristic
from hyperscale.planner.search.search_result import Candidate

MAX_PRICES: Final = 2
"""Prices below which all nodes are searched once more, the lowest first."""


def cheaper_candidates(problem: Problem, expired: Expired) -> list[tuple[Candidate, str]]:
    """Return placements on the nodes with the lowest prices, as candidates of `problem`; none without weights of people or with pins.

    They stand in the same order for the same problem; once `expired` turns true no further search begins.
    """
    if problem.request.weights is None or problem.pinned:
        return []
    prices = [speed.price_per_hour for speed in problem.speeds]
    position = {name: at for at, name in enumerate(problem.names)}
    proposed: list[tuple[Candidate, str]] = []
    for limit in sorted({price for price in prices if price is not None})[:-1][:MAX_PRICES]:
        if expired():
            break
        dear = [name for name, price in zip(problem.names, prices, strict=True) if price is None or price > limit]
        request = replace(problem.request, excluded_nodes=tuple(sorted({*problem.request.excluded_nodes, *dear})), weights=None)
        smaller = pose(request, problem.graph, problem.workload, problem.policy)
        for candidate in Heuristic().candidates(smaller, expired):
            order = tuple(position[smaller.names[member]] for member in candidate.order)
            proposed.append((Candidate(candidate.objective, candidate.workers, candidate.names, order), Heuristic.name))
    return proposed
