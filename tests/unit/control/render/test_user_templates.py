from __future__ import annotations

from typing import Any

import pytest

from hyperscale.control.render.mpijob import render
from hyperscale.control.render.template import RenderError, worker_node_labels, worker_tolerations
from hyperscale.model import constants
from hyperscale.model.planning import Toleration
from tests.builders.placement import DEFAULTS, job, metadata, plan

SHM = "/dev/shm/"  # noqa: S108 - a mount point


def rendered(role: str, template: dict[str, Any], **fields: Any) -> dict[str, Any]:
    section, needs = ("launcher", {}) if role == "launcher" else ("workers", {"maxReplicas": 4, **fields.pop("workers", {})})
    mpijob = render(metadata(), job(**{section: {**needs, "template": template}}, **fields), plan("a", "b"), DEFAULTS)
    pod: dict[str, Any] = mpijob["spec"]["mpiReplicaSpecs"][role.capitalize()]["template"]
    return pod


def test_what_the_user_wrote_stays() -> None:
    own = {
        "metadata": {"labels": {"team": "x"}, "annotations": {"note": "y"}},
        "spec": {
            "serviceAccountName": "trainer",
            "schedulerName": "kai-scheduler",
            "priorityClassName": "high",
            "tolerations": [{"key": "spot", "operator": "Exists"}],
            "volumes": [{"name": "cache", "emptyDir": {}}],
            "containers": [
                {
                    "name": "worker",
                    "image": "registry.example.com/gnn:1",
                    "command": ["/entry"],
                    "args": ["--fast"],
                    "env": [{"name": "A", "value": "1"}],
                    "volumeMounts": [{"name": "cache", "mountPath": "/cache"}],
                },
            ],
        },
    }
    pod = rendered("worker", own)
    container = pod["spec"]["containers"][0]
    assert pod["metadata"]["labels"]["team"] == "x"
    assert pod["metadata"]["annotations"]["note"] == "y"
    assert (pod["spec"]["serviceAccountName"], pod["spec"]["schedulerName"]) == ("trainer", "kai-scheduler")
    assert (container["image"], container["command"], container["args"]) == ("registry.example.com/gnn:1", ["/entry"], ["--fast"])
    assert {"name": "A", "value": "1"} in container["env"]
    assert "readinessProbe" not in container
    assert [entry["key"] for entry in pod["spec"]["tolerations"]] == ["spot", "nvidia.com/gpu"]


def test_the_users_template_is_not_changed_by_rendering() -> None:
    asked = job(workers={"minReplicas": 1, "maxReplicas": 4, "template": {"spec": {"containers": [{"name": "worker"}]}}})
    render(metadata(), asked, plan("a"), DEFAULTS)
    assert asked.workers.template == {"spec": {"containers": [{"name": "worker"}]}}


def test_the_container_called_worker_comes_first_where_mpi_operator_looks() -> None:
    pod = rendered("worker", {"spec": {"containers": [{"name": "log", "image": "log:1"}, {"name": "worker"}]}})
    assert [container["name"] for container in pod["spec"]["containers"]] == ["worker", "log"]
    assert "nvidia.com/gpu" not in str(pod["spec"]["containers"][1])


def test_the_first_container_is_the_main_one_when_none_is_called_so() -> None:
    pod = rendered("launcher", {"spec": {"containers": [{"name": "main"}, {"name": "log"}]}})
    assert pod["spec"]["containers"][0]["name"] == "main"
    assert "mpirun" in pod["spec"]["containers"][0]["command"]


def test_a_gpu_toleration_is_not_added_twice() -> None:
    pod = rendered("worker", {"spec": {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}})
    assert pod["spec"]["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists"}]


def test_gates_of_others_stay_behind_ours() -> None:
    pod = rendered("worker", {"spec": {"schedulingGates": [{"name": "x.example.com/g"}, {"name": constants.PLACEMENT_GATE}]}})
    assert pod["spec"]["schedulingGates"] == [{"name": constants.PLACEMENT_GATE}, {"name": "x.example.com/g"}]


def test_the_operators_values_beat_the_users() -> None:
    container = {
        "name": "worker",
        "env": [{"name": "HYPERSCALE_JOB", "value": "other"}],
    }
    own = {"metadata": {"labels": {constants.JOB_NAME_LABEL: "other"}}, "spec": {"containers": [container], "nodeSelector": {"pool": "x"}}}
    pod = rendered("worker", own, workers={"maxReplicas": 2}, placement={"nodeSelector": {"pool": "gnn"}})
    found = pod["spec"]["containers"][0]
    assert [entry["value"] for entry in found["env"] if entry["name"] == "HYPERSCALE_JOB"] == ["team-a/cora"]
    assert pod["metadata"]["labels"][constants.JOB_NAME_LABEL] == "cora"
    assert pod["spec"]["nodeSelector"] == {"pool": "gnn"}


