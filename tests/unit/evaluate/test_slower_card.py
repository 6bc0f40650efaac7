"""Cards in the fit of speeds: a link is as slow as the slower of its two, as the planner has it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperscale.evaluate.calibration.slower_card import slower_cards
from hyperscale.evaluate.calibration.speed_design import design_of
from hyperscale.evaluate.calibration.speed_fit import corrections_of
from hyperscale.evaluate.calibration.taught_run import TaughtRun
from hyperscale.model.history.corrections import Corrections, Factor, PartKind, PredictedPart
from hyperscale.model.plan import Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.problem.placement_problem import pose
from hyperscale.planner.repair.fixed_shares import held_epochs
from hyperscale.planner.workload.profile import profile
from tests.builders.clusters import POLICY, planned, random_cluster, training

LOGARITHMS = st.lists(st.floats(-1.0, 1.0), min_size=2, max_size=6)


def wait(parts: list[float], factors: list[float]) -> float:
    return float(slower_cards(np.array([parts]), np.log(factors))[0][0])


def link_run(cards: tuple[str, str], seconds: float) -> TaughtRun:
    """A second of arithmetic and one of a link between two cards, which takes `seconds`."""
    parts = [PredictedPart(PartKind.COMPUTE, 1.0, "A", 1e13, 1.0), PredictedPart(PartKind.LINK, 1.0, "rack")]
    parts += [PredictedPart(PartKind.CARD, 1.0, name) for name in cards]
    return TaughtRun("team", "GCN", tuple(parts), 2.0, 1.0 + seconds, 1.0)


def card(corrections: Corrections, name: str) -> float:
    return next(factor.factor for factor in corrections.cards if factor.name == name)


def test_a_link_takes_what_the_slower_of_its_cards_takes() -> None:
    assert wait([1.0, 1.0], [2.0, 1.0]) == pytest.approx(2.0)
    assert wait([1.0, 1.0], [0.5, 1.5]) == pytest.approx(1.5)


def test_two_equal_cards_count_once() -> None:
    assert wait([1.0, 1.0], [1.5, 1.5]) == pytest.approx(1.5)


def test_a_ring_of_equal_hops_takes_what_its_slowest_card_takes() -> None:
    assert wait([1.0] * 5, [1.0, 0.6, 2.5, 1.0, 1.2]) == pytest.approx(2.5)


def test_an_exchange_of_one_node_with_others_is_a_sum_over_its_links() -> None:
    parts = [1.0, 1 / 3, 1 / 3, 1 / 3]
    assert wait(parts, [1.0, 2.0, 0.5, 0.5]) == pytest.approx((2.0 + 1.0 + 1.0) / 3)
    assert wait(parts, [2.0, 1.0, 0.5, 4.0]) == pytest.approx((2.0 + 2.0 + 4.0) / 3)


def test_seconds_that_no_card_carries_keep_their_length() -> None:
    assert wait([0.25, 0.25], [2.0, 0.5]) == pytest.approx(0.5 + 0.125 + 0.5)


@given(LOGARITHMS)
def test_derivatives_of_cards_that_differ_are_those_of_the_wait(logarithms: list[float]) -> None:
    rising = np.sort(np.array(logarithms, dtype=np.float64)) + np.arange(len(logarithms))
    carried = np.array([[0.4] * len(rising)])
    whole, slope = slower_cards(carried, rising)
    for place in range(len(rising)):
        moved = rising.copy()
        moved[place] += 1e-6
        numeric = (slower_cards(carried, moved)[0][0] / whole[0] - 1.0) / 1e-6
        assert slope[0, place] == pytest.approx(numeric, abs=1e-4)


@given(LOGARITHMS, st.randoms(use_true_random=False))
def test_a_wait_lies_between_the_factors_of_its_cards(logarithms: list[float], chance: object) -> None:
    figures = np.array(logarithms, dtype=np.float64)
    whole = slower_cards(np.ones((1, len(figures))), figures)[0][0]
    assert math.exp(min(logarithms)) - 1e-9 <= whole <= math.exp(max(logarithms)) + 1e-9


def test_the_fit_predicts_of_slow_cards_what_the_planner_does() -> None:
    """Placements of two to five nodes on random clusters, one card twice as slow or all of them drawn."""
    chance, errors = np.random.default_rng(5), []
    for seed in range(24):
        snapshot, workers = random_cluster(seed, 8, gpus=1 + seed % 2), int(chance.integers(2, 6))
        job = training(workers={"minReplicas": workers, "maxReplicas": workers})
        plan = planned(snapshot, job)
        names = sorted({worker.node for worker in plan.workers})
        drawn = np.exp(chance.normal(0.0, 0.3, len(names)))
        cards = dict(zip(names, np.where(np.arange(len(names)) == seed % len(names), 2.0, 1.0) if seed % 2 else drawn, strict=True))
        factors = tuple(Factor(name, float(figure), 0.0, 9) for name, figure in cards.items())
        corrections = Corrections(untried=Factor("", 1.0, 0.0, 9), cards=factors)
        problem = pose(PlanRequest(job_key="t/j", job=job, corrections=corrections), build(snapshot, POLICY), profile(job), POLICY)
        places = {name: place for place, name in enumerate(problem.names)}
        members, order = np.unique([places[worker.node] for worker in plan.workers], return_inverse=True)
        share = np.array([worker.share for worker in plan.workers])
        seconds = float(held_epochs(problem.costs(members), order[None, :], share)[0])
        errors.append(abs(fit_error(plan, cards, seconds)))
    assert np.mean(errors) < 0.02
    assert np.median(errors) < 1e-3


def fit_error(plan: Plan, cards: dict[str, float], seconds: float) -> float:
    """Return ln(seconds / what the fit predicts with these factors of cards)."""
    design = design_of([TaughtRun("team", "GCN", plan.predicted.parts, plan.predicted.epoch_seconds, seconds)])
    mean = np.zeros(len(design.keys))
    for name, place in design.places(PartKind.CARD):
        mean[place] = math.log(cards[name])
    return float(design.residuals(mean)[0][0])


def test_a_slow_card_is_told_from_its_fast_partners() -> None:
    pairs = [("n1", "n2"), ("n1", "n3"), ("n2", "n3"), ("n2", "n4"), ("n3", "n4")] * 6
    learned = corrections_of([link_run(pair, 2.0 if "n1" in pair else 1.0) for pair in pairs])["GCN"]
    tier = learned.tiers[0].factor
    assert tier * card(learned, "n1") == pytest.approx(2.0, rel=0.05)
    assert all(tier * max(card(learned, one), card(learned, other)) == pytest.approx(1.0, abs=0.08) for one, other in pairs[2:5])


def test_one_disturbed_run_makes_no_card_slow() -> None:
    learned = corrections_of([*[link_run(("n2", "n3"), 1.0)] * 8, link_run(("n1", "n2"), 6.0)])["GCN"]
    assert card(learned, "n1") < 1.25


def test_two_cards_that_only_ran_together_share_the_blame() -> None:
    learned = corrections_of([*[link_run(("n1", "n2"), 2.0)] * 9, *[link_run(("n3", "n4"), 1.0)] * 9])["GCN"]
    assert card(learned, "n1") == pytest.approx(card(learned, "n2"), rel=0.02)
    assert card(learned, "n1") > 1.3
