"""HyperScale as users install it, on real nodes of a local cluster: images, the MPI Operator's manifest, the chart by Helm."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Final

from e2e.cluster import cluster, gobuild
from e2e.cluster.api import ApiError, Object
from e2e.cluster.binaries import CLIENTS, TOOLS_DIRECTORY, ensure_all
from e2e.cluster.cluster import Cluster, ClusterError
from e2e.cluster.control_plane import NotReadyError, wait_until
from e2e.cluster.operator import ACCOUNT, NAMESPACE
from e2e.cluster.ports import LOOPBACK
from e2e.cluster.processes import ProcessError
from e2e.cluster.real.images import AGENT, DEMO, OPERATOR, NodeImage, ensure, write_program
from e2e.cluster.real.machines import REAL_LABEL

ROOT: Final = Path(__file__).resolve().parents[1]
MPI_MODULE: Final = "github.com/kubeflow/mpi-operator"
MPI_IMAGE: Final = "docker.io/mpioperator/mpi-operator:0.8.2"
"""What its manifest names."""
POLL_SECONDS: Final = 2
"""Of metrics, progress and the ClusterTopology, so that a run of seconds is seen."""
ROLLOUT_SECONDS: Final = 120
ON_REAL_NODES: Final = json.dumps({"spec": {"template": {"spec": {"nodeSelector": {REAL_LABEL: "true"}}}}})
"""Simulated nodes report pods as running that nothing runs."""
TOPOLOGY: Final = "/apis/hyperscale.dev/v1alpha1/clustertopologies/default"
_COMMAND_SECONDS: Final = 300.0
_MEASURED_SECONDS: Final = 120.0


class CommandError(Exception):
    """A command did not do what it says; the message has its last words."""


@dataclass(frozen=True, slots=True)
class OperatorPod:
    """The operator as the chart's Deployment."""

    cluster: Cluster

    @property
    def log(self) -> str:
        """How a person reads it."""
        return f"kubectl -n {NAMESPACE} logs deployment/{ACCOUNT}"

    def require(self) -> None:
        """Raises ProcessError with the end of the log where its container does not run."""
        states = [one.get("state", {}) for pod in self._pods() for one in pod.get("status", {}).get("containerStatuses", ())]
        if not any("running" in state for state in states):
            raise ProcessError(f"the operator's pod does not run: {states}\n{self.tail(8)}")

    def tail(self, lines: int) -> str:
        """The last lines of its log, for messages."""
        for pod in self._pods():
            try:
                path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}/log"
                return "\n".join(self.cluster.api().text(path).splitlines()[-lines:])
            except ApiError as error:
                return f"(no log: {error})"
        return "(no pod)"

    def _pods(self) -> list[Object]:
        return self.cluster.api().items(f"/api/v1/namespaces/{NAMESPACE}/pods", labelSelector="app.kubernetes.io/component=operator")


