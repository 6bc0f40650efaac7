"""Neighbourhoods of a batch, layer by layer from the seeds outwards, over a graph of which each rank holds a part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from hyperscale.model.adjacency import Array, LocalPart
from hyperscale.training.engine import neighbourhood
from hyperscale.training.engine.neighbourhood import PLACES, Counted, Neighbourhood
from hyperscale.training.engine.ops import Passes
from hyperscale.training.modelgraph.edges import Edges, Matrix, edges_of
from hyperscale.training.modelgraph.kernels import NOTHING, Tail
from hyperscale.training.sampling.sampling_draw import draw, key_of
from hyperscale.training.sampling.sampling_routes import Routes

Tensor = torch.Tensor


@dataclass(frozen=True)
class Hop:
    """One layer's edges: destinations are the first vertices of the list, sources are in it further on too."""

    indptr: Array
    indices: Array
    """Places in the batch's list of vertices."""
    destinations: int
    sources: int


@dataclass(frozen=True)
class SampledBlocks:
    """A batch: its vertices, seeds first, and a hop for each layer, the input's first."""

    ids: Array
    """(n,) global, each once."""
    owners: Array
    hops: tuple[Hop, ...]

    def counted(self, hop: Hop) -> Counted:
        """What dropout counts a hop's rows and edges as: a destination's edges have 2^32 numbers of their own."""
        rows = np.ascontiguousarray(self.ids[: hop.sources], dtype=np.int64)
        destinations = rows[: hop.destinations]
        offsets = (destinations << 32) - hop.indptr[:-1] - np.arange(hop.destinations)
        return Counted(rows, rows, destinations, offsets)


class Sampler:
    """Of one part; every call is collective."""

    def __init__(self, routes: Routes, part: LocalPart, fanouts: Sequence[int | None], seed: int) -> None:
        """fanouts: neighbours of each layer's destinations, the input's layer first; None: all of them."""
        self._routes, self._part, self._seed = routes, part, seed
        self._fanouts = tuple(fanouts)
        self._id_of = np.concatenate([part.owned, part.halo]).astype(np.int64)
        owners = np.concatenate([np.full(len(part.owned), part.part), part.halo_owner])
        self._owner_of = owners.astype(np.int64)

    def sample(self, seeds: Array, epoch: int, step: int) -> SampledBlocks:
        """The neighbourhood of own vertices `seeds` (local ids, each once)."""
        ids, owners = self._part.owned[seeds].astype(np.int64), np.full(len(seeds), self._part.part, dtype=np.int64)
        hops: list[Hop] = []
        for layer in reversed(range(len(self._fanouts))):
            key = key_of(self._seed, epoch, step, layer)
            sizes, near, near_owners = self._neighbours(ids, owners, self._fanouts[layer], key, f"hop{layer}")
            destinations = len(ids)
            ids, owners, places = _joined(ids, owners, near, near_owners)
            hops.append(Hop(np.concatenate([[0], np.cumsum(sizes)]), places, destinations, len(ids)))
        return SampledBlocks(ids, owners, tuple(reversed(hops)))

    def _neighbours(self, ids: Array, owners: Array, fanout: int | None, key: int, name: str) -> tuple[Array, Array, Array]:
        """Of each vertex: how many, their ids, their owners. Own ones from here, others' from their owners."""
        route = self._routes.ask(ids, owners, name)
        local = np.searchsorted(self._part.owned, route.received)
        sizes, places = draw(self._part.indptr, local, route.received, fanout, key)
        near = self._part.indices[places]
        entries = torch.from_numpy(np.stack([self._id_of[near], self._owner_of[near]], axis=1))
        back_sizes, back = self._routes.answer_lists(route, sizes, entries, name)
        return back_sizes, back[:, 0].numpy(), back[:, 1].numpy()


def _joined(ids: Array, owners: Array, near: Array, near_owners: Array) -> tuple[Array, Array, Array]:
    """The list with the vertices of `near` that it lacks behind, ascending; and where each of `near` stands in it."""
    unique, first, inverse = np.unique(near, return_index=True, return_inverse=True)
    order = np.argsort(ids, kind="stable")
    at = np.minimum(np.searchsorted(ids[order], unique), max(len(ids) - 1, 0))
    present = ids[order][at] == unique if len(ids) else np.zeros(len(unique), dtype=bool)
    place = np.empty(len(unique), dtype=np.int64)
    place[present] = order[at[present]]
    place[~present] = len(ids) + np.arange(int((~present).sum()))
    fresh = first[~present]
    return np.concatenate([ids, near[fresh]]), np.concatenate([owners, near_owners[fresh]]), place[inverse.reshape(-1)]


class SampledBlock(Neighbourhood):
    """One hop; sums over the drawn in-neighbours stand for sums over all of them."""

    def __init__(self, hop: Hop, degrees: Tensor, passes: Passes, counted: Counted = PLACES) -> None:
        """degrees: (n, 2) in and out, in the whole graph, of the batch's vertices, on the CPU."""
        self._hop, self.passes, self.counted = hop, passes, counted
        self._degrees: Array = degrees.numpy()

    def destinations(self, x: Tensor) -> Tensor:
        """The first rows."""
        return x[: self._hop.destinations]

    def sources(self, x: Tensor, name: str) -> Tensor:
        """All rows."""
        return x

    def gather(
        self,
        weights: str,
        x: Tensor,
        name: str,
        *,
        add: Callable[[], Tensor] | None = None,
        bias: Tensor | None = None,
        tail: Tail = NOTHING,
    ) -> Tensor:
        """One pass, no exchange."""
        matrix = self._mean if weights == neighbourhood.MEAN else self._looped_matrix(weights)
        return self.passes.aggregate(matrix, x, add=None if add is None else add(), bias=bias, tail=tail)

    @cached_property
    def _mean(self) -> Matrix:
        """Of the drawn ones."""
        return edges_of(self._hop.indptr, self._hop.indices, self._hop.sources, ids=self.counted.destinations).matrix("mean")

    def _looped_matrix(self, weights: str) -> Matrix:
        """All but loops scaled to all in-neighbours: a drawn neighbour stands for others too, and sums are right in the mean."""
        hop, drawn = self._hop, np.diff(self._hop.indptr)
        degrees = self._degrees[: hop.destinations, 0], self._degrees[: hop.sources, 1]
        looped = neighbourhood.matrix(weights, hop.indptr, hop.indices, degrees, loops=True, ids=self.counted.destinations)
        if looped.weights is None or np.array_equal(drawn, degrees[0]):
            return looped
        edges = looped.edges
        scale = degrees[0].astype(np.float32) / np.maximum(drawn, 1).astype(np.float32)
        scaled = looped.weights * np.repeat(scale, drawn + 1)
        scaled[edges.indptr[:-1]] = looped.weights[edges.indptr[:-1]]
        return Matrix(edges, scaled)

    @cached_property
    def looped(self) -> Edges:
        """Made when first asked for."""
        looped = neighbourhood.with_loops(self._hop.indptr, self._hop.indices)
        return edges_of(*looped, self._hop.sources, ids=self.counted.destinations, offsets=self.counted.offsets)
