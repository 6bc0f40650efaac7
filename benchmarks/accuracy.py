"""Accuracy of distributed training against one process, and of one process against the published figures.

    .venv/bin/python -m benchmarks.accuracy             # {GCN, GraphSAGE, GAT} × {Cora, CiteSeer}, 1 to 4 workers, 5 seeds
    .venv/bin/python -m benchmarks.accuracy --quick     # the same of GCN and GraphSAGE on Cora with 1 and 2 workers, 3 seeds; no DGL

Public splits, row-normalised features, the papers' own hyper-parameters; the figure is the test accuracy at the epoch with the best
validation accuracy. Workers are real processes over Horovod, one mpirun for each worker count, with uneven shares (SHARES): dropout draws
other numbers on other ranks, so single runs differ and means over seeds are compared. Published figures: PUBLISHED.

GraphSAGE's paper has none of these graphs. The published figures are those of DGL's own recipes (nodepred_cora_sage.yaml and
nodepred_citeseer_sage.yaml in dglgo/recipes of dmlc/dgl): means of 10 runs on the public split, whose configuration is known to the last
number: the gcn aggregator on the graph with self loops, 16 hidden, dropout 0.5 before both layers, Adam 0.01 with decay 5e-4, 200 epochs,
scored every 5. The same configuration is run with DGL's own layers beside ours. The README of DGL's examples/pytorch/graphsage has 0.8330
for Cora, a single run: it came with a program whose load_data took the first 140 vertices of the file for training (CoraDataset until
DGL 0.4), not the public split.
`GraphSAGE-mean` is the product's default aggregator; no published figure.

    --threads          workers are threads of one process: for machines too busy for processes

MolHIV: benchmarks.molhiv.

One file, though longer than others, so that the whole measurement can be read at once.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"  # before numpy and torch: ranks share the cores

import msgspec  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # escape sequences in the source of DGL 1.1
    import dgl
    import dgl.nn

from benchmarks.common import Row, goal, parser, report  # noqa: E402
from benchmarks.threads import run_threads, solo  # noqa: E402
from hyperscale.model.adjacency import TrainingGraph  # noqa: E402
from hyperscale.model.api.measured import Measured  # noqa: E402
from hyperscale.training.engine.full import FullTrainer  # noqa: E402
from hyperscale.training.engine.loop import Loop  # noqa: E402
from hyperscale.training.engine.report import Reporter  # noqa: E402
from hyperscale.training.runtime import contract  # noqa: E402
from hyperscale.training.runtime.comm import Comm, connect  # noqa: E402
from hyperscale.training.worker import given, load_part, train  # noqa: E402

NAME: Final = "accuracy"
LIMIT: Final = 0.01
"""One point."""
MODELS: Final[dict[str, dict[str, Any]]] = {
    "GCN": {"architecture": "GCN", "hiddenSize": 16, "epochs": 200},
    "GraphSAGE": {"architecture": "GraphSAGE", "hiddenSize": 16, "epochs": 200},
    "GraphSAGE-mean": {"architecture": "GraphSAGE", "hiddenSize": 16, "epochs": 200},
    "GAT": {"architecture": "GAT", "hiddenSize": 8, "heads": 8, "epochs": 300},
}
HYPER: Final[dict[str, dict[str, Any]]] = {
    "GCN": {},
    "GraphSAGE": {"aggregator": "GCN", "evaluateEveryEpochs": 5},
    "GraphSAGE-mean": {},
    "GAT": {"patienceEpochs": 100},
}
PUBLISHED: Final = {
    ("GCN", "Cora"): (0.815, "Kipf and Welling, ICLR 2017, table 2"),
    ("GCN", "CiteSeer"): (0.703, "Kipf and Welling, ICLR 2017, table 2"),
    ("GAT", "Cora"): (0.830, "Velickovic et al., ICLR 2018, table 2"),
    ("GAT", "CiteSeer"): (0.725, "Velickovic et al., ICLR 2018, table 2"),
    ("GraphSAGE", "Cora"): (0.8163, "DGL-Go's recipe, 10 runs"),
    ("GraphSAGE", "CiteSeer"): (0.6994, "DGL-Go's recipe, 10 runs"),
}
DGLS: Final = "DGL's layers, 1 process"
SHARES: Final = {1: "1", 2: "0.6,0.4", 3: "0.45,0.35,0.2", 4: "0.4,0.3,0.2,0.1"}

FULL: Final = (list(MODELS), ["Cora", "CiteSeer"], [1, 2, 3, 4], 5)
QUICK: Final = (["GCN", "GraphSAGE"], ["Cora"], [1, 2], 3)
"""Models, data sets, worker counts, seeds: 0 and up."""

Case = tuple[str, str, int]
"""Architecture, data set, seed."""


def cases(models: Sequence[str], graphs: Sequence[str], seeds: int) -> list[Case]:
    """In the order in which every rank works through them: all models with one seed, then with the next."""
    return [(model, graph, seed) for seed in range(seeds) for graph in graphs for model in models]


def environment(case: Case, comm: Comm) -> dict[str, str]:
    """The contract's variables of one case."""
    model, graph, seed = case
    return {
        "HYPERSCALE_JOB": f"benchmark/{MODELS[model]['architecture'].lower()}-{graph.lower()}",
        "HYPERSCALE_MODEL": json.dumps(MODELS[model]),
        "HYPERSCALE_HYPERPARAMETERS": json.dumps(HYPER[model]),
        "HYPERSCALE_DATASET_PATH": graph,
        "HYPERSCALE_SEED": str(seed),
        "HYPERSCALE_SHARES": SHARES[comm.size],
        "HYPERSCALE_METRICS_PORT": "0",
        "HYPERSCALE_PLAN_FILE": "/nonexistent/plan.json",
        "OMPI_COMM_WORLD_SIZE": str(comm.size),
        "OMPI_COMM_WORLD_RANK": str(comm.rank),
    }


