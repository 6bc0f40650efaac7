"""Placements without the dearest nodes, for people who weigh cost: a search for the fastest placement proposes few of them. Pure."""

from __future__ import annotations

from collections.abc import Iterator
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
    known_prices = {speed.price_per_hour for speed in problem.speeds if speed.price_per_hour is not None}
    limits = sorted(known_prices)[:-1][:MAX_PRICES]
    return [(candidate, Heuristic.name) for limit in limits if not expired() for candidate in _up_to(problem, limit, expired)]


def _up_to(problem: Problem, limit: float, expired: Expired) -> Iterator[Candidate]:
    """Placements on nodes whose GPUs have a price of at most `limit`."""
    priced = zip(problem.names, problem.speeds, strict=True)
    dear = {name for name, speed in priced if speed.price_per_hour is None or speed.price_per_hour > limit}
    request = replace(problem.request, excluded_nodes=tuple(sorted({*problem.request.excluded_nodes, *dear})), weights=None)
    smaller = pose(request, problem.graph, problem.workload, problem.policy)
    position = {name: at for at, name in enumerate(problem.names)}
    for candidate in Heuristic().candidates(smaller, expired):
        order = tuple(position[smaller.names[member]] for member in candidate.order)
        yield Candidate(candidate.objective, candidate.workers, candidate.names, order)
