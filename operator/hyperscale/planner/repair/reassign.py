"""Other seats for the ranks of a plan: repaired, changed step by step, and whole new plans with the old ranks. Pure and deterministic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from hyperscale.model.graph import FloatArray, IntArray
from hyperscale.planner.cost.objective import volumes
from hyperscale.planner.problem.machine_costs import cards_left
from hyperscale.planner.problem.placement_problem import Problem
from hyperscale.planner.problem.regions import domains_of
from hyperscale.planner.repair.local_search import AssignmentState, settle
from hyperscale.planner.search.heuristic import Heuristic
from hyperscale.planner.search.search_result import Candidate

POOL_NODES: Final = 192
"""Candidates near those who stay that a search looks at; clusters below this are searched whole."""
POOL_ANCHORS: Final = 16
"""Staying ranks whose surroundings make the pool."""
BEAM: Final = 4
"""Placements kept for each number of moves: one move alone often gains nothing where two do."""
DEEPEST: Final = 8
"""Most voluntary moves built up one by one; more come from whole new plans only."""
ELEMENTS: Final = 24_000_000
"""Numbers that building up may touch, placements × positions × workers × candidates: about 0.1 s."""
WHOLE_PLANS: Final = 3
"""New plans that are tried with the old one's ranks."""

Expired = Callable[[], bool]


@dataclass(frozen=True)
class Prices:
    """What moves cost, in seconds, and how many there may be."""

    remaining_epochs: float = 1.0
    """Epochs over which a gain counts."""
    move_seconds: float = 0.0
    """Of every worker that changes its node."""
    restart_seconds: float = 0.0
    """Of any move at all: stop, start, and work done again; not counted where ranks are lost, because the run has stopped then anyway."""
    max_moves: int | None = None
    """Most workers that may change their node, lost ones counted; those always may. None sets no limit."""


LOST_ONLY: Final = Prices(max_moves=0)
"""Only ranks without a node get a new one."""


@dataclass(frozen=True)
class Task:
    """One question: `assigned` (k,) candidates of the old plan, -1 where gone; `seats` (k,) the same without those that no longer fit."""

    problem: Problem
    assigned: IntArray
    seats: IntArray
    prices: Prices
    share: FloatArray | None
    """(k,) parts that the ranks keep; None: dealt out again."""
    heuristic: Heuristic
    """Finds whole plans."""

    @property
    def lost(self) -> IntArray:
        """Ranks that need a new node."""
        return np.flatnonzero(self.seats < 0)

    @property
    def voluntary(self) -> int:
        """Workers that may move beside the lost ones."""
        limit = self.prices.max_moves
        free = len(self.seats) - len(self.lost)
        return free if limit is None else max(0, min(free, limit - len(self.lost)))

    def candidate(self, order: IntArray) -> Candidate:
        """The placement with its exact objective."""
        members, positions = np.unique(order, return_inverse=True)
        board = AssignmentState(self.problem.costs(members), self.problem.slots[members], positions < 0, self.share)
        seconds = float(board.objectives(positions[None, :])[0])
        return Candidate(seconds, len(order), tuple(self.problem.names[member] for member in order), tuple(int(m) for m in order))

    def cost(self, candidate: Candidate) -> float:
        """Seconds of the rest of the run, prices included; +inf for a placement that cannot work."""
        moves = int((np.array(candidate.order) != self.seats).sum())
        restart = self.prices.restart_seconds if moves and not len(self.lost) else 0.0
        return candidate.objective * self.prices.remaining_epochs + restart + moves * self.prices.move_seconds


def seated(problem: Problem, assigned: IntArray) -> IntArray:
    """(k,) `assigned` with -1 for every rank that its node has no slot for, pinned ranks aside; the highest ranks of a node go first."""
    pinned = dict(problem.pinned)
    left = problem.slots.copy()
    seats = assigned.copy()
    for rank, candidate in enumerate(assigned):
        if rank in pinned:
            seats[rank] = pinned[rank]
        elif candidate >= 0:
            left[candidate] -= 1
            seats[rank] = candidate if left[candidate] >= 0 else -1
    return seats


