"""What one half of a table says of the other: the rank correlation that measuring again would reach."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from benchmarks.suites.pollux import halves, repeat
from hyperscale.cli.history.placements import tau
from hyperscale.model.history.step_curves import Step

BATCHES = (32.0, 64.0, 128.0, 256.0)
PLACEMENTS = tuple((first, *rest) for first in range(1, 9) for rest in ((), (1,), (2, 1), (3, 2, 1)))


def table(noise: float) -> list[Step]:
    rng = np.random.default_rng(0)
    own = np.exp(rng.normal(0.0, 0.3, len(PLACEMENTS)))
    return [
        Step(gpus, batch, float(seconds * batch * np.exp(rng.normal(0.0, noise))))
        for gpus, seconds in zip(PLACEMENTS, own, strict=True)
        for batch in BATCHES
    ]


def apart(rows: Sequence[Step], seed: int = 0) -> tuple[float, float]:
    return repeat(*halves(rows, "rows", seed))


def test_a_table_without_noise_ranks_its_other_half_without_a_fault() -> None:
    assert apart(table(0.0)) == pytest.approx((1.0, 1.0))


def test_the_truth_is_nearer_to_a_noisy_half_than_another_noisy_half_is() -> None:
    for seed in range(5):
        found, attained = apart(table(0.2), seed)
        assert 0.3 < found < attained < 1.0


def test_what_true_figures_reach_is_what_they_do_reach_where_they_are_known() -> None:
    rng = np.random.default_rng(1)
    true = rng.normal(0.0, 1.0, 4000)
    one, other = (true + rng.normal(0.0, 0.5, len(true)) for _ in range(2))
    rows = [[Step((index + 1,), 1.0, float(np.exp(value))) for index, value in enumerate(values)] for values in (one, other)]
    _, attained = repeat(rows[0], rows[1])
    assert attained == pytest.approx(tau(true, other), abs=0.02)


def test_halves_that_share_nothing_or_agree_by_chance_alone_say_nothing() -> None:
    rows = table(0.1)
    assert all(math.isnan(value) for value in repeat(*halves(rows, "new placements", 0)))
    backwards = [Step(row.gpus, row.batch, 1.0 / row.step_seconds) for row in rows]
    assert all(math.isnan(value) for value in repeat(rows, backwards))
