"""What is sent to an evaluation: the links that a proof reads, within a bound; and how many futures it plays."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hyperscale.evaluate.pipeline.evaluation_question import EvaluationQuestion, constant_rate
from hyperscale.evaluate.pipeline.futures_budget import MIN_FUTURES, affordable_futures
from hyperscale.evaluate.pipeline.proof_stage import proof
from hyperscale.evaluate.service import evaluation_frames
from hyperscale.evaluate.service.evaluation_frames import EvaluationAsk, QuestionTooLargeError, packed, part_of
from hyperscale.evaluate.service.evaluation_process import EvaluationError, EvaluationProcess
from hyperscale.model.api.evaluation_policy import EvaluationPolicy
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import AbsentLink, ClusterSnapshot
from hyperscale.model.planning import PlanRequest
from tests.builders.clusters import gpu_node, link, planned, snapshot, training

NAMES = [f"n{place}" for place in range(6)]
JOB = training(workers={"minReplicas": 4, "maxReplicas": 4})
WHOLE = snapshot(*(gpu_node(name) for name in NAMES), links=tuple(link(a, b) for a in NAMES for b in NAMES if a != b))
PLAN = planned(WHOLE, JOB)
SLOW = replace(PLAN, predicted=replace(PLAN.predicted, epoch_seconds=1e4, low_seconds=1e4, high_seconds=1e4))
REQUEST = PlanRequest("team/cora", JOB)
PAIRS = st.sets(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)).filter(lambda pair: pair[0] != pair[1]))


def findings(seen: ClusterSnapshot) -> tuple[str, ...]:
    return proof(EvaluationQuestion(PLAN, REQUEST, seen, constant_rate(1.0, ""))).findings


@given(PAIRS, PAIRS, st.sampled_from(AbsentLink))
def test_the_links_that_are_left_out_change_nothing_of_the_proof(
    missing: set[tuple[str, str]], dead: set[tuple[str, str]], absent: AbsentLink
) -> None:
    links = [one for one in WHOLE.links if (one.source, one.destination) not in missing]
    links = [
        link(one.source, one.destination, bandwidth_bytes_per_second=0.0) if (one.source, one.destination) in dead else one for one in links
    ]
    given_links = replace(WHOLE, links=tuple(links), absent_links=absent)
    part = part_of(given_links, PLAN)
    assert len(part.nodes) == len(PLAN.ranks_by_node)
    assert findings(part) == findings(given_links)


def test_a_fully_linked_plan_sends_a_few_links_for_each_node() -> None:
    assert len(part_of(WHOLE, PLAN).links) == len(PLAN.workers)


async def test_a_question_beyond_the_bound_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = EvaluationAsk(PLAN, REQUEST, part_of(WHOLE, PLAN), 100)
    monkeypatch.setattr(evaluation_frames, "MAX_QUESTION_BYTES", len(packed(ask)) // 2)
    with pytest.raises(QuestionTooLargeError, match="QuestionTooLarge: plan and 4 planned nodes take more than"):
        packed(ask)
    with pytest.raises(EvaluationError, match=r"^QuestionTooLarge: "):
        await EvaluationProcess().evaluate(ask)


def futures(rate: float, repair_seconds: float = 0.0) -> int:
    failures = dataclasses.replace(constant_rate(rate, ""), repair_seconds=repair_seconds)
    return affordable_futures(EvaluationQuestion(SLOW, REQUEST, WHOLE, failures, restart_seconds=0.0))


def test_the_more_failures_a_run_meets_the_fewer_futures_are_played() -> None:
    assert futures(0.0) == futures(6.5) == 10_000
    counts = [futures(rate) for rate in (1e2, 1e3, 1e4)]
    assert counts == sorted(counts, reverse=True)
    assert MIN_FUTURES <= counts[-1] < 10_000
    with pytest.raises(ValueError, match=r"^TooManyFailures: .* check the rate of failures$"):
        futures(1e12)
    assert futures(1e12, repair_seconds=14_400.0) > MIN_FUTURES, "a node in repair does not fail"


async def test_a_rate_beyond_what_can_be_played_is_a_fault_with_a_name() -> None:
    often = EvaluationPolicy(failures_per_thousand_node_days=1e6, repair_seconds=0, restart_seconds=0)
    long = replace(JOB, model=replace(JOB.model, epochs=10**6))
    asked = EvaluationAsk(SLOW, PlanRequest("team/cora", long), part_of(WHOLE, PLAN), 100, PolicySpec(evaluation=often))
    with pytest.raises(EvaluationError, match=r"^TooManyFailures: "):
        await EvaluationProcess().evaluate(asked)
