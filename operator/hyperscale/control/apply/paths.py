"""URL paths of the API objects that the operator reads and writes.

Every name is percent-encoded as one segment. Each function raises ValueError for what is no name of an object or namespace:
"", "." and "..", which would change the path before it (apimachinery's IsValidPathSegmentName).
"""

from __future__ import annotations

from urllib.parse import quote

from hyperscale.model import constants


def jobs(namespace: str = "") -> str:
    """GNNTrainingJobs of a namespace, or of all."""
    return _collection(constants.GROUP, constants.VERSION, constants.JOB_PLURAL, namespace)


def job(namespace: str, name: str) -> str:
    """One GNNTrainingJob."""
    return f"{jobs(namespace)}/{_segment(name)}"


def policies() -> str:
    """All PlannerPolicies."""
    return f"/apis/{constants.GROUP}/{constants.VERSION}/{constants.POLICY_PLURAL}"


def topology(name: str) -> str:
    """One ClusterTopology."""
    return f"/apis/{constants.GROUP}/{constants.VERSION}/{constants.TOPOLOGY_PLURAL}/{_segment(name)}"


def hypernodes() -> tuple[str, ...]:
    """Volcano's HyperNodes, by version."""
    return ("/apis/topology.volcano.sh/v1alpha1/hypernodes",)


def kueue_topologies() -> tuple[str, ...]:
    """Kueue's Topologies, by version, the likeliest first: 0.14 serves v1beta1, 0.16 v1beta2, 0.9 v1alpha1."""
    return tuple(f"/apis/kueue.x-k8s.io/{version}/topologies" for version in ("v1beta1", "v1beta2", "v1alpha1"))


def kueue_workloads(namespace: str) -> tuple[str, ...]:
    """Kueue's Workloads of a namespace, by version: 0.15 serves both."""
    return tuple(f"/apis/kueue.x-k8s.io/{version}/namespaces/{_segment(namespace)}/workloads" for version in ("v1beta1", "v1beta2"))


def mpijobs(namespace: str = "") -> str:
    """MPIJobs of a namespace, or of all."""
    return _collection(constants.MPI_GROUP, constants.MPI_VERSION, constants.MPI_PLURAL, namespace)


def mpijob(namespace: str, name: str) -> str:
    """One MPIJob."""
    return f"{mpijobs(namespace)}/{_segment(name)}"


def pods(namespace: str = "") -> str:
    """Pods of a namespace, or of all."""
    return f"/api/v1/namespaces/{_segment(namespace)}/pods" if namespace else "/api/v1/pods"


def pod(namespace: str, name: str) -> str:
    """One pod."""
    return f"{pods(namespace)}/{_segment(name)}"


def claim(namespace: str, name: str) -> str:
    """One PersistentVolumeClaim."""
    return f"/api/v1/namespaces/{_segment(namespace)}/persistentvolumeclaims/{_segment(name)}"


def volume(name: str) -> str:
    """One PersistentVolume."""
    return f"/api/v1/persistentvolumes/{_segment(name)}"


def storage_class(name: str) -> str:
    """One StorageClass."""
    return f"/apis/storage.k8s.io/v1/storageclasses/{_segment(name)}"


def config_maps(namespace: str) -> str:
    """ConfigMaps of a namespace."""
    return f"/api/v1/namespaces/{_segment(namespace)}/configmaps"


def config_map(namespace: str, name: str) -> str:
    """One ConfigMap."""
    return f"{config_maps(namespace)}/{_segment(name)}"


def batch_jobs(namespace: str) -> str:
    """Jobs (batch/v1) of a namespace."""
    return f"/apis/batch/v1/namespaces/{_segment(namespace)}/jobs"


def batch_job(namespace: str, name: str) -> str:
    """One Job (batch/v1)."""
    return f"{batch_jobs(namespace)}/{_segment(name)}"


def nodes() -> str:
    """All nodes."""
    return "/api/v1/nodes"


def events(namespace: str) -> str:
    """Events of a namespace."""
    return f"/api/v1/namespaces/{_segment(namespace)}/events"


def leases(namespace: str) -> str:
    """Leases of a namespace."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{_segment(namespace)}/leases"


def _collection(group: str, version: str, plural: str, namespace: str) -> str:
    scope = f"namespaces/{_segment(namespace)}/" if namespace else ""
    return f"/apis/{group}/{version}/{scope}{plural}"


def _segment(name: str) -> str:
    if name in ("", ".", ".."):
        raise ValueError(f"{name!r} is no name of an API object")
    return quote(name, safe="")
