"""`hyperscale plan` against a real API server and a running operator: each way to the operator's figures, under people's own rights."""

from __future__ import annotations

import functools
import itertools
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e import previews
from e2e.cluster.api import Object
from e2e.cluster.control_plane import wait_until
from e2e.cluster.topology import DEFAULT_FILE, load
from e2e.jobs import PATIENCE_SECONDS, SPEC, Job
from tests.fault.conftest import Stage
from tests.fault.process import OperatorProcess, well_read
from tests.fault.prometheus_stub import PrometheusStub
from tests.fault.proxy import FaultProxy
from tests.unit.cli.cli_samples import Ran, run

TOPOLOGY = "/apis/hyperscale.dev/v1alpha1/clustertopologies/default"
NODES = tuple(machine.name for machine in load(DEFAULT_FILE).nodes)
SLOW_BYTES_PER_SECOND = 0.125e9
LARGE = {"source": {"s3": {"bucket": "g"}}, "vertices": 2_449_029, "edges": 123_718_280, "featureSize": 100, "classes": 47}
SAGE = {"architecture": "GraphSAGE", "layers": 3, "hiddenSize": 256}
JOB_LABEL = "hyperscale.dev/preview"
SHAPES: dict[str, dict[str, Any]] = {
    "small": {},
    "two to six": {"model": SAGE, "dataset": LARGE, "workers": {"minReplicas": 2, "maxReplicas": 6}},
    "pairs": {
        "model": SAGE,
        "dataset": LARGE,
        "workers": {"minReplicas": 2, "maxReplicas": 4, "resources": {"limits": {"nvidia.com/gpu": 2}}},
    },
    "one": {"model": {"architecture": "GAT"}, "workers": {"minReplicas": 1, "maxReplicas": 1}},
    "ten": {"model": SAGE, "dataset": LARGE, "workers": {"minReplicas": 10, "maxReplicas": 10}},
}


def figures(query: str, now: float) -> list[tuple[dict[str, str], str]]:
    """Links of 1 Gbit/s, where their labels would have let one think of ten or a hundred times that."""
    value = next((f for name, f in (("link_latency", "0.0002"), ("link_bandwidth", f"{SLOW_BYTES_PER_SECOND:g}")) if name in query), "")
    pairs = [{"source": a, "destination": b} for a, b in itertools.permutations(NODES, 2)] if value else []
    return [(pair, str(now) if query.startswith("timestamp(") else value) for pair in pairs]


@pytest.fixture(scope="module", name="operator")
def operator_fixture(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorProcess]:
    """It has read the metrics once, and no more: every figure stands still."""
    stage.proxy.reset()
    stage.api.delete(TOPOLOGY)
    folder = tmp_path_factory.mktemp("previews")
    with PrometheusStub() as prometheus, previews.served(stage.api, folder) as place:
        prometheus.answer(figures)
        settings = {"prometheus_url": prometheus.url, "metrics_poll_seconds": 3600, "topology_seconds": 1, **place.settings}
        with well_read(lambda: stage.operator(**settings), stage.api) as process:  # type: ignore[arg-type] # no setting is called wrapper
            wait_until(functools.partial(told, stage), PATIENCE_SECONDS, "the ClusterTopology does not say where previews are")
            yield process


def told(stage: Stage) -> bool:
    status = (stage.api.find(TOPOLOGY) or {}).get("status") or {}
    return bool(status.get("preview") and status.get("linkCount"))


@pytest.fixture(name="write")
def write_fixture(tmp_path: Path, space: str) -> Callable[..., str]:
    """A job in a file."""

    def write(name: str = "cora", **spec: object) -> str:
        made = {"apiVersion": "hyperscale.dev/v1alpha1", "kind": "GNNTrainingJob", "metadata": {"name": name, "namespace": space}}
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump({**made, "spec": {**SPEC, **spec}}))
        return str(path)

    return write


@pytest.fixture(name="people")
def people_fixture(stage: Stage, tmp_path: Path, space: str) -> dict[str, str]:
    """Kubeconfigs by what the person may do."""
    make = functools.partial(previews.account, stage.api, stage.cluster.kubeconfig, tmp_path, space)
    editor = ("ClusterRole", "hyperscale-job-editor", space)
    return {
        "administrator": str(stage.cluster.kubeconfig),
        "reader": make("reader", ("Role", previews.READER, "hyperscale-system")),
        "editor": make("editor", editor),
        "viewer": make("viewer", ("ClusterRole", "hyperscale-cluster-viewer", "")),
        "stranger": make("stranger"),
    }


def plan(path: str, config: str, *more: str) -> tuple[Object, Ran]:
    ran = run("plan", "-f", path, "--kubeconfig", config, "-o", "json", *more)
    assert ran.code == 0, ran
    return json.loads(ran.out), ran


def operators_plan(stage: Stage, space: str, name: str, **spec: Any) -> Object:
    """The plan of a job that waits for approval: it holds no GPU, so that each job is planned on the same cluster."""
    job = Job(stage.api, space, name)
    job.create(startPolicy="Manual", **spec)
    job.wait_reason("AwaitingApproval")
    found = job.plan()
    job.delete()
    return found


