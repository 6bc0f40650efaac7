"""Whatever the machine: more bytes, slower links and longer waits never make an allreduce faster."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hyperscale.planner.cost.collectives import allreduce

LINKS = st.tuples(st.floats(0.0, 1e-2), st.floats(1e-13, 1e-6))


@given(
    nodes=st.integers(1, 40),
    members=st.integers(1, 16),
    sharp=st.sampled_from([0.0, 0.74, 0.85]),
    more=st.floats(1.0, 10.0),
    data=st.data(),
)
def test_no_worse_machine_is_faster(nodes: int, members: int, sharp: float, more: float, data: st.DataObject) -> None:
    payload, between, inside = data.draw(st.floats(1.0, 1e11)), data.draw(LINKS), data.draw(LINKS)
    algorithms = allreduce(nodes * members, nodes, sharp)
    seconds = [each.seconds(payload, between, inside) for each in algorithms]
    assert all(value > 0.0 for value in seconds)
    for worse in (
        (payload * more, between, inside),
        (payload, (between[0] * more, between[1] * more), inside),
        (payload, between, (inside[0] * more, inside[1] * more)),
    ):
        assert all(each.seconds(*worse) >= value for each, value in zip(algorithms, seconds, strict=True))


@given(nodes=st.integers(1, 40), members=st.integers(1, 16))
def test_a_ring_passes_every_rank_twice_wherever_it_runs(nodes: int, members: int) -> None:
    ranks = nodes * members
    if ranks > 1:
        _, simple, *_ = allreduce(ranks, nodes)
        assert abs(simple.between_hops + simple.inside_hops * 5.0 / 3.4 - 2 * (ranks - 1)) < 1e-9
