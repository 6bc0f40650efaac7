"""Where the figures of `hyperscale plan` come from: the operator's own through a proxy, and what becomes of answers that cannot be used."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hyperscale import __version__
from hyperscale.cli.plan import operator_state
from hyperscale.model.admission_query import RunningShare
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.api.topology import TopologyPreview, topology_status
from hyperscale.model.preview import VERSION, PreviewQueue, PreviewState, to_lines
from tests.unit.cli.api_server import kubeconfig, serving, world
from tests.unit.cli.cli_samples import Files, files_fixture, job, run, snapshot
from tests.unit.cli.test_cli_live import Cluster

__all__ = ["files_fixture"]

TOPOLOGY = "/apis/hyperscale.dev/v1alpha1/clustertopologies/default"
SECRET = "/api/v1/namespaces/ops/secrets/key-of-previews"
DOCUMENT = "/api/v1/namespaces/ops/services/http:previews:preview/proxy/v1/planning"
KEY = "k" * 32


def state(**changed: Any) -> PreviewState:
    made = PreviewState(VERSION, __version__, 3.0, PolicySpec(), snapshot())
    return msgspec.structs.replace(made, **changed)


def encoded(**changed: Any) -> bytes:
    return b"".join(to_lines(state(**changed)))


@pytest.fixture(name="cluster")
def cluster_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """An operator whose ClusterTopology says where its previews are."""
    monkeypatch.delenv("HYPERSCALE_PROMETHEUS_URL", raising=False)
    served = world()
    place = TopologyPreview("ops", "previews", "key-of-previews")
    status = msgspec.to_builtins(msgspec.structs.replace(topology_status(snapshot()), preview=place))
    served.objects[TOPOLOGY] = {"status": status}
    served.objects[SECRET] = {"data": {"key": base64.b64encode(KEY.encode()).decode()}}
    served.raw[DOCUMENT] = (200, encoded())
    with serving(served) as url:
        yield Cluster(served, kubeconfig(tmp_path, url), tmp_path)


def test_the_operators_figures_are_used_without_a_word_on_standard_error(cluster: Cluster, files: Files) -> None:
    ran = cluster.run("plan", "-f", files.job, "-o", "json")
    assert (ran.code, ran.err) == (0, "")
    plan = json.loads(ran.out)
    assert plan["figures"] == {"source": "Operator", "ageSeconds": 7.0}, "4 s old when the snapshot was taken, 3 s before it was served"
    assert plan["id"] == json.loads(files.plan("-o", "json").out)["id"]
    assert not any(target.startswith("/api/v1/nodes") for target in cluster.world.asked), "nothing else was needed"


def test_the_policy_of_the_job_is_asked_for_by_name(cluster: Cluster, files: Files) -> None:
    cluster.world.raw[DOCUMENT] = (404, b'no PlannerPolicy "fast" exists; create it or leave policyRef out\n')
    ran = cluster.run("plan", "-f", files.write("fast.yaml", job(policyRef={"name": "fast"})))
    assert ran.code == 2
    assert 'spec.policyRef.name: no PlannerPolicy "fast" exists' in ran.err
    assert any(target.endswith("policy=fast") for target in cluster.world.asked)


def test_another_version_of_the_operator_is_mentioned(cluster: Cluster, files: Files) -> None:
    cluster.world.raw[DOCUMENT] = (200, encoded(operator_version="9.9.9"))
    ran = cluster.run("plan", "-f", files.job)
    assert ran.code == 0
    assert "the operator is version 9.9.9, this program" in ran.err


def test_what_the_document_cannot_tell_is_called_missing(cluster: Cluster, files: Files) -> None:
    running = (RunningShare("0000", 4, 100.0),)
    cluster.world.raw[DOCUMENT] = (200, encoded(own_weights=True, queue=PreviewQueue(running=running, pending=2)))
    ran = cluster.run("plan", "-f", files.job)
    assert ran.code == 0, ran
    assert "Approximate: made without" in ran.out
    assert "2 pending jobs of this policy" in ran.out
    assert "own weights" in ran.out


ENDS_HEADER = base64.b64encode(b"a\r\nHost: x").decode()
UNUSABLE: dict[str, tuple[str, tuple[int, bytes] | dict[str, Any], str]] = {
    "no ClusterTopology": (TOPOLOGY, (404, b'{"message":"not found"}'), "has the operator run?"),
    "an operator that serves none": (TOPOLOGY, {"status": {}}, "this operator serves none"),
    "a place that is none": (TOPOLOGY, {"status": {"preview": {"namespace": 7}}}, "this operator serves none"),
    "no right to the Secret": (SECRET, (403, b'{"message":"secrets is forbidden"}'), "hyperscale-preview-reader"),
    "no Secret": (SECRET, (404, b"{}"), "key-of-previews is not there"),
    "a Secret without the key": (SECRET, {"data": {}}, "holds no key under `key`"),
    "a Secret that is no text": (SECRET, {"data": {"key": "!!!"}}, "holds no key under `key`"),
    "a Secret that would end the header": (
        SECRET,
        {"data": {"key": ENDS_HEADER}},
        "that a header can carry",
    ),
    "no right to the proxy": (DOCUMENT, (403, b'{"message":"services/proxy is forbidden"}'), "hyperscale-preview-reader"),
    "a wrong key": (DOCUMENT, (403, b"the header X-HyperScale-Key does not carry this operator's key\n"), "does not carry"),
    "no pod behind it": (DOCUMENT, (503, b'{"message":"no endpoints available for service"}'), "no endpoints available"),
    "an operator that starts": (DOCUMENT, (503, b"the first listing is not done\n"), "the first listing is not done"),
    "another version of the document": (DOCUMENT, (200, encoded(version=VERSION - 1)), f"it is of version {VERSION - 1}"),
    "no JSON": (DOCUMENT, (200, b"<html>"), "cannot be read"),
    "deep nesting": (DOCUMENT, (200, encoded().splitlines()[0] + b'\n{"version":2,"snapshot":' + b"[" * 100_000), "cannot be read"),
    "other types": (DOCUMENT, (200, encoded().replace(b'"nodes":[', b'"nodes":[7,')), "cannot be read"),
    "a document that was cut": (DOCUMENT, (200, b"\n".join(encoded().splitlines()[:-1])), "it ends after 12 of 12 nodes and 0 of 132"),
    "nothing": (DOCUMENT, (200, b""), "cannot be read"),
    "a list": (DOCUMENT, (200, b"[]"), "cannot be read"),
}


@pytest.mark.parametrize("case", sorted(UNUSABLE))
def test_what_cannot_be_used_is_one_line_and_the_next_way_is_taken(case: str, cluster: Cluster, files: Files) -> None:
    path, answer, told = UNUSABLE[case]
    if isinstance(answer, dict):
        cluster.world.objects[path] = answer
    else:
        cluster.world.raw[path] = answer
    ran = cluster.run("plan", "-f", files.job, "--from", "operator")
    assert ran.code == 2, ran
    assert ran.err.count("\n") == 1
    assert told in ran.err
    followed = cluster.run("plan", "-f", files.job, "-o", "json")
    assert followed.code == 0, followed
    assert told in followed.err
    assert json.loads(followed.out)["figures"]["source"] in ("ClusterTopology", "Cluster")


def test_who_may_not_read_the_clustertopology_looks_in_the_usual_place(cluster: Cluster, files: Files) -> None:
    cluster.world.raw[TOPOLOGY] = (403, b'{"message":"forbidden"}')
    usual = operator_state.DEFAULT_PLACE
    cluster.world.objects[f"/api/v1/namespaces/{usual.namespace}/secrets/{usual.secret_name}"] = cluster.world.objects[SECRET]
    moved = DOCUMENT.replace("/ops/", f"/{usual.namespace}/").replace(":previews:", f":{usual.service_name}:")
    cluster.world.raw[moved] = cluster.world.raw[DOCUMENT]
    assert json.loads(cluster.run("plan", "-f", files.job, "-o", "json").out)["figures"]["source"] == "Operator"


def test_topology_and_snapshot_take_the_operators_figures_too(cluster: Cluster) -> None:
    ran = cluster.run("topology", "-o", "json")
    assert ran.code == 0
    assert json.loads(ran.out)["links"] == len(snapshot().links)
    assert "figures: of the operator at ops/previews, 3 s ago" in ran.err
    taken = cluster.run("snapshot", "-o", "-")
    assert msgspec.json.decode(taken.out.encode(), type=type(snapshot())) == snapshot()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--from", "operator", "--prometheus", "http://p:9090"), "--prometheus: is of no use with --from operator"),
        (("--from", "job", "--seed", "1"), "--seed: is of no use with --from job"),
        (("--from", "job", "--snapshot", "x.json"), "--snapshot: is of no use with --from job"),
        (("--from", "api", "--snapshot", "x.json"), "--from: is of no use with --snapshot"),
        (("--from", "elsewhere"), "invalid choice"),
    ],
)
def test_ways_that_contradict_each_other_are_refused(cluster: Cluster, files: Files, arguments: tuple[str, ...], told: str) -> None:
    ran = run("plan", "-f", files.job, *arguments)
    assert (ran.code, told in ran.err) == (2, True), ran


def test_a_policy_in_a_file_is_laid_over_the_operators_figures(cluster: Cluster, files: Files) -> None:
    policy = {"apiVersion": "hyperscale.dev/v1alpha1", "kind": "PlannerPolicy", "metadata": {"name": "x"}, "spec": {"seed": 5}}
    ran = cluster.run("plan", "-f", files.job, "--policy", files.write("policy.yaml", policy), "-o", "json")
    plan = json.loads(ran.out)
    assert plan["seed"] == 5
    assert "not by --policy" in plan["figures"]["missing"][0]
