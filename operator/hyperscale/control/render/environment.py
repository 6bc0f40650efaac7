"""Environment variables that the training program gets: the same in launcher and workers, forwarded to every rank by mpirun.

Name, then meaning:

- HYPERSCALE_JOB                    namespace/name
- HYPERSCALE_PLAN_ID, _SEED         of the plan; absent without one
- HYPERSCALE_PLAN_FILE              the plan as a file (docs/reference/runplan.md), written again with every plan; absent without one
- HYPERSCALE_WORKERS                worker pods; rank r of MPI runs in worker r // HYPERSCALE_GPUS_PER_WORKER
- HYPERSCALE_GPUS_PER_WORKER        MPI processes in each worker
- HYPERSCALE_PARTITIONS             parts of the training graph
- HYPERSCALE_SHARES                 comma list, part of the training vertices of each worker, whose ranks divide it evenly; sums to 1
- HYPERSCALE_PARTITIONING_METHOD, HYPERSCALE_PARTITIONING_BALANCE
- HYPERSCALE_PARTITION_DIR          root of the store of partitions; absent where the workers partition in memory
- HYPERSCALE_METRICS_PORT           where each worker serves its progress to Prometheus
- HYPERSCALE_ALLREDUCE_SCHEDULE, HYPERSCALE_COMPRESSION
- HYPERSCALE_HOST_STAGING           true where ranks on GPUs may send through host memory; absent otherwise
- HYPERSCALE_MODEL                  JSON of spec.model
- HYPERSCALE_DATASET_SOURCE         persistentVolumeClaim, s3, configMap, builtin or generated
- HYPERSCALE_DATASET_PATH           directory or file below /data, s3:// address, name of the builtin graph, or kind of the generated
- HYPERSCALE_DATASET_FORMAT, _VERTICES, _EDGES, _FEATURE_SIZE, _CLASSES, _ENDPOINT    where the job says so
- CHECKPOINT_DIR, HYPERSCALE_CHECKPOINT_EVERY_EPOCHS                                  where checkpoints are wanted
- CUDA_DEVICE_ORDER                 PCI_BUS_ID where a worker has several GPUs and the user's templates state no order
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from hyperscale.control.render.template import Json, mappings_at
from hyperscale.model.api.job import DatasetSpec, Direction, JobSpec, ModelSpec
from hyperscale.model.meta import JobMetadata
from hyperscale.model.plan import Plan
from hyperscale.model.runplan import RUN_PLAN_FILE

DATA_PATH: Final = "/data"
CHECKPOINT_PATH: Final = "/checkpoints"
PARTITION_PATH: Final = "/partitions"
METRICS_PORT: Final = 9464
"""Usual port of OpenTelemetry's Prometheus exporters; nothing else in a worker listens there."""
AWS_CREDENTIALS: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
DEVICE_ORDER: Final = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
"""GPU i of a worker is then the same slot of every node, so that ranks of one local number meet on one rail."""
IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_ENCODER = msgspec.json.Encoder(order="deterministic")


def contract(metadata: JobMetadata, job: JobSpec, plan: Plan | None) -> dict[str, str]:
    """The variables above, sorted by name, values as the program shall see them."""
    workers = len(plan.workers) if plan is not None else job.workers.max_replicas
    values: dict[str, object] = {
        "HYPERSCALE_JOB": metadata.key,
        "HYPERSCALE_PLAN_ID": plan.plan_id if plan is not None else None,
        "HYPERSCALE_SEED": plan.seed if plan is not None else None,
        "HYPERSCALE_PLAN_FILE": RUN_PLAN_FILE if plan is not None else None,
        "HYPERSCALE_WORKERS": workers,
        "HYPERSCALE_GPUS_PER_WORKER": job.workers.gpus_per_worker,
        "HYPERSCALE_PARTITIONS": partitions(job, plan),
        "HYPERSCALE_SHARES": ",".join(repr(share) for share in shares(workers, plan)),
        "HYPERSCALE_PARTITIONING_METHOD": job.partitioning.method.value,
        "HYPERSCALE_PARTITIONING_BALANCE": job.partitioning.balance.value,
        "HYPERSCALE_PARTITION_DIR": PARTITION_PATH if job.partitioning.claim_name is not None else None,
        "HYPERSCALE_METRICS_PORT": METRICS_PORT,
        "HYPERSCALE_ALLREDUCE_SCHEDULE": job.allreduce.schedule.value,
        "HYPERSCALE_COMPRESSION": job.allreduce.compression.value,
        "HYPERSCALE_HOST_STAGING": "true" if job.allreduce.host_staging else None,
        "HYPERSCALE_MODEL": _model(job.model),
        **_dataset(job.dataset),
    }
    if job.model.script is not None:
        # Rank 0 is on the first host of mpi-operator's hostfile, by the name that stands there.
        values["HYPERSCALE_MASTER_ADDR"] = f"{metadata.name}-worker-0.{metadata.name}.{metadata.namespace}.svc"
    if job.checkpoint is not None:
        values["CHECKPOINT_DIR"] = CHECKPOINT_PATH
        values["HYPERSCALE_CHECKPOINT_EVERY_EPOCHS"] = job.checkpoint.every_epochs
    return {name: str(values[name]) for name in sorted(values) if values[name] is not None}


