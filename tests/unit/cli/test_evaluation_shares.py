"""The shares that people read add up to V, calibrated or not."""

from __future__ import annotations

import pytest

from hyperscale.cli.evaluate.evaluation_view import show
from hyperscale.model.evaluation import Evaluation, StageOutcome, StageState
from tests.builders.seen import plan


@pytest.mark.parametrize(("base", "shares"), [(0.5, (0.3, -0.1)), (None, (0.4, 0.3))])
def test_the_column_of_shares_sums_to_the_value(base: float | None, shares: tuple[float, ...]) -> None:
    stages = tuple(
        StageOutcome(name, StageState.PASSED, "It is well.", score=0.9, share=share)
        for name, share in zip(("proof", "twin"), shares, strict=True)
    )
    answer = Evaluation("team/cora", plan("a").plan_id, stages, value=0.7, hyper_score=70.0, base_value=base)
    lines = list(show(answer, plan("a"), "a file"))
    at = next(place for place, line in enumerate(lines) if line.startswith("STAGE"))
    end = lines[at].index("SHARE") + len("SHARE")
    rows = lines[at + 1 :]
    assert sum(float(row[:end].split()[-1]) for row in rows) == pytest.approx(0.7)
    assert any(row.startswith("base rate") for row in rows) == (base is not None)
