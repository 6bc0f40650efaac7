"""Published epoch times (../shared/data/gnn_epochs) as finished runs of the forecast.

Their part of communication is left unknown: these systems hide it in ways that the physical model does not describe.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from hyperscale.evaluate.forecast.forecast_types import ForecastRun, RunFeatures
from hyperscale.evaluate.forecast.physical_epoch import HostFigures, physical_epoch
from hyperscale.model.constants import API_VERSION
from hyperscale.model.workload import WorkloadProfile
from hyperscale.planner.workload.profile import profile
from hyperscale.spec.parse import parse_job

_PLACES: Final = [folder / "shared" / "data" / "gnn_epochs" for folder in Path(__file__).resolve().parents[2:]]
DATA: Final = next((place for place in _PLACES if place.is_dir()), _PLACES[0])
"""The published tables beside the repository, or beside a folder above it."""

LOADED_EDGES: Final = {
    "ogbn-arxiv": 2_332_486,
    "reddit": 114_615_892,
    "ogbn-products": 123_718_280,
    "orkut": 234_370_166,
    "ogbn-papers100m": 3_231_371_744,
}
"""Directed edges as the training scripts load them; the tables print other counts. Other graphs: twice the printed edges."""

SAMPLERS: Final = ("DGL", "DistDGL", "Quiver")
"""Systems that train on sampled mini-batches; the others train on the full graph."""
ASSUMED_BATCH: Final = 1024
"""Seeds a GPU and step: the tables do not state it (32 to 4,096)."""

A100_HOST: Final = HostFigures(13e12, 0.8 * 100e9, 0.8 * 25e9 / 8, 0.8 * 31.5e9)
"""host_types.csv with the planner's own figures: sustained FLOP/s, four NVLinks between any two GPUs, 25 Gbit/s, PCIe 4.0, each at 80 %."""
H100_HOST: Final = HostFigures(26e12, 0.8 * 450e9, 8 * 0.8 * 400e9 / 8, 0.8 * 63e9)
"""The same of MLPerf's eight-GPU hosts: 18 NVLinks, one 400 Gbit/s card a GPU (public figure of DGX H100), PCIe 5.0."""

FAULTY: Final = {("T5", "PipeGCN", "reddit"), ("T5", "Full-Graph", "reddit")}
"""Curves that ../shared/data/README.md marks as likely faults, with all of T21 Full-Graph, whose times do not fall with GPUs."""

EPOCH_SEEDS: Final = 94_605_581
"""Training vertices of IGBH-Full, one MLPerf epoch."""


def faulty(row: Mapping[str, str]) -> bool:
    """True where the data's notes doubt the curve of this row."""
    return (row["table"], row["system"], row["dataset"]) in FAULTY or (row["table"], row["system"]) == ("T21", "Full-Graph")


def read(file: Path) -> list[dict[str, str]]:
    """Rows of a CSV file. SystemExit where it is absent or lacks a header."""
    try:
        with file.open(newline="") as lines:
            rows = list(csv.DictReader(lines))
    except OSError as error:
        raise SystemExit(f"{file}: {error.strerror}; name a table with the columns of epoch_times.csv") from error
    if not rows:
        raise SystemExit(f"{file}: no rows; name a table with the columns of epoch_times.csv")
    return rows


COLUMNS: Final = ("table", "model", "system", "dataset", "hosts", "gpus", "epoch_s")


def epoch_runs(file: Path, shapes_file: Path = DATA / "dataset_stats.csv") -> tuple[list[ForecastRun], list[dict[str, str]]]:
    """Runs and their rows, those out of memory left out. SystemExit names the file, line and column of a bad figure."""
    shapes = {(row["table"], row["dataset"]): row for row in read(shapes_file)}
    rows = read(file)
    missing = [column for column in COLUMNS if column not in rows[0]]
    if missing:
        raise SystemExit(f"{file}: lacks the columns {', '.join(missing)}")
    runs, kept = [], []
    for line, row in enumerate(rows, start=2):
        if not row["epoch_s"].strip():
            continue
        try:
            runs.append(_epoch_run(row, shapes.get((row["table"], row["dataset"]))))
        except ValueError as error:
            raise SystemExit(f"{file}, line {line}: {error}") from error
        kept.append(row)
    return runs, kept


