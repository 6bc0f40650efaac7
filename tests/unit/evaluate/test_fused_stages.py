"""What the stages make together."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperscale.evaluate.pipeline.fuse_stages import fuse
from hyperscale.evaluate.score.hyperscore import highest
from hyperscale.model.api.evaluation_policy import EvaluationStage
from hyperscale.model.evaluation import StageOutcome, StageState

STAGES = tuple(stage.value.lower() for stage in EvaluationStage)


def outcome(stage: str, score: float | None, state: StageState = StageState.PASSED) -> StageOutcome:
    return StageOutcome(stage, state, "", (), score)


SCORES = st.dictionaries(st.sampled_from(STAGES), st.floats(0.0, 1.0), min_size=1)


@given(SCORES)
def test_shares_sum_to_the_value_and_weights_to_one(scores: dict[str, float]) -> None:
    fused = fuse([outcome(stage, score) for stage, score in scores.items()])
    shares = [stage.share for stage in fused.stages if stage.share is not None]
    assert fused.value is not None
    assert math.fsum(shares) == pytest.approx(fused.value, abs=1e-15)
    assert math.fsum(stage.weight or 0.0 for stage in fused.stages) == pytest.approx(1.0)
    assert min(scores.values()) - 1e-12 <= fused.value <= max(scores.values()) + 1e-12


@given(SCORES, st.sampled_from(STAGES), st.floats(0.0, 1.0))
def test_a_better_stage_never_lowers_the_score(scores: dict[str, float], stage: str, better: float) -> None:
    raised = {**scores, stage: max(scores.get(stage, 0.0), better)}
    lowered = {**raised, stage: scores.get(stage, 0.0)}
    before, after = (fuse([outcome(name, score) for name, score in each.items()]) for each in (lowered, raised))
    assert before.hyper_score is not None
    assert after.hyper_score is not None
    assert before.hyper_score <= after.hyper_score + 1e-9


def test_a_stage_that_says_no_leaves_no_value() -> None:
    fused = fuse([outcome("proof", 0.0, StageState.FAILED), outcome("twin", 1.0), outcome("forecast", 1.0)])
    assert (fused.value, fused.hyper_score) == (0.0, 100.0)
    proof = fused.stages[0]
    assert proof.share is not None
    assert proof.share < 0.0


def test_a_skipped_stage_is_left_out() -> None:
    both = fuse([outcome("twin", 0.4), outcome("novelty", None, StageState.SKIPPED)])
    assert both.value == fuse([outcome("twin", 0.4)]).value
    assert both.stages[1].share is None


def test_nothing_to_score_is_no_score() -> None:
    assert fuse([outcome("novelty", None, StageState.SKIPPED)]).value is None


def test_the_best_score_is_the_formulas() -> None:
    assert fuse([outcome("proof", 1.0), outcome("twin", 1.0)]).hyper_score == highest()
