"""The part of the graph that this rank trains on: from the partition store, or cut here."""

from __future__ import annotations

import hashlib
import sys

import numpy as np
import torch

from hyperscale import data, partition
from hyperscale.model.adjacency import Array, LocalPart, TrainingGraph
from hyperscale.worker.comm import Comm
from hyperscale.worker.contract import ContractError, Run


def graph(run: Run) -> TrainingGraph:
    """The job's training graph. Raises ContractError with the reader's own line."""
    dataset = run.dataset
    stated = data.Stated(dataset.vertices, dataset.edges, dataset.feature_size, dataset.classes)
    try:
        return data.read(
            dataset.source, dataset.path, dataset.format, cache=run.cache, seed=run.seed, endpoint=dataset.endpoint, stated=stated
        )
    except data.DataError as error:
        raise ContractError(str(error)) from error


def agreed(comm: Comm, found: TrainingGraph) -> TrainingGraph:
    """`found`, once all ranks are sure to hold the same graph; collective. Raises ContractError on every rank otherwise."""
    digest = data.graph_digest(found)
    own = torch.tensor([int(hashlib.sha256(digest.encode()).hexdigest()[:12], 16)], dtype=torch.int64)
    if len(set(comm.gather(own, "graph.digest").flatten().tolist())) > 1:
        raise ContractError("HYPERSCALE_DATASET_PATH: ranks read different graphs; give all of them the same file")
    return found


def part_of(run: Run, comm: Comm, whole: TrainingGraph) -> LocalPart:
    """The rank's part, cut by rank 0 by the shares of all ranks; collective. Raises ContractError on every rank."""
    vertices = len(whole.indptr) - 1
    if comm.size == 1:
        return partition.local_part(whole, np.zeros(vertices, dtype=np.int32), 0, 1)
    assignment, error = np.zeros(vertices, dtype=np.int32), ""
    if comm.rank == 0:
        try:
            assignment = cut(run, whole)
        except partition.PartitionError as failure:
            error = str(failure)
    error = comm.broadcast_bytes(error.encode(), "partition.error").decode()
    if error:
        raise ContractError(error)
    shared = comm.broadcast(torch.from_numpy(np.ascontiguousarray(assignment, dtype=np.int32)), "partition").numpy()
    return partition.local_part(whole, shared, comm.rank, comm.size)


def cut(run: Run, whole: TrainingGraph) -> Array:
    """(n,) part of each vertex, one part a rank."""
    parts = partition.split(data.symmetric(whole), run.shares, run.method, seed=run.seed, train=whole.train)
    measures = parts.measures
    sys.stderr.write(
        f"{parts.parts} parts by {parts.method}: cut {measures.cut_fraction:.3f}, imbalance {measures.imbalance:.3f}, "
        f"largest halo {measures.largest_halo}, replication {measures.replication:.3f}\n"
    )
    return parts.assignment
