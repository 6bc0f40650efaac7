"""A fault, facts that show it, and what the fix must name."""

from __future__ import annotations

from typing import NamedTuple

from hyperscale.doctor.facts import (
    Facts,
)
from hyperscale.doctor.faults import Fault, FindingState
from tests.unit.doctor.doctor_facts import (
    agent,
    mpi_operator,
    plugin,
)


class Case(NamedTuple):
    fault: Fault
    facts: Facts
    fix: str
    state: FindingState = FindingState.WARNING
    also: frozenset[Fault] = frozenset()


OTHERS = (agent(), mpi_operator(), plugin())
ERROR, INFO = FindingState.ERROR, FindingState.INFO
