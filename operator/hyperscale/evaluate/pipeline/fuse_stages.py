"""What the stages make together: AHP weights, the value V, each stage's Shapley share in it, and the HyperScore.

Until finished runs say which values ended in time, V is not calibrated: it is the weighted mean of the stages' scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

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


def fuse(outcomes: Sequence[StageOutcome]) -> FusedStages:
    """Return the stages with weight and share; one without a score keeps neither and is left out of the value."""
    scored = [outcome for outcome in outcomes if outcome.score is not None]
    if not scored:
        return FusedStages(tuple(outcomes), None, None)
    names = [outcome.stage for outcome in scored]
    weight_of = dict(zip(names, weights(names, comparisons(names)).weights, strict=True))
    score_of = {outcome.stage: outcome.score or 0.0 for outcome in scored}
    no = frozenset(outcome.stage for outcome in scored if outcome.state is StageState.FAILED)
    shares = shapley(names, lambda members: _value(members, no, weight_of, score_of))
    share_of = dict(zip(shares.names, shares.shares, strict=True))
    stages = tuple(
        replace(outcome, weight=weight_of[outcome.stage], share=share_of[outcome.stage]) if outcome.stage in share_of else outcome
        for outcome in outcomes
    )
    value = min(1.0, max(0.0, shares.value))
    return FusedStages(stages, value, hyperscore(value))


def comparisons(names: Sequence[str]) -> list[list[float]]:
    """The default comparison matrix (n, n) of these stages."""
    return [[IMPORTANCE[row] / IMPORTANCE[column] for column in names] for row in names]


def _value(members: frozenset[str], no: frozenset[str], weight_of: dict[str, float], score_of: dict[str, float]) -> float:
    """The weighted mean of some stages, as if there were no others; 0 for none of them, and where one says no."""
    if not members or members & no:
        return 0.0
    chosen = sorted(members)
    return sum(weight_of[name] * score_of[name] for name in chosen) / sum(weight_of[name] for name in chosen)
