"""What a run's own description says of its gradients and steps before there is a model: Horovod reads its variables earlier than that."""

from __future__ import annotations

import math
from typing import Final

from hyperscale.model.api.datasets import BUILTIN_SIZES, trained_of
from hyperscale.model.api.job import Architecture, Compression, DatasetFormat
from hyperscale.planner.workload.layer_costs import layers, parameters
from hyperscale.training.runtime.contract import Run

_SINGLE, _DOUBLE, _HALF = 4, 8, 2
BUILTIN: Final = "builtin"


def gradient_bytes(run: Run) -> float | None:
    """Of all gradients of a step together; None where the job does not state what the model's size follows from."""
    count = _parameters(run)
    if count is None:
        return None
    # Models over many graphs keep parameters, and so gradients, in double precision.
    whole = _DOUBLE if run.dataset.format == DatasetFormat.SMILES else _SINGLE
    return float(count * (_HALF if run.compression is Compression.FP16 else whole))


def step_seconds(run: Run) -> float | None:
    """Of one step by the plan's prediction, divided as the planner multiplied it; None without a plan or the vertices it counted."""
    if run.plan is None or run.plan.predicted is None or not run.plan.predicted.epoch_seconds > 0:
        return None
    steps, batch = 1, run.model.batch_size
    if batch is not None:
        trained = _train_vertices(run)
        if trained is None:
            return None
        steps = max(1, math.ceil(trained / (batch * run.size)))
    return run.plan.predicted.epoch_seconds / steps


def _train_vertices(run: Run) -> int | None:
    """As the planner counted them; None where the graph's size was not stated."""
    dataset = run.dataset
    builtin = BUILTIN_SIZES.get(dataset.path) if dataset.source == BUILTIN else None
    vertices = dataset.vertices or (builtin.vertices if builtin is not None else None)
    classes = dataset.classes or (builtin.classes if builtin is not None else None)
    if dataset.train_vertices is not None or vertices is None:
        return dataset.train_vertices
    return trained_of(vertices, classes or 1, small_split=dataset.source in (BUILTIN, "generated"))


def _parameters(run: Run) -> int | None:
    if run.model.parameters is not None:
        return run.model.parameters
    if run.model.architecture is Architecture.CUSTOM or run.dataset.format == DatasetFormat.SMILES:
        return None
    builtin = BUILTIN_SIZES.get(run.dataset.path) if run.dataset.source == BUILTIN else None
    features = run.dataset.feature_size or (builtin.feature_size if builtin is not None else None)
    classes = run.dataset.classes or (builtin.classes if builtin is not None else None)
    if features is None or classes is None:
        return None
    return parameters(run.model, layers(run.model, features, classes))
