"""Would running jobs be better off elsewhere: the epoch of their placement today beside the best one that moves few ranks. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from msgspec.structs import replace

from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.graph import ClusterGraph
from hyperscale.model.running_query import JobMigration, MigrationAnswer, MigrationQuestion, RunningJob
from hyperscale.model.workload import WorkloadProfile
from hyperscale.planner.check.artifact import rounded
from hyperscale.planner.check.drained_snapshot import emptied
from hyperscale.planner.choice.confidence import link_confidence, use_confidence
from hyperscale.planner.choice.portfolio import describe
from hyperscale.planner.choice.trust import held_fast, mix
from hyperscale.planner.migration.vacated import vacated_request
from hyperscale.planner.problem.placement_problem import Problem, pose
from hyperscale.planner.repair.replan import LOST_ONLY, Prices, replan
from hyperscale.planner.search.heuristic import Heuristic

Expired = Callable[[], bool]

PLANNER: Final = "Heuristic"
"""Whose search finds moves."""
WORTH_A_SEARCH: Final = 0.5
"""A plan from nothing must gain so much of the least gain that the policy asks for: most running jobs are where they should be."""


def evaluate_migrations(
    question: MigrationQuestion,
    graph: ClusterGraph,
    policy: PolicySpec,
    workload_of: Callable[[RunningJob], WorkloadProfile],
    expired: Expired,
    heuristic: Heuristic,
) -> MigrationAnswer:
    """Advice for every job of the question, in its order, until time is up."""
    advice: list[JobMigration] = []
    for job in question.jobs:
        if advice and expired():
            break
        migration = advise(job, graph, policy, workload_of(job), expired, heuristic)
        if migration is not None:
            advice.append(migration)
    return MigrationAnswer(tuple(advice))


def _factor(job: RunningJob) -> float:
    """What predictions for the job's present GPUs are multiplied with; corrections are in the planners' own seconds already."""
    if job.request.corrections is not None:
        return 1.0
    products = mix(worker.product for worker in job.plan.workers)
    return next((calibration.factor for calibration in job.request.calibration if calibration.products == products), 1.0)


def _least(problem: Problem, workers: int, expired: Expired, heuristic: Heuristic) -> float:
    """Objective of the best plan from nothing, which costs little to find; 0 where there is none to compare with."""
    objectives = (candidate.objective for candidate in heuristic.candidates(problem, expired) if candidate.workers == workers)
    return min(objectives, default=0.0)


def advise(
    job: RunningJob, graph: ClusterGraph, policy: PolicySpec, workload: WorkloadProfile, expired: Expired, heuristic: Heuristic
) -> JobMigration | None:
    """The best that few moves can do for one job; None where its placement cannot be judged.

    The job's own pods count as gone: every rank is stopped by a move and must find room again. A rank on a node that takes no new
    pods any more (cordoned, tainted, faulty) can neither be judged as staying nor restarted there: nothing is advised then, the
    loss of the node is another matter.
    """
    vacated = emptied(graph, job.claims)
    job = replace(job, request=held_fast(job.request, job.plan))
    factor = _factor(job)
    prices = Prices(
        remaining_epochs=job.remaining_epochs * factor,  # the gain of an epoch is uncorrected, prices are not
        move_seconds=policy.migration.worker_reload_seconds,
        restart_seconds=policy.migration.restart_seconds + job.redone_epochs * job.plan.predicted.epoch_seconds,
        max_moves=policy.migration.max_migrated_workers,
    )
    problem = pose(vacated_request(job), vacated, workload, policy)
    still = replan(problem, job.plan, LOST_ONLY, expired, keep_shares=True, heuristic=heuristic)
    if still is None or still.lost:
        return None
    move = still
    least = _least(problem, len(job.plan.workers), expired, heuristic)
    if still.stay_objective * (1.0 - policy.migration.min_gain_ratio * WORTH_A_SEARCH) > least:
        move = replan(problem, job.plan, prices, expired, keep_shares=True, heuristic=heuristic) or still
    now, then = rounded(factor * (move.epoch_seconds + move.gain_seconds_per_epoch)), rounded(factor * move.epoch_seconds)
    price = policy.migration.restart_seconds + job.redone_epochs * then + policy.migration.worker_reload_seconds * len(move.moved)
    stays = JobMigration(job.request.job_key, now, now, remaining_epochs=job.remaining_epochs)
    if not move.moved or then >= now:
        return stays
    shares = tuple(worker.share for worker in job.plan.workers)
    plan = describe(problem, move.candidate, PLANNER, held_shares=shares)
    advice = replace(stays, then_epoch_seconds=then, moved=move.moved, price_seconds=rounded(price), plan=plan)
    sure = _sureness(vacated, [worker.node for worker in (*job.plan.workers, *plan.workers)])
    enough = sure == 1.0 or sure * advice.gain_ratio >= policy.migration.min_gain_ratio
    return advice if enough and sure * advice.saved_seconds > advice.price_seconds else stays


def _sureness(graph: ClusterGraph, nodes: Iterable[str]) -> float:
    """Confidence in the figures of both placements: no job moves for a gain that noise may have made."""
    places = [graph.index[name] for name in nodes if name in graph.index]
    return min(link_confidence(graph, places), use_confidence(graph, places))
