"""Questions of 4 to 12 jobs that could start together: on Hulk's graph, on openb's machines, and on generated clusters.

Jobs, their worker counts and volumes are drawn by seed; together they want half to all of the free places. openb has 1,213 machines, more
than so few jobs could fill: of them a drawn part is full, as where jobs wait. Jobs that find no place after those before them wait and are
no part of the question, as in the operator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from benchmarks import clusters
from benchmarks.families import HULK, IDLE, POLICY, job_spec, snapshot_of
from hyperscale.learn.topologies import GPUS_PER_WORKER, generate
from hyperscale.learn.workloads import scale_of, workload_at
from hyperscale.model.api.job import Balance
from hyperscale.model.graph import ClusterGraph
from hyperscale.model.plan import Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.model.workload import WorkloadProfile
from hyperscale.observe.files.snapshot_files import read_snapshot
from hyperscale.planner.choice.portfolio import make_plan
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.problem.placement_problem import pose
from hyperscale.planner.search.heuristic import Heuristic
from hyperscale.planner.together.start_together import BegunJob

QUESTIONS: Final = {"hulk": 40, "geo": 24, "fattree": 24, "zones": 24, "random": 24, "wan": 24, "openb": 40}
MIN_JOBS, MAX_JOBS = 4, 12
MAX_WORKERS: Final = 32
PROBES: Final = 256
"""Nodes that the scale of a cluster is taken from."""


class JointCase(NamedTuple):
    """Jobs that wait on one cluster."""

    family: str
    seed: int
    graph: ClusterGraph
    requests: tuple[PlanRequest, ...]
    """In order of arrival."""
    workloads: dict[str, WorkloadProfile]
    """By job key."""

    def profile(self, request: PlanRequest) -> WorkloadProfile:
        """The volumes of a job."""
        return self.workloads[request.job_key]


def available(family: str) -> bool:
    """Whether the data of a family are at hand."""
    return {"hulk": HULK.is_dir(), "openb": clusters.OPENB.is_file()}.get(family, True)


def cases(family: str) -> Iterator[JointCase]:
    """Cases of all seeds in turn."""
    return (case(family, seed) for seed in count())


def case(family: str, seed: int) -> JointCase:
    """One case."""
    rng = np.random.default_rng([seed, *family.encode(), 4])
    jobs, filled = int(rng.integers(MIN_JOBS, MAX_JOBS + 1)), float(rng.uniform(0.5, 1.0))
    graph, gpus = _cluster(family, seed, rng)
    probe = pose(PlanRequest("bench/probe", job_spec((1, 1000), gpus, Balance.CAPACITY)), graph, IDLE, POLICY)
    scale = scale_of(probe.costs(np.unique(np.linspace(0, len(probe.nodes) - 1, min(PROBES, len(probe.nodes))).astype(np.int64))))
    part = rng.dirichlet(np.full(jobs, 2.0)) * filled * int(probe.slots.sum())
    counts = np.clip(np.floor(part).astype(np.int64), 1, MAX_WORKERS).tolist()
    balances = [Balance.EQUAL if rng.integers(2) else Balance.CAPACITY for _ in counts]
    requests = tuple(
        PlanRequest(f"bench/job-{number}", job_spec((workers, workers), gpus, balance), workers_fixed=workers)
        for number, (workers, balance) in enumerate(zip(counts, balances, strict=True))
    )
    workloads = {
        request.job_key: workload_at(scale, workers, seed * MAX_JOBS + number)
        for number, (request, workers) in enumerate(zip(requests, counts, strict=True))
    }
    return JointCase(family, seed, graph, requests, workloads)


def one_by_one(drawn: JointCase, keys: Sequence[str] | None = None) -> list[BegunJob]:
    """The plans of the jobs that start, each on what those before it leave; `keys`: order of the queue, None: of arrival."""
    by_key = {request.job_key: request for request in drawn.requests}
    base = {node.name: node.free_gpus for node in drawn.graph.nodes}
    free = dict(base)
    begun: list[BegunJob] = []
    planner = (Heuristic(),)
    for key in keys if keys is not None else by_key:
        request = replace(by_key[key], free_gpus=dict(free))
        plan = make_plan(request, drawn.graph, drawn.profile(request), POLICY, planners=planner)
        if isinstance(plan, Plan):
            begun.append(BegunJob(replace(request, free_gpus=base), plan, slack_ratio=np.inf))
            for name, gpus in plan.gpus_by_node().items():
                free[name] -= gpus
    return begun


def shortest_first(drawn: JointCase) -> list[str]:
    """Keys in the order of the index rule: the run that is shortest when alone goes first."""
    heuristic = Heuristic()
    alone: dict[str, float] = {}
    for request in drawn.requests:
        problem = pose(request, drawn.graph, drawn.profile(request), POLICY)
        found = [candidate.objective for candidate in heuristic.candidates(problem, lambda: False)] if len(problem.nodes) else []
        alone[request.job_key] = min(found, default=np.inf)
    return sorted(alone, key=lambda key: (alone[key], key))


def _cluster(family: str, seed: int, rng: np.random.Generator) -> tuple[ClusterGraph, int]:
    """A cluster, and the GPUs of a worker there."""
    if family == "hulk":
        return build(read_snapshot(HULK), POLICY), 1
    if family == "openb":
        cluster = clusters.openb(seed)
        if cluster is None:
            raise FileNotFoundError(clusters.OPENB)
        busy = rng.random(len(cluster.snapshot.nodes)) < rng.uniform(0.8, 0.95)
        nodes = tuple(
            replace(node, requested_gpus=node.allocatable_gpus) if full else node
            for node, full in zip(cluster.snapshot.nodes, busy, strict=True)
        )
        return build(replace(cluster.snapshot, nodes=nodes), POLICY), cluster.gpus_per_worker
    return build(snapshot_of(generate(family, int(rng.integers(32, 129)), seed)), POLICY), GPUS_PER_WORKER
