"""The job as asked for: the types behind `GNNTrainingJob.spec`, and the one source of its CRD schema.

Every bound, default and description here is what `python -m hyperscale.spec.crd` writes into crds/; a test fails when they differ.
Cross-field rules (CEL) are in `spec/crd_cel.py`, beside the same rules in `spec/rules.py`. Longer than other modules: one type, read as
the document that users write.
"""

from __future__ import annotations

import enum
import re
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from hyperscale.model.api import written_numbers
from hyperscale.model.api.choices import AllreduceSchedule as AllreduceSchedule
from hyperscale.model.api.choices import Architecture as Architecture
from hyperscale.model.api.choices import Balance as Balance
from hyperscale.model.api.choices import Compression as Compression
from hyperscale.model.api.choices import PartitioningMethod as PartitioningMethod
from hyperscale.model.api.container_resources import ResourceRequirements
from hyperscale.model.api.hyperparameters import StatedHyperparameters

DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DNS_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
LABEL_KEY = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
LABEL_VALUE = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"
RELATIVE_PATH = r"^[A-Za-z0-9_][-A-Za-z0-9_.]*(/[A-Za-z0-9_][-A-Za-z0-9_.]*)*$"
"""No leading slash, no `..`, no empty or hidden segment."""

MAX_WORKERS = 1000
"""Keeps plan, status and the pods' names bounded; see names of pods in conventions of the MPIJob."""
MAX_GPUS_PER_WORKER = 16
"""GPUs of the largest node in use (HGX with 16)."""
MAX_OBJECT_NAME = 253
MAX_RANKS = MAX_WORKERS * MAX_GPUS_PER_WORKER

Name63 = Annotated[str, Meta(min_length=1, max_length=63, pattern=DNS_LABEL)]
Name253 = Annotated[str, Meta(min_length=1, max_length=MAX_OBJECT_NAME, pattern=DNS_SUBDOMAIN)]
LabelKey = Annotated[str, Meta(min_length=1, max_length=317, pattern=LABEL_KEY)]
LabelValue = Annotated[str, Meta(max_length=63, pattern=LABEL_VALUE)]
RelativePath = Annotated[str, Meta(min_length=1, max_length=1024, pattern=RELATIVE_PATH)]
PositiveCount = Annotated[int, Meta(ge=1, le=10**12)]

_OBJECT_NAME = re.compile(DNS_SUBDOMAIN)
OBJECT_NAME_HELP = "write 1 to 253 characters of a-z, 0-9, - and ., first and last in every part between dots a letter or digit"


def is_object_name(text: str) -> bool:
    """Whether an object may have this name: a DNS-1123 subdomain (apimachinery's IsDNS1123Subdomain)."""
    return len(text) <= MAX_OBJECT_NAME and _OBJECT_NAME.fullmatch(text) is not None


class Spec(Struct, frozen=True, gc=False, rename="camel", forbid_unknown_fields=True):
    """Base of everything a user writes: camelCase on the wire, unknown fields refused."""


class PlacementMode(enum.StrEnum):
    """How binding the plan's nodes are."""

    STRICT = "Strict"
    PREFERRED = "Preferred"
    ADVISORY = "Advisory"


class PlannerChoice(enum.StrEnum):
    """Which planner may decide."""

    AUTO = "Auto"
    LEARNED = "Learned"
    HEURISTIC = "Heuristic"
    NONE = "None"


class StartPolicy(enum.StrEnum):
    """What starts a job."""

    AUTOMATIC = "Automatic"
    MANUAL = "Manual"
    NEVER = "Never"


class CleanPodPolicy(enum.StrEnum):
    """Which pods the MPIJob deletes when it ends."""

    NONE = "None"
    RUNNING = "Running"
    ALL = "All"


class DatasetFormat(enum.StrEnum):
    """Form of the stored graph."""

    DGL = "DGL"
    NPZ = "NPZ"
    CSV = "CSV"
    PARQUET = "Parquet"
    GRAPHML = "GraphML"
    SMILES = "SMILES"
    OGB = "OGB"


class Direction(enum.StrEnum):
    """Whether an edge of the stored graph passes messages one way or both."""

    AUTO = "Auto"
    UNDIRECTED = "Undirected"
    DIRECTED = "Directed"