def _model(model: ModelSpec) -> str:
    """Without hyper-parameters where the job states none: worker images of before knew none, and refuse what they do not know."""
    fields = msgspec.to_builtins(model)
    if model.hyperparameters is None:
        del fields["hyperparameters"]
    return _ENCODER.encode(fields).decode()


def partitions(job: JobSpec, plan: Plan | None) -> int:
    """Parts of the training graph; without a plan one a rank, or as many as the job says."""
    if plan is not None:
        return plan.partitions
    return job.workers.max_replicas * job.workers.gpus_per_worker if job.partitioning.count is None else job.partitioning.count


def shares(workers: int, plan: Plan | None) -> tuple[float, ...]:
    """Part of the training vertices of each worker; equal without a plan."""
    if plan is None:
        return (1.0 / workers,) * workers
    return tuple(worker.share for worker in plan.workers)


def _dataset(dataset: DatasetSpec) -> dict[str, object]:
    kind, address = _location(dataset)
    s3 = dataset.source.s3
    return {
        "HYPERSCALE_DATASET_SOURCE": kind,
        "HYPERSCALE_DATASET_PATH": address,
        "HYPERSCALE_DATASET_FORMAT": dataset.format.value,
        "HYPERSCALE_DATASET_DIRECTION": dataset.direction.value if dataset.direction is not Direction.AUTO else None,
        "HYPERSCALE_DATASET_VERTICES": dataset.vertices,
        "HYPERSCALE_DATASET_EDGES": dataset.edges,
        "HYPERSCALE_DATASET_FEATURE_SIZE": dataset.feature_size,
        "HYPERSCALE_DATASET_CLASSES": dataset.classes,
        "HYPERSCALE_DATASET_TRAIN_VERTICES": dataset.train_vertices,
        "HYPERSCALE_DATASET_ENDPOINT": s3.endpoint if s3 is not None else None,
    }


def _location(dataset: DatasetSpec) -> tuple[str, str]:
    """Kind of the source, and where the program finds the graph."""
    source, path = dataset.source, dataset.path or ""
    if source.builtin is not None:
        return "builtin", source.builtin.name
    if source.generated is not None:
        return "generated", source.generated.kind.value
    if source.s3 is not None:
        return "s3", f"s3://{source.s3.bucket}/{path}".rstrip("/")
    return "persistentVolumeClaim" if source.persistent_volume_claim is not None else "configMap", f"{DATA_PATH}/{path}".rstrip("/")


def put(container: Json, variables: dict[str, str], path: str) -> None:
    """Write the contract into a container, over the user's variables of the same names; the others stay, behind, and may refer to ours."""
    kept = [entry for entry in mappings_at(container, "env", path) if entry.get("name") not in variables]
    container["env"] = [*({"name": name, "value": literal(value)} for name, value in variables.items()), *kept]


def put_defaults(container: Json, variables: dict[str, str], path: str) -> None:
    """Write variables that the container has not got; the user's own stay."""
    entries = mappings_at(container, "env", path)
    present = {entry.get("name") for entry in entries}
    entries.extend({"name": name, "value": literal(value)} for name, value in variables.items() if name not in present)


def literal(value: str) -> str:
    """The text that the kubelet hands to the program as `value`: it would replace $(NAME), and $$ by $."""
    return value.replace("$", "$$")


def forwarded(container: Json, path: str, has_credentials: bool) -> list[str]:
    """Names of the variables that mpirun is to hand to every rank, sorted."""
    entries: list[Any] = [entry.get("name") for entry in mappings_at(container, "env", path)]
    names = {name for name in entries if isinstance(name, str) and IDENTIFIER.fullmatch(name)}
    return sorted(names.union(AWS_CREDENTIALS) if has_credentials else names)
