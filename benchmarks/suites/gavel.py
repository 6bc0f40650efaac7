"""Gavel's traces replayed on 64 GPUs of three types: mean completion time against Gavel's own policies, in one simulator.

Run: python -m benchmarks.suites.gavel [--quick] [--seeds N] [--json FILE]

Jobs, arrivals and measured speeds are Gavel's (OSDI 2020, ../shared/data/gavel); the simulator is benchmarks/replay.py: rounds of 360 s,
30 s for a start or a move, hosts of 4 GPUs. Speeds are known to all policies, no job shares a GPU. Two clusters of 64: Gavel's own of
24 K80, 16 P100 and 8 V100, scaled (32, 20, 12), and thirds (24, 20, 20). Seed 0 is the trace as recorded, other seeds permute which job
arrives when; `arrivals x 0.5` halves the gaps.

  hyperscale                      the operator's own code: running jobs that planner/preempt/preempt.py would stop are stopped, then it
                                  starts jobs one by one (planner/queue/rule.py); the policy's defaults, but mode Automatic and the restart
                                  above. The operator also checks each stop with real placements, and keeps the GPUs for those that gain by
                                  it; both are left out here, so there are more restarts
  hyperscale, time left +- 30 %   the same with times wrong by a factor of 0.7 to 1.3 for each job, always the same
  hyperscale, time left unknown   the same with one guess for all jobs: the work done so far over the number of jobs that have ended
  hyperscale, runs to the end     the same with preemption off, the policy's default: no job stops or moves
  hyperscale, maxStartSlowdown 8  as the first, on poorer GPUs
  hyperscale, runs to the end, maxStartSlowdown 1.5; minWaitSpeedup 1   the same, waiting longer for good GPUs; for jobs that end
  hyperscale, agent, runs to the end   the same, the trained agent alone chooses what starts (the operator checks its choice by the rule)
  Gavel max-min                   its program and rounds as published, from a vertex (HiGHS) or from the midst of the best shares (inside)
  Gavel max-min, most speed, filled   stronger than published: ties go to the most speed, idle GPUs to the jobs that wait
  Gavel makespan, filled; first come; least attained service; shortest left     simple orders that may stop and move any job in any round
  shortest first, no stops; within 1.5     on the fastest type with room; the second only where the run takes at most 1.5 times its best,
                                  while others run. The 1.5 was seen on this trace
  hyperscale, rounds              elastic rounds (planner/rounds): all jobs assigned to types again in every round; `time left unknown`: the
                                  rounds' defaults, which estimate it from the work done
  assignment at every round       a reference: all jobs assigned again each round by a linear program (peers/assignment.py)

Max-min optimises fairness, not mean completion, and knows no remaining times: read it beside the simple orders. Stops are judged by
speeds inside one host; where a job must be spread, the simulator runs it at the spread speed. Steps left are known to `hyperscale`,
`runs to the end`, `rounds`, `makespan`, the shortest orders and the reference, not to the others. The goals are judged against the
better of the two published readings, with the time left unknown too at the recorded load. `slowdown` is completion over the run alone on
the fastest type; `every job alone on its fastest type` is a floor: no policy gets below it.
"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from benchmarks import common, summary
from benchmarks.common import Row
from benchmarks.peers import gavel as peers
from benchmarks.replay import Cluster, Job, Outcome, Policy, read_trace, replay
from benchmarks.suites import Options
from benchmarks.suites.gavel_queue import DEFAULT, Guess, Operator, wrong
from benchmarks.suites.gavel_rounds import ROUNDS, ROUNDS_UNKNOWN, ElasticRounds, rounds_goals
from hyperscale.model.api.policy import QueueOrder
from hyperscale.planner.rounds.round_types import RoundSettings

BENCHMARK: Final = "gavel"
OURS: Final = "hyperscale"
UNKNOWN: Final = "hyperscale, time left unknown"
TO_THE_END: Final = "hyperscale, runs to the end"
AGENT: Final = "hyperscale, agent, runs to the end"
WRONG: Final = "hyperscale, time left +- 30 %"
POORER: Final = f"{OURS}, maxStartSlowdown 8"
OTHER_SETTINGS: Final = {
    f"{TO_THE_END}, maxStartSlowdown 1.5": replace(DEFAULT, max_start_slowdown=1.5),
    f"{TO_THE_END}, minWaitSpeedup 1": replace(DEFAULT, min_wait_speedup=1.0),
    AGENT: replace(DEFAULT, order=QueueOrder.LEARNED),
}
VARIANTS: Final = ((POORER, OURS), *((name, TO_THE_END) for name in OTHER_SETTINGS))
MINE: Final = (OURS, WRONG, UNKNOWN, POORER, TO_THE_END, *OTHER_SETTINGS, ROUNDS, ROUNDS_UNKNOWN)
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


def policies() -> list[Policy]:
    """Ours and every peer, fresh."""
    ours = [Operator(OURS), Operator(WRONG, belief=wrong), Operator(UNKNOWN, belief=Guess()), Operator(TO_THE_END, stops=False)]
    ours.append(Operator(POORER, policy=replace(DEFAULT, max_start_slowdown=8.0)))
    ours += [Operator(name, stops=False, policy=policy) for name, policy in OTHER_SETTINGS.items()]
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
    """Each of ours over every policy that is not, and other settings over the defaults."""
    pairs = [(mine, other) for mine, other in product(MINE, means) if other not in MINE or (mine, other) in VARIANTS]
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
