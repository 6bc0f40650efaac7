"""`hyperscale plan` without options against the operator's own plans: thirty jobs of every shape, on figures that stand still and live."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import yaml

from e2e import previews
from e2e.cluster.api import Object
from e2e.cluster.cluster import Cluster
from e2e.cluster.control_plane import wait_until
from e2e.cluster.operator import start_operator
from e2e.jobs import PATIENCE_SECONDS, Job, namespace
from hyperscale.cli.main import main

TOPOLOGY: Final = "/apis/hyperscale.dev/v1alpha1/clustertopologies/default"
GRAPHS: Final = (
    {"source": {"builtin": {"name": "Cora"}}},
    {"source": {"s3": {"bucket": "a"}}, "vertices": 169_343, "edges": 2_332_486, "featureSize": 128, "classes": 40},
    {"source": {"s3": {"bucket": "g"}}, "vertices": 2_449_029, "edges": 123_718_280, "featureSize": 100, "classes": 47},
)
MODELS: Final = (
    {"architecture": "GCN"},
    {"architecture": "GraphSAGE", "layers": 3, "hiddenSize": 256},
    {"architecture": "GAT", "hiddenSize": 128, "heads": 4},
    {"architecture": "GraphSAGE", "layers": 2, "fanouts": [15, 10], "batchSize": 1024, "epochs": 7},
)
WORKERS: Final = (
    {"minReplicas": 1, "maxReplicas": 1},
    {"minReplicas": 2, "maxReplicas": 2},
    {"minReplicas": 1, "maxReplicas": 4},
    {"minReplicas": 2, "maxReplicas": 6, "resources": {"limits": {"nvidia.com/gpu": 2}}},
    {"minReplicas": 10, "maxReplicas": 10},
    {"minReplicas": 3, "maxReplicas": 12},
    {"minReplicas": 2, "maxReplicas": 2, "resources": {"limits": {"nvidia.com/gpu": 4}}},
)
FURTHER: Final[tuple[Object, ...]] = (
    {},
    {"planner": "Heuristic"},
    {"placement": {"communicationWeight": "2.0"}},
    {"placement": {"topology": {"preferred": "topology.kubernetes.io/region"}}},
    {"partitioning": {"method": "METIS"}},
)
JOBS: Final = 30
READING: Final = {"frozen": "3600", "live": "2"}
"""Seconds between two readings of the metrics."""


class Pair(NamedTuple):
    """What was said of a job, and what came."""

    name: str
    foreseen: Object
    came: Object

    @property
    def same_figures(self) -> bool:
        """Both were made from one snapshot."""
        return bool(self.foreseen["snapshot"] == self.came["snapshot"])


def shapes() -> Iterator[tuple[str, Object]]:
    """Thirty jobs, each unlike the others: every model, graph, number of workers and further wish comes with several of the others."""
    kinds: tuple[Object, ...] = ({"startPolicy": "Manual"}, {"startPolicy": "Never"})
    wheels = zip(itertools.cycle(MODELS), itertools.cycle(GRAPHS), itertools.cycle(WORKERS), itertools.cycle(FURTHER), strict=False)
    for number, (model, dataset, workers, further) in enumerate(itertools.islice(wheels, JOBS)):
        yield f"job-{number:02d}", {"model": model, "dataset": dataset, "workers": workers, **further, **kinds[number % 2]}


@pytest.fixture(params=sorted(READING), name="reading")
def reading_fixture(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(name="space")
def space_fixture(installed: Cluster, calm: Cluster, reading: str, tmp_path: Path) -> Iterator[str]:
    """An operator that serves previews and reads the metrics as often as the test says."""
    api = installed.api()
    api.delete(TOPOLOGY)
    with previews.served(api, tmp_path) as place, namespace(api, f"previews-{reading}") as name:
        variables = {f"HYPERSCALE_{field.upper()}": value for field, value in place.settings.items()}
        seconds = {"HYPERSCALE_METRICS_POLL_SECONDS": READING[reading], "HYPERSCALE_TOPOLOGY_SECONDS": "1"}
        process = start_operator(installed, {**variables, **seconds}, name="operator-previews")
        try:
            wait_until(functools.partial(told, installed), PATIENCE_SECONDS, "the ClusterTopology does not say where previews are")
            yield name
        finally:
            process.stop()


def told(cluster: Cluster) -> bool:
    return bool(((cluster.api().find(TOPOLOGY) or {}).get("status") or {}).get("preview"))


def foreseen(cluster: Cluster, folder: Path, space: str, name: str, spec: Object, capsys: pytest.CaptureFixture[str]) -> Object:
    made = {"apiVersion": "hyperscale.dev/v1alpha1", "kind": "GNNTrainingJob", "metadata": {"name": name, "namespace": space}, "spec": spec}
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(made))
    capsys.readouterr()
    code = main(["plan", "-f", str(path), "--kubeconfig", str(cluster.kubeconfig), "-o", "json"])
    said = capsys.readouterr()
    assert (code, said.err) == (0, ""), (name, said)
    plan: Object = json.loads(said.out)
    return plan


def operators(cluster: Cluster, space: str, name: str, spec: Object) -> Object:
    job = Job(cluster.api(), space, name)
    job.create(**spec)
    job.wait(lambda: job.reason() in ("AwaitingApproval", "StartPolicyNever"), "it was not planned")
    return job.plan()


def compared(cluster: Cluster, folder: Path, space: str, capsys: pytest.CaptureFixture[str]) -> list[Pair]:
    pairs = []
    for name, spec in shapes():
        said = foreseen(cluster, folder, space, name, spec, capsys)
        pairs.append(Pair(name, said, operators(cluster, space, name, spec)))
    return pairs


def nodes(plan: Object) -> list[Any]:
    return [(worker["rank"], worker["node"], worker["gpus"]) for worker in plan["workers"]]


def differing(pairs: list[Pair]) -> tuple[set[str], set[str]]:
    """Names of the jobs that got a plan of another id than foreseen, and of those that got other nodes."""
    other_id = {pair.name for pair in pairs if pair.foreseen["id"] != pair.came["id"]}
    other_nodes = {pair.name for pair in pairs if nodes(pair.foreseen) != nodes(pair.came)}
    return other_id, other_nodes


def changes(pair: Pair) -> Object:
    """What the two say otherwise, by field."""
    return {key: (pair.foreseen.get(key), pair.came.get(key)) for key in pair.foreseen if pair.foreseen.get(key) != pair.came.get(key)}


def test_the_preview_of_thirty_jobs_is_the_operators_plan(
    installed: Cluster, space: str, reading: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = compared(installed, tmp_path, space, capsys)
    other_id, other_nodes = differing(pairs)
    unmoved = {pair.name for pair in pairs if pair.same_figures}
    with capsys.disabled():
        print(
            f"\n{reading}: {len(pairs)} jobs, figures unmoved for {len(unmoved)}, other id {len(other_id)}, other nodes {len(other_nodes)}"
        )
    assert len(pairs) == JOBS
    assert len({pair.foreseen["id"] for pair in pairs}) > JOBS // 2, "the jobs are unlike each other"
    assert all(pair.foreseen["figures"]["source"] == pair.came["figures"]["source"] == "Operator" for pair in pairs)
    if reading == "frozen":
        assert other_id == set()
    assert [(pair.name, changes(pair)) for pair in pairs if pair.name in unmoved & (other_id | other_nodes)] == []


@pytest.mark.parametrize("reading", ["frozen"], indirect=True)
def test_beside_running_jobs_the_preview_is_what_the_queue_decides(
    installed: Cluster, space: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each starts and holds its GPUs, so that the next is decided while those run."""
    spec: Object = {"model": {**MODELS[1], "epochs": 100_000}, "dataset": GRAPHS[2], "workers": {"minReplicas": 2, "maxReplicas": 6}}
    for number in range(4):
        name = f"runs-{number}"
        said = foreseen(installed, tmp_path, space, name, spec, capsys)
        job = Job(installed.api(), space, name)
        job.create(**spec)
        job.wait_state("Running")
        came = job.plan()
        assert (said["id"], nodes(said)) == (came["id"], nodes(came)), f"the plan of job {number}"
