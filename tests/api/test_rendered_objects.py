"""What is rendered meets the real API server: Pod Security admission, schemas, and the rules for gated pods."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from e2e.cluster.api import Api, ApiError
from e2e.cluster.control_plane import wait_until
from hyperscale.control.render.mpijob import launcher_pod_for_dry_run, render, worker_pod_for_dry_run
from hyperscale.control.render.release import launcher_release_patch, release_patch
from hyperscale.model.api.job import JobSpec, PlacementMode
from hyperscale.model.plan import Plan
from hyperscale.observe.kube.fields import pod_view
from tests.api.conftest import served
from tests.builders.placement import DEFAULTS, job, metadata, plan

PODS = "/api/v1/namespaces/team-a/pods"
MPIJOBS = "/apis/kubeflow.org/v2beta1/namespaces/team-a/mpijobs"
PLAN = plan("node-a", "node-b")

TEMPLATES: dict[str, dict[str, Any]] = {
    "none": {},
    "tolerations and a side container": {
        "metadata": {"labels": {"team": "x"}},
        "spec": {
            "tolerations": [{"key": "spot", "operator": "Exists"}],
            "initContainers": [{"name": "fetch", "image": "fetch:1"}],
            "containers": [{"name": "main", "image": "x:1", "command": ["sleep"]}, {"name": "log", "image": "log:1"}],
            "volumes": [{"name": "cache", "emptyDir": {}}],
        },
    },
}
SOURCES: list[dict[str, Any]] = [
    {"builtin": {"name": "Cora"}},
    {"persistentVolumeClaim": {"claimName": "graphs"}},
    {"configMap": {"name": "small"}},
    {"s3": {"bucket": "graphs", "endpoint": "http://minio:9000", "secretRef": {"name": "keys"}}},
]
JOBS = [
    job(
        dataset={"source": source, "path": "papers", "vertices": 9, "edges": 9, "featureSize": 9, "classes": 9},
        placement={"mode": mode, "nodeSelector": {"pool": "gnn"}, "topology": {"required": "rack"}},
        workers={"maxReplicas": 4, "resources": {"limits": {"memory": "1Gi"}, "requests": {"cpu": "500m"}}, "template": template},
        checkpoint={"claimName": "saves"},
        launcher={"template": template},
    )
    for mode, source, template in itertools.product(("Strict", "Preferred", "Advisory"), SOURCES, TEMPLATES.values())
]


@pytest.fixture(scope="module")
def team(api: Api, binaries: dict[str, Path]) -> Iterator[Api]:
    """A namespace that enforces the restricted level, with the MPIJob kind served."""
    definition = binaries["mpi-operator"].with_name("kubeflow.org_mpijobs.yaml")
    crd = yaml.safe_load(definition.read_text(encoding="utf-8"))
    api.apply(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd['metadata']['name']}", crd)
    labels = {"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/enforce-version": "latest"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a", "labels": labels}}
    api.apply("/api/v1/namespaces/team-a", namespace)
    api.apply(
        "/api/v1/namespaces/team-a/serviceaccounts/default",
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "team-a"}},
    )
    wait_until(lambda: served(api, MPIJOBS), 60.0, "MPIJobs are not served")
    yield api
    for collection in (PODS, MPIJOBS):
        for entry in api.items(collection):
            api.delete(f"{collection}/{entry['metadata']['name']}", gracePeriodSeconds="0")


def _lost(written: Any, stored: Any, path: str) -> Iterator[str]:
    """Paths of what was written and is not there; what the server adds by default is fine."""
    if isinstance(written, dict) and isinstance(stored, dict):
        for key, value in written.items():
            yield from _lost(value, stored.get(key), f"{path}.{key}")
    elif isinstance(written, list) and isinstance(stored, list) and len(written) == len(stored):
        for index, value in enumerate(written):
            yield from _lost(value, stored[index], f"{path}[{index}]")
    elif written != stored:
        yield f"{path}: {written!r} became {stored!r}"


def test_a_namespace_that_enforces_restricted_takes_every_rendered_pod(team: Api) -> None:
    for asked in JOBS:
        for chosen in (PLAN, None):
            mpijob = render(metadata(), asked, chosen, DEFAULTS)
            for pod in (worker_pod_for_dry_run(mpijob), launcher_pod_for_dry_run(mpijob)):
                team.create(f"{PODS}?dryRun=All", pod)


def test_that_namespace_does_enforce_it(team: Api) -> None:
    pod = worker_pod_for_dry_run(render(metadata(), job(), PLAN, DEFAULTS))
    pod["spec"]["containers"][0]["securityContext"]["capabilities"] = {}
    with pytest.raises(ApiError, match="violates PodSecurity"):
        team.create(f"{PODS}?dryRun=All", pod)


@pytest.mark.parametrize("labels", [{}, {"kueue.x-k8s.io__queue-name": "gold"}])
def test_the_mpijob_is_stored_as_it_was_rendered(team: Api, labels: dict[str, str]) -> None:
    for asked in JOBS:
        rendered = render(metadata(**labels), asked, PLAN, DEFAULTS)
        stored = team.request(
            "PATCH", f"{MPIJOBS}/cora?fieldManager=hyperscale&force=true&dryRun=All", rendered, "application/apply-patch+yaml"
        )
        assert list(_lost(rendered["spec"], stored["spec"], "spec")) == []
        assert stored["metadata"]["ownerReferences"] == rendered["metadata"]["ownerReferences"]


def gated_pod(
    team: Api, asked: JobSpec, chosen: Plan = PLAN, role: str = "worker", selector: dict[str, str] | None = None
) -> dict[str, Any]:
    """A real gated pod, made as mpi-operator would."""
    mpijob = render(metadata(), asked, chosen, DEFAULTS)
    pod = worker_pod_for_dry_run(mpijob) if role == "worker" else launcher_pod_for_dry_run(mpijob)
    if selector:
        pod["spec"].setdefault("nodeSelector", {}).update(selector)
    name = pod["metadata"]["name"] = pod["spec"]["hostname"]
    team.delete(f"{PODS}/{name}", gracePeriodSeconds="0")
    return team.create(PODS, pod)


@pytest.mark.parametrize("selector", [{}, {"pool": "gnn"}])
def test_a_strict_rank_is_released_onto_its_host(team: Api, selector: dict[str, str]) -> None:
    asked = job(placement={"nodeSelector": selector})
    pod = gated_pod(team, asked)
    released = team.patch(f"{PODS}/cora-worker-0", release_patch(pod_view(pod), "host-7", PlacementMode.STRICT))
    assert "schedulingGates" not in released["spec"]
    assert released["spec"]["nodeSelector"] == selector | {"kubernetes.io/hostname": "host-7"}


def test_a_preferred_rank_is_released_towards_its_host(team: Api) -> None:
    pod = gated_pod(team, job(placement={"mode": "Preferred"}))
    released = team.patch(f"{PODS}/cora-worker-0", release_patch(pod_view(pod), "host-7", PlacementMode.PREFERRED))
    terms = released["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert [term["weight"] for term in terms] == [100, 1]
    assert "host-7" in str(terms[0])
    assert "schedulingGates" not in released["spec"]


def test_a_rank_whose_host_a_queue_has_chosen_is_released_there(team: Api) -> None:
    pod = gated_pod(team, job(), selector={"kubernetes.io/hostname": "host-2"})
    released = team.patch(f"{PODS}/cora-worker-0", release_patch(pod_view(pod), "host-7", PlacementMode.STRICT))
    assert released["spec"]["nodeSelector"] == {"kubernetes.io/hostname": "host-2"}


def test_a_patch_for_a_pod_that_was_released_already_changes_nothing(team: Api) -> None:
    view = pod_view(gated_pod(team, job()))
    team.patch(f"{PODS}/cora-worker-0", release_patch(view, "host-7", PlacementMode.STRICT))
    with pytest.raises(ApiError) as refused:
        team.patch(f"{PODS}/cora-worker-0", release_patch(view, "host-8", PlacementMode.STRICT))
    assert refused.value.code == 422
    assert team.get(f"{PODS}/cora-worker-0")["spec"]["nodeSelector"] == {"kubernetes.io/hostname": "host-7"}


def test_a_patch_for_a_pod_that_was_replaced_changes_nothing(team: Api) -> None:
    old = pod_view(gated_pod(team, job()))
    gated_pod(team, job())
    with pytest.raises(ApiError) as refused:
        team.patch(f"{PODS}/cora-worker-0", release_patch(old, "host-7", PlacementMode.STRICT))
    assert refused.value.code in (409, 422)
    assert team.get(f"{PODS}/cora-worker-0")["spec"]["schedulingGates"]


def test_a_selector_that_a_queue_wrote_meanwhile_is_not_overwritten(team: Api) -> None:
    """The patch was made for a pod without selectors; replacing the map would take the queue's choice away."""
    view = pod_view(gated_pod(team, job()))
    gated = team.patch(f"{PODS}/cora-worker-0", {"spec": {"nodeSelector": {"pool": "kq"}}})
    assert gated["spec"]["nodeSelector"] == {"pool": "kq"}
    with pytest.raises(ApiError) as refused:
        team.patch(f"{PODS}/cora-worker-0", release_patch(view, "host-7", PlacementMode.STRICT))
    assert refused.value.code == 422
    assert team.get(f"{PODS}/cora-worker-0")["spec"]["schedulingGates"]


def test_the_launcher_is_released_anywhere(team: Api) -> None:
    pod = gated_pod(team, job(), role="launcher")
    released = team.patch(f"{PODS}/cora-launcher", launcher_release_patch(pod_view(pod)))
    assert "schedulingGates" not in released["spec"]
    assert "nodeSelector" not in released["spec"]


def test_a_plan_of_a_thousand_ranks_is_taken(team: Api) -> None:
    wide = plan(*(f"gpu-pool-7-node-{index:05d}.eu-west.example.com" for index in range(1000)))
    rendered = render(metadata(), job(workers={"maxReplicas": 1000}), replace(wide, reasons=("x" * 500,) * 16), DEFAULTS)
    team.create(f"{MPIJOBS}?dryRun=All", rendered)