def temporary(stage: Stage, space: str) -> list[Object]:
    return stage.api.items(f"/apis/hyperscale.dev/v1alpha1/namespaces/{space}/gnntrainingjobs", labelSelector=JOB_LABEL)


@pytest.mark.usefixtures("operator")
@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_without_options_the_plan_is_the_operators(
    stage: Stage, space: str, write: Callable[..., str], people: dict[str, str], shape: str
) -> None:
    foreseen, ran = plan(write(**SHAPES[shape]), people["administrator"])
    came = operators_plan(stage, space, "cora", **SHAPES[shape])
    assert foreseen["figures"]["source"] == "Operator"
    assert (foreseen["id"], foreseen["workers"]) == (came["id"], came["workers"])
    for document in (foreseen, came):
        document.pop("figures")
    assert foreseen == came, "the same object, to the last figure"
    assert ran.err == ""


@pytest.mark.usefixtures("operator")
def test_the_age_of_the_figures_is_printed(write: Callable[..., str], people: dict[str, str]) -> None:
    ran = run("plan", "-f", write(**SHAPES["ten"]), "--kubeconfig", people["administrator"])
    assert "Figures        of the operator at hyperscale-system/hyperscale-preview, " in ran.out
    assert re.search(r"^Oldest +[0-9.]+ (ms|s|min), of the planned nodes and their links$", ran.out, re.MULTILINE), ran.out
    foreseen, _ = plan(write(**SHAPES["ten"]), people["administrator"])
    assert foreseen["figures"]["ageSeconds"] >= 0.0


@pytest.mark.usefixtures("operator")
def test_who_may_read_previews_and_nothing_else_gets_the_operators_plan(
    stage: Stage, space: str, write: Callable[..., str], people: dict[str, str]
) -> None:
    foreseen, ran = plan(write(), people["reader"])
    assert (foreseen["figures"]["source"], ran.err) == ("Operator", "")
    assert foreseen["id"] == operators_plan(stage, space, "cora")["id"]


@pytest.mark.usefixtures("operator")
def test_who_has_rights_in_one_namespace_only_asks_the_operator_and_leaves_nothing(
    stage: Stage, space: str, write: Callable[..., str], people: dict[str, str]
) -> None:
    foreseen, ran = plan(write(**SHAPES["two to six"]), people["editor"])
    assert "ask for the Role hyperscale-preview-reader" in ran.err
    assert foreseen["id"] == operators_plan(stage, space, "cora", **SHAPES["two to six"])["id"]
    assert temporary(stage, space) == []
    shown = run("plan", "-f", write(), "--kubeconfig", people["editor"], "--from", "job")
    assert f"asked with the temporary job {space}/cora-plan-" in shown.out
    assert temporary(stage, space) == []


@pytest.mark.usefixtures("operator")
def test_a_job_that_does_not_fit_is_refused_in_the_operators_words_by_every_way(write: Callable[..., str], people: dict[str, str]) -> None:
    path = write(workers={"minReplicas": 500, "maxReplicas": 500})
    for way, person in (("operator", "reader"), ("job", "editor")):
        ran = run("plan", "-f", path, "--kubeconfig", people[person], "--from", way, "-o", "json")
        assert ran.code == 1, ran
        assert "500" in ran.err
        assert json.loads(ran.out)["reason"] in ("InsufficientGPUs", "NeverFits")


@pytest.mark.usefixtures("operator")
def test_who_may_create_nothing_gets_an_approximation_that_says_so(write: Callable[..., str], people: dict[str, str]) -> None:
    foreseen, ran = plan(write(), people["viewer"])
    assert foreseen["figures"]["source"] == "ClusterTopology"
    assert any("corrections" in missing for missing in foreseen["figures"]["missing"])
    assert any("labels, taints" in missing for missing in foreseen["figures"]["missing"])
    assert "the ClusterTopology alone is used" in ran.err
    table = run("plan", "-f", write(), "--kubeconfig", people["viewer"]).out
    assert "Approximate: made without" in table
    assert "links of the ClusterTopology, written " in table


@pytest.mark.usefixtures("operator")
def test_the_links_of_the_clustertopology_are_those_that_the_operator_measured(write: Callable[..., str], people: dict[str, str]) -> None:
    """Without them the labels would let one think of links that are a hundred times faster."""
    path = write(**SHAPES["ten"])
    near, _ = plan(path, people["administrator"], "--from", "api")
    exact, _ = plan(path, people["administrator"], "--from", "operator")
    assert near["figures"]["source"] == "ClusterTopology"
    assert near["predicted"]["communicationSeconds"] == pytest.approx(exact["predicted"]["communicationSeconds"], rel=0.05)


@pytest.mark.usefixtures("operator")
def test_who_may_nothing_is_told_what_to_ask_for(write: Callable[..., str], people: dict[str, str]) -> None:
    ran = run("plan", "-f", write(), "--kubeconfig", people["stranger"])
    assert ran.code == 2
    assert "hyperscale-preview-reader" in ran.err
    for way in ("operator", "job", "api"):
        ran = run("plan", "-f", write(), "--kubeconfig", people["stranger"], "--from", way)
        assert ran.code == 2, ran
        assert "forbidden" in ran.err or "cannot" in ran.err


