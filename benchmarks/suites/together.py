"""Several pending jobs at once: placed together against one after the other, the weighted sum of their objectives.

One after the other is what the operator did: every job is planned on what those before it leave, in the order of the index rule (the
shortest run first), and beside that in order of arrival. Both sides are plans as users get them, every one checked. Time is that of the
search, on top of the plans one after the other, from which it starts; the time with the explained and checked plans is printed beside it.
Peers: random orders, each job by greedy and local search, the best of as many as the joint step's time allows; `planner/assign` alone
(the sum of link costs, Hulk's objective); the edge-pooled GCN's classification alone, and the search with that as one more start.

With --keep FOLDER the outcome of every question stays there, so that a run that was cut off continues; empty it when the code changes.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from benchmarks import jointcases
from benchmarks.common import Row, goal, percentile
from benchmarks.families import POLICY
from benchmarks.jointcases import JointCase
from benchmarks.kept_answers import kept
from benchmarks.suites import Options
from hyperscale.planner.check.queue_check import unsound_plans
from hyperscale.planner.choice.given_order import plan_in_order
from hyperscale.planner.problem.placement_problem import pose
from hyperscale.planner.together import joint_starts
from hyperscale.planner.together.class_network import shipped_classes
from hyperscale.planner.together.in_sequence import Sequences
from hyperscale.planner.together.shared_nodes import SharedNodes, TogetherJob, shared_nodes
from hyperscale.planner.together.start_together import BegunJob, NodesTogether, TogetherPlanner
from hyperscale.planner.together.together_search import JointStart, place_together

BENCHMARK: Final = "together"
OURS: Final = "hyperscale"
RULE: Final = "the rule's order"
ARRIVAL: Final = "order of arrival"
LIMIT_RATIO: Final = 0.95
LIMIT_SECONDS: Final = 0.1
QUICK_QUESTIONS: Final = 2
MIN_STARTED: Final = 4
NETWORK: Final = shipped_classes()
WITH_GCN: Final = "ours with the GCN's start"
ARRIVAL_EVERY: Final = 4
"""Each time after this number of questions, one is looked at in order of arrival too."""


class Outcome(NamedTuple):
    """One question and one order of the queue."""

    family: str
    jobs: int
    ratio: float
    """Joint over one after the other."""
    wall_seconds: float
    cpu_seconds: float
    whole_seconds: float
    """Processor time with plans and checks."""
    start: str
    """Which start the answer came from; empty where the plans one after the other stay."""
    refused: int
    """Sentences of the operator's check about the answer."""
    peers: dict[str, float]
    """Sums of the peers over one after the other."""
    gcn_start: str
    """As `start`, where the GCN's classification is one more start."""
    gcn_seconds: float
    """Processor time that this start adds."""


class Answered(NamedTuple):
    """Both orders of one question."""

    rule: Outcome | None
    """None where too few jobs find a place."""
    arrival: Outcome | None
    """The same; or it was not asked."""


class _Timed(TogetherPlanner):
    """Measures its search."""

    wall_seconds = cpu_seconds = 0.0

    def search(self, jobs: Sequence[BegunJob], movable: Sequence[int]) -> NodesTogether | None:
        """As the planner's."""
        wall, cpu = time.perf_counter(), time.process_time()
        found = super().search(jobs, movable)
        self.wall_seconds, self.cpu_seconds = time.perf_counter() - wall, time.process_time() - cpu
        return found


def run(options: Options) -> list[Row]:
    """Figures by family and of all questions, and the goals."""
    rows: list[Row] = []
    _warm()
    by_order: dict[str, list[Outcome]] = {RULE: [], ARRIVAL: []}
    for family, count in jointcases.QUESTIONS.items():
        if not jointcases.available(family):
            rows.append(Row(BENCHMARK, family, OURS, "skipped: its data are absent", 0.0, ""))
            continue
        small, answered = 0, 0
        for drawn in jointcases.cases(family):
            both = kept(options.keep, f"{family}-{drawn.seed}", Answered, partial(_answered, drawn, answered % ARRIVAL_EVERY == 0))
            if both.rule is None:
                small += 1
                continue
            by_order[RULE].append(both.rule)
            if both.arrival is not None:
                by_order[ARRIVAL].append(both.arrival)
            answered += 1
            if answered == (QUICK_QUESTIONS if options.quick else count):
                break
        rows.append(Row(BENCHMARK, family, "cases", f"left out: fewer than {MIN_STARTED} of the jobs find a place", float(small), ""))
    for order, outcomes in by_order.items():
        rows += _rows(order, outcomes)
    return rows + _goals(by_order)


