"""The stage `proof`: two judges say whether the plan keeps its conditions."""

from __future__ import annotations

from typing import Final

from hyperscale.evaluate.pipeline.evaluation_question import EvaluationQuestion
from hyperscale.evaluate.pipeline.plan_origin import PlanOrigin, plan_origin
from hyperscale.evaluate.verify.plan_checker import check_plan
from hyperscale.model.evaluation import MAX_FINDINGS, StageOutcome, StageState
from hyperscale.planner.check.plan_check import violations

PROOF: Final = "proof"


def proof(question: EvaluationQuestion) -> StageOutcome:
    """Return Failed with every condition that the plan breaks, Warned where its figures cannot be trusted, else Passed."""
    asked = (question.plan, question.request, question.snapshot)
    broken = tuple(dict.fromkeys((*violations(*asked), *check_plan(*asked))))
    if broken:
        findings = (*broken, *question.model_faults)[:MAX_FINDINGS]
        return StageOutcome(PROOF, StageState.FAILED, f"the plan breaks {len(broken)} of its conditions", findings, 0.0)
    origin = plan_origin(*asked, question.given_by) if question.given_by is not None else PlanOrigin()
    if question.model_faults or origin.faults:
        sentence = "the model does not train" if question.model_faults else "figures of the plan contradict the cost model"
        return StageOutcome(PROOF, StageState.FAILED, sentence, (*question.model_faults, *origin.faults)[:MAX_FINDINGS], 0.0)
    findings = (*origin.doubts, *origin.notes, *question.model_notes)
    if origin.doubts:
        return StageOutcome(PROOF, StageState.WARNED, "the plan keeps all of its conditions, its figures are taken as given", findings, 1.0)
    return StageOutcome(PROOF, StageState.PASSED, "the plan keeps all of its conditions, as two judges find", findings, 1.0)
