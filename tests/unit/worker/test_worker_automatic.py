"""Auto in the worker: by the plan's prediction where there is one."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from hyperscale.data import symmetric
from hyperscale.model.job import PartitioningMethod
from hyperscale.model.plan import Prediction
from hyperscale.model.runplan import AllreduceCost, RunPlan
from hyperscale.partition import split
from hyperscale.partition.auto import CANDIDATES, choose
from hyperscale.worker import automatic, contract
from hyperscale.worker.contract import Run
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


@pytest.mark.parametrize(("workers", "gpus", "expected"), [(2, 1, 1e-6), (4, 1, 1e-6 * 4 / 6), (2, 2, 1e-6), (1, 2, 0.0)])
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


@pytest.mark.parametrize("most", [0, 10**6])
def test_of_large_graphs_the_hybrid_is_not_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    graph, run = labelled_graph(1, vertices=120), planned(tmp_path)
    monkeypatch.setattr(automatic, "MAX_TRIED_EDGES", most)
    adjacency = symmetric(graph)
    parts = automatic.parts(run, adjacency, graph.train, 7, 3)
    cost = automatic.epoch_cost(run, adjacency.vertices, 7, 3, len(adjacency.indices))
    assert cost is not None
    tried = choose(adjacency, run.shares, CANDIDATES, cost, seed=run.seed, train=graph.train)
    metis = split(adjacency, run.shares, PartitioningMethod.METIS, seed=run.seed, train=graph.train)
    assert not np.array_equal(tried.assignment, metis.assignment), "or the graph shows nothing"
    assert np.array_equal(parts.assignment, (tried if most else metis).assignment)


def test_messages_take_their_part_of_a_whole_graphs_epoch_and_all_of_it_is_shared_out(tmp_path: Path) -> None:
    cost = automatic.epoch_cost(planned(tmp_path), 40, 7, 3, 400)
    assert cost is not None
    assert cost.edge_worth > 0.0
    ranks = zip(cost.weight_seconds, cost.edge_seconds, (0.75, 0.25), strict=True)
    assert [(vertex * 40 + edge * 400) * share for vertex, edge, share in ranks] == pytest.approx([1.5, 1.5])
