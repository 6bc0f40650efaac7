"""Gavel's traces replayed on 64 GPUs of three types: mean completion time against Gavel's own policies, in one simulator.

Run: python -m benchmarks.suites.gavel [--quick] [--seeds N] [--json FILE]

Jobs, arrivals and measured speeds are Gavel's (OSDI 2020, ../shared/data/gavel); the simulator is benchmarks/replay.py: rounds of 360 s,
30 s for a start or a move, hosts of 4 GPUs. Speeds are known to all policies, no job shares a GPU. Two clusters of 64: Gavel's own of
24 K80, 16 P100 and 8 V100, scaled (32, 20, 12), and thirds (24, 20, 20). Seed 0 is the trace as recorded, other seeds permute which job
arrives when; `arrivals x 0.5` halves the gaps.

  hyperscale                      the operator's own code: running jobs that it would stop (planner/preempt/preempt.py) are stopped, then it
                                  starts jobs one by one (planner/queue/rule.py); the policy's defaults, but mode Act and the restart above
  hyperscale, time left +- 30 %   the same with times wrong by a factor of 0.7 to 1.3 for each job, always the same
  hyperscale, time left unknown   the same with one guess for all jobs: the work done so far over the number of jobs that have ended
  hyperscale, runs to the end     the same with preemption off, the policy's default: no job stops or moves
  hyperscale, agent, runs to the end   the same, the trained agent alone chooses what starts (the operator checks its choice by the rule)
  Gavel max-min                   its program and rounds as published, from a vertex (HiGHS) or from the midst of the best shares (inside)
  Gavel max-min, most speed, filled   stronger than published: ties go to the most speed, idle GPUs to the jobs that wait
  Gavel makespan, filled; first come; least attained service; shortest left     simple orders that may stop and move any job in any round
  hyperscale, rounds              elastic rounds (planner/rounds): all jobs assigned to types again in every round; `time left unknown`: the
                                  rounds' defaults, which estimate it from the work done
  assignment at every round       a reference: all jobs assigned again each round by a linear program (peers/assignment.py)

Max-min optimises fairness, not mean completion, and knows no remaining times: read it beside the simple orders. Stops are judged by
speeds inside one host; where a job must be spread, the simulator runs it at the spread speed. Steps left are known to `hyperscale`,
`runs to the end`, `makespan`, `shortest left` and the reference, not to the others. The goals are judged against the better of the two
published readings, with the time left unknown too at the recorded load. `slowdown` is completion over the run alone on the fastest
type; `every job alone on its fastest type` is a floor: no policy gets below it.

One file, though longer than others, so that the whole measurement can be read at once.
"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Final, Protocol

import msgspec
import numpy as np

from benchmarks import common, summary
from benchmarks.common import Row
from benchmarks.peers import gavel as peers
from benchmarks.replay import HOST_GPUS, Cluster, Job, Outcome, Policy, Running, hosts_for, read_trace, replay
from benchmarks.suites import Options
from benchmarks.suites.gavel_rounds import ROUNDS, ROUNDS_UNKNOWN, ElasticRounds, rounds_goals
from hyperscale.model.api.policy import QueueOrder, QueuePolicy
from hyperscale.planner.preempt.preempt import advise
from hyperscale.planner.queue.kinds import Contender, KindDemand
from hyperscale.planner.queue.queue_policies import choosers, settings_of
from hyperscale.planner.queue.queue_types import ClusterState, Option, PendingJob, QueueRunningJob
from hyperscale.planner.rounds.round_types import RoundSettings

BENCHMARK: Final = "gavel"
OURS: Final = "hyperscale"
UNKNOWN: Final = "hyperscale, time left unknown"
TO_THE_END: Final = "hyperscale, runs to the end"
AGENT: Final = "hyperscale, agent, runs to the end"
WRONG: Final = "hyperscale, time left +- 30 %"
MINE: Final = (OURS, WRONG, UNKNOWN, TO_THE_END, AGENT, ROUNDS, ROUNDS_UNKNOWN)
DATA: Final = Path(__file__).resolve().parents[3] / "shared" / "data" / "gavel"
ARRIVALS: Final = "max_min_fairness"
BATCH: Final = "minimize_makespan"
CLUSTERS: Final = {"32 K80, 20 P100, 12 V100": (32, 20, 12), "24 K80, 20 P100, 20 V100": (24, 20, 20)}
GAPS: Final = (1.0, 0.7, 0.5)
RECORDED: Final = "arrivals x 1"
QUICK_SEEDS: Final = 2
LIMIT: Final = 0.90
P50_LIMIT_MS: Final = 96.0
P95_LIMIT_MS: Final = 426.0
HOUR: Final = 3600.0
LEAST_GUESS_SECONDS: Final = 360.0
"""Before any work is done."""
DEFAULT: Final = QueuePolicy()


class Belief(Protocol):
    """What the queue takes for the steps that jobs have left."""

    def __call__(self, jobs: Sequence[Job], left: Mapping[int, float]) -> Mapping[int, float]:
        """By number, of the jobs that run or wait, from what they have left in truth."""
        ...


def known(jobs: Sequence[Job], left: Mapping[int, float]) -> Mapping[int, float]:
    """The truth."""
    return left


def wrong(jobs: Sequence[Job], left: Mapping[int, float]) -> Mapping[int, float]:
    """Wrong by up to 30 %, for every job by a factor of its own."""
    return {job.number: left[job.number] * float(np.random.default_rng(job.number).uniform(0.7, 1.3)) for job in jobs}


class Guess:
    """One figure for all jobs, the likeliest if none ages: the work done so far over the number of jobs that have ended."""

    def __init__(self) -> None:
        self._done: dict[int, float] = {}
        """Seconds of work on the fastest type of every job so far."""

    def __call__(self, jobs: Sequence[Job], left: Mapping[int, float]) -> Mapping[int, float]:
        """See `Belief`."""
        self._done |= {job.number: (job.steps - left[job.number]) / max(job.packed) for job in jobs}
        ended = len(self._done) - len(jobs)
        mean = max(sum(self._done.values()) / max(1, ended), LEAST_GUESS_SECONDS)
        return {job.number: mean * max(job.packed) for job in jobs}


class Operator:
    """What a cluster gets: the queue's stops, where its policy has them carried out, then its starts, one at a time."""

    packs: Final = False

    def __init__(self, name: str, *, stops: bool = True, belief: Belief = known, policy: QueuePolicy = DEFAULT) -> None:
        self.name = name
        self._stops = stops
        self._belief = belief
        self._policy = policy
        asked = choosers(policy)
        self._choose = asked.agent or asked.rule
        self._since: dict[int, float] = {}
        """When each job that runs last started."""
        self._waits: dict[int, float] = {}
        """Since when each job that was stopped waits."""

    def decide(
        self, now: float, jobs: Sequence[Job], left: Mapping[int, float], running: dict[int, Running], cluster: Cluster
    ) -> dict[int, int]:
        """See `replay.Policy`."""
        work = self._belief(jobs, left)
        if self._stops and len(running) < len(jobs):  # as the operator: it asks while jobs wait
            for number in self._stopped(now, jobs, work, running, cluster):
                del running[number]
                self._waits[number] = now
        chosen = self._starts(now, jobs, work, running, cluster)
        for number in chosen.keys() - running.keys():
            self._since[number] = now
        return chosen

    def _stopped(
        self, now: float, jobs: Sequence[Job], work: Mapping[int, float], running: Mapping[int, Running], cluster: Cluster
    ) -> list[int]:
        terms, free = self._policy.preemption, list(cluster.gpus)
        for busy in running.values():
            free[busy.kind] -= busy.gpus
        contenders = []
        for job in jobs:
            demand = KindDemand(job.gpus, tuple(_seconds(work[job.number], speed) for speed in job.packed))
            if (run := running.get(job.number)) is None:
                waited = now - self._waits.get(job.number, job.arrival)
                contender = Contender(str(job.number), (demand,), job.weight, waited, cluster.restart_seconds)
            else:
                held = tuple(run.gpus if kind == run.kind else 0 for kind in range(len(free)))
                due = _seconds(work[job.number], run.speed(job))
                may = now - self._since[job.number] >= terms.hold_down_seconds
                contender = Contender(str(job.number), (demand,), job.weight, 0.0, cluster.restart_seconds, held, due, may)
            contenders.append(contender)
        advice = advise(contenders, free, terms.min_gain_ratio, settings_of(self._policy))
        return [int(stop.key) for stop in advice.stops]

    def _starts(
        self, now: float, jobs: Sequence[Job], work: Mapping[int, float], running: Mapping[int, Running], cluster: Cluster
    ) -> dict[int, int]:
        chosen = {number: run.kind for number, run in running.items()}
        by_key = {str(job.number): job for job in jobs}
        free = _free_gpus(running, cluster)
        ends = [QueueRunningJob(str(key), run.gpus, _seconds(work[key], run.speed(by_key[str(key)]))) for key, run in running.items()]
        while True:
            waiting = [job for job in jobs if job.number not in chosen]
            pending = tuple(self._pending(job, now, work, free) for job in waiting)
            choice = self._choose(pending, tuple(ends), ClusterState(sum(map(sum, free)), sum(cluster.gpus)))
            if choice.job is None:
                return chosen
            job = by_key[choice.job]
            seconds, kind = _quickest(job, work[job.number], free)
            chosen[job.number] = kind
            ends.append(QueueRunningJob(choice.job, job.gpus, seconds))
            for host in hosts_for(job.gpus, free[kind]):
                free[kind][host] -= 1

    def _pending(self, job: Job, now: float, work: Mapping[int, float], free: Sequence[Sequence[int]]) -> PendingJob:
        best = work[job.number] / max(job.packed)
        waited = now - self._waits.get(job.number, job.arrival)
        option = Option(job.gpus, _quickest(job, work[job.number], free)[0], best)
        return PendingJob(str(job.number), (option,), job.weight, waited)


