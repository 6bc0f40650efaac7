"""Data sets of many graphs: which graphs each part gets."""

from __future__ import annotations

import numpy as np

from hyperscale.model.adjacency import Array, TrainingGraph


def deal(graph: TrainingGraph, shares: tuple[float, ...], seed: int) -> Array:
    """(n,) int32 part of each vertex: whole graphs, so that every part has its share of the training, validation and test graphs.

    Nothing is cut, so that only the counts matter: graphs are drawn in an order by `seed` and dealt by share within each split.
    """
    if graph.graph_offsets is None:
        raise ValueError("graph_offsets: None; deal() is for data sets of many graphs")
    sizes = np.diff(graph.graph_offsets)
    group = np.select([graph.train, graph.validation, graph.test], [0, 1, 2], 3)
    bounds = np.cumsum(np.asarray(shares, np.float64)) / float(np.sum(shares))
    part = np.zeros(len(sizes), np.int32)
    rng = np.random.default_rng([seed, 5])
    for number in range(4):
        chosen = rng.permutation(np.flatnonzero(group == number))
        place = (np.arange(len(chosen)) + 0.5) / max(len(chosen), 1)
        part[chosen] = np.minimum(np.searchsorted(bounds, place), len(shares) - 1)
    return np.repeat(part, sizes)
