"""Placements for a decision about the queue: on the nodes that are free now, and on the cluster that running jobs will leave. Pure.

Hundreds of jobs may be alike, and a decision asks for several worker counts of each: what was found is kept by everything it depends on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from hyperscale.model.admission_query import Claim
from hyperscale.model.api.job import PlannerChoice
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.graph import ClusterGraph, FloatArray, IntArray
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.check.artifact import plan_id
from hyperscale.planner.check.drained_snapshot import added, emptied
from hyperscale.planner.problem.candidates import held_room, vet
from hyperscale.planner.problem.figures import figures_of
from hyperscale.planner.problem.node_checks import BUSY_REASONS
from hyperscale.planner.problem.speeds import gpu_speeds
from hyperscale.planner.problem.worker_demand import demand_of
from hyperscale.planner.queue.job_class import kind_of
from hyperscale.util.memo import Memo

KEPT_PLACEMENTS: Final = 512
"""A few dozen kilobytes each where jobs have hundreds of workers; mostly one."""

KEPT_GRAPHS: Final = 8
"""Of clusters without the jobs that end next."""

LARGE_WORKERS: Final = 64
"""Jobs that may have more are compared by the planners' first placements: a search for each takes longer than a question lasts."""

_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")

Expired = Callable[[], bool]
Place = Callable[[PlanRequest, ClusterGraph, Expired], Plan | Infeasible]
"""Makes a checked plan; `portfolio.make_plan` with everything else given."""