@pytest.mark.usefixtures("operator")
def test_the_port_tells_nothing_to_who_has_no_key(stage: Stage, people: dict[str, str]) -> None:
    path = f"/api/v1/namespaces/hyperscale-system/services/http:{previews.NAME}:preview/proxy/v1/planning"
    with pytest.raises(Exception, match="does not carry this operator's key"):
        stage.api.get(path)


@pytest.mark.usefixtures("operator")
def test_a_snapshot_is_the_operators_too(tmp_path: Path, people: dict[str, str]) -> None:
    file = str(tmp_path / "cluster.json")
    ran = run("snapshot", "-o", file, "--kubeconfig", people["reader"])
    assert ran.code == 0, ran
    links = json.loads(Path(file).read_text())["links"]
    assert {link["bandwidthBytesPerSecond"]["value"] for link in links} == {SLOW_BYTES_PER_SECOND}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_question_takes_its_job_away(
    stage: Stage, proxy: FaultProxy, space: str, tmp_path: Path, write: Callable[..., str], people: dict[str, str], number: signal.Signals
) -> None:
    """The answer is held back: otherwise an operator's refusal may end the question, and with it the job, before the signal comes."""
    config = proxy.kubeconfig(Path(people["editor"]), tmp_path / "through-the-proxy")
    command = [sys.executable, "-m", "hyperscale.cli.main", "plan", "-f", write(policyRef={"name": "absent"}), "--from", "job"]
    asks = f"/namespaces/{space}/gnntrainingjobs/cora-plan-"
    with (
        proxy.holding(lambda asked: asked.method == "GET" and asks in asked.path) as held,
        subprocess.Popen([*command, "--kubeconfig", str(config)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process,
    ):
        try:
            wait_until(lambda: bool(held.caught), PATIENCE_SECONDS, "the command does not ask about its temporary job")
            assert len(temporary(stage, space)) == 1
            process.send_signal(number)
            _, said = process.communicate(timeout=PATIENCE_SECONDS)
        finally:
            process.kill()
    assert (process.returncode, said) == (130, "hyperscale: interrupted\n")
    assert temporary(stage, space) == []


@pytest.mark.usefixtures("operator")
def test_what_a_killed_process_left_is_taken_away_once_it_has_expired(
    stage: Stage, space: str, write: Callable[..., str], people: dict[str, str]
) -> None:
    for name, expires in (("old", "2026-01-01T00:00:00Z"), ("young", "2126-01-01T00:00:00Z"), ("odd", "soon")):
        metadata = {"labels": {JOB_LABEL: "true"}, "annotations": {"hyperscale.dev/preview-expires": expires}}
        Job(stage.api, space, name).create(metadata, startPolicy="Never")
    plan(write(), people["editor"], "--from", "job")
    assert {job["metadata"]["name"] for job in temporary(stage, space)} == {"young", "odd"}


@pytest.mark.usefixtures("operator")
def test_a_volume_in_one_zone_binds_the_preview_as_it_binds_the_plan(
    stage: Stage, space: str, write: Callable[..., str], people: dict[str, str]
) -> None:
    claims = f"/api/v1/namespaces/{space}/persistentvolumeclaims"
    source = {**LARGE, "source": {"persistentVolumeClaim": {"claimName": "graph"}}}
    spec = {"model": SAGE, "dataset": source, "workers": {"minReplicas": 2, "maxReplicas": 2}}
    for way in ("operator", "job", "api"):
        ran = run("plan", "-f", write(**spec), "--kubeconfig", people["administrator"], "--from", way)
        assert (ran.code, 'PersistentVolumeClaim "graph" does not exist' in ran.err) == (1, True), ran
    size = {"storage": "1Gi"}
    volume: Object = {"capacity": size, "accessModes": ["ReadWriteMany"], "hostPath": {"path": "/x"}}
    labels = {"topology.kubernetes.io/zone": "ap-south-a"}
    metadata = {"name": f"graph-{space}", "labels": labels}
    stage.api.create("/api/v1/persistentvolumes", {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": volume})
    wanted = {"accessModes": ["ReadWriteMany"], "resources": {"requests": size}, "storageClassName": "", "volumeName": f"graph-{space}"}
    stage.api.create(claims, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "graph"}, "spec": wanted})
    try:
        foreseen, _ = plan(write(**spec), people["administrator"])
        came = operators_plan(stage, space, "cora", **spec)
        assert {worker["node"] for worker in foreseen["workers"]} <= {"ap-l40s-0", "ap-l40s-1"}
        assert (foreseen["id"], foreseen["workers"]) == (came["id"], came["workers"])
        unread, _ = plan(write(**spec), people["reader"])
        assert any("volumes of the job" in missing for missing in unread["figures"]["missing"])
    finally:
        stage.api.delete(f"/api/v1/persistentvolumes/graph-{space}")
