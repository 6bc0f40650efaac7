"""Method Precomputed without a shared volume: ranks take the parts that came with the data set, checked as the partition Job does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from benchmarks.threads import run_threads
from hyperscale.model.adjacency import Array, LocalPart
from hyperscale.training.data.formats import archive
from hyperscale.training.runtime.comm import Comm
from hyperscale.training.runtime.contract import ContractError
from hyperscale.training.worker import load_part
from tests.builders.training import a_run, labelled_graph

VERTICES = 40


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    archive.write(tmp_path / "g.npz", labelled_graph(3, VERTICES))
    return tmp_path / "g.npz"


def ranks(dataset: Path, size: int, **variables: str) -> list[LocalPart | str]:
    """What each rank gets: its part, or the line that it ends with."""

    def rank(comm: Comm) -> LocalPart | str:
        source = {
            "HYPERSCALE_DATASET_SOURCE": "persistentVolumeClaim",
            "HYPERSCALE_DATASET_PATH": str(dataset),
            "HYPERSCALE_DATASET_FORMAT": "NPZ",
        }
        told = {**source, "HYPERSCALE_PARTITIONING_METHOD": "Precomputed", **variables}
        try:
            return load_part.part(a_run(None, None, comm.rank, comm.size, **told), comm, told)
        except ContractError as error:
            return str(error)

    return run_threads(size, rank)


def write(dataset: Path, parts: Array) -> None:
    parquet.write_table(pa.table({"vertex": np.arange(len(parts)), "part": parts}), dataset.with_name("g.npz.parts.parquet"))


def owned(found: list[LocalPart | str]) -> list[list[int]]:
    return [part.owned.tolist() if isinstance(part, LocalPart) else [] for part in found]


def test_ranks_without_a_volume_take_the_data_sets_own_parts(dataset: Path) -> None:
    parts = np.arange(VERTICES) * 7 % 3
    write(dataset, parts)
    assert owned(ranks(dataset, 3)) == [np.flatnonzero(parts == rank).tolist() for rank in range(3)]


def test_a_rank_holds_several_of_the_data_sets_parts_where_there_are_more(dataset: Path) -> None:
    parts = np.arange(VERTICES) * 7 % 4
    write(dataset, parts)
    found = owned(ranks(dataset, 2, HYPERSCALE_PARTITIONS="4"))
    assert found == [np.flatnonzero(parts // 2 == rank).tolist() for rank in range(2)]


def test_parts_that_are_absent_or_do_not_fit_end_all_ranks_with_the_partition_jobs_line(dataset: Path) -> None:
    absent = ranks(dataset, 2)
    assert "absent, and spec.partitioning.method is Precomputed; write it with `hyperscale partition" in str(absent[0])
    write(dataset, np.arange(VERTICES) % 3)
    outside = ranks(dataset, 2)
    assert "a part outside 0..1; write 2 parts, as many as spec.partitioning.count" in str(outside[0])
    uneven = ranks(dataset, 2, HYPERSCALE_PARTITIONS="3")
    assert uneven[0] == "HYPERSCALE_PARTITIONS: 3 parts for 2 ranks; write a multiple of the ranks"
    assert all(first == second for first, second in (absent, outside, uneven))
