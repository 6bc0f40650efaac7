"""What fused layers are worth to a training job: epochs of the worker's own trainer, with them and with DGL's operations.

Part of benchmarks/fusion.py; alone: python -m benchmarks.fusion_worker [--quick] [--json FILE]. One process, one thread, the whole graph
as one part. Both variants live in the process and take epochs in turn; processor milliseconds are medians, ratios medians of the turns'
ratios. Their losses and first gradients must agree.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import time  # noqa: E402 - threads are set before numpy is imported
import warnings  # noqa: E402
from typing import Any, Final  # noqa: E402

import numpy as np  # noqa: E402
import torch  # noqa: E402

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # escape sequences in the source of DGL 1.1
    import dgl  # noqa: F401

from benchmarks import common  # noqa: E402
from benchmarks.peers import dglpasses  # noqa: E402
from benchmarks.threads import solo  # noqa: E402
from hyperscale.model.adjacency import TrainingGraph  # noqa: E402
from hyperscale.training.engine.full import FullTrainer  # noqa: E402
from hyperscale.training.modelgraph import fused_operations  # noqa: E402
from hyperscale.training.partition import local_part  # noqa: E402
from hyperscale.training.runtime import allocator, contract  # noqa: E402
from hyperscale.training.worker import given  # noqa: E402

VERTICES: Final = 60_000
CLOSE: Final = 2e-5
"""Both are float32, each within 1e-5 of float64."""
CITATION: Final[dict[str, dict[str, Any]]] = {
    "GCN": {"hiddenSize": 16},
    "GraphSAGE": {"hiddenSize": 16},
    "GAT": {"hiddenSize": 8, "heads": 8},
}
LARGE: Final[dict[str, dict[str, Any]]] = {
    "GCN": {"hiddenSize": 64},
    "GraphSAGE": {"hiddenSize": 64},
    "GAT": {"hiddenSize": 16, "heads": 4},
}


def rows(benchmark: str, *, large: bool = True) -> list[common.Row]:
    """All models on Cora and on a graph of communities with 1 M edges, a quarter of that where not `large`."""
    allocator.keep(os.environ)
    torch.set_num_threads(1)
    made: list[common.Row] = []
    graph = given.read_graph(_run("GCN", {}))
    for kind, size in CITATION.items():
        made += _compared(benchmark, f"worker, {kind}, Cora", graph, (kind, size), 40)
    graph = communities(VERTICES if large else VERTICES // 4)
    for kind, size in LARGE.items():
        made += _compared(benchmark, f"worker, {kind}, {len(graph.indices) / 1e6:.2f} M edges", graph, (kind, size), 7)
    return made


def communities(vertices: int, features: int = 128) -> TrainingGraph:
    """The graph of benchmarks/training.py."""
    from benchmarks.training import communities as made

    return made(vertices, features, 0)


def _run(kind: str, size: dict[str, Any], **hyper: object) -> contract.Run:
    return contract.read(
        {
            "HYPERSCALE_MODEL": json.dumps({"architecture": kind, "epochs": 200} | size),
            "HYPERSCALE_HYPERPARAMETERS": json.dumps(hyper),
            "HYPERSCALE_DATASET_PATH": "Cora",
            "HYPERSCALE_METRICS_PORT": "0",
            "HYPERSCALE_PLAN_FILE": "/nonexistent/plan.json",
        }
    )


def _trainer(graph: TrainingGraph, what: tuple[str, dict[str, Any]], *, fused: bool) -> FullTrainer:
    """With the hyper-parameters of the papers, dropout too."""
    whole = local_part(graph, np.zeros(len(graph.labels), np.int32), 0, 1)
    return FullTrainer(_run(*what), solo(), whole, torch.device("cpu"), fused_operations if fused else dglpasses)


def _compared(benchmark: str, case: str, graph: TrainingGraph, what: tuple[str, dict[str, Any]], epochs: int) -> list[common.Row]:
    labels = ("DGL's operations", "fused")
    trainers = {label: _trainer(graph, what, fused=label == "fused") for label in labels}
    taken: dict[str, list[float]] = {label: [] for label in labels}
    losses: dict[str, float] = {}
    apart = 0.0
    for number in range(1, epochs + 2):
        for label in labels if number % 2 else reversed(labels):
            began = time.process_time()
            losses[label] = trainers[label].epoch(number).loss
            taken[label].append(time.process_time() - began)
        if number == 1:
            apart = _difference(*trainers.values())
    made = [common.Row(benchmark, case, label, "epoch", common.median(taken[label][1:]) * 1e3, "ms CPU") for label in labels]
    ratio = common.median([one / other for one, other in zip(*(taken[label][1:] for label in labels), strict=True)])
    made.append(common.Row(benchmark, case, "fused", "DGL / this", ratio, "ratio"))
    made += [common.Row(benchmark, case, label, f"loss of epoch {epochs + 1}", losses[label], "") for label in labels]
    made.append(common.goal(benchmark, f"{case}: first gradients", "fused", apart, CLOSE, "relative"))
    return made


def _difference(first: FullTrainer, other: FullTrainer) -> float:
    """The largest of any gradient, of the largest figure there."""
    worst = 0.0
    for one, two in zip(first.model.parameters(), other.model.parameters(), strict=True):
        if one.grad is not None and two.grad is not None:
            worst = max(worst, float((one.grad - two.grad).abs().max() / one.grad.abs().max()))
    return worst


def main() -> int:
    """Measure, print, and fail where a goal is missed."""
    arguments = common.parser(__doc__ or "").parse_args()
    return common.report(rows("fusion", large=not arguments.quick), arguments.json)


if __name__ == "__main__":
    sys.exit(main())
