"""What the API server makes of a whole job: defaults, sizes, what may change, and how it is shown."""

from __future__ import annotations

import copy
import subprocess
import time
from pathlib import Path

import pytest

from e2e.cluster.api import Api, ApiError, Object
from e2e.cluster.control_plane import ControlPlane
from hyperscale.control.cache.object_readers import judged_status
from hyperscale.spec.crd import REPOSITORY
from hyperscale.spec.parse import SpecError, parse_job
from tests.corpus.jobs import STORED, job

JOBS = "/apis/hyperscale.dev/v1alpha1/namespaces/default/gnntrainingjobs"
STRICT = f"{JOBS}?fieldValidation=Strict"
STARTED = {"mpiJobRef": {"name": "any", "uid": "3b1f0f2e"}}


def kubectl(binaries: dict[str, Path], plane: ControlPlane, *arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """kubectl as the administrator, with `text` on its standard input."""
    command = [str(binaries["kubectl"]), f"--kubeconfig={plane.kubeconfig}", *arguments]
    return subprocess.run(command, input=text, text=True, capture_output=True, check=False, timeout=60)


def started(api: Api, name: str, changes: dict[str, object] | None = None) -> str:
    """Path of a new job whose MPIJob exists."""
    api.create(STRICT, job({"metadata.name": name, **(changes or {})}))
    api.patch(f"{JOBS}/{name}/status", {"status": STARTED})
    return f"{JOBS}/{name}"


def test_every_default_is_filled_in(api: Api) -> None:
    spec = api.create(f"{STRICT}&dryRun=All", job())["spec"]
    assert spec == {
        "model": {"architecture": "GCN", "layers": 2, "hiddenSize": 256, "heads": 1, "fanouts": [], "epochs": 100},
        "dataset": {"source": {"builtin": {"name": "Cora"}}, "format": "DGL", "direction": "Auto"},
        "workers": {"minReplicas": 2, "maxReplicas": 4, "resources": {"limits": {}, "requests": {}}, "gpuProducts": [], "template": {}},
        "partitioning": {"method": "Auto", "balance": "Capacity"},
        "allreduce": {"schedule": "Auto", "compression": "None", "hostStaging": False},
        "placement": {"mode": "Strict", "nodeSelector": {}, "topology": {}},
        "planner": "Auto",
        "startPolicy": "Automatic",
        "recovery": {"maxPlanChanges": 3, "replaceLostWorkers": True},
        "runPolicy": {"suspend": False, "cleanPodPolicy": "Running", "backoffLimit": 2},
        "queueWeight": 1,
        "preflight": "Off",
        "launcher": {"template": {}},
    }


def largest_job() -> Object:
    """Every list and text as long as the schema allows, as far as 64 KiB go."""
    return job(
        {
            "metadata.name": "a" * 50,
            "spec.model": {"architecture": "GraphSAGE", "layers": 64, "fanouts": [10000] * 64, "batchSize": 10**8, "script": "s" * 1024},
            "spec.dataset": {**STORED, "path": "p" * 1024, "vertices": 10**12, "edges": 10**12},
            "spec.workers": {
                "minReplicas": 1,
                "maxReplicas": 1000,
                "gpuProducts": [f"{index:063}" for index in range(32)],
                "gpuMemory": "16384." + "0" * 24 + "Gi",
            },
            "spec.partitioning.count": 997,
            "spec.placement.nodeSelector": {f"{'d' * 250}.{index}/{'k' * 60}": "v" * 63 for index in range(32)},
            "spec.workers.template": {"spec": {"containers": [{"name": "worker", "env": [{"name": "LONG", "value": "x" * 45_000}]}]}},
        }
    )


def test_the_largest_legal_job_is_admitted_and_parsed(api: Api) -> None:
    stored = api.create(STRICT, largest_job())
    assert parse_job(stored).partitioning.count == 997


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model", {"architecture": "GAT"}),
        ("dataset", {"source": {"builtin": {"name": "PubMed"}}}),
        ("workers", {"maxReplicas": 3}),
        ("partitioning", {"count": 4}),
        ("allreduce", {"compression": "FP16"}),
        ("placement", {"nodeSelector": {"zone": "a"}}),
        ("planner", "Heuristic"),
        ("launcher", {"template": {"metadata": {"labels": {"team": "b"}}}}),
        ("checkpoint", {"claimName": "other"}),
        ("checkpoint", None),
        ("policyRef", {"name": "other"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_decides_placement_is_fixed_once_the_mpijob_exists(
    api: Api, field: str, value: object, request: pytest.FixtureRequest
) -> None:
    template = {"metadata": {"labels": {"team": "a"}}, "spec": {"containers": [{"name": "worker"}]}}
    name = f"fixed-{field.lower()}-{'set' if value else 'unset'}"
    path = started(
        api, name, {"spec.workers.template": template, "spec.launcher.template": template, "spec.checkpoint.claimName": "shared"}
    )
    with pytest.raises(ApiError) as refused:
        api.patch(path, {"spec": {field: value}})
    assert f"spec.{field}: Forbidden: {field} cannot change once the MPIJob exists" in str(refused.value)


def test_everything_may_change_before_the_mpijob_exists(api: Api) -> None:
    api.create(STRICT, job({"metadata.name": "still-open"}))
    changed = api.patch(f"{JOBS}/still-open", {"spec": {"workers": {"maxReplicas": 8, "template": {"metadata": {"labels": {"a": "b"}}}}}})
    assert changed["spec"]["workers"]["maxReplicas"] == 8


@pytest.mark.parametrize(
    "change",
    [
        {"runPolicy": {"suspend": True, "cleanPodPolicy": "Running", "backoffLimit": 2}},
        {"startPolicy": "Manual"},
        {"recovery": {"maxPlanChanges": 9, "replaceLostWorkers": True}},
        {"queueWeight": 9},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_steers_a_running_job_may_change(api: Api, change: Object) -> None:
    path = started(api, f"steered-{next(iter(change)).lower()}")
    assert api.patch(path, {"spec": change})["spec"].items() >= change.items()


def test_reordered_template_keys_are_no_change(api: Api) -> None:
    template = {"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {"containers": [{"name": "worker", "image": "x"}]}}
    path = started(api, "reordered", {"spec.workers.template": template})
    current = api.get(path)
    body = copy.deepcopy(current)
    body["spec"]["workers"]["template"] = {
        "spec": {"containers": [{"image": "x", "name": "worker"}]},
        "metadata": {"labels": {"b": "2", "a": "1"}},
    }
    assert api.request("PUT", path, body)["metadata"]["generation"] == current["metadata"]["generation"]


def test_status_is_written_through_its_subresource_only(api: Api) -> None:
    api.create(STRICT, job({"metadata.name": "no-status", "status": {"queue": "team-a"}}))
    assert "status" not in api.get(f"{JOBS}/no-status")


def test_unknown_status_fields_are_pruned_and_conditions_merge_by_type(api: Api) -> None:
    path = started(api, "conditions")
    for kind in ("Planned", "Running"):
        condition = {"type": kind, "status": "True", "reason": "Tested"}
        body = {"apiVersion": "hyperscale.dev/v1alpha1", "kind": "GNNTrainingJob", "status": {"conditions": [condition]}}
        api.request("PATCH", f"{path}/status?fieldManager={kind}&force=true", body, "application/apply-patch+yaml")
    api.patch(f"{path}/status", {"status": {"invented": 1}})
    status = api.get(path)["status"]
    assert sorted(condition["type"] for condition in status["conditions"]) == ["Planned", "Running"]
    assert "invented" not in status


def test_kubectl_shows_the_columns_and_knows_the_short_name_and_the_category(
    api: Api, binaries: dict[str, Path], plane: ControlPlane
) -> None:
    path = started(api, "shown")
    status = {
        "conditions": [{"type": "Succeeded", "status": "Unknown", "reason": "Running"}],
        "queue": "team-a",
        "workers": {"planned": 4, "placed": 4, "ready": 3},
        "plan": {
            "id": "0123456789abcdef",
            "planner": "Heuristic",
            "seed": 0,
            "partitions": 4,
            "workers": [{"rank": rank, "node": f"node-{rank}", "gpus": 1, "share": 0.25} for rank in range(4)],
            "predicted": {"epochSeconds": 1.5, "communicationSeconds": 0.5},
            "objective": 1.55,
        },
        "columns": {"ready": "3/4", "epoch": "7/100", "accuracy": "81.3%", "predicted": "1.5s", "measured": "2.5s"},
        "measured": {
            "epoch": 7,
            "epochs": 100,
            "accuracy": 0.8125,
            "epochSeconds": 2.5,
            "phases": [{"phase": "forward", "seconds": 0.0}],
            "busiestPairs": [{"sender": 0, "receiver": 1, "bytes": 2.5e6}],
        },
    }
    api.patch(f"{path}/status", {"status": status})
    stored = api.get(path)["status"]
    assert stored["measured"] == status["measured"], "nothing that a run says of itself is pruned"
    assert judged_status(stored, time.time(), "")[1] == "", "the operator takes this status for its own"
    narrow = kubectl(binaries, plane, "get", "gnntj", "shown").stdout.splitlines()
    assert narrow[0].split() == ["NAME", "STATUS", "PARTITIONS", "WORKERS", "READY", "EPOCH", "ACCURACY", "PLANNER", "PREDICTED", "AGE"]
    assert narrow[1].split()[:9] == ["shown", "Running", "4", "4", "3/4", "7/100", "81.3%", "Heuristic", "1.5s"]
    wide = kubectl(binaries, plane, "get", "gnntj", "shown", "-o", "wide").stdout.splitlines()
    assert wide[0].split() == [*narrow[0].split()[:-1], "MEASURED", "QUEUE", "AGE"]
    assert wide[1].split()[9:11] == ["2.5s", "team-a"]
    assert "gnntrainingjob.hyperscale.dev/shown" in kubectl(binaries, plane, "get", "gnn", "-o", "name").stdout


def test_a_generated_name_that_fits_is_admitted(api: Api) -> None:
    resource = job({"metadata": {"generateName": "a" * 45, "namespace": "default"}})
    assert len(api.create(STRICT, resource)["metadata"]["name"]) == 50
    assert parse_job(resource).workers.max_replicas == 4


def nested(levels: int) -> Object:
    made: Object = {}
    for _ in range(levels):
        made = {"a": made}
    return made


@pytest.mark.parametrize(
    ("template", "path", "words"),
    [
        ({"spec": {"long": "x" * 1_400_000}}, "spec", "larger than 65535 bytes"),
        ({"spec": [0] * 70_000}, "spec.workers.template.spec", "more than 65536 values"),
        (nested(900), "spec.workers.template.a.a.a", "more than 64 levels of nesting"),
    ],
    ids=["1.4 MB", "70,000 values", "900 levels"],
)
def test_a_template_that_no_schema_can_bound_is_refused_by_the_parser(api: Api, template: Object, path: str, words: str) -> None:
    resource = job()
    resource["spec"]["workers"]["template"] = template
    stored = api.create(f"{STRICT}&dryRun=All", resource)
    with pytest.raises(SpecError) as refused:
        parse_job(stored)
    assert refused.value.path.startswith(path)
    assert words in refused.value.message


def test_a_job_of_four_megabytes_is_refused_by_the_server(api: Api) -> None:
    resource = job({"spec.workers.template": {"spec": {"long": "x" * 4_000_000}}})
    with pytest.raises(ApiError) as refused:
        api.create(STRICT, resource)
    assert refused.value.code == 413


GOOD_YAML = """
apiVersion: hyperscale.dev/v1alpha1
kind: GNNTrainingJob
metadata: {name: odd}
spec:
  model: {architecture: GCN}
  dataset: {source: {builtin: {name: Cora}}}
  workers: {minReplicas: 1, maxReplicas: MAX}
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (GOOD_YAML.replace("MAX", "0x0"), "spec.workers.maxReplicas"),
        (GOOD_YAML.replace("MAX", ".nan"), ""),
        (GOOD_YAML.replace("MAX", ".inf"), ""),
        (GOOD_YAML.replace("MAX", "yes"), "spec.workers.maxReplicas"),
        (GOOD_YAML.replace("MAX", "2026-01-01"), "spec.workers.maxReplicas"),
        (GOOD_YAML.replace("MAX", "!!binary AAAA"), "spec.workers.maxReplicas"),
        (GOOD_YAML.replace("MAX", "\x00"), "control characters"),
        (
            "".join(f"x{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9) if i else 'lol'}]\n" for i in range(12)) + GOOD_YAML.replace("MAX", "4"),
            "excessive aliasing",
        ),
    ],
    ids=["hexadecimal zero", "nan", "inf", "yes", "a date", "binary", "a null byte", "alias bomb"],
)
def test_odd_yaml_is_refused_by_kubectl_apply(api: Api, binaries: dict[str, Path], plane: ControlPlane, text: str, words: str) -> None:
    finished = kubectl(binaries, plane, "apply", "-f", "-", text=text)
    assert finished.returncode != 0
    assert words in finished.stderr
    assert "goroutine" not in finished.stderr
    assert api.find(f"{JOBS}/odd") is None


def test_every_crd_is_below_the_size_that_kubectl_apply_can_annotate() -> None:
    sizes = {path.name: path.stat().st_size for path in (REPOSITORY / "crds").glob("*.yaml")}
    assert len(sizes) == 3
    assert max(sizes.values()) < 262_144
