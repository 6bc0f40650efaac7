"""The bound on idle GPUs, and streams that are like those an agent was judged on."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest

from hyperscale.model.api.policy import QueueOrder, QueuePolicy
from hyperscale.planner.queue import queue_policies
from hyperscale.planner.queue.arrival_history import MOST_GAP_VARIATION, arrived, gap_variation
from hyperscale.planner.queue.features import situation
from hyperscale.planner.queue.likeness import MIN_ARRIVALS, FigureRange, JudgedStreams, QueueProfile, unlike
from hyperscale.planner.queue.queue_policies import (
    NOT_JUDGED,
    OTHER_BOUND,
    OTHER_RULE,
    UNLIKE,
    Choosers,
    choosers,
    packaged_agent,
    settings_of,
)
from hyperscale.planner.queue.queue_types import ArrivalHistory, ClusterState, Option, PendingJob, QueueChoice, QueueRunningJob
from hyperscale.planner.queue.wait_bounds import IDLE_COSTS, IDLE_RUNS, LONG_RUNS, PATIENCE_COSTS, idle_seconds_left, overdue

JUDGED = JudgedStreams(
    nodes=FigureRange(16, 32),
    worker_slots=FigureRange(16, 32),
    speed_spread=FigureRange(1, 20),
    largest_share=FigureRange(0.1, 0.5),
    load=FigureRange(0.4, 1.2),
    gap_variation=FigureRange(0.4, 2.5),
    least_bound_runs=32.0,
)
LIKE = QueueProfile(
    nodes=20, worker_slots=20.0, speed_spread=2.0, largest_share=0.4, load=0.8, arrivals=100, gap_variation=1.0, bound_runs=math.inf
)


def job(seconds: float, best: float, waited: float) -> PendingJob:
    return PendingJob("team/a", (Option(2, seconds, best),), waited_seconds=waited)


def test_a_job_on_good_nodes_is_kept_waiting_a_part_of_its_own_run_at_most() -> None:
    assert idle_seconds_left(job(100.0, 100.0, 0.0), 4) == pytest.approx(100.0 * IDLE_RUNS)
    assert overdue(job(100.0, 100.0, 101.0 * IDLE_RUNS), 4) is not None


def test_a_job_on_poor_nodes_is_kept_waiting_for_what_they_cost_and_that_part() -> None:
    bound_seconds = IDLE_COSTS * 200.0 + IDLE_RUNS * 100.0
    assert overdue(job(300.0, 100.0, bound_seconds - 1.0), 4) is None
    assert overdue(job(300.0, 100.0, bound_seconds + 1.0), 4) is not None


def test_a_job_that_does_not_fit_bounds_no_waiting() -> None:
    assert idle_seconds_left(job(math.inf, 100.0, 1e9), 4) is None
    assert overdue(job(100.0, 100.0, 1e9), 1) is None


RUNNING = (QueueRunningJob("team/run", 2, 50.0),)


def offered(lengths: dict[str, float], running: Sequence[QueueRunningJob] = RUNNING, mean_run_seconds: float = 100.0) -> set[str | None]:
    """Who may start, and None where nothing may: jobs of these seconds are pending, all fit on their best nodes."""
    pending = [PendingJob(key, (Option(2, seconds, seconds),)) for key, seconds in lengths.items()]
    cluster = ClusterState(4, 8, history=ArrivalHistory(arrivals=50, run_seconds=mean_run_seconds))
    settings = settings_of(QueuePolicy(starvation_seconds=0))
    return {candidate.key[0] for candidate in situation(pending, running, cluster, settings, 4.0).candidates}


def test_no_chooser_keeps_a_job_of_many_mean_runs_waiting_that_the_rule_starts() -> None:
    assert offered({"team/long": 101.0 * LONG_RUNS}) == {"team/long"}
    assert offered({"team/long": 101.0 * LONG_RUNS, "team/longer": 102.0 * LONG_RUNS}) == {"team/long"}
    assert offered({"team/ordinary": 99.0 * LONG_RUNS}) == {"team/ordinary", None}


def test_the_chooser_decides_where_the_rule_starts_a_shorter_job_before_the_long_one() -> None:
    assert offered({"team/long": 101.0 * LONG_RUNS, "team/short": 100.0}) == {"team/long", "team/short", None}


def test_on_an_idle_cluster_and_without_a_history_no_job_counts_as_long() -> None:
    two = {"team/long": 101.0 * LONG_RUNS, "team/longer": 102.0 * LONG_RUNS}
    assert offered(two, running=()) == {*two}
    assert offered(two, mean_run_seconds=0.0) == {*two, None}


def test_a_cluster_within_all_ranges_is_like_the_judged_streams() -> None:
    assert unlike(JUDGED, LIKE) == ""


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("nodes", 200, "nodes with GPUs: 200"),
        ("worker_slots", 640.0, "typical workers in the cluster: 640"),
        ("speed_spread", 90.0, "speed of the fastest GPU over the slowest: 90"),
        ("largest_share", 0.9, "share of the largest job: 0.9"),
        ("load", 3.0, "load: 3"),
        ("load", math.nan, "load: nan"),
        ("load", 4.6e15, "load: above 100, since many jobs came at once, judged on 0.4 to 1.2"),
        ("bound_runs", 16.0, "starvationSeconds: 16 mean runs"),
        ("arrivals", MIN_ARRIVALS - 1, "19 jobs are known of"),
        ("gap_variation", 6.0, "squared variation of the gaps between arrivals: 6, judged on 0.4 to 2.5"),
        ("gap_variation", math.inf, "squared variation of the gaps between arrivals: inf"),
    ],
)
def test_each_figure_outside_its_range_is_named(field: str, value: float, words: str) -> None:
    assert words in unlike(JUDGED, msgspec.structs.replace(LIKE, **{field: value}))


def test_any_gaps_are_like_those_of_weights_whose_manifest_does_not_say_theirs() -> None:
    assert unlike(msgspec.structs.replace(JUDGED, gap_variation=None), msgspec.structs.replace(LIKE, gap_variation=50.0)) == ""


def after(gaps: list[float]) -> ArrivalHistory:
    known = ArrivalHistory()
    for gap in gaps:
        known = arrived(known, job(100.0, 100.0, 0.0), gap)
    return known


def test_gaps_of_jobs_that_come_by_chance_vary_by_one_and_those_of_sweeps_by_much_more() -> None:
    rng = np.random.default_rng(5)
    by_chance = rng.exponential(60.0, 400).tolist()
    sweeps = [gap for between in rng.exponential(600.0, 40).tolist() for gap in (between, *[0.0] * 9)]
    assert 0.5 < gap_variation(after(by_chance)) < 2.0
    assert gap_variation(after(sweeps)) > 5.0
    assert gap_variation(after([60.0] * 100)) == pytest.approx(0.0, abs=1e-9)
    assert gap_variation(after([0.0] * 30)) == gap_variation(ArrivalHistory()) == MOST_GAP_VARIATION


def never(*_: object) -> QueueChoice:
    return QueueChoice(None)


def test_an_unlike_cluster_is_decided_on_by_the_rule_and_the_reason_is_given() -> None:
    asked = Choosers(never, never, judged=JUDGED, decides=True)
    assert asked.on(LIKE).agent is never
    other = asked.on(msgspec.structs.replace(LIKE, nodes=3))
    assert other.agent is None
    assert other.reason.startswith(UNLIKE)


def test_the_default_order_uses_the_agent_only_with_a_judgement_in_its_manifest() -> None:
    assert QueuePolicy().order is QueueOrder.AUTO
    found = choosers(QueuePolicy())
    assert (found.judged is not None) == (found.agent is not None)
    assert found.agent is not None or found.reason == NOT_JUDGED
    assert found.fallbacks == ()


@pytest.mark.parametrize(("patience_costs", "long_runs"), [(1.0, LONG_RUNS), (PATIENCE_COSTS, 0.0)])
def test_weights_that_were_judged_under_another_bound_on_waiting_do_not_decide(
    monkeypatch: pytest.MonkeyPatch, patience_costs: float, long_runs: float
) -> None:
    agent = packaged_agent()
    assert agent is not None
    prior = msgspec.structs.replace(agent.manifest.prior, patience_costs=patience_costs)
    manifest = msgspec.structs.replace(agent.manifest, prior=prior, long_runs=long_runs, judged=JUDGED)
    old = dataclasses.replace(agent, manifest=manifest)
    monkeypatch.setattr(queue_policies, "packaged_agent", lambda: old)
    assert choosers(QueuePolicy(order=QueueOrder.AUTO)).reason == OTHER_BOUND
    assert choosers(QueuePolicy(order=QueueOrder.LEARNED)).agent is not None


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("max_start_slowdown", "maxStartSlowdown is 1, judged with 4"),
        ("min_wait_speedup", "minWaitSpeedup is 1, judged with 1.5"),
        ("communication_factor", "communicationFactor is 1, judged with 1.5"),
        ("min_scaling_exponent", "minScalingExponent is 1, judged with 0.15"),
        ("min_scaling_exponent_alone", "minScalingExponentAlone is 1, judged with 0.23"),
        ("start_slowdown_size_exponent", "startSlowdownSizeExponent is 1, judged with 0.2"),
    ],
)
def test_who_tunes_the_rule_gets_the_rule(field: str, words: str) -> None:
    tuned = msgspec.structs.replace(QueuePolicy(), **{field: 1.0})
    found = choosers(tuned)
    assert (found.agent, found.reason) == (None, f"{OTHER_RULE}: {words}")
    assert choosers(msgspec.structs.replace(tuned, order=QueueOrder.LEARNED)).agent is not None


def test_the_order_rule_asks_no_agent() -> None:
    found = choosers(QueuePolicy(order=QueueOrder.RULE))
    assert (found.agent, found.reason) == (None, "")
    assert found.rule((), (), ClusterState(4, 4)).job is None
