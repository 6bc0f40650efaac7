"""etcd and kube-apiserver, and the controller manager and scheduler beside them, on loopback, as plain processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import yaml

from e2e.cluster.api import Api, access_from
from e2e.cluster.pki import Client, Pki
from e2e.cluster.ports import LOOPBACK, free_ports
from e2e.cluster.processes import ProcessTable

READY_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.05
_ADMINISTRATORS: Final = ("system:masters",)

CLIENTS: Final = {
    "admin": Client("admin", _ADMINISTRATORS),
    "kwok": Client("kwok", _ADMINISTRATORS),
    "exporter": Client("exporter", _ADMINISTRATORS),
    "controller-manager": Client("system:kube-controller-manager"),
    "scheduler": Client("system:kube-scheduler"),
    "mpi-operator": Client("mpi-operator"),
}
"""Users by file stem; each component has its own name so that the audit log tells them apart."""

AUDIT_POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "None", "nonResourceURLs": ["/*"]}, {"level": "Metadata"}],
}


class NotReadyError(Exception):
    """Something did not get ready in time; the message says what."""


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """A running API server."""

    directory: Path
    kubeconfig: Path
    """Of the administrator."""
    audit_log: Path

    def api(self, user: str = "admin") -> Api:
        """A client as one of CLIENTS."""
        return Api(access_from(kubeconfig_path(self.directory, user)))

    def stop(self) -> None:
        """End every process of the directory; files stay."""
        ProcessTable(self.directory).stop_all()


@dataclass(frozen=True, slots=True)
class Serving:
    """Where the API server listens, and for whom beside CLIENTS."""

    address: str = LOOPBACK
    port: int | None = None
    """None: a free one."""
    services: str = "10.96.0.0/16"
    clients: Mapping[str, Client] = field(default_factory=dict)


def kubeconfig_path(directory: Path, user: str) -> Path:
    """The kubeconfig of one of CLIENTS; the administrator's lies where people look for it."""
    return directory / "kubeconfig" if user == "admin" else directory / "kubeconfigs" / user


def audit_path(directory: Path) -> Path:
    """Where kube-apiserver writes one JSON object per request."""
    return directory / "audit.log"


def start_control_plane(directory: Path, binaries: Mapping[str, Path], serving: Serving | None = None) -> ControlPlane:
    """Start etcd and kube-apiserver and wait until /readyz is ok.

    `binaries` comes from `binaries.ensure_all()`. Raises ProcessError or NotReadyError; what was started stays recorded in the directory.
    """
    directory = directory.resolve()
    table = ProcessTable(directory)
    serving = serving or Serving()
    etcd_port, peer_port, free_port = free_ports(3)
    serving = replace(serving, port=serving.port or free_port)
    pki, clients = Pki(directory / "pki"), {**CLIENTS, **serving.clients}
    _start_etcd(table, binaries["etcd"], directory, etcd_port, peer_port)
    pki.create(clients, serving.address)
    _write_kubeconfigs(directory, pki, clients, f"https://{serving.address}:{serving.port}")
    _start_apiserver(table, binaries["kube-apiserver"], directory, pki, etcd_port, serving)
    plane = ControlPlane(directory, kubeconfig_path(directory, "admin"), audit_path(directory))
    api = plane.api()

    def ready() -> bool:
        table.require("kube-apiserver")
        table.require("etcd")
        return api.healthy()

    wait_until(ready, READY_SECONDS, f"kube-apiserver is not ready: see {table.log('kube-apiserver')}")
    return plane