def _number(row: Mapping[str, str], column: str) -> float:
    try:
        number = float(row[column])
    except (TypeError, ValueError):
        number = math.nan
    if not 0.0 < number < math.inf:
        raise ValueError(f"{column}: {row[column]!r} is no number above 0; write one, or leave epoch_s empty for out of memory")
    return number


def _epoch_run(row: Mapping[str, str], shape: Mapping[str, str] | None) -> ForecastRun:
    ranks, hosts, seconds = int(_number(row, "gpus")), int(_number(row, "hosts")), _number(row, "epoch_s")
    features: dict[str, Any] = {"architecture": row["model"], "system": row["system"], "dataset": row["dataset"], "gpu_product": "A100"}
    name = f"{row['table']} {row['system']} {row['dataset']} {ranks}"
    if shape is None:
        return ForecastRun(name, RunFeatures(**features), ranks, hosts, seconds, 1.0 / ranks)
    sampled = row["system"] in SAMPLERS
    edges = float(LOADED_EDGES.get(row["dataset"], 2 * int(shape["edges"])))
    figures: dict[str, Any] = {"vertices": float(shape["nodes"]), "edges": edges}
    figures |= {"feature_size": float(shape["feature_dim"]), "hidden_size": float(shape["hidden"]), "layers": float(shape["layers"])}
    if sampled:
        figures |= {"batch_size": float(ASSUMED_BATCH), "fanout": float(shape["fanout"])}
    work = workload(row["model"], shape, int(edges), ASSUMED_BATCH if sampled else None, [int(shape["fanout"])] * int(shape["layers"]))
    parts = physical_epoch(work, A100_HOST, ranks, hosts)
    run_features = RunFeatures(**features, **figures)
    return ForecastRun(name, run_features, ranks, hosts, seconds, parts.seconds)


def workload(model: str, shape: Mapping[str, str], edges: int, batch: int | None, fanouts: Sequence[int]) -> WorkloadProfile:
    """As the planner sees a job with this model and graph."""
    spec: dict[str, Any] = {"architecture": model, "layers": int(shape["layers"]), "hiddenSize": int(shape["hidden"])}
    if shape.get("heads"):
        spec["heads"] = int(shape["heads"])
    if batch is not None:
        spec |= {"batchSize": batch, "fanouts": list(fanouts)}
    dataset = {
        "source": {"persistentVolumeClaim": {"claimName": "graph"}},
        "vertices": int(shape["nodes"]),
        "edges": edges,
        "featureSize": int(shape["feature_dim"]),
        "classes": int(shape["classes"]),
        "trainVertices": int(shape["train_vertices"]),
    }
    job = {"model": spec, "dataset": dataset, "workers": {"minReplicas": 1, "maxReplicas": 1}}
    resource = {"apiVersion": API_VERSION, "kind": "GNNTrainingJob", "metadata": {"name": "epoch", "namespace": "tables"}, "spec": job}
    return profile(parse_job(resource))


IGBH: Final = {
    "nodes": "547306935",
    "feature_dim": "1024",
    "classes": "2983",
    "train_vertices": str(EPOCH_SEEDS),
    "layers": "3",
    "hidden": "512",
    "heads": "4",
}
"""MLPerf's R-GAT reference on IGBH-Full, planned as GAT: the planner has no relations."""
IGBH_EDGES: Final = 5_812_005_639


def rgat_runs(file: Path) -> list[ForecastRun]:
    """MLPerf's R-GAT entries, one epoch each."""
    runs = []
    for row in read(file):
        ranks, hosts = int(row["gpus"]), int(row["nodes"])
        batch = int(row["global_batch"]) // ranks
        work = workload("GAT", IGBH, IGBH_EDGES, batch, (15, 10, 5))
        features = RunFeatures(
            "RGAT",
            "DGL",
            "igbh-full",
            "H100",
            float(IGBH["nodes"]),
            float(IGBH_EDGES),
            1024.0,
            512.0,
            3.0,
            float(batch),
            math.prod((15.0, 10.0, 5.0)) ** (1 / 3),
        )
        seconds = EPOCH_SEEDS / float(row["samples_per_s"])
        parts = physical_epoch(work, H100_HOST, ranks, hosts)
        runs.append(ForecastRun(row["system"], features, ranks, hosts, seconds, parts.seconds))
    return runs
