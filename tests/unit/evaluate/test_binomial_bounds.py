"""Exact bounds of a proportion are scipy's, and hold as often as they say."""

from __future__ import annotations

import pytest
from scipy.stats import binom, binomtest

from hyperscale.evaluate.statistics.binomial import clopper_pearson, lower_bound, upper_bound

CASES = [(0, 1), (1, 1), (0, 20), (7, 20), (20, 20), (339, 350), (3, 100_000)]


@pytest.mark.parametrize(("successes", "trials"), CASES)
@pytest.mark.parametrize("confidence", [0.68, 0.95, 0.999])
def test_two_sided_bounds_are_those_of_scipys_exact_test(successes: int, trials: int, confidence: float) -> None:
    expected = binomtest(successes, trials).proportion_ci(confidence, method="exact")
    estimate, low, high = clopper_pearson(successes, trials, confidence)
    assert estimate == successes / trials
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=1e-9)


@pytest.mark.parametrize(("successes", "trials"), CASES)
def test_one_sided_bounds_leave_just_the_stated_tail(successes: int, trials: int) -> None:
    low, high = lower_bound(successes, trials, 0.9), upper_bound(successes, trials, 0.9)
    assert 0.0 <= low <= successes / trials <= high <= 1.0
    assert successes == 0 or binom.sf(successes - 1, trials, low) == pytest.approx(0.1)
    assert successes == trials or binom.cdf(successes, trials, high) == pytest.approx(0.1)


@pytest.mark.parametrize("probability", [0.01, 0.3, 0.5, 0.95])
def test_bounds_cover_the_true_proportion_at_least_as_often_as_they_say(probability: float) -> None:
    trials = 40
    bounds = [clopper_pearson(successes, trials) for successes in range(trials + 1)]
    covered = sum(binom.pmf(at, trials, probability) for at, each in enumerate(bounds) if each.low <= probability <= each.high)
    assert covered >= 0.95


@pytest.mark.parametrize(
    ("successes", "trials", "confidence", "says"),
    [(0, 0, 0.95, "at least 1"), (-1, 5, 0.95, "from 0 to 5"), (6, 5, 0.95, "from 0 to 5"), (1, 5, 1.0, "between 0 and 1")],
)
def test_counts_that_cannot_be_are_refused(successes: int, trials: int, confidence: float, says: str) -> None:
    for bound in (clopper_pearson, lower_bound, upper_bound):
        with pytest.raises(ValueError, match=says):
            bound(successes, trials, confidence)
