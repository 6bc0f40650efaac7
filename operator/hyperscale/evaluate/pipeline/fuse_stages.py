"""What the stages make together: AHP weights, the value V, each stage's Shapley share in it, and the HyperScore.

With enough finished runs V is the chance to end in time; until then, and without a deadline, it is the weighted mean of the stages' scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from hyperscale.evaluate.calibration.past_run import PastRun
from hyperscale.evaluate.pipeline.calibrated_value import calibrated_subsets
from hyperscale.evaluate.pipeline.evaluation_question import BUILT_IN
from hyperscale.evaluate.score.hyperscore import HyperScoreSettings, hyperscore
from hyperscale.evaluate.score.shapley import shapley
from hyperscale.model.api.evaluation_policy import EvaluationPolicy, EvaluationStage, StageComparison, comparison_matrix
from hyperscale.model.evaluation import StageOutcome, StageState
from hyperscale.util.ahp import weights


class FusedStages(NamedTuple):
    """The stages with their weights and shares, and the score."""

    stages: tuple[StageOutcome, ...]
    value: float | None
    """None where no stage has a score."""
    hyper_score: float | None
    base: float = 0.0
    """Value without any stage; it and the shares sum to the value."""
    source: str = ""
    """What the value is, in a sentence."""


def fuse(
    outcomes: Sequence[StageOutcome], policy: EvaluationPolicy = BUILT_IN, past: Sequence[PastRun] = (), has_deadline: bool = True
) -> FusedStages:
    """Return the stages with weight and share; one without a score keeps neither and is left out of the value.

    past: finished runs, oldest first, that the value is calibrated by where enough of them had a deadline.
    has_deadline: of the job itself; without one nothing can end in time, and the value is the mean.
    Raises InconsistentComparisonsError for comparisons of the policy that contradict each other.
    """
    scored = _scored(outcomes)
    if not scored:
        return FusedStages(tuple(outcomes), None, None)
    names = [outcome.stage for outcome in scored]
    weight_of = stage_weights(names, policy.comparisons)
    score_of = {outcome.stage: outcome.score or 0.0 for outcome in scored}
    no = frozenset(outcome.stage for outcome in scored if outcome.state is StageState.FAILED)
    subset, source = _subsets(names, weight_of, score_of, past if has_deadline else None)
    shares = shapley(names, lambda members: 0.0 if members & no else subset(members))
    share_of = dict(zip(shares.names, shares.shares, strict=True))
    stages = tuple(
        replace(outcome, weight=weight_of[outcome.stage], share=share_of[outcome.stage]) if outcome.stage in share_of else outcome
        for outcome in outcomes
    )
    value = min(1.0, max(0.0, shares.value))
    score = policy.hyper_score
    points = hyperscore(value, HyperScoreSettings(score.beta, score.gamma, score.kappa))
    return FusedStages(stages, value, points, shares.empty, source + _left_out(outcomes))


def stage_weights(names: Sequence[str], comparisons: Sequence[StageComparison]) -> dict[str, float]:
    """Return the weights of these stages, of sum 1, in the proportions that they have among all stages."""
    everything = tuple(stage.value for stage in EvaluationStage)
    of_all = {
        name.lower(): weight for name, weight in zip(everything, weights(everything, comparison_matrix(comparisons)).weights, strict=True)
    }
    total = math.fsum(of_all[name] for name in names)
    return {name: of_all[name] / total for name in names}


def _scored(outcomes: Sequence[StageOutcome]) -> list[StageOutcome]:
    return [outcome for outcome in outcomes if outcome.score is not None]


def _left_out(outcomes: Sequence[StageOutcome]) -> str:
    """A sentence on stages without a score; empty where each has one."""
    missing = ", ".join(outcome.stage for outcome in outcomes if outcome.score is None)
    return f" Left out: {missing}." if missing else ""


def _subsets(
    names: Sequence[str], weight_of: Mapping[str, float], score_of: Mapping[str, float], past: Sequence[PastRun] | None
) -> tuple[Callable[[frozenset[str]], float], str]:
    """The value of any subset of stages, and what it is: calibrated by finished runs, else the weighted mean.

    past: None without a deadline.
    """
    mean = partial(_mean, weight_of=weight_of, score_of=score_of)
    if past is None:
        return mean, "The job has no deadline: V is the weighted mean of the scores."
    calibrated, source = calibrated_subsets(names, weight_of, score_of, past)
    return calibrated if calibrated is not None else mean, source


def _mean(members: frozenset[str], weight_of: Mapping[str, float], score_of: Mapping[str, float]) -> float:
    """The weighted mean of some stages, as if there were no others; 0 for none of them."""
    if not members:
        return 0.0
    chosen = sorted(members)
    return sum(weight_of[name] * score_of[name] for name in chosen) / sum(weight_of[name] for name in chosen)
