"""Plans of many clusters and jobs against their records (see CONTRIBUTING.md, Tests)."""

from __future__ import annotations

import pytest

from hyperscale.model.api.job import Architecture, PlannerChoice
from hyperscale.planner.search.kernels import kernel
from tests.behaviour import plans, stored
from tests.behaviour.plan_cases import PLAN_CASES

pytestmark = pytest.mark.skipif(not kernel.COMPILED, reason="the search kernel is not compiled (make kernel); plans from numpy differ")


@pytest.mark.parametrize("case", PLAN_CASES)
def test_the_plan_is_as_recorded(case: str) -> None:
    stored.assert_as_recorded(plans.KIND, case, plans.output(PLAN_CASES[case]))


@pytest.mark.parametrize("case", ["doubtful-figures", "repair-of-two-ranks", "learned-asked-for"])
def test_a_plan_that_is_made_again_has_the_same_bytes(case: str) -> None:
    assert stored.text(plans.output(PLAN_CASES[case])) == stored.text(plans.output(PLAN_CASES[case]))


def test_the_cases_ask_for_every_planner_and_architecture_and_meet_refusals() -> None:
    assert len(PLAN_CASES) >= 40
    specs = [case.spec for case in PLAN_CASES.values()]
    assert {spec.get("planner", "Auto") for spec in specs} == {choice.value for choice in PlannerChoice}
    assert {spec["model"]["architecture"] for spec in specs} == {architecture.value for architecture in Architecture}
    answers = [stored.read(plans.KIND, case)["answer"] for case in PLAN_CASES]
    reasons = {answer["refusal"]["reason"] for answer in answers if "refusal" in answer}
    assert reasons >= {"NeverFits", "InsufficientGPUs", "NodesCannotReachEachOther"}
    assert {answer["plan"]["planner"] for answer in answers if "plan" in answer} == {"Heuristic", "Learned"}
    assert max(len(case.snapshot["nodes"]) for case in PLAN_CASES.values()) == 200
