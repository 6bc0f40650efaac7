"""The stage `forecast`: seconds of an epoch with their interval, from enough finished runs, else from the plan's own range."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Final, NamedTuple

from hyperscale.evaluate.calibration.calibration_report import CalibrationReport
from hyperscale.evaluate.calibration.stated_figure import recalibrated
from hyperscale.evaluate.forecast.epoch_forecast import Forecaster, learn_forecaster
from hyperscale.evaluate.forecast.forecast_types import ForecastQuestion, RunFeatures
from hyperscale.evaluate.forecast.run_evidence import evidence, like_runs
from hyperscale.evaluate.forecast.run_facts import facts_of, judged
from hyperscale.evaluate.forecast.run_graph import RunGraph
from hyperscale.evaluate.pipeline.evaluation_question import EvaluationQuestion
from hyperscale.evaluate.pipeline.stage_trust import recalibration_of, saying_recalibrated, with_trust
from hyperscale.model.api.datasets import dataset_size
from hyperscale.model.evaluation import Interval, LikeRun, Recalibration, StageOutcome, StageState
from hyperscale.util.rfc3339 import duration_text

FORECAST: Final = "forecast"
LEAST_RUNS: Final = 12
"""Finished runs that an interval of their own errors needs: with 8 its bounds held 82 of 100 runs in place of 95."""
SIGMAS_95: Final = 1.959964
WIDE: Final = math.log(2.0)
"""Half width of ln(seconds) above which a person should look: the epoch may take twice as long."""


MAX_FACTOR: Final = 20.0
"""Between the middle of a forecast and its bounds. Beyond it an interval says only that nothing is known, and the twin plays eons."""


class EpochSeconds(NamedTuple):
    """Of one epoch."""

    middle: float
    low: float
    """95 % bounds."""
    high: float
    sources: tuple[str, ...]
    runs: int = 0
    """Finished runs that it rests on; 0: the plan's own range."""
    unlike: bool = False
    """Whether it is unlike all of them: then no error of theirs moves it."""
    recalibration: Recalibration | None = None
    """Applied to these bounds."""
    neighbours: tuple[LikeRun, ...] = ()
    """Finished runs most like it."""

    @property
    def interval(self) -> Interval:
        """The seconds alone."""
        return Interval(self.middle, self.low, self.high)

    def recalibrated(self, by: Recalibration | None) -> EpochSeconds:
        """The seconds as finished runs teach; those of a run that is unlike them stay as its distance made them."""
        if by is None or self.unlike:
            return self
        after = recalibrated(self.interval, by)
        return self._replace(middle=after.middle, low=after.low, high=after.high, recalibration=by)

    def bounded(self) -> EpochSeconds:
        """The seconds with bounds at most `MAX_FACTOR` from the middle."""
        return self._replace(low=max(self.low, self.middle / MAX_FACTOR), high=min(self.high, self.middle * MAX_FACTOR))

    def at(self, part: float) -> float:
        """Seconds that this part of all runs stays below, 0 < part < 1; each side has a normal ln(seconds) of its own."""
        sigmas = NormalDist().inv_cdf(part)
        bound = self.high if sigmas > 0.0 else self.low
        return self.middle * math.exp(abs(sigmas) / SIGMAS_95 * math.log(bound / self.middle))


def forecast_epoch(question: EvaluationQuestion, report: CalibrationReport | None = None) -> tuple[StageOutcome, EpochSeconds]:
    """Return the outcome and the seconds that later stages build on.

    report: on the question's past runs; None applies nothing of what they teach about earlier forecasts.
    """
    stated = _from_runs(question) if len(question.runs) >= LEAST_RUNS else _from_plan(question)
    by = None if report is None else recalibration_of(question.past, report, FORECAST, stated.runs > 0)
    epoch = stated.recalibrated(by).bounded()
    half = math.log(epoch.high / epoch.low) / 2.0
    epochs = question.request.job.model.epochs
    sentence = (
        f"an epoch takes {duration_text(epoch.middle)} ({duration_text(epoch.low)} to {duration_text(epoch.high)} in 95 of 100 runs), "
        f"{epochs} epochs {duration_text(epochs * epoch.middle)}"
    )
    state = StageState.WARNED if half > WIDE else StageState.PASSED
    outcome = StageOutcome(FORECAST, state, sentence, epoch.sources, min(1.0, math.exp(-half)))
    outcome = saying_recalibrated(outcome, epoch.recalibration, stated.interval)
    return (outcome if report is None else with_trust(outcome, report)), epoch


def _from_plan(question: EvaluationQuestion) -> EpochSeconds:
    """The cost model's own range: how far each of its figures is measured."""
    plan = question.plan
    predicted = plan.predicted
    low, high = predicted.low_seconds, predicted.high_seconds
    sources = [*plan.fallbacks]
    if low is None or high is None:
        low, high = predicted.epoch_seconds / 3.0, predicted.epoch_seconds * 3.0
        sources.append("The plan states no range: a third to three times its prediction is taken.")
    if not low <= predicted.epoch_seconds <= high:
        sources.append(f"The plan states {low:g} to {high:g} s around {predicted.epoch_seconds:g} s: the range is widened to hold it.")
        low, high = min(low, high, predicted.epoch_seconds), max(low, high, predicted.epoch_seconds)
    if predicted.calibration is None:
        sources.append(f"No finished run corrects it: give --history with at least {LEAST_RUNS} runs.")
    epoch = EpochSeconds(predicted.epoch_seconds, low, high, tuple(sources))
    return _with_evidence(question, epoch, None) if question.facts else epoch


def _from_runs(question: EvaluationQuestion) -> EpochSeconds:
    learned = learn_forecaster(question.runs)
    answer = learned.ask(question_of(question))
    epoch = EpochSeconds(answer.seconds, answer.low_95, answer.high_95, answer.sources, len(question.runs), answer.like is None)
    return _with_evidence(question, epoch, learned)


def _with_evidence(question: EvaluationQuestion, epoch: EpochSeconds, learned: Forecaster | None) -> EpochSeconds:
    """What the graph of finished runs says of the forecast, behind what it rests on."""
    asked = question_of(question)
    past = question.facts or tuple(facts_of(run) for run in question.runs)
    graph = RunGraph(past if learned is None else judged(past, learned))
    planned = facts_of(asked, sorted({worker.node for worker in question.plan.workers}))
    near = None if learned is None else learned.index.nearest(asked)[0]
    differing = () if learned is None or near is None or near.index is None else learned.index.differing(asked, near.index)
    sentences = evidence(graph, planned, unlike=None if near is None else near.unlike, differing=differing)
    return epoch._replace(sources=(*epoch.sources, *sentences), neighbours=like_runs(graph, planned))


def question_of(question: EvaluationQuestion) -> ForecastQuestion:
    """The plan in the words of the forecast; figures that the plan does not hold are unknown."""
    job, plan = question.request.job, question.plan
    size, model = dataset_size(job), job.model
    products = "+".join(sorted({worker.product for worker in plan.workers if worker.product}))
    features = RunFeatures(
        architecture=model.architecture.value,
        gpu_product=products,
        vertices=float(size.vertices),
        edges=float(size.edges),
        feature_size=float(size.feature_size),
        hidden_size=float(model.hidden_size),
        layers=float(model.layers),
        batch_size=math.nan if model.batch_size is None else float(model.batch_size),
    )
    correction = plan.predicted.calibration
    physical = plan.predicted.epoch_seconds / (correction.factor if correction is not None else 1.0)
    return ForecastQuestion(features, plan.ranks, len({worker.node for worker in plan.workers}), physical)
