"""Capacity-weighted METIS (Karypis and Kumar, SIAM J. Sci. Comput. 1998) through pymetis."""

from __future__ import annotations

import numpy as np

from hyperscale.model.adjacency import Adjacency, Array
from hyperscale.training.partition.partition_result import PartitionError


def metis(adjacency: Adjacency, target: Array, *, seed: int, recursive: bool | None = None, cuts: int = 1) -> Array:
    """(n,) int32 parts whose weights are near `target`, (k,) shares with sum 1; METIS keeps the best of `cuts` tries.

    Raises PartitionError where METIS gives up.
    """
    import pymetis  # imported where used: workers that only take their parts go without

    parts = len(target)
    if parts == 1 or adjacency.vertices == 0:
        return np.zeros(adjacency.vertices, dtype=np.int32)
    weights, wide = adjacency.vertex_weights, pymetis.zero_copy_dtype()
    if weights is not None and weights.ndim == 2:
        weights = weights[:, 0]
    try:
        parted = pymetis.part_graph(
            parts,
            pymetis.CSRAdjacency(adjacency.indptr.astype(wide, copy=False), adjacency.indices.astype(wide, copy=False)),
            vweights=None if weights is None else weights.astype(wide, copy=False),
            tpwgts=_exact_shares(target),
            recursive=recursive,
            options=pymetis.Options(seed=seed % (1 << 31), ncuts=cuts),
        )
    except RuntimeError as error:
        raise PartitionError(
            f"METIS gave up on {adjacency.vertices} vertices and {len(adjacency.indices) // 2} edges in {parts} parts ({error}), "
            "most often for want of memory: raise the memory limit in spec.workers.resources, or write another spec.partitioning.method"
        ) from None
    return np.asarray(parted.vertex_part, dtype=np.int32)


def metis_mixed(adjacency: Adjacency, target: Array, *, seed: int, recursive: bool = False) -> Array:
    """(n,) int32 parts as `metis` makes them, by its k-way method or recursively, with large and small shares in turn.

    METIS bisects in the order of the shares: large parts next to each other share long borders, a large one beside a small one does not.
    """
    parts = len(target)
    by_size = np.argsort(-target, kind="stable").astype(np.int32)
    order = np.empty(parts, dtype=np.int32)
    order[0::2] = by_size[: (parts + 1) // 2]
    order[1::2] = by_size[(parts + 1) // 2 :]
    return np.asarray(order[metis(adjacency, target[order], seed=seed, recursive=recursive)])


def _exact_shares(target: Array) -> list[float] | None:
    """Shares whose sum is 1 in floating point, as pymetis asks for; None for equal ones, METIS's own default."""
    if (target == target[0]).all():
        return None
    shares = [float(share) for share in target]
    shares[-1] = max(0.0, 1.0 - sum(shares[:-1]))
    return shares
