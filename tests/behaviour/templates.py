"""Jobs whose manifests are recorded: resources as users write them, from examples/ and with odd and hostile templates. No product code."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

Json = dict[str, Any]

EXAMPLES: Final = Path(__file__).resolve().parents[2] / "examples"
HOSTNAME: Final = "kubernetes.io/hostname"
SHARED_MEMORY: Final = "/dev/shm/"  # noqa: S108 - a mount point
STORED: Final[Json] = {
    "source": {"persistentVolumeClaim": {"claimName": "graphs"}},
    "path": "arxiv/graph.bin",
    "vertices": 169_343,
    "edges": 2_332_486,
    "featureSize": 128,
    "classes": 40,
}


@dataclass(frozen=True)
class ManifestCase:
    """A job, and the nodes of its plan; None: as many nodes as it has workers at most."""

    resource: Json
    nodes: tuple[str, ...] | None = None
    planned: bool = True


def job(
    spec: Json | None = None, labels: dict[str, str] | None = None, *, planned: bool = True, nodes: tuple[str, ...] = ("a", "b")
) -> ManifestCase:
    """A small GCN job; `spec` replaces fields of that job."""
    base: Json = {
        "model": {"architecture": "GCN"},
        "dataset": {"source": {"builtin": {"name": "Cora"}}},
        "workers": {"minReplicas": 1, "maxReplicas": 4},
    }
    metadata = {"name": "cora", "namespace": "team-a", "labels": labels or {}}
    resource = {"apiVersion": "hyperscale.dev/v1alpha1", "kind": "GNNTrainingJob", "metadata": metadata, "spec": base | (spec or {})}
    return ManifestCase(resource, nodes, planned)


def worker(template: Json, *, workers: Json | None = None, **spec: Any) -> ManifestCase:
    counts = workers or {"minReplicas": 1, "maxReplicas": 4}
    return job({"workers": {**counts, "template": template}} | spec)


def launcher(template: Json, **spec: Any) -> ManifestCase:
    return job({"launcher": {"template": template}} | spec)


def container(**fields: Any) -> Json:
    return {"spec": {"containers": [{"name": "worker", **fields}]}}


def _examples() -> dict[str, ManifestCase]:
    """Every file of examples/ that is a job."""
    found = {}
    for path in sorted(EXAMPLES.rglob("*.yaml")):
        resource = yaml.safe_load(path.read_text(encoding="utf-8"))
        if resource["kind"] == "GNNTrainingJob":
            name = "-".join(path.relative_to(EXAMPLES).with_suffix("").parts)
            found[f"example-{name}"] = ManifestCase(resource, planned=resource["spec"].get("planner") != "None")
    return found


OWN: Final[Json] = {
    "metadata": {"labels": {"team": "x", "hyperscale.dev/job-name": "other"}, "annotations": {"note": "größer"}},
    "spec": {
        "serviceAccountName": "trainer",
        "schedulerName": "kai-scheduler",
        "priorityClassName": "high",
        "tolerations": [{"key": "spot", "operator": "Exists"}],
        "nodeSelector": {"pool": "x", "disk": "ssd"},
        "volumes": [{"name": "cache", "emptyDir": {}}, {"name": "shm", "emptyDir": {}}],
        "schedulingGates": [{"name": "example.com/gate"}],
        "initContainers": [{"name": "prepare", "image": "busybox:1", "command": ["true"]}],
        "containers": [
            {"name": "log", "image": "log:1"},
            {
                "name": "worker",
                "image": "registry.example.com/gnn:1",
                "command": ["/entry"],
                "args": ["--fast", "a\nb"],
                "env": [{"name": "A", "value": "1"}, {"name": "HYPERSCALE_JOB", "value": "other"}],
                "volumeMounts": [{"name": "cache", "mountPath": "/cache"}, {"name": "shm", "mountPath": SHARED_MEMORY}],
                "resources": {"limits": {"rdma/hca": "1000m"}},
            },
        ],
    },
}
SIZES: Final[Json] = {"vertices": 1000, "edges": 4000, "featureSize": 16, "classes": 4}
PREFERENCE: Final = {"weight": 5, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}
ENVIRONMENT: Final = [{"name": "MY_SEED", "value": "3"}, {"name": "odd name", "value": ""}, {"name": "FROM", "valueFrom": {"fieldRef": {}}}]

MANIFEST_CASES: Final[dict[str, ManifestCase]] = {
    **_examples(),
    "without-planner": job({"planner": "None"}, planned=False),
    "sizes-to-be-read": job(
        {"dataset": {"source": {"s3": {"bucket": "b", "secretRef": {"name": "keys"}}}, "path": "g.npz"}}, planned=False
    ),
    "code-to-be-tried": job(
        {
            "dataset": {"source": {"persistentVolumeClaim": {"claimName": "graphs"}}, "path": "g.npz", "format": "NPZ", **SIZES},
            "checkpoint": {"claimName": "state"},
            "preflight": "Require",
        }
    ),
    "code-to-be-tried-on-a-bucket": job(
        {
            "dataset": {
                "source": {"s3": {"bucket": "b", "endpoint": "http://minio.data.svc:9000", "secretRef": {"name": "keys"}}},
                "path": "g.npz",
                **SIZES,
            },
            "preflight": "Advise",
        }
    ),
    "advisory-in-a-queue": job(
        {"placement": {"mode": "Advisory", "topology": {"required": "rack"}}},
        {"kueue.x-k8s.io/queue-name": "gold", "kueue.x-k8s.io/priority-class": "high", "kai.scheduler/queue": "k", "team": "x"},
    ),
    "preferred-with-own-preferences": worker(
        {"spec": {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [PREFERENCE]}}}},
        placement={"mode": "Preferred", "nodeSelector": {"pool": "gnn", "spot": ""}},
    ),
    "several-gpus-a-worker": job(
        {
            "workers": {
                "minReplicas": 2,
                "maxReplicas": 2,
                "resources": {"limits": {"nvidia.com/gpu": 4, "memory": "1.5Ti"}, "requests": {"cpu": "3500m", "memory": "1.5Ti"}},
                "gpuMemory": "24Gi",
            }
        },
        nodes=("a", "a", "b"),
    ),
    "worker-template-of-the-user": worker(
        OWN,
        workers={"maxReplicas": 2, "resources": {"limits": {"rdma/hca": 1}, "requests": {"cpu": 4, "ephemeral-storage": "1Gi"}}},
        placement={"nodeSelector": {"pool": "gnn"}},
    ),
    "launcher-template-of-the-user": launcher(
        {"metadata": {"annotations": {"note": "größer"}}, "spec": {"containers": [{"name": "launcher", "env": ENVIRONMENT}]}}
    ),
    "launcher-with-its-own-image-and-script": launcher(
        {"spec": {"containers": [{"name": "main", "image": "mine:1"}, {"name": "log", "image": "log:1"}]}},
        model={"architecture": "Custom", "parameters": 1_000_000, "script": "train/mine.py"},
        dataset=STORED | {"source": {"configMap": {"name": "small-graph"}}},
    ),
    "launcher-with-its-own-command": launcher({"spec": {"containers": [{"name": "launcher", "command": ["mpirun", "my-own"]}]}}),
    "partitions-and-checkpoints-on-volumes": job(
        {
            "dataset": STORED,
            "partitioning": {"method": "METIS", "count": 4, "balance": "Equal", "claimName": "parts"},
            "checkpoint": {"claimName": "shared", "everyEpochs": 5},
            "workers": {
                "minReplicas": 1,
                "maxReplicas": 4,
                "resources": {"limits": {"memory": "8Gi"}, "requests": {"cpu": "2", "memory": "8Gi"}},
            },
        }
    ),
    "partitions-from-a-bucket-with-a-secret": job(
        {
            "dataset": STORED | {"source": {"s3": {"bucket": "graphs", "endpoint": "https://minio:9000", "secretRef": {"name": "reader"}}}},
            "partitioning": {"claimName": "parts"},
            "workers": {"minReplicas": 1, "maxReplicas": 4, "template": OWN, "resources": {"limits": {"rdma/hca": "1"}}},
        }
    ),
    "hyperparameters-and-allreduce": job(
        {
            "model": {
                "architecture": "GAT",
                "heads": 8,
                "hyperparameters": {
                    "learningRate": "0.1",
                    "learningRateSchedule": "Cosine",
                    "dropout": "0",
                    "patienceEpochs": 10,
                    "edgeFeatures": False,
                },
            },
            "allreduce": {"compression": "FP16", "hostStaging": True},
        }
    ),
    "all-of-the-run-policy": job(
        {
            "runPolicy": {
                "suspend": True,
                "cleanPodPolicy": "All",
                "backoffLimit": 0,
                "activeDeadlineSeconds": 60,
                "ttlSecondsAfterFinished": 0,
            }
        }
    ),
    "manual-and-single-worker": job({"startPolicy": "Manual", "workers": {"maxReplicas": 1}}, nodes=("a",)),
    # Templates that are refused, each by its path.
    "refused-unknown-field": worker({"spce": {}}),
    "refused-spec-is-a-list": worker({"spec": []}),
    "refused-label-is-a-number": worker({"metadata": {"labels": {"a": 1}}}),
    "refused-name": worker({"metadata": {"name": "x"}}),
    "refused-container-is-text": worker({"spec": {"containers": ["x"]}}),
    "refused-fixed-node": worker({"spec": {"nodeName": "a"}}),
    "refused-volume-of-the-operator": worker({"spec": {"volumes": [{"name": "ssh-auth", "emptyDir": {}}]}}),
    "refused-host-path": worker({"spec": {"volumes": [{"name": "x", "hostPath": {"path": "/"}}]}}),
    "refused-host-network": worker({"spec": {"hostNetwork": True}}),
    "refused-root": worker({"spec": {"securityContext": {"runAsUser": 0}}}),
    "refused-privileged": worker(container(securityContext={"privileged": True})),
    "refused-capability": worker(container(securityContext={"capabilities": {"add": ["SYS_ADMIN"]}})),
    "refused-host-port": worker(container(ports=[{"containerPort": 1, "hostPort": 1}])),
    "refused-sysctl": worker({"spec": {"securityContext": {"sysctls": [{"name": "kernel.msgmax"}]}}}),
    "refused-other-resources": worker(container(resources={"limits": {"nvidia.com/gpu": 8}})),
    "refused-gpus-of-a-side-container": worker(
        {"spec": {"containers": [{"name": "worker"}, {"name": "x", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}
    ),
    "refused-gpus-of-the-launcher": launcher(
        {"spec": {"containers": [{"name": "launcher", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}
    ),
}

PATCHED_PODS: Final[dict[str, tuple[tuple[str, ...], dict[str, str]]]] = {
    "gated": (("hyperscale.dev/placement",), {}),
    "gated-with-a-selector": (("hyperscale.dev/placement",), {"pool": "gnn"}),
    "gated-by-others-too": (("example.com/gate", "hyperscale.dev/placement"), {"pool": "gnn"}),
    "sent-to-a-host-by-a-queue": (("hyperscale.dev/placement",), {HOSTNAME: "node-x"}),
    "open": ((), {}),
    "gated-launcher": (("hyperscale.dev/launcher",), {}),
}
"""Scheduling gates and node selector of pods that are released."""
