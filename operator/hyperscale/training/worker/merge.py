"""Several parts as one: a rank holds more than one where the job asks for more parts than ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from hyperscale.model.adjacency import Array, LocalPart


def merge(parts: Sequence[LocalPart], rank: int, ranks: int, rank_of_block: Array | None = None) -> LocalPart:
    """One part of `ranks` from consecutive parts of a finer cut: block b has parts b·m to (b + 1)·m - 1.

    rank_of_block: (ranks,) rank of each block, `rank` that of these parts; None: their own numbers
    Raises ValueError for several parts of many graphs: those are dealt to ranks directly.
    """
    if len(parts) == 1 and parts[0].parts == ranks:
        return parts[0] if rank_of_block is None else renumbered(parts[0], rank_of_block)
    if any("graph_offsets" in part.extra for part in parts):
        raise ValueError("parts of a data set of many graphs cannot be merged; write as many parts as ranks")
    each = parts[0].parts // ranks
    joined = partial(_joined, parts)
    owned = joined("owned")
    order = np.argsort(owned)
    halo, halo_owner = _halo(parts, rank, each, np.arange(ranks) if rank_of_block is None else rank_of_block)
    local = np.concatenate([owned[order], halo])
    place = np.argsort(local)
    ids = np.concatenate([np.concatenate([part.owned, part.halo])[part.indices] for part in parts])
    sizes = np.concatenate([np.diff(part.indptr) for part in parts])
    indptr, entries = _reordered(sizes, order)
    return LocalPart(
        part=rank,
        parts=ranks,
        owned=owned[order],
        halo=halo,
        halo_owner=halo_owner.astype(np.int32),
        indptr=indptr,
        indices=place[np.searchsorted(local, ids[entries], sorter=place)].astype(np.int32),
        in_degree=_looked_up(parts, "in_degree", local),
        out_degree=_looked_up(parts, "out_degree", local),
        classes=parts[0].classes,
        train_total=parts[0].train_total,
        extra={},
        name=parts[0].name,
        **{name: joined(name)[order] for name in ("features", "labels", "train", "validation", "test")},
    )


def _joined(parts: Sequence[LocalPart], name: str) -> Array:
    """An array by owned vertex, of all parts one after another."""
    values: Array = np.concatenate([getattr(part, name) for part in parts])
    return values


def renumbered(part: LocalPart, rank_of_part: Array) -> LocalPart:
    """The same part under its rank's number: copies stand by owner, so that they change places."""
    owner = rank_of_part[part.halo_owner]
    order = np.argsort(owner, kind="stable")
    own, places = len(part.owned), np.empty(len(order), dtype=np.int64)
    places[order] = np.arange(len(order))
    local = np.concatenate([np.arange(own), own + places])
    moved = np.concatenate([np.arange(own), own + order])
    return replace(
        part,
        part=int(rank_of_part[part.part]),
        halo=part.halo[order],
        halo_owner=owner[order].astype(np.int32),
        indices=local[part.indices].astype(np.int32),
        in_degree=part.in_degree[moved],
        out_degree=part.out_degree[moved],
    )


def _halo(parts: Sequence[LocalPart], rank: int, each: int, rank_of_block: Array) -> tuple[Array, Array]:
    """Copies that the merged part needs of other ranks' vertices, by owner, and the ranks that own them; `each` parts are one rank's."""
    copies = np.concatenate([part.halo for part in parts])
    owners = rank_of_block[np.concatenate([part.halo_owner for part in parts]) // each]
    halo, first = np.unique(copies[owners != rank], return_index=True)
    halo_owner = owners[owners != rank][first]
    by_owner = np.argsort(halo_owner, kind="stable")
    return halo[by_owner], halo_owner[by_owner]


def _reordered(sizes: Array, order: Array) -> tuple[Array, Array]:
    """Row pointers of rows taken in another order, and where their entries stood."""
    starts = np.concatenate([[0], np.cumsum(sizes)])[:-1]
    indptr = np.concatenate([[0], np.cumsum(sizes[order])]).astype(np.int64)
    entries = np.arange(indptr[-1]) + np.repeat(starts[order] - indptr[:-1], sizes[order])
    return indptr, entries


def _looked_up(parts: Sequence[LocalPart], name: str, vertices: Array) -> Array:
    """An array by owned or copied vertex, for the global ids `vertices`."""
    ids = np.concatenate([np.concatenate([part.owned, part.halo]) for part in parts])
    unique, first = np.unique(ids, return_index=True)
    values: Array = np.concatenate([getattr(part, name) for part in parts])[first][np.searchsorted(unique, vertices)]
    return values
