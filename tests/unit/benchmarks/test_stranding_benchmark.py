"""The benchmark that fills openb: its rules, its end and its bound on clusters small enough to check."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from benchmarks.peers.placement.fragmentation import BestFit, DotProduct, GradientDescent, LeastStranding, Tetris
from benchmarks.suites.openb_stranding import OPENB, RULES, Trace, bound, demand_of_trace, filled, read_trace

SMALL = Trace(
    rooms=np.array(((8.0, 96.0, 384.0), (2.0, 104.0, 512.0), (2.0, 16.0, 120.0))),
    sizes=np.array(((1.0, 2.0, 4.0), (1.0, 24.0, 48.0), (8.0, 64.0, 256.0))),
    weights=np.array((0.5, 0.45, 0.05)),
)


@pytest.mark.parametrize("name", RULES)
def test_a_run_ends_when_no_size_fits_anywhere_and_takes_no_more_than_there_is(name: str) -> None:
    outcome = filled(SMALL, RULES[name](SMALL, 3), 3)
    # The smallest size asks for 2 cores and 4 GiB: a GPU stays free only where less is left.
    assert 0.0 <= outcome.stranded <= 12.0
    assert bound(SMALL, outcome.offered) <= outcome.stranded
    assert {type(figure) for figure in (*outcome[:3], outcome.seconds)} == {float}, "rows are written as JSON"
    assert filled(SMALL, RULES[name](SMALL, 3), 3)[:3] == outcome[:3]


def test_figures_kept_by_node_equal_those_computed_again() -> None:
    for rule in (LeastStranding(demand_of_trace(SMALL, SMALL.weights)), GradientDescent(SMALL.weights)):
        rooms = SMALL.rooms.copy()
        rule.start(rooms, SMALL.sizes)
        for node, size in ((0, 1), (0, 1), (1, 0), (2, 0)):
            rooms[node] -= SMALL.sizes[size]
            rule.placed(rooms, node)
        fresh = type(rule)(SMALL.weights) if isinstance(rule, GradientDescent) else LeastStranding(demand_of_trace(SMALL, SMALL.weights))
        fresh.start(rooms, SMALL.sizes)
        for size, node in itertools.product(range(3), range(3)):
            fits = bool((rooms[node] >= SMALL.sizes[size]).all())
            assert not fits or rule.growth(rooms[node])[size] == pytest.approx(fresh.growth(rooms[node])[size])
        assert np.array_equal(rule._growth, fresh._growth)


def test_peers_choose_as_defined() -> None:
    fitting = np.array((0, 1))
    for rule, expected in ((BestFit(), 1), (DotProduct(), 1), (Tetris(), 0)):
        rule.start(SMALL.rooms, SMALL.sizes)
        assert rule.pick(SMALL.rooms, 0, fitting) == expected
    ours = LeastStranding(demand_of_trace(SMALL, SMALL.weights))
    ours.start(SMALL.rooms, SMALL.sizes)
    assert ours.pick(SMALL.rooms, 1, fitting) == 1


def test_the_bound_is_reached_where_only_one_pod_is_offered() -> None:
    assert bound(SMALL, np.array((0, 0, 1))) == 4.0
    assert bound(SMALL, np.array((0, 0, 5))) == 4.0
    assert bound(SMALL, np.array((12, 0, 0))) == 0.0


@pytest.mark.skipif(not OPENB.is_dir(), reason="needs ../shared/data/openb")
def test_the_trace_has_the_pods_with_whole_gpus() -> None:
    trace = read_trace()
    assert (len(trace.rooms), trace.rooms[:, 0].sum(), len(trace.sizes)) == (1213, 6212.0, 73)
    assert (trace.sizes[:, 0] >= 1).all()
