"""From the API before ADR 9 to this one, on a cluster of its own: the chart refuses until `convert --live` has converted."""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from e2e.cluster.api import Api, Object
from e2e.cluster.control_plane import ControlPlane, start_control_plane, wait_until
from hyperscale.cli import exit_codes
from hyperscale.cli.kube_client import ApiAnswer, KubeClient, NoAnswerError
from hyperscale.spec.convert import convert
from hyperscale.spec.parse import parse_job, parse_policy
from tests.api.conftest import GROUP, REPOSITORY, served
from tests.reference import page_commands, shell
from tests.unit.cli.cli_samples import run

NAMESPACE: Final = "hyperscale-system"
JOBS: Final = f"{GROUP}/namespaces/default/gnntrainingjobs"
POLICIES: Final = f"{GROUP}/plannerpolicies"
LEASE: Final = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
UID: Final = "8a0e6f3c-54c1-4a7e-9d57-0f2c9f3b1d11"
PLANNED: Final[Object] = {
    "model": {"architecture": "GCN", "hyperparameters": {"dropout": 0.5, "patience": 10, "schedule": "cosine"}},
    "dataset": {"source": {"pvc": {"claimName": "graphs"}}, "vertices": 9, "edges": 9, "featureSize": 9, "classes": 9},
    "workers": {"min": 2, "max": 4, "gpusPerWorker": 2, "cpu": "2", "memory": "4Gi"},
    "worker": {"template": {"spec": {"containers": [{"name": "worker", "resources": {"limits": {"rdma/hca": 1}}}]}}},
    "planOnly": True,
    "recovery": {"maxReplans": 0},
}
RUNNING: Final[Object] = {
    "model": {"architecture": "GCN"},
    "dataset": {"source": {"builtin": {"name": "Cora"}}},
    "workers": {"min": 2, "max": 2},
    "checkpoint": {"volumeClaimName": "shared"},
    "runPolicy": {"priority": 3},
}
RUNS: Final[Object] = {
    "phase": "Running",
    "observedGeneration": 1,
    "mpiJobRef": {"name": "running", "uid": UID},
    "replans": 2,
    "stops": 1,
    "lastStop": {"time": "2026-01-01T00:00:00Z", "beneficiaries": ["default/other"], "epochsDone": 7, "waitedSeconds": 30.0},
    "conditions": [
        {
            "type": "Moving",
            "status": "True",
            "reason": "MovingWorkers",
            "message": "1 of 2",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "observedGeneration": 1,
        }
    ],
}
POLICY: Final[Object] = {"replan": {"mode": "Act", "maxMoves": 4}, "queue": {"patience": 3}, "communicationWeight": 0.1}


