"""A node is lost: time of the new plan, workers moved, and what keeping the others in place costs against a plan from nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from benchmarks.clusters import generated
from benchmarks.common import Row, goal
from benchmarks.families import NAMES, POLICY, Instance, instance, placed
from benchmarks.methods import PLANNERS, planned
from benchmarks.suites import Options
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.choice.portfolio import make_plan
from hyperscale.planner.cost.objective import objectives
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.problem.placement_problem import Problem, pose
from hyperscale.planner.repair.replan import LOST_ONLY, Prices, replan

BENCHMARK: Final = "removed"
LIMIT_SECONDS: Final = 0.1
MOVED_LIMIT: Final = 1.2
SIZES: Final = ((47, 8), (128, 16))
LARGE: Final = (1000, 32)
FREE: Final = "replan, two further moves free"
LOST: Final = "replan, lost ranks only"
PINNED: Final = "plan with the others pinned"
ANEW: Final = "plan from nothing"
GOALS_OF: Final = (PINNED, LOST)
"""What the operator does when a rank is lost."""


class Loss(NamedTuple):
    """A running plan whose node is gone."""

    case: Instance
    plan: Plan
    node: str

    @property
    def lost(self) -> set[int]:
        """Ranks that must move."""
        return {worker.index for worker in self.plan.workers if worker.node == self.node}


class Outcome(NamedTuple):
    """Where the ranks are now."""

    seconds: float
    cpu_seconds: float
    nodes: tuple[str, ...]
    """By rank."""

    def moved(self, loss: Loss) -> int:
        """Ranks on another node than before."""
        return sum(node != worker.node for node, worker in zip(self.nodes, loss.plan.workers, strict=True))

    def objective(self, problem: Problem) -> float:
        """On the cluster as it is now, with the ranks in this very order."""
        place = {name: position for position, name in enumerate(problem.names)}
        members, positions = np.unique([place[node] for node in self.nodes], return_inverse=True)
        return float(objectives(problem.costs(members), positions[None, :])[0])


def run(options: Options) -> list[Row]:
    """Rows by size and way, goals over all."""
    seeds = range(1 if options.quick else 4 * len(options.seeds))
    rows: list[Row] = []
    for nodes, workers in SIZES:
        for family in NAMES:
            for seed in seeds:
                rows += _rows(f"{nodes} nodes, {workers} workers", instance(family, nodes, workers, seed), seed)
    for seed in () if options.quick else options.seeds:
        cluster = generated(LARGE[0], seed)
        case = placed(cluster.name, cluster.snapshot, LARGE[1], seed, cluster.gpus_per_worker)
        rows += _rows(f"{cluster.name}, {LARGE[1]} workers", case, seed)
    return rows + _goals(rows)


def _rows(name: str, case: Instance, seed: int) -> list[Row]:
    plan = planned(case).plan
    rows: list[Row] = []
    for node in sorted({plan.workers[rank].node for rank in (0, len(plan.workers) // 2)}):
        loss = Loss(case, plan, node)
        problem = pose(_request(loss), build(_without(loss, held=False), POLICY), case.problem.workload, POLICY)
        outcomes = {method: way(loss) for method, way in WAYS.items()}
        objective = {method: outcome.objective(problem) for method, outcome in outcomes.items() if outcome is not None}
        for method, outcome in outcomes.items():
            if outcome is None:
                rows.append(Row(BENCHMARK, name, method, "found no plan", 1.0, "cases", seed))
                continue
            rows.append(Row(BENCHMARK, name, method, "new plan", outcome.seconds * 1e3, "ms", seed))
            rows.append(Row(BENCHMARK, name, method, "new plan, processor time", outcome.cpu_seconds * 1e3, "ms", seed))
            rows.append(Row(BENCHMARK, name, method, "moved / lost ranks", outcome.moved(loss) / len(loss.lost), "ratio", seed))
            if method != ANEW and ANEW in objective:
                above = 100.0 * (objective[method] / objective[ANEW] - 1.0)
                rows.append(Row(BENCHMARK, name, method, "objective above a plan from nothing", above, "%", seed))
    return rows


def _request(loss: Loss) -> PlanRequest:
    """The same job with its worker count, without the lost node."""
    return replace(loss.case.problem.request, workers_fixed=len(loss.plan.workers), excluded_nodes=(loss.node,))


def _pinned(loss: Loss) -> Outcome | None:
    """As the operator asks: the others keep their node and hold their GPUs, the worker count stays."""
    request = replace(_request(loss), pinned={worker.index: worker.node for worker in loss.plan.workers if worker.node != loss.node})
    graph = build(_without(loss, held=True), POLICY)
    started, cpu = time.perf_counter(), time.process_time()
    found = make_plan(request, graph, loss.case.problem.workload, POLICY, planners=PLANNERS)
    return _outcome(found, time.perf_counter() - started, time.process_time() - cpu)


def _anew(loss: Loss) -> Outcome | None:
    graph = build(_without(loss, held=False), POLICY)
    started, cpu = time.perf_counter(), time.process_time()
    # Another seed: what the other ways found must not be remembered.
    request = replace(_request(loss), seed=_request(loss).seed + 1)
    found = make_plan(request, graph, loss.case.problem.workload, POLICY, planners=PLANNERS)
    return _outcome(found, time.perf_counter() - started, time.process_time() - cpu)


def _replan(prices: Callable[[Loss], Prices]) -> Callable[[Loss], Outcome | None]:
    def way(loss: Loss) -> Outcome | None:
        graph = build(_without(loss, held=False), POLICY)
        started, cpu = time.perf_counter(), time.process_time()
        move = replan(pose(_request(loss), graph, loss.case.problem.workload, POLICY), loss.plan, prices(loss))
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
        return None if move is None else Outcome(seconds, cpu, move.candidate.names)

    return way


WAYS: Final[dict[str, Callable[[Loss], Outcome | None]]] = {
    PINNED: _pinned,
    LOST: _replan(lambda loss: LOST_ONLY),
    FREE: _replan(lambda loss: Prices(max_moves=len(loss.lost) + 2)),
    ANEW: _anew,
}


def _outcome(found: Plan | Infeasible, seconds: float, cpu_seconds: float) -> Outcome | None:
    if not isinstance(found, Plan):
        return None
    return Outcome(seconds, cpu_seconds, tuple(worker.node for worker in found.workers))


def _without(loss: Loss, held: bool) -> ClusterSnapshot:
    """The cluster without the lost node; `held`: the plan's other ranks hold their GPUs there."""
    snapshot = loss.case.graph.snapshot
    taken = loss.plan.gpus_by_node() if held else {}
    nodes = [
        replace(node, requested_gpus=node.requested_gpus + taken.get(node.name, 0)) for node in snapshot.nodes if node.name != loss.node
    ]
    return replace(snapshot, nodes=tuple(nodes), links=tuple(x for x in snapshot.links if loss.node not in (x.source, x.destination)))


def _goals(rows: list[Row]) -> list[Row]:
    found: list[Row] = []
    for method in GOALS_OF:
        here = [row for row in rows if row.method == method]
        times = [row.value for row in here if row.metric == "new plan"]
        moved = [row.value for row in here if row.metric == "moved / lost ranks"]
        found.append(goal(BENCHMARK, f"slowest of {len(times)} new plans", method, max(times), LIMIT_SECONDS * 1e3, "ms"))
        found.append(goal(BENCHMARK, f"most workers moved for each lost, {len(moved)} cases", method, max(moved), MOVED_LIMIT, "ratio"))
    return found
