"""The checker that Coq proves, extracted: it and z3 name the same broken constraints as the Python checker."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.verify_cases import PlanCase, sound_cases
from benchmarks.verify_mutants import KINDS, mutant
from benchmarks.verify_oracle import runs
from hyperscale.evaluate.verify import proof
from hyperscale.evaluate.verify.normal_form import Constraint, PlanFacts, PlanLimits
from hyperscale.evaluate.verify.placement_solver import unsatisfied
from hyperscale.evaluate.verify.plan_checker import broken_constraints
from tests.builders.normal_forms import random_case
from tests.proofs.extracted import ASSUMPTIONS, extracted_checker, verdicts
from tests.proofs.toolchain import Toolchain, ToolchainMissingError, toolchain

PLANS = 12
RANDOM_PLANS = 1500
PLANS_FOR_Z3 = 100


@pytest.fixture(scope="module")
def coq() -> Toolchain:
    try:
        extracted_checker()
        return toolchain()
    except ToolchainMissingError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def cases() -> list[PlanCase]:
    return list(sound_cases(PLANS, 7))


def by_python(limits: PlanLimits, facts: PlanFacts) -> frozenset[Constraint]:
    return frozenset(one.constraint for one in broken_constraints(limits, facts))


@pytest.fixture(scope="module")
def drawn() -> list[tuple[PlanLimits, PlanFacts]]:
    return [random_case(np.random.default_rng([3, number])) for number in range(RANDOM_PLANS)]


def test_drawn_plans_break_every_constraint_and_some_break_none(drawn: list[tuple[PlanLimits, PlanFacts]]) -> None:
    broken = [by_python(*one) for one in drawn]
    assert frozenset().union(*broken) == frozenset(Constraint)
    assert frozenset() in broken


def test_the_proof_rests_on_no_axioms(coq: Toolchain) -> None:
    theorems = (Path(proof.__file__).parent / "PlanChecker.v").read_text().count("Print Assumptions")
    printed = (extracted_checker().parent / ASSUMPTIONS).read_text()
    assert printed.splitlines() == ["Closed under the global context"] * theorems


def test_the_proof_leaves_nothing_out() -> None:
    text = (Path(proof.__file__).parent / "PlanChecker.v").read_text()
    assert not [word for word in ("Admitted", "Axiom", "Parameter", "Hypothesis", "admit") if word in text]


def test_the_extracted_checker_names_the_same_broken_constraints_as_python(
    coq: Toolchain, drawn: list[tuple[PlanLimits, PlanFacts]]
) -> None:
    assert verdicts(drawn) == [by_python(*one) for one in drawn]


def test_z3_names_the_same_broken_constraints_as_python(drawn: list[tuple[PlanLimits, PlanFacts]]) -> None:
    pytest.importorskip("z3")
    for limits, facts in drawn[:PLANS_FOR_Z3]:
        assert frozenset(unsatisfied(limits, facts)) == by_python(limits, facts)


def test_sound_plans_run_and_break_nothing(cases: list[PlanCase]) -> None:
    for case in cases:
        limits, facts = case.normal()
        assert broken_constraints(limits, facts) == ()


@pytest.mark.parametrize("kind", KINDS)
def test_a_mutant_is_caught_exactly_where_the_oracle_cannot_run_it(kind: str, cases: list[PlanCase]) -> None:
    number = KINDS.index(kind)
    mutants = [one for at, case in enumerate(cases) if (one := mutant(kind, case, np.random.default_rng([number, at]))) is not None]
    assert mutants
    for one in mutants:
        assert bool(broken_constraints(one.limits, one.facts)) != runs(one)


def test_all_checkers_agree_on_mutants_of_every_kind(coq: Toolchain, cases: list[PlanCase]) -> None:
    drawn = [mutant(kind, case, np.random.default_rng([9, at])) for kind in KINDS for at, case in enumerate(cases)]
    mutants = [one for one in drawn if one is not None]
    ours = [by_python(one.limits, one.facts) for one in mutants]
    assert verdicts([(one.limits, one.facts) for one in mutants]) == ours
