"""The job's graph and the parts that came with it, for the partition Job and for ranks that have no volume for it."""

from __future__ import annotations

from hyperscale.model.adjacency import Array, TrainingGraph
from hyperscale.training import data
from hyperscale.training.data import precomputed
from hyperscale.training.runtime.contract import ContractError, Run


def read_graph(run: Run) -> TrainingGraph:
    """The job's graph, checked against what the job states. Raises DataError with the reader's own line."""
    dataset = run.dataset
    sizes = (dataset.vertices, dataset.edges, dataset.feature_size, dataset.classes, dataset.train_vertices)
    stated = data.Stated(*sizes, dataset.direction.value)
    return data.read(dataset.source, dataset.path, dataset.format, cache=run.cache, seed=run.seed, endpoint=dataset.endpoint, stated=stated)


def part_shares(run: Run) -> tuple[float, ...]:
    """Share of each part: one part a rank, or several where the job asks for more parts than ranks."""
    each, rest = divmod(run.partitions, run.size)
    if run.partitions <= run.size:
        return run.shares
    if rest:
        raise ContractError(f"HYPERSCALE_PARTITIONS: {run.partitions} parts for {run.size} ranks; write a multiple of the ranks")
    return tuple(share / each for share in run.shares for _ in range(each))


def read_parts(run: Run, vertices: int, parts: int) -> Array:
    """(n,) part of each vertex; raises DataError where the data set has none or they do not fit."""
    dataset = run.dataset
    return precomputed.read_parts(dataset.source, dataset.path, vertices, parts, run.cache, dataset.endpoint)


def rank_of(run: Run, vertices: int) -> Array:
    """(n,) rank of each vertex: where there are more parts than ranks each takes several in a row, as `merge` does with stored ones."""
    parts = len(part_shares(run))
    assigned: Array = read_parts(run, vertices, parts) // (parts // run.size)
    return assigned
