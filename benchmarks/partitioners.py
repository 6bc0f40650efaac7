"""Partitioners that benchmarks compare, each on one case: the worker's own, and METIS, DGL's METIS and Mt-KaHyPar as peers."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymetis

from hyperscale.model.adjacency import Adjacency, Array
from hyperscale.model.api.job import PartitioningMethod
from hyperscale.training.partition import split
from hyperscale.training.partition.metis import metis

BALANCE_LIMIT = 1.03
OURS, HYBRID, PEER = "refined", "hybrid", "pymetis tpwgts"


@dataclass(frozen=True)
class Case:
    """One graph, number of parts, capacities and seed."""

    graph: str
    adjacency: Adjacency
    shares: tuple[float, ...]
    seed: int

    @property
    def name(self) -> str:
        """E.g. rmat k=8 2:1."""
        return f"{self.graph} k={len(self.shares)} {'equal' if self.even else '2:1'}"

    @property
    def even(self) -> bool:
        """Whether all parts get the same share."""
        return len(set(self.shares)) == 1


def capacities(parts: int, even: bool) -> tuple[float, ...]:
    """Equal shares, or the first half of the parts twice as large."""
    return (1.0,) * parts if even else (2.0,) * (parts // 2) + (1.0,) * (parts - parts // 2)


def dgl_metis(adjacency: Adjacency, parts: int) -> Array:
    """What DGL's own partitioning calls."""
    import dgl
    import torch

    rows = np.repeat(np.arange(adjacency.vertices), np.diff(adjacency.indptr))
    graph = dgl.graph((torch.from_numpy(rows), torch.from_numpy(adjacency.indices.astype(np.int64))), num_nodes=adjacency.vertices)
    with silence():
        return np.asarray(dgl.metis_partition_assignment(graph, parts).numpy(), dtype=np.int32)


def mtkahypar_cut(case: Case) -> Array | None:
    """Mt-KaHyPar's default preset with the same limits; None where it is not installed."""
    try:
        import mtkahypar
    except ImportError:
        return None
    weight = case.adjacency.vertices
    total = sum(case.shares)
    with silence():
        library = _mtkahypar()
        mtkahypar.set_seed(case.seed)
        context = library.context_from_preset(mtkahypar.PresetType.DEFAULT)
        context.set_partitioning_parameters(len(case.shares), BALANCE_LIMIT - 1, mtkahypar.Objective.CUT)
        context.set_individual_target_block_weights(
            [int(max(BALANCE_LIMIT * weight * s / total, -(-weight * s // total))) for s in case.shares]
        )
        context.logging = False
        rows = np.repeat(np.arange(weight), np.diff(case.adjacency.indptr))
        upper = rows < case.adjacency.indices
        pairs = list(zip(rows[upper].tolist(), case.adjacency.indices[upper].tolist(), strict=True))
        done = library.create_graph(context, weight, len(pairs), pairs).partition(context)
        return np.array([done.block_id(vertex) for vertex in range(weight)], dtype=np.int32)


_LIBRARY: list[Any] = []


def _mtkahypar() -> Any:  # noqa: ANN401 - the library has no types
    """Its one instance: it may be started once in a process."""
    import mtkahypar

    if not _LIBRARY:
        _LIBRARY.append(mtkahypar.initialize(1))
    return _LIBRARY[0]


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Libraries that write to the process's output past Python."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept, away = [os.dup(1), os.dup(2)], os.open(os.devnull, os.O_WRONLY)
    os.dup2(away, 1)
    os.dup2(away, 2)
    try:
        yield
    finally:
        for number, copy in enumerate(kept, start=1):
            os.dup2(copy, number)
            os.close(copy)
        os.close(away)


def partitioners(case: Case, peers: bool) -> dict[str, Callable[[], Array]]:
    """By name; the first two are the ones that are timed against each other."""
    adjacency, shares, seed = case.adjacency, case.shares, case.seed
    target = np.array(shares) / sum(shares)
    wide = pymetis.CSRAdjacency(adjacency.indptr.astype(np.int64), adjacency.indices.astype(np.int64))
    tpwgts = [float(share) for share in target[:-1]]
    tpwgts.append(1.0 - sum(tpwgts))

    def plain(weights: list[float] | None) -> Array:
        return np.asarray(
            pymetis.part_graph(len(shares), wide, tpwgts=weights, options=pymetis.Options(seed=seed)).vertex_part, dtype=np.int32
        )

    by_name: dict[str, Callable[[], Array]] = {
        PEER: lambda: plain(None if case.even else tpwgts),
        OURS: lambda: split(adjacency, shares, PartitioningMethod.METIS, seed=seed).assignment,
        HYBRID: lambda: split(adjacency, shares, PartitioningMethod.INDEPENDENT_SET_SPECTRAL, seed=seed).assignment,
    }
    if not peers:
        return by_name
    by_name |= {
        "pymetis k-way": lambda: metis(adjacency, target, seed=seed, recursive=False),
        "random": lambda: split(adjacency, shares, PartitioningMethod.RANDOM, seed=seed).assignment,
        "degree": lambda: split(adjacency, shares, PartitioningMethod.DEGREE, seed=seed).assignment,
    }
    if case.even:
        by_name["dgl"] = lambda: dgl_metis(adjacency, len(shares))
    return by_name
