"""One cluster in one directory: up, down, status, and what tests do with it.

The directory holds everything: cluster.json (what was asked for and where things listen), kubeconfig, pki/, logs/, run/, audit.log,
topology.json, the data of etcd and Prometheus. A lock on the directory itself lets one `up` or `down` work on it at a time.
Longer than other modules: the order of starting and of ending is to be read in one place.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from e2e.cluster import audit, components, nodes, prometheus, providers
from e2e.cluster.api import Api, ApiError, access_from
from e2e.cluster.binaries import CLIENTS, REAL_TOOLS, TOOLS, ensure_all
from e2e.cluster.control_plane import Serving, audit_path, kubeconfig_path, wait_until
from e2e.cluster.lock import locked
from e2e.cluster.ports import LOOPBACK, free_ports
from e2e.cluster.processes import ProcessTable
from e2e.cluster.real import ground, machines, slots
from e2e.cluster.real.images import WORKER, NodeImage
from e2e.cluster.real.node import RealNode
from e2e.cluster.topology import DEFAULT_FILE, Topology, load, measured_pairs

DEFAULT_DIRECTORY: Final = Path(__file__).resolve().parents[2] / ".cluster" / "default"
_STATE_FILE: Final = "cluster.json"
_API_PORT: Final = 443
_CONTROL_SECONDS: Final = 5.0
_FIRST_SCRAPE_SECONDS: Final = 30.0
_LINES_PER_GPU: Final = 7
_LINES_PER_LINK: Final = 2


class ClusterError(Exception):
    """The command cannot be done; the message says what to do instead."""


class State(msgspec.Struct, frozen=True):
    """What cluster.json holds."""

    provider: str
    parts: str
    """all or control-plane."""
    topology_digest: str
    ready: bool = False
    exporter_port: int = 0
    prometheus_host: str = LOOPBACK
    """Where real nodes run an address that their pods reach."""
    prometheus_port: int = 0
    nodes: int = 0


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running cluster."""

    directory: Path
    state: State

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return kubeconfig_path(self.directory, "admin")

    @property
    def audit_log(self) -> Path:
        """One JSON object a line; only the local provider writes it."""
        return audit_path(self.directory)

    def position(self) -> int:
        """Where in the audit log a later `requests` begins: everything that was answered before this call lies in front of that place."""
        return audit.caught_up(self.api(), self.audit_log)

    def requests(self, since: int) -> list[audit.Entry]:
        """Every request that was answered since a position of the audit log."""
        return audit.settled(self.api(), self.audit_log, since)

    @property
    def exporter_url(self) -> str:
        """Base address of the exporter."""
        return f"http://{LOOPBACK}:{self.state.exporter_port}"

    @property
    def prometheus_url(self) -> str:
        """Base address of Prometheus."""
        return f"http://{self.state.prometheus_host}:{self.state.prometheus_port}"

    @property
    def processes(self) -> ProcessTable:
        """Everything that runs for this cluster."""
        return ProcessTable(self.directory)

    def api(self, agent: str = "hyperscale-e2e") -> Api:
        """A client as administrator."""
        return Api(access_from(self.kubeconfig), agent)

    def api_as(self, user: str) -> Api:
        """A client with the kubeconfig of a component, or of "operator" once that is installed."""
        return Api(access_from(kubeconfig_path(self.directory, user)), user)

    def set_load(self, node: str, utilization_percent: float) -> None:
        """Work of others on every GPU of a node."""
        self._control("POST", "/load", {"node": node, "utilization": utilization_percent})

    @property
    def topology(self) -> Topology:
        """What runs there."""
        return load(self.directory / "topology.json")

    @property
    def real_nodes(self) -> dict[str, RealNode]:
        """Nodes that run containers, by name."""
        return machines.find(self.directory, self.topology)

    def slow_link(self, source: str, destination: str, factor: float) -> None:
        """Make both directions of a link `factor` times slower."""
        self._control("POST", "/links", {"source": source, "destination": destination, "factor": factor, "bothWays": True})

    def set_fault(self, node: str, **fault: str | int) -> None:
        """A fault in a node's figures: fault="nan"|"infinite"|"negative"|"absent" with metric=, or xid=."""
        self._control("POST", "/faults", {"node": node, **fault})

    def reset_exporter(self) -> None:
        """Take back all wishes."""
        self._control("DELETE", "/", None)

    def _control(self, method: str, path: str, body: dict[str, Any] | None) -> None:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.exporter_url + path, data, method=method)  # noqa: S310 (a loopback address of ours)
        try:
            with urllib.request.urlopen(request, timeout=_CONTROL_SECONDS):  # noqa: S310
                return
        except urllib.error.HTTPError as error:
            with error:
                raise ClusterError(f"{method} {path}: {error.read().decode(errors='replace')}") from error

    def stop_prometheus(self) -> None:
        """End Prometheus; its data stays."""
        self.processes.stop(prometheus.NAME)

    def start_prometheus(self) -> None:
        """Start it again where it does not run, on the same port, and wait for figures; those from before a stop do not count."""
        since = 0.0
        if self.processes.identity(prometheus.NAME) is None:
            since = time.time()
            prometheus.start(self.directory, self.state.prometheus_host, self.state.prometheus_port)
        self.wait_scraped(since)

    def wait_scraped(self, since: float = 0.0) -> None:
        """Until Prometheus has the exporter's figures, all of them read after `since` (Unix seconds)."""
        seconds = _FIRST_SCRAPE_SECONDS + 2 * prometheus.scrape_seconds(_lines(self.state.nodes))
        wait_until(lambda: prometheus.has_scraped(self.prometheus_url, since), seconds, "Prometheus has no figures of the exporter")

    def faults(self) -> list[str]:
        """What is wrong with the cluster, one line each; empty when it is healthy."""
        if not self.state.ready:
            return ["`up` did not finish"]
        table = self.processes
        wrong = [f"{name} is not running" for name in table.names() if table.identity(name) is None and not name.startswith("operator")]
        try:
            answers = self.api().healthy()
        except (ApiError, OSError) as error:
            return [*wrong, str(error)]
        return wrong if answers else [*wrong, "the API server does not answer /readyz"]