def _answered(drawn: JointCase, by_arrival: bool) -> Answered:
    """One question; by_arrival: in that order too."""
    begun = jointcases.one_by_one(drawn, jointcases.shortest_first(drawn))
    if len(begun) < MIN_STARTED:
        return Answered(None, None)
    arrived = jointcases.one_by_one(drawn) if by_arrival else []
    other = _outcome(drawn, arrived, with_peers=False) if len(arrived) >= MIN_STARTED else None
    return Answered(_outcome(drawn, begun, with_peers=True), other)


def _warm() -> None:
    """A worker process reads weights and libraries once, whatever is asked."""
    drawn = jointcases.case("geo", 1)
    TogetherPlanner(drawn.graph, POLICY, drawn.profile, plan_in_order, joint_starts.joint_starts)(jointcases.one_by_one(drawn))


def _outcome(drawn: JointCase, begun: Sequence[BegunJob], *, with_peers: bool) -> Outcome:
    planner = _Timed(drawn.graph, POLICY, drawn.profile, plan_in_order, joint_starts.joint_starts)
    whole = time.process_time()
    answer = planner(begun)
    whole = time.process_time() - whole
    before = math.fsum(job.plan.objective for job in begun)
    after = math.fsum(plan.objective for plan in answer.plans)
    refused = len(unsound_plans([(job.request, plan) for job, plan in zip(begun, answer.plans, strict=True)], drawn.graph.snapshot))
    peers, gcn_start, gcn_seconds = _peers(drawn, begun, planner.cpu_seconds) if with_peers else ({}, "", 0.0)
    start = answer.start if answer.saved_ratio > 0.0 else ""
    return Outcome(
        drawn.family,
        len(begun),
        after / before,
        planner.wall_seconds,
        planner.cpu_seconds,
        whole,
        start,
        refused + len(answer.fallbacks),
        peers,
        gcn_start,
        gcn_seconds,
    )


def _peers(drawn: JointCase, begun: Sequence[BegunJob], cpu_seconds: float) -> tuple[dict[str, float], str, float]:
    """Sums over the sum one after the other, on the same nodes; +inf where a peer finds no place for some job. And what the GCN adds."""
    jobs = [
        TogetherJob(
            pose(job.request, drawn.graph, drawn.profile(job.request), POLICY),
            tuple(drawn.graph.index[worker.node] for worker in job.plan.workers),
        )
        for job in begun
    ]
    shared = shared_nodes(jobs)
    before = shared.total(list(shared.one_by_one))
    starts = joint_starts.joint_starts(shared)
    alone = {start.name: start for start in starts}
    clock = time.process_time()
    place_together(shared, lambda _: starts)
    without_seconds, clock = time.process_time() - clock, time.process_time()
    classes = list(joint_starts.classified(shared, NETWORK, starts[0].orders if starts else None))
    more = place_together(shared, lambda _: [*starts, *classes])
    gcn_seconds = time.process_time() - clock - without_seconds
    ratios = {
        "random orders, equal time": _random_orders(shared, before, cpu_seconds, drawn.seed) / before,
        "planner/assign alone": _total(shared, alone.get(joint_starts.LINK_SUM)) / before,
        "edge-pooled GCN alone": _total(shared, classes[0] if classes else None) / before,
        WITH_GCN: more.total / before,
        "ours from the plans one after the other only": place_together(shared).total / before,
    }
    return ratios, more.start if more.total < before else "", gcn_seconds


def _total(shared: SharedNodes, start: JointStart | None) -> float:
    return shared.total(start.orders) if start is not None and shared.fits(start.orders) else math.inf


def _random_orders(shared: SharedNodes, before: float, cpu_seconds: float, seed: int) -> float:
    """The best of random orders, and of the plans one after the other."""
    sequences = Sequences(shared)
    rng, best, until = np.random.default_rng(seed), before, time.process_time() + cpu_seconds
    while time.process_time() < until:
        orders = sequences.orders(rng.permutation(len(shared.workers)).tolist())
        if orders is not None:
            best = min(best, shared.total(orders))
    return best


def _rows(order: str, outcomes: Sequence[Outcome]) -> list[Row]:
    """Figures of all questions and by family."""
    rows: list[Row] = []
    for family in (*dict.fromkeys(outcome.family for outcome in outcomes), "all"):
        rows += _of_family(f"{family}, {order}", [outcome for outcome in outcomes if family in (outcome.family, "all")])
    return rows + _wins(order, outcomes)


