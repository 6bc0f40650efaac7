"""The forecast of one epoch: the physical model, what finished runs teach, and how far both may be trusted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from hyperscale.evaluate.forecast.conformal_interval import NORMAL, SpreadModel, learn_spread, quantile_pairs
from hyperscale.evaluate.forecast.distance_widening import Widening, learn_widening
from hyperscale.evaluate.forecast.disturbed_runs import MIN_RUNS, PASSES, find_disturbance, fold_errors, is_confirmed
from hyperscale.evaluate.forecast.forecast_types import EpochForecast, ForecastQuestion, ForecastRun, check_question, check_run
from hyperscale.evaluate.forecast.novelty import Neighbour, NoveltyIndex
from hyperscale.evaluate.forecast.residual_kernel import rows_of
from hyperscale.evaluate.forecast.residual_process import LearnedResiduals, Variances, learn_residuals
from hyperscale.model.graph import FloatArray

MAX_RUNS: Final = 800
"""Finished runs that one forecast learns from: the newest. A question costs their number squared."""

UNTAUGHT_SPREAD: Final = 0.5
"""Standard deviation of ln(measured / physical) without any run: the planner's range of an unsure architecture of planner/choice."""

MAX_UNLIKE_SPREAD: Final = 1.0
"""The same at most, of a run farther from all others than they teach: a 95 % interval of 7 times either way.

After 12 to 60 runs of generated clusters it held 92 to 97 % of unlike runs (benchmarks/novelty.py); without a limit it was up to
thousands of times wide.
"""


@dataclass(frozen=True)
class Forecaster:
    """All that finished runs teach, ready for many questions."""

    learned: LearnedResiduals
    index: NoveltyIndex
    spread: SpreadModel
    halves: tuple[tuple[float, float], ...]
    """By level, low and high end in units of the spread."""
    middle: float
    """Median error in units of the spread; 0 without disturbed runs."""
    widening: Widening
    deviations: FloatArray
    """(n,) spread of ln(seconds) of each finished run, forecast by the others."""

    def ask(self, question: ForecastQuestion, *, widened: bool = True) -> EpochForecast:
        """Return the forecast of `question`. Raises ValueError for bad figures.

        widened: False gives an unlike run an interval no wider than that of the nearest finished run.
        """
        return self.ask_all([question], widened=widened)[0]

    def ask_all(self, questions: Sequence[ForecastQuestion], *, widened: bool = True) -> list[EpochForecast]:
        """Return the forecast of each question, as `ask` does."""
        for question in questions:
            check_question(question)
        means, variances = self.learned.predict(questions)
        deviations = np.sqrt(variances) * self.spread.spread(rows_of(questions, self.learned.standard).figures)
        moments = zip(questions, means.tolist(), deviations.tolist(), strict=True)
        return [self._forecast(question, mean, deviation, widened) for question, mean, deviation in moments]

    def _forecast(self, question: ForecastQuestion, mean: float, deviation: float, widened: bool) -> EpochForecast:
        """mean, deviation: of ln(seconds / physical)."""
        near = self.index.nearest(question)[0]
        usual, ends, widening = deviation, list(self.halves), 1.0
        if near.unlike and near.index is not None:
            usual = min(deviation, float(self.deviations[near.index]))
            if near.distance > self.widening.reach:
                deviation = max(deviation, UNTAUGHT_SPREAD)
            wide = [self._wide(near, level, pair, deviation) for level, pair in enumerate(self.halves)]
            widening = (wide[-1][1] - wide[-1][0]) * deviation / ((ends[-1][1] - ends[-1][0]) * usual)
            ends = wide if widened else ends
        spread = deviation if widened else usual
        low_68, high_68, low_95, high_95 = (question.physical_seconds * math.exp(mean + end * spread) for pair in ends for end in pair)
        like = None if near.unlike or near.index is None else self.learned.runs[near.index].run
        seconds = min(max(question.physical_seconds * math.exp(mean + self.middle * usual), low_68), high_68)
        sources = self._sources(question, like)
        return EpochForecast(seconds, low_68, high_68, low_95, high_95, like, near.distance, sources, widening)

    def _wide(self, near: Neighbour, level: int, pair: tuple[float, float], deviation: float) -> tuple[float, float]:
        half = self.widening.half(near.distance, level, max(abs(pair[0]), abs(pair[1])))
        if near.distance > self.widening.reach:
            half = min(max(half, NORMAL[level]), NORMAL[level] * MAX_UNLIKE_SPREAD / deviation)
        return -half, half

    def _sources(self, question: ForecastQuestion, like: str | None) -> tuple[str, ...]:
        sentences = [f"The physical model predicts {question.physical_seconds:.6g} s; {len(self.learned.runs)} finished runs correct it."]
        disturbance = self.learned.disturbance
        if disturbance.share:
            slower, share = math.expm1(disturbance.shift), disturbance.share
            sentences.append(f"Of the finished runs, {share:.0%} took {slower:.0%} longer than their like; no figure says why.")
        if like is None:
            sentences.append("The run is unlike all finished runs: its interval is wider.")
        return tuple(sentences)


