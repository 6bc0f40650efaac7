"""How wide plans are stated: no single namespace of several decides it for others, and each has the spread of its own runs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperscale.evaluate.calibration.speed_fit import ANY, corrections_of
from hyperscale.evaluate.calibration.taught_run import TaughtRun
from hyperscale.model.history.corrections import Corrections, own_key, shared_corrections
from hyperscale.model.planning import chosen_corrections
from hyperscale.planner.cost.agreed_spread import PRIOR_SPREAD, agreed_spread, quarter_shares
from tests.builders.clusters import POLICY, training
from tests.unit.evaluate.test_speed_fit import RACK, run

SPREADS = st.floats(0.05, 1.0)
WILD = (19.0, 1.0 / 19.0)


def noisy(namespace: str, spread: float, count: int = 24, seed: int = 1, architecture: str = "GCN") -> list[TaughtRun]:
    chance = np.random.default_rng(seed)
    drawn = [math.exp(chance.normal(0.0, spread)) for _ in range(count)]
    return [run({"A": 1.0}, ratio, namespace=namespace, architecture=architecture) for ratio in drawn]


def wild(namespace: str, count: int = 96, architecture: str = "GCN") -> list[TaughtRun]:
    """On eight products, so that they count for more."""
    return [run({f"X{n % 8}": 1.0}, WILD[n // 8 % 2], namespace=namespace, architecture=architecture) for n in range(count)]


@given(SPREADS, st.lists(SPREADS, min_size=1, max_size=6), SPREADS, SPREADS)
def test_whatever_one_namespace_reports_the_spread_is_between_those_of_others(
    pooled: float, honest: list[float], forged: float, moved: float
) -> None:
    spread = agreed_spread(moved, [*honest, forged])
    assert min(*honest, PRIOR_SPREAD) <= spread <= max(*honest, PRIOR_SPREAD)
    assert agreed_spread(pooled, honest[:1]) <= max(honest[0], PRIOR_SPREAD)


def test_namespaces_that_agree_are_believed() -> None:
    assert agreed_spread(0.4, [0.38, 0.42]) == 0.38
    assert agreed_spread(0.2, [0.4, 0.4, 0.05]) == 0.4
    assert agreed_spread(0.06, [0.05, 0.06, 0.07]) == 0.06


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.floats(0.01, 1.0)), min_size=1, max_size=40))
def test_no_namespace_counts_for_more_than_a_third_of_the_others_before(runs: list[tuple[str, float]]) -> None:
    names = [*(name for name, _ in runs), "one", "two"]
    counts = [*(count for _, count in runs), 0.5, 0.5]
    kept = quarter_shares(names, counts)
    for name in set(names):
        own = math.fsum(count for each, count in zip(names, kept, strict=True) if each == name)
        others = math.fsum(count for each, count in zip(names, counts, strict=True) if each != name)
        assert own <= others / 3.0 * (1.0 + 1e-9)
    assert all(0.0 < one <= count for one, count in zip(kept, counts, strict=True))


@pytest.mark.parametrize("others", [("a",), ("a", "b"), ("a", "b", "c"), tuple("abcdefgh")])
def test_wild_runs_of_one_namespace_widen_no_plan_of_others(others: tuple[str, ...]) -> None:
    honest = [one for number, name in enumerate(others) for one in noisy(name, 0.08, seed=number)]
    taught = corrections_of([*honest, *wild("liar")])
    for namespace in (*others, "newcomer"):
        chosen = chosen_corrections(taught, training(model={"architecture": "GCN"}), POLICY, namespace)
        assert chosen is not None
        assert chosen.spread <= 0.2


@pytest.mark.parametrize("ratio", [0.25, 0.5, 2.0, 4.0, 15.0])
@pytest.mark.parametrize("products", [1, 8])
def test_a_namespace_that_contradicts_another_neither_moves_nor_widens_its_plans(ratio: float, products: int) -> None:
    """Of two, nothing says which is right: the factors of all lie between, and each goes by its own level."""
    lies = [run({"A" if products == 1 else f"X{n % products}": 1.0}, ratio, namespace="liar") for n in range(96)]
    taught = corrections_of([*noisy("honest", 0.08), *lies])
    own = taught[own_key("GCN", "honest")]
    assert own.spread < 0.12
    assert next(factor.factor for factor in own.products if factor.name == "A") == pytest.approx(1.0, rel=0.1)


@pytest.mark.parametrize("lie", [0.25, 4.0])
def test_a_lie_about_links_neither_moves_nor_widens_the_plans_of_another(lie: float) -> None:
    honest = [run({"A": 0.5}, ratio, link=1.0, namespace="honest") for ratio in (0.95, 1.0, 1.05) * 8]
    taught = corrections_of([*honest, *(run({"A": 0.5}, link=1.0, namespace="liar", truth={RACK: lie}) for _ in range(96))])
    own = taught[own_key("GCN", "honest")]
    predicted = (0.5 * own.products[0].factor + own.tiers[0].factor) / 1.5
    assert own.spread < 0.12
    assert predicted == pytest.approx(1.0, rel=0.1)


def test_runs_that_pretend_to_be_exact_narrow_no_plan_of_others() -> None:
    taught = corrections_of([*noisy("a", 0.4), *noisy("b", 0.4, seed=2), *noisy("liar", 0.0, 96)])
    assert taught[own_key("GCN", "a")].spread == pytest.approx(0.4, rel=0.35)
    assert taught["GCN"].spread > 0.25


def test_a_namespace_alone_with_an_architecture_does_not_say_how_wide_plans_of_others_are() -> None:
    taught = corrections_of([*noisy("a", 0.05), *wild("liar", 24, "GAT")])
    assert taught["GAT"].spread == PRIOR_SPREAD
    assert taught[own_key("GAT", "liar")].spread > 0.5


def test_a_single_namespace_decides_by_its_own_runs() -> None:
    taught = corrections_of(noisy("team", 0.4))
    assert set(taught) == {ANY, "GCN"}
    assert taught["GCN"].spread == pytest.approx(0.4, rel=0.35)


def test_own_corrections_of_runs_that_agree_differ_in_the_spread_only_and_tell_no_namespace() -> None:
    taught = corrections_of([*noisy("quiet", 0.02), *noisy("noisy", 0.3), *noisy("new", 0.1, 4)])
    assert not any("quiet" in key for key in taught)
    assert set(shared_corrections(taught)) == {ANY, "GCN"}
    assert own_key("GCN", "new") not in taught
    quiet, loud = taught[own_key("GCN", "quiet")], taught[own_key("GCN", "noisy")]
    assert quiet.spread < 0.1 < loud.spread
    assert factors(quiet) == factors(loud) == factors(taught["GCN"])


def factors(corrections: Corrections) -> tuple[object, ...]:
    return (corrections.untried, corrections.products, corrections.tiers, corrections.insides, corrections.cards, corrections.runs)


@pytest.mark.parametrize("ratio", [0.25, 4.0])
def test_a_contradiction_of_two_widens_the_plans_of_a_third_until_its_fifth_run(ratio: float) -> None:
    two = [*noisy("honest", 0.08), *(run({"A": 1.0}, ratio, namespace="liar") for _ in range(24))]
    spreads = []
    for count in (0, 5):
        taught = corrections_of([*two, *noisy("third", 0.08, count, seed=3)])
        chosen = chosen_corrections(taught, training(model={"architecture": "GCN"}), POLICY, "third")
        assert chosen is not None
        spreads.append(chosen.spread)
    assert spreads[1] <= 0.2 < spreads[0]
