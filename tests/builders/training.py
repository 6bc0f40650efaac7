"""Small labelled graphs, runs without a cluster, and parts of them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from hyperscale.model.adjacency import Array, TrainingGraph
from hyperscale.training.runtime import contract
from hyperscale.training.runtime.contract import Run


def labelled_graph(seed: int, vertices: int = 40, classes: int = 3, features: int = 7, degree: float = 3.0) -> TrainingGraph:
    """An undirected random graph with an isolated vertex, an unlabelled one and all three masks."""
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, vertices - 1, (int(vertices * degree / 2), 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    keys = np.unique(np.concatenate([pairs[:, 0] * vertices + pairs[:, 1], pairs[:, 1] * vertices + pairs[:, 0]]))
    rows, columns = np.divmod(keys, vertices)
    kind = rng.integers(0, 3, vertices)
    kind[:3] = (0, 1, 2)
    labels = rng.integers(0, classes, vertices)
    labels[3] = -1
    return TrainingGraph(
        indptr=np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=vertices))]).astype(np.int64),
        indices=columns.astype(np.int32),
        features=rng.random((vertices, features), dtype=np.float32),
        labels=labels,
        train=kind == 0,
        validation=kind == 1,
        test=kind == 2,
        classes=classes,
        name="random",
    )


def assignment(seed: int, vertices: int, parts: int) -> Array:
    """A random part for each vertex, every part used."""
    drawn = np.random.default_rng(seed).integers(0, parts, vertices).astype(np.int32)
    drawn[:parts] = np.arange(parts)
    return drawn


def a_run(model: dict[str, Any] | None = None, hyper: dict[str, Any] | None = None, rank: int = 0, size: int = 1, **variables: str) -> Run:
    """A rank's run; keyword arguments are variables of the contract."""
    return contract.read(environment(model, hyper, rank, size, **variables))


def environment(
    model: dict[str, Any] | None = None, hyper: dict[str, Any] | None = None, rank: int = 0, size: int = 1, **variables: str
) -> dict[str, str]:
    """Variables of one rank without metrics, plan file or dropout, unless said otherwise."""
    return {
        "HYPERSCALE_MODEL": json.dumps({"architecture": "GCN", "hiddenSize": 5, "epochs": 3} | (model or {})),
        "HYPERSCALE_HYPERPARAMETERS": json.dumps({"dropout": 0.0, "attentionDropout": 0.0} | (hyper or {})),
        "HYPERSCALE_DATASET_PATH": "Cora",
        "HYPERSCALE_METRICS_PORT": "0",
        "HYPERSCALE_PLAN_FILE": "/nonexistent/plan.json",
        "OMPI_COMM_WORLD_SIZE": str(size),
        "OMPI_COMM_WORLD_RANK": str(rank),
        **variables,
    }
