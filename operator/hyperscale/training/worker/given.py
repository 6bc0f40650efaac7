"""Parts that came with the data set, for the partition Job and for ranks that have no volume for it."""

from __future__ import annotations

from hyperscale.model.adjacency import Array
from hyperscale.training.data import precomputed
from hyperscale.training.runtime.contract import ContractError, Run


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
