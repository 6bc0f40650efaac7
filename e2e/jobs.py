"""One GNNTrainingJob in a scenario: made, looked at, waited for, gone without a trace."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

from e2e.cluster.api import Api, Object
from e2e.cluster.components import ensure_namespace
from e2e.cluster.control_plane import wait_until
from hyperscale.model.api.condition import Condition
from hyperscale.model.status import JobStatus

PATIENCE_SECONDS: Final = 120.0
GATE: Final = "hyperscale.dev/placement"

_PLURALS: Final = (
    "/apis/hyperscale.dev/v1alpha1/namespaces/{}/gnntrainingjobs",
    "/apis/kubeflow.org/v2beta1/namespaces/{}/mpijobs",
)

SPEC: Final[Object] = {
    "model": {"architecture": "GCN"},
    "dataset": {"source": {"builtin": {"name": "Cora"}}},
    "workers": {"minReplicas": 2, "maxReplicas": 2},
}

COMPUTING: Final[Object] = {
    "model": {"architecture": "GraphSAGE", "layers": 3, "hiddenSize": 8192},
    "dataset": {"source": {"s3": {"bucket": "graphs"}}, "vertices": 2_449_029, "edges": 123_718_280, "featureSize": 100, "classes": 47},
}
"""Fields of SPEC with so much to compute that faster GPUs decide the plan. A pair of H100 nodes is 24 % ahead of the next pair."""


def state_of(status: Object) -> str:
    """The conditions of a GNNTrainingJob's status in one word; Pending without any."""
    conditions = msgspec.convert(status.get("conditions", []), tuple[Condition, ...])
    return str(JobStatus(conditions=conditions).state)


