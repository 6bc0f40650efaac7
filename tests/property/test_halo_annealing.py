"""The compiled annealing of the largest halo against a plain one that counts everything again at every step."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperscale.model.adjacency import Array
from hyperscale.training.partition.compiled_search import halos
from hyperscale.training.partition.levels import Level, boundary
from hyperscale.util.splitmix import SplitMix64

MASK = (1 << 64) - 1
LOW = (1 << 32) - 1


class Draws(SplitMix64):
    """As the compiled search draws."""

    def exponential(self) -> float:
        """-log(u), straight between powers of two."""
        drawn = self.next() | 1
        zeros = 64 - drawn.bit_length()
        return (zeros + 2.0 - float(((drawn << zeros) & MASK) >> 11) / 4503599627370496.0) * 0.6931471805599453


class Plain:
    """The same moves on dense matrices: nothing is kept up to date but the parts and the order of the border."""

    def __init__(self, dense: Array, weights: Array, limits: Array, part: Array, seed: int) -> None:
        self.dense, self.weights, self.limits, self.part, self.draws = dense, weights, limits, part, Draws(seed)
        self.parts = len(limits)
        self.border: list[int] = []
        for vertex in range(len(part)):
            self.stand(vertex)

    def cut(self) -> int:
        """Weight of the edges between parts."""
        return int(self.dense[self.part[:, None] != self.part[None, :]].sum()) // 2

    def copies(self) -> list[int]:
        """Of each part."""
        near = np.stack([(self.dense[:, self.part == part] > 0).any(axis=1) & (self.part != part) for part in range(self.parts)])
        return [int(each) for each in near.sum(axis=1)]

    def stand(self, vertex: int) -> None:
        """Into the border or out of the border; the last one takes the place of one that leaves."""
        outside = bool(((self.dense[vertex] > 0) & (self.part != self.part[vertex])).any())
        if outside and vertex not in self.border:
            self.border.append(vertex)
        elif not outside and vertex in self.border:
            place, last = self.border.index(vertex), self.border.pop()
            if last != vertex:
                self.border[place] = last

    def potential(self, copies: int) -> float:
        """As compiled, operation by operation."""
        x = copies / self.top
        x = x * x
        x = x * x
        return x * x * self.top / 8.0

    def look(self) -> None:
        """What is looked at once in a block of moves."""
        copies = self.copies()
        self.top = float(max(*copies, 1))
        self.tried = []
        for each in copies:
            share = each / self.top
            share = share * share
            self.tried.append(int((0.1 + (1.0 - 0.1) * share * share) * 4294967296.0))

    def attempt(self, heat: float, cut_worth: float, over_worth: float, budget: int) -> int:
        """One drawn move; returns the work."""
        drawn = self.draws.next()
        vertex = self.border[((drawn >> 32) * len(self.border)) >> 32]
        beside = np.flatnonzero(self.dense[vertex])
        low = (drawn & LOW) * len(beside)
        own, to = int(self.part[vertex]), int(self.part[beside[low >> 32]])
        if to == own or (low & LOW) >= max(self.tried[own], self.tried[to]) or (self.part == own).sum() < 2 or not self.fits(vertex, to):
            return 1
        before, cut = self.copies(), self.cut()
        self.part[vertex] = to
        after, dearer = self.copies(), self.cut() - cut
        worse = self.potential(after[own]) + self.potential(after[to]) - self.potential(before[own]) - self.potential(before[to])
        worse += cut_worth * dearer
        worse += over_worth * (max(cut + dearer - budget, 0) - max(cut - budget, 0))
        if worse <= 0 or worse <= heat * self.draws.exponential():
            for other in beside:
                self.stand(int(other))
            self.stand(vertex)
        else:
            self.part[vertex] = own
        return 1 + len(beside)

    def fits(self, vertex: int, to: int) -> bool:
        """Whether every column has room."""
        load = self.weights[self.part == to].sum(axis=0)
        return bool(((self.weights[vertex] == 0) | (load + self.weights[vertex] <= self.limits[to])).all())

    def anneal(self, work: int, hot: float, cut_worth: float, over_worth: float, budget: int) -> None:
        """The whole schedule."""
        left = work
        while self.border and (left > 0 or (self.cut() > budget and left > -(work // 4))):
            self.look()
            done = 1.0 - left / work
            heat = 1.0 - 0.45 * min(done, 1.0)
            heat = hot * heat * heat * heat * heat * heat
            if done > 0.9:
                over_worth = 1e9
                if self.cut() > budget:
                    self.tried = [LOW + 1] * self.parts
            for _ in range(256):
                if not self.border:
                    break
                left -= self.attempt(heat, cut_worth, over_worth, budget)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 5), st.booleans(), st.integers(1, 2), st.sampled_from([0.0, 1.0, 4.0]), st.booleans())
def test_compiled_and_plain_annealing_make_the_same_moves(
    seed: int, parts: int, weighted: bool, columns: int, hot: float, tight: bool
) -> None:
    rng = np.random.default_rng(seed)
    n = 16
    dense = np.triu(rng.integers(1, 5, (n, n)) * (rng.random((n, n)) < 0.2), 1)
    dense = dense + dense.T if weighted else (dense + dense.T > 0).astype(np.int64)
    part = rng.integers(0, parts, n).astype(np.int32)
    weights = rng.integers(0, 3, (n, columns)).astype(np.int64)
    limits = np.ascontiguousarray(np.tile(weights.sum(axis=0) // parts + 2, (parts, 1)))
    plain = Plain(dense, weights, limits, part.copy(), seed)
    budget = plain.cut() - (5 if tight else 0)
    plain.anneal(500, hot, 0.1, 2.0, budget)
    row, column = np.nonzero(dense)
    indptr = np.concatenate([[0], np.cumsum((dense > 0).sum(axis=1))]).astype(np.int64)
    edge_weights = dense[row, column].astype(np.int32) if weighted else np.empty(0, dtype=np.int32)
    level = Level(indptr, column.astype(np.int32), edge_weights, weights)
    cut, copies = halos.anneal(*level.arrays, limits, part, seed, 500, hot, 0.1, 2.0, budget)
    assert part.tolist() == plain.part.tolist()
    found = boundary(level, part, parts)
    assert (cut, copies.tolist()) == (found[0], found[1].tolist())
    if len(column):
        assert (cut, copies.tolist()) == (plain.cut(), plain.copies())


def test_the_middle_of_three_stripes_gives_up_halo_for_a_little_cut() -> None:
    """A square mesh in three stripes, of which the middle one borders on both others."""
    side = 12
    ids = np.arange(side * side).reshape(side, side)
    first = np.concatenate([ids[:, :-1].ravel(), ids[:-1].ravel()])
    second = np.concatenate([ids[:, 1:].ravel(), ids[1:].ravel()])
    order = np.lexsort((np.concatenate([second, first]), np.concatenate([first, second])))
    indices = np.concatenate([second, first])[order].astype(np.int32)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(np.concatenate([first, second])))]).astype(np.int64)
    level = Level(indptr, indices, indices[:0], np.ones((side * side, 1), dtype=np.int64))
    part = np.where(ids % side < 4, 0, np.where(ids % side < 8, 1, 2)).astype(np.int32).ravel()
    cut, copies = boundary(level, part, 3)
    halos.anneal(*level.arrays, np.full((3, 1), 52, dtype=np.int64), part, 1, 400_000, 2.0, 0.05, 1.0, cut + 4)
    after, evened = boundary(level, part, 3)
    assert after <= cut + 4
    assert evened.max() <= 0.9 * copies.max()