def _of_family(case: str, some: Sequence[Outcome]) -> list[Row]:
    """Figures of some questions."""
    ratios = [outcome.ratio for outcome in some]
    rows = [
        Row(BENCHMARK, case, OURS, "questions", float(len(some)), ""),
        Row(BENCHMARK, case, OURS, "sum over one after the other, mean", _mean(ratios), "ratio"),
        Row(BENCHMARK, case, OURS, "sum over one after the other, median", float(np.median(ratios)), "ratio"),
        Row(BENCHMARK, case, OURS, "sum over one after the other, highest", max(ratios), "ratio"),
        Row(BENCHMARK, case, OURS, "questions where nothing is saved", float(sum(not outcome.start for outcome in some)), ""),
    ]
    clocks = {
        "processor": [each.cpu_seconds for each in some],
        "processor, with plans and checks,": [each.whole_seconds for each in some],
        "wall": [each.wall_seconds for each in some],
    }
    for clock, seconds in clocks.items():
        rows += [
            Row(BENCHMARK, case, OURS, f"{clock} time, mean", 1e3 * float(np.mean(seconds)), "ms"),
            Row(BENCHMARK, case, OURS, f"{clock} time, 95 %", 1e3 * percentile(seconds, 0.95), "ms"),
            Row(BENCHMARK, case, OURS, f"{clock} time, highest", 1e3 * max(seconds), "ms"),
        ]
    return rows + _compared(case, some)


def _compared(case: str, outcomes: Sequence[Outcome]) -> list[Row]:
    """What the peers reach; a peer without an answer counts as one after the other."""
    rows: list[Row] = []
    for name in outcomes[0].peers:
        ratios = [outcome.peers[name] for outcome in outcomes]
        found = [ratio for ratio in ratios if math.isfinite(ratio)]
        lower = (ratio < outcome.ratio * (1.0 - 1e-6) for ratio, outcome in zip(ratios, outcomes, strict=True))
        rows += [
            Row(
                BENCHMARK,
                case,
                name,
                "sum over one after the other, mean where it has an answer",
                _mean(found) if found else math.nan,
                "ratio",
            ),
            Row(BENCHMARK, case, name, "questions without an answer", float(len(ratios) - len(found)), ""),
            Row(BENCHMARK, case, name, "questions with a lower sum than ours", float(sum(lower)), ""),
        ]
    return rows


def _wins(order: str, outcomes: Sequence[Outcome]) -> list[Row]:
    """Which start the answers that save something came from, and what the GCN's start would add."""
    saved = [outcome.start for outcome in outcomes if outcome.start]
    rows = [
        Row(BENCHMARK, f"all, {order}", f"start: {name}", "share of wins", 100.0 * count / len(saved), "%")
        for name, count in sorted(Counter(saved).items())
    ]
    if not outcomes[0].peers:
        return rows
    for family in (*dict.fromkeys(outcome.family for outcome in outcomes), "all"):
        asked = [outcome for outcome in outcomes if family in (outcome.family, "all")]
        wins = sum(outcome.gcn_start == joint_starts.CLASSIFIED for outcome in asked)
        share = 100.0 * wins / max(1, sum(bool(outcome.gcn_start) for outcome in asked))
        added = 1e3 * float(np.mean([outcome.gcn_seconds for outcome in asked]))
        rows.append(Row(BENCHMARK, f"{family}, {order}", WITH_GCN, "share of wins of the GCN's start", share, "%"))
        rows.append(Row(BENCHMARK, f"{family}, {order}", WITH_GCN, "processor time that it adds, mean", added, "ms"))
    return rows


def _goals(by_order: dict[str, list[Outcome]]) -> list[Row]:
    rows: list[Row] = []
    for order, outcomes in by_order.items():
        if outcomes:
            mean = _mean(outcome.ratio for outcome in outcomes)
            rows.append(goal(BENCHMARK, f"{order}: sum over one after the other, mean", OURS, mean, LIMIT_RATIO, "ratio"))
            worse = float(sum(outcome.ratio > 1.0 for outcome in outcomes))
            rows.append(goal(BENCHMARK, f"{order}: questions with a higher sum", OURS, worse, 0.0, "questions"))
            slowest = max(outcome.cpu_seconds for outcome in outcomes)
            rows.append(goal(BENCHMARK, f"{order}: processor time, highest", OURS, slowest, LIMIT_SECONDS, "s"))
            refused = float(sum(outcome.refused for outcome in outcomes))
            rows.append(goal(BENCHMARK, f"{order}: faults found by the operator's check", OURS, refused, 0.0, ""))
    return rows


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))
