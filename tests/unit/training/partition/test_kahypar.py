"""Mt-KaHyPar: where it is installed, within its limits, and a clear word where it is not."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from hyperscale.model.api.job import PartitioningMethod
from hyperscale.training.partition import PartitionError, edge_bytes, kahypar, measure, memory_bytes, split
from hyperscale.training.partition.levels import finest
from hyperscale.training.partition.refine import limits_of
from tests.builders.meshes import grid

SHARES = (2.0,) * 4 + (1.0,) * 4
MT_KAHYPAR = PartitioningMethod.MT_KAHYPAR


def test_parts_keep_to_capacities_and_get_a_smaller_largest_halo_within_the_first_cut() -> None:
    mesh = grid(60)
    level, target = finest(mesh), np.array(SHARES) / 12.0
    first = measure(mesh, kahypar.kahypar(level, limits_of(level.weights, target, False), seed=0), SHARES)
    found = split(mesh, SHARES, MT_KAHYPAR, seed=0)
    assert found.method is MT_KAHYPAR
    assert found.measures.imbalance <= 1.03
    assert found.measures.cut <= first.cut
    assert found.measures.largest_halo < first.largest_halo


def test_training_vertices_are_balanced_too() -> None:
    mesh = grid(24)
    train = np.arange(mesh.vertices) < 300
    balanced = split(mesh, (1, 1, 1, 1), MT_KAHYPAR, seed=1, train=train).measures.train_imbalance
    assert balanced is not None
    assert balanced <= 1.10


def test_where_it_is_not_installed_the_message_says_what_to_add(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mtkahypar", None)
    kahypar._started.cache_clear()
    with pytest.raises(PartitionError, match=r"^spec.partitioning.method: MtKaHyPar is not installed here; add .* or write METIS$"):
        split(grid(4), (1.0, 1.0), MT_KAHYPAR)


def test_a_graph_that_would_take_minutes_to_hand_over_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kahypar, "MOST_EDGES", 20)
    with pytest.raises(PartitionError, match=r"MtKaHyPar takes at most 20 edges and the graph has 24; write METIS$"):
        split(grid(4), (1.0, 1.0), MT_KAHYPAR)


def test_it_is_given_more_memory_than_metis() -> None:
    assert edge_bytes(MT_KAHYPAR) > edge_bytes(PartitioningMethod.METIS) == edge_bytes(PartitioningMethod.AUTO)
    assert memory_bytes(10**6, 10**7, 10, 2, MT_KAHYPAR) > memory_bytes(10**6, 10**7, 10, 2)
