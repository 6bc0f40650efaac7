"""The job as asked for: the types behind `GNNTrainingJob.spec`, and the one source of its CRD schema.

Every bound, default and description here is what `python -m hyperscale.spec.crd` writes into crds/; a test fails when they differ.
Cross-field rules (CEL) are in `spec/crd_schema.py`, beside the same rules in `spec/rules.py`. Longer than other modules: one type, read as
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


class PreflightMode(enum.StrEnum):
    """Whether the job's own code is tried for a few steps before its start."""

    OFF = "Off"
    ADVISE = "Advise"
    REQUIRE = "Require"


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

    architecture: Architecture
    """Kind of layers; Custom needs `parameters`."""
    layers: Annotated[int, Meta(ge=1, le=64)] = 2
    """Number of graph layers."""
    hidden_size: Annotated[int, Meta(ge=1, le=65536)] = 256
    """Width of the hidden layers."""
    heads: Annotated[int, Meta(ge=1, le=64)] = 1
    """Attention heads (GAT)."""
    fanouts: Annotated[tuple[Annotated[int, Meta(ge=1, le=10000)], ...], Meta(max_length=64)] = ()
    """Sampled neighbours per layer, outermost first; empty trains on whole neighbourhoods."""
    batch_size: Annotated[int, Meta(ge=1, le=10**8)] | None = None
    """Seed vertices per step and GPU; absent trains full graph."""
    epochs: Annotated[int, Meta(ge=1, le=10**6)] = 100
    """Epochs to train."""
    parameters: Annotated[int, Meta(ge=1, le=10**12)] | None = None
    """Trainable parameters; required for Custom."""
    script: RelativePath | None = None
    """Training script, relative to the image's working directory."""
    hyperparameters: StatedHyperparameters | None = None
    """How the worker trains; absent is as published."""


class PersistentVolumeClaimSource(Spec, frozen=True):
    """A volume claim in the job's namespace."""

    claim_name: Name253
    """PersistentVolumeClaim to mount read-only."""


class SecretReference(Spec, frozen=True):
    """A Secret in the job's namespace."""

    name: Name253
    """Secret with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."""


class S3Source(Spec, frozen=True):
    """A bucket; credentials come from the pod's own service account or from secretRef."""

    bucket: Name63
    """Bucket name."""
    endpoint: Annotated[str, Meta(max_length=253, pattern=r"^https?://[A-Za-z0-9.:-]+$")] | None = None
    """Other than AWS."""
    secret_ref: SecretReference | None = None


class ConfigMapSource(Spec, frozen=True):
    """A small graph in a ConfigMap."""

    name: Name253
    """ConfigMap to mount."""


class BuiltinSource(Spec, frozen=True):
    """A public graph of known size: Cora and CiteSeer come with the worker image, PubMed is read where HYPERSCALE_DATASETS says.

    Where PubMed is found neither there nor at HYPERSCALE_DATASETS_URL, a generated graph of its size is trained on, and
    status.measured.generated is true.
    """

    name: Literal["Cora", "CiteSeer", "PubMed"]
    """Public citation graph."""


class GeneratedSource(Spec, frozen=True):
    """A random graph of the stated size, drawn by every reader from the plan's seed: for trials and scale."""

    kind: GeneratedKind
    """SBM has communities that training finds; RMAT has hubs."""


class DatasetSource(Spec, frozen=True):
    """Exactly one of the five."""

    persistent_volume_claim: PersistentVolumeClaimSource | None = None
    s3: S3Source | None = None
    config_map: ConfigMapSource | None = None
    builtin: BuiltinSource | None = None
    generated: GeneratedSource | None = None


