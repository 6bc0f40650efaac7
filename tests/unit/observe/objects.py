"""Raw Kubernetes objects and series for the tests of the observe stage."""

from __future__ import annotations

from typing import Any

from hyperscale.model.cluster import MetricsState
from hyperscale.model.metrics_reading import MetricsReading, Series

NOW = 1_800_000_000.0


def raw_node(name: str, gpus: int = 8, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": spec,
        "status": {
            "allocatable": {"nvidia.com/gpu": str(gpus), "cpu": "63500m", "memory": "512Gi"} if gpus else {"cpu": "4", "memory": "8Gi"},
            "conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": f"10.0.0.{sum(name.encode()) % 250}"}],
        },
    }


def raw_pod(name: str, node: str = "", gpus: int = 0, phase: str = "Running", namespace: str = "ml", **metadata: Any) -> dict[str, Any]:
    limits = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    spec: dict[str, Any] = {"containers": [{"name": "main", "resources": limits}]}
    if node:
        spec["nodeName"] = node
    return {"metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", **metadata}, "spec": spec, "status": {"phase": phase}}


def series(value: float, age: float = 5.0, /, **labels: str) -> Series:
    return Series(labels=labels, value=value, timestamp=NOW - age)


def reading(**figures: tuple[Series, ...]) -> MetricsReading:
    return MetricsReading(taken_at=NOW, state=MetricsState(available=True), series=figures)