def lease_seconds(node_count: int) -> int:
    """How long a node's Lease lasts. kwok renews it four times in that time: on a large cluster that alone would fill two cores."""
    return max(40, node_count // 10)


def wait_until(condition: Callable[[], bool], seconds: float, message: str, poll_seconds: float = _POLL_SECONDS) -> None:
    """Poll until the condition holds; raises NotReadyError(message) when it does not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            raise NotReadyError(f"{message} (waited {seconds:.0f} s)")
        time.sleep(poll_seconds)


def _write_kubeconfigs(directory: Path, pki: Pki, clients: Mapping[str, Client], server: str) -> None:
    for user in clients:
        path = kubeconfig_path(directory, user)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(pki.kubeconfig(user, server))


def _start_etcd(table: ProcessTable, binary: Path, directory: Path, port: int, peer_port: int) -> None:
    client, peer = f"http://{LOOPBACK}:{port}", f"http://{LOOPBACK}:{peer_port}"
    # fmt: off
    table.start("etcd", [
        str(binary), "--data-dir", str(directory / "etcd"), "--unsafe-no-fsync", "--log-level=warn", "--quota-backend-bytes=4294967296",
        "--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
        "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}",
    ])
    # fmt: on


def _start_apiserver(table: ProcessTable, binary: Path, directory: Path, pki: Pki, etcd_port: int, serving: Serving) -> None:
    policy = directory / "audit-policy.yaml"
    certificate, key = pki.client_files("admin")
    policy.write_text(yaml.safe_dump(AUDIT_POLICY))
    # fmt: off
    table.start("kube-apiserver", [
        str(binary), f"--etcd-servers=http://{LOOPBACK}:{etcd_port}", f"--bind-address={serving.address}",
        f"--advertise-address={serving.address}", f"--secure-port={serving.port}", f"--service-cluster-ip-range={serving.services}",
        # For logs and exec on nodes that run containers.
        f"--kubelet-client-certificate={certificate}", f"--kubelet-client-key={key}", "--kubelet-preferred-address-types=InternalIP",
        # A loopback address may not stand in Endpoints; no pod needs the `kubernetes` service here.
        "--endpoint-reconciler-type=none",
        f"--tls-cert-file={pki.server_certificate}", f"--tls-private-key-file={pki.server_key}", f"--client-ca-file={pki.authority}",
        f"--service-account-key-file={pki.service_account_public}", f"--service-account-signing-key-file={pki.service_account_key}",
        "--service-account-issuer=https://kubernetes.default.svc", "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction,ExtendedResourceToleration", "--profiling=false",
        f"--audit-policy-file={policy}", f"--audit-log-path={audit_path(directory)}", "--audit-log-mode=batch",
        "--audit-log-batch-max-wait=200ms", "--audit-log-batch-max-size=200",
        "--audit-log-maxsize=10000",  # megabytes: rotated, it would not be found again from a position in it
    ])
    # fmt: on


def start_controllers(plane: ControlPlane, binaries: Mapping[str, Path], node_count: int = 0) -> None:
    """Start controller manager and scheduler. Only after the server is ready: before its RBAC rules exist they are refused and back off."""
    directory, table, pki = plane.directory, ProcessTable(plane.directory), Pki(plane.directory / "pki")
    # fmt: off
    table.start("kube-controller-manager", [
        str(binaries["kube-controller-manager"]), f"--kubeconfig={kubeconfig_path(directory, 'controller-manager')}",
        "--leader-elect=false", "--secure-port=0", f"--service-account-private-key-file={pki.service_account_key}",
        f"--root-ca-file={pki.authority}", "--use-service-account-credentials", "--kube-api-qps=500", "--kube-api-burst=1000",
        f"--node-monitor-grace-period={lease_seconds(node_count) + 10}s", f"--node-startup-grace-period={60 + lease_seconds(node_count)}s",
        "--controllers=*,-ttl-controller",  # it would write an annotation on each node, for kubelets that do not exist
    ])
    table.start("kube-scheduler", [
        str(binaries["kube-scheduler"]), f"--kubeconfig={kubeconfig_path(directory, 'scheduler')}", "--leader-elect=false",
        "--secure-port=0", "--kube-api-qps=500", "--kube-api-burst=1000",
    ])
    # fmt: on
