"""The value as a probability that the job ends in time, learned from finished runs with a deadline."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from hyperscale.evaluate.calibration.past_run import PastRun
from hyperscale.evaluate.score.outcome_calibration import judge_held_out, subset_value
from hyperscale.model.graph import FloatArray

OUTCOME: Final = "ended in time"
MIN_OUTCOMES: Final = 12
"""Finished runs with a deadline below which the value stays the mean of the scores: the prior would speak, not the runs."""


class OutcomeHistory(NamedTuple):
    """Finished runs with a deadline."""

    scores: FloatArray
    """(n, k) of the stages as they were before each run; NaN where a stage had none."""
    outcomes: tuple[bool, ...]
    """(n,) whether each ended in time."""


def outcome_history(names: Sequence[str], past: Sequence[PastRun]) -> OutcomeHistory:
    """Return the runs with a deadline for which one of these stages had a score, in their order."""
    rows, outcomes = [], []
    for run in past:
        score_of = {stage.stage: stage.score for stage in run.predicted.stages}
        row = [math.nan if (score := score_of.get(name)) is None else score for name in names]
        if run.ended_in_time is not None and not all(map(math.isnan, row)):
            rows.append(row)
            outcomes.append(run.ended_in_time)
    return OutcomeHistory(np.array(rows, dtype=np.float64).reshape(len(rows), len(names)), tuple(outcomes))


def calibrated_subsets(
    names: Sequence[str], weight_of: Mapping[str, float], score_of: Mapping[str, float], past: Sequence[PastRun]
) -> tuple[Callable[[frozenset[str]], float] | None, str]:
    """Return the value of any subset of stages, calibrated again on it, and a sentence; None and the reason where runs are too few.

    Of no stage it is the base rate of the runs. A stage whose score was the same in all runs, as of a proof that never fails, tells
    nothing of the outcome and adds nothing.
    """
    history = outcome_history(names, past)
    count = len(history.outcomes)
    if count < MIN_OUTCOMES:
        return None, f"Not calibrated: {count} of {MIN_OUTCOMES} finished runs with a deadline; V is the weighted mean of the scores."
    telling = [at for at in range(len(names)) if len(set(_given(history.scores[:, at]))) > 1]
    chosen, scores = [names[at] for at in telling], history.scores[:, telling]
    if not chosen:
        base = (sum(history.outcomes) + 1.0) / (count + 2.0)
        return lambda members: base, f'V is how often {count} finished runs "{OUTCOME}": no stage had scores that differ among them.'
    value = subset_value(OUTCOME, chosen, (scores, history.outcomes), weight_of, score_of)
    judged = judge_held_out(OUTCOME, scores, history.outcomes, [weight_of[name] for name in chosen])
    better = "" if judged.skill > 0.0 else "; the stages tell no more than the base rate"
    return lambda members: value(members & frozenset(chosen)), (
        f'V is the chance of "{OUTCOME}", calibrated on {count} finished runs, of which {sum(history.outcomes)} did; '
        f"Brier score {judged.brier:.3f} on runs held out, {judged.base_brier:.3f} for the base rate{better}."
    )


def _given(column: FloatArray) -> list[float]:
    """The scores of a stage without the runs that had none."""
    return [score for score in column.tolist() if not math.isnan(score)]
