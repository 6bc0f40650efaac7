"""URL paths of the API objects that the operator reads and writes, one name for each collection and its objects.

Every name is percent-encoded as one segment. Each raises ValueError for what is no name of an object or namespace:
"", "." and "..", which would change the path before it (apimachinery's IsValidPathSegmentName).
"""

from __future__ import annotations

from functools import partial
from urllib.parse import quote

from hyperscale.model import constants


def _path(collection: str, namespace: str = "", name: str | None = None) -> str:
    """The path of a collection, in all namespaces or in one, or of the object of this name in it."""
    prefix, _, plural = collection.rpartition("/")
    scope = f"namespaces/{_segment(namespace)}/" if namespace else ""
    return f"/{prefix}/{scope}{plural}" + ("" if name is None else f"/{_segment(name)}")


def _segment(name: str) -> str:
    if name in ("", ".", ".."):
        raise ValueError(f"{name!r} is no name of an API object")
    return quote(name, safe="")


jobs = partial(_path, f"apis/{constants.GROUP}/{constants.VERSION}/{constants.JOB_PLURAL}")
policies = partial(_path, f"apis/{constants.GROUP}/{constants.VERSION}/{constants.POLICY_PLURAL}")
topologies = partial(_path, f"apis/{constants.GROUP}/{constants.VERSION}/{constants.TOPOLOGY_PLURAL}", "")
mpijobs = partial(_path, f"apis/{constants.MPI_GROUP}/{constants.MPI_VERSION}/{constants.MPI_PLURAL}")
batch_jobs = partial(_path, "apis/batch/v1/jobs")
pods = partial(_path, "api/v1/pods")
network_policies = partial(_path, "apis/networking.k8s.io/v1/networkpolicies")
config_maps = partial(_path, "api/v1/configmaps")
claims = partial(_path, "api/v1/persistentvolumeclaims")
volumes = partial(_path, "api/v1/persistentvolumes", "")
storage_classes = partial(_path, "apis/storage.k8s.io/v1/storageclasses", "")
nodes = partial(_path, "api/v1/nodes")
events = partial(_path, "api/v1/events")
leases = partial(_path, "apis/coordination.k8s.io/v1/leases")

HYPERNODES = ("/apis/topology.volcano.sh/v1alpha1/hypernodes",)
"""Volcano's HyperNodes, by version."""
KUEUE_TOPOLOGIES = tuple(f"/apis/kueue.x-k8s.io/{version}/topologies" for version in ("v1beta1", "v1beta2", "v1alpha1"))
"""Kueue's Topologies, by version, the likeliest first: 0.14 serves v1beta1, 0.16 v1beta2, 0.9 v1alpha1."""


def kueue_workloads(namespace: str) -> tuple[str, ...]:
    """Kueue's Workloads of a namespace, by version: 0.15 serves both."""
    return tuple(_path(f"apis/kueue.x-k8s.io/{version}/workloads", namespace) for version in ("v1beta1", "v1beta2"))
