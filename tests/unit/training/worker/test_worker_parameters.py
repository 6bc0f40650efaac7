"""The parameters that a plan counts are those of the network that the worker builds."""

from __future__ import annotations

from typing import Any, Final

import pytest

from hyperscale.planner.workload.layer_costs import layers, parameters
from hyperscale.training.engine.models import DropoutRng, build
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
