"""What the stages make together: AHP weights, the value V, each stage's Shapley share in it, and the HyperScore.

With enough finished runs V is the chance to end in time; until then it is the weighted mean of the stages' scores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from msgspec.structs import replace

from hyperscale.evaluate.calibration.past_run import PastRun
from hyperscale.evaluate.pipeline.calibrated_value import calibrated_subsets
from hyperscale.evaluate.score.ahp import weights
from hyperscale.evaluate.score.hyperscore import hyperscore
from hyperscale.evaluate.score.shapley import shapley
from hyperscale.model.evaluation import StageOutcome, StageState

IMPORTANCE: Final = {"proof": 6.0, "twin": 3.0, "forecast": 2.0, "preflight": 3.0, "novelty": 1.0}
"""Entry (i, j) of the default comparison matrix is the ratio of two of these. A plan that cannot run is worth nothing. Whether a job ends
in time matters more than how well its epoch is known."""


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


def fuse(outcomes: Sequence[StageOutcome], past: Sequence[PastRun] = ()) -> FusedStages:
    """Return the stages with weight and share; one without a score keeps neither and is left out of the value.

    past: finished runs, oldest first, that the value is calibrated by where enough of them had a deadline.
    """
    scored = _scored(outcomes)
    if not scored:
        return FusedStages(tuple(outcomes), None, None)
    names = [outcome.stage for outcome in scored]
    weight_of = dict(zip(names, weights(names, comparisons(names)).weights, strict=True))
    score_of = {outcome.stage: outcome.score or 0.0 for outcome in scored}
    no = frozenset(outcome.stage for outcome in scored if outcome.state is StageState.FAILED)
    subset, source = _subsets(names, weight_of, score_of, past)
    shares = shapley(names, lambda members: 0.0 if members & no else subset(members))
    share_of = dict(zip(shares.names, shares.shares, strict=True))
    stages = tuple(
        replace(outcome, weight=weight_of[outcome.stage], share=share_of[outcome.stage]) if outcome.stage in share_of else outcome
        for outcome in outcomes
    )
    value = min(1.0, max(0.0, shares.value))
    return FusedStages(stages, value, hyperscore(value), shares.empty, source + _left_out(outcomes))


def comparisons(names: Sequence[str]) -> list[list[float]]:
    """The default comparison matrix (n, n) of these stages."""
    return [[IMPORTANCE[row] / IMPORTANCE[column] for column in names] for row in names]


def _scored(outcomes: Sequence[StageOutcome]) -> list[StageOutcome]:
    return [outcome for outcome in outcomes if outcome.score is not None]


def _left_out(outcomes: Sequence[StageOutcome]) -> str:
    """A sentence on stages without a score; empty where each has one."""
    missing = ", ".join(outcome.stage for outcome in outcomes if outcome.score is None)
    return f" Left out: {missing}." if missing else ""


def _subsets(
    names: Sequence[str], weight_of: Mapping[str, float], score_of: Mapping[str, float], past: Sequence[PastRun]
) -> tuple[Callable[[frozenset[str]], float], str]:
    """The value of any subset of stages, and what it is: calibrated by finished runs, else the weighted mean."""
    calibrated, source = calibrated_subsets(names, weight_of, score_of, past)
    return calibrated if calibrated is not None else partial(_mean, weight_of=weight_of, score_of=score_of), source


def _mean(members: frozenset[str], weight_of: Mapping[str, float], score_of: Mapping[str, float]) -> float:
    """The weighted mean of some stages, as if there were no others; 0 for none of them."""
    if not members:
        return 0.0
    chosen = sorted(members)
    return sum(weight_of[name] * score_of[name] for name in chosen) / sum(weight_of[name] for name in chosen)