class GeneratedKind(enum.StrEnum):
    """Random graphs for trials; the plan's seed draws them."""

    SBM = "SBM"
    RMAT = "RMAT"


class ModelSpec(Spec, frozen=True):
    """The network that is trained; decides compute, gradient and halo volumes."""

    architecture: Annotated[Architecture, Meta(description="Kind of layers; Custom needs `parameters`.")]
    layers: Annotated[int, Meta(ge=1, le=64, description="Number of graph layers.")] = 2
    hidden_size: Annotated[int, Meta(ge=1, le=65536, description="Width of the hidden layers.")] = 256
    heads: Annotated[int, Meta(ge=1, le=64, description="Attention heads (GAT).")] = 1
    fanouts: Annotated[
        tuple[Annotated[int, Meta(ge=1, le=10000)], ...],
        Meta(max_length=64, description="Sampled neighbours per layer, outermost first; empty trains on whole neighbourhoods."),
    ] = ()
    batch_size: Annotated[int, Meta(ge=1, le=10**8, description="Seed vertices per step and GPU; absent trains full graph.")] | None = None
    epochs: Annotated[int, Meta(ge=1, le=10**6, description="Epochs to train.")] = 100
    parameters: Annotated[int, Meta(ge=1, le=10**12, description="Trainable parameters; required for Custom.")] | None = None
    script: Annotated[RelativePath | None, Meta(description="Training script, relative to the image's working directory.")] = None
    hyperparameters: Annotated[StatedHyperparameters | None, Meta(description="How the worker trains; absent is as published.")] = None


class PersistentVolumeClaimSource(Spec, frozen=True):
    """A volume claim in the job's namespace."""

    claim_name: Annotated[Name253, Meta(description="PersistentVolumeClaim to mount read-only.")]


class SecretReference(Spec, frozen=True):
    """A Secret in the job's namespace."""

    name: Annotated[Name253, Meta(description="Secret with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.")]


class S3Source(Spec, frozen=True):
    """A bucket; credentials come from the pod's own service account or from secretRef."""

    bucket: Annotated[Name63, Meta(description="Bucket name.")]
    endpoint: Annotated[str, Meta(max_length=253, pattern=r"^https?://[A-Za-z0-9.:-]+$", description="Other than AWS.")] | None = None
    secret_ref: SecretReference | None = None


class ConfigMapSource(Spec, frozen=True):
    """A small graph in a ConfigMap."""

    name: Annotated[Name253, Meta(description="ConfigMap to mount.")]


class BuiltinSource(Spec, frozen=True):
    """A public graph of known size: Cora and CiteSeer come with the worker image, PubMed is read where HYPERSCALE_DATASETS says.

    Where PubMed is found neither there nor at HYPERSCALE_DATASETS_URL, a generated graph of its size is trained on, and
    status.measured.generated is true.
    """

    name: Annotated[Literal["Cora", "CiteSeer", "PubMed"], Meta(description="Public citation graph.")]


class GeneratedSource(Spec, frozen=True):
    """A random graph of the stated size, drawn by every reader from the plan's seed: for trials and scale."""

    kind: Annotated[GeneratedKind, Meta(description="SBM has communities that training finds; RMAT has hubs.")]


class DatasetSource(Spec, frozen=True):
    """Exactly one of the five."""

    persistent_volume_claim: PersistentVolumeClaimSource | None = None
    s3: S3Source | None = None
    config_map: ConfigMapSource | None = None
    builtin: BuiltinSource | None = None
    generated: GeneratedSource | None = None


class DatasetSpec(Spec, frozen=True):
    """The training graph; its size decides compute, memory and halo volumes."""

    source: Annotated[DatasetSource, Meta(description="Exactly one of persistentVolumeClaim, s3, configMap, builtin, generated.")]
    path: Annotated[RelativePath | None, Meta(description="Path inside the source, relative, without `..`.")] = None
    format: Annotated[DatasetFormat, Meta(description="Form of the stored graph.")] = DatasetFormat.DGL
    direction: Annotated[
        Direction,
        Meta(description="Ways of an edge; Auto: both for CSV, Parquet and OGB, else as the file says (GraphML, NPZ, DGL)."),
    ] = Direction.AUTO
    vertices: Annotated[
        PositiveCount | None, Meta(description="Vertices; absent: known, or read by a Job before the first plan; required with generated.")
    ] = None
    edges: Annotated[PositiveCount | None, Meta(description="Directed edges; absent as for vertices.")] = None
    feature_size: Annotated[int, Meta(ge=1, le=10**6, description="Width of the vertex features; absent as for vertices.")] | None = None
    classes: Annotated[int, Meta(ge=1, le=10**6, description="Output classes; absent as for vertices.")] | None = None
    train_vertices: (
        Annotated[
            PositiveCount,
            Meta(description="Labelled vertices of the training split; absent: known for builtin, generated and OGB graphs, else 60 %."),
        ]
        | None
    ) = None


