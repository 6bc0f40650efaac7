"""Fixtures of the scenarios: one cluster for the whole run, the operator on it, and a clean exporter for every test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster import cluster as clusters
from e2e.cluster.cluster import Cluster
from e2e.cluster.operator import OperatorProcess, install, start_operator
from e2e.cluster.topology import DEFAULT_FILE, load

KEEP_VARIABLE = "HYPERSCALE_E2E_KEEP"
"""Set to anything: the cluster stays after the run, to look at it."""
DIRECTORY = Path(os.environ.get("HYPERSCALE_E2E_DIRECTORY") or Path(__file__).resolve().parents[1] / ".cluster" / "e2e")
"""Where the cluster of the run lives; two runs side by side need two."""


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The 12-node cluster, brought up once; taken down at the end of the run."""
    if not os.environ.get(KEEP_VARIABLE):
        clusters.down(DIRECTORY)  # a run that was killed may have left jobs behind
    found = clusters.up(DIRECTORY, topology=load(DEFAULT_FILE))
    yield found
    if not os.environ.get(KEEP_VARIABLE):
        clusters.down(DIRECTORY)


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
