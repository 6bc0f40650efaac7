"""A job that trains in real pods: its volume claim, its progress, its launcher's words, its result."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, Protocol

from e2e.cluster import prometheus
from e2e.cluster.api import ApiError, Object
from e2e.cluster.cluster import Cluster
from e2e.cluster.control_plane import wait_until
from e2e.cluster.real import machines
from e2e.jobs import state_of

CORA_ACCURACY: Final = 0.80
"""Of the test vertices; Kipf and Welling report 0.815 for this model."""
ENDED: Final = frozenset({"Succeeded", "Failed"})
FINISHED_SECONDS: Final = 600.0
_CLAIM_SECONDS: Final = 30.0
_IDLE_PERCENT: Final = 10
_POLL_SECONDS: Final = 0.25
_ROWS: Final = (
    ("epoch", "epochs trained", "{:d}"),
    ("accuracy", "test accuracy", "{:.4f}"),
    ("validationAccuracy", "validation accuracy", "{:.4f}"),
    ("loss", "training loss", "{:.4f}"),
    ("epochSeconds", "epoch seconds, measured", "{:.4g}"),
    ("computeSeconds", "- compute", "{:.4g}"),
    ("communicationSeconds", "- communication", "{:.4g}"),
    ("samplesPerSecond", "training vertices a second", "{:.4g}"),
    ("peerBytes", "bytes between workers an epoch", "{:.4g}"),
)


class RunningOperator(Protocol):
    """An operator, as a process or as a pod."""

    def require(self) -> None:
        """Raises ProcessError with the end of its log when it does not run."""

    def tail(self, lines: int) -> str:
        """The last lines of its log."""
        ...


def wait_idle(here: Cluster) -> None:
    """Until Prometheus sees no load of an earlier job any more: a plan made before gives busy nodes almost nothing to do."""
    quiet = f"max(DCGM_FI_DEV_GPU_UTIL) < {_IDLE_PERCENT}"
    wait_until(lambda: bool(prometheus.try_query(here.prometheus_url, quiet)), _CLAIM_SECONDS, "GPUs stay busy", _POLL_SECONDS)


def fresh_claim(here: Cluster, namespace: str, name: str) -> None:
    """An empty volume that all workers can write, under a claim of that name; what an earlier run left there is gone."""
    api, path = here.api(), f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    api.delete(f"{path}/{name}")
    wait_until(lambda: api.find(f"{path}/{name}") is None, _CLAIM_SECONDS, f"the claim {namespace}/{name} does not go: a pod still uses it")
    machines.recycle(here.directory, api)
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteMany"], "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}},
    }
    api.create(path, claim)


def wait_finished(process: RunningOperator, status: Callable[[], Object], seconds: float = FINISHED_SECONDS) -> Object:
    """The status of a job that has ended, one way or the other; raises NotReadyError, or ProcessError when the operator ends first."""

    def ended() -> bool:
        process.require()
        return state_of(status()) in ENDED

    wait_until(ended, seconds, "the training does not end", _POLL_SECONDS)
    return status()


def epoch(status: Object) -> int:
    """Finished epochs as the status says; 0 before the first word."""
    found: int = (status.get("measured") or {}).get("epoch", 0)
    return found


def launcher_log(here: Cluster, namespace: str, job: str) -> str:
    """What the newest launcher wrote."""
    api = here.api()
    selector = f"training.kubeflow.org/job-name={job},training.kubeflow.org/job-role=launcher"
    pods = api.items(f"/api/v1/namespaces/{namespace}/pods", labelSelector=selector)
    if not pods:
        return "(no launcher)"
    newest = max(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
    try:
        return api.text(f"/api/v1/namespaces/{namespace}/pods/{newest['metadata']['name']}/log")
    except ApiError as error:
        return f"(no log: {error})"


def summary(status: Object) -> list[str]:
    """Lines about the result."""
    measured: dict[str, Any] = status.get("measured") or {}
    lines = [f"{title:<34}{form.format(measured[key])}" for key, title, form in _ROWS if key in measured]
    predicted = (status.get("plan") or {}).get("predicted", {}).get("epochSeconds")
    if predicted is not None and "epochSeconds" in measured:
        lines.append(
            f"{'epoch seconds, predicted':<34}{predicted:.4g} (for the GPUs that these nodes claim to have; they train on the CPU)"
        )
    return lines or ["the job ended without a result in its status: " + json.dumps(status.get("conditions", []))]