def regions_of(problem: Problem, seats: IntArray) -> list[IntArray]:
    """Candidates to search: all, or under a topology level those of the domains where ranks still are, the most ranks first."""
    everything = np.arange(len(problem.nodes))
    topology = problem.job.placement.topology
    key = topology.required or topology.preferred
    if key is None:
        return [everything]
    domains = domains_of(problem, key)
    staying = [domains[seat] for seat in seats if seat >= 0]
    counted = sorted(set(staying), key=lambda domain: (-staying.count(domain), domain))
    inside = [np.array([member for member in everything if domains[member] == domain], dtype=np.int64) for domain in counted if domain]
    return inside if topology.required else [everything, *inside]


def placements(task: Task, region: IntArray, expired: Expired) -> Iterator[IntArray]:
    """Placements worth their price, as candidates of the problem: repaired, changed step by step, and whole new plans."""
    problem = task.problem
    outside = ~np.isin(task.seats, region) & (task.seats >= 0)
    if outside.any() and any(outside[rank] for rank, _ in problem.pinned):
        return
    seats = np.where(outside, -1, task.seats)
    allowed = task.voluntary - int(outside.sum())
    if allowed >= 0 and (seats >= 0).any():
        pool = _pool(problem, region, seats)
        board = _board(task, pool)
        local = np.where(seats >= 0, np.searchsorted(pool, seats), -1)
        for order in _built(task, board, local, allowed, expired):
            yield pool[order]
    if allowed > 0 or not (seats >= 0).any():
        yield from _whole(task, region, seats, max(0, allowed), expired)


