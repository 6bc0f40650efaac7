"""Decisions of every check of the chain, and the status after them, against their records (see CONTRIBUTING.md, Tests)."""

from __future__ import annotations

import msgspec
import pytest

from hyperscale.control.decide.chain import CHAIN
from hyperscale.model.decision import Decision
from hyperscale.model.observed.reconcile_input import ReconcileInput
from tests.behaviour import decisions, stored
from tests.behaviour.looks import LOOKS


def deciding(look: ReconcileInput) -> str:
    """Name of the first check of the chain that has an opinion; "" where none has."""
    return next((check.__name__ for check in CHAIN if check(look) is not None), "")


@pytest.mark.parametrize("case", LOOKS)
def test_decision_and_status_are_as_recorded(case: str) -> None:
    stored.assert_as_recorded(decisions.KIND, case, decisions.output(LOOKS[case]))


@pytest.mark.parametrize("case", LOOKS)
def test_the_same_look_gives_the_same_bytes(case: str) -> None:
    assert stored.text(decisions.output(LOOKS[case])) == stored.text(decisions.output(LOOKS[case]))


def test_every_check_of_the_chain_decides_at_least_one_look() -> None:
    decided = {deciding(look) for look in LOOKS.values()}
    assert [check.__name__ for check in CHAIN if check.__name__ not in decided] == []
    assert "" in decided


def test_every_kind_of_decision_is_recorded_with_all_its_fields() -> None:
    assert set(decisions.STEPS) == set(Decision.__subclasses__())
    for kind, (_, fields) in decisions.STEPS.items():
        own = {field.name for field in msgspec.structs.fields(kind)} - {"reason", "message"}
        assert set(fields.values()) == own, kind
    recorded = {stored.read(decisions.KIND, case)["decision"]["step"] for case in LOOKS}
    assert recorded == {step for step, _ in decisions.STEPS.values()}
