"""The part of the graph that this rank trains on: from the partition store where it has one, or cut here."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np
import torch

from hyperscale.model.adjacency import Array, LocalPart, TrainingGraph
from hyperscale.model.api.job import PartitioningMethod
from hyperscale.planner.workload.layer_costs import layers
from hyperscale.training import data, partition
from hyperscale.training.data import graphs, part_store
from hyperscale.training.data.formats import builtin
from hyperscale.training.rankmap import part_ranks
from hyperscale.training.rankmap.rank_links import RankLinks, UnusableLinksError, rank_links
from hyperscale.training.runtime.comm import Comm
from hyperscale.training.runtime.contract import ContractError, Run
from hyperscale.training.worker import automatic, given
from hyperscale.training.worker.merge import merge

_NUMBER_BYTES = 4.0
T = TypeVar("T")
_FAULTS = (data.DataError, partition.PartitionError, ContractError)


def part(run: Run, comm: Comm, environment: Mapping[str, str]) -> LocalPart:
    """The rank's part; collective. Raises ContractError on every rank where any of them has nothing to train on."""
    key = together(comm, "store", lambda: _stored(run, environment))
    everywhere = comm.allreduce(torch.tensor([float(key is not None)]), "store.found").item() == comm.size
    if everywhere and key is not None:
        ranks = _agreed(run, comm, lambda: _stored_ranks(run, key))
        own_part = together(comm, "load", lambda: _read(run, key, ranks))
        _same(comm, key, "HYPERSCALE_PARTITION_DIR: ranks see different partitions; mount the same volume in all workers")
        return _to_train_on(own_part)
    if run.partition_dir is not None and comm.rank == 0:
        sys.stderr.write(f"{run.partition_dir} has no partitions for this job; cutting the graph in memory\n")
    whole = together(comm, "graph", lambda: given.read_graph(run))
    if comm.rank == 0:
        sys.stderr.write("".join(f"{whole.name or run.dataset.path}: {note}\n" for note in whole.notes))
    _same(comm, data.graph_digest(whole), "HYPERSCALE_DATASET_PATH: ranks read different graphs; give all of them the same file")
    return _to_train_on(part_of(run, comm, whole))


def _to_train_on(part: LocalPart) -> LocalPart:
    """`found`; raises ContractError where no rank has anything to learn from, which all of them see alike."""
    if not part.train_total:
        raise ContractError("HYPERSCALE_DATASET_PATH: nothing in train has a label; write labels, and train into the split of some")
    return part


def is_stand_in(run: Run, part: LocalPart) -> bool:
    """Whether `found` is of a generated graph because the builtin one was not to be had; results must say so."""
    return builtin.is_stand_in(run.dataset.source, part.name)


def part_of(run: Run, comm: Comm, whole: TrainingGraph) -> LocalPart:
    """The rank's part of a graph that all ranks hold, cut by rank 0 by the shares of all ranks; collective."""
    vertices = len(whole.indptr) - 1
    if comm.size == 1:
        return partition.local_part(whole, np.zeros(vertices, dtype=np.int32), 0, 1)
    nothing = np.zeros(vertices, dtype=np.int32)
    assignment = together(comm, "partition", lambda: _on_ranks(run, whole, cut(run, whole)) if comm.rank == 0 else nothing)
    shared = comm.broadcast(torch.from_numpy(np.ascontiguousarray(assignment, dtype=np.int32)), "partition").numpy()
    return partition.local_part(whole, shared, comm.rank, comm.size)


def cut(run: Run, whole: TrainingGraph) -> Array:
    """(n,) part of each vertex, one part a rank; graphs of a data set of many stay whole."""
    if whole.graph_offsets is not None:
        return graphs.deal(whole, run.shares, run.seed)
    adjacency = data.symmetric(whole)
    if run.method is PartitioningMethod.PRECOMPUTED:
        parts = partition.precomputed(adjacency, given.rank_of(run, adjacency.vertices), run.shares, whole.train)
    else:
        parts = automatic.parts(run, adjacency, whole.train, whole.features.shape[1], whole.classes)
    measures = parts.measures
    sys.stderr.write(
        f"{parts.parts} parts by {parts.method}: cut {measures.cut_fraction:.3f}, imbalance of vertices {measures.imbalance:.3f}, "
        f"of edges {measures.edge_imbalance:.3f}, "
        f"largest halo {measures.largest_halo}, replication {measures.replication:.3f}\n"
    )
    return parts.assignment


