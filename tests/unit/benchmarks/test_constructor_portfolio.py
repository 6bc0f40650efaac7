"""The comparison of search with and without the constructor: the same problems as the product's, equal processor time, no gain invented."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.families import instance
from benchmarks.suites.constructor_portfolio import COMPLETE, Pair, Timed, helps, in_default_path, learned_instance, timed, walk_on
from hyperscale.planner.search.heuristic import Heuristic


@pytest.mark.parametrize("family", ["geo", "zones", "wan"])
def test_links_as_arrays_make_the_problem_that_link_objects_make(family: str) -> None:
    fast, slow = learned_instance(family, 24, 4, 7), instance("hulk" if family == "wan" else family, 24, 4, 7)
    if family == "wan":
        assert fast.costs.blocked.any()
        assert np.array_equal(fast.costs.blocked, fast.costs.blocked.T)
        return
    assert fast.problem.names == slow.problem.names
    for field in ("latency_seconds", "seconds_per_byte", "flops_per_second", "blocked"):
        assert np.allclose(getattr(fast.costs, field), getattr(slow.costs, field), rtol=1e-12), field


def test_walking_on_is_never_worse_and_takes_the_time_given() -> None:
    problem = learned_instance("random", 32, 8, 11).problem
    cut = timed(lambda until: Heuristic().candidates(problem, until), 0.0)
    longer = walk_on(problem, cut, 0.02)
    assert longer.objective <= cut.objective < math.inf
    assert longer.seconds >= cut.seconds
    assert walk_on(problem, Timed(math.inf, 0.1), 1.0).objective == math.inf


def test_a_gain_must_be_significant() -> None:
    def pairs(*ratios: float) -> list[Pair]:
        return [Pair(COMPLETE, 32, "geo", at, Timed(ratio, 1.0), Timed(1.0, 1.0)) for at, ratio in enumerate(ratios)]

    assert helps(pairs(*np.linspace(0.90, 0.99, 12)))
    assert not helps(pairs(*[1.0] * 12))
    assert not helps(pairs(0.9, 0.99, 1.0, 1.0, 1.01))
    assert not helps(pairs(*np.linspace(1.01, 1.10, 12)))


def test_the_default_path_is_search_alone() -> None:
    assert not in_default_path(24, 4)