def shell(here: Cluster, line: str, accepted: Sequence[int] = (0,)) -> str:
    """The output of a command line as a user with the administrator's kubeconfig runs it; raises CommandError."""
    tools = {str(path.parent) for path in ensure_all(CLIENTS).values()}
    path = os.pathsep.join([*sorted(tools), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "KUBECONFIG": str(here.kubeconfig)}
    bash = ["/bin/bash", "-euc", line]
    try:
        finished = subprocess.run(bash, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=_COMMAND_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise CommandError(f"{line}: did not end in {_COMMAND_SECONDS:.0f} s\n{pods(here)}") from error
    if finished.returncode not in accepted:
        raise CommandError(f"{line}: exit code {finished.returncode}\n{finished.stderr[-2000:]}\n{pods(here)}")
    return finished.stdout


def pods(here: Cluster) -> str:
    """Every pod with its state, and the last warnings, for a message."""
    lines = []
    for pod in here.api().items("/api/v1/pods"):
        states = [one.get("state", {}) for one in pod.get("status", {}).get("containerStatuses", ())]
        lines.append(f"{pod['metadata']['namespace']}/{pod['metadata']['name']} {pod['status'].get('phase')} {states}")
    events = [one for one in here.api().items("/api/v1/events") if one.get("type") == "Warning"]
    return "\n".join([*lines, *(f"{one.get('reason')}: {one.get('message')}" for one in events[-10:])])


def give_images(here: Cluster, images: Sequence[NodeImage]) -> None:
    """Import the images that a node lacks; makes those that were not made before."""
    archives = dict(zip(images, ensure(*images), strict=True))
    for node in here.real_nodes.values():
        for image, archive in archives.items():
            if not node.has_image(image.reference):
                node.import_image(archive)


def install_mpi_operator(here: Cluster) -> Path:
    """Run the MPI Operator by the pinned release's own manifest; return its program, which ran as a process until now and is its image."""
    here.processes.stop("mpi-operator")
    program = ensure_all()["mpi-operator"]
    with tempfile.TemporaryDirectory(prefix="hyperscale-mpi-operator-") as scratch:
        archive = Path(scratch) / "mpi-operator.tar"
        write_program(archive, program, MPI_IMAGE)
        for node in here.real_nodes.values():
            if not node.has_image(MPI_IMAGE):
                node.import_image(archive)
    manifest = gobuild.module_directory(TOOLS_DIRECTORY / "cluster", MPI_MODULE) / "deploy" / "v2beta1" / "mpi-operator.yaml"
    shell(here, f"kubectl apply --server-side --force-conflicts -f {manifest}")
    if len(here.real_nodes) < here.state.nodes:
        shell(here, f"kubectl -n mpi-operator patch deployment mpi-operator -p {shlex.quote(ON_REAL_NODES)}")
    shell(here, f"kubectl -n mpi-operator rollout status deployment/mpi-operator --timeout={ROLLOUT_SECONDS}s")
    return program


def helm_command(values: Mapping[str, object]) -> str:
    """`helm upgrade --install` of the chart with these values; a text stays one where it looks like a number or a truth."""
    given = " ".join(f"--set{'-string' * isinstance(value, str)} {shlex.quote(f'{key}={value}')}" for key, value in values.items())
    return f"helm upgrade --install {ACCOUNT} charts/hyperscale --namespace {NAMESPACE} --create-namespace --take-ownership {given}"


def values(here: Cluster) -> dict[str, object]:
    """What the demo sets: this checkout's images, this cluster's Prometheus, all pods on real nodes, whose GPUs the exporter reports."""
    if here.state.prometheus_host == LOOPBACK:
        raise ClusterError("pods do not reach this cluster's Prometheus: run `make cluster-down` first")
    label = REAL_LABEL.replace(".", "\\.")
    return {
        "nodeSelector." + label: "true",
        "image.tag": OPERATOR.digest,
        "agent.image.tag": AGENT.digest,
        "agent.gpu.mode": "Never",
        "agent.nodeSelector." + label: "true",
        "prometheus.url": here.prometheus_url,
        "settings.metricsPollSeconds": POLL_SECONDS,
        "settings.progressPollSeconds": POLL_SECONDS,
        "settings.topologySeconds": POLL_SECONDS,
    }


def install(here: Cluster) -> OperatorPod:
    """Everything as pods of the real nodes, ready, with every link between them measured; prints the commands of a user.

    Raises CommandError, ClusterError, NotReadyError, or what making the images raises.
    """
    here.processes.stop("operator")
    given = values(here)
    give_images(here, DEMO)
    cluster.say("the MPI Operator as a pod")
    install_mpi_operator(here)
    for line in (helm_command(given), f"kubectl -n {NAMESPACE} rollout status deployment/{ACCOUNT} --timeout={ROLLOUT_SECONDS}s"):
        print(f"\n$ {line}", flush=True)
        print(shell(here, line).partition("\nNOTES:")[0].rstrip(), flush=True)
    wait_measured(here)
    return OperatorPod(here)


def wait_measured(here: Cluster) -> None:
    """Until the operator has read latency and bandwidth of every link between real nodes, as its ClusterTopology says."""
    wanted = set(permutations(here.real_nodes, 2))

    def measured() -> bool:
        links = ((here.api().find(TOPOLOGY) or {}).get("status") or {}).get("links", ())
        whole = [link for link in links if {"latencySeconds", "bandwidthBytesPerSecond"} <= link.keys()]
        return wanted <= {(link["source"], link["destination"]) for link in whole}

    cluster.say(f"agents measure {len(wanted)} links")
    try:
        wait_until(measured, _MEASURED_SECONDS, "the operator does not have every link measured", 0.5)
    except NotReadyError as error:
        raise NotReadyError(f"{error}\n{pods(here)}") from error