def learn_forecaster(runs: Sequence[ForecastRun], seed: int = 0, variances: Variances | None = None) -> Forecaster:
    """Return what the newest `MAX_RUNS` of finished `runs`, oldest first, teach. ValueError without runs, or for bad figures."""
    kept = list(runs)[-MAX_RUNS:]
    for run in kept:
        check_run(run)
    learned = _learned(kept, seed, variances)
    index, errors = NoveltyIndex(kept), _errors(learned, seed)
    spread = learn_spread(learned.rows.figures, errors)
    standardised = errors / spread.spread(learned.rows.figures)
    middle = float(np.median(standardised)) if learned.disturbance.share else 0.0
    deviations = np.sqrt(learned.left_out()[1]) * spread.spread(learned.rows.figures)
    return Forecaster(learned, index, spread, quantile_pairs(standardised), middle, learn_widening(learned, index), deviations)


def _learned(runs: list[ForecastRun], seed: int, variances: Variances | None) -> LearnedResiduals:
    """The process, fitted again where something unseen slowed a part of the runs, or they repeat unevenly."""
    one_kind = learn_residuals(runs, seed, variances)
    learned = _told_apart(one_kind, runs, seed, variances) if len(runs) >= MIN_RUNS else one_kind
    uneven = learn_spread(learned.rows.figures, _errors(learned, seed))
    if uneven.slopes.any():
        # Runs that repeat badly must count less, or they bend what the others teach.
        learned = learn_residuals(runs, seed, replace(learned.variances, spread=uneven), learned.disturbance)
    return learned


def _told_apart(one_kind: LearnedResiduals, runs: list[ForecastRun], seed: int, variances: Variances | None) -> LearnedResiduals:
    """The process without what disturbed runs lost; as it was where the two kinds do not hold for runs that did not show them."""
    learned = one_kind
    for _ in range(PASSES):
        mean, variance = learned.left_out()
        disturbance = find_disturbance(learned.residuals - mean, variance - learned.variances.noise(learned.rows))
        if disturbance is None:
            break
        learned = learn_residuals(runs, seed, variances, disturbance)
    if learned is one_kind:
        return one_kind
    noise = learned.variances.noise(learned.rows)
    errors, apart = fold_errors(learned.residuals, learned.prior, noise, seed)
    return learned if is_confirmed(errors, np.maximum(apart - noise, 0.0)) else one_kind


def _errors(learned: LearnedResiduals, seed: int) -> FloatArray:
    """(n,) standardised errors of each run by all others."""
    if learned.disturbance.share:
        apart, variances = fold_errors(learned.residuals, learned.prior, learned.variances.noise(learned.rows), seed)
        return apart / np.sqrt(variances)
    mean, variance = learned.left_out()
    errors: FloatArray = (learned.residuals - mean) / np.sqrt(variance)
    return errors


def forecast(runs: Sequence[ForecastRun], question: ForecastQuestion, seed: int = 0) -> EpochForecast:
    """Return the epoch seconds of `question` with 68 and 95 % intervals, from finished `runs`, oldest first.

    Without runs it is the physical model with the planner's widest range. Raises ValueError, naming the run and the figure, for
    figures that cannot be.
    """
    if runs:
        return learn_forecaster(runs, seed).ask(question)
    check_question(question)
    middle = question.physical_seconds
    near, far = (math.exp(half * UNTAUGHT_SPREAD) for half in NORMAL)
    sentence = f"The physical model predicts {middle:.6g} s; no finished run corrects it."
    return EpochForecast(middle, middle / near, middle * near, middle / far, middle * far, None, math.inf, (sentence,))