PodTemplate = Annotated[
    dict[str, Any],
    Meta(
        max_length=16,
        description="PodTemplateSpec, free-form here, checked by a server dry-run of the rendered pod; fields that the operator owns are "
        "overwritten.",
    ),
]


class WorkersSpec(Spec, frozen=True):
    """How many workers, what each needs, and what its pod has besides."""

    max_replicas: Annotated[int, Meta(ge=1, le=MAX_WORKERS, description="Most workers that the planner may choose.")]
    min_replicas: Annotated[int, Meta(ge=1, le=MAX_WORKERS, description="Fewest workers that the job makes sense with.")] = 1
    resources: ResourceRequirements = field(default_factory=ResourceRequirements)
    gpu_memory: (
        Annotated[int, Meta(ge=1, le=16 * 2**40, extra=written_numbers.QUANTITY, description="Memory that each GPU must have, e.g. 24Gi.")]
        | None
    ) = None
    gpu_products: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=63, pattern=LABEL_VALUE)], ...],
        Meta(max_length=32, description="Allowed nvidia.com/gpu.product values; empty allows all."),
    ] = ()
    template: PodTemplate = field(default_factory=dict)

    @property
    def gpus_per_worker(self) -> int:
        """GPUs and MPI ranks of each worker."""
        return self.resources.gpus

    def demand(self) -> WorkersSpec:
        """Without the template, of which a PlanRequest states what concerns the plan."""
        return replace(self, template={})


class PartitioningSpec(Spec, frozen=True):
    """How the training graph is cut into parts."""

    method: Annotated[PartitioningMethod, Meta(description="Partitioner; Auto lets the planner choose.")] = PartitioningMethod.AUTO
    count: (
        Annotated[
            int,
            Meta(
                ge=1,
                le=MAX_RANKS,
                description="Number of parts, a multiple of the ranks (workers times their GPUs); absent gives one part a rank.",
            ),
        ]
        | None
    ) = None
    balance: Annotated[Balance, Meta(description="Capacity gives faster GPUs larger parts; Equal does not.")] = Balance.CAPACITY
    claim_name: Annotated[
        Name253 | None,
        Meta(description="ReadWriteMany claim for partitions, written once by a Job before training; absent partitions in the workers."),
    ] = None


class AllreduceSpec(Spec, frozen=True):
    """How gradients travel."""

    schedule: Annotated[AllreduceSchedule, Meta(description="Order and fusion of gradients.")] = AllreduceSchedule.AUTO
    compression: Annotated[Compression, Meta(description="FP16 halves the gradient bytes.")] = Compression.NONE
    host_staging: Annotated[
        bool,
        Meta(
            description="Accept an image whose Horovod knows no GPU: ranks on GPUs then copy every message to host memory and send it over "
            "TCP. Otherwise they refuse to start in such an image."
        ),
    ] = False


class TopologyConstraint(Spec, frozen=True):
    """Label keys of a topology level."""

    required: Annotated[LabelKey | None, Meta(description="All workers inside one domain of this label.")] = None
    preferred: Annotated[LabelKey | None, Meta(description="Inside one domain of this label where that costs nothing.")] = None


class PlacementSpec(Spec, frozen=True):
    """Where workers may run, and how binding the plan is."""

    mode: Annotated[PlacementMode, Meta(description="Strict pins each rank; Preferred asks the scheduler; Advisory only reports.")] = (
        PlacementMode.STRICT
    )
    communication_weight: (
        Annotated[
            float,
            Meta(
                ge=0, le=1000, extra=written_numbers.DECIMAL, description="λ: weight of communication seconds; absent takes the policy's."
            ),
        ]
        | None
    ) = None
    node_selector: Annotated[dict[LabelKey, LabelValue], Meta(max_length=32, description="Labels that every worker's node must have.")] = (
        field(default_factory=dict)
    )
    topology: Annotated[TopologyConstraint, Meta(description="Topology constraints.")] = TopologyConstraint()


