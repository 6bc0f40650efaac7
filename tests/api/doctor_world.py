"""A whole installation for `hyperscale doctor` on a real API server and a real Prometheus.

What controllers that do not run here would write (statuses, pods) is written by hand.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import yaml

from e2e.cluster.api import Api, ApiError
from e2e.cluster.components import install_mpi_operator, wait_established
from e2e.cluster.control_plane import wait_until
from tests.api.conftest import served
from tests.api.doctor_scraped import GPUS, NODES

Object = dict[str, Any]
Labels = dict[str, str]

NAMESPACE: Final = "hyperscale-system"
MEMORY_MIB: Final = 81559
OPERATOR: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/hyperscale"
LEASE: Final = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/hyperscale-operator"
POD: Final = f"/api/v1/namespaces/{NAMESPACE}/pods/hyperscale-5d4f8-x7k2p"
MPI: Final = "/apis/apps/v1/namespaces/mpi-operator/deployments/mpi-operator"
PLUGIN: Final = "/apis/apps/v1/namespaces/nvidia-device-plugin/daemonsets/nvdp-nvidia-device-plugin"
AGENT: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/hyperscale-agent"
POLICY: Final = "/apis/hyperscale.dev/v1alpha1/plannerpolicies/default"


def build(api: Api, binaries: dict[str, Path]) -> None:
    """Everything that a sound installation has besides the chart's own objects."""
    install_mpi_operator(api, binaries)
    for name in ("nvidia-device-plugin", "team-a"):
        api.apply(f"/api/v1/namespaces/{name}", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for name in NODES:
        put_node(api, name)
    binding = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/mpi-operator-account"
    api.apply(binding, _binding())
    put_mpi_operator(api)
    put_daemon(api, PLUGIN, "nvcr.io/nvidia/k8s-device-plugin:v0.17.1", {"app.kubernetes.io/name": "nvidia-device-plugin"})
    set_ready(api, AGENT)
    put_pod(api, POD, "hyperscale/operator:0.1.0", "operator")
    make_available(api, OPERATOR)
    renew(api)


def _binding() -> Object:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "mpi-operator-account"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "mpi-operator"},
        "subjects": [{"kind": "ServiceAccount", "name": "mpi-operator", "namespace": "mpi-operator"}],
    }


