"""The index rule, the history of arrivals and the agent's files."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperscale.model.api.policy import QueuePolicy
from hyperscale.planner.learned import learned_weights
from hyperscale.planner.queue import arrival_history, rule
from hyperscale.planner.queue.queue_agent import AgentUnavailableError, load_agent
from hyperscale.planner.queue.queue_policies import settings_of
from hyperscale.planner.queue.queue_types import ArrivalHistory, ClusterState, LaterStart, Option, PendingJob, QueueChoice, QueueRunningJob
from hyperscale.planner.queue.wait_bounds import IDLE_COSTS, PATIENCE_COSTS

EMPTY = ClusterState(free_slots=8, total_slots=8)
BUSY = [QueueRunningJob("ns/busy", 4, 100.0)]
WEIGHTS = Path(str(learned_weights.__file__)).parent / "weights"

RULE = settings_of(QueuePolicy(max_start_slowdown=3.4, start_slowdown_size_exponent=0.2))
"""What the policy has by default, but for two figures that these tests count on."""


def job(key: str, *seconds: float, weight: float = 1.0, waited: float = 0.0, empty: float | None = None) -> PendingJob:
    """Options with 1, 2, 4, ... workers."""
    options = tuple(Option(2**place, value, value if empty is None else empty, 0.1 * value, 0.2) for place, value in enumerate(seconds))
    return PendingJob(key, options, weight, waited)


def test_the_policy_is_the_only_place_with_defaults_of_the_rule() -> None:
    assert rule.RuleSettings._field_defaults.keys() == {"starvation_seconds"}
    policy = QueuePolicy()
    exponents = policy.min_scaling_exponent_alone, policy.min_scaling_exponent
    start = policy.max_start_slowdown, policy.start_slowdown_size_exponent, policy.communication_factor
    assert (rule.QueueOrder.SECONDS, *exponents, *start, PATIENCE_COSTS, policy.min_wait_speedup, math.inf) == settings_of(policy)


def test_the_shortest_weighted_job_goes_first() -> None:
    jobs = [job("ns/long", 100.0), job("ns/short", 50.0), job("ns/heavy", 120.0, weight=3.0)]
    choice = rule.choose(jobs, [], EMPTY, RULE)
    assert choice.job == "ns/heavy"
    assert [score.job for score in choice.scores] == ["ns/heavy", "ns/short", "ns/long"]


def test_a_larger_worker_count_must_pay() -> None:
    thrifty = RULE._replace(thrift=0.9, thrift_alone=0.9)
    assert rule.choose([job("ns/a", 100.0, 60.0)], [], EMPTY, thrifty).workers == 1
    assert rule.choose([job("ns/a", 100.0, 50.0)], [], EMPTY, thrifty).workers == 2
    assert rule.choose([job("ns/a", 100.0, 99.0)], [], EMPTY, RULE._replace(thrift_alone=0.0)).workers == 2


def test_no_start_on_poor_nodes_while_others_run() -> None:
    poor = [job("ns/a", 100.0, empty=20.0)]
    choice = rule.choose(poor, BUSY, EMPTY, RULE)
    assert choice.job is None
    assert choice.waits_for_better_nodes
    assert rule.choose(poor, [], EMPTY, RULE).job == "ns/a", "nothing better is to come on an idle cluster"


def test_patience_ends_when_the_wait_has_cost_enough_for_what_poor_nodes_would() -> None:
    end = PATIENCE_COSTS * 80.0
    assert rule.choose([job("ns/a", 100.0, waited=end - 1.0, empty=20.0)], BUSY, EMPTY, RULE).job is None
    assert rule.choose([job("ns/a", 100.0, waited=end, empty=20.0)], BUSY, EMPTY, RULE).job == "ns/a"


def known(mean_seconds: float) -> ClusterState:
    return ClusterState(8, 8, history=ArrivalHistory(50, 10.0, mean_seconds, 4.0 * mean_seconds))


def test_a_short_job_starts_on_nodes_that_a_long_one_does_not_take() -> None:
    poor = [job("ns/a", 55.0, empty=20.0)]
    assert rule.choose(poor, BUSY, known(200.0), RULE).job == "ns/a"
    assert rule.choose(poor, BUSY, known(2.0), RULE).job is None
    assert rule.choose(poor, BUSY, known(2.0), RULE._replace(size_exponent=0.0)).job == "ns/a"


def test_no_length_makes_the_best_nodes_too_poor() -> None:
    assert rule.choose([job("ns/a", 1e6)], BUSY, known(1e-3), RULE._replace(communication_factor=0.0)).job == "ns/a"


def test_no_absurd_past_job_lets_others_start_on_absurd_nodes() -> None:
    most = rule.start_slowdown(20.0, known(20.0 * rule.MOST_LENGTH).history, RULE)
    assert most < 2.0 * RULE.patience
    for mean_seconds in (1e4, 1e9, 1e300):
        assert rule.start_slowdown(20.0, known(mean_seconds).history, RULE) == most
    assert rule.start_slowdown(1e300, known(1e-300).history, RULE) > 1.5


def test_nodes_that_are_nearly_the_best_are_good_enough_however_much_the_job_communicates() -> None:
    nearly = [talking("ns/a", 29.0, 28.9, empty=20.0)]
    assert rule.choose(nearly, BUSY, known(1.0), RULE).job == "ns/a"
    assert rule.choose(nearly, BUSY, known(1.0), RULE._replace(patience=1.0)).job is None, "the policy is stricter"


def test_unknown_communication_is_no_good_start() -> None:
    assert rule.choose([talking("ns/a", 60.0, math.nan, empty=20.0)], BUSY, EMPTY, RULE).job is None


def test_without_a_history_all_lengths_are_alike() -> None:
    for scale in (1e-3, 1.0, 1e6):
        assert rule.choose([job("ns/a", 2.9 * scale, empty=scale)], BUSY, EMPTY, RULE).job == "ns/a"
        assert rule.choose([job("ns/a", 3.5 * scale, empty=scale)], BUSY, EMPTY, RULE).job is None


def talking(key: str, seconds: float, communication: float, empty: float | None = None, waited: float = 0.0) -> PendingJob:
    return PendingJob(key, (Option(1, seconds, seconds if empty is None else empty, communication, 0.2),), 1.0, waited)


def test_of_two_jobs_the_one_that_talks_less_goes_first() -> None:
    jobs = [talking("ns/talks", 100.0, 80.0), talking("ns/computes", 120.0, 0.0)]
    assert rule.choose(jobs, [], EMPTY, RULE).job == "ns/computes"
    assert rule.choose(jobs, [], EMPTY, RULE._replace(communication_factor=0.0)).job == "ns/talks"


def test_a_job_that_would_mostly_talk_waits_for_better_nodes_and_not_for_ever() -> None:
    assert rule.choose([talking("ns/a", 40.0, 0.0, empty=20.0)], BUSY, EMPTY, RULE).job == "ns/a"
    assert rule.choose([talking("ns/a", 40.0, 30.0, empty=20.0)], BUSY, EMPTY, RULE).job is None
    assert rule.choose([talking("ns/a", 40.0, 30.0, empty=20.0)], [], EMPTY, RULE).job == "ns/a", "nothing better is to come"
    late = talking("ns/a", 4000.0, 3999.0, empty=2000.0, waited=PATIENCE_COSTS * 2000.0)
    assert rule.choose([late], BUSY, known(1.0), RULE).job == "ns/a"


def sooner(
    seconds: float, wait: float, later: float, waited: float = 0.0, empty: float = 40.0, key: str = "ns/a", freed: int = 4
) -> PendingJob:
    """A job that takes `seconds` now, and `later` when a running job has ended in `wait`."""
    return PendingJob(key, (Option(1, seconds, empty, 0.0, 0.2),), 1.0, waited, later=(LaterStart(wait, freed, later),))


def test_a_job_waits_for_running_jobs_where_it_ends_much_sooner_that_way() -> None:
    assert rule.choose([sooner(100.0, 10.0, 50.0)], BUSY, EMPTY, RULE) == QueueChoice(None, waits_for_better_nodes=True)
    assert rule.choose([sooner(100.0, 40.0, 50.0)], BUSY, EMPTY, RULE).job == "ns/a", "a little sooner is no reason: others may come first"
    assert rule.choose([sooner(100.0, 10.0, 50.0)], BUSY, EMPTY, RULE._replace(wait_speedup=0.0)).job == "ns/a"
    assert rule.choose([sooner(100.0, 10.0, 50.0)], [], EMPTY, RULE).job == "ns/a"
    assert rule.choose([sooner(100.0, 10.0, math.nan)], BUSY, EMPTY, RULE).job == "ns/a"


def test_another_job_may_start_meanwhile() -> None:
    assert rule.choose([sooner(100.0, 10.0, 50.0), job("ns/b", 500.0)], BUSY, EMPTY, RULE).job == "ns/b"


def test_a_long_job_waits_for_running_jobs_for_less() -> None:
    a_quarter = sooner(100.0, 40.0, 40.0)
    assert rule.choose([a_quarter], BUSY, known(400.0), RULE).job == "ns/a"
    assert rule.choose([a_quarter], BUSY, known(4.0), RULE).job is None


def test_the_communication_of_a_later_start_counts_as_it_does_now() -> None:
    start = LaterStart(10.0, 4, 50.0, 40.0)
    waiting = PendingJob("ns/a", (Option(1, 100.0, 40.0, 0.0, 0.2),), later=(start,))
    assert rule.sooner(waiting, 0.0) == pytest.approx(100.0 / 60.0)
    assert rule.sooner(waiting, 1.5) == 1.0
    assert rule.choose([waiting], BUSY, EMPTY, RULE).job == "ns/a"


def test_shorter_jobs_that_wait_take_the_nodes_first() -> None:
    short, long = sooner(80.0, 10.0, 40.0, empty=30.0, key="ns/short"), sooner(100.0, 10.0, 50.0, key="ns/long")
    assert rule.choose([short, long], BUSY, EMPTY, RULE).job is None, "four slots for two jobs of one"
    crowded = [sooner(80.0, 10.0, 40.0, empty=30.0, key=f"ns/short-{number}", freed=1) for number in range(2)]
    waits = rule.later_waits(rule.by_age([*crowded, sooner(100.0, 10.0, 50.0, key="ns/long", freed=1)]), EMPTY, RULE, busy=True)
    assert [waits[key].waits for key in ("ns/short-0", "ns/short-1", "ns/long")] == [True, False, False]
    assert waits["ns/short-1"].sooner == pytest.approx(80.0 / (10.0 + 0.5 * 30.0 + 40.0))


def test_the_wait_for_running_jobs_ends_after_a_multiple_of_what_the_free_nodes_cost() -> None:
    bound = IDLE_COSTS * 60.0
    assert rule.choose([sooner(100.0, 10.0, 50.0, waited=bound - 1.0)], BUSY, EMPTY, RULE).job is None
    assert rule.choose([sooner(100.0, 10.0, 50.0, waited=bound)], BUSY, EMPTY, RULE).job == "ns/a"


def test_after_the_end_of_patience_a_worker_count_much_slower_than_the_best_free_one_is_left_out() -> None:
    late = job("ns/a", 400.0, 100.0, waited=PATIENCE_COSTS * 80.0, empty=20.0)
    assert rule.choose([late], BUSY, EMPTY, RULE._replace(thrift_alone=1.0)).workers == 2


def test_a_job_beyond_the_bound_goes_first_on_good_nodes_and_others_may_start_while_there_are_none() -> None:
    settings = RULE._replace(starvation_seconds=1000.0)
    old = job("ns/old", 500.0, waited=1001.0)
    assert rule.choose([job("ns/new", 1.0), old], BUSY, EMPTY, settings).job == "ns/old"
    stuck = PendingJob("ns/old", (Option(16, math.inf, 400.0),), 1.0, 1001.0)
    assert rule.choose([job("ns/new", 1.0), stuck], BUSY, EMPTY, settings).job == "ns/new"
    poor = job("ns/old", 500.0, waited=1001.0, empty=100.0)
    assert rule.choose([job("ns/new", 1.0), poor], BUSY, EMPTY, settings).job == "ns/new"
    assert rule.choose([job("ns/new", 1.0), poor], [], EMPTY, settings).job == "ns/old", "nothing better is to come on an idle cluster"


def test_a_late_long_job_waits_for_better_nodes_than_a_late_short_one() -> None:
    settings = RULE._replace(starvation_seconds=1000.0)
    new, late = job("ns/new", 1.0), job("ns/old", 550.0, waited=1001.0, empty=200.0)
    assert rule.choose([new, late], BUSY, known(2000.0), settings).job == "ns/old"
    assert rule.choose([new, late], BUSY, known(20.0), settings).job == "ns/new"


def test_of_two_jobs_beyond_the_bound_the_longer_wait_goes_first_where_its_nodes_are_good() -> None:
    settings = RULE._replace(starvation_seconds=1000.0)
    older, old = job("ns/older", 500.0, waited=1500.0), job("ns/old", 5.0, waited=1001.0)
    assert rule.choose([older, old], BUSY, EMPTY, settings).job == "ns/older"
    poor = job("ns/older", 500.0, waited=1500.0, empty=100.0)
    assert rule.choose([poor, old], BUSY, EMPTY, settings).job == "ns/old"


def test_nobody_starts_before_a_job_that_has_waited_twice_the_bound() -> None:
    settings = RULE._replace(starvation_seconds=1000.0)
    poor = job("ns/old", 500.0, waited=2001.0, empty=100.0)
    assert rule.choose([job("ns/new", 1.0), poor], BUSY, EMPTY, settings).job == "ns/old"
    stuck = PendingJob("ns/old", (Option(16, math.inf, 400.0),), 1.0, 2001.0)
    assert rule.choose([job("ns/new", 1.0), stuck], BUSY, EMPTY, settings).job is None


def test_what_does_not_fit_is_not_started() -> None:
    wide = PendingJob("ns/wide", (Option(4, 10.0, 10.0),), slots_per_worker=4)
    assert rule.choose([wide], [], EMPTY, RULE).job is None


def test_equals_go_by_age_then_by_name() -> None:
    assert rule.choose([job("ns/b", 10.0), job("ns/a", 10.0)], [], EMPTY, RULE).job == "ns/a"
    assert rule.choose([job("ns/b", 10.0, waited=5.0), job("ns/a", 10.0)], [], EMPTY, RULE).job == "ns/b"


def test_history_remembers_means_and_forgets_slowly() -> None:
    known = ArrivalHistory()
    for seconds in (10.0, 20.0, 30.0):
        known = arrival_history.arrived(known, job("ns/a", seconds), 5.0)
    assert known.arrivals == 3
    assert known.run_seconds == pytest.approx(20.0)
    assert known.interval_seconds == pytest.approx(5.0)
    state = ClusterState(8, 8, history=known)
    assert arrival_history.load(state) == pytest.approx(20.0 / (5.0 * 8))
    assert arrival_history.load(EMPTY) == 0.0
    for _ in range(400):
        known = arrival_history.arrived(known, job("ns/a", 100.0), 5.0)
    assert known.run_seconds == pytest.approx(100.0, rel=0.01)


def after_jobs(*lengths: float) -> ArrivalHistory:
    """What is known once such jobs have come, all of which have run."""
    known = ArrivalHistory()
    for seconds in lengths:
        counted = arrival_history.seconds_on_arrival(known, seconds)
        known = arrival_history.has_run(arrival_history.arrived(known, job("ns/a", seconds), 5.0), seconds, counted)
    return known


@pytest.mark.parametrize("seconds", [1599.0, 1e9], ids=["15.9 mean runs", "absurd"])
def test_jobs_that_wait_hardly_change_how_long_the_others_wait_for_good_nodes(seconds: float) -> None:
    known = after_jobs(*[100.0] * 60)
    before = rule.start_slowdown(100.0, known, RULE)
    for _ in range(20):
        known = arrival_history.arrived(known, job("ns/absurd", seconds), 5.0)
    assert known.arrivals == 80
    assert before <= rule.start_slowdown(100.0, known, RULE) <= before * 1.1


def test_a_job_counts_as_it_is_once_it_has_run_but_never_as_more_than_so_many_mean_runs() -> None:
    known = after_jobs(*[100.0] * 60)
    waits = arrival_history.arrived(known, job("ns/long", 4000.0), 5.0)
    assert arrival_history.seconds_on_arrival(known, 4000.0) == 200.0
    assert waits.run_seconds == pytest.approx(102.0)
    assert arrival_history.has_run(waits, 4000.0, 200.0).run_seconds == pytest.approx(102.0 + 3800.0 / 50.0)
    for absurd in (1e4, 1e12):
        assert arrival_history.has_run(waits, absurd, 200.0).run_seconds == pytest.approx(102.0 + (64.0 * 102.0 - 200.0) / 50.0)


@pytest.mark.parametrize("place", range(4))
def test_an_absurd_job_among_the_first_ones_does_not_make_the_mean_its_own(place: int) -> None:
    lengths = [100.0] * 6
    lengths[place] = 1e9
    assert after_jobs(*lengths).run_seconds <= 1600.0


def test_the_load_counts_all_that_a_waiting_job_takes() -> None:
    known = ArrivalHistory()
    for seconds in (100.0, 100.0, 100.0, 1e5):
        known = arrival_history.arrived(known, job("ns/a", seconds), 5.0)
    assert arrival_history.load(ClusterState(8, 8, history=known)) == pytest.approx(25_075.0 / (5.0 * 8))


def test_where_all_jobs_become_much_longer_the_mean_follows() -> None:
    assert after_jobs(*[1.0] * 60, *[100.0] * 300).run_seconds == pytest.approx(100.0, rel=0.05)


@given(lengths=st.lists(st.floats(1e-9, 1e8), min_size=1, max_size=60))
def test_the_mean_run_stays_within_what_was_seen(lengths: list[float]) -> None:
    known = after_jobs(*lengths)
    assert 0.0 < known.run_seconds <= max(lengths) * (1.0 + 1e-9)


def test_without_history_the_pending_jobs_set_the_scale() -> None:
    jobs = [job("ns/a", 10.0), job("ns/b", 30.0)]
    assert arrival_history.typical_seconds(EMPTY, jobs) == 20.0
    assert arrival_history.typical_area(EMPTY, jobs) == 20.0


def test_the_packaged_agent_chooses_a_candidate() -> None:
    agent = load_agent(WEIGHTS)
    jobs = [job("ns/a", 100.0, 60.0), job("ns/b", 10.0, 8.0, waited=0.5)]
    choice = agent.choose(jobs, BUSY, ClusterState(4, 8, 0.5))
    named = {(score.job, score.workers) for score in choice.scores}
    assert (choice.job, choice.workers) in named
    assert (None, 0) in named, "to wait is a candidate while others run"
    assert agent.choose(jobs, BUSY, ClusterState(4, 8, 0.5)) == choice


def test_an_agent_with_nothing_to_start_waits() -> None:
    assert load_agent(WEIGHTS).choose([], BUSY, EMPTY).job is None


@pytest.mark.parametrize(
    ("change", "message"),
    [({"features": 99}, "version 99"), ({"sha256": "0" * 64}, "is not the file")],
)
def test_weights_that_do_not_fit_are_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    for name in ("stream.json", "stream.safetensors"):
        (tmp_path / name).write_bytes((WEIGHTS / name).read_bytes())
    manifest = json.loads((tmp_path / "stream.json").read_text())
    (tmp_path / "stream.json").write_text(json.dumps({**manifest, **change}))
    with pytest.raises(AgentUnavailableError, match=message):
        load_agent(tmp_path)


def test_no_weights_are_no_agent(tmp_path: Path) -> None:
    with pytest.raises(AgentUnavailableError, match="no usable"):
        load_agent(tmp_path)
