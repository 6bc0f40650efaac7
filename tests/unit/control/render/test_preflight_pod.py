"""What a preflight's pod gets of a worker, and what it does not."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from hyperscale.control.render.pod import worker_template
from hyperscale.control.render.preflight_pod import DEADLINE_SECONDS, network_policy, preflight_job, trial_pod
from hyperscale.control.render.template import RenderError
from hyperscale.spec.parse import parse_job
from tests.builders.placement import DEFAULTS, job, metadata

STORED: Final = {
    "source": {"persistentVolumeClaim": {"claimName": "graphs"}},
    "path": "own.npz",
    "format": "NPZ",
    "vertices": 2708,
    "edges": 10556,
    "featureSize": 1433,
    "classes": 7,
}
SIZED: Final = {name: STORED[name] for name in ("path", "format", "vertices", "edges", "featureSize", "classes")}


def bucket(**s3: Any) -> dict[str, Any]:
    return {"source": {"s3": {"bucket": "graphs", **s3}}, **SIZED}


def made(template: dict[str, Any] | None = None, workers: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """The Job of a job with this worker template."""
    asked = {"maxReplicas": 2, "template": template or {}, **(workers or {})}
    return preflight_job(metadata(), job(**{"preflight": "Require", "workers": asked, **fields}), DEFAULTS)


def pod_of(*arguments: Any, **fields: Any) -> dict[str, Any]:
    spec: dict[str, Any] = made(*arguments, **fields)["spec"]["template"]["spec"]
    return spec


def egress(dataset: dict[str, Any]) -> list[dict[str, Any]]:
    rules: list[dict[str, Any]] = network_policy(metadata(), job(dataset=dataset, preflight="Require"))["spec"]["egress"]
    return rules


def test_the_pod_ends_is_tried_once_and_goes_with_its_job() -> None:
    spec = made()["spec"]
    assert (spec["backoffLimit"], spec["activeDeadlineSeconds"], spec["ttlSecondsAfterFinished"]) == (0, DEADLINE_SECONDS, 3600)
    assert made()["metadata"]["ownerReferences"][0]["uid"] == metadata().uid
    assert spec["template"]["spec"]["restartPolicy"] == "Never"
    (rule,) = spec["podFailurePolicy"]["rules"]
    assert (rule["action"], rule["onPodConditions"][0]["type"]) == ("Ignore", "DisruptionTarget")


def test_the_pod_is_restricted_and_can_write_to_its_scratch_folders_only() -> None:
    pod = pod_of(dataset=STORED, checkpoint={"claimName": "state"})
    (container,) = pod["containers"]
    context = container["securityContext"]
    assert context["readOnlyRootFilesystem"]
    assert (context["privileged"], context["allowPrivilegeEscalation"], context["capabilities"]) == (False, False, {"drop": ["ALL"]})
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    writable = {mount["mountPath"]: volumes[mount["name"]] for mount in container["volumeMounts"] if not mount.get("readOnly")}
    assert set(writable) == {"/dev/shm", "/tmp", "/checkpoints", "/preflight"}  # noqa: S108 - mount points
    assert all("emptyDir" in volume or "downwardAPI" in volume for volume in writable.values())
    assert writable["/tmp"]["emptyDir"]["sizeLimit"]  # noqa: S108 - a mount point


@pytest.mark.parametrize("own", [{"readOnlyRootFilesystem": False}, {}])
def test_a_template_cannot_make_the_root_writable(own: dict[str, Any]) -> None:
    pod = pod_of(
        {"spec": {"initContainers": [{"name": "fetch", "image": "i:1"}], "containers": [{"name": "worker", "securityContext": own}]}}
    )
    for container in (*pod["containers"], *pod["initContainers"]):
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert container["resources"]["limits"]["memory"]


def test_data_is_mounted_as_workers_mount_it() -> None:
    fields: dict[str, Any] = {"dataset": STORED, "preflight": "Require"}
    ours, theirs = pod_of(**fields), worker_template(metadata(), job(**fields), None, DEFAULTS)["spec"]

    def data(pod: dict[str, Any]) -> list[Any]:
        container = pod["containers"][0]
        return [
            [volume for volume in pod["volumes"] if volume["name"] == "hyperscale-dataset"],
            [mount for mount in container["volumeMounts"] if mount["name"] == "hyperscale-dataset"],
            [entry for entry in container["env"] if entry["name"].startswith("HYPERSCALE_DATASET")],
        ]

    assert data(ours) == data(theirs)
    assert ours["containers"][0]["command"][-2:] == ["--data", "/data"]


def test_without_a_volume_of_data_the_program_is_given_none() -> None:
    assert "--data" not in pod_of()["containers"][0]["command"]
    assert "--data" not in pod_of(dataset=bucket())["containers"][0]["command"]


def test_the_program_reads_the_job_from_a_file_that_the_cluster_s_own_rules_accept() -> None:
    fields: dict[str, Any] = {
        "dataset": STORED,
        "workers": {"maxReplicas": 2, "gpuMemory": "24Gi", "resources": {"limits": {"memory": "8Gi"}}},
        "placement": {"communicationWeight": "0.5"},
        "model": {"architecture": "GraphSAGE", "fanouts": [10, 5], "batchSize": 64, "hyperparameters": {"learningRate": "0.01"}},
    }
    template = preflight_job(metadata(), job(preflight="Require", **fields), DEFAULTS)["spec"]["template"]
    document = json.loads(template["metadata"]["annotations"]["hyperscale.dev/preflight-spec"])
    assert parse_job(document) == job(preflight="Require", **fields)
    (item,) = next(volume for volume in template["spec"]["volumes"] if volume["name"] == "hyperscale-preflight")["downwardAPI"]["items"]
    command = template["spec"]["containers"][0]["command"]
    assert command[command.index("--spec") + 1] == f"/preflight/{item['path']}"
    assert item["fieldRef"]["fieldPath"] == "metadata.annotations['hyperscale.dev/preflight-spec']"


def test_a_template_is_not_repeated_in_the_file() -> None:
    template = made({"metadata": {"annotations": {"note": "x" * 1000}}})["spec"]["template"]
    assert "x" * 1000 not in template["metadata"]["annotations"]["hyperscale.dev/preflight-spec"]


def test_limits_are_a_workers_without_its_devices() -> None:
    resources = {"limits": {"nvidia.com/gpu": 4, "rdma/hca": 1, "memory": "64Gi", "cpu": 16}, "requests": {"cpu": 8, "memory": "32Gi"}}
    (container,) = pod_of(None, {"resources": resources})["containers"]
    assert container["resources"] == {"limits": {"cpu": "16", "memory": "64Gi"}, "requests": {"cpu": "8", "memory": "32Gi"}}


@pytest.mark.parametrize("requests", [{}, {"cpu": "8"}, {"memory": "512Gi"}, {"cpu": "100m", "memory": "1Gi"}])
def test_a_job_without_limits_gets_some_and_none_is_below_its_request(requests: dict[str, str]) -> None:
    (container,) = pod_of(None, {"resources": {"requests": requests}}, dataset=STORED)["containers"]
    found = container["resources"]
    assert set(found["limits"]) == {"cpu", "memory"}
    assert found["requests"].items() >= requests.items()
    assert found["limits"]["cpu"] == max(requests.get("cpu", "4"), "4") if requests.get("cpu") != "100m" else "4"
    assert found["limits"]["memory"] == "512Gi" if requests.get("memory") == "512Gi" else found["limits"]["memory"].endswith("Mi")


def test_an_author_keeps_account_image_nodes_and_pull_secrets() -> None:
    own = {
        "spec": {
            "serviceAccountName": "trainer",
            "imagePullSecrets": [{"name": "registry"}],
            "tolerations": [{"key": "spot", "operator": "Exists"}],
            "containers": [{"name": "worker", "image": "registry.example.com/gnn:1"}, {"name": "log", "image": "log:1"}],
        }
    }
    pod = pod_of(own, placement={"nodeSelector": {"pool": "gnn"}})
    assert (pod["serviceAccountName"], pod["nodeSelector"]) == ("trainer", {"pool": "gnn"})
    assert (pod["imagePullSecrets"], pod["tolerations"]) == ([{"name": "registry"}], [{"key": "spot", "operator": "Exists"}])
    assert [container["image"] for container in pod["containers"]] == ["registry.example.com/gnn:1"]


def test_no_secret_of_the_template_reaches_the_pod() -> None:
    secret = {"name": "token", "valueFrom": {"secretKeyRef": {"name": "wandb", "key": "token"}}}
    worker = {
        "name": "worker",
        "env": [secret, {"name": "A", "value": "1"}],
        "envFrom": [{"secretRef": {"name": "more"}}, {"configMapRef": {"name": "settings"}}],
        "volumeMounts": [{"name": name, "mountPath": f"/{name}"} for name in ("keys", "token", "vault", "cache")],
    }
    volumes = [
        {"name": "keys", "secret": {"secretName": "keys"}},
        {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
        {"name": "vault", "csi": {"driver": "secrets-store.csi.k8s.io"}},
        {"name": "cache", "emptyDir": {}},
    ]
    init = {"name": "fetch", "image": "i:1", "env": [secret], "volumeMounts": [{"name": "keys", "mountPath": "/keys"}]}
    own = {"spec": {"automountServiceAccountToken": True, "initContainers": [init], "volumes": volumes, "containers": [worker]}}
    pod = pod_of(own)
    text = json.dumps(pod)
    assert not any(word in text for word in ("wandb", '"more"', "secretName", 'serviceAccountToken"', "secrets-store", "/keys"))
    assert pod["automountServiceAccountToken"] is False
    (container,) = pod["containers"]
    assert container["envFrom"] == [{"configMapRef": {"name": "settings"}}]
    assert {"name": "A", "value": "1"} in container["env"]
    assert {"name": "cache", "mountPath": "/cache"} in container["volumeMounts"]


def test_the_secret_of_a_bucket_stays_by_reference() -> None:
    own = {
        "spec": {"containers": [{"name": "worker", "env": [{"name": "K", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "k"}}}]}]}
    }
    (container,) = pod_of(own, dataset=bucket(secretRef={"name": "keys"}))["containers"]
    assert container["envFrom"] == [{"secretRef": {"name": "keys"}}]
    assert [entry["name"] for entry in container["env"] if "valueFrom" in entry] == ["K"]


def test_volumes_of_the_template_are_read_only() -> None:
    own = {"spec": {"volumes": [{"name": "home", "persistentVolumeClaim": {"claimName": "home"}}]}}
    home = next(volume for volume in pod_of(own)["volumes"] if volume["name"] == "home")
    assert home["persistentVolumeClaim"] == {"claimName": "home", "readOnly": True}


def test_an_init_container_with_gpus_is_refused_as_for_workers() -> None:
    own = {"spec": {"initContainers": [{"name": "i", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}
    with pytest.raises(RenderError, match="initContainers"):
        made(own)


def test_the_pod_that_is_tried_first_is_the_one_that_the_job_makes() -> None:
    rendered = made()
    pod = trial_pod(rendered)
    assert pod["spec"] == rendered["spec"]["template"]["spec"]
    assert pod["metadata"]["namespace"] == metadata().namespace
    assert pod["metadata"]["labels"] == rendered["spec"]["template"]["metadata"]["labels"]


@pytest.mark.parametrize("dataset", [STORED, {"source": {"builtin": {"name": "Cora"}}}], ids=["volume", "builtin"])
def test_without_a_bucket_the_pod_reaches_nothing(dataset: dict[str, Any]) -> None:
    assert egress(dataset) == []


def test_the_policy_selects_the_preflight_of_this_very_job() -> None:
    policy = network_policy(metadata(), job(preflight="Require"))["spec"]
    labels = made()["spec"]["template"]["metadata"]["labels"]
    selected = policy["podSelector"]["matchLabels"]
    assert selected.items() <= labels.items()
    assert selected["hyperscale.dev/job-uid"] == metadata().uid
    assert selected["app.kubernetes.io/component"] == "preflight"
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert "ingress" not in policy


@pytest.mark.parametrize(
    ("endpoint", "cidr", "port"),
    [("https://10.0.0.5:9000", "10.0.0.5/32", 9000), ("http://10.0.0.5", "10.0.0.5/32", 80)],
)
def test_an_address_of_data_is_all_that_is_open(endpoint: str, cidr: str, port: int) -> None:
    assert egress(bucket(endpoint=endpoint)) == [{"to": [{"ipBlock": {"cidr": cidr}}], "ports": [{"protocol": "TCP", "port": port}]}]


@pytest.mark.parametrize(
    ("s3", "port"),
    [
        ({}, 443),
        ({"endpoint": "http://minio.data.svc:9000"}, 9000),
        ({"endpoint": "https://s3.example.com"}, 443),
        ({"endpoint": "http://x:99999"}, 80),
    ],
    ids=["AWS", "in the cluster", "elsewhere", "no port"],
)
def test_a_named_endpoint_opens_its_port_and_dns_in_the_cluster(s3: dict[str, Any], port: int) -> None:
    dns, data = egress(bucket(**s3))
    assert {entry["port"] for entry in dns["ports"]} == {53, 5353}
    assert dns["to"][0] == {"namespaceSelector": {}}
    assert data == {"ports": [{"protocol": "TCP", "port": port}]}
