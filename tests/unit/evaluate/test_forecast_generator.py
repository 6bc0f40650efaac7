"""The generated clusters that the forecast is judged on."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.forecast_generator import SCENARIOS, Scenario, generate, truth_quantiles


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_the_oracle_holds_as_often_as_it_says(scenario: Scenario) -> None:
    epochs = generate(scenario, 2000, seed=3)
    low, high = truth_quantiles(scenario, epochs, [0.16, 0.84])
    measured = np.log([epoch.run.measured_seconds for epoch in epochs])
    # Four standard errors of 2,000 draws.
    assert ((low <= measured) & (measured <= high)).mean() == pytest.approx(0.68, abs=0.042)


def test_the_same_seed_gives_the_same_clusters() -> None:
    assert generate(SCENARIOS[0], 20, seed=1) == generate(SCENARIOS[0], 20, seed=1)
    assert generate(SCENARIOS[0], 20, seed=1) != generate(SCENARIOS[0], 20, seed=2)


def test_the_oracle_of_chosen_placements_is_unbiased() -> None:
    chosen = next(scenario for scenario in SCENARIOS if scenario.candidates)
    gap = [np.log(epoch.run.measured_seconds) - epoch.centre for epoch in generate(chosen, 2000, seed=0)]
    assert abs(float(np.mean(gap))) < 0.015