class Former:
    """A control plane with the former CRDs, two jobs and a policy of theirs."""

    def __init__(self, plane: ControlPlane, binaries: Mapping[str, Path]) -> None:
        self.plane, self.api, self.helm = plane, plane.api(), binaries["helm"]
        for name in ("gnntrainingjobs", "plannerpolicies"):
            crd = yaml.safe_load((REPOSITORY / "tests" / "corpus" / "former" / f"{name}.yaml").read_text(encoding="utf-8"))
            self.api.apply(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}.hyperscale.dev", crd)
            path = JOBS if name == "gnntrainingjobs" else POLICIES
            wait_until(lambda at=path: served(self.api, at), 60.0, f"{name} is not served")  # type: ignore[misc] # a default
        self.api.apply(f"/api/v1/namespaces/{NAMESPACE}", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        self.create("GNNTrainingJob", JOBS, "planned", PLANNED)
        self.create("GNNTrainingJob", JOBS, "running", RUNNING)
        self.api.patch(f"{JOBS}/running/status", {"status": RUNS})
        self.create("PlannerPolicy", POLICIES, "default", POLICY)

    def create(self, kind: str, path: str, name: str, spec: Object) -> None:
        self.api.create(path, {"apiVersion": "hyperscale.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec})

    def objects(self) -> list[Object]:
        return [self.api.get(path) for path in (f"{JOBS}/planned", f"{JOBS}/running", f"{POLICIES}/default")]

    def install(self) -> subprocess.CompletedProcess[str]:
        arguments = ("upgrade", "--install", "hyperscale", str(REPOSITORY / "charts" / "hyperscale"), "--take-ownership")
        command = [str(self.helm), "--kubeconfig", str(self.plane.kubeconfig), "--namespace", NAMESPACE, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def convert(self, *arguments: str) -> Any:
        return run("convert", *arguments, "--kubeconfig", str(self.plane.kubeconfig))


@pytest.fixture
def former(binaries: dict[str, Path], tmp_path: Path) -> Iterator[Former]:
    directory = tmp_path / "control-plane"
    directory.mkdir()
    try:
        world = Former(start_control_plane(directory, binaries), binaries)
        yield world
        world.api.close()
    finally:
        ControlPlane(directory, directory / "kubeconfig", directory / "audit.log").stop()


def plain(resource: Object) -> Object:
    """Without what every write changes."""
    metadata = {key: value for key, value in resource["metadata"].items() if key not in ("resourceVersion", "generation", "managedFields")}
    return {**resource, "metadata": metadata}


def test_an_upgrade_is_refused_while_an_object_has_former_fields_and_changes_nothing(former: Former) -> None:
    before = former.objects()
    refused = former.install()
    assert refused.returncode != 0
    wanted = ("GNNTrainingJob default/planned", "GNNTrainingJob default/running", "PlannerPolicy default", "hyperscale convert --live")
    assert [words for words in wanted if words not in refused.stderr] == []
    checked = former.convert("--check")
    assert checked.code == exit_codes.INFEASIBLE
    assert "GNNTrainingJob default/planned: " in checked.out
    assert "spec.planOnly" in checked.out
    assert former.objects() == before


def test_what_convert_live_has_converted_can_be_upgraded_and_nothing_of_it_is_lost(former: Former, tmp_path: Path) -> None:
    before, backup = former.objects(), tmp_path / "backup"
    live = former.convert("--live", "--backup", str(backup))
    assert live.code == exit_codes.OK, live
    files = ("GNNTrainingJob.default.planned", "GNNTrainingJob.default.running", "PlannerPolicy..default")
    stored = [json.loads((backup / f"{name}.json").read_text(encoding="utf-8")) for name in files]
    assert [(one["spec"], one.get("status")) for one in stored] == [(one["spec"], one.get("status")) for one in before]
    assert [one["spec"] for one in former.objects()] == [convert(one).resource["spec"] for one in before], "as a file is converted"
    assert former.convert("--check").code == exit_codes.OK
    installed = former.install()
    assert installed.returncode == 0, installed.stderr
    wait_until(lambda: closed(former.api), 60.0, "the CRDs of the chart are not in force")
    check_upgraded(*former.objects())


def check_upgraded(planned: Object, running: Object, policy: Object) -> None:
    """The former objects, under the CRDs of today."""
    assert str(parse_job(planned).start_policy) == "Never"
    assert parse_job(planned).workers.resources.limits == {"nvidia.com/gpu": "2", "memory": "4Gi", "rdma/hca": "1"}
    assert parse_job(running).queue_weight == 3
    status = running["status"]
    assert (status["planChanges"], status["preemptions"], status["lastPreemption"]["completedEpochs"]) == (2, 1, 7)
    assert status["observedGeneration"] == running["metadata"]["generation"]
    assert [condition["type"] for condition in status["conditions"]] == ["Migrating"]
    assert str(parse_policy(policy).migration.mode) == "Automatic"


def closed(api: Api) -> bool:
    """Whether unknown fields are dropped again."""
    probe = {"apiVersion": "hyperscale.dev/v1alpha1", "kind": "PlannerPolicy", "metadata": {"name": "probe"}, "spec": {"probe": 1}}
    return "probe" not in api.create(f"{POLICIES}?dryRun=All", probe)["spec"]


def test_a_conversion_that_is_cut_off_anywhere_is_completed_by_the_next_one(
    former: Former, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = [convert(one).resource for one in former.objects()]
    request = KubeClient.request
    left = [0]

    def cut_off(self: KubeClient, path: str, *arguments: Any, method: str = "GET", **named: Any) -> ApiAnswer:
        if method == "PUT" and path.startswith(GROUP):
            if not left[0]:
                raise NoAnswerError(0, "cut off")
            left[0] -= 1
        return request(self, path, *arguments, method=method, **named)

    monkeypatch.setattr(KubeClient, "request", cut_off)
    codes = []
    for _ in range(12):
        left[0] = 1
        codes.append(former.convert("--live", "--backup", str(tmp_path / "backup")).code)
        if codes[-1] == exit_codes.OK:
            break
    assert len(codes) > 2
    assert (set(codes[:-1]), codes[-1]) == ({exit_codes.BAD_INPUT}, exit_codes.OK)
    found = former.objects()
    assert [told(one) for one in found] == [told(one) for one in wanted]
    assert found[1]["status"]["observedGeneration"] == found[1]["metadata"]["generation"]


def told(resource: Object) -> tuple[Object, Object]:
    """Spec and status, without the generations that conversions raise."""
    status = copy.deepcopy(resource.get("status") or {})
    for holder in (status, *status.get("conditions", ())):
        holder.pop("observedGeneration", None)
    return resource["spec"], status


def test_nothing_is_converted_while_an_operator_holds_its_lease(former: Former, tmp_path: Path) -> None:
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    spec = {"holderIdentity": "pod-a", "leaseDurationSeconds": 60, "renewTime": now}
    former.api.create(
        LEASE, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "hyperscale-operator"}, "spec": spec}
    )
    before = former.objects()
    refused = former.convert("--live", "--backup", str(tmp_path / "backup"))
    assert refused.code == exit_codes.BAD_INPUT
    assert f"kubectl -n {NAMESPACE} scale deployment hyperscale --replicas=0" in refused.err
    assert former.objects() == before
    assert not (tmp_path / "backup").exists()


def test_a_backup_of_another_cluster_is_never_overwritten(former: Former, tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    backup.mkdir()
    (backup / "PlannerPolicy..default.json").write_text('{"metadata": {"uid": "other"}}')
    before = former.objects()
    refused = former.convert("--live", "--backup", str(backup))
    assert refused.code == exit_codes.BAD_INPUT
    assert "name an empty folder" in refused.err
    assert [plain(one) for one in former.objects()] == [plain(one) for one in before]


DEPLOYMENT: Final[Object] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "hyperscale"},
    "spec": {
        "selector": {"matchLabels": {"app": "former"}},
        "template": {"metadata": {"labels": {"app": "former"}}, "spec": {"containers": [{"name": "operator", "image": "former"}]}},
    },
}


def test_the_commands_of_the_upgrade_page_convert_and_upgrade(former: Former, binaries: dict[str, Path], tmp_path: Path) -> None:
    deployments = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
    former.api.create(deployments, DEPLOYMENT)
    folder = tmp_path / "repository"
    folder.mkdir()
    shell.prepare(folder, binaries)
    check, scale, convert_live, upgrade = page_commands.FORMER
    assert "spec.planOnly" in shell.run(folder, former.plane.kubeconfig, check, page_commands.FORMER[check])
    shell.run(folder, former.plane.kubeconfig, scale, page_commands.FORMER[scale])
    assert former.api.get(f"{deployments}/hyperscale")["spec"]["replicas"] == 0
    former.api.delete(f"{deployments}/hyperscale")  # the former release would replace it; here it is of none
    shell.run(folder, former.plane.kubeconfig, convert_live, page_commands.FORMER[convert_live])
    shell.run(folder, former.plane.kubeconfig, upgrade, page_commands.FORMER[upgrade])
    wait_until(lambda: closed(former.api), 60.0, "the CRDs of the chart are not in force")
    check_upgraded(*former.objects())
