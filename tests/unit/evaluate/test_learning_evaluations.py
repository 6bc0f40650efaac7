"""What finished runs change in an evaluation: the value, the intervals, and which stages count."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest

from hyperscale.evaluate.calibration.lessons import ForecastRow, Lessons, NodeLife
from hyperscale.evaluate.calibration.past_run import PastRun
from hyperscale.evaluate.pipeline.calibrated_value import MIN_OUTCOMES
from hyperscale.evaluate.pipeline.evaluation_question import DAY_SECONDS, EvaluationQuestion, constant_rate
from hyperscale.evaluate.pipeline.forecast_stage import MAX_FACTOR
from hyperscale.evaluate.pipeline.fuse_stages import fuse
from hyperscale.evaluate.pipeline.learned_runs import forecast_run
from hyperscale.evaluate.pipeline.run_stages import evaluate
from hyperscale.evaluate.service.evaluation_frames import QUESTIONS, EvaluationAsk, part_of
from hyperscale.evaluate.service.evaluation_main import answer, failures_taken
from hyperscale.model.api.evaluation_policy import EvaluationPolicy
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.evaluation import Evaluation, EvaluationStatus, Interval, StageOutcome, StageState, StageSummary
from hyperscale.model.planning import PlanRequest
from tests.builders.clusters import gpu_node, planned, snapshot, training

CLUSTER = snapshot(*(gpu_node(f"n{place}") for place in range(4)))
JOB = training()
PLAN = planned(CLUSTER, JOB)
REQUEST = PlanRequest("team/cora", JOB)
STATED = Interval(10.0, 8.0, 12.5)
NAMES = ("proof", "twin")


def scored(twin: float, in_time: bool | None, proof: float = 1.0) -> PastRun:
    stages = (StageSummary("proof", StageState.PASSED, proof), StageSummary("twin", StageState.PASSED, twin))
    return PastRun(EvaluationStatus("0", stages), ended_in_time=in_time)


def missing(count: int, scale: float, seed: int = 1) -> tuple[PastRun, ...]:
    """Forecasts whose outcomes lie `scale` stated deviations away."""
    sigma = math.log(STATED.high / STATED.middle) / 1.959964
    errors = np.random.default_rng(seed).normal(size=count) * scale * sigma
    said = EvaluationStatus("0", (StageSummary("twin", StageState.PASSED, 1.0),), epoch_seconds=STATED)
    return tuple(PastRun(said, epoch_seconds=10.0 * math.exp(error)) for error in errors.tolist())


def evaluated(**changes: Any) -> Evaluation:
    fields: dict[str, Any] = {"failures": constant_rate(6.5, "Assumed."), "futures": 400, "seed": 7}
    return evaluate(EvaluationQuestion(PLAN, REQUEST, CLUSTER, **(fields | changes))).answer


def outcomes(**scores: float) -> list[StageOutcome]:
    return [StageOutcome(stage, StageState.PASSED, "", (), score) for stage, score in scores.items()]


def test_with_too_few_runs_the_value_is_the_mean_and_says_so() -> None:
    few = [scored(0.9, True)] * (MIN_OUTCOMES - 1) + [scored(0.9, None)] * 50
    fused, plain = fuse(outcomes(proof=1.0, twin=0.5), past=few), fuse(outcomes(proof=1.0, twin=0.5))
    assert (fused.value, fused.base) == (plain.value, 0.0)
    assert fused.source.startswith(f"Not calibrated: {MIN_OUTCOMES - 1} of {MIN_OUTCOMES} finished runs with a deadline")


def test_with_enough_runs_the_value_is_how_often_such_runs_ended_in_time() -> None:
    past = [scored(0.9, True)] * 60 + [scored(0.6, False)] * 60
    high, low = (fuse(outcomes(proof=1.0, twin=twin), past=past) for twin in (0.9, 0.6))
    assert high.value is not None
    assert low.value is not None
    assert high.value > 0.9
    assert low.value < 0.1
    assert '"ended in time", calibrated on 120 finished runs, of which 60 did' in high.source


def test_of_a_job_without_a_deadline_the_value_is_no_chance_to_end_in_time() -> None:
    past = tuple([scored(0.9, True)] * 60 + [scored(0.6, False)] * 60)
    without, within = evaluated(past=past), evaluated(past=past, deadline_seconds=1e9)
    assert without.value_source.startswith("The job has no deadline: V is the weighted mean of the scores.")
    assert without.value == pytest.approx(sum((stage.weight or 0.0) * (stage.score or 0.0) for stage in without.stages))
    assert '"ended in time", calibrated on 120 finished runs' in within.value_source


def test_shares_and_base_rate_sum_to_the_calibrated_value_to_the_last_bit() -> None:
    chance = np.random.default_rng(3)
    past = [scored(float(chance.random()), bool(chance.random() < 0.7)) for _ in range(80)]
    fused = fuse(outcomes(proof=1.0, twin=0.4, forecast=0.8), past=past)
    assert math.fsum([fused.base, *(stage.share or 0.0 for stage in fused.stages)]) == fused.value
    assert fused.base == pytest.approx((sum(bool(run.ended_in_time) for run in past) + 1) / 82)


def test_a_heavy_weight_earns_no_share_where_the_stage_does_not_tell_the_outcome() -> None:
    past = [scored(0.9, True)] * 60 + [scored(0.3, False)] * 60
    proof, twin = fuse(outcomes(proof=1.0, twin=0.9), past=past).stages
    assert proof.weight is not None
    assert twin.weight is not None
    assert proof.weight > twin.weight
    assert abs(proof.share or 0.0) < abs(twin.share or 0.0)


def test_where_no_stage_tells_the_outcome_the_value_is_the_base_rate() -> None:
    past = [scored(0.9, number % 4 > 0) for number in range(40)]
    fused = fuse([*outcomes(proof=1.0), StageOutcome("twin", StageState.PASSED, "", (), None)], past=past)
    assert fused.value == fused.base == pytest.approx(31 / 42)
    assert fused.source.endswith("Left out: twin.")


def test_a_stage_that_says_no_leaves_no_value_whatever_runs_say() -> None:
    past = [scored(0.9, True)] * 100
    refused = [StageOutcome("proof", StageState.FAILED, "", (), 0.0), *outcomes(twin=1.0)]
    assert fuse(refused, past=past).value == 0.0


def test_forecasts_that_missed_widen_the_next_one_and_are_left_out_of_the_score() -> None:
    plain, learned = evaluated(), evaluated(past=missing(113, 3.0))
    assert plain.epoch_seconds is not None
    assert learned.epoch_seconds is not None
    wider = math.log(learned.epoch_seconds.high / learned.epoch_seconds.low) / math.log(plain.epoch_seconds.high / plain.epoch_seconds.low)
    (by,) = learned.recalibrations
    assert wider == pytest.approx(by.widening)
    assert by.widening == pytest.approx(3.0, rel=0.35)
    forecast = next(stage for stage in learned.stages if stage.stage == "forecast")
    assert (forecast.score, forecast.share) == (None, None)
    assert forecast.findings[0].startswith("Left out of the score. Past runs say of forecast: its intervals are too narrow")
    assert learned.value != plain.value


def test_forecasts_that_held_keep_their_score_and_their_width() -> None:
    learned = evaluated(past=missing(56, 1.0))
    forecast = next(stage for stage in learned.stages if stage.stage == "forecast")
    assert forecast.score is not None
    assert "56 within the 68 % interval" in forecast.findings[0]
    assert all(by.widening < 1.5 for by in learned.recalibrations)


def _row(number: int) -> ForecastRow:
    seconds = PLAN.predicted.epoch_seconds * 2.0 * 1.02 ** (number % 5)
    return ForecastRow(f"r{number}", "GCN", "H100", 1000, 5000, 8, 16, 2, PLAN.ranks, 1, seconds, PLAN.predicted.epoch_seconds)


def test_a_run_that_is_unlike_all_others_is_not_moved_by_their_errors_and_its_interval_says_something() -> None:
    runs = [msgspec.structs.replace(_row(number), vertices=10**6, measured_seconds=1.5 ** (number % 5)) for number in range(42)]
    past = [msgspec.structs.replace(each, predicted=msgspec.structs.replace(each.predicted, forecast_runs=42)) for each in missing(42, 3.0)]
    learned = evaluated(runs=tuple(map(forecast_run, runs)), past=tuple(past))
    assert learned.epoch_seconds is not None
    assert learned.recalibrations == ()
    assert learned.epoch_seconds.high <= MAX_FACTOR * learned.epoch_seconds.middle
    assert learned.epoch_seconds.low >= learned.epoch_seconds.middle / MAX_FACTOR
    forecast = next(stage for stage in learned.stages if stage.stage == "forecast")
    assert "The run is unlike all finished runs: its interval is wider." in forecast.findings


def test_the_operators_evaluation_learns_from_all_lessons() -> None:
    nodes = tuple(NodeLife(f"n{number}", "H100", 0.0) for number in range(100))
    lessons = Lessons(tuple(map(_row, range(30))), missing(30, 1.0), nodes, 300.0 * DAY_SECONDS)
    plain = EvaluationAsk(PLAN, REQUEST, part_of(CLUSTER, PLAN), 200)
    taught = msgspec.structs.replace(plain, lessons=lessons)
    before, after = answer(plain), answer(QUESTIONS.decode(msgspec.json.encode(taught)))
    assert (before.forecast_runs, after.forecast_runs) == (0, 30)
    assert before.epoch_seconds is not None
    assert after.epoch_seconds is not None
    assert after.epoch_seconds.middle > 1.5 * before.epoch_seconds.middle
    assert before.value_source.startswith("The job has no deadline")


@pytest.mark.parametrize(
    ("policy", "hours"),
    [
        (EvaluationPolicy(), 9),
        (EvaluationPolicy(failures_per_thousand_node_days=2.0), 9),
        (EvaluationPolicy(repair_seconds=3600), 1),
        (EvaluationPolicy(failures_per_thousand_node_days=2.0, repair_seconds=3600), 1),
    ],
)
def test_the_repair_time_that_nodes_showed_counts_unless_the_policy_states_one(policy: EvaluationPolicy, hours: int) -> None:
    nodes = tuple(
        life
        for number in range(6)
        for life in (NodeLife(f"n{number}", "H100", 0.0, 1e5, "NotReady"), NodeLife(f"n{number}", "H100", 1e5 + 9 * 3600.0))
    )
    lessons = Lessons(nodes=nodes, now=300.0 * DAY_SECONDS)
    ask = EvaluationAsk(PLAN, REQUEST, part_of(CLUSTER, PLAN), 200, PolicySpec(evaluation=policy), lessons)
    assert failures_taken(ask).repair_seconds == hours * 3600.0


def test_a_question_takes_only_the_nodes_of_its_products_and_a_bounded_history() -> None:
    nodes = (NodeLife("a", "H100", 1.0), NodeLife("b", "T4", 1.0))
    about = Lessons(tuple(map(_row, range(900))), missing(900, 1.0), nodes, 5.0).about({"H100"}, 9.0)
    assert (len(about.runs), len(about.past), about.nodes, about.now) == (400, 400, nodes[:1], 9.0)
    assert about.runs[-1].run == "r899"