def together(comm: Comm, name: str, work: Callable[[], T]) -> T:
    """`work()` on every rank, or one ContractError on every rank where it failed on any, so that no rank waits; collective."""
    result: list[T] = []
    error = ""
    try:
        result.append(work())
    except _FAULTS as failure:
        error = str(failure)
    failed = comm.gather(torch.tensor([float(bool(error))]), f"{name}.failed").flatten()
    if not failed.any():
        return result[0]
    first = int(failed.argmax())
    raise ContractError(comm.broadcast_bytes(error.encode(), f"{name}.error", root=first).decode())


def _stored(run: Run, environment: Mapping[str, str]) -> str | None:
    return part_store.find(run.partition_dir, part_store.request(environment)) if run.partition_dir is not None else None


def _on_ranks(run: Run, whole: TrainingGraph, assignment: Array) -> Array:
    """(n,) rank of each vertex from its part. Parts that came with the data set stay on the ranks of their numbers."""
    links = _links(run)
    if run.method is PartitioningMethod.PRECOMPUTED or whole.graph_offsets is not None or links is None:
        return assignment
    placed = _placed(run, links, part_ranks.boundary_table(whole, assignment, run.size))
    return assignment if placed is None else placed.rank.astype(np.int32)[assignment]


def _stored_ranks(run: Run, key: str) -> Array | None:
    """(ranks,) rank of each block of stored parts; None: their own numbers."""
    if run.partition_dir is None or (links := _links(run)) is None:
        return None
    stored = part_store.manifest(run.partition_dir, key)
    parts = stored.parts
    if stored.method == PartitioningMethod.PRECOMPUTED or len(parts) % run.size or any(len(part.halo_from) != len(parts) for part in parts):
        return None
    placed = _placed(run, links, part_ranks.merged_table(np.array([part.halo_from for part in parts]).T, run.size))
    return None if placed is None else placed.rank


def _links(run: Run) -> RankLinks | None:
    """Ways between the ranks; None where the plan has other ranks, its links are unusable, or other ranks of parts gain nothing."""
    if run.plan is None or len(nodes := run.plan.rank_nodes) != run.size:
        return None
    try:
        links = rank_links(nodes, run.plan.links)
    except UnusableLinksError as fault:
        sys.stderr.write(f"{run.plan_file}: {fault}: parts stay on the ranks of their numbers\n")
        return None
    return links if part_ranks.may_move(links, run.shares) else None


def _placed(run: Run, links: RankLinks, table: Array) -> part_ranks.PartRanks | None:
    row_bytes = _NUMBER_BYTES * max(layer.outputs for layer in layers(run.model, 1, 1))
    placed = part_ranks.place_parts(table, links, run.shares, row_bytes=row_bytes, seed=run.seed)
    if placed is not None:
        before, after = placed.before, placed.after
        said = f"parts moved to ranks near their neighbours: {before.rows} copies between nodes become {after.rows}"
        if run.plan is not None and run.plan.links is not None:
            said += (
                f"; by the plan's links an exchange of {row_bytes:.0f} bytes a copy keeps the busiest card "
                f"{after.bottleneck_seconds * 1e3:.3g} ms instead of {before.bottleneck_seconds * 1e3:.3g} ms"
            )
        sys.stderr.write(f"{said}\n")
    return placed


def _agreed(run: Run, comm: Comm, ranks: Callable[[], Array | None]) -> Array | None:
    """What rank 0 finds, on every rank: another one may have read a newer plan; collective."""
    own = np.arange(run.size)
    placed = together(comm, "ranks", lambda: ranks() if comm.rank == 0 else None)
    shared = comm.broadcast(torch.from_numpy(own if placed is None else placed), "ranks.placed").numpy()
    return None if (shared == own).all() else shared


def _read(run: Run, key: str, ranks: Array | None) -> LocalPart:
    """One stored part, or several where there are more parts than ranks; `ranks` has the rank of each block of them."""
    root = run.partition_dir
    if root is None:
        raise ContractError("HYPERSCALE_PARTITION_DIR: missing; mount the partition store and name it there")
    count = len(part_store.manifest(root, key).parts)
    if count % run.size:
        raise ContractError(f"HYPERSCALE_PARTITIONS: {count} parts cannot be shared by {run.size} ranks; write a multiple of the ranks")
    each = count // run.size
    block = run.rank if ranks is None else int(np.flatnonzero(ranks == run.rank)[0])
    return merge([part_store.load(root, key, at) for at in range(block * each, (block + 1) * each)], run.rank, run.size, ranks)


def _same(comm: Comm, digest: str, message: str) -> None:
    """All ranks hold the same hexadecimal digest; collective. Raises ContractError on every rank otherwise."""
    own = torch.tensor([int(digest[:12], 16)], dtype=torch.int64)
    if len(set(comm.gather(own, "digest").flatten().tolist())) > 1:
        raise ContractError(message)