def _seconds(steps: float, speed: float) -> float:
    return steps / speed if speed > 0.0 else math.inf


def _quickest(job: Job, steps: float, free: Sequence[Sequence[int]]) -> tuple[float, int]:
    """Seconds and type of the fastest start now; +inf where there is none."""
    best = (math.inf, -1)
    for kind, hosts in enumerate(free):
        if sum(hosts) >= job.gpus:
            speed = Running(kind, job.gpus, hosts_for(job.gpus, hosts)).speed(job)
            best = min(best, (_seconds(steps, speed), kind))
    return best


def policies() -> list[Policy]:
    """Ours and every peer, fresh."""
    ours = [Operator(OURS), Operator(WRONG, belief=wrong), Operator(UNKNOWN, belief=Guess()), Operator(TO_THE_END, stops=False)]
    ours.append(Operator(AGENT, stops=False, policy=QueuePolicy(order=QueueOrder.LEARNED)))
    rounds = [ElasticRounds(ROUNDS), ElasticRounds(ROUNDS_UNKNOWN, RoundSettings(), remaining=False)]
    return [*ours, *rounds, *peers.peers()]


def permuted(jobs: Sequence[Job], gap: float, seed: int) -> list[Job]:
    """The trace with its gaps scaled; seeds above 0 shuffle which job takes which arrival."""
    times = [job.arrival * gap for job in jobs]
    order = list(range(len(jobs))) if seed == 0 else np.random.default_rng(seed).permutation(len(jobs)).tolist()
    return [dataclasses.replace(jobs[index], arrival=time) for index, time in zip(order, times, strict=True)]


