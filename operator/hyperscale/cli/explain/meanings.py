"""What each reason of a status means for people: what happens, what the job waits for, what to do about it."""

from __future__ import annotations

from typing import Final

import msgspec

from hyperscale.model.decision import Reason
from hyperscale.model.plan import NEVER_FITS


class Meaning(msgspec.Struct, frozen=True):
    """What a reason means for people; {name} and {namespace} are filled in."""

    happens: str
    waits_for: str = ""
    advice: str = ""


_AGAIN: Final = "The operator plans it again when GPUs or nodes become free."
_NO_ROOM: Final = "a cluster in which it fits"

MEANINGS: Final[dict[str, Meaning]] = {
    Reason.INVALID_SPEC: Meaning("The spec cannot be used, nothing is created from it.", "", "Correct the field that the message names."),
    Reason.INVALID_POD_TEMPLATE: Meaning(
        "No pods can be made from the templates: they contradict the spec, or the API server refuses them.",
        "",
        "Correct spec.workers.template or spec.launcher.template.",
    ),
    Reason.QUOTA_EXCEEDED: Meaning(
        "A ResourceQuota of the namespace refuses an object that this job needs.",
        "room in the quota",
        "Raise the ResourceQuota that the message names, or end other objects of namespace {namespace}; the operator then tries again.",
    ),
    Reason.FORBIDDEN: Meaning(
        "The operator has no right to create an object that this job needs.",
        "the right",
        "Grant the operator's service account what the message names (docs/rbac.md); the operator then tries again.",
    ),
    Reason.NAME_CONFLICT: Meaning(
        "An object of a name that this job needs belongs to someone else and is left alone.",
        "the name",
        "Delete what the message names (the MPIJob: `kubectl delete mpijob {name} -n {namespace}`) or give this job another name.",
    ),
    Reason.UNREADABLE_MPIJOB: Meaning(
        "The job's MPIJob holds what no MPIJob can; its pods go on, and nothing is changed or created.",
        "the MPIJob",
        "Delete it with `kubectl delete mpijob {name} -n {namespace}`: the operator creates it again.",
    ),
    Reason.DELETED: Meaning("The job is being deleted; its MPIJob goes with it."),
    Reason.SUSPENDED: Meaning("The job is suspended.", "spec.runPolicy.suspend: false", "Set spec.runPolicy.suspend to false to start it."),
    Reason.SUSPENDED_EXTERNALLY: Meaning(
        "Another than the operator has suspended the MPIJob; the operator leaves it so.",
        "the MPIJob to be resumed",
        "Resume it where it was suspended, or with the command above.",
    ),
    Reason.RESUMED_EXTERNALLY: Meaning(
        "The MPIJob was resumed although spec.runPolicy.suspend is true; new pods stay gated.",
        "spec.runPolicy.suspend: false",
        "Set spec.runPolicy.suspend to false to go on, or suspend the MPIJob.",
    ),
    Reason.QUEUED_BY_KUEUE: Meaning(
        "Kueue manages the MPIJob, which names no queue, and has not admitted it.",
        "Kueue",
        "Set the label kueue.x-k8s.io/queue-name on the job before it is created, or on its MPIJob now.",
    ),
    Reason.QUEUED: Meaning(
        "The MPIJob is in a queue, which has not admitted it.", "quota", "See the queue: `kubectl get workloads -n {namespace}`."
    ),
    Reason.INSPECTING_DATASET: Meaning(
        "A Job reads the sizes of the training graph; plans rest on them.", "the sizes of the training graph"
    ),
    Reason.DATASET_UNREADABLE: Meaning(
        "The Job that reads the sizes of the training graph has failed.",
        "a person",
        "Write vertices, edges, featureSize and classes in spec.dataset, or fix what the message names and delete the Job "
        "(`kubectl delete job {name}-inspect -n {namespace}`), it is created again.",
    ),
    Reason.PREFLIGHTING: Meaning(
        "The job's code is tried for a few steps in a pod without a GPU; nothing is planned before it has passed.",
        "its preflight",
        "See the pod: `kubectl get pods -n {namespace} -l batch.kubernetes.io/job-name={name}-preflight`.",
    ),
    Reason.PREFLIGHT_FAILED: Meaning(
        "The preflight found a fault in the job's code, and spec.preflight is Require: the job does not start.",
        "a person",
        "Correct what the message names and change the spec, or write spec.preflight: Advise to start nevertheless.",
    ),
    Reason.PREFLIGHT_UNKNOWN: Meaning(
        "The preflight ended without saying anything of the job's code, and spec.preflight is Require: the job does not start.",
        "a person",
        "Remove what the message names and try again: "
        "`kubectl annotate --overwrite gnntj {name} -n {namespace} hyperscale.dev/preflight-again=$(date +%s)`. "
        "Or write spec.preflight: Advise to start without it.",
    ),
    Reason.ALTERNATIVE_PREFERRED: Meaning("The plan that a person prefers is put in force."),
    Reason.REJECTED_BY_PERSON: Meaning(
        "A person rejected the plan; it does not start.",
        "another plan",
        "Prefer an alternative (`hyperscale prefer {name} PLAN -n {namespace}`), change the spec, or approve the plan after all.",
    ),
    Reason.PLANNING: Meaning("The planners are at work.", "a plan"),
    Reason.NO_PLAN: Meaning("No plan fits the cluster as it is.", _NO_ROOM, _AGAIN),
    NEVER_FITS: Meaning(
        "The job does not fit the nodes that the cluster has, even when nothing else runs.",
        "other nodes, or another spec",
        "Change what the message names, or add nodes: the job is planned again when nodes change.",
    ),
    "InsufficientGPUs": Meaning("There are not enough free GPUs that suit the job.", "free GPUs", f"Lower spec.workers. {_AGAIN}"),
    "VolumeMissing": Meaning(
        "A PersistentVolumeClaim that the workers mount does not exist; nothing is planned before it does.",
        "the claim",
        "Create the claim that the message names; it is looked for every 30 s.",
    ),
    "GPUMemoryTooSmall": Meaning("No free GPU has enough memory.", _NO_ROOM, f"Lower spec.workers.gpuMemory or raise workers. {_AGAIN}"),
    "NoMatchingNodes": Meaning(
        "No node matches what the job asks for.", _NO_ROOM, "Check spec.placement.nodeSelector, spec.workers.gpuProducts and tolerations."
    ),
    "NodesCannotReachEachOther": Meaning(
        "The nodes that suit cannot all reach each other.", _NO_ROOM, "Lower spec.workers, or see the links: `hyperscale topology`."
    ),
    "MemoryTooSmall": Meaning(
        "Each GPU would hold more of the training graph than a free GPU has memory.",
        _NO_ROOM,
        f"Raise spec.workers.maxReplicas, or write spec.model.batchSize to train on samples. {_AGAIN}",
    ),
    "PartitionCountMismatch": Meaning(
        "spec.partitioning.count cannot be dealt out evenly to the ranks of any worker count that has room.",
        _NO_ROOM,
        f"Leave spec.partitioning.count out, or write a multiple of workers times their GPUs. {_AGAIN}",
    ),
    "PlannerFailed": Meaning(
        "Every planner failed or ran out of time.", "the next try", "See the operator's log; planning is tried again."
    ),
    Reason.WAITING_FOR_ADMISSION: Meaning(
        "Other pending jobs go first.", "its turn", "Raise spec.queueWeight, or lower spec.workers.minReplicas to fit beside others."
    ),
    Reason.WAITING_FOR_BETTER_NODES: Meaning(
        "It would fit now, but much slower than on nodes that running jobs will leave.",
        "better nodes",
        "The operator starts it when waiting longer cannot pay; "
        "PlannerPolicy spec.queue.maxStartSlowdown and minWaitSpeedup say for what it waits.",
    ),
    Reason.START_POLICY_NEVER: Meaning(
        "The plan is ready and nothing runs: spec.startPolicy is Never.", "", "Set spec.startPolicy to Automatic to run it."
    ),
    Reason.AWAITING_APPROVAL: Meaning("The plan waits for a person to approve it.", "approval"),
    Reason.PLAN_STALE: Meaning("The cluster moved under the plan, a new one is being made.", "a plan"),
    Reason.SPEC_CHANGED: Meaning("The spec was changed, a new plan is being made.", "a plan"),
    Reason.RESUMED: Meaning("The job was suspended and continues with a new plan.", "its pods"),
    Reason.PARTITIONING: Meaning("A Job writes the parts of the training graph to the shared volume.", "the parts of the training graph"),
    Reason.PARTITIONING_FAILED: Meaning(
        "The Job that writes the parts of the training graph has failed.",
        "a person",
        "Fix what the message names; then delete the Job (`kubectl delete job {name}-partition -n {namespace}`), it is created again.",
    ),
    Reason.CREATING: Meaning("The MPIJob is being created.", "the MPIJob"),
    Reason.PLAN_UNRECORDED: Meaning("The plan is being recorded before any pod is released.", "the next pass"),
    Reason.PODS_MISSING: Meaning(
        "The ranks start together, and not all worker pods exist yet.",
        "the MPI operator to create the pods",
        "If it stays so, look at quotas and at the MPI operator: `kubectl describe mpijob {name} -n {namespace}`.",
    ),
    Reason.WAITING_FOR_QUEUE: Meaning("The queue has admitted the job but not assigned its topology yet.", "the queue"),
    Reason.PLACING: Meaning("Every rank is being sent to its planned node.", "the scheduler to bind the pods"),
    Reason.REPLACING: Meaning("A lost rank is being placed again, the others stay.", "the replacement to start"),
    Reason.WORKER_LOST: Meaning(
        "A worker was lost and spec.recovery.replaceLostWorkers is false.", "a person", "Delete the job and create it again."
    ),
    Reason.PLAN_CHANGES_EXHAUSTED: Meaning(
        "The plan may not be changed any more.", "a person", "Raise spec.recovery.maxPlanChanges, or delete the job and create it again."
    ),
    Reason.NODE_LOST: Meaning("A planned node was lost.", "replacement pods"),
    Reason.SCHEDULING_TIMEOUT: Meaning(
        "The scheduler left a rank out, so all ranks were released; they are planned again without the nodes that it refused.",
        "another plan",
        "Remove the cause that the scheduler names, or wait: the nodes are left out for half an hour.",
    ),
    Reason.MIGRATING: Meaning("A better placement pays for a restart: the job stops and starts again there.", "its pods"),
    Reason.PREEMPTED: Meaning(
        "The job was stopped so that all jobs together end sooner; it continues from its last checkpoint when its turn comes.",
        "its turn in the queue",
        "Raise spec.queueWeight. No job is preempted where the PlannerPolicy's spec.queue.preemption.mode is Advise or Never.",
    ),
    Reason.WORKERS_STARTING: Meaning("The workers are starting; the launcher follows when all are ready.", "all workers to be ready"),
    Reason.OPENING_LAUNCHER: Meaning("All workers are ready, the launcher is released.", "the launcher"),
    Reason.STARTING: Meaning(
        "The pods are starting.", "the pods", "If it stays so: `kubectl get pods -n {namespace} -l training.kubeflow.org/job-name={name}`."
    ),
    Reason.RUNNING: Meaning("The job is training."),
    Reason.SUCCEEDED: Meaning("The job has finished."),
    Reason.FAILED: Meaning(
        "The job has failed.",
        "",
        "See the launcher's log: `kubectl logs -n {namespace} -l training.kubeflow.org/job-name={name} --tail=50`.",
    ),
}
