"""Pending jobs event by event, with the plans that the operator makes: how soon they end by order of the queue.

Run: python benchmarks/queue_plans.py [--quick] [--seeds N] [--first-seed N] [--json FILE]

The stream benchmark (benchmarks/streams.py) has a simulator of its own, with one worker a node and a search of its own. Here every
decision is the operator's: `take_turns` on a snapshot with the pods that run, the planners' own plans, joint placement of the jobs that
start together. A run takes what its plan predicts; jobs do not slow each other.

30 jobs a stream of eight kinds, on 10 to 16 nodes with one to four places for workers of 4 GPUs; the kinds differ in graph, layers and
worker counts, the jobs in epochs (log-normal). Families geo, fattree, zones and random in turn, loads 0.6, 0.9 and 1.2 in turn.

  first come, planned          queue.order: Arrival, in the order of arrival, with the planners' worker count and nodes
  rule                         queue.order: Rule
  rule, each placed alone      the same without joint placement
  agent                        queue.order: Learned: the agent's starts where the rule, rolled forward, rates them no worse

`slowdown` is completion over the run alone on the empty cluster. Goal: the rule is no slower in the mean than the order of
arrival. That has the planners' placements too: what others would do with a single job is in benchmarks/placement.py.

Longer than other modules: cluster, streams and methods are of use to nothing else, and a reader of the figures wants them together.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import common
from benchmarks.common import Row
from benchmarks.families import POLICY, snapshot_of
from hyperscale.learn.topologies import GPUS_PER_WORKER, generate
from hyperscale.model.admission_query import AdmissionRequest, Arrivals, Claim, QueuedJob, RunningShare
from hyperscale.model.api.job import JobSpec
from hyperscale.model.api.policy import QueueOrder
from hyperscale.model.graph import ClusterGraph
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.check.drained_snapshot import added
from hyperscale.planner.choice.given_order import plan_in_order
from hyperscale.planner.choice.portfolio import make_plan
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.queue.arrival_history import counted_lengths, counted_run
from hyperscale.planner.queue.joint import take_turns
from hyperscale.planner.queue.later_ends import claims_of_plan
from hyperscale.planner.queue.options import Catalogue, run_seconds
from hyperscale.planner.queue.placement_oracle import PlacementOracle
from hyperscale.planner.queue.queue_policies import choosers
from hyperscale.planner.queue.queue_types import Option, PendingJob
from hyperscale.planner.together.joint_starts import joint_starts
from hyperscale.planner.together.start_together import TogetherPlanner
from hyperscale.planner.workload.profile import profile

BENCHMARK: Final = "queue_plans"
FAMILIES: Final = ("geo", "fattree", "zones", "random")
LOADS: Final = (0.6, 0.9, 1.2)
COUNTS: Final = ((1, 2), (1, 4), (2, 4), (2, 8), (4, 8))
KINDS: Final = 8
JOBS: Final = 30
QUICK_JOBS: Final = 10
MEDIAN_SECONDS: Final = 1800.0
SIGMA: Final = 1.2
PLANNED: Final = "first come, planned"
RULE: Final = "rule"


@dataclass(frozen=True)
class DrawnJob:
    """One job of a stream."""

    request: PlanRequest
    arrival: float
    best_seconds: float
    """The run alone on the empty cluster."""


@dataclass(frozen=True)
class Stream:
    """A cluster and its jobs in order of arrival."""

    case: str
    seed: int
    graph: ClusterGraph
    jobs: tuple[DrawnJob, ...]


@dataclass
class Run:
    """A job on its nodes."""

    job: DrawnJob
    plan: Plan
    start: float
    end: float
    claims: dict[str, Claim]

    @property
    def gpus(self) -> int:
        """Of all workers."""
        return sum(claim.gpus for claim in self.claims.values())


@dataclass
class Cluster:
    """What waits and runs at one time of a stream."""

    stream: Stream
    coming: list[DrawnJob]
    """The next one last."""
    now: float = 0.0
    pending: list[DrawnJob] = field(default_factory=list)
    running: list[Run] = field(default_factory=list)
    arrivals: Arrivals = field(default_factory=Arrivals)
    counted: dict[str, float] = field(default_factory=dict)
    """When each job came that the queue's statistics have, by key."""
    claimed: dict[str, float] = field(default_factory=dict)
    """As how many seconds jobs count that have not run for a mean run yet."""

    def graph(self) -> ClusterGraph:
        """With the pods that run."""
        claims = added(run.claims for run in self.running)
        snapshot = self.stream.graph.snapshot
        nodes = tuple(replace(node, requested_gpus=claims.get(node.name, Claim()).gpus) for node in snapshot.nodes)
        return build(replace(snapshot, nodes=nodes), POLICY)

    def go_on(self, again: float) -> dict[str, float]:
        """To the next arrival or end, or to the time `again`; seconds from arrival to end of the jobs that end then."""
        self.now = min([run.end for run in self.running] + [job.arrival for job in self.coming[-1:]] + [again])
        if not np.isfinite(self.now):
            raise RuntimeError(f"{self.stream.case}: {len(self.pending)} jobs wait on an idle cluster")
        ended = {run.job.request.job_key: run.end - run.job.arrival for run in self.running if run.end <= self.now}
        self.running = [run for run in self.running if run.end > self.now]
        while self.coming and self.coming[-1].arrival <= self.now:
            self.pending.append(self.coming.pop())
        return ended

    def start(self, key: str, plan: Plan) -> None:
        """A pending job starts now."""
        job = next(job for job in self.pending if job.request.job_key == key)
        self.pending.remove(job)
        self.running.append(Run(job, plan, self.now, self.now + run_seconds(job.request, plan), claims_of_plan(job.request, plan)))


