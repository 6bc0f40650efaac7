"""Models that estimate unmeasured links from measured ones; all in logarithms. Pure.

Every model answers with what is to be added to the logarithm of the figure of the links' topology tier, NaN where it does not know.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

import numpy as np

from hyperscale.model.graph import BoolArray, FloatArray, IntArray
from hyperscale.planner.graph import coordinates

MAX_CLASSES: Final = 1500
"""Groups of nodes that a table of all pairs of them is kept for: 18 MB."""
MAX_ALIKE: Final = 200
"""Nodes that are compared with one another."""
NEIGHBOURS: Final = 8
LEAST_WEIGHT: Final = 0.02
"""Of all links between nodes like the one and nodes like the other; 1 is one link between nodes that are the same."""
DIRECTED: Final = 3
"""Samples from which on a direction has a figure of its own."""
RANK: Final = 4
SWEEPS: Final = 4
RIDGE: Final = 0.3


class LinkSamples(NamedTuple):
    """Measured links of one figure."""

    nodes: int
    """How many there are."""
    source: IntArray
    """(m,)"""
    destination: IntArray
    """(m,)"""
    excess: FloatArray
    """(m,) logarithm of the figure over its tier's."""
    tier_logarithm: FloatArray
    """(m,) logarithm of the tier's figure."""


class Model(Protocol):
    """What was learned from links."""

    def excess(self, rows: IntArray, columns: IntArray, tier_logarithm: FloatArray) -> FloatArray:
        """(r, c) to be added to tier_logarithm (r, c); NaN where unknown."""

    def pairs(self, source: IntArray, destination: IntArray, tier_logarithm: FloatArray) -> FloatArray:
        """(m,) the same for single pairs."""

    def support(self, rows: IntArray, columns: IntArray) -> IntArray:
        """(r, c) what the excess rests on: 0 nothing, then levels of domains from the widest on; 1 where the model has no levels."""


class ByDomain(NamedTuple):
    """The median of what was measured between the same two domains, the narrowest that were."""

    table: FloatArray
    """(classes, classes)"""
    depth: IntArray
    """(classes, classes) levels of the domains that the figure is of: 1 the widest, 0 where there is none."""
    classes: IntArray
    """(n,)"""

    def excess(self, rows: IntArray, columns: IntArray, tier_logarithm: FloatArray) -> FloatArray:
        """As Model."""
        del tier_logarithm
        values: FloatArray = self.table[self.classes[rows][:, None], self.classes[columns][None, :]]
        return values

    def pairs(self, source: IntArray, destination: IntArray, tier_logarithm: FloatArray) -> FloatArray:
        """As Model."""
        del tier_logarithm
        values: FloatArray = self.table[self.classes[source], self.classes[destination]]
        return values

    def support(self, rows: IntArray, columns: IntArray) -> IntArray:
        """As Model."""
        depths: IntArray = self.depth[self.classes[rows][:, None], self.classes[columns][None, :]]
        return depths


class ByLikeness(NamedTuple):
    """The weighted median of what was measured between nodes like the one and nodes like the other."""

    table: FloatArray
    """(n, n) logarithm of the figure."""

    def excess(self, rows: IntArray, columns: IntArray, tier_logarithm: FloatArray) -> FloatArray:
        """As Model."""
        values: FloatArray = self.table[rows[:, None], columns[None, :]] - tier_logarithm
        return values

    def pairs(self, source: IntArray, destination: IntArray, tier_logarithm: FloatArray) -> FloatArray:
        """As Model."""
        values: FloatArray = self.table[source, destination] - tier_logarithm
        return values

    def support(self, rows: IntArray, columns: IntArray) -> IntArray:
        """As Model."""
        return np.isfinite(self.table[rows[:, None], columns[None, :]]).astype(np.int64)


class ByFactors(NamedTuple):
    """A sum for each end and a product of few factors of both, on top of another model."""

    under: ByDomain
    left: FloatArray
    """(n, RANK + 1), the sum first."""
    right: FloatArray

    def excess(self, rows: IntArray, columns: IntArray, tier_logarithm: FloatArray) -> FloatArray:
        """As Model."""
        domain_excess = np.nan_to_num(self.under.excess(rows, columns, tier_logarithm))
        sums = self.left[rows][:, None, 0] + self.right[columns][None, :, 0]
        values: FloatArray = domain_excess + sums + self.left[rows][:, 1:] @ self.right[columns][:, 1:].T
        return values

    def pairs(self, source: IntArray, destination: IntArray, tier_logarithm: FloatArray) -> FloatArray:
        """As Model."""
        product = (self.left[source, 1:] * self.right[destination, 1:]).sum(axis=1)
        domain_excess = np.nan_to_num(self.under.pairs(source, destination, tier_logarithm))
        values: FloatArray = domain_excess + self.left[source, 0] + self.right[destination, 0] + product
        return values

    def support(self, rows: IntArray, columns: IntArray) -> IntArray:
        """As Model."""
        return self.under.support(rows, columns)


