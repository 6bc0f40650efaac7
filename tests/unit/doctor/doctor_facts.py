"""Facts of a sound installation with three GPU nodes, and ways to change them."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from hyperscale.doctor.checks.schema import OUR_CRDS, expected_fields
from hyperscale.doctor.facts import Crd, Facts, HistoryFacts, LeaseFacts, Metrics, Pod, Review, ServerFacts, WorkloadFacts
from hyperscale.doctor.series import LINK_FIGURES, SeriesFigure
from hyperscale.model import constants
from hyperscale.model.api.policy import MetricQueries
from hyperscale.model.metrics_reading import FIGURES, OPTIONAL

VERSION = "0.1.0"
NODES = ("gpu-1", "gpu-2", "gpu-3")
ACCOUNT = "system:serviceaccount:hyperscale-system:hyperscale"
MEDIANS = {"gpu_utilization": 37.0, "memory_used": 20000.0, "memory_free": 61000.0, "memory_reserved": 559.0, "temperature": 51.0} | {
    "power": 212.0,
    "xid": 0.0,
    "link_latency": 4e-5,
    "link_bandwidth": 1.2e9,
}


S = TypeVar("S", bound=msgspec.Struct)


def changed(value: S, **changes: Any) -> S:
    return msgspec.structs.replace(value, **changes)


def node(name: str, gpus: int = 2, ready: bool = True, **labels: str | None) -> dict[str, Any]:
    """labels: by the part behind the last slash; None takes one away."""
    own = {
        "topology.kubernetes.io/zone": "hall-1",
        "cloud.provider.com/topology-rack": f"rack-{name[-1]}",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        "nvidia.com/gpu.memory": "81559",
    }
    for part, value in labels.items():
        key = next(key for key in own if key.replace(".", "_").replace("-", "_").endswith(part))
        own.pop(key, None)
        if value is not None:
            own[key] = value
    amounts = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    conditions = [{"type": "Ready", "status": "True" if ready else "Unknown"}]
    return {"metadata": {"name": name, "labels": own}, "status": {"allocatable": amounts, "capacity": amounts, "conditions": conditions}}


def divided(name: str, gpus: int = 2, resources: dict[str, str] | None = None, **labels: str) -> dict[str, Any]:
    """A node with further resources and labels; labels: by the part behind `nvidia.com/`, `__` for `.` and `_` for `-`."""
    made = node(name, gpus)
    made["metadata"]["labels"] |= {"nvidia.com/" + part.replace("__", ".").replace("_", "-"): value for part, value in labels.items()}
    amounts = {**made["status"]["allocatable"], **(resources or {})}
    made["status"] |= {"allocatable": amounts, "capacity": amounts}
    return made


def operator(**changes: Any) -> WorkloadFacts:
    labels = {
        "app.kubernetes.io/part-of": "hyperscale",
        "app.kubernetes.io/component": "operator",
        "app.kubernetes.io/instance": "hyperscale",
        "app.kubernetes.io/version": VERSION,
        "app.kubernetes.io/managed-by": "Helm",
    }
    made = WorkloadFacts(
        "Deployment", "hyperscale-system", "hyperscale", labels, 1, 1, ("hyperscale/operator:0.1.0",), account="hyperscale"
    )
    environment = {"HYPERSCALE_HISTORY_URL": "postgresql://db/hyperscale", "HYPERSCALE_PROMETHEUS_URL": "http://prometheus.monitoring:9090"}
    return changed(made, **{"environment": environment, **changes})


def agent(**changes: Any) -> WorkloadFacts:
    labels = {"app.kubernetes.io/part-of": "hyperscale", "app.kubernetes.io/component": "agent"}
    return changed(
        WorkloadFacts("DaemonSet", "hyperscale-system", "hyperscale-agent", labels, 3, 3, ("hyperscale/agent:0.1.0",)), **changes
    )


def mpi_operator(*flags: str, **changes: Any) -> WorkloadFacts:
    given = flags or ("-kube-api-qps=100", "--kube-api-burst", "200", "-threadiness=10")
    made = WorkloadFacts(
        "Deployment", "mpi-operator", "mpi-operator", {}, 1, 1, ("mpioperator/mpi-operator:0.8.2",), given, account="mpi-operator"
    )
    return changed(made, **changes)


def plugin(**changes: Any) -> WorkloadFacts:
    made = WorkloadFacts("DaemonSet", "nvidia", "nvidia-device-plugin", {}, 3, 3, ("nvcr.io/nvidia/k8s-device-plugin:v0.17.1",))
    return changed(made, **changes)


def dra_driver(**changes: Any) -> WorkloadFacts:
    images = ("registry.k8s.io/dra-driver-nvidia/dra-driver-nvidia-gpu:v0.4.0",)
    return changed(WorkloadFacts("DaemonSet", "nvidia-dra", "nvidia-dra-driver-gpu-kubelet-plugin", {}, 3, 3, images), **changes)


def kueue_controller(**changes: Any) -> WorkloadFacts:
    made = WorkloadFacts("Deployment", "kueue-system", "kueue-controller-manager", {}, 1, 1, ("registry.k8s.io/kueue/kueue:v0.14.0",))
    return changed(made, **changes)


def pod(**changes: Any) -> Pod:
    return changed(Pod("hyperscale-system", "hyperscale-7d9-x", "gpu-1", "Running", "operator", ("hyperscale/operator:0.1.0",)), **changes)


def lease(**changes: Any) -> LeaseFacts:
    return changed(LeaseFacts("hyperscale-system", constants.LEASE_NAME, "hyperscale-7d9-x", 2.0), **changes)


def figure(name: str, **changes: Any) -> SeriesFigure:
    labels = {"source", "destination"} if name in LINK_FIGURES else {"Hostname", "gpu", "UUID"}
    middle = MEDIANS[name]
    made = SeriesFigure(getattr(MetricQueries(), name), None, 6, 6, (), frozenset(labels), 6, middle, middle, middle, age_seconds=5.0)
    return changed(made, **changes)


def metrics(**changes: Any) -> Metrics:
    made = Metrics(
        url="http://prometheus.monitoring:9090",
        way="directly",
        ahead_seconds=0.01,
        figures={name: figure(name) for name in FIGURES if name not in OPTIONAL},
        names={"DCGM_FI_DEV_GPU_UTIL": 6, "hyperscale_link_latency_seconds": 6},
        targets=(("dcgm-exporter", 3, 0), ("hyperscale-agent", 3, 0)),
        pairs=(6, 6),
        linked=frozenset(NODES),
        with_series=frozenset(NODES),
        frozen=(0, 6),
    )
    return changed(made, **changes)


def with_figure(name: str, **changes: Any) -> Metrics:
    """Metrics in which one figure is different."""
    found = metrics()
    return metrics(figures={**found.figures, name: figure(name, **changes)})


def crds(**changed_fields: Crd | None) -> tuple[Crd, ...]:
    """All CRDs; by plural another one, or None for none."""
    found = {name.partition(".")[0]: Crd(name, ("v1alpha1",), True, "", expected_fields(name)) for name in OUR_CRDS}
    found["mpijobs"] = Crd("mpijobs.kubeflow.org", ("v2beta1",), True)
    return tuple(crd for crd in {**found, **changed_fields}.values() if crd is not None)


def facts(**changes: Any) -> Facts:
    made = Facts(
        VERSION,
        ServerFacts("v1.34.4", 0.02, 0.1),
        crds=crds(),
        workloads=(operator(), agent(), mpi_operator(), plugin()),
        pods=(pod(),),
        leases=(lease(),),
        nodes=tuple(node(name) for name in NODES),
        reviews=(Review(ACCOUNT, (), 38),),
        mpi_may_resume=True,
        metrics=metrics(),
        history=HistoryFacts("postgresql://db/hyperscale"),
    )
    return changed(made, **changes)