Decide = Callable[[Cluster], float]
"""Starts pending jobs; the seconds after which it wants to be asked again, +inf: when a job comes or ends."""


def placed(request: PlanRequest, graph: ClusterGraph, expired: Callable[[], bool] = lambda: False) -> Plan | Infeasible:
    """The operator's plan."""
    return make_plan(request, graph, profile(request.job), POLICY, expired=expired)


def first_come(cluster: Cluster) -> float:
    """Each job as soon as it fits, the oldest first; later ones pass a job that does not fit."""
    graph = cluster.graph()
    for job in list(cluster.pending):
        plan = placed(job.request, graph)
        if isinstance(plan, Plan):
            cluster.start(job.request.job_key, plan)
            graph = cluster.graph()
    return np.inf


def queue(order: QueueOrder, *, together: bool = True) -> Decide:
    """The operator's queue."""
    policy = replace(POLICY, queue=replace(POLICY.queue, order=order))
    asked = choosers(policy.queue)

    def decide(cluster: Cluster) -> float:
        graph = cluster.graph()
        desk = PlacementOracle(graph, policy, placed)
        joint = TogetherPlanner(graph, policy, lambda request: profile(request.job), plan_in_order, joint_starts) if together else None
        answer = take_turns(_question(cluster), desk, policy.queue, asked, joint)
        cluster.arrivals = answer.arrivals
        for start in answer.starts:
            cluster.start(start.key, start.plan)
        return min((hold.retry_seconds for hold in answer.holds if hold.retry_seconds is not None), default=np.inf)

    return decide


def _count(cluster: Cluster) -> None:
    """Bring up to date what the queue knows of lengths: of jobs that have run, and as what new ones count."""
    for run in cluster.running:
        claimed = cluster.claimed.get(run.job.request.job_key)
        if claimed is not None and cluster.now - run.start >= cluster.arrivals.run_seconds:
            cluster.arrivals = counted_run(cluster.arrivals, run.job.best_seconds, claimed)
            del cluster.claimed[run.job.request.job_key]
    new = [job for job in cluster.pending if job.request.job_key not in cluster.counted]
    alone = [PendingJob("", (Option(1, job.best_seconds, job.best_seconds),)) for job in new]
    for job, counted_as in zip(new, counted_lengths(cluster.arrivals, alone), strict=True):
        cluster.claimed[job.request.job_key] = counted_as


def _question(cluster: Cluster) -> AdmissionRequest:
    _count(cluster)
    jobs, last = [], max(cluster.counted.values(), default=0.0)
    for job in cluster.pending:
        key = job.request.job_key
        gap = job.arrival - last if key not in cluster.counted else None
        if gap is not None:
            cluster.counted[key] = last = job.arrival
        jobs.append(QueuedJob(job.request, cluster.now - job.arrival, 1.0, gap))
    running = tuple(
        RunningShare(run.job.request.job_key, run.gpus, run.end - cluster.now, len(run.plan.workers), run.claims)
        for run in sorted(cluster.running, key=lambda run: run.end)
    )
    claims = added(run.claims for run in cluster.running)
    return AdmissionRequest(jobs=tuple(jobs), running=running, claims=claims, arrivals=cluster.arrivals)


def methods() -> dict[str, Decide]:
    """By name, fresh."""
    return {
        PLANNED: first_come,
        RULE: queue(QueueOrder.RULE),
        "rule, each placed alone": queue(QueueOrder.RULE, together=False),
        "agent": queue(QueueOrder.LEARNED),
    }


def completion(stream: Stream, decide: Decide) -> dict[str, float]:
    """Seconds from arrival to end of every job, by key. Raises RuntimeError where jobs wait on an idle cluster."""
    cluster, ended, again = Cluster(stream, coming=list(stream.jobs[::-1])), dict[str, float](), np.inf
    while cluster.coming or cluster.pending or cluster.running:
        ended |= cluster.go_on(again)
        again = cluster.now + max(1.0, decide(cluster)) if cluster.pending else np.inf
    return ended