def remove(api: Api) -> None:
    """Take back what `build` made; the namespaces stay, nothing here ends them."""
    for path in (MPI, PLUGIN, POLICY, LEASE, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/mpi-operator-account"):
        api.delete(path)
    api.delete(POD, gracePeriodSeconds="0")
    for name in NODES:
        api.delete(f"/api/v1/nodes/{name}")


def put_node(api: Api, name: str, gpus: int = GPUS, drop: tuple[str, ...] = ()) -> None:
    """A GPU node as the device plugin and GPU Feature Discovery leave it; `drop`: label keys that are missing."""
    labels = {
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/zone": "hall-1",
        "cloud.provider.com/topology-rack": f"rack-{name[-1]}",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        "nvidia.com/gpu.memory": str(MEMORY_MIB),
        "nvidia.com/gpu.count": str(GPUS),
    }
    api.delete(f"/api/v1/nodes/{name}")
    kept = {key: value for key, value in labels.items() if key not in drop}
    api.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": kept}})
    amounts = {"cpu": "32", "memory": "256Gi", "pods": "110", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now, "lastTransitionTime": now}
    status = {"allocatable": amounts, "capacity": amounts, "conditions": [ready]}
    api.patch(f"/api/v1/nodes/{name}/status", {"status": status})


def put_mpi_operator(api: Api, flags: tuple[str, ...] = ("-kube-api-qps=100", "-kube-api-burst=200", "-threadiness=10")) -> None:
    """mpi-operator's Deployment, available."""
    api.delete(MPI)
    container = {"name": "mpi-operator", "image": "mpioperator/mpi-operator:0.8.2", "args": ["-alsologtostderr", *flags]}
    template = {
        "metadata": {"labels": {"app": "mpi-operator"}},
        "spec": {"serviceAccountName": "mpi-operator", "containers": [container]},
    }
    spec = {"selector": {"matchLabels": {"app": "mpi-operator"}}, "template": template}
    api.apply(MPI, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": _metadata(MPI), "spec": spec})
    make_available(api, MPI)


def put_daemon(api: Api, path: str, image: str, labels: Labels) -> None:
    """A DaemonSet that wants a pod on every GPU node."""
    template = {"metadata": {"labels": {"app": path[-9:]}}, "spec": {"containers": [{"name": "main", "image": image}]}}
    spec = {"selector": {"matchLabels": {"app": path[-9:]}}, "template": template}
    api.apply(path, {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": _metadata(path) | {"labels": labels}, "spec": spec})
    set_ready(api, path)


def set_ready(api: Api, path: str, ready: int = len(NODES)) -> None:
    """What the DaemonSet's controller would write: `ready` of the GPU nodes have a ready pod."""
    numbers = {"desiredNumberScheduled": len(NODES), "currentNumberScheduled": len(NODES), "numberMisscheduled": 0, "numberReady": ready}
    api.patch(f"{path}/status", {"status": numbers})


def put_pod(api: Api, path: str, image: str, component: str, waiting: Object | None = None) -> None:
    """A pod of the release, running or waiting for the given reason."""
    labels = {"app.kubernetes.io/part-of": "hyperscale", "app.kubernetes.io/component": component}
    container = {
        "name": "main",
        "image": image,
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True},
    }
    spec = {
        "containers": [container],
        "nodeName": NODES[0],
        "serviceAccountName": "hyperscale",
        "automountServiceAccountToken": False,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
    }
    api.delete(path, gracePeriodSeconds="0")
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": _metadata(path) | {"labels": labels}, "spec": spec}
    api.create(path.rpartition("/")[0], pod)
    state = {"waiting": waiting} if waiting else {"running": {"startedAt": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}}
    statuses = [{"name": "main", "image": image, "imageID": "", "ready": not waiting, "restartCount": 0, "state": state}]
    api.patch(f"{path}/status", {"status": {"phase": "Pending" if waiting else "Running", "containerStatuses": statuses}})


def make_available(api: Api, path: str, replicas: int = 1) -> None:
    """What the Deployment's controller would write; `replicas` of them available."""
    numbers = {"replicas": 1, "updatedReplicas": 1, "readyReplicas": replicas, "availableReplicas": replicas}
    api.patch(f"{path}/status", {"status": numbers})


def renew(api: Api, holder: str = POD.rpartition("/")[2], seconds_ago: float = 0.0) -> None:
    """The operator's Lease, renewed so long ago."""
    stamp = (datetime.now(UTC) - timedelta(seconds=seconds_ago)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": holder, "renewTime": stamp, "acquireTime": stamp, "leaseDurationSeconds": 15}
    api.apply(LEASE, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": _metadata(LEASE), "spec": spec})


def put_kueue(api: Api, frameworks: tuple[str, ...]) -> None:
    """The part of Kueue's API that is looked at, and its configuration."""
    for kind, plural in (("LocalQueue", "localqueues"), ("ClusterQueue", "clusterqueues")):
        names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        version = {"name": "v1beta1", "served": True, "storage": True, "schema": schema}
        spec = {"group": "kueue.x-k8s.io", "names": names, "scope": "Namespaced", "versions": [version]}
        metadata = {
            "name": f"{plural}.kueue.x-k8s.io",
            "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/kueue"},
        }
        crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": metadata, "spec": spec}
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{metadata['name']}"
        api.apply(path, crd)
        wait_established(api, path)
    wait_until(lambda: served(api, "/apis/kueue.x-k8s.io/v1beta1/localqueues"), 60.0, "LocalQueues are not served")
    api.apply("/api/v1/namespaces/kueue-system", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kueue-system"}})
    path = "/api/v1/namespaces/kueue-system/configmaps/kueue-manager-config"
    text = yaml.safe_dump({"kind": "Configuration", "integrations": {"frameworks": list(frameworks)}})
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _metadata(path), "data": {"controller_manager_config.yaml": text}}
    api.apply(path, body)


def remove_kueue(api: Api) -> None:
    """Take it back, and wait until its API is gone."""
    for plural in ("localqueues", "clusterqueues"):
        api.delete(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.kueue.x-k8s.io")
    api.delete("/api/v1/namespaces/kueue-system/configmaps/kueue-manager-config")
    wait_until(lambda: api.find("/apis/kueue.x-k8s.io") is None, 60.0, "Kueue's API is still served")


def put_service(api: Api, namespace: str, name: str, address: str, port: int) -> None:
    """A Service and the one pod behind it; the API server's proxy goes to no address that is no pod's."""
    below = f"/api/v1/namespaces/{namespace}"
    api.apply(below, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    api.apply(f"{below}/serviceaccounts/default", {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}})
    path = f"{below}/services/{name}"
    spec = {"ports": [{"name": "web", "port": port}]}
    api.apply(path, {"apiVersion": "v1", "kind": "Service", "metadata": _metadata(path), "spec": spec})
    pod = {"nodeName": NODES[0], "automountServiceAccountToken": False, "containers": [{"name": "main", "image": "prometheus"}]}
    api.create(f"{below}/pods", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": pod})
    api.patch(f"{below}/pods/{name}/status", {"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}})
    target = {"kind": "Pod", "namespace": namespace, "name": name}
    subsets = [{"addresses": [{"ip": address, "targetRef": target}], "ports": [{"name": "web", "port": port}]}]
    ends = f"{below}/endpoints/{name}"
    api.apply(ends, {"apiVersion": "v1", "kind": "Endpoints", "metadata": _metadata(ends), "subsets": subsets})


def remove_service(api: Api, namespace: str, name: str) -> None:
    """Take it back."""
    api.delete(f"/api/v1/namespaces/{namespace}/pods/{name}", gracePeriodSeconds="0")
    for plural in ("endpoints", "services"):
        api.delete(f"/api/v1/namespaces/{namespace}/{plural}/{name}")


def wait_proxied(api: Api, path: str) -> None:
    """Until the API server's proxy has heard of a new Service and its endpoints."""

    def answers() -> bool:
        try:
            return api.find(path) is not None
        except ApiError:
            return False

    wait_until(answers, 60.0, f"{path} does not answer")


def set_variable(api: Api, variable: Object) -> None:
    """One variable of the operator's container."""
    container = api.get(OPERATOR)["spec"]["template"]["spec"]["containers"][0]
    at = next(index for index, one in enumerate(container["env"]) if one["name"] == variable["name"])
    path = f"/spec/template/spec/containers/0/env/{at}"
    api.patch(OPERATOR, [{"op": "replace", "path": path, "value": variable}])
    make_available(api, OPERATOR)


def _metadata(path: str) -> Object:
    parts = path.split("/")
    return {"name": parts[-1], "namespace": parts[parts.index("namespaces") + 1]}
