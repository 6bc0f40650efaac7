"""Search for the cheapest assignment of machines to several tasks. Pure, deterministic by seed.

Greedy growth from every machine, descent by moves, exchanges and cycles of three, annealing from random and from the best of these;
a deadline ends it after any step.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Final

import numpy as np

from hyperscale.model.graph import BoolArray, IntArray
from hyperscale.planner.assign.assign import SumSearch
from hyperscale.planner.assign.assign_problem import Tasks, link_cost, short_of_memory

ROUNDS: Final = 60
"""Annealings; see benchmarks/suites/hulk.py for what fewer would miss."""
STEPS_PER_MACHINE: Final = 4000
"""Proposals of one annealing for each machine."""
HOT: Final = 3.0
"""First temperature over the mean link cost."""
COLD: Final = 0.01
"""Last temperature over the mean link cost."""
STRICT: Final = 1e3
"""Descent takes missing memory so much more seriously than annealing, which has to pass through states that lack some."""
KEPT: Final = 8
"""Descended greedy starts that annealing may begin from."""


@dataclasses.dataclass(frozen=True)
class Assigned:
    """An answer."""

    group: IntArray
    """(machines,): the task of each machine, or `Tasks.idle`."""
    cost: float
    """Sum of the link costs inside every task."""
    short: float
    """Memory that the tasks lack in sum."""

    @property
    def rank(self) -> tuple[float, float, tuple[int, ...]]:
        """Orders answers: memory first, then cost, then machine numbers."""
        return (round(self.short, 6), round(self.cost, 6), tuple(int(task) for task in self.group))


def never() -> bool:
    """A deadline that does not come."""
    return False


def assign(tasks: Tasks, seed: int = 0, expired: Callable[[], bool] = never, rounds: int = ROUNDS) -> Assigned:
    """The best assignment found before `expired` says so; the first greedy answer whatever it says."""
    starts: list[Assigned] = []
    for machine in range(len(tasks.memory)):
        starts.append(descended(tasks, grown(tasks, machine)))
        if expired():
            break
    starts.sort(key=lambda start: start.rank)
    best = starts[0]
    rng = np.random.default_rng(seed)
    for turn in range(rounds):
        if expired():
            break
        start = starts[turn // 2 % min(KEPT, len(starts))].group if turn % 2 else shuffled(tasks, rng)
        best = min(best, annealed(tasks, start, int(rng.integers(1 << 62))), key=lambda assigned: assigned.rank)
    return best


def answer(tasks: Tasks, group: IntArray) -> Assigned:
    """An assignment with its figures."""
    return Assigned(group, link_cost(tasks, group), short_of_memory(tasks, group))


def searcher(tasks: Tasks, group: IntArray, short_cost: float) -> SumSearch:
    """The kernel's state: the tasks and, as a last set without cost, the idle machines."""
    machines = len(tasks.memory)
    return SumSearch(
        tasks.cost,
        tasks.memory,
        np.array([*tasks.need, 0.0]),
        short_cost,
        np.array([1.0] * tasks.idle + [0.0]),
        np.array([*tasks.low, 0], dtype=np.int64),
        np.array([*tasks.high, machines], dtype=np.int64),
        group,
    )


def descended(tasks: Tasks, group: IntArray, cycles: bool = True) -> Assigned:
    """An assignment that no single move, exchange or cycle of three machines improves."""
    search = searcher(tasks, group, tasks.short_cost * STRICT)
    search.descend(cycles)
    return answer(tasks, search.group.copy())


def annealed(tasks: Tasks, group: IntArray, seed: int, steps_per_machine: int = STEPS_PER_MACHINE) -> Assigned:
    """Annealing from an assignment, then descent."""
    machines = len(tasks.memory)
    mean = float(tasks.cost.sum()) / max(1, machines * (machines - 1))
    search = searcher(tasks, group, tasks.short_cost)
    search.anneal(machines * steps_per_machine, HOT * max(mean, 1e-300), COLD * max(mean, 1e-300), seed)
    return descended(tasks, search.group)


def shuffled(tasks: Tasks, rng: np.random.Generator) -> IntArray:
    """Random machines for everyone: sizes between the smallest and the largest allowed."""
    sizes = list(tasks.low)
    left = len(tasks.memory) - sum(sizes)
    for task in range(tasks.idle):
        more = min(left, tasks.high[task] - sizes[task])
        sizes[task] += int(rng.integers(more + 1)) if more else 0
        left = len(tasks.memory) - sum(sizes)
    return np.asarray(rng.permutation(np.repeat(np.arange(tasks.idle + 1), [*sizes, left])), dtype=np.int64)


def grown(tasks: Tasks, first: int) -> IntArray:
    """Greedy: tasks in order of size, each grown from one machine by the one that adds the least cost; the first task from `first`."""
    group = np.full(len(tasks.memory), tasks.idle, dtype=np.int64)
    order = sorted(range(tasks.idle), key=lambda task: (-tasks.low[task], -tasks.need[task], task))
    for place, task in enumerate(order):
        free = group == tasks.idle
        kept = sum(tasks.low[other] for other in order[place + 1 :])
        if tasks.high[task] and free.sum() > kept:
            _grow(tasks, group, task, first if not place else _heart(tasks, free, max(1, tasks.low[task])), int(free.sum()) - kept)
    return group


def _grow(tasks: Tasks, group: IntArray, task: int, first: int, room: int) -> None:
    """Members of one task until it has its size and memory, `room` at most."""
    group[first] = task
    near, memory, members = tasks.cost[first].copy(), float(tasks.memory[first]), 1
    while members < min(room, tasks.high[task]) and (members < tasks.low[task] or memory < tasks.need[task]):
        free = group == tasks.idle
        lacking = members >= tasks.low[task]
        score = near / np.maximum(tasks.memory, 1e-9) if lacking else near
        chosen = int(np.where(free, score, np.inf).argmin())
        group[chosen] = task
        near, memory, members = near + tasks.cost[chosen], memory + float(tasks.memory[chosen]), members + 1


def _heart(tasks: Tasks, free: BoolArray, size: int) -> int:
    """The free machine whose nearest free machines are nearest."""
    among = np.where(free[:, None] & free[None, :], tasks.cost, np.inf)
    nearest = np.sort(among, axis=1)[:, :size]
    return int(np.where(free, np.where(np.isfinite(nearest), nearest, 0.0).sum(axis=1), np.inf).argmin())
