"""The parameters that a plan counts are those of the network that the worker builds."""

from __future__ import annotations

from typing import Any, Final

import pytest
import torch

from benchmarks.threads import run_threads
from hyperscale.planner.workload.layer_costs import layers, parameters
from hyperscale.training.engine.models import DropoutRng, build
from hyperscale.training.molecules import molecules_model
from hyperscale.training.molecules.molecules_norm import Sums
from hyperscale.training.runtime.comm import Comm
from tests.builders.training import a_run

FEATURES: Final = 12
CLASSES: Final = 3


@pytest.mark.parametrize(
    "model",
    [
        {"architecture": "GCN"},
        {"architecture": "GraphSAGE"},
        {"architecture": "GraphSAGE", "hyperparameters": {"aggregator": "Mean"}},
        {"architecture": "GraphSAGE", "hyperparameters": {"aggregator": "GCN"}},
        {"architecture": "GAT", "heads": 2},
    ],
)
@pytest.mark.parametrize("depth", [1, 3])
def test_a_plan_counts_the_parameters_that_the_worker_trains(model: dict[str, Any], depth: int) -> None:
    run = a_run(model | {"layers": depth})
    network = build(run.model, run.hyper, FEATURES, CLASSES, DropoutRng(0, 0), 0)
    assert parameters(run.model, layers(run.model, FEATURES, CLASSES)) == sum(each.numel() for each in network.parameters())


@pytest.mark.parametrize("aggregator", ["Mean", "GCN"])
def test_a_plan_counts_the_matrices_that_a_worker_trains_on_many_graphs(aggregator: str) -> None:
    run = a_run({"architecture": "GraphSAGE", "layers": 3, "hiddenSize": 8, "hyperparameters": {"aggregator": aggregator}})

    def network(comm: Comm) -> molecules_model.GraphNetwork:
        sums = Sums(comm, torch.device("cpu"))
        return molecules_model.build(run.model, run.hyper_for_graphs, 8, (3,), 8, DropoutRng(0, 0), 0, sums)

    (built,) = run_threads(1, network)
    weights = [each for layer in built.layers for each in layer.parameters() if each.shape == (8, 8)]
    planned = parameters(run.model, layers(run.model, 8, 8)) - 3 * 8
    assert planned == sum(each.numel() for each in weights)
