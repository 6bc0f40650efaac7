from __future__ import annotations

from typing import Any

import pytest

from hyperscale.observe.kube.demand import pod_demand
from hyperscale.observe.kube.fields import pod_view, requested_by_node
from tests.unit.observe.objects import raw_pod

GPU = "nvidia.com/gpu"


def container(**requests: str) -> dict[str, Any]:
    return {"resources": {"requests": {GPU if name == "gpu" else name: amount for name, amount in requests.items()}}}


def sidecar(**requests: str) -> dict[str, Any]:
    return {**container(**requests), "restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("spec", "gpus", "cores"),
    [
        pytest.param({"containers": [container(gpu="2", cpu="500m"), container(gpu="1", cpu="1")]}, 3, 1.5, id="containers add up"),
        pytest.param(
            {"containers": [container(gpu="1")], "initContainers": [container(gpu="4", cpu="8")]}, 4, 8, id="the largest init container"
        ),
        pytest.param(
            {"containers": [container(cpu="2")], "initContainers": [container(cpu="1"), container(cpu="1")]},
            0,
            2,
            id="init containers run in turn",
        ),
        pytest.param(
            {"containers": [container(cpu="2")], "initContainers": [sidecar(cpu="1")]}, 0, 3, id="a sidecar runs beside the containers"
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "initContainers": [sidecar(cpu="1"), container(cpu="4")]},
            0,
            5,
            id="and beside later init containers",
        ),
        pytest.param({"containers": [{"resources": {"limits": {GPU: "8"}}}]}, 8, 0, id="limits alone"),
        pytest.param({"containers": [container(cpu="1")], "overhead": {"cpu": "250m"}}, 0, 1.25, id="overhead of the runtime class"),
        pytest.param({"containers": [container(cpu="1")], "resources": {"requests": {"cpu": "3"}}}, 0, 3, id="pod-level requests"),
        pytest.param({"containers": [{}]}, 0, 0, id="nothing asked for"),
        pytest.param({}, 0, 0, id="no containers"),
    ],
)
def test_a_pod_holds_what_the_scheduler_reckons(spec: dict[str, Any], gpus: int, cores: float) -> None:
    demand = pod_demand(spec)
    assert (demand.get(GPU, 0), demand.get("cpu", 0)) == (gpus, cores)


def test_mig_slices_are_not_gpus_but_are_noted() -> None:
    pod = raw_pod("p")
    pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/mig-1g.5gb": "2"}}
    view = pod_view(pod)
    assert (view.gpus, view.mig_devices) == (0, 2)


def test_a_gated_worker_of_an_mpijob_shows_its_rank_and_gates() -> None:
    pod = raw_pod(
        "job-worker-3",
        gpus=2,
        phase="Pending",
        labels={
            "training.kubeflow.org/job-name": "job",
            "training.kubeflow.org/job-role": "worker",
            "training.kubeflow.org/replica-index": "3",
            "app": "not kept",
        },
        ownerReferences=[{"kind": "Other", "uid": "no", "name": "o"}, {"kind": "MPIJob", "uid": "u1", "name": "job", "controller": True}],
        creationTimestamp="2026-01-01T00:00:00Z",
    )
    pod["spec"]["schedulingGates"] = [{"name": "hyperscale.dev/placement"}, {"name": "kueue.x-k8s.io/topology"}]
    pod["spec"]["nodeSelector"] = {"zone": "a"}
    view = pod_view(pod)
    assert (view.job_name, view.role, view.index, view.gpus) == ("job", "worker", 3, 2)
    assert view.gates == ("hyperscale.dev/placement", "kueue.x-k8s.io/topology")
    assert (view.owner_uid, view.owner_kind) == ("u1", "MPIJob")
    assert "app" not in view.labels
    assert view.node_selector == {"zone": "a"}
    assert (view.key, view.bound, view.holds_resources, view.ready, view.terminating) == ("ml/job-worker-3", False, False, False, False)


@pytest.mark.parametrize(("index", "rank"), [("0", 0), ("12", 12), ("", None), ("x", None), ("-1", None), ("²", None), ("9" * 12, None)])
def test_a_rank_that_is_no_number_is_none(index: str, rank: int | None) -> None:
    labels = {"training.kubeflow.org/job-role": "worker", "training.kubeflow.org/replica-index": index}
    assert pod_view(raw_pod("p", labels=labels)).index == rank


def test_a_launcher_that_works_too_has_no_rank_of_a_worker() -> None:
    labels = {"training.kubeflow.org/job-role": "launcher", "training.kubeflow.org/replica-index": "0"}
    assert (pod_view(raw_pod("p", labels=labels)).role, pod_view(raw_pod("p", labels=labels)).index) == ("launcher", None)


def test_the_message_of_an_unschedulable_pod_is_kept_and_that_of_a_gated_one_is_not() -> None:
    pod = raw_pod("p", phase="Pending")
    pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}]
    assert pod_view(pod).unschedulable == "0/3 nodes"
    pod["status"]["conditions"][0]["reason"] = "SchedulingGated"
    assert pod_view(pod).unschedulable == ""


def test_an_empty_object_is_a_pod_without_anything() -> None:
    view = pod_view({})
    assert (view.name, view.node, view.phase, view.gpus, view.index) == ("", "", "Pending", 0, None)


def test_terminating_pods_hold_their_gpus_and_finished_ones_do_not() -> None:
    pods = [
        pod_view(raw_pod("runs", node="a", gpus=1)),
        pod_view(raw_pod("ends", node="a", gpus=2, deletionTimestamp="2026-01-01T00:00:00Z")),
        pod_view(raw_pod("done", node="a", gpus=4, phase="Succeeded")),
        pod_view(raw_pod("broke", node="a", gpus=4, phase="Failed")),
        pod_view(raw_pod("waits", gpus=4, phase="Pending")),
        pod_view(raw_pod("lost", node="b", gpus=1, phase="Unknown")),
    ]
    held = requested_by_node(pods)
    assert {node: amounts[GPU] for node, amounts in held.items()} == {"a": 3, "b": 1}
