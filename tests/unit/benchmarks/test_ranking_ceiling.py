"""How well true values would rank a table of measured placements."""

from __future__ import annotations

from itertools import permutations

import numpy as np

from benchmarks.suites import pollux, ranking_ceiling
from hyperscale.model.history.step_curves import Step

SHAPES = [(4, 3, 2, 1), (4, 3, 1), (3, 2, 1), (4, 2, 1), (2, 1), (4, 4), (1,), (2,), (4,), (3, 1, 1, 1)]
BATCHES = (8.0, 32.0)


def table(noise: float, growth: float = 0.1, seed: int = 0) -> list[Step]:
    """Placements whose step grows with their GPUs, with noise that a placement has at every batch."""
    rng = np.random.default_rng(seed)
    rows = []
    for gpus in [order for shape in SHAPES for order in sorted(set(permutations(shape)))]:
        off = float(rng.normal(0.0, noise))
        rows += [Step(gpus, batch, 0.01 * batch * float(np.exp(growth * sum(gpus) + off)), hosts=str(gpus)) for batch in BATCHES]
    return rows


def reached(rows: list[Step], truth: str) -> float:
    """`clear` of the true values of a table like `rows`."""
    simulation = ranking_ceiling.simulation(rows, truth)
    assert simulation is not None
    drawn = simulation.drawn(1)
    return pollux.score(drawn, simulation.true_seconds(drawn), pollux.noise(drawn), 0).clear


def test_true_values_rank_a_table_with_little_noise_almost_perfectly() -> None:
    assert reached(table(0.01), "rough") > 0.99


def test_true_values_rank_a_table_that_is_nothing_but_noise_no_better_than_chance() -> None:
    assert reached(table(0.1, growth=0.0), "smooth") < 0.5


def test_a_simulated_table_has_the_placements_of_the_table_and_its_noise() -> None:
    rows = table(0.05)
    simulation = ranking_ceiling.simulation(rows, "smooth")
    assert simulation is not None
    drawn = simulation.drawn(3)
    assert [(row.gpus, row.batch, row.hosts) for row in drawn] == [(row.gpus, row.batch, row.hosts) for row in rows]
    assert drawn == simulation.drawn(3)
    assert drawn != simulation.drawn(4)
    again = pollux.noise(drawn)
    assert all(0.5 < again[batch] / spread < 2.0 for batch, spread in pollux.noise(rows).items())


def test_a_table_without_permutations_says_nothing_of_its_noise() -> None:
    rows = [row for row in table(0.05) if tuple(sorted(row.gpus, reverse=True)) == row.gpus]
    assert ranking_ceiling.simulation(rows, "smooth") is None


def test_hardly_a_pair_is_sure_where_placements_differ_by_noise_alone() -> None:
    rows = table(noise=0.1, growth=0.0)
    found = pollux.score(rows, np.array([row.step_seconds for row in rows]), pollux.noise(rows), 0)
    assert found.clear_share > 0.02
    assert found.sure_share < 0.005


def test_pairs_that_are_sure_are_ranked_like_the_prediction_that_made_them() -> None:
    rows = table(noise=0.01)
    measured = np.array([row.step_seconds for row in rows])
    right, wrong = (pollux.score(rows, guess, pollux.noise(rows), 0) for guess in (measured, 1.0 / measured))
    assert right.sure_share > 0.3
    assert (right.sure, wrong.sure) == (1.0, -1.0)
