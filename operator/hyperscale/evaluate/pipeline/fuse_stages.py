"""What the stages make together. Placeholder until the score's parts are merged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hyperscale.model.evaluation import StageOutcome


class FusedStages(NamedTuple):
    """The stages with their weights and shares, and the score."""

    stages: tuple[StageOutcome, ...]
    value: float | None
    hyper_score: float | None


def fuse(outcomes: Sequence[StageOutcome]) -> FusedStages:
    """Return no score."""
    return FusedStages(tuple(outcomes), None, None)
