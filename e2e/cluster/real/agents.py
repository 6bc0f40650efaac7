"""Agents on real nodes: the chart's own DaemonSet, Service, rights and token; direct measurements from their pods to compare with."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from e2e.cluster.api import Api, Object
from e2e.cluster.cluster import Cluster, ClusterError
from e2e.cluster.components import ensure_namespace
from e2e.cluster.control_plane import wait_until
from e2e.cluster.operator import ACCOUNT, CHART, NAMESPACE
from e2e.cluster.operator import tool as tool_path
from e2e.cluster.real.ground import CGROUPS
from e2e.cluster.real.images import OPERATOR_PATH
from e2e.cluster.real.machines import DRIVER_PATH
from e2e.cluster.real.node import RealNode

NAME: Final = f"{ACCOUNT}-agent"
METRICS_PORT: Final = 9465
LINKS_PORT: Final = 9466
STRANGER: Final = "stranger"
TEMPLATES: Final = ("agent.yaml", "agent-rbac.yaml", "agent-token.yaml")
_SELECTOR: Final = "app.kubernetes.io/component=agent"
_READY_SECONDS: Final = 60.0
_COMMAND_SECONDS: Final = 60.0
_HTTP_SECONDS: Final = 5.0
_REPOSITORY: Final = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, slots=True)
class AgentPod:
    """The agent of one node."""

    node: RealNode
    uid: str
    address: str

    def metrics(self) -> str:
        """What it serves now; raises OSError."""
        with urllib.request.urlopen(f"http://{self.address}:{METRICS_PORT}/metrics", timeout=_HTTP_SECONDS) as answer:
            text: str = answer.read().decode()
        return text

    def process(self) -> int:
        """Some process in its network; raises ClusterError where it has none."""
        for folder in (CGROUPS / "pids" / self.node.place.link).rglob(f"pod{self.uid}"):
            for file in sorted(folder.rglob("cgroup.procs")):
                for line in file.read_text().split():
                    return int(line)
        raise ClusterError(f"the agent's pod on {self.node.name} has no process")

    def round_trip_seconds(self, other: AgentPod, count: int) -> float:
        """Median of ICMP round trips to another agent's pod, from inside this one's network."""
        enter = ["nsenter", f"--net=/proc/{self.process()}/ns/net"]
        command = [*enter, sys.executable, "-m", "e2e.cluster.real.direct", other.address, str(count)]
        text = _run(command, cwd=_REPOSITORY)
        return statistics.median(map(float, text.split()))


def manifests(cluster: Cluster, values: Object) -> list[Object]:
    """The agents' part of the chart, rendered with the cluster at hand, as `helm install` does: the token that is there stays."""
    version = cluster.api().get("/version")["gitVersion"]
    chart = ["template", ACCOUNT, str(CHART), "--namespace", NAMESPACE, "--kube-version", version, "--values", "-"]
    shown = [part for name in TEMPLATES for part in ("--show-only", f"templates/{name}")]
    text = _run(
        [str(tool_path("helm")), *chart, *shown, "--dry-run=server", "--kubeconfig", str(cluster.kubeconfig)],
        given=yaml.safe_dump(values),
    )
    return [one for one in yaml.safe_load_all(text) if one]


def install(cluster: Cluster, settings: Mapping[str, str] | None = None) -> dict[str, AgentPod]:
    """Agents on every real node, ready, by node; `settings` adds environment. Raises ClusterError or NotReadyError.

    The code is this checkout's, mounted; the image brings the packages.
    """
    driver = {"LD_LIBRARY_PATH": DRIVER_PATH, "HYPERSCALE_AGENT_RETRY_SECONDS": "2", "HYPERSCALE_AGENT_INTERVAL_SECONDS": "2"}
    environment = {"PYTHONPATH": OPERATOR_PATH, **driver, **(settings or {})}
    # No DCGM exporter answers here, and the cluster's DNS knows no other names.
    agent = {"extraEnv": [{"name": name, "value": environment[name]} for name in sorted(environment)], "gpu": {"dcgmUrl": ""}}
    api = cluster.api()
    ensure_namespace(api, NAMESPACE)
    rendered = manifests(cluster, {"agent": agent})
    kubectl = [str(tool_path("kubectl")), "--kubeconfig", str(cluster.kubeconfig)]
    _run([*kubectl, "apply", "--server-side", "--force-conflicts", "-f", "-"], given=yaml.safe_dump_all(rendered))
    nodes = cluster.real_nodes
    wait_until(lambda: set(_ready(api, nodes)) == set(nodes), _READY_SECONDS, "not every real node has a ready agent", 0.25)
    return _ready(api, nodes)


def restart(cluster: Cluster, pod: AgentPod) -> None:
    """Delete an agent's pod; the DaemonSet makes another."""
    api, path = cluster.api(), f"/api/v1/namespaces/{NAMESPACE}/pods"
    for found in api.items(path, labelSelector=_SELECTOR):
        if found["metadata"]["uid"] == pod.uid:
            api.delete(f"{path}/{found['metadata']['name']}")


@contextmanager
def stranger(host: AgentPod, asked: AgentPod, token: Path) -> Iterator[None]:
    """An agent that is none of them, with a token of its own, in the network of one agent's pod; it measures towards another."""
    given = {
        "NODE_NAME": STRANGER,
        "HYPERSCALE_AGENT_GPU": "Never",
        "HYPERSCALE_AGENT_METRICS_PORT": "9475",
        "HYPERSCALE_AGENT_PROBE_PORT": "9476",
        "HYPERSCALE_AGENT_PEERS": f"{asked.node.name}={asked.address}:{LINKS_PORT}",
        "HYPERSCALE_AGENT_TOKEN_FILE": str(token),
    }
    command = ["nsenter", f"--net=/proc/{host.process()}/ns/net", sys.executable, "-m", "hyperscale.agent"]
    process = subprocess.Popen(command, env={**os.environ, **given}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait(_COMMAND_SECONDS)


def refused(text: str, reason: str) -> float:
    """How often an agent refused for that reason, in its exposition text."""
    found = re.search(rf'^hyperscale_link_probe_refused_total{{reason="{reason}"}} (\S+)$', text, re.MULTILINE)
    return float(found.group(1)) if found else 0.0


def _ready(api: Api, nodes: Mapping[str, RealNode]) -> dict[str, AgentPod]:
    found = {}
    for pod in api.items(f"/api/v1/namespaces/{NAMESPACE}/pods", labelSelector=_SELECTOR):
        status, node = pod.get("status", {}), pod["spec"].get("nodeName", "")
        is_ready = any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions", ()))
        if is_ready and "deletionTimestamp" not in pod["metadata"] and node in nodes:
            found[node] = AgentPod(nodes[node], pod["metadata"]["uid"], status["podIP"])
    return found


def figures(text: str, metric: str) -> dict[tuple[str, str], float]:
    """A link metric in an exposition text, by (source, destination)."""
    found = {}
    for labels, value in re.findall(rf"^{metric}{{([^}}]*)}} (\S+)$", text, re.MULTILINE):
        named = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        found[named["source"], named["destination"]] = float(value)
    return found


def _run(command: list[str], given: str | None = None, cwd: Path | None = None) -> str:
    finished = subprocess.run(command, input=given, cwd=cwd, capture_output=True, text=True, timeout=_COMMAND_SECONDS, check=False)
    if finished.returncode != 0:
        raise ClusterError(f"{Path(command[0]).name} {command[1]}: {finished.stderr.strip()[-1000:]}")
    return finished.stdout