def one(comm: Comm, case: Case, graphs: dict[str, TrainingGraph]) -> Measured:
    """Train one case on all ranks."""
    run = contract.read(environment(case, comm))
    loops = case[0] == "GraphSAGE"
    name = f"{case[1]}, self loops" if loops else case[1]
    if name not in graphs:
        graphs[name] = with_loops(given.read_graph(run)) if loops else given.read_graph(run)
    trainer = FullTrainer(run, comm, load_part.part_of(run, comm, graphs[name]), torch.device("cpu"))
    return Loop(run, comm, trainer, Reporter(run)).train()


def with_loops(graph: TrainingGraph) -> TrainingGraph:
    """The graph with an edge from each vertex to itself, as the recipes have it; readers leave such edges out."""
    vertices = len(graph.indptr) - 1
    rows = np.concatenate([np.repeat(np.arange(vertices), np.diff(graph.indptr)), np.arange(vertices)])
    columns = np.concatenate([graph.indices, np.arange(vertices)])
    order = np.lexsort((columns, rows))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=vertices))]).astype(np.int64)
    return replace(graph, indptr=indptr, indices=columns[order].astype(np.int32))


def work(comm: Comm, asked: list[Case], *, minutes: float) -> list[Measured]:
    """All cases on this rank, or as many as begin within the time; collective."""
    graphs: dict[str, TrainingGraph] = {}
    outcomes: list[Measured] = []
    began = time.monotonic()
    for case in asked:
        late = torch.tensor([float(time.monotonic() - began > minutes * 60.0)])
        if outcomes and comm.broadcast(late, "late").item():
            break
        outcomes.append(one(comm, case, graphs))
    return outcomes


def in_threads(workers: int, asked: list[Case], *, minutes: float) -> list[Measured]:
    """The cases with `workers` workers as threads of this process: the same sums without Horovod, for machines too busy for processes."""
    outcomes: list[Measured] = run_threads(workers, lambda comm: work(comm, asked, minutes=minutes), timeout_seconds=3600.0)[0]
    return outcomes


def measure(workers: int, asked: list[Case], *, minutes: float) -> list[Measured]:
    """The cases with `workers` worker processes."""
    with tempfile.TemporaryDirectory() as scratch:
        result = Path(scratch) / "result.json"
        command = [sys.executable, "-W", "ignore", "-m", "benchmarks.accuracy", "--as-rank-of", str(workers), "--result", str(result)]
        command += ["--minutes", str(minutes), "--models", ",".join(dict.fromkeys(model for model, _, _ in asked))]
        command += ["--graphs", ",".join(dict.fromkeys(graph for _, graph, _ in asked)), "--seeds", str(1 + asked[-1][2])]
        if workers > 1:
            start = ["mpirun", "--oversubscribe", "-np", str(workers), "--bind-to", "none", "-mca", "btl", "self,tcp"]
            root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
            command = [*start, *root, "-mca", "btl_tcp_if_include", "lo", *command]
        variables = {**os.environ, "OMPI_MCA_mpi_yield_when_idle": "1"}
        finished = subprocess.run(command, env=variables, cwd=ROOT, capture_output=True, text=True, check=False)
        if finished.returncode != 0:
            raise RuntimeError(f"{workers} workers: exit code {finished.returncode}\n{finished.stderr[-2000:]}")
        return msgspec.json.decode(result.read_bytes(), type=list[Measured])


