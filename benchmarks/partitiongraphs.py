"""Graphs that partitioners are measured on: two citation graphs as published, four families generated from a seed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from scipy.spatial import Delaunay, cKDTree

from hyperscale.model.adjacency import Adjacency, Array
from hyperscale.training.data import read, symmetric

RMAT_PROBABILITIES = (0.57, 0.19, 0.19)
"""Of three of the four quadrants, as Graph500 has them; the last has the rest."""
RMAT_EDGE_FACTOR = 16


def adjacency_of(vertices: int, first: Array, second: Array) -> Adjacency:
    """An undirected graph from pairs, (m,) each; loops and repetitions vanish."""
    kept = first != second
    ones = np.ones(int(kept.sum()), dtype=np.int8)
    matrix = sp.coo_array((ones, (first[kept], second[kept])), shape=(vertices, vertices)).tocsr()
    matrix = (matrix + matrix.T).tocsr()
    matrix.sort_indices()
    return Adjacency(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32))


def citation(name: str) -> Adjacency:
    """Return the adjacency of Cora or CiteSeer."""
    return symmetric(read("builtin", name, "NPZ", cache=None))


def rmat(scale: int, seed: int) -> Adjacency:
    """Graph500's Kronecker graph: 2^scale vertices, 16 pairs for each, of which some repeat; many vertices have no edge."""
    rng = np.random.default_rng(seed)
    pairs = RMAT_EDGE_FACTOR << scale
    first, second = np.zeros(pairs, dtype=np.int64), np.zeros(pairs, dtype=np.int64)
    a, b, c = np.cumsum(RMAT_PROBABILITIES)
    for _ in range(scale):
        drawn = rng.random(pairs)
        first = 2 * first + (drawn >= b)
        second = 2 * second + (((drawn >= a) & (drawn < b)) | (drawn >= c))
    names = rng.permutation(1 << scale)
    return adjacency_of(1 << scale, names[first], names[second])


def grid(side: int) -> Adjacency:
    """A square mesh of side × side vertices."""
    ids = np.arange(side * side).reshape(side, side)
    first = np.concatenate([ids[:, :-1].ravel(), ids[:-1].ravel()])
    second = np.concatenate([ids[:, 1:].ravel(), ids[1:].ravel()])
    return adjacency_of(side * side, first, second)


def rgg(vertices: int, seed: int) -> Adjacency:
    """A random geometric graph in the unit square, radius 0.55 sqrt(ln n / n) as in the KaHIP test set."""
    points = np.random.default_rng(seed).random((vertices, 2))
    pairs = cKDTree(points).query_pairs(0.55 * np.sqrt(np.log(vertices) / vertices), output_type="ndarray")
    return adjacency_of(vertices, pairs[:, 0], pairs[:, 1])


def delaunay(vertices: int, seed: int) -> Adjacency:
    """The Delaunay triangulation of random points in the unit square."""
    corners = Delaunay(np.random.default_rng(seed).random((vertices, 2))).simplices
    pairs = np.concatenate([corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [0, 2]]])
    return adjacency_of(vertices, pairs[:, 0], pairs[:, 1])


def neighbourhood(adjacency: Adjacency, vertices: int, seed: int) -> Adjacency:
    """The graph among the `vertices` that a breadth-first walk from a drawn vertex of many neighbours meets first."""
    rng = np.random.default_rng(seed)
    start = int(rng.choice(np.argsort(np.diff(adjacency.indptr))[-max(adjacency.vertices // 10, 1) :]))
    met, queue = {start: 0}, [start]
    for vertex in queue:
        for other in adjacency.indices[adjacency.indptr[vertex] : adjacency.indptr[vertex + 1]].tolist():
            if other not in met and len(met) < vertices:
                met[other] = len(met)
                queue.append(other)
    pairs = [
        (place, met[other])
        for vertex, place in met.items()
        for other in adjacency.indices[adjacency.indptr[vertex] : adjacency.indptr[vertex + 1]].tolist()
        if other in met
    ]
    both = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return adjacency_of(len(met), both[:, 0], both[:, 1])


def families(quick: bool) -> dict[str, Callable[[int], Adjacency]]:
    """Makers of the graphs, by a seed that the citation graphs and the grid do not need."""
    return {
        "cora": lambda seed: citation("Cora"),
        "citeseer": lambda seed: citation("CiteSeer"),
        "grid": lambda seed: grid(100 if quick else 300),
        "rgg": lambda seed: rgg(1 << (13 if quick else 15), seed),
        "delaunay": lambda seed: delaunay(1 << (13 if quick else 15), seed),
        "rmat": lambda seed: rmat(12 if quick else 16, seed),
    }