def test_a_volume_of_the_users_at_our_place_is_left_there() -> None:
    own = {
        "spec": {
            "containers": [{"name": "worker", "volumeMounts": [{"name": "shm", "mountPath": SHM}]}],
            "volumes": [{"name": "shm", "emptyDir": {}}],
        }
    }
    pod = rendered("worker", own)
    assert [volume["name"] for volume in pod["spec"]["volumes"]] == ["shm", "hyperscale-plan"]


def test_a_preferred_job_keeps_the_users_own_preferences() -> None:
    term = {"weight": 5, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}
    own = {"spec": {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}}}
    pod = rendered("worker", own, placement={"mode": "Preferred"})
    terms = pod["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert terms[0] == term
    assert terms[1]["weight"] == 1


def test_the_planner_can_be_told_what_the_worker_template_asks_of_nodes() -> None:
    own = {"spec": {"nodeSelector": {"b": "2", "a": "1"}, "tolerations": [{"key": "spot", "value": "yes", "effect": "NoSchedule"}]}}
    asked = job(workers={"minReplicas": 1, "maxReplicas": 4, "template": own})
    assert worker_node_labels(asked) == {"a": "1", "b": "2"}
    assert worker_tolerations(asked) == (
        Toleration(key="spot", operator="Equal", value="yes", effect="NoSchedule"),
        Toleration(key="nvidia.com/gpu", operator="Exists"),
    )


def one_container(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "main", **fields}]}}


