"""How planned jobs are evaluated in a cluster: the type behind `PlannerPolicy.spec.evaluation`."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import Annotated, Final

from msgspec import Meta

from hyperscale.model.api.job import Spec
from hyperscale.model.api.written_numbers import DECIMAL, SIGNED_DECIMAL

MAX_SECONDS: Final = 315_360_000
"""Ten years."""
MAX_FAILURE_RATE: Final = 1e6
"""Failures per 1,000 node-days."""


class EvaluationStage(enum.StrEnum):
    """What an evaluation scores; `status.evaluation` has the same names in lower case."""

    PROOF = "Proof"
    FORECAST = "Forecast"
    TWIN = "Twin"
    PREFLIGHT = "Preflight"
    NOVELTY = "Novelty"


IMPORTANCE: Final = {
    EvaluationStage.PROOF: 6.0,
    EvaluationStage.FORECAST: 2.0,
    EvaluationStage.TWIN: 3.0,
    EvaluationStage.PREFLIGHT: 3.0,
    EvaluationStage.NOVELTY: 1.0,
}
"""Entry (i, j) of the built-in comparison matrix is the ratio of two of these. A plan that cannot run is worth nothing. Whether a job ends
in time matters more than how well its epoch is predicted."""
MAX_COMPARISONS: Final = len(EvaluationStage) * (len(EvaluationStage) - 1) // 2


class StageComparison(Spec, frozen=True):
    """How many times as important one stage is as another."""

    stage: EvaluationStage
    """The stage that is compared."""
    compared_with: EvaluationStage
    """The other stage."""
    importance: Annotated[float, Meta(ge=0.11, le=9, extra=DECIMAL)]
    """Of the stage, in multiples of the other's: "1" where both are alike, "9" where it is far more important (Saaty's scale)."""


class HyperScorePolicy(Spec, frozen=True):
    """HyperScore = 100 (1 + sigmoid(beta ln V + gamma)^kappa); the defaults are those that the paper prints."""

    beta: Annotated[float, Meta(gt=0, le=1000, extra=DECIMAL)] = 5.0
    """How steeply the score rises with V."""
    gamma: Annotated[float, Meta(ge=-1000, le=1000, extra=SIGNED_DECIMAL)] = -math.log(2.0)
    """Where the middle of the sigmoid lies: V = exp(-gamma / beta)."""
    kappa: Annotated[float, Meta(gt=0, le=1000, extra=DECIMAL)] = 2.0
    """Exponent of the boost; above 1 it favours high values."""


class EvaluationPolicy(Spec, frozen=True):
    """What is assumed of failures and times, and how the stages of an evaluation are weighed."""

    comparisons: Annotated[tuple[StageComparison, ...], Meta(max_length=MAX_COMPARISONS)] = ()
    """Entries of the comparison matrix, one for each pair; pairs left out are as built in. Its consistency ratio must be below 0.1."""
    failures_per_thousand_node_days: Annotated[float, Meta(ge=0, le=MAX_FAILURE_RATE, extra=DECIMAL)] | None = None
    """How often nodes fail. Without it 6.50 is assumed, as published for 16,000 A100."""
    repair_seconds: Annotated[int, Meta(ge=0, le=MAX_SECONDS)] | None = None
    """From the failure of a node until it can take part again. Without it what the nodes have shown counts, else 14400."""
    restart_seconds: Annotated[int, Meta(ge=0, le=MAX_SECONDS)] = 120
    """To create the pods of a job again and load its graph."""
    checkpoint_write_seconds: Annotated[float, Meta(ge=0, le=86_400, extra=DECIMAL)] = 2.0
    """To write one checkpoint."""
    hyper_score: HyperScorePolicy = HyperScorePolicy()


def comparison_matrix(comparisons: Sequence[StageComparison]) -> list[list[float]]:
    """Return the (n, n) comparisons of all stages in their order, with the built-in ones where a pair is left out."""
    stages = tuple(EvaluationStage)
    matrix = [[IMPORTANCE[row] / IMPORTANCE[column] for column in stages] for row in stages]
    for one in comparisons:
        row, column = stages.index(one.stage), stages.index(one.compared_with)
        matrix[row][column], matrix[column][row] = one.importance, 1.0 / one.importance
    return matrix
