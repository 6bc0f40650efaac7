"""The live cluster, over real HTTP: pages, identities, refusals, nonsense."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hyperscale.cli import kube_client, live
from hyperscale.observe.files.snapshot_files import read_snapshot
from tests.unit.cli.api_server import World, kubeconfig, pods, serving, world
from tests.unit.cli.cli_samples import Files, Ran, files_fixture, job, run

__all__ = ["files_fixture"]

POLICIES = "/apis/hyperscale.dev/v1alpha1/plannerpolicies"
JOBS = "/apis/hyperscale.dev/v1alpha1/namespaces/team-a/gnntrainingjobs"


@dataclass
class Cluster:
    """A served world and how to reach it."""

    world: World
    config: str
    folder: Path

    def run(self, *argv: str) -> Ran:
        return run(*argv, "--kubeconfig", self.config)


@pytest.fixture(name="cluster")
def cluster_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.delenv("HYPERSCALE_PROMETHEUS_URL", raising=False)
    served = world()
    with serving(served) as url:
        yield Cluster(served, kubeconfig(tmp_path, url), tmp_path)


def test_a_snapshot_of_the_live_cluster_can_be_planned_on(cluster: Cluster, files: Files) -> None:
    path = str(cluster.folder / "live.json")
    ran = cluster.run("snapshot", "-o", path)
    assert (ran.code, ran.out) == (0, "")
    assert "read 13 nodes and 3 bound pods" in ran.err
    assert "wrote 12 GPU nodes" in ran.err
    taken = read_snapshot(path)
    assert [(node.name, node.requested_gpus) for node in taken.nodes[:2]] == [("gpu-node-00", 3), ("gpu-node-01", 0)]
    assert taken.metrics.reason == "MetricsNotConfigured"
    offline = run("plan", "-f", files.job, "--snapshot", path, "-o", "json")
    assert json.loads(offline.out)["workers"] == json.loads(cluster.run("plan", "-f", files.job, "-o", "json").out)["workers"]


def test_a_snapshot_on_standard_output_is_nothing_but_the_snapshot(cluster: Cluster) -> None:
    ran = cluster.run("snapshot", "-o", "-")
    assert len(json.loads(ran.out)["nodes"]) == 12


def test_only_bound_and_living_pods_are_asked_for_page_by_page(cluster: Cluster) -> None:
    cluster.world.objects["/api/v1/pods"] = {"items": pods(1203, "gpu-node-09")}
    ran = cluster.run("topology", "-o", "json")
    assert ran.code == 0, ran
    asked = [target for target in cluster.world.asked if target.startswith("/api/v1/pods")]
    assert len(asked) == 3
    assert all("fieldSelector=" in target and "limit=500" in target for target in asked)
    assert next(node["freeGpus"] for node in json.loads(ran.out)["nodes"] if node["name"] == "gpu-node-09") == 0


def test_the_token_of_the_kubeconfig_is_sent(cluster: Cluster) -> None:
    cluster.run("topology")
    assert cluster.world.authorizations == {"Bearer open-sesame"}


def test_the_policy_of_the_cluster_counts_where_no_file_is_named(cluster: Cluster, files: Files) -> None:
    policy: dict[str, Any] = {
        "apiVersion": "hyperscale.dev/v1alpha1",
        "kind": "PlannerPolicy",
        "metadata": {"name": "default"},
        "spec": {"seed": 23},
    }
    cluster.world.objects[f"{POLICIES}/default"] = policy
    cluster.world.objects[f"{POLICIES}/fast"] = {**policy, "metadata": {"name": "fast"}, "spec": {"seed": 42}}
    assert json.loads(cluster.run("plan", "-f", files.job, "-o", "json").out)["seed"] == 23
    path = files.write("fast.yaml", job(policyRef={"name": "fast"}))
    assert json.loads(cluster.run("plan", "-f", path, "-o", "json").out)["seed"] == 42


def test_a_policy_that_is_not_there_is_named(cluster: Cluster, files: Files) -> None:
    ran = cluster.run("plan", "-f", files.write("fast.yaml", job(policyRef={"name": "fast"})))
    assert ran.code == 2
    assert "spec.policyRef.name: PlannerPolicy 'fast' is not in the cluster" in ran.err


def test_a_prometheus_that_is_down_is_no_reason_not_to_plan(cluster: Cluster, files: Files) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    ran = cluster.run("plan", "-f", files.job, "--prometheus", f"http://127.0.0.1:{port}")
    assert ran.code == 0
    assert "Metrics        none" in ran.out


def test_a_prometheus_url_without_a_scheme_is_refused(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "--prometheus: 'localhost:9090' is no http URL" in cluster.run("topology", "--prometheus", "localhost:9090").err
    monkeypatch.setenv("HYPERSCALE_PROMETHEUS_URL", "ftp://somewhere")
    assert "HYPERSCALE_PROMETHEUS_URL: 'ftp://somewhere'" in cluster.run("topology").err


REFUSALS: dict[str, tuple[str, int, bytes, str]] = {
    "no right to list nodes": (
        "/api/v1/nodes",
        403,
        b'{"kind":"Status","message":"nodes is forbidden"}',
        "403: nodes is forbidden; ask for",
    ),
    "not logged in": ("/api/v1/nodes", 401, b'{"message":"Unauthorized"}', "401: Unauthorized; log in again"),
    "a broken server": ("/api/v1/pods", 500, b"oops", "500: oops; try again"),
    "a web page": ("/api/v1/nodes", 200, b"<html>hello</html>", "no JSON object"),
    "a list in place of an object": ("/api/v1/nodes", 200, b"[]", "no JSON object"),
    "bytes": ("/api/v1/nodes", 200, bytes(range(256)), "no JSON object"),
    "no nodes at all": ("/api/v1/nodes", 200, b'{"items":null}', "no GPU nodes"),
    "a node without metadata": ("/api/v1/nodes", 200, b'{"items":[{}]}', "no GPU nodes"),
    "a node that is no object": ("/api/v1/nodes", 200, b'{"items":["x"]}', "no GPU nodes"),
    "deep nesting": ("/api/v1/nodes", 200, b'{"items":' + b"[" * 200_000, "no JSON object"),
}


@pytest.mark.parametrize("case", sorted(REFUSALS))
def test_a_server_that_refuses_or_talks_nonsense_gives_one_line(case: str, cluster: Cluster) -> None:
    path, status, body, told = REFUSALS[case]
    cluster.world.raw[path] = (status, body)
    ran = cluster.run("snapshot", "-o", str(cluster.folder / "live.json"))
    assert ran.code == 2, ran
    last = ran.err.splitlines()[-1]
    assert last.startswith("hyperscale: ")
    assert told in last
    assert "Traceback" not in ran.err
    assert "internal error" not in ran.err
    assert not (cluster.folder / "live.json").exists()


def test_a_pod_that_cannot_be_read_is_named_and_closes_its_node(cluster: Cluster) -> None:
    node = cluster.world.objects["/api/v1/nodes"]["items"][0]["metadata"]["name"]
    spec = {"nodeName": node, "containers": [{"resources": {"limits": {"nvidia.com/gpu": "1e30"}}}]}
    pod = {"metadata": {"namespace": "team", "name": "greedy"}, "spec": spec, "status": {"phase": "Running"}}
    cluster.world.objects["/api/v1/pods"] = {"items": [pod]}
    ran = cluster.run("snapshot", "-o", str(cluster.folder / "live.json"))
    assert ran.code == 0, ran
    assert "note: Pod team/greedy cannot be used as it is: nvidia.com/gpu: 1e+30 is not from 0 to 4096" in ran.err
    nodes = {one["name"]: one for one in json.loads((cluster.folder / "live.json").read_text())["nodes"]}
    assert nodes[node]["requestedGpus"] == nodes[node]["allocatableGpus"] > 0


def test_a_node_that_cannot_be_read_is_named_and_left_out(cluster: Cluster) -> None:
    listed = cluster.world.objects["/api/v1/nodes"]["items"]
    odd = json.loads(json.dumps(listed[0]))
    odd["metadata"]["name"] = "odd"
    odd["status"]["allocatable"]["nvidia.com/gpu"] = str(2**63 - 1)
    listed.append(odd)
    ran = cluster.run("snapshot", "-o", str(cluster.folder / "live.json"))
    assert ran.code == 0, ran
    assert ran.err.count("Node odd cannot be used as it is") == 1
    assert "odd" not in {one["name"] for one in json.loads((cluster.folder / "live.json").read_text())["nodes"]}


def test_a_list_without_end_is_left(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live.LiveCluster, "max_pages", 5)
    cluster.world.endless = True
    ran = cluster.run("topology")
    assert ran.code == 2
    assert "more than 2,500 objects" in ran.err


def test_an_answer_that_is_too_large_is_not_read_to_its_end(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kube_client, "MAX_BODY_BYTES", 1024)
    ran = cluster.run("topology")
    assert ran.code == 2
    assert "larger than" in ran.err


def test_a_cluster_that_does_not_answer_gives_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    ran = run("topology", "--kubeconfig", kubeconfig(tmp_path, f"http://127.0.0.1:{port}"))
    assert ran.code == 2
    assert ran.err.count("\n") == 1
    assert "refused" in ran.err
    assert "check KUBECONFIG" in ran.err


def test_a_server_that_takes_the_call_and_stays_silent_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kube_client, "READ_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        ran = run("topology", "--kubeconfig", kubeconfig(tmp_path, f"http://127.0.0.1:{silent.getsockname()[1]}"))
    assert ran.code == 2
    assert "no answer" in ran.err


@pytest.mark.parametrize(
    "user", [{"client-certificate-data": "bm9uc2Vuc2U="}, {"client-key": "/nowhere/key"}, {"exec": {"command": "nothing"}}]
)
def test_credentials_that_cannot_be_used_give_one_line(user: dict[str, Any], tmp_path: Path) -> None:
    ran = run("topology", "--kubeconfig", kubeconfig(tmp_path, "https://127.0.0.1:1", **user))
    assert ran.code == 2, ran
    assert ran.err.count("\n") == 1
    assert "Traceback" not in ran.err


def test_an_unknown_context_is_named(cluster: Cluster) -> None:
    ran = cluster.run("topology", "--context", "elsewhere")
    assert ran.code == 2
    assert "elsewhere" in ran.err


def test_kubeconfig_of_the_environment_counts(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", cluster.config)
    # The client reads the variable once, when it is imported.
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", cluster.config)
    assert run("topology").code == 0


def test_a_job_is_explained_from_the_cluster_with_its_events(cluster: Cluster) -> None:
    resource = {
        **job(),
        "status": {"observedGeneration": 1, "conditions": [{"type": "Succeeded", "status": "Unknown", "reason": "Running"}]},
    }
    cluster.world.objects[f"{JOBS}/products"] = resource
    cluster.world.objects["/api/v1/namespaces/team-a/events"] = {
        "items": [{"type": "Normal", "reason": "Planned", "message": "planned it", "count": 2, "lastTimestamp": "2026-01-01T00:00:00Z"}]
    }
    ran = cluster.run("explain", "products")
    assert ran.code == 0, ran
    assert "The job is training." in ran.out
    assert "planned it" in ran.out
    assert any("involvedObject.name%3Dproducts" in target for target in cluster.world.asked)


def test_the_namespace_comes_from_the_option_then_from_the_context(cluster: Cluster) -> None:
    assert "GNNTrainingJob team-a/nothing: is not in the cluster" in cluster.run("explain", "nothing").err
    assert "GNNTrainingJob team-b/nothing: is not in the cluster" in cluster.run("explain", "nothing", "-n", "team-b").err
    assert "GNNTrainingJob default/nothing: is not in the cluster" in cluster.run("explain", "nothing", "--context", "other").err
