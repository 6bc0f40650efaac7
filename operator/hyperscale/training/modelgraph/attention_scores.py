"""GAT's attention over a sparse matrix's places: softmax over each row, a number for each edge and head, never a row for each edge.

Arrays are by head first, so that a head's numbers lie together as the entries of a matrix. As many heads at a time as HEAD_FLOATS holds;
what has one number for each edge besides is made in blocks of edges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from hyperscale.model.adjacency import Array
from hyperscale.training.modelgraph import kernels
from hyperscale.training.modelgraph.kernels import AttentionRows, Drop
from hyperscale.training.modelgraph.places import Places
from hyperscale.training.modelgraph.tails import blocks, drawn, fits
from hyperscale.util.splitmix import WORD

HEAD_FLOATS: Final = 1 << 26
"""Numbers of an array of edges and heads: 256 MiB; one head's where a graph has more edges than that."""


@dataclass(frozen=True, eq=False)
class Scored:
    """One layer's scores over one graph with H heads."""

    places: Places
    how: AttentionRows
    left: Tensor
    """(H, m), of the sources."""
    right: Tensor
    """(H, n), of the rows."""
    highest: Tensor
    """(H, n) largest score of each row, after leaky ReLU."""
    total: Tensor
    """(H, n) sums of exponentials; the forward pass fills it in."""
    offsets: Array | None
    """(n,) int64 what dropout adds to the numbers of a row's edges, on the processor."""

    def groups(self) -> Iterator[tuple[int, int]]:
        """Bounds of the heads that are taken together."""
        return blocks_of(self.how.heads, max(1, HEAD_FLOATS // max(len(self.places.col), 1)))

    def powers(self, first: int, last: int, positive: Tensor | None = None) -> Tensor:
        """(h, e) exponentials of scores less their row's highest, of heads first to last. positive: (h, e) bool to fill: score above 0."""
        col, row = self.places.col, self.places.row
        powers = self.left.new_empty((last - first, len(col)))
        for begin, end in blocks(len(col), last - first):
            at = row[begin:end]
            piece = self.left[first:last].index_select(1, col[begin:end])
            piece += self.right[first:last].index_select(1, at)
            if positive is not None:
                torch.gt(piece, 0.0, out=positive[:, begin:end])
            functional.leaky_relu_(piece, self.how.slope)
            piece -= self.highest[first:last].index_select(1, at)
            torch.exp(piece, out=powers[:, begin:end])
        return powers

    def by_row(self, values: Tensor) -> Tensor:
        """(h, n) sums of (h, e) over each row's edges."""
        ones = values.new_ones(self.places.sources)
        return torch.stack([self.places.times(one, ones) for one in values])

    def by_source(self, values: Tensor) -> Tensor:
        """(h, m) sums of (h, e) over each source's edges."""
        turned, order = self.places.turned
        ones = values.new_ones(self.places.rows)
        return torch.stack([turned.times(one.index_select(0, order), ones) for one in values])

    def thin_(self, first: int, last: int, *arrays: Tensor) -> None:
        """Multiply (h, e) arrays of heads first to last by what dropout of the attention leaves; the same seed drops the same edges."""
        if not self.how.drop.probability:
            return
        draw = self._drawn(first, last)
        for begin, end in blocks(len(self.places.col), last - first):
            factors = draw(begin, end)
            for array in arrays:
                array[:, begin:end] *= factors

    def _drawn(self, first: int, last: int) -> Callable[[int, int], Tensor]:
        """Of edges begin to end, in order: (h, end - begin) factors; on the processor those that the compiled pass draws."""
        how = Drop(self.how.drop.probability, ~self.how.drop.seed & WORD)
        if not fits(self.left):
            draw = drawn(Drop(how.probability, (how.seed + first) & WORD), self.left)
            return lambda begin, end: draw(last - first, end - begin)

        def on_processor(begin: int, end: int) -> Tensor:
            numbers = np.arange(begin, end, dtype=np.int64)
            if self.offsets is not None:
                numbers += self.offsets[self.places.row[begin:end].numpy()]
            ones = np.ones((end - begin, self.how.heads), dtype=np.float32)
            factors: Array = kernels.drop(ones, how, torch.get_num_threads(), numbers, into=ones)
            return torch.from_numpy(factors[:, first:last]).t()

        return on_processor

    def products(self, first: int, last: int, rows: Tensor, inner: Tensor) -> Tensor:
        """(h, e) products of each edge's row of `rows` (m, H·D) and of `inner` (n, H·D), by head from first to last."""
        if rows.is_cuda:
            return self.sampled_products(first, last, rows, inner)
        col, row, depth = self.places.col, self.places.row, rows.shape[1] // self.how.heads
        wide = slice(first * depth, last * depth)
        products = rows.new_empty((last - first, len(col)))
        for begin, end in blocks(len(col), (last - first) * depth):
            near = rows[:, wide].index_select(0, col[begin:end])
            near *= inner[:, wide].index_select(0, row[begin:end])
            products[:, begin:end] = near.view(end - begin, last - first, depth).sum(-1).t()
        return products

    def sampled_products(self, first: int, last: int, rows: Tensor, inner: Tensor) -> Tensor:
        """`products` by a library's product of dense matrices at the places of a sparse one: a GPU gathers short rows slowly."""
        products = rows.new_zeros((last - first, len(self.places.col)))
        for head, into in enumerate(products, first):
            at = self.columns(head, rows.shape[1])
            matrix = self.places.matrix(into)
            torch.sparse.sampled_addmm(matrix, inner[:, at], rows[:, at].t(), beta=0.0, out=matrix)
        return products

    def each_row_(self, values: Tensor, factors: Tensor) -> None:
        """Multiply (h, e) in place by its row's factor (h, n)."""
        for begin, end in blocks(len(self.places.col), len(values)):
            values[:, begin:end] *= factors.index_select(1, self.places.row[begin:end])

    def back(self, first: int, last: int, weights: Tensor, products: Tensor, positive: Tensor) -> Tensor:
        """Gradient of the scores (h, e), in the memory of `products`: weights × (products − their weighted sum over the row) × slope."""
        products *= weights
        dots = self.by_row(products)
        for begin, end in blocks(len(self.places.col), last - first):
            piece = products[:, begin:end]
            piece.addcmul_(weights[:, begin:end], dots.index_select(1, self.places.row[begin:end]), value=-1.0)
            piece.mul_(torch.where(positive[:, begin:end], 1.0, self.how.slope))
        return products

    def columns(self, head: int, width: int) -> slice:
        """A head's columns of rows of H·D."""
        depth = width // self.how.heads
        return slice(head * depth, (head + 1) * depth)


def blocks_of(count: int, step: int) -> Iterator[tuple[int, int]]:
    """Bounds of `count` things, `step` at a time."""
    return ((first, min(first + step, count)) for first in range(0, count, step))


def scored(places: Places, how: AttentionRows, x: Tensor, vectors: tuple[Tensor, Tensor], offsets: Array | None) -> Scored:
    """Scores of x (m, H·D) with the vectors (H, D) of sources and rows."""
    depth = x.shape[1] // how.heads
    by_head = [x[:, head * depth : (head + 1) * depth] for head in range(how.heads)]
    left = torch.stack([rows @ vector for rows, vector in zip(by_head, vectors[0], strict=True)])
    right = torch.stack([rows[: places.rows] @ vector for rows, vector in zip(by_head, vectors[1], strict=True)])
    highest = torch.full_like(right, -torch.inf)
    for begin, end in blocks(len(places.col), how.heads):
        near = left.index_select(1, places.col[begin:end])
        highest.scatter_reduce_(1, places.row[begin:end].long().expand_as(near), near, "amax")
    functional.leaky_relu_(highest.add_(right), how.slope)
    return Scored(places, how, left, right, highest, torch.empty_like(right), offsets)
