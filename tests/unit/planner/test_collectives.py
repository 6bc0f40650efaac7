"""Rings, trees and NVLink SHARP by hand: hops, factors on bytes, and which one wins where."""

from __future__ import annotations

import pytest

from hyperscale.planner.cost.collectives import Collective, allreduce

GIB = 2.0**30
FAST, SLOW = (5e-6, 1 / 360e9), (20e-6, 1 / 12.5e9)


def fastest(ranks: int, nodes: int, payload: float, sharp: float = 0.0) -> float:
    return min(each.seconds(payload, SLOW, FAST) for each in allreduce(ranks, nodes, sharp))


def test_one_rank_reduces_nothing() -> None:
    assert allreduce(1, 1) == ()


def test_a_ring_on_one_node_has_all_its_hops_inside() -> None:
    _, simple, *_ = allreduce(8, 1)
    assert (simple.between_hops, simple.byte_factor, simple.inside_byte_factor) == (0.0, 1.75, 1.75)
    assert simple.inside_hops == pytest.approx(14 * 3.4 / 5.0)


def test_a_ring_over_two_nodes_crosses_between_them_twice_in_sixteen_hops() -> None:
    _, simple, *_ = allreduce(16, 2)
    assert simple.between_hops == pytest.approx(30 * 2 / 16)
    assert simple.inside_hops == pytest.approx(30 * 14 / 16 * 3.4 / 5.0)
    assert simple.byte_factor == simple.inside_byte_factor == pytest.approx(30 / 16)


def test_a_tree_carries_the_bytes_once_over_the_cards_of_two_nodes_and_twice_of_more() -> None:
    loads = [allreduce(8 * nodes, nodes)[3].byte_factor * 0.92 for nodes in (2, 3, 4, 16)]
    assert loads == pytest.approx([1.0, 2.0, 2.0, 2.0])
    assert [allreduce(8 * nodes, nodes)[3].between_hops for nodes in (2, 3, 4, 16)] == [2.0, 4.0, 4.0, 8.0]


def test_one_rank_a_node_loads_no_links_inside() -> None:
    assert all(each.inside_byte_factor == 0.0 and each.inside_hops == 0.0 for each in allreduce(4, 4, 0.85))


def test_a_small_message_over_many_nodes_takes_a_tree() -> None:
    ring = min(each.seconds(1e6, SLOW, FAST) for each in allreduce(64, 64)[:2])
    assert fastest(64, 64, 1e6) < 0.5 * ring


def test_a_large_message_over_many_nodes_takes_a_ring() -> None:
    ring = min(each.seconds(GIB, SLOW, FAST) for each in allreduce(24, 3)[:2])
    assert fastest(24, 3, GIB) == ring


def test_switches_that_add_up_the_data_pass_each_byte_little_more_than_once() -> None:
    sharp = allreduce(8, 1, 0.85)[-1]
    assert sharp.inside_byte_factor == pytest.approx(1.125 / 0.85)
    assert fastest(8, 1, GIB, 0.85) == pytest.approx(25e-6 + GIB * 1.125 / 0.85 / 360e9)
    assert fastest(8, 1, GIB, 0.85) < fastest(8, 1, GIB)


def test_there_are_as_many_algorithms_for_every_number_of_nodes() -> None:
    assert {len(allreduce(8, nodes)) for nodes in range(1, 9)} == {4}
    assert {len(allreduce(8, nodes, 0.85)) for nodes in range(1, 9)} == {5}


def test_the_more_loaded_of_cards_and_links_sets_the_pace() -> None:
    both = Collective(1.0, 1.0, 2.0, 3.0, 1e-6)
    assert both.seconds(10.0, (0.0, 1.0), (0.0, 0.5)) == pytest.approx(20.0 + 1e-6)
    assert both.seconds(10.0, (0.0, 0.5), (0.0, 1.0)) == pytest.approx(30.0 + 1e-6)
