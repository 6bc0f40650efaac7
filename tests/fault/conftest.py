"""A real API server with simulated nodes, a proxy that fails on request before it, and operators as processes behind that proxy.

Neither scheduler nor garbage collector nor MPI Operator runs here: tests play their part where it matters.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.cluster import cluster as clusters
from e2e.cluster import components, nodes
from e2e.cluster.api import Api, access_from
from e2e.cluster.binaries import ensure_all
from e2e.cluster.cluster import Cluster
from e2e.cluster.operator import KILL_AT, install
from e2e.cluster.pki import Pki
from e2e.cluster.topology import DEFAULT_FILE, load
from e2e.jobs import Job, namespace
from tests.fault.process import LEASE, OperatorProcess, running
from tests.fault.prometheus_stub import PrometheusStub
from tests.fault.proxy import FaultProxy
from tests.fault.watching import wait_watching

POLICY = "/apis/hyperscale.dev/v1alpha1/plannerpolicies/default"
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Stage:
    """Where a test plays."""

    cluster: Cluster
    api: Api
    """The administrator's, past the proxy."""
    proxy: FaultProxy
    directory: Path
    kubeconfig: Path
    """The operator's, through the proxy."""

    def operator(self, wrapper: Sequence[str] = (), kill_at: str = "", **settings: object) -> OperatorProcess:
        """A new operator process, which kills itself at the milestone `kill_at`; `settings` are fields of Settings."""
        environment = {f"HYPERSCALE_{name.upper()}": str(value) for name, value in settings.items()}
        environment |= {KILL_AT: kill_at} if kill_at else {}
        return OperatorProcess(self.directory, self.kubeconfig, environment, wrapper, name=str(next(_numbers)))

    @contextmanager
    def watching(self, **settings: object) -> Iterator[OperatorProcess]:
        """A new operator through a proxy that does no harm yet, once it is ready and watches everything."""
        self.proxy.reset()
        since = len(self.proxy.asked)
        with running(self.operator(**settings), self.api) as process:  # type: ignore[arg-type] # no setting is called wrapper
            process.wait_ready()
            wait_watching(self.proxy, since)
            yield process

    def write_policy(self, **spec: object) -> None:
        """The default PlannerPolicy."""
        body = {"apiVersion": "hyperscale.dev/v1alpha1", "kind": "PlannerPolicy", "metadata": {"name": "default"}, "spec": spec}
        self.api.apply(POLICY, body)

    def lease_holder(self) -> str:
        """Who holds the Lease; "" for no holder."""
        found = self.api.find(LEASE)
        return str((found or {}).get("spec", {}).get("holderIdentity") or "")


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The API server with CRDs, the chart's roles and twelve GPU nodes."""
    directory = tmp_path_factory.mktemp("fault")
    with ExitStack() as closing:
        closing.callback(clusters.down, directory / "cluster")
        cluster = clusters.up(directory / "cluster", provider="local", parts="control-plane")
        api = cluster.api()
        closing.callback(api.close)
        components.install_mpi_operator(api, ensure_all())
        kubeconfig = install(cluster)
        topology = load(DEFAULT_FILE)
        nodes.create(api, topology)
        for machine in topology.nodes:  # the taint of every new node, which a controller would take away
            api.patch(f"/api/v1/nodes/{machine.name}", {"spec": {"taints": None}})
        proxy = closing.enter_context(FaultProxy(access_from(kubeconfig)))
        yield Stage(cluster, api, proxy, directory, proxy.kubeconfig(kubeconfig, directory / "kubeconfig"))


@pytest.fixture
def proxy(stage: Stage) -> Iterator[FaultProxy]:
    """The proxy, without faults before and after."""
    stage.proxy.reset()
    yield stage.proxy
    stage.proxy.reset()


@pytest.fixture
def space(stage: Stage) -> Iterator[str]:
    """A namespace of one test, with the service account that every pod needs."""
    with namespace(stage.api, f"fault-{next(_numbers)}") as name:
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        stage.api.apply(f"/api/v1/namespaces/{name}/serviceaccounts/default", account)
        yield name


@pytest.fixture
def job(stage: Stage, space: str) -> Job:
    """A job that is not created yet."""
    return Job(stage.api, space, "cora")


@pytest.fixture
def operate(stage: Stage) -> Iterator[Callable[..., OperatorProcess]]:
    """Starts an operator that begins where the one before has ended; none is left afterwards.

    All have one identity, as in a pod that restarts its container: the Lease is its own.
    """
    processes: list[OperatorProcess] = []

    def start(kill_at: str = "") -> OperatorProcess:
        for process in processes:
            process.destroy()
        processes.append(stage.operator(identity="hyperscale-0", kill_at=kill_at))
        if kill_at:
            processes[-1].wait_ready_or_ended()
        else:
            processes[-1].wait_ready()
        return processes[-1]

    yield start
    for process in processes:
        process.destroy()
    stage.api.delete(LEASE)


@pytest.fixture(scope="module")
def operator(stage: Stage) -> Iterator[OperatorProcess]:
    """A ready operator for all tests of a module; it relists rarely, so that the watches must do."""
    stage.proxy.reset()
    with running(stage.operator(), stage.api) as process:
        process.wait_ready()
        yield process


@pytest.fixture
def policy(stage: Stage) -> Iterator[Callable[..., None]]:
    """Writes the default PlannerPolicy; it is gone after the test."""
    yield stage.write_policy
    stage.api.delete(POLICY)


@pytest.fixture(scope="session")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> tuple[Pki, Pki]:
    """Two private authorities with a certificate of 127.0.0.1 each."""
    folder = tmp_path_factory.mktemp("pki")
    made = (Pki(folder / "one"), Pki(folder / "two"))
    for pki in made:
        pki.create({})
    return made


@pytest.fixture(scope="module")
def prometheus() -> Iterator[PrometheusStub]:
    """Where Prometheus should be."""
    with PrometheusStub() as stub:
        yield stub