class Job:
    """A GNNTrainingJob of a namespace, by name."""

    def __init__(self, api: Api, namespace: str, name: str) -> None:
        self.api = api
        self.namespace = namespace
        self.name = name
        self.path = f"/apis/hyperscale.dev/v1alpha1/namespaces/{namespace}/gnntrainingjobs/{name}"
        self.mpijob_path = f"/apis/kubeflow.org/v2beta1/namespaces/{namespace}/mpijobs/{name}"

    def create(self, metadata: Object | None = None, **spec: object) -> None:
        """Create it; `spec` adds to or replaces SPEC's fields."""
        body = {
            "apiVersion": "hyperscale.dev/v1alpha1",
            "kind": "GNNTrainingJob",
            "metadata": {"name": self.name, **(metadata or {})},
            "spec": {**copy.deepcopy(SPEC), **spec},
        }
        self.api.create(self.path.rpartition("/")[0], body)

    def patch(self, **body: object) -> None:
        """Merge patch."""
        self.api.patch(self.path, body)

    def delete(self) -> None:
        """Delete the job and, by owner references, all that was made from it."""
        self.api.delete(self.path)

    def resource(self) -> Object:
        """The whole object."""
        return self.api.get(self.path)

    def status(self) -> Object:
        """Its status; empty before the first write."""
        found: Object = (self.api.find(self.path) or {}).get("status") or {}
        return found

    def plan(self) -> Object:
        """status.plan; empty without one."""
        plan: Object = self.status().get("plan") or {}
        return plan

    def nodes(self) -> list[str]:
        """Planned nodes by rank."""
        return [worker["node"] for worker in self.plan().get("workers", ())]

    def condition(self, kind: str) -> Object:
        """One condition; empty without it."""
        return next((one for one in self.status().get("conditions", ()) if one["type"] == kind), {})

    def mpijob(self) -> Object | None:
        """Its MPIJob."""
        return self.api.find(self.mpijob_path)

    def pods(self, role: str = "worker") -> list[Object]:
        """Its pods of a role, by rank."""
        selector = f"training.kubeflow.org/job-name={self.name},training.kubeflow.org/job-role={role}"
        pods = self.api.items(f"/api/v1/namespaces/{self.namespace}/pods", labelSelector=selector)
        return sorted(pods, key=lambda pod: int(pod["metadata"]["labels"].get("training.kubeflow.org/replica-index", 0)))

    def pod_nodes(self) -> list[str]:
        """Nodes of its worker pods by rank; "" where not bound."""
        return [pod["spec"].get("nodeName", "") for pod in self.pods()]

    def events(self) -> list[Object]:
        """Its events."""
        return [
            event
            for event in self.api.items(f"/api/v1/namespaces/{self.namespace}/events")
            if event["involvedObject"]["name"] == self.name and event["involvedObject"]["kind"] == "GNNTrainingJob"
        ]

    def wait(self, condition: Callable[[], bool], what: str, seconds: float = PATIENCE_SECONDS) -> None:
        """Until `condition`; raises NotReadyError with the status seen."""
        try:
            wait_until(condition, seconds, what)
        except Exception as error:
            raise AssertionError(f"{self.namespace}/{self.name}: {what}; status: {self.status()}") from error

    def state(self) -> str:
        """Its conditions in one word."""
        return state_of(self.status())

    def reason(self) -> str:
        """The reason of its last step, as column STATUS shows it."""
        return str(self.condition("Succeeded").get("reason", ""))

    def wait_reason(self, reason: str) -> None:
        """Until the reason of the last step is `reason`."""
        self.wait(lambda: self.reason() == reason, f"reason {reason} did not come")

    def wait_state(self, state: str) -> None:
        """Until the conditions say `state`."""
        self.wait(lambda: self.state() == state, f"state {state} did not come")

    def wait_bound(self) -> None:
        """Until every planned rank has its pod on a node."""

        def bound() -> bool:
            nodes = self.pod_nodes()
            return bool(nodes) and all(nodes) and len(nodes) == len(self.plan().get("workers", nodes))

        self.wait(bound, "not every worker is bound")

    def is_gone(self) -> bool:
        """Neither the job nor its MPIJob nor a pod of the job is left."""
        return not (self.api.find(self.path) or self.mpijob() or self.pods() or self.pods("launcher"))

    def remove(self) -> None:
        """Remove the job with all that was made from it. The garbage collector is not awaited: it learns of a new CRD only after 30 s."""
        self.delete()
        self.api.delete(self.mpijob_path)
        for pod in self.pods() + self.pods("launcher"):
            self.api.delete(f"/api/v1/namespaces/{self.namespace}/pods/{pod['metadata']['name']}", gracePeriodSeconds="0")
        for job in self.api.items(f"/apis/batch/v1/namespaces/{self.namespace}/jobs"):
            self.api.delete(f"/apis/batch/v1/namespaces/{self.namespace}/jobs/{job['metadata']['name']}", propagationPolicy="Background")


@contextmanager
def namespace(api: Api, name: str) -> Iterator[str]:
    """A namespace for one test; at the end nothing is left of its jobs, so that the GPUs are free again."""
    ensure_namespace(api, name)
    yield name
    made = {resource["metadata"]["name"] for plural in _PLURALS for resource in api.items(plural.format(name))}
    jobs = [Job(api, name, each) for each in sorted(made)]

    def gone() -> bool:
        for job in jobs:
            job.remove()
        return all(job.is_gone() for job in jobs)

    wait_until(gone, PATIENCE_SECONDS, f"something is left in {name}")


def claim_unbound(api: Api, space: str, name: str) -> None:
    """A claim that nothing binds: enough for what plans and creates pods, which are then not started."""
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}
    api.create(f"/api/v1/namespaces/{space}/persistentvolumeclaims", body)


def claim_volume(api: Api, space: str) -> None:
    """A claim `state` for checkpoints, bound by hand to a volume."""
    size = {"storage": "1Gi"}
    volume = f"state-{space}"
    api.create(
        "/api/v1/persistentvolumes",
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": volume},
            "spec": {
                "capacity": size,
                "accessModes": ["ReadWriteMany"],
                "hostPath": {"path": "/state"},
                "claimRef": {"namespace": space, "name": "state"},
            },
        },
    )
    claims = f"/api/v1/namespaces/{space}/persistentvolumeclaims"
    api.create(
        claims,
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "state"},
            "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": size}, "storageClassName": "", "volumeName": volume},
        },
    )
    wait_until(lambda: api.get(f"{claims}/state")["status"].get("phase") == "Bound", 30, "the claim is not bound")
