"""The stages of an evaluation, asked about plans that the planner made."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
from msgspec.structs import replace

from hyperscale.cli.evaluate.evaluation_view import show
from hyperscale.evaluate.forecast.forecast_types import ForecastRun
from hyperscale.evaluate.forecast.run_facts import facts_of
from hyperscale.evaluate.pipeline.evaluation_question import DAY_SECONDS, EvaluationQuestion, constant_rate, first_epoch_deadline, of_table
from hyperscale.evaluate.pipeline.forecast_stage import forecast_epoch, question_of
from hyperscale.evaluate.pipeline.proof_stage import proof
from hyperscale.evaluate.pipeline.run_stages import evaluate, top_risk
from hyperscale.evaluate.pipeline.twin_stage import job_risk, play_twin
from hyperscale.evaluate.twin.failure_table import parse_failure_table
from hyperscale.evaluate.twin.play_futures import play
from hyperscale.model.api.job import CheckpointSpec, JobSpec
from hyperscale.model.evaluation import Evaluation, StageOutcome, StageState
from hyperscale.model.plan import Plan
from hyperscale.model.planning import PlanRequest
from tests.builders.clusters import gpu_node, planned, snapshot, training

CLUSTER = snapshot(*(gpu_node(f"n{place}") for place in range(4)))
JOB = training(checkpoint=CheckpointSpec(claim_name="kept", every_epochs=10))
PLAN = planned(CLUSTER, JOB)
REQUEST = PlanRequest("team/cora", JOB)


def question(plan: Plan = PLAN, **changes: Any) -> EvaluationQuestion:
    fields: dict[str, Any] = {"failures": constant_rate(6.5, "Assumed."), "futures": 400, "seed": 7}
    return EvaluationQuestion(plan, REQUEST, CLUSTER, **(fields | changes))


def evaluated(**changes: Any) -> Evaluation:
    return evaluate(question(**changes)).answer


def test_a_plan_of_the_planner_is_consistent() -> None:
    assert proof(question()).state is StageState.PASSED


def test_a_plan_on_a_node_that_is_gone_is_refused_with_both_judges_words() -> None:
    first = PLAN.workers[0]
    moved = replace(PLAN, workers=(replace(first, node="gone"), *PLAN.workers[1:]))
    outcome = proof(question(moved))
    assert outcome.state is StageState.FAILED
    assert outcome.score == 0.0
    assert any("gone" in finding for finding in outcome.findings)


def test_the_forecast_says_what_a_wider_range_rests_on() -> None:
    sure = replace(PLAN, predicted=replace(PLAN.predicted, low_seconds=0.9, epoch_seconds=1.0, high_seconds=1.1))
    unsure = replace(PLAN, predicted=replace(PLAN.predicted, low_seconds=0.2, epoch_seconds=1.0, high_seconds=5.0))
    narrow, _ = forecast_epoch(question(sure))
    wide, epoch = forecast_epoch(question(unsure))
    assert (narrow.state, wide.state) == (StageState.PASSED, StageState.WARNED)
    assert narrow.score is not None
    assert wide.score is not None
    assert narrow.score > wide.score
    assert epoch.at(0.975) == pytest.approx(5.0)


def test_the_forecast_names_the_finished_run_that_it_is_like_and_a_node_that_fails() -> None:
    asked = question_of(question())
    node = PLAN.workers[0].node
    runs = [
        ForecastRun(
            f"ml/cora-{at}",
            asked.features,
            asked.ranks,
            asked.hosts,
            asked.physical_seconds * (1.0 + 0.01 * (at % 5)),
            asked.physical_seconds,
        )
        for at in range(20)
    ]
    facts = tuple(facts_of(run, ["elsewhere"]) for run in runs)
    failed = tuple(facts_of(dataclasses.replace(run, run=f"failed-{run.run}"), [node]) for run in runs[:6])
    past = (*facts, *(dataclasses.replace(each, failed=True) for each in failed))
    outcome, epoch = forecast_epoch(question(runs=tuple(runs), facts=past))
    assert any(finding.startswith("Most like") and "same model, same graph" in finding for finding in outcome.findings)
    assert any(f"runs with node {node}, 6 failed" in finding for finding in outcome.findings)
    assert epoch.neighbours
    assert evaluated(runs=tuple(runs), facts=past).neighbours == epoch.neighbours
    assert evaluated(runs=tuple(runs), stages=frozenset({"proof"})).neighbours[0].run.startswith("ml/cora")


def test_failed_runs_alone_are_evidence_too() -> None:
    asked = question_of(question())
    past = (dataclasses.replace(facts_of(asked, ["x"]), run="ml/first", failed=True),)
    outcome, epoch = forecast_epoch(question(facts=past))
    assert "Most like ml/first (same model, same graph, same GPUs): it failed." in outcome.findings
    assert epoch.neighbours[0].outcome == "failed"
    assert forecast_epoch(question())[1].neighbours == ()


def test_without_failures_the_twin_adds_checkpoints_alone() -> None:
    risk = job_risk(question(failures=constant_rate(0.0, "None.")), 2.0)
    answer = play_twin(question(failures=constant_rate(0.0, "None.")), forecast_epoch(question())[1])
    assert risk.work_seconds == JOB.model.epochs * 2.0
    assert risk.checkpoint_interval_seconds == 20.0
    assert answer.outlook.expected_failures == 0.0


@pytest.mark.parametrize(("every", "writes"), [(1, 20), (10, 2), (15, 2), (20, 1), (1000, 1)])
def test_a_run_writes_as_many_checkpoints_as_the_trainer_does(every: int, writes: int) -> None:
    """After every few epochs, and after the last one."""
    assert JOB.checkpoint is not None
    job = replace(JOB, model=replace(JOB.model, epochs=20), checkpoint=replace(JOB.checkpoint, every_epochs=every))
    asked = dataclasses.replace(question(failures=constant_rate(0.0, "None.")), request=replace(REQUEST, job=job))
    played = play(job_risk(asked, 3.0), 3, 0)
    assert played.checkpoint_seconds.tolist() == [asked.write_seconds * writes] * 3
    assert played.end_seconds.tolist() == [60.0 + asked.write_seconds * writes] * 3


def test_a_job_without_checkpoints_loses_all_of_its_work() -> None:
    asked = question()
    bare = replace(REQUEST, job=replace(JOB, checkpoint=None))
    risk = job_risk(EvaluationQuestion(asked.plan, bare, CLUSTER, asked.failures), 2.0)
    assert risk.checkpoint_interval_seconds == risk.work_seconds
    assert risk.write_seconds == 0.0


def test_energy_never_falls_where_nodes_fail_more_often() -> None:
    rates = (0.0, 6.5, 4_000.0, 40_000.0, 400_000.0)
    found = [evaluated(failures=constant_rate(rate, "Stated.")).energy_kilowatt_hours for rate in rates]
    middles = [each.middle for each in found if each is not None]
    assert len(middles) == len(rates)
    assert middles == sorted(middles)


def test_one_answer_states_one_share_of_time_that_trains() -> None:
    """A few futures that wait for hours take most of the seconds of all futures, and little of the share."""
    answer = evaluated(failures=constant_rate(4_000.0, "Stated."), futures=4_000)
    shares = {part.name: part.share for part in answer.time_parts}
    twin = next(stage for stage in answer.stages if stage.stage == "twin")
    assert f"{100 * shares['training']:.1f} % of its time trains" in twin.sentence
    assert f"training {100 * shares['training']:.1f} %" in "\n".join(show(answer, PLAN, ""))
    assert sum(shares.values()) == pytest.approx(1.0)
    seconds = {part.name: part.seconds for part in answer.time_parts}
    assert shares["training"] > 1.5 * seconds["training"] / sum(seconds.values())


def test_a_later_deadline_is_never_less_likely_to_be_kept() -> None:
    epoch = forecast_epoch(question())[1]
    middle = JOB.model.epochs * epoch.middle
    chances = [evaluated(deadline_seconds=factor * middle).ends_by_deadline for factor in (0.1, 1.0, 3.0, 50.0)]
    parts = [chance.middle for chance in chances if chance is not None]
    assert parts == sorted(parts)
    assert (parts[0], parts[-1]) == (0.0, 1.0)


def test_the_curve_rises_and_agrees_with_the_chance() -> None:
    answer = evaluated(deadline_seconds=JOB.model.epochs * PLAN.predicted.epoch_seconds)
    times, parts = zip(*answer.end_curve, strict=True)
    assert list(times) == sorted(times)
    assert list(parts) == sorted(parts)


def test_the_same_question_gives_the_same_answer_and_another_seed_another_one() -> None:
    assert evaluated() == evaluated()
    often = constant_rate(1e6, "Often.")
    assert evaluated(seed=8, failures=often) != evaluated(failures=often)


def test_only_the_stages_that_are_asked_answer() -> None:
    assert [stage.stage for stage in evaluated(stages=frozenset({"proof"})).stages] == ["proof"]
    assert [stage.stage for stage in evaluated(stages=frozenset({"twin"})).stages] == ["twin"]


def test_the_top_risk_is_a_failure_before_any_warning() -> None:
    failed = StageOutcome("proof", StageState.FAILED, "broken", (), 0.0)
    warned = StageOutcome("twin", StageState.WARNED, "late", (), 0.0)
    assert top_risk([warned, failed]) == "proof: broken"
    assert top_risk([warned]) == "twin: late"
    assert top_risk([StageOutcome("twin", StageState.PASSED, "fine", (), 0.0)]) == ""


def test_a_rate_is_that_of_one_node() -> None:
    law = constant_rate(2.0, "")
    assert law.laws["any"].scale_seconds == 500.0 * DAY_SECONDS
    for wrong in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="write a number from 0"):
            constant_rate(wrong, "")


def test_units_of_a_node_are_counted_by_its_name() -> None:
    lines = ["location,insert,remove,cause"]
    lines += [f"n{node}/gpu-{unit},0,{1000 + 37 * node + unit},memory" for node in range(20) for unit in range(4)]
    assumption = of_table(parse_failure_table(lines))
    assert sorted(assumption.laws) == ["memory/0", "memory/1", "memory/2", "memory/3"]
    assert "4 units on a node; nodes are taken as new" in assumption.source


def test_units_of_a_class_are_counted_alone_and_kinds_of_nodes_not_mixed() -> None:
    lines = ["location,insert,remove,cause,class"]
    lines += [f"r1/n{node}/gpu-{unit},0,{1000 + 37 * node + unit},memory,gpu" for node in range(20) for unit in range(4)]
    lines += [f"r1/n{node}/nic,0,{5000 + node},link,nic" for node in range(20)]
    assert len(of_table(parse_failure_table(lines)).laws) == 5
    with pytest.raises(ValueError, match="nodes of several kinds"):
        of_table(parse_failure_table([*lines, "r1/other,0,77,memory,h100"]))


def test_nodes_are_as_old_as_those_in_service() -> None:
    lines = ["location,insert,remove,cause", *(f"n{node},0,{100 + node},memory" for node in range(20)), "x,0,,", "y,60,,"]
    assert of_table(parse_failure_table(lines)).age_seconds == 119.0


def test_futures_are_as_many_as_asked_and_followed_past_the_deadline() -> None:
    late = constant_rate(1e6, "Often.")
    answer = play_twin(question(futures=399, failures=late, deadline_seconds=86_400.0), forecast_epoch(question())[1])
    assert "of 399 futures" in answer.outcome.sentence
    assert answer.by_deadline is not None
    assert answer.by_deadline.middle * 399 == pytest.approx(round(answer.by_deadline.middle * 399))
    assert job_risk(question(deadline_seconds=1e9), 1.0).horizon_seconds >= 1e9  # type: ignore[operator]


def test_an_epoch_of_microseconds_is_no_error() -> None:
    quick = replace(PLAN, predicted=replace(PLAN.predicted, low_seconds=1e-7, epoch_seconds=1e-6, high_seconds=1e-3))
    assert {stage.stage for stage in evaluate(question(quick)).answer.stages} == {"proof", "forecast", "twin"}


def test_a_range_the_wrong_way_round_is_widened_and_scores_at_most_one() -> None:
    wrong = replace(PLAN, predicted=replace(PLAN.predicted, low_seconds=6000.0, epoch_seconds=600.0, high_seconds=60.0))
    answer = evaluate(question(wrong)).answer
    assert all(stage.score is None or 0.0 <= stage.score <= 1.0 for stage in answer.stages)
    assert answer.failed


def test_each_side_of_a_range_has_its_own_spread() -> None:
    skewed = replace(PLAN, predicted=replace(PLAN.predicted, low_seconds=590.0, epoch_seconds=600.0, high_seconds=6000.0))
    _, epoch = forecast_epoch(question(skewed))
    assert epoch.at(0.025) == pytest.approx(590.0)
    assert epoch.at(0.975) == pytest.approx(6000.0)
    assert epoch.at(0.5) == 600.0


def test_the_jobs_own_deadline_also_counts_the_start_of_its_pods() -> None:
    ample = first_epoch_deadline(_ends_within(600))
    assert ample.seconds == 480.0
    assert ample.note.startswith("Of its runPolicy.activeDeadlineSeconds of 10 min, 2 min are taken off for the start of its pods")
    assert first_epoch_deadline(JOB) == (None, "")


def test_a_deadline_that_its_own_start_uses_up_says_so() -> None:
    short = first_epoch_deadline(_ends_within(100))
    assert short.seconds == 1.0
    assert "of 100 s, 2 min are taken off" in short.note
    assert "nothing is left" in short.note
    assert "nothing is left" not in first_epoch_deadline(_ends_within(100), 20.0).note
    answer = evaluated(deadline_seconds=short.seconds, deadline_note=short.note)
    twin = next(stage for stage in answer.stages if stage.stage == "twin")
    assert short.note in twin.findings
    assert all(finding for stage in evaluated().stages for finding in stage.findings)


def _ends_within(seconds: int) -> JobSpec:
    return replace(JOB, run_policy=replace(JOB.run_policy, active_deadline_seconds=seconds))


def test_a_table_in_which_nothing_failed_is_refused() -> None:
    with pytest.raises(ValueError, match="--failure-rate"):
        of_table(parse_failure_table(["location,insert,remove,cause", "n1,0,,", "n2,0,5,healthy"]))


def test_prices_count_every_second_until_the_end() -> None:
    priced = replace(PLAN, predicted=replace(PLAN.predicted, cost_per_epoch=2.0 * PLAN.predicted.epoch_seconds))
    answer = evaluate(question(priced)).answer
    assert answer.cost is not None
    assert answer.end_seconds is not None
    assert answer.cost.middle == pytest.approx(2.0 * answer.end_seconds.middle)