def up(
    directory: Path,
    provider: str = "auto",
    parts: str = "all",
    topology: Topology | None = None,
    node_images: Sequence[NodeImage] = (WORKER,),
) -> Cluster:
    """A healthy cluster in `directory`: the one that runs there, else a new one, of the default topology when none is given.

    node_images: what a new cluster's real nodes have before they are Ready
    Raises ClusterError when a healthy cluster of another kind runs there; ProviderError, ProcessError, NotReadyError,
    PrometheusMissingError and BuildError when a part cannot be had.
    """
    directory = directory.resolve()
    digest = _digest(topology) if topology and parts == "all" else ""
    with locked(directory):
        running = _running(directory, parts, digest)
        if running is not None:
            return running
        _clear_remains(directory)
        if parts == "all":
            topology = topology or load(DEFAULT_FILE)
            digest = _digest(topology)
        state = State(providers.choose(provider, os.environ), parts, digest, nodes=len(topology.nodes) if topology else 0)
        if topology is not None and topology.real:
            _check_real(state.provider, topology)
        _write(directory, state)
        return _start(directory, state, topology if parts == "all" else None, node_images)


def _running(directory: Path, parts: str, digest: str) -> Cluster | None:
    """The healthy cluster of a directory; digest: of the topology that it must have, "" for any. ClusterError for another kind."""
    recorded = _read(directory)
    if recorded is None or recorded.faults():
        return None
    if recorded.state.parts != parts or (digest and recorded.state.topology_digest != digest):
        raise ClusterError(f"another kind of cluster runs in {directory}: run `down` first, or name another --directory")
    return recorded


def _clear_remains(directory: Path) -> None:
    """Clear a directory with anything in it.

    One that was deleted while its cluster ran leaves network and containers of real nodes behind, under its slot.
    """
    if any(directory.iterdir()) or slots.held(directory) is not None:
        _clear(directory)


def down(directory: Path) -> bool:
    """End everything that runs for the directory and remove it; False when there is none. Raises ClusterError for a foreign directory."""
    directory = directory.resolve()
    if not directory.is_dir():
        machines.stop(directory)
        ProcessTable(directory).stop_all()
        return False
    with locked(directory):
        _clear(directory)
        shutil.rmtree(directory)
    if directory.parent.name == ".cluster":
        with contextlib.suppress(OSError):
            directory.parent.rmdir()
    return True


def find(directory: Path) -> Cluster | None:
    """The cluster recorded in a directory, healthy or not."""
    return _read(directory.resolve())


def say(message: str) -> None:
    """One line of progress on stderr."""
    print(f"{time.strftime('%H:%M:%S')} {message}", file=sys.stderr, flush=True)


def _check_real(provider: str, topology: Topology) -> None:
    """Raises ClusterError or GroundError where real nodes cannot be had."""
    if provider != "local":
        raise ClusterError(f"real nodes need --provider local, not {provider}")
    if len(topology.real) > slots.MAX_NODES:
        raise ClusterError(f"at most {slots.MAX_NODES} nodes may be real, the topology has {len(topology.real)}")
    ground.ensure()


