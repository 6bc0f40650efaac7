"""What is asked when several tasks want machines at once, and what an answer costs. Pure.

An assignment is one number per machine, (machines,): the task that has it, or `Tasks.idle`. Cost is Hulk's: the sum of the link costs
of all pairs of machines inside each task (arXiv 2302.13741, section 5.1, "optimize the communication time within each class").
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from hyperscale.model.graph import FloatArray, IntArray


@dataclasses.dataclass(frozen=True)
class Tasks:
    """Machines, and the tasks that want them.

    Raises ValueError where the shapes do not fit, or no assignment can have the sizes.
    """

    cost: FloatArray
    """(machines, machines), symmetric, zero diagonal; any unit. A pair without a link has a number, too: what it is to be taken for."""
    low: tuple[int, ...]
    """Fewest machines of each task."""
    high: tuple[int, ...]
    """Most machines of each task."""
    memory: FloatArray
    """(machines,), any unit."""
    need: tuple[float, ...]
    """Memory that each task needs, in the same unit; 0 is no need."""

    def __post_init__(self) -> None:
        machines = len(self.memory)
        if self.cost.shape != (machines, machines) or not len(self.low) == len(self.high) == len(self.need):
            raise ValueError("shapes of costs, memory and tasks do not fit")
        if not np.allclose(self.cost, self.cost.T) or not np.isfinite(self.cost).all() or self.cost.diagonal().any():
            raise ValueError("costs must be finite, symmetric and zero on the diagonal")
        if sum(self.low) > machines or any(low > high for low, high in zip(self.low, self.high, strict=True)):
            raise ValueError(f"{machines} machines cannot have the sizes {self.low} to {self.high}")

    @property
    def idle(self) -> int:
        """The number in an assignment of machines that no task has."""
        return len(self.low)

    @property
    def short_cost(self) -> float:
        """What a missing unit of memory costs a search: an average machine's memory as much as the dearest links of two machines."""
        return 2.0 * float(self.cost.max()) * max(1, max(self.high, default=1)) / max(float(self.memory.mean()), 1e-300)


def sized(cost: FloatArray, sizes: Sequence[int], memory: FloatArray | None = None, need: Sequence[float] | None = None) -> Tasks:
    """Tasks of fixed sizes."""
    fixed = tuple(int(size) for size in sizes)
    megabytes = np.zeros(len(cost)) if memory is None else memory
    return Tasks(np.ascontiguousarray(cost, dtype=np.float64), fixed, fixed, megabytes, tuple(need or [0.0] * len(fixed)))


def sizes_for(need: Sequence[float], memory: FloatArray, spare: int = 0) -> tuple[int, ...]:
    """Sizes in proportion to the memory that each task needs, largest remainders first, at least one each; `spare` machines stay idle.

    Raises ValueError where there are fewer machines than tasks.
    """
    machines = len(memory) - spare
    if machines < len(need):
        raise ValueError(f"{machines} machines for {len(need)} tasks")
    share = np.asarray(need, dtype=np.float64) / max(float(np.sum(need)), 1e-300) * (machines - len(need))
    sizes = np.floor(share).astype(np.int64)
    rest = machines - len(need) - int(sizes.sum())
    for task in np.argsort(-(share - sizes), kind="stable")[:rest]:
        sizes[task] += 1
    return tuple(int(size) + 1 for size in sizes)


def link_cost(tasks: Tasks, group: IntArray) -> float:
    """Sum of the link costs inside every task: the oracle of every delta."""
    same = (group[:, None] == group[None, :]) & (group < tasks.idle)[:, None]
    return float(np.triu(tasks.cost * same, 1).sum())


def pairs_at(tasks: Tasks, group: IntArray, level: float) -> int:
    """Pairs inside tasks whose cost is `level` or more, e.g. those without a link."""
    same = (group[:, None] == group[None, :]) & (group < tasks.idle)[:, None]
    return int(np.triu((tasks.cost >= level) & same, 1).sum())


def short_of_memory(tasks: Tasks, group: IntArray) -> float:
    """Memory that the tasks lack in sum."""
    memory_by_task = np.bincount(group, weights=tasks.memory, minlength=tasks.idle + 1)[: tasks.idle]
    return float(np.maximum(np.asarray(tasks.need) - memory_by_task, 0.0).sum())


def counts(tasks: Tasks, group: IntArray) -> IntArray:
    """Machines of each task."""
    return np.bincount(group, minlength=tasks.idle + 1)[: tasks.idle].astype(np.int64)
