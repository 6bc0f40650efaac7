"""Mutations of sound plans: faults in the plan, in its question, in the cluster, and in what the plan's ranks hold.

A mutation may change nothing that matters; `verify_oracle` sorts such equivalent mutants out.
"""

from __future__ import annotations

from typing import Final

import msgspec

from benchmarks.verify_case_mutants import CASE_KINDS
from benchmarks.verify_cases import PlanCase
from benchmarks.verify_draws import Rng, arriving
from benchmarks.verify_fact_mutants import FACT_KINDS
from hyperscale.evaluate.verify.normal_form import PlanFacts, PlanLimits

KINDS: Final = (*CASE_KINDS, *FACT_KINDS)


class Mutant(msgspec.Struct, frozen=True):
    """A changed plan: as objects, and in normal form."""

    kind: str
    case: PlanCase
    limits: PlanLimits
    facts: PlanFacts


def mutant(kind: str, case: PlanCase, rng: Rng) -> Mutant | None:
    """Return a mutant of that kind; None where the plan has nothing to change in this way. Raises KeyError for another kind."""
    if kind in FACT_KINDS:
        limits, facts = case.normal()
        changed_facts = FACT_KINDS[kind](facts, limits, rng)
        return None if changed_facts is None else Mutant(kind, case, limits, changed_facts)
    if not arriving(case):
        return None  # nothing is placed: all workers run already
    changed = CASE_KINDS[kind](case, rng)
    return None if changed is None else Mutant(kind, changed, *changed.normal())
