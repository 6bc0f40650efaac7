"""The stage `proof`: two judges say whether the plan keeps its conditions."""

from __future__ import annotations

from typing import Final

from hyperscale.evaluate.pipeline.evaluation_question import EvaluationQuestion
from hyperscale.evaluate.verify.plan_checker import check_plan
from hyperscale.model.evaluation import MAX_FINDINGS, StageOutcome, StageState
from hyperscale.planner.check.plan_check import violations

PROOF: Final = "proof"


def proof(question: EvaluationQuestion) -> StageOutcome:
    """Return Failed with every condition that the plan breaks, else Passed."""
    asked = (question.plan, question.request, question.snapshot)
    broken = tuple(dict.fromkeys((*violations(*asked), *check_plan(*asked))))
    if broken:
        return StageOutcome(PROOF, StageState.FAILED, f"the plan breaks {len(broken)} of its conditions", broken[:MAX_FINDINGS], 0.0)
    return StageOutcome(PROOF, StageState.PASSED, "the plan keeps all of its conditions, as two judges find", (), 1.0)
