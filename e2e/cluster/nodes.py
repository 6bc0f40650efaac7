"""GPU nodes for kwok: manifests from a topology, with the labels of GPU Feature Discovery, the cloud and topograph; created and awaited."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from e2e.cluster.api import Api, ApiError, Object
from e2e.cluster.control_plane import wait_until
from e2e.cluster.topology import Machine, Topology

GPU: Final = "nvidia.com/gpu"
RACK_LABEL: Final = "fabric.topograph.run/tier-0"
"""topograph's label of the closest switch."""
MADE_BY_LABEL: Final = "hyperscale.dev/local-cluster"
"""On every node of ours, so that `down` removes no other from an existing cluster."""
KUBELET_OWN_LABELS: Final = frozenset({"kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch"})
"""Written by a real kubelet itself."""
_CONDITIONS: Final = (
    ("Ready", "True", "KubeletReady"),
    ("MemoryPressure", "False", "KubeletHasSufficientMemory"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID"),
)
_NODE_INFO: Final = {
    "architecture": "amd64",
    "bootID": "",
    "containerRuntimeVersion": "kwok",
    "kernelVersion": "kwok",
    "kubeProxyVersion": "kwok",
    "kubeletVersion": "kwok",
    "machineID": "",
    "operatingSystem": "linux",
    "osImage": "",
    "systemUUID": "",
}
_THREADS: Final = 8
_READY_SECONDS_BASE: Final = 60.0
_READY_SECONDS_PER_NODE: Final = 0.05
_POLL_SECONDS_PER_NODE: Final = 0.0005


def labels(topology: Topology, machine: Machine) -> dict[str, str]:
    """Of a node, as kubelet, the cloud, topograph and GPU Feature Discovery write them."""
    product = topology.product_of(machine)
    return {
        MADE_BY_LABEL: "true",
        "kubernetes.io/hostname": machine.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": product.instance_type,
        "topology.kubernetes.io/region": machine.region,
        "topology.kubernetes.io/zone": machine.zone,
        RACK_LABEL: machine.rack,
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": product.product,
        "nvidia.com/gpu.memory": str(product.memory_mib),
        "nvidia.com/gpu.count": str(topology.gpus_of(machine)),
        "nvidia.com/gpu.family": product.family,
    }


def manifest(topology: Topology, machine: Machine, born: str) -> Object:
    """The Node object as a kubelet would have reported it at `born` (RFC 3339); kwok has nothing to add, which counts with thousands."""
    product, gpus = topology.product_of(machine), topology.gpus_of(machine)
    resources = {"cpu": str(product.cpu_cores), "memory": f"{product.memory_gib}Gi", "pods": "110", GPU: str(gpus)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": machine.name,
            "annotations": {"kwok.x-k8s.io/node": "fake", "node.alpha.kubernetes.io/ttl": "0"},
            "labels": labels(topology, machine),
        },
        "status": {
            "allocatable": resources,
            "capacity": resources,
            "phase": "Running",
            "addresses": [{"type": "Hostname", "address": machine.name}],
            "conditions": [_condition(kind, status, reason, born) for kind, status, reason in _CONDITIONS],
            "nodeInfo": _NODE_INFO,
        },
    }


def _condition(kind: str, status: str, reason: str, born: str) -> Object:
    return {"type": kind, "status": status, "reason": reason, "message": "", "lastHeartbeatTime": born, "lastTransitionTime": born}


def create(api: Api, topology: Topology) -> None:
    """Create every simulated node that is not there yet; raises ApiError."""
    make = _maker(api)
    born = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(make, (manifest(topology, machine, born) for machine in topology.nodes if not machine.real)))


def _maker(api: Api) -> Callable[[Object], None]:
    def make(node: Object) -> None:
        try:
            api.create("/api/v1/nodes", node)
        except ApiError as error:
            if error.code != 409:
                raise

    return make


def wait_ready(api: Api, count: int) -> None:
    """Until `count` nodes of ours are Ready and the not-ready taint of their birth is gone."""

    def ready() -> bool:
        nodes = api.items("/api/v1/nodes", labelSelector=MADE_BY_LABEL, resourceVersion="0")
        return sum(map(is_ready, nodes)) >= count

    patience = _READY_SECONDS_BASE + count * _READY_SECONDS_PER_NODE
    wait_until(ready, patience, f"not all of {count} nodes became Ready", 0.05 + count * _POLL_SECONDS_PER_NODE)


def is_ready(node: Object) -> bool:
    """Whether pods can be placed on it."""
    tainted = any(taint["key"] == "node.kubernetes.io/not-ready" for taint in node["spec"].get("taints", ()))
    conditions = node["status"].get("conditions", ())
    return not tainted and any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def remove(api: Api) -> None:
    """Delete our nodes (of a cluster that stays)."""
    api.delete("/api/v1/nodes", labelSelector=MADE_BY_LABEL)
