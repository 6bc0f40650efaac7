"""What a PlannerPolicy says of evaluations: it is checked when it is read, and the stages go by it."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperscale.evaluate.pipeline.evaluation_question import failures_of
from hyperscale.evaluate.pipeline.fuse_stages import fuse, stage_weights
from hyperscale.evaluate.service.evaluation_frames import EvaluationAsk
from hyperscale.evaluate.service.evaluation_main import answer
from hyperscale.model.api.evaluation_policy import EvaluationPolicy, EvaluationStage, StageComparison
from hyperscale.model.api.policy import GpuModel, PolicySpec
from hyperscale.model.evaluation import EvaluationStatus, StageOutcome, StageState
from hyperscale.model.planning import PlanRequest
from hyperscale.spec.parse import SpecError, parse_policy
from hyperscale.spec.written import write
from tests.builders.clusters import gpu_node, planned, snapshot, training

PRICED = PolicySpec(gpus=(GpuModel(product="NVIDIA-A100-SXM4-80GB", price_per_hour=3.6),))
CLUSTER = snapshot(*(gpu_node(f"n{place}") for place in range(4)))
JOB = training()
PLAN = planned(CLUSTER, JOB, PRICED)


def policy(**evaluation: Any) -> EvaluationPolicy:
    return parse_policy({"spec": {"evaluation": evaluation}}).evaluation


def pair(stage: str, other: str, importance: str) -> dict[str, str]:
    return {"stage": stage, "comparedWith": other, "importance": importance}


def evaluated(said: EvaluationPolicy, **changes: Any) -> EvaluationStatus:
    return answer(EvaluationAsk(changes.get("plan", PLAN), PlanRequest("team/cora", JOB), CLUSTER, 400, PolicySpec(evaluation=said)))


def test_a_policy_without_a_word_on_evaluations_is_the_built_in_one() -> None:
    assert policy() == EvaluationPolicy()
    assert failures_of(policy()).source.startswith("Assumed: 6.50 failures per 1,000 node-days")
    assert write(EvaluationPolicy())["hyperScore"] == {"beta": "5", "gamma": repr(-math.log(2.0)), "kappa": "2"}


def test_comparisons_that_contradict_each_other_are_refused_with_the_triple() -> None:
    with pytest.raises(SpecError, match=r"Proof to Forecast to Twin makes 9 times the entry Proof to Twin") as refused:
        policy(comparisons=[pair("Twin", "Forecast", "1"), pair("Proof", "Forecast", "3"), pair("Twin", "Proof", "3")])
    assert refused.value.path == "spec.evaluation.comparisons[2].importance"


@pytest.mark.parametrize(
    ("entries", "path", "words"),
    [
        ([pair("Twin", "Twin", "1")], "spec.evaluation.comparisons[0]", "a stage is not compared with itself"),
        ([pair("Twin", "Proof", "1"), pair("Proof", "Twin", "1")], "spec.evaluation.comparisons", "Proof and Twin are given twice"),
        ([pair("Twin", "Proof", "10")], "spec.evaluation.comparisons[0].importance", 'from 0.11 to 9, such as "0.11"'),
        ([pair("Luck", "Proof", "1")], "spec.evaluation.comparisons[0].stage", "write one of Proof, Forecast, Twin"),
    ],
)
def test_a_comparison_that_is_none_is_refused_at_its_place(entries: list[dict[str, str]], path: str, words: str) -> None:
    with pytest.raises(SpecError) as refused:
        policy(comparisons=entries)
    assert refused.value.path == path
    assert words in str(refused.value)


@pytest.mark.parametrize("text", ["-0.5", "0.6931", "-1e-3"])
def test_gamma_may_be_below_zero_and_beta_may_not(text: str) -> None:
    assert policy(hyperScore={"gamma": text}).hyper_score.gamma == float(text)
    with pytest.raises(SpecError, match="above 0 to 1000"):
        policy(hyperScore={"beta": "-1"})


@given(st.sets(st.sampled_from([stage.value.lower() for stage in EvaluationStage]), min_size=1))
def test_a_stage_that_is_missing_leaves_the_proportions_of_the_others(names: set[str]) -> None:
    comparisons = (StageComparison(EvaluationStage.TWIN, EvaluationStage.FORECAST, 3.0),)
    every = stage_weights([stage.value.lower() for stage in EvaluationStage], comparisons)
    some = stage_weights(sorted(names), comparisons)
    assert math.fsum(some.values()) == pytest.approx(1.0)
    first = min(names)
    assert all(some[name] / some[first] == pytest.approx(every[name] / every[first]) for name in names)


def test_the_score_goes_by_the_policys_weights_and_settings() -> None:
    outcomes = [StageOutcome(name, StageState.PASSED, "", (), score) for name, score in (("proof", 1.0), ("forecast", 0.4), ("twin", 1.0))]
    plain, bold = fuse(outcomes), fuse(outcomes, policy(hyperScore={"gamma": "0.6931471805599453"}))
    heavy = fuse(outcomes, policy(comparisons=[pair("Forecast", "Proof", "1"), pair("Forecast", "Twin", "2")]))
    assert plain.value == bold.value
    assert plain.hyper_score is not None
    assert bold.hyper_score is not None
    assert bold.hyper_score > plain.hyper_score
    assert heavy.value is not None
    assert plain.value is not None
    assert heavy.value < plain.value


def test_the_operators_evaluation_goes_by_the_policy_and_says_the_cost() -> None:
    calm = evaluated(policy(failuresPerThousandNodeDays="0", restartSeconds=0))
    rough = evaluated(policy(failuresPerThousandNodeDays="1000000", repairSeconds=60, restartSeconds=60))
    assert calm.end_seconds is not None
    assert rough.end_seconds is None or rough.end_seconds.middle > calm.end_seconds.middle
    assert PLAN.predicted.cost_per_epoch is not None
    assert calm.cost is not None
    assert calm.cost.middle == pytest.approx(PLAN.predicted.cost_per_epoch * calm.end_seconds.middle / PLAN.predicted.epoch_seconds)
    assert evaluated(policy(), plan=planned(CLUSTER, JOB)).cost is None
