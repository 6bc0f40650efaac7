"""The effect of a job on the queue, for any queue."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from hyperscale.evaluate.impact.queue_effect import queue_effect, waiting_job
from hyperscale.evaluate.impact.queue_figures import QueueFigures
from hyperscale.model.api.policy import QueuePolicy
from hyperscale.planner.queue.queue_types import QueueRunningJob
from hyperscale.planner.queue.rollout import MOST_ROLLED


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 16),
    st.lists(st.tuples(st.integers(1, 8), st.floats(0.0, 1e6)), max_size=6),
    st.lists(st.tuples(st.integers(1, 40), st.floats(1.0, 1e6)), max_size=MOST_ROLLED + 3),
    st.integers(1, 40),
    st.floats(1.0, 1e6),
)
def test_bounds_are_in_order_and_finite_and_the_same_question_has_the_same_answer(
    free: int, running: list[tuple[int, float]], waiting: list[tuple[int, float]], gpus: int, seconds: float
) -> None:
    figures = QueueFigures(
        free,
        64,
        tuple(QueueRunningJob(f"a/{number}", *each) for number, each in enumerate(running)),
        tuple(waiting_job(f"b/{number}", *each) for number, each in enumerate(waiting)),
    )
    found = queue_effect(figures, gpus, lambda part: seconds * (0.5 + part), QueuePolicy())
    for interval in (found.wait, found.delay):
        assert interval.low <= interval.middle <= interval.high
        assert math.isfinite(interval.high)
    assert found.wait.low >= 0.0
    assert found == queue_effect(figures, gpus, lambda part: seconds * (0.5 + part), QueuePolicy())