class DatasetSpec(Spec, frozen=True):
    """The training graph; its size decides compute, memory and halo volumes."""

    source: DatasetSource
    """Exactly one of persistentVolumeClaim, s3, configMap, builtin, generated."""
    path: RelativePath | None = None
    """Path inside the source, relative, without `..`."""
    format: DatasetFormat = DatasetFormat.DGL
    """Form of the stored graph."""
    direction: Direction = Direction.AUTO
    """Ways of an edge; Auto: both for CSV, Parquet and OGB, else as the file says (GraphML, NPZ, DGL)."""
    vertices: PositiveCount | None = None
    """Vertices; absent: known, or read by a Job before the first plan; required with generated."""
    edges: PositiveCount | None = None
    """Directed edges; absent as for vertices."""
    feature_size: Annotated[int, Meta(ge=1, le=10**6)] | None = None
    """Width of the vertex features; absent as for vertices."""
    classes: Annotated[int, Meta(ge=1, le=10**6)] | None = None
    """Output classes; absent as for vertices."""
    train_vertices: PositiveCount | None = None
    """Labelled vertices of the training split; absent: known for builtin, generated and OGB graphs, else 60 %."""


PodTemplate = Annotated[dict[str, Any], Meta(max_length=16)]


class WorkersSpec(Spec, frozen=True):
    """How many workers, what each needs, and what its pod has besides."""

    max_replicas: Annotated[int, Meta(ge=1, le=MAX_WORKERS)]
    """Most workers that the planner may choose."""
    min_replicas: Annotated[int, Meta(ge=1, le=MAX_WORKERS)] = 1
    """Fewest workers that the job makes sense with."""
    resources: ResourceRequirements = field(default_factory=ResourceRequirements)
    gpu_memory: Annotated[int, Meta(ge=2**20, le=16 * 2**40, extra=written_numbers.QUANTITY)] | None = None
    """Memory that each GPU must have, e.g. 24Gi."""
    gpu_products: Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=63, pattern=LABEL_VALUE)], ...], Meta(max_length=32)] = ()
    """Allowed nvidia.com/gpu.product values; empty allows all."""
    template: PodTemplate = field(default_factory=dict)
    """PodTemplateSpec, free-form here, checked by a server dry-run of the rendered pod; fields that the operator owns are overwritten."""

    @property
    def gpus_per_worker(self) -> int:
        """GPUs and MPI ranks of each worker."""
        return self.resources.gpus

    def demand(self) -> WorkersSpec:
        """Without the template, of which a PlanRequest states what concerns the plan."""
        return replace(self, template={})


class PartitioningSpec(Spec, frozen=True):
    """How the training graph is cut into parts."""

    method: PartitioningMethod = PartitioningMethod.AUTO
    """Partitioner; Auto lets the planner choose."""
    count: Annotated[int, Meta(ge=1, le=MAX_RANKS)] | None = None
    """Number of parts, a multiple of the ranks (workers times their GPUs); absent gives one part a rank."""
    balance: Balance = Balance.CAPACITY
    """Capacity gives faster GPUs larger parts; Equal does not."""
    claim_name: Name253 | None = None
    """ReadWriteMany claim for partitions, written once by a Job before training; absent partitions in the workers."""


class AllreduceSpec(Spec, frozen=True):
    """How gradients travel."""

    schedule: AllreduceSchedule = AllreduceSchedule.AUTO
    """Order and fusion of gradients."""
    compression: Compression = Compression.NONE
    """FP16 halves the gradient bytes."""
    host_staging: bool = False
    """Accept an image whose Horovod knows no GPU: ranks on GPUs then copy every message to host memory and send it over TCP. Otherwise
    they refuse to start in such an image."""


class TopologyConstraint(Spec, frozen=True):
    """Label keys of a topology level."""

    required: LabelKey | None = None
    """All workers inside one domain of this label."""
    preferred: LabelKey | None = None
    """Inside one domain of this label where that costs nothing."""


class PlacementSpec(Spec, frozen=True):
    """Where workers may run, and how binding the plan is."""

    mode: PlacementMode = PlacementMode.STRICT
    """Strict pins each rank; Preferred asks the scheduler; Advisory only reports."""
    communication_weight: Annotated[float, Meta(ge=0, le=1000, extra=written_numbers.DECIMAL)] | None = None
    """λ: weight of communication seconds; absent takes the policy's."""
    node_selector: Annotated[dict[LabelKey, LabelValue], Meta(max_length=32)] = field(default_factory=dict)
    """Labels that every worker's node must have."""
    topology: TopologyConstraint = TopologyConstraint()
    """Topology constraints."""


