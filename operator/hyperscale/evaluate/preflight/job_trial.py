"""From a job to the trial of its first steps: the variables of its contract, and a stand-in where its graph is not at hand."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from hyperscale.evaluate.preflight.sandboxes import CHECKPOINTS, DATA
from hyperscale.evaluate.preflight.trial_types import Limits, Sandbox, TrialRequest
from hyperscale.model.api.datasets import DatasetSize, dataset_size
from hyperscale.model.api.job import Architecture, DatasetSpec, JobSpec, ModelSpec
from hyperscale.planner.workload.profile import profile

MAX_STAND_IN_EDGES: Final = 500_000
MAX_STAND_IN_BYTES: Final = 1 << 30
MIN_VERTICES: Final = 512
S3_PORTS: Final = {"https": 443, "http": 80}
AWS_HOST: Final = "s3.amazonaws.com"
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


class TrialInputError(Exception):
    """The job cannot be tried as asked; the message names the field or option and what to write instead."""


class Surroundings(NamedTuple):
    """What a machine has for a trial."""

    sandbox: Sandbox = Sandbox.NONE
    script_dir: str = "."
    """Stands for the image's working directory, to which spec.model.script is relative."""
    data: str | None = None
    """Folder that stands for the dataset's volume."""
    shared_tmp: bool = False
    own: Mapping[str, str] = MappingProxyType({})
    """Variables that the code finds there beside the contract's."""


class JobTrial(NamedTuple):
    """A request, and how much smaller than the job's graph its own is."""

    request: TrialRequest
    scale: float
    """Vertices tried for each of the job's."""
    note: str
    """A sentence on a stand-in; "" for the job's own graph."""


def trial_of(key: str, job: JobSpec, limits: Limits, around: Surroundings, *, scale: float | None = None, seed: int = 0) -> JobTrial:
    """Return the trial of a job on one rank. Raises TrialInputError.

    scale: of a stand-in; None takes what fits the limits
    """
    script = None
    if job.model.script is not None:
        script = os.path.abspath(os.path.join(around.script_dir, job.model.script))
        if not Path(script).is_file():
            raise TrialInputError(f"spec.model.script: no file {script}; give its folder as --script-dir")
    elif job.model.architecture is Architecture.CUSTOM:
        raise TrialInputError("spec.model.script: architecture Custom has none; write the path of the training script")
    dataset, part, note = _dataset(job, limits, around, scale)
    checkpoint = {"CHECKPOINT_DIR": CHECKPOINTS} if job.checkpoint is not None and around.sandbox is Sandbox.BUBBLEWRAP else {}
    environment = {
        **around.own,
        "HYPERSCALE_JOB": key,
        "HYPERSCALE_SEED": str(seed),
        "HYPERSCALE_WORKERS": "1",
        "HYPERSCALE_GPUS_PER_WORKER": "1",
        "HYPERSCALE_METRICS_PORT": "0",
        "HYPERSCALE_COMPRESSION": job.allreduce.compression.value,
        "HYPERSCALE_MODEL": _model(job.model, limits.steps),
        **{name: str(value) for name, value in dataset.items() if value is not None},
        **checkpoint,
        **_places(),
    }
    readable = (os.path.abspath(around.script_dir),) if script is not None else ()
    data = around.data if around.sandbox is Sandbox.BUBBLEWRAP else None
    request = TrialRequest(script, environment, readable, data, _addresses(job.dataset), limits, seed, around.sandbox, around.shared_tmp)
    return JobTrial(request, part, note)


def _places() -> dict[str, str]:
    """One rank alone, as hyperscale.training.worker.script tells an own script."""
    return {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}


def _model(model: ModelSpec, steps: int) -> str:
    """With epochs for all steps, however few the job trains."""
    fields = msgspec.to_builtins(replace(model, epochs=max(model.epochs, steps)))
    if model.hyperparameters is None:
        del fields["hyperparameters"]
    return _ENCODER.encode(fields).decode()