CAPABILITIES = "spec.containers[0].securityContext.capabilities"
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("an unknown field", {"spce": {}}, "spce"),
    ("a spec that is a list", {"spec": []}, "spec"),
    ("a label that is a number", {"metadata": {"labels": {"a": 1}}}, "metadata.labels.a"),
    ("a name", {"metadata": {"name": "x"}}, "metadata.name"),
    ("containers that are a map", {"spec": {"containers": {}}}, "spec.containers"),
    ("a container that is text", {"spec": {"containers": ["x"]}}, "spec.containers[0]"),
    ("a fixed node", {"spec": {"nodeName": "a"}}, "spec.nodeName"),
    ("a restart policy", {"spec": {"restartPolicy": "Always"}}, "spec.restartPolicy"),
    ("a host name", {"spec": {"hostname": "x"}}, "spec.hostname"),
    ("our volume name", {"spec": {"volumes": [{"name": "ssh-auth", "emptyDir": {}}]}}, "spec.volumes[0].name"),
    ("a host path", {"spec": {"volumes": [{"name": "x", "hostPath": {"path": "/"}}]}}, "spec.volumes[0].hostPath"),
    ("the host's network", {"spec": {"hostNetwork": True}}, "spec.hostNetwork"),
    ("the host's processes", {"spec": {"hostPID": True}}, "spec.hostPID"),
    ("root", {"spec": {"securityContext": {"runAsUser": 0}}}, "spec.securityContext.runAsUser"),
    ("maybe root", {"spec": {"securityContext": {"runAsNonRoot": False}}}, "spec.securityContext.runAsNonRoot"),
    ("no seccomp", {"spec": {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}}, "spec.securityContext.seccompProfile.type"),
    ("an unsafe sysctl", {"spec": {"securityContext": {"sysctls": [{"name": "kernel.msgmax"}]}}}, "spec.securityContext.sysctls[0].name"),
    ("a privileged container", one_container(securityContext={"privileged": True}), "spec.containers[0].securityContext.privileged"),
    ("root in a container", one_container(securityContext={"runAsUser": 0}), "spec.containers[0].securityContext.runAsUser"),
    (
        "a capability",
        one_container(securityContext={"capabilities": {"add": ["SYS_ADMIN"]}}),
        "spec.containers[0].securityContext.capabilities.add",
    ),
    ("the host's /proc", one_container(securityContext={"procMount": "Unmasked"}), "spec.containers[0].securityContext.procMount"),
    ("a host port", one_container(ports=[{"containerPort": 1, "hostPort": 1}]), "spec.containers[0].ports[0].hostPort"),
    (
        "a probe of another host",
        one_container(livenessProbe={"httpGet": {"host": "10.0.0.1", "port": 1}}),
        "spec.containers[0].livenessProbe.httpGet.host",
    ),
    (
        "a hook that calls another host",
        one_container(lifecycle={"preStop": {"httpGet": {"host": "10.0.0.1", "port": 1}}}),
        "spec.containers[0].lifecycle.preStop.httpGet.host",
    ),
    (
        "a Windows host process",
        one_container(securityContext={"windowsOptions": {"hostProcess": True}}),
        "spec.containers[0].securityContext.windowsOptions.hostProcess",
    ),
    ("a foreign SELinux type", {"spec": {"securityContext": {"seLinuxOptions": {"type": "spc_t"}}}}, "spec.securityContext.seLinuxOptions"),
    ("capabilities in words", one_container(securityContext={"capabilities": {"drop": "ALL"}}), CAPABILITIES + ".drop"),
    ("an ephemeral container", {"spec": {"ephemeralContainers": [{"name": "debug"}]}}, "spec.ephemeralContainers"),
    (
        "GPUs for a side container",
        {"spec": {"containers": [{"name": "worker"}, {"name": "x", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}},
        "spec.containers[1].resources.limits",
    ),
    (
        "no AppArmor",
        {"metadata": {"annotations": {"container.apparmor.security.beta.kubernetes.io/worker": "unconfined"}}},
        "metadata.annotations.container.apparmor.security.beta.kubernetes.io/worker",
    ),
]


@pytest.mark.parametrize(("template", "path"), [entry[1:] for entry in REFUSED], ids=[entry[0] for entry in REFUSED])
def test_a_template_is_refused_by_the_path_of_the_field_that_cannot_be_given(template: dict[str, Any], path: str) -> None:
    with pytest.raises(RenderError) as refused:
        rendered("worker", template)
    assert refused.value.path == f"spec.workers.template.{path}"
    assert refused.value.message


def test_a_launcher_gets_no_gpus() -> None:
    with pytest.raises(RenderError) as refused:
        rendered("launcher", one_container(resources={"limits": {"nvidia.com/gpu": 1}}))
    assert refused.value.path == "spec.launcher.template.spec.containers[0].resources.limits"


ASKED = {"limits": {"nvidia.com/gpu": 2, "memory": "8Gi"}, "requests": {"cpu": 2, "nvidia.com/gpu": "2"}}


@pytest.mark.parametrize(
    "own",
    [
        None,
        {},
        {"limits": None, "claims": []},
        {"limits": {"nvidia.com/gpu": "2", "memory": "8192Mi"}},
        {"requests": {"cpu": "2000m", "memory": "8Gi"}},
    ],
    ids=str,
)
def test_the_workers_resources_are_those_of_the_spec_and_the_template_may_repeat_them(own: dict[str, Any] | None) -> None:
    template = {"spec": {"containers": [{"name": "worker", "resources": own}]}}
    pod = rendered("worker", template, workers={"maxReplicas": 2, "resources": ASKED})
    assert pod["spec"]["containers"][0]["resources"] == {"limits": {"nvidia.com/gpu": 2, "memory": "8Gi"}, "requests": {"cpu": "2"}}


@pytest.mark.parametrize(
    ("own", "path", "message"),
    [
        ({"limits": {"nvidia.com/gpu": 8}}, "limits[nvidia.com/gpu]", "differs from spec.workers.resources, which has 2; remove it here"),
        ({"requests": {"memory": "4Gi"}}, "requests[memory]", "differs from spec.workers.resources, which has 8Gi"),
        ({"limits": {"cpu": "2"}}, "limits[cpu]", "is not in spec.workers.resources, which alone decides; write it there instead"),
        ({"limits": {"memory": "lots"}}, "limits[memory]", "is not a quantity"),
        ({"limits": {"nvidia.com/gpu": True}}, "limits[nvidia.com/gpu]", "differs"),
        ({"limits": ["2"]}, "limits", "must be a map"),
        ({"claims": [{"name": "nic"}]}, "claims", "is not in spec.workers.resources, which alone decides; remove it"),
    ],
    ids=str,
)
def test_a_template_that_contradicts_the_resources_of_the_spec_is_refused_with_its_path(
    own: dict[str, Any], path: str, message: str
) -> None:
    with pytest.raises(RenderError) as refused:
        rendered("worker", {"spec": {"containers": [{"name": "worker", "resources": own}]}}, workers={"maxReplicas": 2, "resources": ASKED})
    assert refused.value.path == f"spec.workers.template.spec.containers[0].resources.{path}"
    assert message in refused.value.message