class RecoverySpec(Spec, frozen=True):
    """What happens when a rank or its node is lost."""

    max_plan_changes: Annotated[int, Meta(ge=0, le=100)] = 3
    """Times a plan may be changed after the job started, and gangs in a row that the scheduler may refuse."""
    replace_lost_workers: bool = True
    """Place a lost rank again, the others stay."""
    shrink_after_seconds: Annotated[int, Meta(ge=1, le=604800)] | None = None
    """Resume from the checkpoint with fewer workers after lost ranks found no room for this time; absent waits."""
    scheduling_timeout_seconds: Annotated[int, Meta(ge=1, le=86400)] | None = None
    """Release all ranks when one is not on a node so long after its gate opened; absent takes the policy's."""
    force_delete_after_seconds: Annotated[int, Meta(ge=30, le=86400)] | None = None
    """Delete pods stuck on an unreachable node after this time; absent never does."""


class CheckpointSpec(Spec, frozen=True):
    """Where training state survives a restart."""

    claim_name: Name253
    """ReadWriteMany claim mounted at $CHECKPOINT_DIR."""
    every_epochs: Annotated[int, Meta(ge=1, le=10**6)] = 1
    """Epochs between two checkpoints."""


class RunPolicy(Spec, frozen=True):
    """The MPIJob's own run policy."""

    suspend: bool = False
    """True keeps or takes all pods away; the job counts as queued, not failed."""
    clean_pod_policy: CleanPodPolicy = CleanPodPolicy.RUNNING
    """Pods to delete when the job ends."""
    backoff_limit: Annotated[int, Meta(ge=0, le=100)] = 2
    """Launcher retries."""
    active_deadline_seconds: Annotated[int, Meta(ge=1, le=31536000)] | None = None
    """Longest run."""
    ttl_seconds_after_finished: Annotated[int, Meta(ge=0, le=31536000)] | None = None
    """Delete the MPIJob, not this object, so long after its end."""


class LauncherSpec(Spec, frozen=True):
    """The pod that starts the ranks."""

    template: PodTemplate = field(default_factory=dict)
    """PodTemplateSpec, free-form here, checked by a server dry-run of the rendered pod; fields that the operator owns are overwritten."""


class PolicyReference(Spec, frozen=True):
    """A cluster-scoped PlannerPolicy."""

    name: Name253
    """PlannerPolicy to plan by; absent takes `default`, else built-in figures."""


class JobSpec(Spec, frozen=True):
    """`GNNTrainingJob.spec`: a GNN training run with Horovod on GPUs."""

    model: ModelSpec
    dataset: DatasetSpec
    workers: WorkersSpec
    partitioning: PartitioningSpec = PartitioningSpec()
    allreduce: AllreduceSpec = AllreduceSpec()
    placement: PlacementSpec = PlacementSpec()
    planner: PlannerChoice = PlannerChoice.AUTO
    """Auto is the search; Learned shows the learned constructor beside it; None gives a plain MPIJob."""
    start_policy: StartPolicy = StartPolicy.AUTOMATIC
    """Automatic starts every accepted plan; Manual waits until annotation hyperscale.dev/approved-plan names the plan; Never plans and
    reports only. Annotation preferred-plan chooses an alternative; the plan in rejected-plan does not start."""
    preflight: PreflightMode = PreflightMode.OFF
    """Advise tries the job's code for a few steps in a limited pod while the job starts; Require starts only code that passed."""
    recovery: RecoverySpec = RecoverySpec()
    checkpoint: CheckpointSpec | None = None
    run_policy: RunPolicy = RunPolicy()
    queue_weight: Annotated[int, Meta(ge=1, le=1000)] = 1
    """Weight among the pending jobs that no external queue owns; 1 is an ordinary job."""
    launcher: LauncherSpec = LauncherSpec()
    policy_ref: PolicyReference | None = None
