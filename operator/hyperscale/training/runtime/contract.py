"""The checked input of a training program: environment variables and the plan file become one frozen `Run`.

Every wrong value is a ContractError of one line that begins with the variable's name; entry points print it and exit with code 2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from hyperscale.model.api.job import AllreduceSchedule, Balance, Compression, Direction, ModelSpec, PartitioningMethod
from hyperscale.model.plan import indexed
from hyperscale.model.runplan import RUN_PLAN_FILE, RunPlan
from hyperscale.training.runtime.published_settings import PUBLISHED, PUBLISHED_FOR_GRAPHS, Hyperparameters, resolve
from hyperscale.training.runtime.refusals import ContractError as ContractError
from hyperscale.util.nesting import shallow

EXIT_WRONG_INPUT: Final = 2
DEFAULT_METRICS_PORT: Final = 9464
RUN_PLAN_VERSION: Final = 1
SOURCES: Final = ("builtin", "persistentVolumeClaim", "configMap", "s3", "generated")
_MAX_PLAN_BYTES: Final = 4 << 20
_SHARES_TOLERANCE: Final = 1e-6

T = TypeVar("T")


@dataclass(frozen=True)
class Dataset:
    """The training graph's address and what the job states about the graph."""

    source: str
    path: str
    format: str
    vertices: int | None
    edges: int | None
    feature_size: int | None
    classes: int | None
    endpoint: str | None
    train_vertices: int | None = None
    direction: Direction = Direction.AUTO


@dataclass(frozen=True)
class Run:
    """One rank's view of one run."""

    job: str
    """namespace/name."""
    plan_id: str
    seed: int
    rank: int
    size: int
    local_rank: int
    gpus_per_worker: int
    partitions: int
    shares: tuple[float, ...]
    """Part of the training vertices of each rank; a worker's share is split evenly over its ranks. Sums to 1."""
    method: PartitioningMethod
    balance: Balance
    schedule: AllreduceSchedule
    compression: Compression
    model: ModelSpec
    hyper: Hyperparameters
    """What the job states, and for the rest what is published for one graph."""
    hyper_for_graphs: Hyperparameters
    """The same for data of many graphs."""
    dataset: Dataset
    checkpoint_dir: Path | None
    checkpoint_every: int
    host_staging: bool
    """Ranks on GPUs may send through host memory where Horovod knows no GPU."""
    plan_file: Path
    plan: RunPlan | None
    partition_dir: Path | None
    """Root of the partition store; None: rank 0 cuts the graph in memory."""
    cache: Path | None
    metrics_port: int
    """Of this rank; 0: no metrics."""

    @property
    def namespace(self) -> str:
        """Namespace of the job."""
        return self.job.partition("/")[0]

    @property
    def name(self) -> str:
        """Name of the job."""
        return self.job.partition("/")[2]