def _dataset(job: JobSpec, limits: Limits, around: Surroundings, scale: float | None) -> tuple[dict[str, object], float, str]:
    """Variables of the graph, its scale, and a sentence on a stand-in."""
    source = job.dataset.source
    if source.builtin is not None:
        return {"HYPERSCALE_DATASET_SOURCE": "builtin", "HYPERSCALE_DATASET_PATH": source.builtin.name}, 1.0, ""
    if around.data is not None and source.generated is None:
        return _stored(job.dataset, around), 1.0, ""
    try:
        size = dataset_size(job)
    except ValueError as error:
        raise TrialInputError(f"{error}; or give the folder of the data as --data") from None
    part = scale if scale is not None else fitting_scale(job, size, limits)
    kind = source.generated.kind.value if source.generated is not None else "SBM"
    tried = shrunk(size, part)
    values: dict[str, object] = {
        "HYPERSCALE_DATASET_SOURCE": "generated",
        "HYPERSCALE_DATASET_PATH": kind,
        "HYPERSCALE_DATASET_VERTICES": tried.vertices,
        "HYPERSCALE_DATASET_EDGES": tried.edges,
        "HYPERSCALE_DATASET_FEATURE_SIZE": tried.feature_size,
        "HYPERSCALE_DATASET_CLASSES": tried.classes,
    }
    exact = source.generated is not None and part >= 1.0
    note = (
        ""
        if exact
        else f"Tried on a generated graph of {tried.vertices:,} vertices and {tried.edges:,} edges, {100 * part:.3g} % of the job's."
    )
    return values, part, note


def _stored(dataset: DatasetSpec, around: Surroundings) -> dict[str, object]:
    root = DATA if around.sandbox is Sandbox.BUBBLEWRAP else os.path.abspath(str(around.data))
    return {
        "HYPERSCALE_DATASET_SOURCE": "persistentVolumeClaim",
        "HYPERSCALE_DATASET_PATH": f"{root}/{dataset.path or ''}".rstrip("/"),
        "HYPERSCALE_DATASET_FORMAT": dataset.format.value,
        "HYPERSCALE_DATASET_DIRECTION": dataset.direction.value,
        "HYPERSCALE_DATASET_VERTICES": dataset.vertices,
        "HYPERSCALE_DATASET_EDGES": dataset.edges,
        "HYPERSCALE_DATASET_FEATURE_SIZE": dataset.feature_size,
        "HYPERSCALE_DATASET_CLASSES": dataset.classes,
        "HYPERSCALE_DATASET_TRAIN_VERTICES": dataset.train_vertices,
    }


def shrunk(size: DatasetSize, part: float) -> DatasetSize:
    """Return a graph of that part of the vertices, with the same mean degree and widths."""
    vertices = max(min(size.vertices, MIN_VERTICES), size.classes, round(size.vertices * part))
    # A generated graph has at most half of all pairs.
    edges = min(round(size.edges * vertices / size.vertices), vertices * (vertices - 1) // 2)
    return DatasetSize(vertices, max(2, edges), size.feature_size, size.classes)


def fitting_scale(job: JobSpec, size: DatasetSize, limits: Limits) -> float:
    """Return the largest part of the job's graph, at most the whole, that a trial has memory and time for."""
    room = min(MAX_STAND_IN_BYTES, limits.memory_bytes // 4)
    whole = profile(job)
    graph = max(1.0, whole.full_graph_bytes, 4.0 * size.vertices * size.feature_size + 40.0 * size.edges)
    return min(1.0, max(1.0, room - whole.step_bytes) / graph, MAX_STAND_IN_EDGES / size.edges)


def _addresses(dataset: DatasetSpec) -> tuple[str, ...]:
    """Where the job's data lie, beyond its volumes."""
    s3 = dataset.source.s3
    if s3 is None:
        return ()
    if s3.endpoint is None:
        return (f"{AWS_HOST}:443", f"{s3.bucket}.{AWS_HOST}:443")
    scheme, _, place = s3.endpoint.partition("://")
    host, _, port = place.partition(":")
    return (f"{host}:{port or S3_PORTS[scheme]}",)
