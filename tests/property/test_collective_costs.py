"""Whatever the machine: more bytes, slower links and longer waits never make an allreduce faster."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hyperscale.planner.cost.collectives import algorithms

SHARP = st.sampled_from([0.0, 0.74, 0.85])
LINKS = st.tuples(st.floats(0.0, 1e-2), st.floats(1e-13, 1e-6))


@given(
    nodes=st.integers(1, 40),
    members=st.integers(1, 16),
    sharp=SHARP,
    more=st.floats(1.0, 10.0),
    data=st.data(),
)
def test_no_worse_machine_is_faster(nodes: int, members: int, sharp: float, more: float, data: st.DataObject) -> None:
    payload, between, inside = data.draw(st.floats(1.0, 1e11)), data.draw(LINKS), data.draw(LINKS)
    choices = algorithms(nodes * members, nodes, sharp)
    seconds = [each.seconds(payload, between, inside) for each in choices]
    assert all(value > 0.0 for value in seconds)
    for worse in (
        (payload * more, between, inside),
        (payload, (between[0] * more, between[1] * more), inside),
        (payload, between, (inside[0] * more, inside[1] * more)),
    ):
        assert all(each.seconds(*worse) >= value for each, value in zip(choices, seconds, strict=True))


@given(nodes=st.integers(1, 40), members=st.integers(1, 16))
def test_a_ring_passes_every_rank_twice_wherever_it_runs(nodes: int, members: int) -> None:
    ranks = nodes * members
    if ranks > 1:
        _, simple, *_ = algorithms(ranks, nodes)
        assert abs(simple.between_hops + simple.inside_hops * 5.0 / 3.4 - 2 * (ranks - 1)) < 1e-9


@given(nodes=st.integers(1, 40), members=st.integers(2, 16), sharp=SHARP, payload=st.floats(1.0, 1e11), data=st.data())
def test_the_form_of_one_load_is_never_faster_where_the_inside_has_the_latency_that_it_assumes(
    nodes: int, members: int, sharp: float, payload: float, data: st.DataObject
) -> None:
    between, rate = data.draw(LINKS), data.draw(st.floats(1e-13, 1e-6))
    for each in algorithms(nodes * members, nodes, sharp):
        one = each.collective
        seconds = one.between_hops * between[0] + one.inside_hops * 5e-6 + one.byte_factor * payload * max(between[1], rate)
        assert seconds >= each.seconds(payload, between, (5e-6, rate)) * (1.0 - 1e-9)