def run(options: Options) -> list[Row]:
    """Rows of every cluster, load, seed and policy, ratios of ours to each peer, and the goals."""
    if not (DATA / "throughputs.json").exists():
        print("gavel: no traces beside the repository (../shared/data/gavel)")
        return []
    seeds = options.seeds[:QUICK_SEEDS] if options.quick else options.seeds
    jobs = read_trace(DATA, ARRIVALS)
    rows: list[Row] = []
    seconds: list[float] = []
    for cluster, gpus in list(CLUSTERS.items())[: 1 if options.quick else None]:
        for gap in GAPS[: 1 if options.quick else None]:
            rows += _case(f"{cluster}, arrivals x {gap:g}", [(seed, permuted(jobs, gap, seed)) for seed in seeds], Cluster(gpus), seconds)
        if not options.quick:
            rows += _case(f"{cluster}, {BATCH}: all at once", [(0, read_trace(DATA, BATCH))], Cluster(gpus), seconds)
    rows.append(common.goal(BENCHMARK, "decision p50", OURS, 1e3 * common.percentile(seconds, 0.5), P50_LIMIT_MS, "ms"))
    rows.append(common.goal(BENCHMARK, "decision p95", OURS, 1e3 * common.percentile(seconds, 0.95), P95_LIMIT_MS, "ms"))
    return rows