def rows(results: dict[int, list[Measured]], asked: list[Case], *, quick: bool) -> Iterator[Row]:
    """Every run, means, and the goals; means of workers and of one process are over the same seeds."""
    for model, graph in dict.fromkeys(case[:2] for case in asked):
        name = f"{model} {graph}"
        scores: dict[int, list[float]] = {}
        for workers, outcomes in results.items():
            here = runs_of(model, graph, asked, outcomes)
            if here:
                yield from run_rows(name, workers, here)
                scores[workers] = [run.accuracy or 0.0 for _, run in here]
        alone = scores.get(1)
        if not alone:
            continue
        yield from goals_of_workers(name, scores)
        if model == "GraphSAGE" and not quick:
            yield from beside(name, [reference(graph, seed) for seed in range(len(alone))], alone)
        if (model, graph) in PUBLISHED:
            yield from published_rows(model, graph, alone)


def runs_of(model: str, graph: str, asked: list[Case], outcomes: list[Measured]) -> list[tuple[int, Measured]]:
    """Seed and outcome of those cases that there was time for."""
    return [(case[2], run) for case, run in zip(asked, outcomes, strict=False) if case[:2] == (model, graph)]


def run_rows(name: str, workers: int, runs: Sequence[tuple[int, Measured]]) -> Iterator[Row]:
    """Accuracy of each seed, and means over the seeds, of one count of workers."""
    method = f"{workers} workers" if workers > 1 else "1 process"
    scores = [run.accuracy or 0.0 for _, run in runs]
    yield from (Row(NAME, name, method, "test accuracy", score, "", seed) for (seed, _), score in zip(runs, scores, strict=True))
    yield Row(NAME, name, method, f"mean test accuracy, {len(runs)} seeds", statistics.mean(scores), "")
    yield Row(NAME, name, method, "deviation", statistics.stdev(scores) if len(runs) > 1 else 0.0, "")
    yield Row(NAME, name, method, "epoch", statistics.median(run.epoch_seconds or 0.0 for _, run in runs) * 1e3, "ms")


def goals_of_workers(name: str, scores: dict[int, list[float]]) -> Iterator[Row]:
    """Each count of workers against one process, over the seeds that both ran."""
    for workers, those in scores.items():
        if workers > 1:
            seeds = min(len(those), len(scores[1]))
            difference = abs(statistics.mean(those[:seeds]) - statistics.mean(scores[1][:seeds]))
            yield goal(NAME, f"{name}: |{workers} workers - 1 process|", f"{seeds} seeds", difference, LIMIT, "")


def published_rows(model: str, graph: str, alone: Sequence[float]) -> Iterator[Row]:
    """One process against the published accuracy."""
    name = f"{model} {graph}"
    published, source = PUBLISHED[model, graph]
    yield Row(NAME, name, source, "published test accuracy", published, "")
    yield goal(NAME, f"{name}: |published - 1 process|", f"{len(alone)} seeds", abs(published - statistics.mean(alone)), LIMIT, "")


def beside(name: str, theirs: list[tuple[float, float]], alone: list[float]) -> Iterator[Row]:
    """DGL's layers in the same configuration, against ours."""
    for method, scores in ((DGLS, [picked for picked, _ in theirs]), (f"{DGLS}, picked as the recipe does", [told for _, told in theirs])):
        yield from (Row(NAME, name, method, "test accuracy", score, "", seed) for seed, score in enumerate(scores))
        yield Row(NAME, name, method, f"mean test accuracy, {len(scores)} seeds", statistics.mean(scores), "")
    apart = abs(statistics.mean(picked for picked, _ in theirs) - statistics.mean(alone))
    yield goal(NAME, f"{name}: |DGL's layers - 1 process|", f"{len(theirs)} seeds", apart, LIMIT, "")