def read(environment: Mapping[str, str]) -> Run:
    """The run that these variables describe; what is absent gets the default of the job's schema. Raises ContractError."""
    size = _integer(environment, "OMPI_COMM_WORLD_SIZE", 1, least=1)
    rank = _integer(environment, "OMPI_COMM_WORLD_RANK", 0, least=0, most=size - 1)
    local_rank = _integer(environment, "OMPI_COMM_WORLD_LOCAL_RANK", 0, least=0)
    gpus = _integer(environment, "HYPERSCALE_GPUS_PER_WORKER", 1, least=1)
    plan_file = Path(environment.get("HYPERSCALE_PLAN_FILE", RUN_PLAN_FILE))
    model = _model(environment)
    checkpoint = environment.get("CHECKPOINT_DIR")
    partition_dir, cache = environment.get("HYPERSCALE_PARTITION_DIR"), environment.get("HYPERSCALE_CACHE")
    port = _integer(environment, "HYPERSCALE_METRICS_PORT", DEFAULT_METRICS_PORT, least=0, most=65535 - 64)
    return Run(
        job=_job(environment),
        plan_id=environment.get("HYPERSCALE_PLAN_ID", ""),
        seed=_integer(environment, "HYPERSCALE_SEED", 0, least=0),
        rank=rank,
        size=size,
        local_rank=local_rank,
        gpus_per_worker=gpus,
        partitions=_integer(environment, "HYPERSCALE_PARTITIONS", size, least=1),
        shares=_shares(environment, size, gpus),
        method=_member(environment, "HYPERSCALE_PARTITIONING_METHOD", PartitioningMethod.AUTO),
        balance=_member(environment, "HYPERSCALE_PARTITIONING_BALANCE", Balance.CAPACITY),
        schedule=_member(environment, "HYPERSCALE_ALLREDUCE_SCHEDULE", AllreduceSchedule.AUTO),
        compression=_member(environment, "HYPERSCALE_COMPRESSION", Compression.NONE),
        model=model,
        hyper=_hyper(environment, PUBLISHED[model.architecture], model),
        hyper_for_graphs=_hyper(environment, PUBLISHED_FOR_GRAPHS, model),
        dataset=_dataset(environment),
        checkpoint_dir=Path(checkpoint) if checkpoint else None,
        checkpoint_every=_integer(environment, "HYPERSCALE_CHECKPOINT_EVERY_EPOCHS", 1, least=1),
        host_staging=_flag(environment, "HYPERSCALE_HOST_STAGING"),
        plan_file=plan_file,
        plan=read_plan(plan_file),
        partition_dir=Path(partition_dir) if partition_dir else None,
        cache=Path(cache) if cache else None,
        metrics_port=port + local_rank if port else 0,
    )


