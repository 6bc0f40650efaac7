"""Graph-level training on MoleculeNet's HIV set: ROC-AUC of several workers against one process.

    .venv/bin/python -m benchmarks.molhiv                    # {GCN, GraphSAGE, GAT}, 1, 2 and 4 workers, 5 seeds: hours on 2 cores
    .venv/bin/python -m benchmarks.molhiv --minutes 30 --workers 1,2 --models GCN
    .venv/bin/python -m benchmarks.molhiv --quick            # no figure to go by: GCN, 400 molecules, 3 epochs, 1 and 2 workers

Every run is what a pod runs, `mpirun … python -m hyperscale.worker.train`, with uneven shares. The model has the published one's 5
layers and dropout of 0.5, but 128 columns instead of 300, 20 epochs instead of 100 and batches of 128 instead of 32, so that a processor
trains it. The scaffold split is that of hyperscale.data.smiles; the figure is the test ROC-AUC at the epoch that is best on the
validation molecules.
"""

from __future__ import annotations

import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import msgspec  # noqa: E402

from benchmarks.common import Row, goal, parser, report  # noqa: E402
from hyperscale.model.measured import RESULT_PREFIX, Measured  # noqa: E402

NAME: Final = "molhiv"
TABLE: Final = Path(__file__).resolve().parents[1] / "../shared/data/molhiv/hiv.csv"
LIMIT: Final = 0.01
MODELS: Final[dict[str, dict[str, Any]]] = {
    "GCN": {"architecture": "GCN"},
    "GraphSAGE": {"architecture": "GraphSAGE"},
    "GAT": {"architecture": "GAT", "heads": 4},
}
SIZE: Final[dict[str, int]] = {"hiddenSize": 128, "layers": 5, "epochs": 20}
GLOBAL_BATCH: Final = 128
HYPER: Final = {"learningRate": 0.001, "weightDecay": 0.0, "dropout": 0.5}
SHARES: Final = {1: "1", 2: "0.6,0.4", 3: "0.45,0.35,0.2", 4: "0.4,0.3,0.2,0.1"}
PUBLISHED: Final = {"GCN": (0.7606, "Hu et al., NeurIPS 2020, table of ogbg-molhiv, GCN")}
"""GraphSAGE and GAT have no figure by the authors of the data set."""


