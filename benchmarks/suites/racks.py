"""Racks with shared uplinks: our plans against the rule of equal counts, r racks x n nodes x g GPUs."""

from __future__ import annotations

import time
from typing import Final, NamedTuple

import numpy as np

from benchmarks.common import Row, goal, median
from benchmarks.methods import OURS
from benchmarks.peers.placement.equal_shapes import equal_shapes
from benchmarks.rackclusters import RackCluster, rack_cluster
from benchmarks.suites import Options
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.problem.placement_problem import pose
from hyperscale.planner.search.heuristic import Heuristic
from hyperscale.planner.workload.profile import profile

BENCHMARK: Final = "racks"
EACH: Final = 80
"""Clusters of every seed asked for."""
QUICK: Final = 20
DRAWS: Final = 10_000
"""Numbers of the draws of two seeds differ by so much."""
LOSS: Final = 1e-3
"""A smaller difference is none."""
PEERS: Final = ("equal counts", "equal counts, any racks")


class Judged(NamedTuple):
    """One cluster: objectives of ours and of both peers, and our processor time."""

    ours: float
    peers: tuple[float, float]
    cpu_seconds: float


def run(options: Options) -> list[Row]:
    """Rows over all clusters; a cluster where a peer is better has a row of its own."""
    seeds = [DRAWS * seed + at for seed in options.seeds for at in range(QUICK if options.quick else EACH)]
    rows: list[Row] = []
    found: list[Judged] = []
    for seed in seeds:
        case = rack_cluster(seed)
        judged = judge(case)
        found.append(judged)
        rows += [
            Row(BENCHMARK, case.name, peer, "ours / peer", judged.ours / figure, "ratio", seed)
            for peer, figure in zip(PEERS, judged.peers, strict=True)
            if judged.ours > figure * (1.0 + LOSS)
        ]
    name = f"{len(found)} clusters"
    rows.append(Row(BENCHMARK, name, OURS, "plan, processor time, median", 1e3 * median([each.cpu_seconds for each in found]), "ms"))
    for at, peer in enumerate(PEERS):
        ratios = [each.ours / each.peers[at] for each in found if np.isfinite(each.peers[at])]
        rows.append(Row(BENCHMARK, name, peer, "ours / peer, geometric mean", float(np.exp(np.mean(np.log(ratios)))), "ratio"))
        rows.append(Row(BENCHMARK, name, peer, "ours / peer, worst", max(ratios), "ratio"))
        rows.append(
            goal(BENCHMARK, f"{name}: plans that {peer} beats by more than 0.1 %", OURS, sum(r > 1.0 + LOSS for r in ratios), 0, "cases")
        )
    return rows


def judge(case: RackCluster) -> Judged:
    """Plan one cluster by the search without a deadline, and by both peers."""
    graph = build(case.snapshot, case.policy)
    problem = pose(PlanRequest(job_key="bench/gnn", job=case.job), graph, profile(case.job), case.policy)
    started = time.process_time()
    ours = min(Heuristic().candidates(problem, lambda: False)).objective
    seconds = time.process_time() - started
    costs, racks = problem.costs(np.arange(len(problem.nodes))), graph.domains[problem.nodes][:, -1]
    rule, wide = (equal_shapes(costs, problem.slots, racks, case.workers, wide=wide)[1] for wide in (False, True))
    return Judged(ours, (rule, wide), seconds)
