"""How many futures of a run can be played in time: the more failures a run meets, the fewer."""

from __future__ import annotations

from typing import Final

from hyperscale.evaluate.pipeline.evaluation_question import EvaluationQuestion
from hyperscale.evaluate.pipeline.forecast_stage import forecast_epoch
from hyperscale.evaluate.pipeline.twin_stage import job_risk
from hyperscale.evaluate.twin.job_arrays import horizon_seconds
from hyperscale.evaluate.twin.play_futures import play
from hyperscale.evaluate.twin.twin_types import NodeRisk
from hyperscale.model.evaluation import TOO_MANY_FAILURES

PROBES: Final = 8
"""Futures played first, to count their failures."""
MAX_PROBED: Final = 1e6
"""Failures that a probe may meet: 0.3 s of playing."""
PLAYED_FAILURES: Final = 3e6
"""Of all futures of one pass; an evaluation plays about 14 passes, 0.3 µs a failure."""
MIN_FUTURES: Final = 100


def affordable_futures(question: EvaluationQuestion) -> int:
    """Return the futures asked for, or fewer; raises ValueError where even few take too long."""
    risk = job_risk(question, forecast_epoch(question)[1].middle)
    bound = horizon_seconds(risk) * sum(map(_failure_rate, risk.nodes))
    if bound > MAX_PROBED:
        raise ValueError(f"{TOO_MANY_FAILURES}: up to {bound:.2g} failures in a run are too many to be played; check the rate of failures")
    met = float(play(risk, PROBES, question.seed).failures.mean())
    futures = int(PLAYED_FAILURES / max(met, 1.0))
    if futures < MIN_FUTURES:
        raise ValueError(f"{TOO_MANY_FAILURES}: {met:.2g} failures in a run are too many to be played; check the rate of failures")
    return min(question.futures, futures)


def _failure_rate(node: NodeRisk) -> float:
    """Failures a second at most: one that is being repaired does not fail."""
    hazard = sum(1.0 / law.scale_seconds for law in node.laws.values())
    return 1.0 / (1.0 / hazard + node.repair.scale_seconds) if hazard > 0.0 else 0.0
