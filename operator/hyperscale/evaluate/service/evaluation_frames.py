"""What the operator and its evaluation process say to each other: one JSON document each way."""

from __future__ import annotations

from typing import Final

import msgspec

from hyperscale.evaluate.calibration.lessons import NO_LESSONS, Lessons
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.evaluation import EvaluationStatus
from hyperscale.model.plan import Plan
from hyperscale.model.planning import PlanRequest

MAX_QUESTION_BYTES: Final = 64 * 2**20
MAX_ANSWER_BYTES: Final = 1 << 20


class EvaluationAsk(msgspec.Struct, frozen=True, rename="camel"):
    """One planned job."""

    plan: Plan
    request: PlanRequest
    snapshot: ClusterSnapshot
    """Of the planned nodes and the links between them."""
    futures: int
    policy: PolicySpec = PolicySpec()
    lessons: Lessons = NO_LESSONS
    """What history teaches about such a plan."""


QUESTIONS: Final[msgspec.json.Decoder[EvaluationAsk]] = msgspec.json.Decoder(EvaluationAsk)
ANSWERS: Final[msgspec.json.Decoder[EvaluationStatus]] = msgspec.json.Decoder(EvaluationStatus)
