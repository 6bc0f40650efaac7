"""Which nodes may host a worker of a job, how many, and the first reason that rules each of the others out. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from hyperscale.model.cluster import Node
from hyperscale.model.graph import BoolArray, ClusterGraph, IntArray
from hyperscale.model.plan import Rejection
from hyperscale.model.products import COUNT_LABEL, count_of
from hyperscale.planner.problem.figures import figures_of
from hyperscale.planner.problem.node_checks import EARLY_CHECKS, LATE_CHECKS, asked, first_failure
from hyperscale.planner.problem.node_room import with_held, workers_that_fit
from hyperscale.planner.problem.worker_demand import WorkerDemand


class Vetting(NamedTuple):
    """Outcome for all nodes."""

    slots: dict[str, int]
    """Workers that each suitable node can host now, by name; at least 1."""
    rejected: tuple[Rejection, ...]
    """The others, in the order of the nodes."""


class Lasting(NamedTuple):
    """What vetting finds of a snapshot's nodes whichever are barred, whatever is free and whatever is held."""

    early: tuple[Rejection | None, ...]
    """First failed check before GPUs are counted."""
    late: tuple[Rejection | None, ...]
    """First failed check after that."""
    refused: BoolArray
    """(n,) either."""
    room: IntArray
    """(n,) workers by cores and memory."""


CHANGING: Final = 3
"""Fields at the end of `WorkerDemand` that `Lasting` does not depend on."""


def vet(graph: ClusterGraph, demand: WorkerDemand) -> Vetting:
    """Slots of every suitable node, and the first failed check of every other one."""
    figures = figures_of(graph)
    lasting: Lasting = graph.results.get((_lasting, demand[:-CHANGING]), lambda: _lasting(graph, demand))
    lasting = _without_held(graph, demand, lasting)
    free = free_gpus(graph, demand)
    barred = np.zeros(len(free), dtype=np.bool_)
    barred[[graph.index[name] for name in demand.barred if name in graph.index]] = True
    suitable = ~(barred | lasting.refused) & (free >= demand.gpus)
    slots = np.minimum(free // demand.gpus, lasting.room)
    rejected: list[Rejection] = []
    busy, left = _BusyMessages(graph, demand), free.tolist()
    for position in np.flatnonzero(~suitable).tolist():
        name, early = figures.names[position], lasting.early[position]
        if (failure := demand.barred.get(name)) is not None:
            rejection = Rejection(name, *failure)
        elif left[position] < demand.gpus and early is None:
            rejection = Rejection(name, "NoFreeGPUs", busy.of(position, left[position]))
        else:
            rejection = early or lasting.late[position] or Rejection(name, "Constraint")
        rejected.append(rejection)
    positions = np.flatnonzero(suitable)
    fitting = dict(zip((figures.names[position] for position in positions), slots[positions].tolist(), strict=True))
    return Vetting(fitting, tuple(rejected))


class _BusyMessages:
    """What is said of nodes with too few free GPUs: in a full cluster of nearly all, in few different words."""

    def __init__(self, graph: ClusterGraph, demand: WorkerDemand) -> None:
        self._nodes, self._gpus = graph.nodes, demand.gpus
        # The graph keeps how many each node hides: labels are read for the first of many jobs only.
        self._hidden: dict[int, int] = graph.results.get(_BusyMessages, dict)
        self._messages: dict[tuple[int, int, int], str] = {}

    def of(self, position: int, free: int) -> str:
        """The message about the node at `position`, which has `free` GPUs."""
        offered = self._nodes[position].allocatable_gpus
        hidden = self._hidden.get(position)
        if hidden is None:
            hidden = self._hidden[position] = hidden_gpus(self._nodes[position])
        key = free, offered, hidden
        if key not in self._messages:
            offers = f"; the device plugin offers {offered} of {offered + hidden}" if hidden else ""
            self._messages[key] = f"{free} of {offered} GPUs free, a worker needs {self._gpus}{offers}"
        return self._messages[key]


def hidden_gpus(node: Node) -> int:
    """GPUs that GPU Feature Discovery counts and the device plugin does not offer."""
    return max(0, count_of(node.labels, COUNT_LABEL) - node.allocatable_gpus)


def free_gpus(graph: ClusterGraph, demand: WorkerDemand) -> IntArray:
    """(n,) GPUs that a new pod could get on each node, with what is planned but not yet bound taken away."""
    figures = figures_of(graph)
    free = figures.free_gpus.copy()
    for name, left in demand.free_gpus.items():
        if name in graph.index:
            free[graph.index[name]] = left
    return np.clip(free, 0, np.maximum(figures.allocatable_gpus, 0))


def _lasting(graph: ClusterGraph, demand: WorkerDemand) -> Lasting:
    nodes = graph.nodes
    early_checks, late_checks = asked(demand, EARLY_CHECKS), asked(demand, LATE_CHECKS)
    early = [first_failure(node, demand, early_checks) for node in nodes]
    for position, others in graph.cut_off.items():
        early[position] = early[position] or _cut_off(graph, position, others)
    late = tuple(first_failure(node, demand, late_checks) for node in nodes)
    refused = np.array([first is not None or then is not None for first, then in zip(early, late, strict=True)], dtype=np.bool_)
    return Lasting(tuple(early), late, refused, np.array([workers_that_fit(node, demand) for node in nodes], dtype=np.int64))


def _cut_off(graph: ClusterGraph, position: int, others: Sequence[int]) -> Rejection:
    shown = ", ".join(graph.nodes[other].name for other in others[:3]) + (" and others" if len(others) > 3 else "")
    return Rejection(graph.nodes[position].name, "Unreachable", f"all {len(others)} measured links are dead ({shown}): check its network")


def _without_held(graph: ClusterGraph, demand: WorkerDemand, lasting: Lasting) -> Lasting:
    """The same with what planned ranks of other jobs hold taken away."""
    reserved = {graph.index[name]: amounts for name, amounts in demand.reserved.items() if name in graph.index}
    if not reserved:
        return lasting
    late, refused, room = list(lasting.late), lasting.refused.copy(), lasting.room.copy()
    for position, amounts in reserved.items():
        node = with_held(graph.nodes[position], amounts)
        late[position], room[position] = first_failure(node, demand, LATE_CHECKS), workers_that_fit(node, demand)
        refused[position] = lasting.early[position] is not None or late[position] is not None
    return Lasting(lasting.early, tuple(late), refused, room)


def held_room(graph: ClusterGraph, demand: WorkerDemand) -> dict[int, int]:
    """Workers by cores, memory and further resources on the nodes where planned ranks hold some, by position."""
    reserved = {graph.index[name]: amounts for name, amounts in demand.reserved.items() if name in graph.index}
    return {position: max(0, workers_that_fit(with_held(graph.nodes[position], amounts), demand)) for position, amounts in reserved.items()}
