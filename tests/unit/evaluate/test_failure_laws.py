"""Laws fitted to lives: closed forms by hand, the right family on generated tables, and the empirical law where none fits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.failure_tables import FAMILIES, MEAN_HOURS, Family, table
from hyperscale.evaluate.twin.failure_table import lives_of, parse_failure_table
from hyperscale.evaluate.twin.fit_laws import MAX_MISFIT, fit_law, largest_misfit, log_likelihood
from hyperscale.evaluate.twin.life_laws import cumulative_hazard, hazard_table, tail_mean_seconds
from hyperscale.evaluate.twin.lives import Lives, kaplan_meier, nelson_aalen
from hyperscale.evaluate.twin.twin_types import LawFamily, LifeLaw, exponential

LAWS = (
    exponential(3.0),
    LifeLaw(LawFamily.WEIBULL, 3.0, 0.7),
    LifeLaw(LawFamily.WEIBULL, 3.0, 2.6),
    LifeLaw(LawFamily.LOGNORMAL, 3.0, 1.2),
    LifeLaw(LawFamily.GAMMA, 3.0, 2.2),
    LifeLaw(LawFamily.GAMMA, 3.0, 0.4),
)


def lives(*pairs: tuple[float, bool]) -> Lives:
    return Lives(np.array([seconds for seconds, _ in pairs]), np.array([failed for _, failed in pairs], dtype=np.bool_))


def generated(family: Family, units: int, seed: int) -> Lives:
    return lives_of(parse_failure_table(table(family, units, seed), "h"), "", "gpu", 4.0 * MEAN_HOURS * 3600.0)


def test_the_hazard_estimates_are_those_of_the_textbook() -> None:
    """Four units: failures at 1, 2 (of three), one censored at 2, one failure at 5."""
    sample = lives((1.0, True), (2.0, True), (2.0, False), (5.0, True))
    ages, hazard = nelson_aalen(sample)
    assert ages.tolist() == [1.0, 2.0, 5.0]
    assert hazard.tolist() == pytest.approx([1 / 4, 1 / 4 + 1 / 3, 1 / 4 + 1 / 3 + 1])
    assert kaplan_meier(sample)[1].tolist() == pytest.approx([3 / 4, 3 / 4 * 2 / 3, 0.0])


def test_units_that_fail_together_count_one_after_the_other() -> None:
    together, apart = lives(*[(1.0, True)] * 3, (2.0, False)), lives((0.9, True), (1.0, True), (1.1, True), (2.0, False))
    assert nelson_aalen(together)[1][-1] == pytest.approx(nelson_aalen(apart)[1][-1])


@pytest.mark.parametrize("units", [2, 9, 40, 500])
def test_lives_that_are_all_alike_give_a_rate_and_no_certain_age(units: int) -> None:
    fit = fit_law(lives(*[(5.0, True)] * units))
    assert fit.law.family == LawFamily.EXPONENTIAL
    assert fit.law.scale_seconds == pytest.approx(5.0)
    assert fit.alike
    assert not fit_law(lives(*[(5.0, True)] * units, (6.0, True))).alike


def test_before_the_first_of_several_failures_at_one_age_the_empirical_law_has_none() -> None:
    fit = fit_law(lives(*[(100.0, True)] * 30, *[(110.0, True)] * 30))
    assert fit.law.family == LawFamily.EMPIRICAL
    assert cumulative_hazard(fit.law, np.array([50.0, 99.0])) == pytest.approx([0.0, 0.0])
    assert cumulative_hazard(fit.law, np.array([100.0]))[0] == pytest.approx(math.log(2.0), rel=0.05)


def test_few_failures_give_the_exponential_law_in_closed_form() -> None:
    fit = fit_law(lives((10.0, True), (20.0, False), (30.0, True), (40.0, False)))
    assert fit.law == exponential(50.0)
    assert (fit.units, fit.events) == (4, 2)
    width = math.exp(1.959964 / math.sqrt(2.0))
    assert fit.scale_low_seconds == pytest.approx(50.0 / width)
    assert fit.scale_high_seconds == pytest.approx(50.0 * width)


def test_without_a_failure_the_law_is_unknown_and_bounded() -> None:
    with pytest.raises(ValueError, match=r"no unit failed.*fewer than 0.1 fail per second"):
        fit_law(lives((10.0, False), (20.0, False)))


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan, math.inf])
def test_a_life_that_is_no_time_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match=r"life 1: .* is no time above 0"):
        lives((1.0, True), (seconds, True))


@pytest.mark.parametrize("law", LAWS, ids=lambda law: f"{law.family} {law.shape}")
def test_the_likelihood_integrates_to_the_chance_of_failing(law: LifeLaw) -> None:
    """The density summed over ages up to 50 is 1 - exp(-hazard): density and hazard are of one law."""
    ages = np.geomspace(1e-9, 50.0, 2001)
    density = np.exp([log_likelihood(lives((float(age), True)), law) for age in np.sqrt(ages[1:] * ages[:-1])])
    total = float(np.sum(density * np.diff(ages)))
    assert total == pytest.approx(1.0 - math.exp(-float(cumulative_hazard(law, np.array([50.0]))[0])), rel=0.01)


@pytest.mark.parametrize("law", LAWS[3:], ids=lambda law: f"{law.family} {law.shape}")
def test_a_table_of_a_law_is_within_a_ten_thousandth_of_its_distribution(law: LifeLaw) -> None:
    ages, hazards = hazard_table(law)
    between = np.geomspace(ages[1], ages[-1], 50_000)
    apart = np.exp(-np.interp(between, ages, hazards)) - np.exp(-cumulative_hazard(law, between))
    assert np.abs(apart).max() < 1e-4


@pytest.mark.parametrize(
    "law", [LifeLaw(LawFamily.LOGNORMAL, 1e13, 6.0), LifeLaw(LawFamily.LOGNORMAL, 1e30, 1.0), LifeLaw(LawFamily.GAMMA, 1e14, 0.05)]
)
def test_the_table_of_a_wide_law_is_right_within_the_years_of_a_job(law: LifeLaw) -> None:
    ages, hazards = hazard_table(law)
    years = np.geomspace(1.0, 3e9, 1000)
    apart = np.exp(-np.interp(years, ages, hazards)) - np.exp(-cumulative_hazard(law, years))
    assert np.abs(apart).max() < 2e-4
    assert 0.0 < tail_mean_seconds(law) <= 1e300


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_family_and_shape_are_right_on_generated_tables_with_censored_lives(family: Family) -> None:
    for seed in range(2):
        fit = fit_law(generated(family, 2000, seed))
        assert fit.events < 0.85 * fit.units
        assert fit.law.family == family.family
        if family.shape is not None:
            assert fit.law.shape == pytest.approx(family.shape, rel=0.1)
            assert fit.shape_low is not None
            assert fit.shape_high is not None
            assert fit.shape_low < fit.law.shape < fit.shape_high
        assert [each.bic for each in fit.candidates] == sorted(each.bic for each in fit.candidates)


def test_the_unit_of_time_changes_the_scale_alone() -> None:
    sample = generated(FAMILIES[2], 400, 1)
    hours, days = fit_law(sample), fit_law(Lives(sample.seconds / 24.0, sample.failed))
    assert hours.law.family == days.law.family
    assert hours.law.shape == pytest.approx(days.law.shape, rel=1e-6)
    assert hours.law.scale_seconds == pytest.approx(24.0 * days.law.scale_seconds, rel=1e-6)


def test_lives_that_no_family_fits_give_their_own_law() -> None:
    """Half of the units fail young and half after a long time without any failure."""
    rng = np.random.default_rng(4)
    seconds = np.concatenate([rng.uniform(1.0, 10.0, 400), rng.uniform(900.0, 1000.0, 400)])
    sample = Lives(seconds, rng.random(800) < 0.9)
    fit = fit_law(sample)
    assert fit.misfit > MAX_MISFIT
    assert fit.law.family == LawFamily.EMPIRICAL
    assert fit.shape_low is None
    assert largest_misfit(sample, fit.law) < 0.5
    assert len(fit.law.ages_seconds) <= 256
    ages, hazard = nelson_aalen(sample)
    assert cumulative_hazard(fit.law, ages) == pytest.approx(hazard, abs=0.03)
