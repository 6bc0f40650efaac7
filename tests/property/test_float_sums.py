"""Sums of floats do not depend on the version of Python."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperscale.util.float_sums import sum_in_order
from tests.behaviour import plans, queues
from tests.behaviour.plan_cases import PLAN_CASES


@given(st.lists(st.floats(allow_nan=False)))
def test_a_sum_is_rounded_after_every_addition(values: list[float]) -> None:
    total = 0.0
    for value in values:
        total = total + value
    assert repr(sum_in_order(values)) == repr(total)


def test_ten_tenths_are_less_than_one_on_every_python() -> None:
    assert sum_in_order([0.1] * 10) == 0.9999999999999999


@pytest.fixture(name="float_sums")
def float_sums_fixture(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Lines of the planner that add floats with the built-in sum, which rounds by the version of Python."""
    lines, built_in = set[str](), builtins.sum

    def watched(values: Iterable[Any], /, start: Any = 0) -> Any:
        total, caller = built_in(values, start), sys._getframe(1)
        if type(total) is float and caller.f_globals.get("__name__", "").startswith("hyperscale.planner."):
            lines.add(f"{caller.f_code.co_filename}:{caller.f_lineno}")
        return total

    monkeypatch.setattr(builtins, "sum", watched)
    return lines


def test_plans_and_the_order_of_jobs_need_no_built_in_sum_of_floats(float_sums: set[str]) -> None:
    for case in sorted(PLAN_CASES)[::8]:
        plans.output(PLAN_CASES[case])
    for question in queues.QUESTIONS:
        queues.output(question)
    assert not float_sums, float_sums
