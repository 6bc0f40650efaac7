"""What dropout counts the rows, edges and entries of a part as: their numbers in the whole graph, whatever the number of ranks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hyperscale.model.adjacency import Array, LocalPart
from hyperscale.training.engine.neighbourhood import PLACES, Counted
from hyperscale.training.engine.sampling_batches import of_all_ranks
from hyperscale.training.engine.sparse_features import SparseRows
from hyperscale.training.runtime.comm import Comm


def counted(comm: Comm, part: LocalPart, *, attention: bool) -> Counted:
    """Of a part with its copies of others' vertices; collective where attention drops edges.

    One process has the whole graph in order: its places are the numbers.
    """
    if comm.size == 1:
        return PLACES
    owned = part.owned.astype(np.int64)
    sources = np.concatenate([owned, part.halo.astype(np.int64)])
    offsets = None
    if attention:
        # One more than the in-neighbours: the vertex's own loop comes first.
        offsets = _firsts(comm, owned, np.diff(part.indptr) + 1, "edges.first") - part.indptr[:-1] - np.arange(len(owned))
    return Counted(owned, sources, owned, offsets)


def numbered(comm: Comm, part: LocalPart, rows: SparseRows) -> SparseRows:
    """The part's features with the numbers of their entries; collective."""
    if comm.size == 1:
        return rows
    indptr = rows.places.crow.numpy().astype(np.int64)
    sizes = np.diff(indptr)
    offsets = _firsts(comm, part.owned.astype(np.int64), sizes, "features.first") - indptr[:-1]
    numbers = np.repeat(offsets, sizes) + np.arange(len(rows.values))
    # Draws are by 32 bits: further on they begin again, as in one process.
    return replace(rows, numbers=(numbers & 0xFFFFFFFF).astype(np.uint32))


def _firsts(comm: Comm, owned: Array, sizes: Array, name: str) -> Array:
    """(own,) int64 how many items the vertices before each own one have in the whole graph, where each vertex has `sizes` (own,)."""
    pairs = of_all_ranks(comm, np.stack([owned, sizes.astype(np.int64)], axis=1), name)
    by_id = pairs[np.argsort(pairs[:, 0], kind="stable")]
    before = np.cumsum(by_id[:, 1]) - by_id[:, 1]
    firsts: Array = before[np.searchsorted(by_id[:, 0], owned)]
    return firsts