class PlacementOracle:
    """Answers "where would it run, and how long" for one snapshot; keeps the answers as long as the snapshot is planned on."""

    def __init__(self, graph: ClusterGraph, policy: PolicySpec, place: Place) -> None:
        self.graph = graph
        self.policy = policy
        self._place = place
        self.expired: Expired = lambda: False
        """Turns true when the question in hand must be answered with what is known."""
        self.hurried: Expired = lambda: False
        """Turns true before that: nothing new is begun, but what was begun may be finished."""
        self._kept: Memo[Plan | Infeasible] = Memo(KEPT_PLACEMENTS)
        self._rough: PlacementOracle | None = None
        self._whole: tuple[PlacementOracle, Mapping[str, Claim]] | None = None
        """Whose cluster this is without those claims: emptied, both are the same."""
        self._left: Memo[ClusterGraph] = Memo(KEPT_GRAPHS)
        self._claims: dict[str, Claim] = {}
        self._emptied = graph
        figures = figures_of(graph)
        speeds = np.array([speed.flops_per_second for speed in gpu_speeds(list(graph.nodes), policy)], dtype=np.float64)
        self._speed: FloatArray = speeds * np.maximum(figures.allocatable_gpus, 0)
        self._free: IntArray = figures.free_gpus

    def rough(self) -> PlacementOracle:
        """The same with the planners' first placements, which are nearly as fast to run on as those they find by search."""
        if self._rough is None:
            self._rough = PlacementOracle(self.graph, self.policy, lambda request, graph, expired: self._place(request, graph, _at_once))
        self._rough.expired, self._rough.hurried = self.expired, self.hurried
        return self._rough

    def vacated(self, claims: Mapping[str, Claim]) -> PlacementOracle:
        """The same for the cluster without these claims, under the same deadlines."""
        if not claims:
            return self
        desk = PlacementOracle(emptied(self.graph, claims), self.policy, self._place)
        desk.expired, desk.hurried = self.expired, self.hurried
        desk._whole = (self, claims)
        return desk

    @property
    def total_slots(self) -> int:
        """GPUs of all nodes."""
        return int(np.maximum(figures_of(self.graph).allocatable_gpus, 0).sum())

    @property
    def node_gpus(self) -> int:
        """GPUs of the largest node."""
        return int(figures_of(self.graph).allocatable_gpus.max(initial=0))

    @property
    def gpu_nodes(self) -> int:
        """Nodes with GPUs."""
        return int((figures_of(self.graph).allocatable_gpus > 0).sum())

    @property
    def speed_spread(self) -> float:
        """Speed of the fastest GPU over the slowest; 1 without GPUs."""
        there = figures_of(self.graph).allocatable_gpus > 0
        each = self._speed[there] / figures_of(self.graph).allocatable_gpus[there]
        return float(each.max() / each.min()) if len(each) and each.min() > 0.0 else 1.0

    def free(self, overrides: Mapping[str, int]) -> dict[str, int]:
        """Free GPUs of every node by name."""
        return {node.name: overrides.get(node.name, int(free)) for node, free in zip(self.graph.nodes, self._free, strict=True)}

    def speed_ratio(self, names: frozenset[str]) -> float:
        """Speed of these nodes with all their GPUs / speed of all nodes, 0..1."""
        positions = sorted(self.graph.index[name] for name in names if name in self.graph.index)
        total = float(self._speed.sum())
        return float(self._speed[positions].sum()) / total if total else 0.0

    def now(self, request: PlanRequest) -> Plan | Infeasible:
        """On the GPUs that are free by `request`, by the heuristic alone: many are compared, few are carried out."""
        return self._compared(request, self.graph)

    def final(self, request: PlanRequest) -> Plan | Infeasible:
        """The same by all planners that the job may have."""
        return self._answer(request, self.graph, self.expired)

    def after(self, request: PlanRequest, ended: Mapping[str, Claim]) -> Plan | Infeasible:
        """As `now`, on the cluster without these claims; free GPUs of `request` count them already."""
        key = msgspec.msgpack.encode(ended)
        graph = self._left.get(key, lambda: emptied(self.graph, ended))
        return self._compared(request, graph)

    def empty(self, request: PlanRequest, claims: Mapping[str, Claim]) -> Plan | Infeasible:
        """On the cluster without our running jobs, which hold `claims` by node."""
        return self.alone(request, claims, frozenset(self.graph.index))

    def alone(self, request: PlanRequest, claims: Mapping[str, Claim], nodes: frozenset[str]) -> Plan | Infeasible:
        """The same on some of its nodes only."""
        if self._whole is not None:
            desk, gone = self._whole
            return desk.alone(request, added((claims, gone)), nodes)
        if self._claims != claims:
            self._claims = dict(claims)
            self._emptied = emptied(self.graph, claims)
        closed = {node.name: 0 for node in self.graph.nodes if node.name not in nodes}
        return self._compared(replace(request, free_gpus=closed, reserved_amounts={}), self._emptied)

    def state(self, request: PlanRequest) -> bytes:
        """Return what placements by `request` depend on apart from the job and the snapshot."""
        return _state(request, self._free_gpus(request, self.graph))

    def suitable(self, request: PlanRequest) -> frozenset[str]:
        """Nodes that could ever host a worker: all that are not ruled out for anything but what runs there now."""
        everything = {node.name: max(0, node.allocatable_gpus) for node in self.graph.nodes}
        fitting = vet(self.graph, demand_of(replace(request, free_gpus=everything, reserved_amounts={})))
        late = {rejection.node for rejection in fitting.rejected if rejection.reason in BUSY_REASONS}
        return frozenset(fitting.slots) | late

    def may_fit(self, request: PlanRequest) -> bool:
        """Whether its fewest workers have room on what is free by `request`, as far as that can be counted."""
        return self._has_room(request, self.graph, self._free_gpus(request, self.graph))

    def _compared(self, request: PlanRequest, graph: ClusterGraph) -> Plan | Infeasible:
        """By the heuristic alone. A search is cut after half of the time, so that some is left to start a job."""
        return self._answer(_quick(request), graph, _at_once if is_large(request) else self.hurried)

    def _answer(self, request: PlanRequest, graph: ClusterGraph, expired: Expired) -> Plan | Infeasible:
        free = self._free_gpus(request, graph)
        if not self._has_room(request, graph, free):
            return Infeasible(reason="InsufficientGPUs", message="")  # `refusal` words it where a user reads it
        first = expired is _at_once
        whole = first or not self.hurried()

        def keep(answer: Plan | Infeasible) -> bool:
            """Also a search that was cut: the next question has no more time for it."""
            return isinstance(answer, Plan) and (whole or not expired())

        key = (graph.digest, kind_of(request), _state(request, free), first)
        answer = self._kept.get(key, lambda: self._place(request, graph, expired), keep)
        if isinstance(answer, Infeasible):
            return answer
        return replace(answer, plan_id=plan_id(request, answer.snapshot, answer.planner, answer.workers))

    def refusal(self, request: PlanRequest) -> Plan | Infeasible:
        """As `now`, with the planner's own words where it does not fit."""
        return self._place(request, self.graph, self.expired)

    def empty_refusal(self, request: PlanRequest, claims: Mapping[str, Claim]) -> Plan | Infeasible:
        """As `empty`, with the planner's own words where it does not fit."""
        if self._whole is not None:
            desk, gone = self._whole
            return desk.empty_refusal(request, added((claims, gone)))
        return self._place(replace(request, free_gpus={}, reserved_amounts={}), emptied(self.graph, claims), self.expired)

    def _free_gpus(self, request: PlanRequest, graph: ClusterGraph) -> IntArray:
        """Return (n,) free GPUs of each node by `request`."""
        figures = figures_of(graph)
        free = figures.free_gpus.copy()
        for name, left in request.free_gpus.items():
            if name in graph.index:
                free[graph.index[name]] = min(left, int(figures.allocatable_gpus[graph.index[name]]))
        room: IntArray = np.maximum(free, 0)
        return room

    def _has_room(self, request: PlanRequest, graph: ClusterGraph, free: IntArray) -> bool:
        least = request.workers_fixed or request.job.workers.min_replicas
        return int(self._slots(request, graph, free).sum()) >= least

    def _slots(self, request: PlanRequest, graph: ClusterGraph, free: IntArray) -> IntArray:
        """Return (n,) workers that each node can take by free GPUs and by what planned ranks hold; at most what the job may have."""
        workers = request.job.workers
        slots: IntArray = np.minimum(free // workers.gpus_per_worker, workers.max_replicas)
        for position, room in held_room(graph, demand_of(request)).items() if request.reserved_amounts else ():
            slots[position] = min(int(slots[position]), room)
        return slots


def _state(request: PlanRequest, free: IntArray) -> bytes:
    """Return what a placement depends on apart from job and snapshot.

    Free GPUs, not the workers that fit into them: of nodes with room for as many workers, the best fit leaves fewer GPUs idle.
    """
    return free.tobytes() + _ENCODER.encode((request.reserved_amounts, request.asked_sizes))


def _at_once() -> bool:
    """A planner's time is up."""
    return True


def is_large(request: PlanRequest) -> bool:
    """Whether the job may have more workers than a search can place in time."""
    return request.job.workers.max_replicas > LARGE_WORKERS


def _quick(request: PlanRequest) -> PlanRequest:
    return replace(request, job=replace(request.job, planner=PlannerChoice.HEURISTIC))