def _pool(problem: Problem, region: IntArray, seats: IntArray) -> IntArray:
    """Candidates, rising: everything where that is small, else those nearest and fastest for the ranks that stay, and these."""
    staying = np.unique(seats[seats >= 0])
    if len(region) <= POOL_NODES:
        return np.union1d(region, staying)
    open_nodes = region[problem.slots[region] > 0]
    anchors = staying[:: max(1, -(-len(staying) // POOL_ANCHORS))]
    links = problem.graph.link_costs_between(problem.nodes[anchors], problem.nodes[open_nodes])
    workers = len(seats)
    volume = volumes(problem.costs(anchors), workers)
    with np.errstate(divide="ignore"):
        per_byte = np.where(links.bandwidth_bytes_per_second > 0, 1.0 / links.bandwidth_bytes_per_second, np.inf)
    machine = problem.machine
    left = cards_left(machine, problem.nodes[open_nodes])
    per_byte /= np.minimum(cards_left(machine, problem.nodes[anchors])[:, None], left)
    traffic = (volume.halo_bytes / workers + volume.ring_byte_factor) * per_byte
    waits = (volume.rounds + volume.ring_latency_factor) * links.latency_seconds
    score = (traffic + waits).mean(axis=0) + problem.workload.epoch_flops / (workers * problem.flops_per_second[open_nodes])
    near = open_nodes[np.argsort(score, kind="stable")[: POOL_NODES - POOL_NODES // 4]]
    fast = open_nodes[np.argsort(-problem.flops_per_second[open_nodes], kind="stable")[: POOL_NODES // 4]]
    return np.unique(np.concatenate((near, fast, staying)))


def _board(task: Task, pool: IntArray) -> AssignmentState:
    problem = task.problem
    fixed = np.zeros(len(task.seats), dtype=np.bool_)
    room = problem.slots[pool].copy()
    for rank, candidate in problem.pinned:
        fixed[rank] = True
        room[np.searchsorted(pool, candidate)] += 1
    return AssignmentState(problem.costs(pool), room, fixed, task.share)


def _built(task: Task, board: AssignmentState, seats: IntArray, allowed: int, expired: Expired) -> Iterator[IntArray]:
    """Repaired placements, then the best of one more move each, up to `allowed`."""
    beam = _repaired(board, seats, expired)
    yield from beam
    depth = min(allowed, DEEPEST)
    affordable = max(1, ELEMENTS // (BEAM * len(seats) * board.size * max(1, depth)))
    for _ in range(depth):
        if expired() or not beam:
            return
        beam = _one_more(board, seats, beam, affordable)
        yield from beam


def _repaired(board: AssignmentState, seats: IntArray, expired: Expired) -> list[IntArray]:
    """Placements with every lost rank on a node, those that stay where they are; the best few, best first."""
    lost = np.flatnonzero(seats < 0)
    if not len(lost):
        return [seats]
    starts = board.filled(seats, BEAM, expired)
    free = np.isin(np.arange(len(seats)), lost)
    settled = [settle(board, order, free) for order in starts]
    return _best_different(board, settled)


def _one_more(board: AssignmentState, seats: IntArray, beam: list[IntArray], affordable: int) -> list[IntArray]:
    """The best placements that move one rank more than those of `beam`, the moved ones settled; of each the `affordable` slowest ranks."""
    extended: list[tuple[float, tuple[int, ...]]] = []
    for order in beam:
        movable = np.flatnonzero((order == seats) & ~board.fixed)
        slowest = movable[np.argsort(-board.rank_seconds(order)[movable], kind="stable")[:affordable]]
        for position in slowest:
            choices, seconds = board.replacements(order, int(position), BEAM, without=int(seats[position]))
            for choice, cost in zip(choices.tolist(), seconds.tolist(), strict=True):
                changed = order.copy()
                changed[position] = choice
                extended.append((cost, tuple(changed.tolist())))
    ranked = sorted(set(extended))[:BEAM]
    return _best_different(board, [settle(board, np.array(order), np.array(order) != seats) for _, order in ranked])


def _best_different(board: AssignmentState, orders: list[IntArray]) -> list[IntArray]:
    different = sorted({tuple(order.tolist()) for order in orders})
    if not different:
        return []
    rows = np.array(different, dtype=np.int64)
    seconds = board.objectives(rows)
    ranking = [row for row in np.argsort(seconds, kind="stable") if np.isfinite(seconds[row])]
    return [rows[row] for row in ranking[:BEAM]]


def _whole(task: Task, region: IntArray, seats: IntArray, allowed: int, expired: Expired) -> Iterator[IntArray]:
    """The planner's own best placements, with the old ranks where they keep their node."""
    problem, workers = task.problem, len(seats)
    tried = 0
    for candidate in sorted(task.heuristic.candidates(problem, expired)):
        order = np.array(candidate.order, dtype=np.int64)
        if tried == WHOLE_PLANS:
            return
        if candidate.workers != workers or (len(region) < len(problem.nodes) and (seats >= 0).any() and not np.isin(order, region).all()):
            continue
        tried += 1
        kept = _with_old_ranks(task, seats, order)
        if int(((kept != seats) & (seats >= 0)).sum()) <= allowed or not (seats >= 0).any():
            yield kept


def _with_old_ranks(task: Task, seats: IntArray, order: IntArray) -> IntArray:
    """(k,) the set of `order` with each rank on its old node where the set has it, the others settled around them."""
    left: dict[int, int] = {}
    for member in order.tolist():
        left[member] = left.get(member, 0) + 1
    kept = np.full(len(seats), -1, dtype=np.int64)
    pinned = [rank for rank, _ in task.problem.pinned]
    for rank in (*pinned, *(rank for rank in range(len(seats)) if rank not in pinned)):
        seat = int(seats[rank])
        if left.get(seat, 0):
            kept[rank] = seat
            left[seat] -= 1
    spare = [member for member, count in sorted(left.items()) for _ in range(count)]
    free = kept < 0
    kept[free] = spare
    members = np.unique(kept)
    board = _board(task, members)
    local = np.searchsorted(members, kept)
    swapped: IntArray = members[board.swapped(local, free)]
    return swapped