def read_plan(path: Path) -> RunPlan | None:
    """The plan file; None where there is none. Raises ContractError where it cannot be read as this version of the document."""
    try:
        with path.open("rb") as stream:
            document = stream.read(_MAX_PLAN_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ContractError(f"HYPERSCALE_PLAN_FILE: {path} cannot be read ({error.strerror}); mount the plan there or unset it") from error
    if len(document) > _MAX_PLAN_BYTES:
        raise ContractError(f"HYPERSCALE_PLAN_FILE: {path} is larger than {_MAX_PLAN_BYTES} bytes; is it the plan?")
    try:
        decoded = msgspec.json.decode(shallow(document))
        if isinstance(decoded, dict):
            decoded["workers"] = indexed(decoded.get("workers"))
        plan = msgspec.convert(decoded, RunPlan)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ContractError(f"HYPERSCALE_PLAN_FILE: {path}: {error}; see docs/reference/runplan.schema.json") from error
    if plan.version != RUN_PLAN_VERSION:
        raise ContractError(f"HYPERSCALE_PLAN_FILE: {path}: version {plan.version}, this image reads {RUN_PLAN_VERSION}; use a newer image")
    return plan


def _job(environment: Mapping[str, str]) -> str:
    job = environment.get("HYPERSCALE_JOB", "default/training")
    namespace, slash, name = job.partition("/")
    if not (namespace and slash and name):
        raise ContractError(f"HYPERSCALE_JOB: {job!r} is not namespace/name; write e.g. default/cora")
    return job


def _model(environment: Mapping[str, str]) -> ModelSpec:
    text = environment.get("HYPERSCALE_MODEL")
    if text is None:
        raise ContractError('HYPERSCALE_MODEL: missing; write the job\'s spec.model as JSON, e.g. {"architecture": "GCN"}')
    try:
        return msgspec.json.decode(text, type=ModelSpec)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise ContractError(f"HYPERSCALE_MODEL: {error}; write the job's spec.model as JSON") from error


def _hyper(environment: Mapping[str, str], published: Hyperparameters, model: ModelSpec) -> Hyperparameters:
    text = environment.get("HYPERSCALE_HYPERPARAMETERS", "{}")
    try:
        return resolve(published, model.hyperparameters, text)
    except ValueError as error:
        raise ContractError(f'HYPERSCALE_HYPERPARAMETERS: {error}; write JSON, e.g. {{"learningRate": 0.01}}') from error


def _dataset(environment: Mapping[str, str]) -> Dataset:
    source = environment.get("HYPERSCALE_DATASET_SOURCE", "builtin")
    if source not in SOURCES:
        raise ContractError(f"HYPERSCALE_DATASET_SOURCE: {source!r} is unknown; write one of {', '.join(SOURCES)}")
    path = environment.get("HYPERSCALE_DATASET_PATH")
    if not path:
        raise ContractError("HYPERSCALE_DATASET_PATH: missing; write a builtin graph's name, a path below /data or an s3:// address")
    return Dataset(
        source=source,
        path=path,
        format=environment.get("HYPERSCALE_DATASET_FORMAT", "DGL"),
        vertices=_optional(environment, "HYPERSCALE_DATASET_VERTICES"),
        edges=_optional(environment, "HYPERSCALE_DATASET_EDGES"),
        feature_size=_optional(environment, "HYPERSCALE_DATASET_FEATURE_SIZE"),
        classes=_optional(environment, "HYPERSCALE_DATASET_CLASSES"),
        endpoint=environment.get("HYPERSCALE_DATASET_ENDPOINT"),
        train_vertices=_optional(environment, "HYPERSCALE_DATASET_TRAIN_VERTICES"),
        direction=_member(environment, "HYPERSCALE_DATASET_DIRECTION", Direction.AUTO),
    )


def _shares(environment: Mapping[str, str], size: int, gpus: int) -> tuple[float, ...]:
    workers = _integer(environment, "HYPERSCALE_WORKERS", size // gpus, least=1)
    if workers * gpus != size:
        raise ContractError(
            f"HYPERSCALE_WORKERS: {workers} workers of {gpus} processes, but mpirun started {size}; start as many as there are GPUs"
        )
    text = environment.get("HYPERSCALE_SHARES")
    if not text:
        return (1.0 / size,) * size
    try:
        shares = [float(part) for part in text.split(",")]
    except ValueError as error:
        raise ContractError(f"HYPERSCALE_SHARES: {text[:80]!r} is not a comma list of numbers; write e.g. 0.5,0.5") from error
    if len(shares) != workers:
        raise ContractError(f"HYPERSCALE_SHARES: {len(shares)} numbers for {workers} workers; write one for each")
    total = math.fsum(shares)
    if not all(math.isfinite(share) and share > 0.0 for share in shares) or abs(total - 1.0) > _SHARES_TOLERANCE:
        raise ContractError(f"HYPERSCALE_SHARES: {text[:80]!r} must be positive numbers that sum to 1, these sum to {total:g}")
    return tuple(share / total / gpus for share in shares for _ in range(gpus))


def _integer(environment: Mapping[str, str], name: str, default: int, *, least: int, most: int = 2**63 - 1) -> int:
    text = environment.get(name)
    if text is None or text == "":
        return default
    try:
        value = int(text)
    except ValueError as error:
        raise ContractError(f"{name}: {text[:80]!r} is not a whole number; write e.g. {default}") from error
    if not least <= value <= most:
        raise ContractError(f"{name}: {value} is out of range; write {least} to {most}")
    return value


def _flag(environment: Mapping[str, str], name: str) -> bool:
    text = environment.get(name) or "false"
    if text not in ("true", "false"):
        raise ContractError(f"{name}: {text[:80]!r} is neither true nor false; write one of them")
    return text == "true"


def _optional(environment: Mapping[str, str], name: str) -> int | None:
    return _integer(environment, name, 1, least=1) if environment.get(name) else None


def _member(environment: Mapping[str, str], name: str, default: T) -> T:
    """The member of default's enumeration that the variable names."""
    text = environment.get(name)
    if not text:
        return default
    kind = type(default)
    try:
        return kind(text)  # type: ignore[call-arg]
    except ValueError as error:
        members = ", ".join(str(member.value) for member in kind)  # type: ignore[attr-defined]
        raise ContractError(f"{name}: {text[:80]!r} is unknown; write one of {members}") from error
