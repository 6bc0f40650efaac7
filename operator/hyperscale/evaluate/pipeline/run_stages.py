"""Every stage in turn, and what they make together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from hyperscale.evaluate.calibration.calibration_report import report_of
from hyperscale.evaluate.calibration.stated_figure import recalibrated
from hyperscale.evaluate.impact.energy import energy
from hyperscale.evaluate.impact.queue_effect import QueueEffect, queue_effect
from hyperscale.evaluate.pipeline.evaluation_question import EvaluationQuestion
from hyperscale.evaluate.pipeline.forecast_stage import FORECAST, EpochSeconds, forecast_epoch
from hyperscale.evaluate.pipeline.fuse_stages import fuse
from hyperscale.evaluate.pipeline.preflight_stage import PREFLIGHT, judge_preflight
from hyperscale.evaluate.pipeline.proof_stage import PROOF, proof
from hyperscale.evaluate.pipeline.stage_trust import recalibration_of, saying_recalibrated, with_trust
from hyperscale.evaluate.pipeline.twin_stage import TWIN, TwinAnswer, play_twin
from hyperscale.evaluate.twin.twin_types import Outlook
from hyperscale.model.evaluation import Evaluation, Interval, Recalibration, StageOutcome, StageState

STAGES: Final = (PROOF, FORECAST, TWIN)
"""In the order in which they are asked. The preflight comes after them, and only where it is named: it runs the author's code."""
MAX_SENTENCE: Final = 1024
"""Characters."""


class Evaluated(NamedTuple):
    """The evaluation, and what a rewrite of the job builds on."""

    answer: Evaluation
    outlook: Outlook | None
    """None where the twin was not asked."""


def evaluate(question: EvaluationQuestion) -> Evaluated:
    """Return what every asked stage found; the same question gives the same bytes."""
    asked = question.stages or frozenset(STAGES)
    report = question.report if question.report is not None else report_of(question.past)
    forecast, epoch = forecast_epoch(question, report)
    proved = [proof(question)] if PROOF in asked else []
    forecasts = [forecast] if FORECAST in asked else []
    tried = [judge_preflight(question.preflight)] if PREFLIGHT in asked else []
    if TWIN not in asked:
        return Evaluated(replace(_evaluation(question, [*proved, *forecasts, *tried], epoch), neighbours=epoch.neighbours), None)
    try:
        answer = play_twin(question, epoch)
    except ValueError as error:
        if not any(outcome.state is StageState.FAILED for outcome in proved):
            raise
        skipped = StageOutcome(TWIN, StageState.SKIPPED, f"not played, as the plan breaks its conditions: {error}"[:MAX_SENTENCE])
        return Evaluated(_evaluation(question, [*proved, *forecasts, skipped, *tried], epoch), None)
    by = recalibration_of(question.past, report, TWIN, epoch.runs > 0)
    outcome = answer.outcome if answer.end is None else saying_recalibrated(answer.outcome, by, answer.end)
    whole = _evaluation(question, [*proved, *forecasts, with_trust(outcome, report), *tried], epoch, by)
    return Evaluated(_with_twin(whole, question, epoch, answer, by), answer.outlook)


def _with_twin(
    whole: Evaluation, question: EvaluationQuestion, epoch: EpochSeconds, answer: TwinAnswer, by: Recalibration | None
) -> Evaluation:
    """The evaluation with what follows from the futures."""
    end = answer.end if answer.end is None or by is None else recalibrated(answer.end, by)
    advised = question.request.job.checkpoint is not None and answer.outlook.expected_end_seconds is not None
    effect = _queue_effect(question, epoch, answer.curve)
    kilowatt_hours = None if end is None else energy(question.plan, end, question.policy, answer.ends_seconds, answer.computing_seconds)
    return replace(
        whole,
        end_seconds=end,
        ends_by_deadline=answer.by_deadline,
        cost=_cost(question, end),
        energy_kilowatt_hours=kilowatt_hours,
        wait_seconds=None if effect is None else effect.wait,
        delay_of_others_seconds=None if effect is None or not effect.others else effect.delay,
        checkpoint_every_epochs=answer.outlook.best_interval.epochs if advised else None,
        end_curve=answer.curve,
        time_parts=answer.outlook.time_parts,
        neighbours=epoch.neighbours,
    )


def _evaluation(
    question: EvaluationQuestion, outcomes: Sequence[StageOutcome], epoch: EpochSeconds, twin: Recalibration | None = None
) -> Evaluation:
    """What follows from the outcomes; twin: applied to its interval."""
    fused = fuse(outcomes, question.policy.evaluation, question.past, question.deadline_seconds is not None)
    return Evaluation(
        job=question.request.job_key,
        plan_id=question.plan.plan_id,
        stages=fused.stages,
        epoch_seconds=epoch.interval,
        forecast_runs=epoch.runs,
        recalibrations=tuple(each for each in (epoch.recalibration, twin) if each is not None),
        deadline_seconds=question.deadline_seconds,
        top_risk=top_risk(outcomes),
        value=fused.value,
        base_value=fused.base or None,
        value_source=fused.source,
        hyper_score=fused.hyper_score,
        fits=() if question.preflight is None else question.preflight.fits,
    )


def top_risk(outcomes: Sequence[StageOutcome]) -> str:
    """The sentence of the worst stage: one that failed, else the one with the least score among those with a warning."""
    failed = [outcome for outcome in outcomes if outcome.state is StageState.FAILED]
    warned = [outcome for outcome in outcomes if outcome.state is StageState.WARNED]
    worst = min(failed or warned, key=lambda outcome: outcome.score if outcome.score is not None else 1.0, default=None)
    return "" if worst is None else f"{worst.stage}: {worst.sentence}"


def _queue_effect(question: EvaluationQuestion, epoch: EpochSeconds, curve: Sequence[tuple[float, float]]) -> QueueEffect | None:
    """curve: of end times; without one the epochs alone count."""
    if question.queue is None:
        return None
    gpus = sum(worker.gpus for worker in question.plan.workers)
    epochs = question.request.job.model.epochs

    def run_seconds(part: float) -> float:
        return next((seconds for seconds, ended in curve if ended >= part), curve[-1][0]) if curve else epochs * epoch.at(part)

    return queue_effect(question.queue, gpus, run_seconds, question.policy.queue, question.seed)


def _cost(question: EvaluationQuestion, end: Interval | None) -> Interval | None:
    """By the wall clock: nodes that wait for a repair are paid too. The price of a second follows from the plan's cost of an epoch."""
    predicted = question.plan.predicted
    if predicted.cost_per_epoch is None or predicted.epoch_seconds <= 0.0 or end is None:
        return None
    price = predicted.cost_per_epoch / predicted.epoch_seconds
    if not 0.0 <= price * end.high < math.inf:
        return None
    return Interval(price * end.middle, price * end.low, price * end.high)
