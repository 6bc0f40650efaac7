"""Layouts of as many workers on fewer or fuller nodes, of which those within the tolerance count as equal. Pure and deterministic.

A search for the fastest placement leaves such layouts out: between two of them lie placements that are slower than both.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Final

import numpy as np

from hyperscale.model.graph import BoolArray, FloatArray, IntArray
from hyperscale.planner.cost.objective import objectives
from hyperscale.planner.problem.placement_problem import Problem
from hyperscale.planner.problem.regions import domains_of
from hyperscale.planner.search.ring import canonical
from hyperscale.planner.search.search_result import Candidate

MAX_WORKERS: Final = 64
"""Larger jobs are left as they are: they fill most of their nodes."""
SAME_PRICE: Final = 1e-9
"""Relative difference that comes from the order of a sum."""
MAX_COSTED: Final = 12
"""Layouts whose objective is taken, those that fit best first."""

Fit = Callable[[list[IntArray]], FloatArray]
"""Layouts (B) of (k,) sorted candidates -> (B, f) figures of how badly each fits, the most important first."""


def consolidated(problem: Problem, candidate: Candidate, limit: float, fit: Fit, begun: BoolArray) -> Candidate | None:
    """Return the best fit among layouts within `limit` that fits better than `candidate`; None where there is none.

    begun: (m,) nodes of which some GPUs are in use
    """
    workers, order = candidate.workers, np.array(candidate.order, dtype=np.int64)
    if workers > MAX_WORKERS:
        return None
    unique = {
        layout.tobytes(): layout for layout in _affordable(problem, _layouts(problem, _eligible(problem, order), order, begun), order)
    }
    layouts = [np.sort(order), *unique.values()]
    figures = fit(layouts)
    ranking = np.lexsort((np.arange(len(layouts)), *figures.T[::-1]))
    better = ranking[: int(np.flatnonzero(ranking == 0)[0])]
    chosen = [at for at in better.tolist() if tuple(figures[at]) < tuple(figures[0])][:MAX_COSTED]
    if not chosen:
        return None
    rows = canonical(np.array([layouts[at] for at in chosen]))
    members, places = np.unique(rows, return_inverse=True)
    seconds = objectives(problem.costs(members), places.reshape(rows.shape))
    good = np.flatnonzero(seconds <= limit)
    if not len(good):
        return None
    now = tuple(int(member) for member in rows[good[0]])
    return Candidate(float(seconds[good[0]]), workers, tuple(problem.names[member] for member in now), now)


def _affordable(problem: Problem, layouts: list[IntArray], order: IntArray) -> list[IntArray]:
    """Those no dearer than `order`: the cheapest of equal plans wins before how well they fit.

    A price that is not known is 0 here: `_eligible` asks for known ones.
    """
    prices = np.array([speed.price_per_hour or 0.0 for speed in problem.speeds])
    most = float(prices[order].sum()) * (1.0 + SAME_PRICE)
    return [layout for layout in layouts if float(prices[layout].sum()) <= most]


def _eligible(problem: Problem, order: IntArray) -> BoolArray:
    """(m,) nodes that take a worker, are no slower than the slowest of `order` and no dearer than its dearest, in its domains."""
    prices = [speed.price_per_hour for speed in problem.speeds]
    dearest = max((price for member in order if (price := prices[member]) is not None), default=None)
    fast = problem.flops_per_second >= problem.flops_per_second[order].min()
    eligible: BoolArray = (problem.slots > 0) & fast
    if dearest is not None:
        eligible &= np.array([price is not None and price <= dearest for price in prices])
    topology = problem.job.placement.topology
    if (key := topology.required or topology.preferred) is not None:
        domains = domains_of(problem, key)
        used = {domains[member] for member in order}
        eligible &= np.array([domain in used for domain in domains])
    return eligible


def _layouts(problem: Problem, eligible: BoolArray, order: IntArray, begun: BoolArray) -> list[IntArray]:
    """Layouts (k,) of sorted candidates, anywhere and in one domain: begun nodes filled; as many workers on each of the tightest nodes."""
    slots, workers = problem.slots, len(order)
    rows: list[list[int]] = []
    for group in _groups(problem, eligible, order):
        nodes = np.flatnonzero(group)
        tightest = nodes[np.argsort(slots[nodes], kind="stable")]
        rooms = [(int(slots[node]), int(node)) for node in tightest]
        rows += [_filled(rooms, workers), _filled([room for room in rooms if begun[room[1]]], workers)]
        rows += [_even(rooms, workers, each) for each in range(2, min(workers, int(slots[nodes].max(initial=0))) + 1)]
    return [np.array(sorted(row), dtype=np.int64) for row in rows if len(row) == workers]


def _groups(problem: Problem, eligible: BoolArray, order: IntArray) -> list[BoolArray]:
    """(m,) all eligible nodes, and those of every narrowest domain that `order` uses, unless these are all."""
    domains = problem.graph.domains[problem.nodes]
    if not domains.shape[1]:
        return [eligible]
    codes = domains[:, -1]
    inside = [eligible & (codes == code) for code in np.unique(codes[order]) if code >= 0]
    return [eligible, *(group for group in inside if not group.all())]


def _even(rooms: list[tuple[int, int]], workers: int, each: int) -> list[int]:
    """`each` workers on every one of the tightest nodes, and the rest on the tightest for it; rooms: (slots, node), rising."""
    full, rest = divmod(workers, each)
    first = bisect_left(rooms, (each, -1))
    row = [node for _, node in rooms[first : first + full] for _ in range(each)]
    left = [*rooms[bisect_left(rooms, (rest, -1)) : first], *rooms[first + full :]]
    return row + [left[0][1]] * rest if rest and left else row


def _filled(rooms: list[tuple[int, int]], workers: int) -> list[int]:
    """Workers that fill one node after the other, the largest that is filled first; the rest is on the tightest for it. rooms: as above."""
    row: list[int] = []
    spare: tuple[int, int] | None = None
    for slots, node in sorted(rooms, key=lambda room: (-room[0], room[1])):
        left = workers - len(row)
        if slots <= left:
            row += [node] * slots
        elif spare is None or slots < spare[0]:
            spare = slots, node  # the tightest so far of those with room for more than what is left
    left = workers - len(row)
    return row + [spare[1]] * left if left and spare is not None else row
