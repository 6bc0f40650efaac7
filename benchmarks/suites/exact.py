"""Small problems: whether the plan is proven optimal, how fast, and whether two independent proofs agree."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from benchmarks.common import Row, goal, percentile
from benchmarks.dumps import dump
from benchmarks.families import NAMES, POLICY, Instance, instance
from benchmarks.methods import OURS, Answer, Proof, planned, searched
from benchmarks.peers.placement.proofs import MAX_RING, by_cp_sat, by_trial, can_model
from benchmarks.suites import Options
from hyperscale.planner.cost.bounds import memory_may_limit
from hyperscale.planner.problem.placement_problem import pose

BENCHMARK: Final = "exact"
SMALL_LIMIT_SECONDS: Final = 0.005
LARGE_LIMIT_SECONDS: Final = 0.7
SMALL_CASES: Final = 300
LARGE_CASES: Final = 100
TIGHT_CASES: Final = 60
TIGHT_PART: Final = 0.6
SAMPLE: Final = 7
QUICK_SAMPLE: Final = 13
"""One case in this many is proven by the others as well."""
CP_SAT_SECONDS: Final = 20.0
PROVEN: Final = 1e-6
"""Gaps below are the rounding of a plan's figures."""
AGREES: Final = 1e-6
"""CP-SAT counts in hundred millionths."""


def run(options: Options) -> list[Row]:
    """Rows by family and the goals; problems whose shares are limited by memory are printed beside, without goals."""
    small, large, tight = (40, 10, 5) if options.quick else (SMALL_CASES, LARGE_CASES, TIGHT_CASES)
    planned(instance(NAMES[0], 12, 3, 10_000))
    sample = QUICK_SAMPLE if options.quick else SAMPLE
    groups = {
        "n=12–16": ([_small(at, memory_free=True) for at in range(small)], SMALL_LIMIT_SECONDS, sample),
        "n=32 k=8": ([instance(NAMES[at % 5], 32, 8, at, memory_free=True) for at in range(large)], LARGE_LIMIT_SECONDS, 0),
        "n=12–16, memory limits shares": (_tight(tight), None, sample),
    }
    return [row for name, (cases, limit, every) in groups.items() for row in _group(name, cases, limit, options, every)]


def _small(at: int, *, memory_free: bool = False) -> Instance:
    """12 to 16 nodes, 3 to 7 workers, families in turn."""
    rng = np.random.default_rng([at, 16])
    return instance(NAMES[at % len(NAMES)], int(rng.integers(12, 17)), int(rng.integers(3, 8)), at, memory_free=memory_free)


def _tight(count: int) -> list[Instance]:
    """The first small cases by Capacity in which a fair share would fill most of a typical GPU, and the least ones not at all."""
    found: list[Instance] = []
    at = 0
    while len(found) < count:
        case = _small(at, memory_free=True)
        at += 2
        if case.costs.workload.batch_size is None:
            tight = _filling(case, TIGHT_PART)
            if memory_may_limit(tight.costs, np.flatnonzero(tight.slots > 0), tight.workers):
                found.append(tight)
    return found


def _filling(case: Instance, part: float) -> Instance:
    """The same job with a training graph so large that an equal share takes `part` of the median GPU's memory."""
    workload, gpus = case.problem.workload, case.problem.demand.gpus
    held = part * float(np.median(case.costs.memory_bytes)) * case.workers * gpus
    full = held / (1.0 + workload.replication(case.workers))
    return replace(case, problem=pose(case.problem.request, case.graph, replace(workload, full_graph_bytes=full), POLICY))


def _group(name: str, cases: list[Instance], limit: float | None, options: Options, sample: int) -> list[Row]:
    answers = [planned(case) for case in cases]
    searches = [searched(case) for case in cases]
    rows: list[Row] = []
    for case, answer, proof in zip(cases, answers, searches, strict=True):
        family = f"{name}, {case.case.partition(' ')[0]}" if limit else name
        rows.append(Row(BENCHMARK, family, OURS, "search with proof", proof.seconds * 1e3, "ms", case.seed))
        rows.append(Row(BENCHMARK, family, OURS, "search with proof, processor time", proof.cpu_seconds * 1e3, "ms", case.seed))
        rows.append(Row(BENCHMARK, family, OURS, "plan with check and reasons", answer.seconds * 1e3, "ms", case.seed))
        rows.append(Row(BENCHMARK, family, OURS, "proven optimal", 100.0 * (answer.gap <= PROVEN), "%", case.seed))
        dump(options, case, OURS, answer.order)
    rows.append(Row(BENCHMARK, name, OURS, "largest gap that is left", 100.0 * max(answer.gap for answer in answers), "%"))
    if limit is not None:
        rows += _limits(name, answers, searches, limit)
    return rows + (_agreement(name, cases, answers, sample) if sample else [])


def _limits(name: str, answers: list[Answer], searches: list[Proof], limit: float) -> list[Row]:
    """Goals of a group: how many cases stay without a proof, and how long a search with its proof takes."""
    proven = [answer.gap <= PROVEN and proof.gap <= PROVEN for answer, proof in zip(answers, searches, strict=True)]
    # A search without a proof counts as one that never ends.
    p95 = percentile([proof.seconds if done else math.inf for proof, done in zip(searches, proven, strict=True)], 0.95)
    allowed = 0.0 if limit == SMALL_LIMIT_SECONDS else float(len(answers) // 20)
    return [
        goal(BENCHMARK, f"{name}: cases not proven, of {len(answers)}", OURS, float(proven.count(False)), allowed, "cases"),
        goal(BENCHMARK, f"{name}: p95 of a search with its proof", OURS, p95 * 1e3, limit * 1e3, "ms"),
    ]


def _agreement(name: str, cases: list[Instance], answers: list[Answer], sample: int) -> list[Row]:
    """Ours over what trying everything finds, and over CP-SAT's proven optimum, on every `sample`-th case."""
    rows: list[Row] = []
    tried: list[float] = []
    solved: list[float] = []
    for at in range(0, len(cases), sample):
        case, ours = cases[at], answers[at].plan.objective
        if case.workers <= MAX_RING:
            tried.append(abs(ours / by_trial(case) - 1.0))
            rows.append(Row(BENCHMARK, f"{name}, sample", "trying everything", "ours above it", 100.0 * tried[-1], "%", case.seed))
        if can_model(case):
            cost, bound = by_cp_sat(case, answers[at].order, CP_SAT_SECONDS)
            solved.append(max(ours / cost - 1.0, bound / ours - 1.0))
            rows.append(Row(BENCHMARK, f"{name}, sample", "CP-SAT", "ours above it", 100.0 * (ours / cost - 1.0), "%", case.seed))
            rows.append(Row(BENCHMARK, f"{name}, sample", "CP-SAT", "its bound above ours", 100.0 * (bound / ours - 1.0), "%", case.seed))
    for method, differences in (("trying everything", tried), ("CP-SAT", solved)):
        if differences:
            wrong = float(sum(difference > AGREES for difference in differences))
            rows.append(goal(BENCHMARK, f"{name}: disagreements with {method}, of {len(differences)}", OURS, wrong, 0.0, "cases"))
    return rows