class ByPlace(NamedTuple):
    """Network coordinates; latency only."""

    places: coordinates.Coordinates

    def excess(self, rows: IntArray, columns: IntArray, tier_logarithm: FloatArray) -> FloatArray:
        """As Model."""
        return self.places.logarithms(rows, columns) - tier_logarithm

    def pairs(self, source: IntArray, destination: IntArray, tier_logarithm: FloatArray) -> FloatArray:
        """As Model."""
        return self.places.pair_logarithms(source, destination) - tier_logarithm

    def support(self, rows: IntArray, columns: IntArray) -> IntArray:
        """As Model."""
        return np.ones((len(rows), len(columns)), dtype=np.int64)


def by_domain(links: LinkSamples, domains: IntArray) -> ByDomain:
    """domains: (n, levels) codes, widest level first, -1 without one."""
    levels = domains.shape[1]
    classes = np.zeros(links.nodes, dtype=np.int64)
    for used in range(levels, -1, -1):
        unique, classes = np.unique(domains[:, :used], axis=0, return_inverse=True)
        if len(unique) <= MAX_CLASSES:
            break
    classes = classes.reshape(-1).astype(np.int64)
    table = np.full((len(unique), len(unique)), np.nan)
    depth = np.zeros(table.shape, dtype=np.int64)
    order = np.argsort(links.excess, kind="stable")  # once for all medians
    links = LinkSamples(links.nodes, links.source[order], links.destination[order], links.excess[order], links.tier_logarithm)
    for level in range(unique.shape[1]):
        source, destination = domains[links.source, level], domains[links.destination, level]
        here = (source >= 0) & (destination >= 0)
        source, destination, excess = source[here], destination[here], links.excess[here]
        lower, upper = np.minimum(source, destination), np.maximum(source, destination)
        depth[_fill(table, unique[:, level], lower, upper, excess, 1, both=True)] = level + 1
        _fill(table, unique[:, level], source, destination, excess, DIRECTED, both=False)
    return ByDomain(table, depth, classes)


def by_likeness(links: LinkSamples) -> ByLikeness:
    """For at most MAX_ALIKE nodes; two are alike where their links to third ones are."""
    logarithms = np.full((links.nodes, links.nodes), np.nan)
    logarithms[links.source, links.destination] = links.excess + links.tier_logarithm
    logarithms = np.where(np.isfinite(logarithms), logarithms, logarithms.T)
    unlike = _unlikeness(logarithms)
    nearest = np.argsort(unlike, axis=1, kind="stable")[:, :NEIGHBOURS]
    weight = np.exp(-10.0 * np.take_along_axis(unlike, nearest, axis=1))
    table = np.full((links.nodes, links.nodes), np.nan)
    for node in range(links.nodes):
        values = logarithms[nearest[node][None, :, None], nearest[:, None, :]].reshape(links.nodes, -1)
        weights = (weight[node][None, :, None] * weight[:, None, :]).reshape(links.nodes, -1)
        table[node] = _weighted_median(values, np.where(np.isfinite(values), weights, 0.0))
    return ByLikeness(table)


def by_factors(links: LinkSamples, under: ByDomain) -> ByFactors:
    """Alternating least squares on what `under` leaves unexplained."""
    classes = under.classes
    rest = links.excess - np.nan_to_num(under.table[classes[links.source], classes[links.destination]])
    rng = np.random.default_rng(0)
    left = np.concatenate([np.zeros((links.nodes, 1)), rng.normal(0, 0.3, (links.nodes, RANK))], axis=1)
    right = np.concatenate([np.zeros((links.nodes, 1)), rng.normal(0, 0.3, (links.nodes, RANK))], axis=1)
    for _ in range(SWEEPS):
        left = _solved(links.nodes, links.source, links.destination, rest, right)
        right = _solved(links.nodes, links.destination, links.source, rest, left)
    return ByFactors(under, left, right)


