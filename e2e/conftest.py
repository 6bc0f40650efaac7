"""Fixtures of the scenarios: one cluster for the whole run, the operator on it, and a clean exporter for every test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.cluster import cluster as clusters
from e2e.cluster.cluster import Cluster
from e2e.cluster.operator import OperatorProcess, install, start_operator
from e2e.cluster.processes import identity_of
from e2e.cluster.real import ground
from e2e.cluster.topology import DEFAULT_FILE, REAL_FILE, load

KEEP_VARIABLE = "HYPERSCALE_E2E_KEEP"
"""Set to anything: the cluster stays after the run, to look at it, and the next such run takes it up again."""
DIRECTORY_VARIABLE = "HYPERSCALE_E2E_DIRECTORY"
"""Where the run's cluster lives, instead of a directory named after the run's process."""
CLUSTERS = Path(__file__).resolve().parents[1] / ".cluster"


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The 12-node cluster, brought up once, in a directory of this very run: another run beside it has its own."""
    given = os.environ.get(DIRECTORY_VARIABLE)
    with brought_up("e2e", DEFAULT_FILE, Path(given) if given else None) as found:
        yield found


@pytest.fixture(scope="session")
def real_cluster() -> Iterator[Cluster]:
    """Three nodes that run containers, and no others; skips the test where they cannot be had."""
    with real_machines("e2e-real", REAL_FILE) as found:
        yield found


@contextmanager
def real_machines(name: str, topology_file: Path) -> Iterator[Cluster]:
    """A cluster of nodes that run containers; skips the test where they cannot be had."""
    reason = ground.obstacle()
    if reason is not None:
        pytest.skip(f"nodes that run containers cannot be had here: {reason}")
    with brought_up(name, topology_file) as found:
        yield found


@contextmanager
def brought_up(name: str, topology_file: Path, directory: Path | None = None) -> Iterator[Cluster]:
    """A cluster of that name in a directory of this run, or in one that is given. It is taken down afterwards unless it is to be kept."""
    clear_left()
    keep = bool(os.environ.get(KEEP_VARIABLE))
    place = directory or CLUSTERS / (f"{name}-kept" if keep else f"{name}-{os.getpid()}")
    try:
        yield clusters.up(place, topology=load(topology_file))
    finally:
        if not keep:
            clusters.down(place)


def clear_left() -> None:
    """Take away clusters of runs that were killed."""
    for left in CLUSTERS.glob("e2e-*[0-9]"):
        if identity_of(int(left.name.rpartition("-")[2])) is None:
            clusters.down(left)


@pytest.fixture(scope="session")
def installed(cluster: Cluster) -> Cluster:
    """The cluster with CRDs, roles and service account of the chart, but no operator."""
    install(cluster)
    return cluster


@pytest.fixture
def calm(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with no wishes at the exporter and Prometheus running, before and after."""
    yield cluster
    cluster.reset_exporter()
    cluster.start_prometheus()


@pytest.fixture(scope="module")
def operator(installed: Cluster) -> Iterator[OperatorProcess]:
    """A ready operator for all tests of a module."""
    process = start_operator(installed)
    yield process
    process.stop()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Print a failure when it happens: a run that its time limit ends prints no summary."""
    if report.failed:
        print(f"\n{report.nodeid} ({report.when}, {report.duration:.0f} s)\n{report.longreprtext}", flush=True)
