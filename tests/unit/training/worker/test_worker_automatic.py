"""Auto in the worker: by the plan's prediction where there is one."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from hyperscale.model.adjacency import Adjacency
from hyperscale.model.api.job import PartitioningMethod
from hyperscale.model.plan import Prediction
from hyperscale.model.runplan import AllreduceCost, RunPlan
from hyperscale.training.data import symmetric
from hyperscale.training.data.edges_to_csr import in_neighbours
from hyperscale.training.data.generate import rmat_edges
from hyperscale.training.partition import epoch_seconds, split
from hyperscale.training.partition.auto import CANDIDATES, choose
from hyperscale.training.runtime import contract
from hyperscale.training.runtime.contract import Run
from hyperscale.training.worker import automatic
from tests.builders.training import a_run, environment, labelled_graph

SHARES = "0.75,0.25"


def planned(directory: Path, *, allreduce: bool = True) -> Run:
    plan = RunPlan(1, "a/b", "id", 0, 2, (), Prediction(2.0, 0.5), AllreduceCost(1e-4, 1e-6, measured=True) if allreduce else None)
    (directory / "plan.json").write_bytes(msgspec.json.encode(plan))
    return a_run(size=2, HYPERSCALE_SHARES=SHARES, HYPERSCALE_PLAN_FILE=str(directory / "plan.json"))


def test_all_ranks_are_predicted_to_need_the_same_time_for_their_shares(tmp_path: Path) -> None:
    cost = automatic.epoch_cost(planned(tmp_path), 40, 7, 3)
    assert cost is not None
    assert [seconds * share * 40 for seconds, share in zip(cost.weight_seconds, (0.75, 0.25), strict=True)] == pytest.approx([1.5, 1.5])
    assert cost.copy_bytes == 8 * (5 + 3)


def test_without_figures_the_partitioners_own_choice_counts(tmp_path: Path) -> None:
    assert automatic.epoch_cost(planned(tmp_path, allreduce=False), 40, 7, 3) is None
    assert automatic.epoch_cost(a_run(size=2), 40, 7, 3) is None


@pytest.mark.parametrize(("workers", "gpus", "expected"), [(2, 1, 1e-6), (4, 1, 1e-6 * 4 / 6), (2, 2, 1e-6 * 4 / 6), (1, 2, 1e-6)])
def test_a_copied_byte_costs_one_passage_of_the_slowest_link_not_an_allreduces_several(
    tmp_path: Path, workers: int, gpus: int, expected: float
) -> None:
    planned(tmp_path)
    told = {"HYPERSCALE_GPUS_PER_WORKER": str(gpus), "HYPERSCALE_PLAN_FILE": str(tmp_path / "plan.json")}
    cost = automatic.epoch_cost(contract.read(environment(size=workers * gpus) | told), 40, 7, 3)
    assert cost is not None
    assert cost.link_seconds_per_byte == pytest.approx((expected,) * workers * gpus)


def test_auto_names_the_method_that_it_took(tmp_path: Path) -> None:
    graph = labelled_graph(1, vertices=120)
    parts = automatic.parts(planned(tmp_path), symmetric(graph), graph.train, 7, 3)
    assert parts.method in (PartitioningMethod.METIS, PartitioningMethod.INDEPENDENT_SET_SPECTRAL)
    assert set(parts.assignment.tolist()) == {0, 1}


def test_of_large_graphs_the_hybrid_is_not_tried_and_edges_are_weighed_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = planned(tmp_path)
    monkeypatch.setattr(automatic, "MAX_TRIED_EDGES", 0)
    vertices = 2000
    sources, destinations = rmat_edges(vertices, 20_000, 1)
    adjacency = Adjacency(*in_neighbours(vertices, sources, destinations, both_directions=True))
    train = np.arange(vertices) % 2 == 0
    cost = automatic.epoch_cost(run, vertices, 7, 3, len(adjacency.indices))
    assert cost is not None
    metis = split(adjacency, run.shares, PartitioningMethod.METIS, seed=run.seed, train=train)
    parts = automatic.parts(run, adjacency, train, 7, 3)
    assert parts.method == PartitioningMethod.METIS
    assert parts.measures.edge_imbalance < metis.measures.edge_imbalance
    assert epoch_seconds(adjacency, parts, cost) <= epoch_seconds(adjacency, metis, cost)
    assert np.array_equal(parts.assignment, choose(adjacency, run.shares, CANDIDATES[:1], cost, seed=run.seed, train=train).assignment)


def test_without_a_plan_edges_are_weighed_too() -> None:
    sources, destinations = rmat_edges(2000, 20_000, 1)
    adjacency = Adjacency(*in_neighbours(2000, sources, destinations, both_directions=True))
    run, train = a_run(size=8), np.ones(2000, bool)
    metis = split(adjacency, run.shares, PartitioningMethod.METIS, seed=run.seed, train=train)
    assert automatic.parts(run, adjacency, train, 7, 3).measures.edge_imbalance < metis.measures.edge_imbalance / 1.5


def test_messages_take_their_part_of_a_whole_graphs_epoch_and_all_of_it_is_shared_out(tmp_path: Path) -> None:
    cost = automatic.epoch_cost(planned(tmp_path), 40, 7, 3, 400)
    assert cost is not None
    assert cost.edge_worth > 0.0
    ranks = zip(cost.weight_seconds, cost.edge_seconds, (0.75, 0.25), strict=True)
    assert [(vertex * 40 + edge * 400) * share for vertex, edge, share in ranks] == pytest.approx([1.5, 1.5])