def _free_gpus(running: Mapping[int, Running], cluster: Cluster) -> list[list[int]]:
    """GPUs that no job holds, by type and host."""
    free = [[HOST_GPUS] * (gpus // HOST_GPUS) for gpus in cluster.gpus]
    for run in running.values():
        for host in run.hosts:
            free[run.kind][host] -= 1
    return free


def _case(case: str, traces: Sequence[tuple[int, Sequence[Job]]], cluster: Cluster, seconds: list[float]) -> list[Row]:
    """All policies on the traces of one cluster and load; `seconds` collects our decisions."""
    rows: list[Row] = []
    means: dict[str, list[float]] = defaultdict(list)
    for seed, jobs in traces:
        floor = float(np.mean([job.best_seconds for job in jobs])) / HOUR
        rows.append(Row(BENCHMARK, case, "every job alone on its fastest type", "mean completion", floor, "h", seed))
        means["floor"].append(floor)
        for policy in policies():
            outcome = replay(jobs, cluster, policy)
            rows += _figures(case, policy.name, jobs, outcome, seed)
            means[policy.name].append(float(np.mean(outcome.completion(jobs))) / HOUR)
            if policy.name == OURS:
                seconds += outcome.decision_seconds
    goals = [*_goals_of_case(case, means), *rounds_goals(case, means)]
    return rows + _ratios_by_seed(case, [seed for seed, _ in traces], means) + goals


def _ratios_by_seed(case: str, seeds: Sequence[int], means: Mapping[str, list[float]]) -> list[Row]:
    """Each of ours over every policy that is not, and the agent over ours that runs to the end."""
    pairs = [(mine, other) for mine, other in product(MINE, means) if other not in MINE or (mine, other) == (AGENT, TO_THE_END)]
    return [
        Row(BENCHMARK, case, f"{mine} / {other}", "mean completion", ours / theirs, "ratio", seed)
        for mine, other in pairs
        for seed, ours, theirs in zip(seeds, means[mine], means[other], strict=True)
    ]


def _goals_of_case(case: str, means: Mapping[str, list[float]]) -> list[Row]:
    """Ours over the better of Gavel's published policies, trace by trace."""
    rows = []
    published = [min(pair) for pair in zip(*(means[name] for name in peers.PUBLISHED), strict=True)]
    for mine in (OURS, UNKNOWN) if case.endswith(RECORDED) else (OURS,):
        ratio = _geometric([a / b for a, b in zip(means[mine], published, strict=True)])
        rows.append(common.goal(BENCHMARK, f"{case}: mean completion / Gavel max-min", mine, ratio, LIMIT, "ratio"))
    return rows


def _figures(case: str, method: str, jobs: Sequence[Job], outcome: Outcome, seed: int) -> list[Row]:
    times = outcome.completion(jobs)
    slow = [time / job.best_seconds for time, job in zip(times, jobs, strict=True)]
    figures = (
        ("mean completion", float(np.mean(times)) / HOUR, "h"),
        ("p95 completion", common.percentile(times, 0.95) / HOUR, "h"),
        ("makespan", max(outcome.finished.values()) / HOUR, "h"),
        ("mean slowdown", float(np.mean(slow)), "ratio"),
        ("worst slowdown", max(slow), "ratio"),
        ("starts and moves", float(outcome.restarts), "count"),
        ("decision p50", 1e3 * common.percentile(outcome.decision_seconds, 0.5), "ms"),
        ("decision p95", 1e3 * common.percentile(outcome.decision_seconds, 0.95), "ms"),
    )
    return [Row(BENCHMARK, case, method, metric, value, unit, seed) for metric, value, unit in figures]


def _geometric(ratios: Sequence[float]) -> float:
    return math.exp(float(np.mean(np.log(ratios))))


def main() -> None:
    """Run the suite alone."""
    arguments = common.parser(__doc__ or "")
    arguments.add_argument("--seeds", type=int, default=5, help="0 is the trace as recorded, others permute it")
    given = arguments.parse_args()
    rows = run(Options(quick=given.quick, seeds=tuple(range(given.seeds))))
    print(summary.text(rows))
    if given.json is not None:
        given.json.write_bytes(msgspec.json.encode(rows))


if __name__ == "__main__":
    main()