class RecoverySpec(Spec, frozen=True):
    """What happens when a rank or its node is lost."""

    max_plan_changes: Annotated[
        int,
        Meta(
            ge=0, le=100, description="Times a plan may be changed after the job started, and gangs in a row that the scheduler may refuse."
        ),
    ] = 3
    replace_lost_workers: Annotated[bool, Meta(description="Place a lost rank again, the others stay.")] = True
    shrink_after_seconds: (
        Annotated[
            int,
            Meta(
                ge=1,
                le=604800,
                description="Resume from the checkpoint with fewer workers after lost ranks found no room for this time; absent waits.",
            ),
        ]
        | None
    ) = None
    scheduling_timeout_seconds: (
        Annotated[
            int,
            Meta(
                ge=1,
                le=86400,
                description="Release all ranks when one is not on a node so long after its gate opened; absent takes the policy's.",
            ),
        ]
        | None
    ) = None
    force_delete_after_seconds: (
        Annotated[int, Meta(ge=30, le=86400, description="Delete pods stuck on an unreachable node after this time; absent never does.")]
        | None
    ) = None


class CheckpointSpec(Spec, frozen=True):
    """Where training state survives a restart."""

    claim_name: Annotated[Name253, Meta(description="ReadWriteMany claim mounted at $CHECKPOINT_DIR.")]
    every_epochs: Annotated[int, Meta(ge=1, le=10**6, description="Epochs between two checkpoints.")] = 1


class RunPolicy(Spec, frozen=True):
    """The MPIJob's own run policy."""

    suspend: Annotated[bool, Meta(description="True keeps or takes all pods away; the job counts as queued, not failed.")] = False
    clean_pod_policy: Annotated[CleanPodPolicy, Meta(description="Pods to delete when the job ends.")] = CleanPodPolicy.RUNNING
    backoff_limit: Annotated[int, Meta(ge=0, le=100, description="Launcher retries.")] = 2
    active_deadline_seconds: Annotated[int, Meta(ge=1, le=31536000, description="Longest run.")] | None = None
    ttl_seconds_after_finished: (
        Annotated[int, Meta(ge=0, le=31536000, description="Delete the MPIJob, not this object, so long after its end.")] | None
    ) = None


class LauncherSpec(Spec, frozen=True):
    """The pod that starts the ranks."""

    template: PodTemplate = field(default_factory=dict)


class PolicyReference(Spec, frozen=True):
    """A cluster-scoped PlannerPolicy."""

    name: Annotated[Name253, Meta(description="PlannerPolicy to plan by; absent takes `default`, else built-in figures.")]


class JobSpec(Spec, frozen=True):
    """`GNNTrainingJob.spec`: a GNN training run with Horovod on GPUs."""

    model: ModelSpec
    dataset: DatasetSpec
    workers: WorkersSpec
    partitioning: PartitioningSpec = PartitioningSpec()
    allreduce: AllreduceSpec = AllreduceSpec()
    placement: PlacementSpec = PlacementSpec()
    planner: Annotated[PlannerChoice, Meta(description="Auto takes the best checked plan; None gives a plain MPIJob.")] = PlannerChoice.AUTO
    start_policy: Annotated[
        StartPolicy,
        Meta(
            description="Automatic starts every accepted plan; Manual waits until annotation hyperscale.dev/approved-plan names the "
            "plan; Never plans and reports only."
        ),
    ] = StartPolicy.AUTOMATIC
    recovery: RecoverySpec = RecoverySpec()
    checkpoint: CheckpointSpec | None = None
    run_policy: RunPolicy = RunPolicy()
    queue_weight: Annotated[
        int, Meta(ge=1, le=1000, description="Weight among the pending jobs that no external queue owns; 1 is an ordinary job.")
    ] = 1
    launcher: LauncherSpec = LauncherSpec()
    policy_ref: PolicyReference | None = None
