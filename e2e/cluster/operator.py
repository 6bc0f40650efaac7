"""The operator on the local cluster: the chart's CRDs, roles and service account, and a local process under that account's token."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from e2e.cluster.api import Api, ApiError
from e2e.cluster.binaries import CLIENTS, ensure
from e2e.cluster.cluster import Cluster, ClusterError
from e2e.cluster.components import ensure_namespace, http_ok, wait_established
from e2e.cluster.control_plane import wait_until
from e2e.cluster.ports import LOOPBACK, free_ports
from e2e.cluster.processes import ProcessTable

NAMESPACE: Final = "hyperscale-system"
ACCOUNT: Final = "hyperscale"
USER: Final = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
"""The operator in the audit log."""
CHART: Final = Path(__file__).resolve().parents[2] / "charts" / "hyperscale"
KUBECONFIG_NAME: Final = "operator"
KILLED_OPERATOR: Final = Path(__file__).with_name("killed_operator.py")
KILLED_LINE: Final = "killed at milestone"
"""In its log when it kills itself."""
KILL_AT: Final = "KILL_OPERATOR_AT"
"""Variable that names the milestone at which that operator kills itself."""
INSTALLED_KINDS: Final = frozenset(
    {"CustomResourceDefinition", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
)
"""What a local process needs of the chart; its Deployment, Service and NetworkPolicy stay out."""
_TOKEN_SECONDS: Final = 7 * 24 * 3600
_COMMAND_SECONDS: Final = 60.0
_READY_SECONDS: Final = 90.0
_STOP_SECONDS: Final = 10.0
_HTTP_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class OperatorProcess:
    """A started operator; several may run for one cluster under different names."""

    table: ProcessTable
    name: str
    health_port: int
    metrics_port: int
    log_start_bytes: int = 0
    """What earlier operators of that name had written when this one started."""

    @property
    def log(self) -> Path:
        """What it wrote."""
        return self.table.log(self.name)

    @property
    def pid(self) -> int | None:
        """None when it has ended."""
        found = self.table.identity(self.name)
        return None if found is None else found.pid

    def require(self) -> None:
        """Raises ProcessError with the end of its log when it has ended."""
        self.table.require(self.name)

    def tail(self, lines: int) -> str:
        """The last lines of its log, for messages."""
        return self.table.tail(self.name, lines)

    def wait_ready(self, seconds: float = _READY_SECONDS) -> None:
        """Until /readyz answers 200; raises ProcessError when it ends instead, NotReadyError when it takes too long."""

        def ready() -> bool:
            self.table.require(self.name)
            return http_ok(f"http://{LOOPBACK}:{self.health_port}/readyz")

        wait_until(ready, seconds, f"the operator is not ready: see {self.log}")

    def wait_ended(self, seconds: float = _STOP_SECONDS) -> None:
        """Until it has ended on its own."""
        wait_until(lambda: self.pid is None, seconds, f"the operator still runs: see {self.log}")

    def wait_killed(self, seconds: float = _STOP_SECONDS) -> None:
        """Until it has killed itself at its milestone; raises AssertionError where it ended otherwise."""
        self.wait_ended(seconds)
        if KILLED_LINE not in self.log.read_bytes()[self.log_start_bytes :].decode(errors="replace"):
            raise AssertionError(f"the operator ended before its milestone: see {self.log}")

    def metrics(self) -> str:
        """Its own metrics; raises OSError when it does not answer."""
        with urllib.request.urlopen(f"http://{LOOPBACK}:{self.metrics_port}/metrics", timeout=_HTTP_SECONDS) as response:
            text: str = response.read().decode()
        return text

    def stop(self) -> None:
        """SIGTERM, as Kubernetes ends a pod; SIGKILL after ten seconds."""
        self.table.stop(self.name, signal.SIGTERM, _STOP_SECONDS)

    def kill(self) -> None:
        """SIGKILL, as a lost node ends it."""
        self.table.stop(self.name, signal.SIGKILL)


def install(cluster: Cluster) -> Path:
    """Apply the chart's CRDs, roles and service account and write a kubeconfig with that account's token; its path.

    May be called again after the chart changed. Raises ClusterError when helm or the server refuses.
    """
    api = cluster.api()
    ensure_namespace(api, NAMESPACE)
    version = api.get("/version")["gitVersion"]
    manifests = [text for text in split_manifests(_helm_template(version)) if kind_of(text) in INSTALLED_KINDS]
    kubectl = str(tool("kubectl"))
    apply = [kubectl, "--kubeconfig", str(cluster.kubeconfig), "apply", "--server-side", "--force-conflicts", "-f", "-"]
    _run(apply, "\n---\n".join(manifests))
    for text in manifests:
        if kind_of(text) == "CustomResourceDefinition":
            name = re.search(r"^  name: (\S+)$", text, re.MULTILINE)
            if name:
                wait_established(api, f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name.group(1)}")
    return _write_kubeconfig(cluster, api)


def start_operator(
    cluster: Cluster, environment: Mapping[str, str] | None = None, name: str = "operator", wait: bool = True
) -> OperatorProcess:
    """Start the operator on free ports under the account's token; `environment` adds or overrides variables.

    Without `wait` it returns at once: a standby without the Lease, or one with KILL_AT. Raises ProcessError or NotReadyError.
    """
    health_port, metrics_port = free_ports(2)
    variables = {
        "KUBECONFIG": str(operator_kubeconfig(cluster)),
        "HYPERSCALE_NAMESPACE": NAMESPACE,
        "HYPERSCALE_IDENTITY": name,  # as the chart gives the pod's name: a restart takes its own Lease up again at once
        "HYPERSCALE_PROMETHEUS_URL": cluster.prometheus_url,
        "HYPERSCALE_HEALTH_PORT": str(health_port),
        "HYPERSCALE_METRICS_PORT": str(metrics_port),
        "HYPERSCALE_METRICS_POLL_SECONDS": "2",
        "HYPERSCALE_PROGRESS_POLL_SECONDS": "2",
        "PYTHONUNBUFFERED": "1",
        **(environment or {}),
    }
    log = cluster.processes.log(name)
    log_start_bytes = log.stat().st_size if log.exists() else 0
    process = OperatorProcess(cluster.processes, name, health_port, metrics_port, log_start_bytes)
    cluster.processes.stop(name)
    cluster.processes.start(name, operator_command(variables), variables)
    if wait:
        process.wait_ready()
    return process


def operator_command(environment: Mapping[str, str]) -> list[str]:
    """Return the command that starts the operator; with KILL_AT in its environment the operator of `killed_operator.py`."""
    return [sys.executable, "-P", str(KILLED_OPERATOR)] if KILL_AT in environment else [sys.executable, "-m", "hyperscale"]


def operator_kubeconfig(cluster: Cluster) -> Path:
    """Where `install` writes it."""
    return cluster.directory / "kubeconfigs" / KUBECONFIG_NAME


def split_manifests(text: str) -> list[str]:
    """The documents of a YAML stream, without parsing them: CRDs are long."""
    return [part for part in re.split(r"^---[^\n]*\n", text, flags=re.MULTILINE) if kind_of(part)]


def kind_of(manifest: str) -> str:
    """The kind of a document in block style; empty when it has none."""
    found = re.search(r"^kind: (\w+)\s*$", manifest, re.MULTILINE)
    return found.group(1) if found else ""


def _helm_template(kubernetes_version: str) -> str:
    command = [str(tool("helm")), "template", ACCOUNT, str(CHART), "--namespace", NAMESPACE, "--kube-version", kubernetes_version]
    return _run(command)


def _write_kubeconfig(cluster: Cluster, api: Api) -> Path:
    """The administrator's kubeconfig with the account's token in place of the user."""
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": _TOKEN_SECONDS}}
    try:
        token = api.create(path, request)["status"]["token"]
    except ApiError as error:
        raise ClusterError(f"no token for the service account {ACCOUNT}: {error}") from error
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    context = next(entry["context"] for entry in config["contexts"] if entry["name"] == config["current-context"])
    config["users"] = [{"name": context["user"], "user": {"token": token}}]
    target = operator_kubeconfig(cluster)
    target.parent.mkdir(exist_ok=True)
    target.touch(mode=0o600)
    target.write_text(yaml.safe_dump(config))
    return target


def tool(name: str) -> Path:
    """Path of a program that people run against the local cluster."""
    return next(ensure(tool) for tool in CLIENTS if tool.name == name) / name


def _run(command: list[str], given: str | None = None) -> str:
    finished = subprocess.run(command, input=given, capture_output=True, text=True, timeout=_COMMAND_SECONDS, check=False)
    if finished.returncode != 0:
        raise ClusterError(f"{Path(command[0]).name} {command[1]}: {finished.stderr.strip()[-1000:]}")
    return finished.stdout