def _start(directory: Path, state: State, topology: Topology | None, node_images: Sequence[NodeImage]) -> Cluster:
    has_real = topology is not None and bool(topology.real)
    servers = [tool for tool in (*TOOLS, *(REAL_TOOLS if has_real else ())) if tool not in CLIENTS]
    binaries = ensure_all(servers)
    serving = _serving(directory, topology) if topology is not None and topology.real else None
    if topology is not None:
        state = _start_prometheus(directory, state, topology, LOOPBACK if serving is None else serving.address)
    say(f"starting the control plane ({state.provider})")
    provided = providers.start(state.provider, directory, binaries, len(topology.nodes) if topology else None, serving)
    if topology is not None:
        _start_components(Cluster(directory, state), provided, binaries, topology, node_images)
    state = msgspec.structs.replace(state, ready=True)
    _write(directory, state)
    return Cluster(directory, state)


def _serving(directory: Path, topology: Topology) -> Serving:
    """An address that real nodes reach, which has to be there before the server."""
    slot = slots.take(directory)
    machines.lay_network(slot, topology)
    return Serving(slot.server, _API_PORT, slot.services, machines.clients(topology))


def _start_prometheus(directory: Path, state: State, topology: Topology, host: str) -> State:
    """First of all processes, because it takes its targets up only five seconds after its start."""
    prometheus.executable()
    exporter_port, prometheus_port = free_ports(2)
    state = msgspec.structs.replace(state, exporter_port=exporter_port, prometheus_host=host, prometheus_port=prometheus_port)
    _write(directory, state)
    lines = sum(map(topology.gpus_of, topology.nodes)) * _LINES_PER_GPU + len(measured_pairs(topology)) * _LINES_PER_LINK
    prometheus.write_configuration(directory, exporter_port, prometheus.scrape_seconds(lines), has_pods=bool(topology.real))
    prometheus.start(directory, host, prometheus_port)
    return state


def _start_components(
    cluster: Cluster, provided: providers.Provided, binaries: dict[str, Path], topology: Topology, node_images: Sequence[NodeImage]
) -> None:
    directory, table, api = cluster.directory, cluster.processes, cluster.api()
    say(f"starting {len(topology.nodes)} nodes, the MPI Operator, the exporter and Prometheus")
    topology_file = directory / "topology.json"
    topology_file.write_bytes(msgspec.json.encode(topology))
    components.start_exporter(table, topology_file, provided.component_kubeconfig("exporter"), cluster.state.exporter_port)
    components.start_kwok(table, binaries["kwok"], provided.component_kubeconfig("kwok"), len(topology.nodes))
    components.install_mpi_operator(api, binaries)
    (health_port,) = free_ports(1)
    components.start_mpi_operator(table, binaries["mpi-operator"], provided.component_kubeconfig("mpi-operator"), health_port)
    nodes.create(api, topology)
    slot = slots.held(directory)
    if slot is not None:
        say(f"starting {len(topology.real)} nodes that run containers")
        machines.start(directory, slot, api, topology, binaries, node_images)
    components.wait_http(table, "exporter", cluster.exporter_url + "/healthz")
    nodes.wait_ready(api, len(topology.nodes))
    components.wait_mpi_operator(table, api)
    cluster.wait_scraped()


def _lines(node_count: int) -> int:
    """A rough count of exposition lines, for patience only."""
    return node_count * 8 * _LINES_PER_GPU


def _clear(directory: Path) -> None:
    """End the processes of a directory and empty it; refuses a directory that is not ours."""
    recorded = _read(directory)
    if recorded is None and any(directory.iterdir()) and not (directory / "run").is_dir():
        raise ClusterError(f"{directory} holds other files: name an empty or new --directory")
    table = ProcessTable(directory)
    for name in (*(name for name in table.names() if name.startswith("operator")), prometheus.NAME, "exporter"):
        table.stop(name)
    if recorded is not None and recorded.state.provider == "existing":
        with contextlib.suppress(ApiError, OSError):
            nodes.remove(recorded.api())
    machines.stop(directory)
    table.stop_all()
    if recorded is not None:
        providers.stop(recorded.state.provider, directory)
    _empty(directory)


def _empty(directory: Path) -> None:
    """Delete what a directory holds; a link itself, not what it leads to."""
    for entry in directory.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _digest(topology: Topology) -> str:
    return hashlib.sha256(msgspec.json.encode(topology, order="deterministic")).hexdigest()[:16]


def _read(directory: Path) -> Cluster | None:
    try:
        return Cluster(directory, msgspec.json.decode((directory / _STATE_FILE).read_bytes(), type=State))
    except (OSError, msgspec.MsgspecError):
        return None


def _write(directory: Path, state: State) -> None:
    unfinished = directory / f".{_STATE_FILE}"
    unfinished.write_bytes(msgspec.json.encode(state))
    unfinished.rename(directory / _STATE_FILE)


def interrupted_cleanly() -> None:
    """Let SIGTERM end `up` like Ctrl-C, so that it can say how to clean up."""
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))