def by_place(links: LinkSamples) -> ByPlace:
    """Network coordinates."""
    return ByPlace(coordinates.fit(links.nodes, links.source, links.destination, links.excess + links.tier_logarithm))


def _fill(
    table: FloatArray, codes: IntArray, first: IntArray, second: IntArray, excess: FloatArray, least: int, *, both: bool
) -> BoolArray:
    """Medians of `excess` by pair of codes into `table` (classes, classes), where at least `least` samples are; says where that was."""
    if not len(excess):
        return np.zeros(table.shape, dtype=np.bool_)
    width = int(codes.max()) + 1
    keys, medians = _medians(first * width + second, excess, least)
    square = np.full((width + 1, width + 1), np.nan)  # the last row and column are those of -1
    square[keys // width, keys % width] = medians
    if both:
        square = np.where(np.isfinite(square), square, square.T)
    expanded = square[codes[:, None], codes[None, :]]
    finite: BoolArray = np.isfinite(expanded)
    np.copyto(table, expanded, where=finite)
    return finite


def _medians(keys: IntArray, values: FloatArray, least: int) -> tuple[IntArray, FloatArray]:
    """Each key that occurs at least `least` times, and the median of its values, which are in ascending order."""
    order = _rising(keys)
    keys, values = keys[order], values[order]
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    unique, counts = keys[starts], np.diff(np.append(starts, len(keys)))
    medians = (values[starts + (counts - 1) // 2] + values[starts + counts // 2]) / 2
    enough = counts >= least
    return unique[enough], medians[enough]


def _rising(keys: IntArray) -> IntArray:
    """Return the stable order of `keys`, none negative. Sixteen bits at a time: numpy sorts those in linear time."""
    order = np.argsort((keys & 0xFFFF).astype(np.uint16), kind="stable")
    for shift in range(16, int(keys.max()).bit_length(), 16):
        order = order[np.argsort((keys[order] >> shift & 0xFFFF).astype(np.uint16), kind="stable")]
    return order


def _unlikeness(logarithms: FloatArray) -> FloatArray:
    """(n, n) mean difference of the links of two nodes to third ones, at most 1 each; infinite where fewer than two can be compared."""
    count = len(logarithms)
    present: BoolArray = np.isfinite(logarithms)
    filled = np.where(present, logarithms, 0.0)
    unlike = np.full((count, count), np.inf)
    for node in range(count):
        common = present & present[node][None, :]
        gaps = np.where(common, np.minimum(np.abs(filled - filled[node][None, :]), 1.0), 0.0)
        number = common.sum(axis=1)
        enough = number >= 2
        unlike[node, enough] = gaps.sum(axis=1)[enough] / number[enough] + 0.1 / np.sqrt(number[enough])
        unlike[node, node] = 0.0
    return unlike


def _weighted_median(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Of every row; NaN where a row has too little weight to say anything."""
    order = np.argsort(values, axis=1, kind="stable")
    values, weights = np.take_along_axis(values, order, axis=1), np.take_along_axis(weights, order, axis=1)
    sums = np.cumsum(weights, axis=1)
    at = np.minimum((sums < sums[:, -1:] / 2).sum(axis=1), values.shape[1] - 1)
    medians = np.take_along_axis(values, at[:, None], axis=1)[:, 0]
    chosen: FloatArray = np.where(sums[:, -1] > LEAST_WEIGHT, medians, np.nan)
    return chosen


def _solved(count: int, mine: IntArray, other: IntArray, rest: FloatArray, factors: FloatArray) -> FloatArray:
    """(count, RANK + 1) ridge regression of every node's links on the factors of their other ends."""
    width = RANK + 1
    # One row a factor: the sums below then run along the links.
    features = np.concatenate([np.ones((1, len(mine))), factors.T[1:, other]], axis=0)
    target = rest - factors[other, 0]
    grams = np.zeros((count, width, width))
    sides = np.empty((count, width))
    for row in range(width):
        sides[:, row] = np.bincount(mine, features[row] * target, count)
        for column in range(row, width):
            grams[:, row, column] = np.bincount(mine, features[row] * features[column], count)
            grams[:, column, row] = grams[:, row, column]
    grams += RIDGE * np.eye(width)
    return np.asarray(np.linalg.solve(grams, sides[:, :, None])[:, :, 0], dtype=np.float64)
