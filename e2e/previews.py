"""What the chart makes around previews, for an operator that is a process of this machine; and the accounts of people who read them."""

from __future__ import annotations

import base64
import contextlib
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from e2e.cluster.api import Api, Object
from e2e.cluster.operator import NAMESPACE
from e2e.cluster.ports import free_ports

NAME: Final = "hyperscale-preview"
"""Of Service and Secret, as the chart calls them."""
KEY: Final = "a key that is long enough for a test"
READER: Final = f"{NAME}-reader"
"""The chart's Role for people."""
OWN_ADDRESS: Final = "192.0.2.77"
"""Given to the loopback device where the machine has none of its own: the API server is a proxy for no loopback address."""


@dataclass(frozen=True)
class Previews:
    """Where previews are served."""

    port: int
    key_file: Path

    @property
    def settings(self) -> dict[str, str]:
        """Fields of the operator's Settings."""
        return {
            "preview_port": str(self.port),
            "preview_key_file": str(self.key_file),
            "preview_service": NAME,
            "preview_secret": NAME,
        }


@contextlib.contextmanager
def served(api: Api, folder: Path) -> Iterator[Previews]:
    """Everything but the operator."""
    with _address() as address:
        (port,) = free_ports(1)
        key_file = folder / "preview-key"
        key_file.write_text(KEY)
        below = f"/api/v1/namespaces/{NAMESPACE}"
        ports = [{"name": "preview", "port": port}]
        metadata = {"name": NAME, "namespace": NAMESPACE}
        api.apply(f"{below}/services/{NAME}", {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": ports}})
        # The API server is a proxy for addresses of pods only: one that stands for the operator's process.
        pod = f"{below}/pods/{NAME}"
        spec = {"containers": [{"name": "operator", "image": "none"}], "schedulingGates": [{"name": "hyperscale.dev/never"}]}
        api.apply(f"{below}/serviceaccounts/default", {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}})
        api.apply(pod, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        api.patch(f"{pod}/status", {"status": {"podIP": address, "podIPs": [{"ip": address}]}})
        backed = {"ip": address, "targetRef": {"kind": "Pod", "name": NAME, "namespace": NAMESPACE}}
        subsets = [{"addresses": [backed], "ports": ports}]
        api.apply(f"{below}/endpoints/{NAME}", {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": subsets})
        data = {"key": base64.b64encode(KEY.encode()).decode()}
        api.apply(f"{below}/secrets/{NAME}", {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})
        yield Previews(port, key_file)
        for kind in ("services", "secrets", "endpoints"):
            api.delete(f"{below}/{kind}/{NAME}")
        api.delete(pod, gracePeriodSeconds="0")


def account(api: Api, administrator: Path, folder: Path, namespace: str, name: str, *roles: tuple[str, str, str]) -> str:
    """A kubeconfig of a service account with these roles, each (kind, name, namespace of the binding or "" for all)."""
    api.apply(
        f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}",
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}},
    )
    for number, (kind, role, where) in enumerate(roles):
        bound = f"{namespace}-{name}-{number}"
        scope = f"namespaces/{where}/rolebindings" if where else "clusterrolebindings"
        body: Object = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding" if where else "ClusterRoleBinding",
            "metadata": {"name": bound, **({"namespace": where} if where else {})},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        }
        api.apply(f"/apis/rbac.authorization.k8s.io/v1/{scope}/{bound}", body)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    token = api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", request)["status"]["token"]
    config = yaml.safe_load(administrator.read_text())
    context = next(entry["context"] for entry in config["contexts"] if entry["name"] == config["current-context"])
    context["namespace"] = namespace
    config["users"] = [{"name": context["user"], "user": {"token": token}}]
    path = folder / f"{namespace}-{name}.kubeconfig"
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config))
    return str(path)


@contextlib.contextmanager
def _address() -> Iterator[str]:
    """An address of this machine that is no loopback address; nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, contextlib.suppress(OSError):
        probe.connect(("192.0.2.1", 9))
        own = str(probe.getsockname()[0])
        if not own.startswith("127."):
            yield own
            return
    command = ["ip", "address", "{}", f"{OWN_ADDRESS}/32", "dev", "lo"]
    subprocess.run([part.format("add") for part in command], check=True)
    try:
        yield OWN_ADDRESS
    finally:
        subprocess.run([part.format("delete") for part in command], check=True)