def drawn(seed: int, jobs: int) -> Stream:
    """One stream; family and load go by the seed."""
    family, load = FAMILIES[seed % len(FAMILIES)], LOADS[seed // len(FAMILIES) % len(LOADS)]
    rng = np.random.default_rng([seed, *BENCHMARK.encode()])
    graph = build(snapshot_of(generate(family, int(rng.integers(10, 17)), seed)), POLICY)
    slots = sum(node.allocatable_gpus for node in graph.nodes)
    kinds = [_kind(rng, number) for number in range(KINDS)]
    catalogue = Catalogue(PlacementOracle(graph, POLICY, placed), {})
    requests, best, areas = [], [], []
    for number in range(jobs):
        kind = kinds[int(rng.integers(len(kinds)))]
        entry = catalogue.entry(QueuedJob(kind))
        if entry is None or not entry.feasible:
            continue
        epochs = max(1, round(float(rng.lognormal(np.log(MEDIAN_SECONDS), SIGMA)) / entry.best_seconds))
        model = replace(kind.job.model, epochs=epochs)
        requests.append(replace(kind, job_key=f"bench/job-{number:03}", job=replace(kind.job, model=model)))
        best.append(epochs * entry.best_seconds)
        areas.append(epochs * catalogue.ideal(entry).least_area)
    gaps = rng.exponential(float(np.mean(areas)) / (load * slots), len(requests))
    arrivals = np.cumsum(gaps).tolist()
    made = tuple(DrawnJob(*each) for each in zip(requests, arrivals, best, strict=True))
    return Stream(f"{family}, load {load:g}", seed, graph, made)


def _kind(rng: np.random.Generator, number: int) -> PlanRequest:
    """A job of one epoch."""
    low, high = COUNTS[int(rng.integers(len(COUNTS)))]
    vertices = int(10 ** rng.uniform(5.0, 7.5))
    document = {
        "model": {
            "architecture": "GraphSAGE",
            "layers": int(rng.integers(2, 4)),
            "hiddenSize": int(rng.choice((128, 256, 512))),
            "epochs": 1,
        },
        "dataset": {
            "source": {"persistentVolumeClaim": {"claimName": "graphs"}},
            "vertices": vertices,
            "edges": vertices * int(rng.integers(5, 40)),
            "featureSize": int(rng.choice((64, 128, 256))),
            "classes": 47,
        },
        "workers": {"minReplicas": low, "maxReplicas": high, "resources": {"limits": {"nvidia.com/gpu": str(GPUS_PER_WORKER)}}},
    }
    return PlanRequest(f"bench/kind-{number}", msgspec.convert(document, JobSpec))


def measured(streams: Iterable[Stream]) -> Iterator[Row]:
    """Rows of all streams and methods, ratios and goals."""
    means: dict[str, list[float]] = {name: [] for name in methods()}
    for stream in streams:
        for name, decide in methods().items():
            ended = completion(stream, decide)
            times = [ended[job.request.job_key] for job in stream.jobs]
            slow = [time / job.best_seconds for time, job in zip(times, stream.jobs, strict=True)]
            means[name].append(float(np.mean(times)))
            yield Row(BENCHMARK, stream.case, name, "mean completion", means[name][-1], "s", stream.seed)
            yield Row(BENCHMARK, stream.case, name, "mean slowdown", float(np.mean(slow)), "ratio", stream.seed)
            yield Row(BENCHMARK, stream.case, name, "worst slowdown", max(slow), "ratio", stream.seed)
        print(f"{stream.case}, seed {stream.seed}: done", file=sys.stderr, flush=True)
    yield from _compared(means)


def _compared(means: dict[str, list[float]]) -> Iterator[Row]:
    """Each method over the order of arrival, and the rule's variants over the rule."""
    for name, other in ((name, other) for name in means for other in (PLANNED, RULE) if name != other):
        logs = np.log(means[name]) - np.log(means[other])
        ratio = float(np.exp(logs.mean()))
        yield Row(BENCHMARK, "all", f"{name} / {other}", "mean completion", ratio, "ratio")
        yield Row(BENCHMARK, "all", f"{name} / {other}", "worst stream", float(np.exp(logs.max())), "ratio")
        if name == RULE:
            yield common.goal(BENCHMARK, f"mean completion / {other}", name, ratio, 1.0, "ratio")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; the exit code says whether the goals hold."""
    parser = common.parser(__doc__ or "")
    parser.add_argument("--seeds", type=int, default=12, help="streams (12: every family at every load)")
    parser.add_argument("--first-seed", type=int, default=0)
    given = parser.parse_args(arguments)
    seeds, jobs = (2, QUICK_JOBS) if given.quick else (given.seeds, JOBS)
    return common.report(measured(drawn(given.first_seed + number, jobs) for number in range(seeds)), given.json)


if __name__ == "__main__":
    sys.exit(main())
