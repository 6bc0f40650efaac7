"""Every constant key that leaves this process: API groups, labels, annotations, gates, field managers."""

from __future__ import annotations

from typing import Final

GROUP: Final = "hyperscale.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
JOB_KIND: Final = "GNNTrainingJob"
JOB_PLURAL: Final = "gnntrainingjobs"
POLICY_KIND: Final = "PlannerPolicy"
POLICY_PLURAL: Final = "plannerpolicies"
TOPOLOGY_KIND: Final = "ClusterTopology"
TOPOLOGY_NAME: Final = "default"
"""The one ClusterTopology that the operator writes."""
TOPOLOGY_PLURAL: Final = "clustertopologies"

MPI_GROUP: Final = "kubeflow.org"
MPI_VERSION: Final = "v2beta1"
MPI_PLURAL: Final = "mpijobs"

FIELD_MANAGER: Final = "hyperscale"
"""Server-side apply manager of everything the operator writes."""

LEASE_NAME: Final = "hyperscale-operator"

PLACEMENT_GATE: Final = "hyperscale.dev/placement"
"""Scheduling gate on worker pods; removed when the rank's node is written into the pod."""
LAUNCHER_GATE: Final = "hyperscale.dev/launcher"
"""Scheduling gate on the launcher; removed when every worker is Ready (mpi-operator#615)."""
KUEUE_TOPOLOGY_GATE: Final = "kueue.x-k8s.io/topology"
KUEUE_QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
KUEUE_PRIORITY_LABEL: Final = "kueue.x-k8s.io/priority-class"
KUEUE_WORKLOAD_ANNOTATION: Final = "kueue.x-k8s.io/workload"
"""On the pod templates of an admitted MPIJob: the Workload that stands for it."""
KUEUE_JOB_UID_LABEL: Final = "kueue.x-k8s.io/job-uid"
"""On a Workload: uid of the MPIJob that it stands for."""

MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"
"""With the value FIELD_MANAGER on everything that the operator makes for a job."""
JOB_NAME_LABEL: Final = "hyperscale.dev/job-name"
JOB_UID_LABEL: Final = "hyperscale.dev/job-uid"
"""Tells pods of a job from those of an earlier one of the same name, which the garbage collector has not reached yet."""
PLAN_ID_LABEL: Final = "hyperscale.dev/plan-id"
PLAN_ANNOTATION: Final = "hyperscale.dev/plan"
RESIZABLE_ANNOTATION: Final = "hyperscale.dev/resizable"
"""The plan as JSON on the MPIJob it was made for, so that a crash between create and status loses nothing."""
SUSPEND_ANNOTATION: Final = "hyperscale.dev/suspend"
"""On the MPIJob: the value of `runPolicy.suspend` that the operator wrote last, in the same request."""
PARTITION_KEY_LABEL: Final = "hyperscale.dev/partition-key"
"""On the Job that writes partitions, and on its pods: what they were made from."""
DATASET_KEY_LABEL: Final = "hyperscale.dev/dataset-key"
"""On the Job that reads the sizes of a training graph, and on its pods: the digest of the `spec.dataset` that it reads."""
PREFLIGHT_KEY_LABEL: Final = "hyperscale.dev/preflight-key"
"""On the Job that tries the code of a job, and on its pods: the digest of what is tried."""
PREFLIGHT_AGAIN_ANNOTATION: Final = "hyperscale.dev/preflight-again"
"""Set by a person on the GNNTrainingJob: each other value has the same code tried once more."""
PREFLIGHT_SPEC_ANNOTATION: Final = "hyperscale.dev/preflight-spec"
"""On the pods of that Job: the GNNTrainingJob as JSON, which they read as a file."""
APPROVED_PLAN_ANNOTATION: Final = "hyperscale.dev/approved-plan"
"""Set by a person on the GNNTrainingJob to the id of the plan that may run (startPolicy: Manual)."""
APPROVED_BECAUSE_ANNOTATION: Final = "hyperscale.dev/approved-because"
"""Beside it, what the person wrote; for people, the operator does not read it."""
PREVIEW_LABEL: Final = "hyperscale.dev/preview"
"""On a job that never starts, that `hyperscale plan` made to ask the operator, and that it deletes again."""
PREVIEW_EXPIRES_ANNOTATION: Final = "hyperscale.dev/preview-expires"
"""RFC 3339: from then on such a job was forgotten, and the next `hyperscale plan` in its namespace deletes it."""
KOPF_PREFIX: Final = "kopf.hyperscale.dev"

MPI_JOB_NAME_LABEL: Final = "training.kubeflow.org/job-name"
MPI_JOB_ROLE_LABEL: Final = "training.kubeflow.org/job-role"
MPI_REPLICA_INDEX_LABEL: Final = "training.kubeflow.org/replica-index"

JOB_TRACKING_FINALIZER: Final = "batch.kubernetes.io/job-tracking"
"""On pods of a batch/v1 Job until it has counted them."""
HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
GPU_RESOURCE: Final = "nvidia.com/gpu"
UNREACHABLE_TAINT: Final = "node.kubernetes.io/unreachable"
OUT_OF_SERVICE_TAINT: Final = "node.kubernetes.io/out-of-service"


def preflight_again_command(namespace: str, job: str) -> str:
    """What a person runs to have the same code tried once more."""
    return f"kubectl annotate --overwrite gnntj {job} -n {namespace} {PREFLIGHT_AGAIN_ANNOTATION}=$(date +%s)"


def approval_command(namespace: str, job: str, plan_id: str) -> str:
    """What a person runs to let this very plan start."""
    return f"kubectl annotate --overwrite gnntj {job} -n {namespace} {APPROVED_PLAN_ANNOTATION}={plan_id}"
