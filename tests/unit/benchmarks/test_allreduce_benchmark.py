"""The benchmark of allreduce schedules counts as it says: its peers, its exhaustive search, its goals."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import allreduce, allreduce_rules
from hyperscale.learn.agents.allreduce_instances import AllreduceInstance, draw


def test_random_models_are_in_the_order_of_readiness_and_the_same_for_the_same_seed() -> None:
    first, second = (draw(np.random.default_rng(7)) for _ in range(2))
    assert first == second
    assert list(first.ready_seconds) == sorted(first.ready_seconds)
    assert len(first.sizes_bytes) == len(first.ready_seconds)


def test_exhaustive_search_tries_waiting_and_sending() -> None:
    made = AllreduceInstance((0.0, 1.0, 1.1), (10.0, 10.0, 10.0), 1.0, 0.01)
    assert allreduce_rules.exhaustive(made) == pytest.approx(1.1 + 1.0 + 0.2)


def test_goals_hold_on_a_few_models_and_name_every_peer() -> None:
    rng = np.random.default_rng(3)
    rows = allreduce.goal_rows("few", [draw(rng, most=30) for _ in range(5)])
    assert all(row.holds for row in rows)
    assert [row.method for row in rows] == ["schedule"] * 3 + [allreduce_rules.EMITTED]


def test_every_rule_has_a_ratio_and_none_is_below_the_schedule() -> None:
    rng = np.random.default_rng(4)
    made = [draw(rng, most=20) for _ in range(4)]
    rows = allreduce.compared("few", made)
    assert {row.method for row in rows} == {*allreduce_rules.RULES, "lower bound"}
    assert all(row.value >= 1 - 1e-9 for row in rows if row.unit == "ratio" and row.method != "lower bound")
