"""Network coordinates (Vivaldi, SIGCOMM 2004): a place and a height for every node, so that distances resemble latencies. Pure.

All springs pull at once, a fixed number of times, from fixed starting places: the same links give the same coordinates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hyperscale.model.graph import FloatArray, IntArray

DIMENSIONS = 3
STEPS = 120
_LEAST = 1e-9


class Coordinates(NamedTuple):
    """Of n nodes."""

    place: FloatArray
    """(n, DIMENSIONS) seconds."""
    height: FloatArray
    """(n,) seconds: what every path to the node costs besides distance."""

    def logarithms(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """(r, c) logarithm of the latency in seconds."""
        squares = (self.place**2).sum(axis=1)
        gram = self.place[rows] @ self.place[columns].T
        distance = np.sqrt(np.maximum(squares[rows][:, None] + squares[columns][None, :] - 2 * gram, 0.0))
        logarithms: FloatArray = np.log(np.maximum(distance + self.height[rows][:, None] + self.height[columns][None, :], _LEAST))
        return logarithms

    def pair_logarithms(self, source: IntArray, destination: IntArray) -> FloatArray:
        """(m,) the same for single pairs."""
        distance = np.sqrt(((self.place[source] - self.place[destination]) ** 2).sum(axis=1))
        logarithms: FloatArray = np.log(np.maximum(distance + self.height[source] + self.height[destination], _LEAST))
        return logarithms


def fit(count: int, source: IntArray, destination: IntArray, logarithm: FloatArray) -> Coordinates:
    """Coordinates of `count` nodes from links (m,) with the logarithm of their latency in seconds."""
    seconds = np.exp(logarithm)
    scale = float(np.median(seconds)) if len(seconds) else 1.0
    # One row a dimension: the sums below then run along the links.
    place = np.random.default_rng(0).normal(0.0, scale / 2, (count, DIMENSIONS)).T.copy()
    height = np.full(count, 0.1 * scale)
    degree = np.maximum(1, np.bincount(np.concatenate([source, destination]), minlength=count))
    for step in range(STEPS):
        across = [axis[source] - axis[destination] for axis in place]
        distance = np.maximum(np.sqrt(across[0] ** 2 + across[1] ** 2 + across[2] ** 2), _LEAST)
        wanted = distance + height[source] + height[destination]
        # Relative to the longer of both: short links count as much as long ones, and none throws its ends out of the map.
        error = (seconds - wanted) / np.maximum(seconds, wanted)
        force = 0.9 * (1 - step / STEPS) * error * np.minimum(seconds, wanted)
        for axis, gap in zip(place, across, strict=True):
            pull = gap / distance * force
            axis += (np.bincount(source, pull, count) - np.bincount(destination, pull, count)) / degree
        raised = np.bincount(source, force, count) + np.bincount(destination, force, count)
        height = np.maximum(height + 0.25 * raised / degree, 1e-3 * scale)
    return Coordinates(place.T.copy(), height)
