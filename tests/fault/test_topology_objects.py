"""HyperNodes and Kueue Topologies appear while the operator runs: it reads them under its own rights, and before all is well without."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.cluster.api import ApiError
from e2e.cluster.control_plane import wait_until
from e2e.cluster.topology import DEFAULT_FILE, load
from e2e.jobs import PATIENCE_SECONDS
from tests.fault import strangers
from tests.fault.conftest import POLICY, Stage
from tests.fault.process import OperatorProcess, running

NODES = tuple(machine.name for machine in load(DEFAULT_FILE).nodes)
ROW = "example.com/row"
SWITCH = "topology.volcano.sh/hypernode-tier-1"
CLUSTER = "/apis/hyperscale.dev/v1alpha1/clustertopologies/default"
KINDS = (("topology.volcano.sh", "v1alpha1", "HyperNode", "hypernodes"), ("kueue.x-k8s.io", "v1beta1", "Topology", "topologies"))


def created(stage: Stage, kind: tuple[str, str, str, str], name: str, spec: dict[str, Any]) -> None:
    group, version, singular, plural = kind
    body = {"apiVersion": f"{group}/{version}", "kind": singular, "metadata": {"name": name}, "spec": spec}
    stage.api.apply(f"/apis/{group}/{version}/{plural}/{name}", body)


@pytest.fixture
def operator(stage: Stage) -> Iterator[OperatorProcess]:
    """It lists everything again every two seconds."""
    stage.proxy.reset()
    for name in NODES:
        stage.api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {ROW: name[:2]}}})
    try:
        with running(stage.operator(resync_seconds=2, topology_seconds=1), stage.api) as process:
            process.wait_ready()
            yield process
    finally:
        stage.api.delete(POLICY)
        for group, _, _, plural in KINDS:
            stage.api.delete(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.{group}")
        for name in NODES:
            stage.api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {ROW: None}}})


def seen(stage: Stage) -> dict[str, Any]:
    status: dict[str, Any] = (stage.api.find(CLUSTER) or {}).get("status") or {}
    return status


def domains(stage: Stage) -> dict[str, str]:
    """The widest domain of every node."""
    return {node["name"]: next(iter(node.get("domains", ())), "") for node in seen(stage).get("nodes", ())}


def has_level(stage: Stage, key: str) -> bool:
    return key in seen(stage).get("levels", ())


def test_topology_of_other_operators_is_used_as_soon_as_it_is_there(stage: Stage, operator: OperatorProcess) -> None:
    wait_until(lambda: len(seen(stage).get("nodes", ())) == len(NODES), PATIENCE_SECONDS, "nothing was written")
    assert not has_level(stage, ROW)
    for kind in KINDS:
        stage.api.apply(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{kind[3]}.{kind[0]}", strangers.definition(*kind))
    for kind in KINDS:
        listed = f"/apis/{kind[0]}/{kind[1]}/{kind[3]}"
        wait_until(functools.partial(_served, stage, listed), PATIENCE_SECONDS, "the kind is not served")
    created(stage, KINDS[1], "rows", {"levels": [{"nodeLabel": ROW}, {"nodeLabel": "kubernetes.io/hostname"}]})
    wait_until(lambda: has_level(stage, ROW), PATIENCE_SECONDS, "the Topology is not read")
    member = {"type": "Node", "selector": {"regexMatch": {"pattern": "eu-.*"}}}
    created(stage, KINDS[0], "switch-eu", {"tier": 1, "members": [member]})
    stage.write_policy(topologyLevels=[SWITCH])
    expected = {name: "switch-eu" if name.startswith("eu-") else "" for name in NODES}
    wait_until(lambda: domains(stage) == expected, PATIENCE_SECONDS, "the HyperNode is not read")
    assert "cannot be listed" not in operator.log
    assert operator.probe("/healthz") == 200


def _served(stage: Stage, path: str) -> bool:
    try:
        return stage.api.find(path) is not None
    except ApiError:  # "storage is (re)initializing", for a second or two
        return False
