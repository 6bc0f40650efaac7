"""The compiled edge loops agree with their numpy twins; streamed parts are parts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hyperscale.model.adjacency import Adjacency
from hyperscale.training import partition
from hyperscale.training.data import edges_to_csr
from hyperscale.training.data.edges_to_csr import in_neighbours, plain_csr
from hyperscale.training.partition import streaming

needs_compiled = pytest.mark.skipif(not edges_to_csr.COMPILED, reason="hyperscale.training.data._kernels is not compiled")


@st.composite
def edge_lists(draw: st.DrawFn) -> tuple[int, np.ndarray, np.ndarray]:
    vertices = draw(st.integers(1, 40))
    ends = st.lists(st.integers(0, vertices - 1), min_size=0, max_size=120)
    sources = draw(ends)
    destinations = draw(st.lists(st.integers(0, vertices - 1), min_size=len(sources), max_size=len(sources)))
    return vertices, np.array(sources, np.int64), np.array(destinations, np.int64)


@needs_compiled
@given(edge_lists(), st.booleans())
@settings(max_examples=50, deadline=None)
def test_counting_sorts_give_what_sorting_keys_gives(edges: tuple[int, np.ndarray, np.ndarray], both: bool) -> None:
    vertices, sources, destinations = edges
    ours, twin = in_neighbours(*edges, both_directions=both), plain_csr(sources, destinations, vertices, both)
    assert np.array_equal(ours[0], twin[0])
    assert np.array_equal(ours[1], twin[1])
    assert ours[1].dtype == np.int32


@needs_compiled
@given(edge_lists(), st.lists(st.integers(1, 9), min_size=1, max_size=6))
@example((33, np.array([0]), np.array([1])), [1, 8, 1])  # prices that are equal but for rounding
@settings(max_examples=50, deadline=None)
def test_the_stream_gives_the_same_parts_compiled_or_not(edges: tuple[int, np.ndarray, np.ndarray], shares: list[int]) -> None:
    graph = Adjacency(*in_neighbours(*edges, both_directions=True))
    wanted = tuple(map(float, shares[: graph.vertices]))
    compiled_parts = partition.split(graph, wanted, partition.FENNEL)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(streaming, "COMPILED", False)
        slow_parts = partition.split(graph, wanted, partition.FENNEL)
    assert np.array_equal(compiled_parts.assignment, slow_parts.assignment)


@given(edge_lists(), st.integers(1, 6))
@settings(max_examples=50, deadline=None)
def test_every_vertex_gets_a_part_and_the_figures_are_true(edges: tuple[int, np.ndarray, np.ndarray], parts: int) -> None:
    graph = Adjacency(*in_neighbours(*edges, both_directions=True))
    parts = min(parts, graph.vertices)
    made = partition.split(graph, (1.0 / parts,) * parts, partition.FENNEL)
    assert made.method == "Fennel"
    assert made.assignment.min(initial=0) >= 0
    assert made.assignment.max(initial=0) < parts
    rows = np.repeat(np.arange(graph.vertices), np.diff(graph.indptr))
    across = made.assignment[rows] != made.assignment[graph.indices]
    assert made.measures.cut == across.sum() // 2
    copies = {(int(made.assignment[row]), int(other)) for row, other in zip(rows[across], graph.indices[across], strict=True)}
    assert made.measures.halo.tolist() == [sum(1 for part, _ in copies if part == number) for number in range(parts)]


def test_ids_outside_the_graph_are_refused_before_the_compiled_loop() -> None:
    for bad in (-1, 3):
        with pytest.raises(ValueError, match="outside 0"):
            in_neighbours(3, np.array([0, bad]), np.array([1, 1]), both_directions=True)
    with pytest.raises(ValueError, match="do not fit"):
        in_neighbours(3, np.array([0, 1]), np.array([1]), both_directions=True)
