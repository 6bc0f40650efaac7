"""A machine more or less while tasks run: everyone else keeps what they have. Pure."""

from __future__ import annotations

import dataclasses

import numpy as np

from hyperscale.model.graph import FloatArray, IntArray
from hyperscale.planner.assign.assign_problem import Tasks, counts
from hyperscale.planner.assign.search import Assigned, answer


def add_machine(tasks: Tasks, group: IntArray, cost: FloatArray, memory: float) -> tuple[Tasks, Assigned]:
    """The tasks with one machine more, last in number, and who gets it: no other machine changes its task.

    `cost`: (machines,) to those there are. It goes to the task that lacks most memory, else to one below its smallest size, else to
    the task with room whose members are nearest to it on average, if nearer than they are to each other and none of them as far as
    any two machines are; else it stays idle.
    """
    machines = len(tasks.memory)
    grown = np.zeros((machines + 1, machines + 1))
    grown[:machines, :machines] = tasks.cost
    grown[machines, :machines] = grown[:machines, machines] = cost
    larger = dataclasses.replace(tasks, cost=grown, memory=np.append(tasks.memory, memory))
    task = _home(tasks, group, cost)
    return larger, answer(larger, np.append(group, task).astype(np.int64))


def _home(tasks: Tasks, group: IntArray, cost: FloatArray) -> int:
    """The task of a machine more, or idle."""
    members = counts(tasks, group)
    memory_by_task = np.bincount(group, weights=tasks.memory, minlength=tasks.idle + 1)[: tasks.idle]
    room = [task for task in range(tasks.idle) if members[task] < tasks.high[task]]
    wanting = [task for task in room if memory_by_task[task] < tasks.need[task] or members[task] < tasks.low[task]]
    if wanting:
        return max(wanting, key=lambda task: (tasks.need[task] - memory_by_task[task], tasks.low[task] - members[task], -task))
    return _nearest(tasks, group, cost, [task for task in room if members[task]])


def _nearest(tasks: Tasks, group: IntArray, cost: FloatArray, candidates: list[int]) -> int:
    """The candidate with members whose mean cost to the machine is least and no more than among themselves; idle where there is none."""
    members = counts(tasks, group)
    for mean, task in sorted((float(cost[group == task].mean()), task) for task in candidates):
        if cost[group == task].max() >= tasks.cost.max():
            continue
        inside = tasks.cost[np.ix_(group == task, group == task)]
        if members[task] > 1 and mean <= inside.sum() / (members[task] * (members[task] - 1)):
            return task
    return tasks.idle


def remove_machine(tasks: Tasks, group: IntArray, machine: int) -> tuple[Tasks, Assigned]:
    """The tasks without one machine, and who replaces it: at most one other machine changes its task.

    Numbers above `machine` go down by one. An idle machine that covers the memory and adds the least cost replaces it; where none is
    idle the task continues with fewer if its smallest size and its memory allow, else takes one from the task that can spare it and
    whose loss plus gain costs least; else it is left short (see `Assigned.short`).

    Raises IndexError where there is no such machine.
    """
    if not 0 <= machine < len(group):
        raise IndexError(f"no machine {machine}")
    left = np.delete(np.arange(len(group)), machine)
    task, rest = int(group[machine]), group[left].copy()
    smaller = _without(tasks, left)
    if task < tasks.idle and not _enough(smaller, rest, task, idle_first=True):
        chosen = _replacement(smaller, rest, task)
        if chosen is not None:
            rest[chosen] = task
    return smaller, answer(smaller, rest)


def _without(tasks: Tasks, left: IntArray) -> Tasks:
    """Sizes that the machines left can still have: the largest task gives way first."""
    low = list(tasks.low)
    while sum(low) > len(left):
        low[max(range(len(low)), key=lambda task: (low[task], -task))] -= 1
    return Tasks(tasks.cost[np.ix_(left, left)], tuple(low), tasks.high, tasks.memory[left], tasks.need)


def _enough(tasks: Tasks, group: IntArray, task: int, idle_first: bool) -> bool:
    """Whether a task can continue as it is; with `idle_first` only where no idle machine could fill it up."""
    members = group == task
    fits = bool(members.sum() >= tasks.low[task] and tasks.memory[members].sum() >= tasks.need[task])
    return fits and not (idle_first and members.sum() < tasks.high[task] and (group == tasks.idle).any())


def _replacement(tasks: Tasks, group: IntArray, task: int) -> int | None:
    """The machine whose change to `task` costs least, idle ones first; None where no task can spare one."""
    lacking = max(0.0, tasks.need[task] - float(tasks.memory[group == task].sum()))
    replacements: list[tuple[bool, float, float, int]] = []
    for machine in range(len(group)):
        of = int(group[machine])
        if of == task:
            continue
        change = float(tasks.cost[machine, group == task].sum())
        if of != tasks.idle:
            after = group.copy()
            after[machine] = task
            if not _enough(tasks, after, of, idle_first=False):
                continue
            change -= float(tasks.cost[machine, group == of].sum())
        replacements.append((of != tasks.idle, max(0.0, lacking - float(tasks.memory[machine])), change, machine))
    return min(replacements)[3] if replacements else None