def run(model: str, workers: int, seed: int, table: Path, epochs: int) -> Measured:
    """One training run; raises RuntimeError with what it said."""
    spec = MODELS[model] | SIZE | {"epochs": epochs, "batchSize": GLOBAL_BATCH // workers}
    variables = {
        "HYPERSCALE_JOB": f"benchmark/molhiv-{model.lower()}",
        "HYPERSCALE_MODEL": json.dumps(spec),
        "HYPERSCALE_HYPERPARAMETERS": json.dumps(HYPER),
        "HYPERSCALE_DATASET_SOURCE": "pvc",
        "HYPERSCALE_DATASET_PATH": str(table),
        "HYPERSCALE_DATASET_FORMAT": "SMILES",
        "HYPERSCALE_SEED": str(seed),
        "HYPERSCALE_SHARES": SHARES[workers],
        "HYPERSCALE_METRICS_PORT": "0",
        "HYPERSCALE_PLAN_FILE": "/nonexistent/plan.json",
    }
    command = [sys.executable, "-W", "ignore", "-m", "hyperscale.worker.train"]
    if workers > 1:
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        network = ["--bind-to", "none", "-mca", "btl", "self,tcp", "-mca", "btl_tcp_if_include", "lo"]
        command = ["mpirun", "--oversubscribe", "-np", str(workers), *root, *network, *command]
    ended = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    found = [line for line in ended.stdout.splitlines() if line.startswith(RESULT_PREFIX)]
    if ended.returncode or not found:
        raise RuntimeError(f"{model}, {workers} workers: exit code {ended.returncode}\n{ended.stderr[-2000:]}")
    return msgspec.json.decode(found[-1].removeprefix(RESULT_PREFIX), type=Measured)


def first_molecules(count: int, target: Path) -> Path:
    """A table of molecules from all over the HIV set, a quarter of them active, with a split of their own."""
    with TABLE.open(newline="") as stream:
        header, *molecules = list(csv.reader(stream))
    active = [row for row in molecules[:20_000] if row[-1] == "1"][: count // 4]
    chosen = active + [row for row in molecules if row[-1] == "0"][:: len(molecules) // count][: count - len(active)]
    splits = ["train", "val", "train", "test", "train"]
    with target.open("w", newline="") as stream:
        csv.writer(stream).writerows([[*header, "split"], *([*row, splits[at % 5]] for at, row in enumerate(chosen))])
    return target


def figures(models: list[str], counts: list[int], seeds: int, minutes: float, table: Path, epochs: int) -> Iterator[Row]:
    """Every run, the means over the seeds that all worker counts have, the goals."""
    scores: dict[tuple[str, int], list[float]] = {(model, workers): [] for model in models for workers in counts}
    began = time.monotonic()
    for seed in range(seeds):
        for model in models:
            if time.monotonic() - began > minutes * 60.0:
                break
            for workers in counts:
                result = run(model, workers, seed, table, epochs)
                scores[model, workers].append(result.accuracy or 0.0)
                row = Row(NAME, model, _name_of(workers), "test ROC-AUC", result.accuracy or 0.0, "", seed)
                sys.stderr.write(
                    f"{model} {workers} workers seed {seed}: {row.value:.4f}, loss {result.loss}, epoch {result.epoch_seconds} s\n"
                )
                yield row
                yield Row(NAME, model, _name_of(workers), "loss of the last epoch", result.loss or 0.0, "", seed)
                yield Row(NAME, model, _name_of(workers), "epoch", result.epoch_seconds or 0.0, "s", seed)
    for model in models:
        if scores[model, counts[0]]:
            yield from _goals(model, counts, scores)


def _goals(model: str, counts: list[int], scores: dict[tuple[str, int], list[float]]) -> Iterator[Row]:
    means = {workers: statistics.mean(scores[model, workers]) for workers in counts}
    for workers in counts:
        yield Row(NAME, model, _name_of(workers), f"mean test ROC-AUC, {len(scores[model, workers])} seeds", means[workers], "")
        if workers > 1:
            yield goal(NAME, f"{model} MolHIV: |{workers} workers - 1 process|", "hyperscale", abs(means[workers] - means[1]), LIMIT, "")
    if model in PUBLISHED:
        published, source = PUBLISHED[model]
        yield Row(NAME, model, source, "published test ROC-AUC", published, "")
        yield goal(NAME, f"{model} MolHIV: |published - 1 process|", "hyperscale", abs(published - means[1]), LIMIT, "")


def _name_of(workers: int) -> str:
    return f"{workers} workers" if workers > 1 else "1 process"


def main() -> None:
    """Run and print."""
    arguments = parser(__doc__ or "")
    arguments.add_argument("--workers", default="1,2,4", metavar="LIST", help="worker counts, 1 is always among them")
    arguments.add_argument("--models", default=",".join(MODELS), metavar="LIST", help="e.g. GCN,GAT")
    arguments.add_argument("--seeds", type=int, default=5)
    arguments.add_argument("--epochs", type=int, default=SIZE["epochs"])
    arguments.add_argument("--minutes", type=float, default=1e6, help="begin no seed of a model later than this")
    chosen = arguments.parse_args()
    if not TABLE.is_file():
        sys.exit(f"molhiv: {TABLE} is not there; nothing to train on")
    counts = sorted({1, *(int(text) for text in chosen.workers.split(","))})
    with tempfile.TemporaryDirectory() as scratch:
        if chosen.quick:
            table = first_molecules(400, Path(scratch) / "hiv.csv")
            report((row for row in figures(["GCN"], [1, 2], 1, 1.0, table, 3) if "published" not in row.case), chosen.json)
            return
        report(figures(chosen.models.split(","), counts, chosen.seeds, chosen.minutes, TABLE, chosen.epochs), chosen.json)


if __name__ == "__main__":
    main()