def reference(name: str, seed: int) -> tuple[float, float]:
    """Test accuracy of DGL's recipe: its layers, its loop, its figures; of the best epoch by validation.

    The first as the worker validates, with the model as it is then. The second as the recipe does: by the logits of the training step,
    dropout and all, and the last of equally good epochs.
    """
    graph = with_loops(given.read_graph(contract.read(environment(("GraphSAGE", name, seed), solo()))))
    rows = torch.from_numpy(graph.features)
    rows = rows / rows.sum(dim=1, keepdim=True).clamp(min=1e-9)
    edges = (torch.from_numpy(graph.indptr), torch.from_numpy(graph.indices.astype("int64")), torch.tensor([]))
    whole, labels, train_mask = dgl.graph(("csc", edges)), torch.from_numpy(graph.labels), torch.from_numpy(graph.train)
    validation, test = torch.from_numpy(graph.validation), torch.from_numpy(graph.test)
    torch.manual_seed(seed)
    first = dgl.nn.SAGEConv(rows.shape[1], 16, "gcn", feat_drop=0.5, activation=torch.relu)
    layers = torch.nn.ModuleList([first, dgl.nn.SAGEConv(16, graph.classes, "gcn", feat_drop=0.5)])
    optimizer = torch.optim.Adam(layers.parameters(), lr=0.01, weight_decay=5e-4)
    best, told = (-1.0, 0.0), (-1.0, 0.0)
    for epoch in range(1, 201):
        optimizer.zero_grad()
        logits = layers[1](whole, layers[0](whole, rows))
        loss = torch.nn.functional.cross_entropy(logits[train_mask], labels[train_mask])
        loss.backward()  # type: ignore[no-untyped-call] # torch annotates only a part of Tensor
        optimizer.step()
        if epoch % 5:
            continue
        layers.eval()
        with torch.no_grad():
            right = (layers[1](whole, layers[0](whole, rows)).argmax(dim=1) == labels).float()
        layers.train()
        tested = float(right[test].mean())
        best = max(best, (float(right[validation].mean()), tested), key=lambda pair: pair[0])
        told = max((float((logits.argmax(dim=1) == labels)[validation].float().mean()), tested), told, key=lambda pair: pair[0])
    return best[1], told[1]


def as_rank(workers: int, asked: list[Case], *, minutes: float, result: Path) -> None:
    """The cases as one of `workers` processes; rank 0 writes their outcomes to `result`."""
    train.tune(contract.read({"HYPERSCALE_MODEL": '{"architecture": "GCN"}', "HYPERSCALE_DATASET_PATH": "Cora"}))
    comm = connect(workers)
    outcomes = work(comm, asked, minutes=minutes)
    if comm.rank == 0:
        result.write_bytes(msgspec.json.encode(outcomes))
    comm.close()


def main() -> int:
    """Run every worker count, print the table, fail where a goal is missed."""
    arguments = parser(__doc__ or "")
    arguments.add_argument("--as-rank-of", type=int, default=0, metavar="N", help=argparse.SUPPRESS)
    arguments.add_argument("--result", type=Path, help=argparse.SUPPRESS)
    arguments.add_argument(
        "--minutes", type=float, default=600.0, metavar="M", help="begin no further case after M minutes of a worker count"
    )
    arguments.add_argument("--threads", action="store_true", help="workers are threads of one process, without Horovod")
    arguments.add_argument("--workers", default="", metavar="LIST", help="worker counts, e.g. 1,2")
    arguments.add_argument("--models", default="", metavar="LIST", help="e.g. GCN,GAT")
    arguments.add_argument("--seeds", type=int, metavar="N")
    arguments.add_argument("--graphs", default="", metavar="LIST", help="Cora,CiteSeer")
    chosen = arguments.parse_args()
    models, graphs, counts, seeds = QUICK if chosen.quick else FULL
    asked = cases(
        chosen.models.split(",") if chosen.models else models, chosen.graphs.split(",") if chosen.graphs else graphs, chosen.seeds or seeds
    )
    if chosen.as_rank_of:
        as_rank(chosen.as_rank_of, asked, minutes=chosen.minutes, result=chosen.result)
        return 0
    counts = [int(text) for text in chosen.workers.split(",")] if chosen.workers else counts
    if shutil.which("mpirun") is None:
        sys.exit("accuracy: mpirun is missing; run `make horovod`")
    run = in_threads if chosen.threads else measure
    results = {workers: run(workers, asked, minutes=chosen.minutes) for workers in sorted({1, *counts})}
    return report(rows(results, asked, quick=chosen.quick), chosen.json)


if __name__ == "__main__":
    sys.exit(main())
