"""What the planner process says of running jobs: today's epoch, a better placement, its price, and the check of the answer."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from hyperscale.model.admission_query import Claim
from hyperscale.model.api.policy import MigrationPolicy, PolicySpec
from hyperscale.model.cluster import ClusterSnapshot, Link
from hyperscale.model.plan import Calibration, Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.model.running_query import JobMigration, MigrationAnswer, MigrationQuestion, RunningJob
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.migration.migration_evaluation import evaluate_migrations
from hyperscale.planner.migration.vacated import unsound_moves
from hyperscale.planner.search.heuristic import Heuristic
from hyperscale.planner.workload.profile import profile
from tests.builders.clusters import POLICY, PRODUCTS, both_ways, gpu_node, measured, planned, snapshot, training

NAMES = ["a1", "a2", "a3", "a4", "a5", "a6"]
JOB = training(workers={"minReplicas": 4, "maxReplicas": 4})
KEY = "team-a/gnn"


def cluster(slow: str = "", busy: tuple[str, ...] = (), load: float = 0.0) -> ClusterSnapshot:
    """Like nodes of one GPU; GPUs of `busy` nodes are held and at `load`."""
    nodes = (gpu_node(name, load=load if name in busy else 0.0, requested_gpus=int(name in busy)) for name in NAMES)
    links = both_ways(NAMES, latency_seconds=1e-4, bandwidth_bytes_per_second=1e9)
    return snapshot(*nodes, links=tuple(_slower(entry) if slow in (entry.source, entry.destination) else entry for entry in links))


def _slower(entry: Link) -> Link:
    latency, bandwidth = entry.latency_seconds.value, entry.bandwidth_bytes_per_second.value
    assert latency is not None
    assert bandwidth is not None
    return Link(entry.source, entry.destination, measured(latency * 10), measured(bandwidth / 10))


PLAN: Plan = planned(cluster(), JOB)
NODES = tuple(worker.node for worker in PLAN.workers)
ELSEWHERE = sorted(set(NAMES) - set(NODES))


def running(plan: Plan = PLAN, epochs: float = 50_000.0, redone: float = 0.0) -> RunningJob:
    nodes = {worker.node for worker in plan.workers}
    return RunningJob(PlanRequest(job_key=KEY, job=JOB), plan, {name: Claim(gpus=1) for name in nodes}, epochs, redone)


def asked(seen: ClusterSnapshot, *jobs: RunningJob, policy: PolicySpec = POLICY) -> tuple[JobMigration, ...]:
    question = MigrationQuestion(jobs)
    moves = evaluate_migrations(question, build(seen, policy), policy, lambda job: profile(job.request.job), lambda: False, Heuristic())
    assert unsound_moves(moves, question, seen) == ()
    return moves.advice


def test_nothing_is_proposed_where_nothing_changed_although_the_jobs_own_gpus_are_busy() -> None:
    (advice,) = asked(cluster(busy=NODES, load=0.97), running())
    assert (advice.moved, advice.plan, advice.price_seconds) == ((), None, 0.0)
    assert advice.now_epoch_seconds == pytest.approx(PLAN.predicted.epoch_seconds, rel=1e-6)
    assert advice.gain_ratio == 0.0


def test_a_slow_node_is_left_with_one_move_and_the_others_stay() -> None:
    (advice,) = asked(cluster(slow=NODES[1], busy=NODES), running())
    assert advice.moved == (1,)
    assert advice.plan is not None
    assert [worker.node for worker in advice.plan.workers] == [NODES[0], advice.plan.workers[1].node, *NODES[2:]]
    assert advice.plan.workers[1].node in ELSEWHERE
    assert [worker.share for worker in advice.plan.workers] == [worker.share for worker in PLAN.workers]
    assert advice.plan.predicted.epoch_seconds == advice.then_epoch_seconds < advice.now_epoch_seconds
    assert advice.saved_seconds > advice.price_seconds == 65.0
    assert 0.0 < advice.gain_ratio < 1.0


def test_what_a_restart_does_again_is_part_of_the_price() -> None:
    (advice,) = asked(cluster(slow=NODES[1], busy=NODES), running(redone=1000.0))
    assert advice.price_seconds == pytest.approx(65.0 + 1000.0 * advice.then_epoch_seconds)
    (late,) = asked(cluster(slow=NODES[1], busy=NODES), running(epochs=10.0, redone=1000.0))
    assert late.moved == ()


def test_no_more_ranks_move_than_the_policy_allows() -> None:
    slow = cluster(slow=NODES[1], busy=NODES)
    dear = PolicySpec(migration=MigrationPolicy(max_migrated_workers=1))
    (advice,) = asked(slow, running(), policy=dear)
    assert len(advice.moved) == 1


def test_gpus_promised_to_other_jobs_are_not_used() -> None:
    job = running()
    taken = replace(job, request=replace(job.request, free_gpus=dict.fromkeys(ELSEWHERE, 0)))
    (advice,) = asked(cluster(slow=NODES[1], busy=NODES), taken)
    assert advice.moved == ()


def test_a_rank_on_a_node_that_takes_no_new_pods_is_not_judged() -> None:
    seen = cluster(slow=NODES[1], busy=NODES)
    nodes = tuple(replace(node, schedulable=node.name != NODES[0]) for node in seen.nodes)
    assert asked(replace(seen, nodes=nodes), running()) == ()


def test_time_up_leaves_the_later_jobs_unanswered_but_never_the_first() -> None:
    seen = cluster(busy=NODES)
    question = MigrationQuestion((running(), running()))
    moves = evaluate_migrations(question, build(seen, POLICY), POLICY, lambda job: profile(job.request.job), lambda: True, Heuristic())
    assert len(moves.advice) == 1


def test_advice_that_uses_what_is_not_there_is_found_out() -> None:
    seen = cluster(slow=NODES[1], busy=NODES)
    question = MigrationQuestion((running(),))
    (advice,) = asked(seen, running())
    assert advice.plan is not None
    elsewhere = replace(advice.plan, workers=(*advice.plan.workers[:3], replace(advice.plan.workers[3], node="gone")))
    assert "gone" in unsound_moves(MigrationAnswer((replace(advice, plan=elsewhere),)), question, seen)[0]
    assert unsound_moves(MigrationAnswer((replace(advice, key="team-a/other"),)), question, seen) == ("team-a/other was not asked about",)


def test_a_move_is_weighed_in_seconds_as_finished_runs_measured_them() -> None:
    seen, factor = cluster(slow=NODES[1], busy=NODES), 3.0
    taught = replace(PlanRequest(job_key=KEY, job=JOB), calibration=(Calibration(PRODUCTS[0], factor, 0.1, 9),))
    (plain,) = asked(seen, running())
    (corrected,) = asked(seen, replace(running(), request=taught))
    assert corrected.moved == plain.moved
    assert corrected.plan is not None
    assert corrected.now_epoch_seconds == pytest.approx(factor * plain.now_epoch_seconds)
    assert corrected.saved_seconds == pytest.approx(factor * plain.saved_seconds)
    assert corrected.plan.predicted.epoch_seconds == pytest.approx(corrected.then_epoch_seconds)
