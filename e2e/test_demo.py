"""`make demo` where pods run: operator, agents and MPI Operator are pods, plans come from measured links, and the main job trains."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from e2e.cluster import cluster as clusters
from e2e.cluster.cluster import Cluster
from e2e.cluster.operator import NAMESPACE
from e2e.cluster.real import ground
from e2e.conftest import CLUSTERS
from e2e.jobs import state_of
from e2e.training import CORA_ACCURACY

ROOT: Final = Path(__file__).resolve().parents[1]
_SECONDS: Final = 900.0


@pytest.fixture(scope="module")
def demo() -> Iterator[tuple[Cluster, str]]:
    """The cluster of a demo that has ended well, and what it printed."""
    reason = ground.obstacle()
    if reason is not None:
        pytest.skip(f"nodes that run containers cannot be had here: {reason}")
    place = CLUSTERS / f"e2e-demo-{os.getpid()}"
    command = [sys.executable, "-m", "e2e.demo", "--directory", str(place)]
    try:
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=_SECONDS, check=False)
        assert ended.returncode == 0, f"{ended.stdout[-4000:]}\n{ended.stderr[-4000:]}"
        found = clusters.find(place)
        assert found is not None
        yield found, ended.stdout
    finally:
        clusters.down(place)


def test_nothing_of_ours_runs_outside_pods(demo: tuple[Cluster, str]) -> None:
    here, _ = demo
    assert not {"operator", "mpi-operator"} & set(here.processes.names())
    pods = here.api().items(f"/api/v1/namespaces/{NAMESPACE}/pods")
    nodes = sorted(pod["spec"]["nodeName"] for pod in pods if pod["metadata"]["labels"]["app.kubernetes.io/component"] == "agent")
    assert nodes == sorted(here.real_nodes)
    assert {pod["spec"]["nodeName"] for pod in pods} <= set(here.real_nodes)
    assert [pod["status"]["phase"] for pod in here.api().items("/api/v1/namespaces/mpi-operator/pods")] == ["Running"]


def test_the_plan_comes_from_links_that_agents_measured(demo: tuple[Cluster, str]) -> None:
    here, printed = demo
    job = here.api().get("/apis/hyperscale.dev/v1alpha1/namespaces/default/gnntrainingjobs/cora-train")
    assert "(measured)" in printed.partition("\nPlan ")[2]
    assert not [one for one in job["status"]["plan"].get("fallbacks", ()) if one.startswith("Links")]


def test_the_main_job_reaches_its_accuracy(demo: tuple[Cluster, str]) -> None:
    here, printed = demo
    job = here.api().get("/apis/hyperscale.dev/v1alpha1/namespaces/default/gnntrainingjobs/cora-train")
    assert state_of(job["status"]) == "Succeeded"
    assert job["status"]["measured"]["accuracy"] >= CORA_ACCURACY
    assert "test accuracy" in printed
