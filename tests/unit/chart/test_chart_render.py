"""What the chart renders, and what it refuses."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperscale.control import settings
from hyperscale.model import constants
from hyperscale.observe.prometheus.credentials import Access

Render = Any
ROOT = Path(__file__).resolve().parents[3]

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown key": ({"replicaCount": 2}, "replicaCount"),
    "an unknown nested key": ({"prometheus": {"uri": "http://p"}}, "uri"),
    "a URL without scheme": ({"prometheus": {"url": "prometheus:9090"}}, "/prometheus/url"),
    "a URL with credentials": ({"prometheus": {"url": "http://user:secret@prometheus"}}, "/prometheus/url"),
    "a privileged metrics port": ({"metrics": {"port": 80}}, "/metrics/port"),
    "the health port as metrics port": ({"metrics": {"port": 8080}}, "/metrics/port"),
    "a port above the range": ({"networkPolicy": {"apiServer": {"ports": [70000]}}}, "/networkPolicy/apiServer/ports/0"),
    "no port of the API server": ({"networkPolicy": {"apiServer": {"ports": []}}}, "/networkPolicy/apiServer/ports"),
    "a namespace in capitals": ({"watchNamespaces": ["Team"]}, "/watchNamespaces/0"),
    "a namespace twice": ({"watchNamespaces": ["a", "a"]}, "/watchNamespaces"),
    "a number as text": ({"settings": {"resyncSeconds": "60"}}, "/settings/resyncSeconds"),
    "a resync below its bound": ({"settings": {"resyncSeconds": 1}}, "/settings/resyncSeconds"),
    "no concurrency": ({"settings": {"concurrentReconciles": 0}}, "/settings/concurrentReconciles"),
    "the old name of a setting": ({"settings": {"concurrentPasses": 8}}, "write settings.concurrentReconciles instead"),
    "the old name of a setting with the text of the error": (
        {"settings": {"concurrentPasses": "renamed: write settings.concurrentReconciles instead"}},
        "/settings/concurrentPasses",
    ),
    "a lease that is renewed after its deadline": ({"settings": {"leaseRenewSeconds": 10}}, "settings.leaseRenewSeconds"),
    "a lease that runs out before it is renewed": ({"settings": {"leaseRenewSeconds": 20}}, "settings.leaseRenewSeconds"),
    "a short digest": ({"image": {"digest": "sha256:abc"}}, "/image/digest"),
    "an unknown pull policy": ({"image": {"pullPolicy": "Sometimes"}}, "/image/pullPolicy"),
    "an image with a tag in its repository": ({"image": {"repository": "hyperscale/operator:1"}}, "/image/repository"),
    "root": ({"podSecurityContext": {"runAsNonRoot": False}}, "/podSecurityContext/runAsNonRoot"),
    "a writable root file system": ({"securityContext": {"readOnlyRootFilesystem": False}}, "/securityContext/readOnlyRootFilesystem"),
    "privilege escalation": ({"securityContext": {"allowPrivilegeEscalation": True}}, "/securityContext/allowPrivilegeEscalation"),
    "a setting hidden in extraEnv": ({"extraEnv": [{"name": "HYPERSCALE_CONCURRENT_RECONCILES", "value": "1"}]}, "/extraEnv/0/name"),
    "a label value with a space": ({"commonLabels": {"team": "a b"}}, "/commonLabels/team"),
    "a memory of a word": ({"resources": {"limits": {"memory": "lots"}}}, "/resources/limits/memory"),
    "a monitor without its Service": (
        {"metrics": {"service": {"enabled": False}, "serviceMonitor": {"enabled": True}}},
        "metrics.serviceMonitor.enabled",
    ),
}


def one(resources: list[dict[str, Any]], kind: str, name: str = "") -> dict[str, Any]:
    """The operator's; of several the one whose name ends so."""
    label = "app.kubernetes.io/component"
    ours = [resource for resource in resources if resource["kind"] == kind and resource["metadata"]["labels"][label] == "operator"]
    found = [resource for resource in ours if resource["metadata"]["name"].endswith(name)]
    assert len(found) == 1, [resource["kind"] for resource in resources]
    return found[0]


def container(resources: list[dict[str, Any]]) -> dict[str, Any]:
    (only,) = one(resources, "Deployment")["spec"]["template"]["spec"]["containers"]
    return dict(only)


@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_value_is_refused_with_its_path(render: Render, case: str) -> None:
    values, path = REFUSED[case]
    with pytest.raises(ValueError, match=r"values don't meet|execution error") as refusal:
        render(values)
    assert path in str(refusal.value) or path.strip("/").replace("/", ".") in str(refusal.value)


def test_the_pod_runs_under_the_restricted_profile(render: Render) -> None:
    pod = one(render(), "Deployment")["spec"]["template"]["spec"]
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "fsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    (only,) = pod["containers"]
    assert only["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert only["resources"]["limits"]["memory"] == only["resources"]["requests"]["memory"]
    mounts = {mount["name"]: mount["mountPath"] for mount in only["volumeMounts"] if not mount.get("readOnly")}
    assert mounts == {"tmp": "/tmp"}  # noqa: S108 # a mount path in a pod
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)


def test_one_operator_runs_and_an_upgrade_never_runs_two(render: Render) -> None:
    spec = one(render(), "Deployment")["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


def test_service_links_cannot_overwrite_settings(render: Render) -> None:
    """A Service hyperscale-metrics would set HYPERSCALE_METRICS_PORT=tcp://… in every pod of its namespace."""
    assert one(render(), "Deployment")["spec"]["template"]["spec"]["enableServiceLinks"] is False


def test_the_rendered_environment_is_what_the_operator_reads(render: Render) -> None:
    values = {
        "watchNamespaces": ["b", "a"],
        "prometheus": {"url": "https://prometheus.monitoring/base"},
        "settings": {"resyncSeconds": 3600, "metricsPollSeconds": 2.5},
    }
    given = {"HYPERSCALE_CONTAINER_MEMORY_BYTES": str(2**31)}  # resolved by the kubelet
    environment = {entry["name"]: entry.get("value", "from the pod") for entry in container(render(values))["env"]} | given
    read = settings.from_environment(environment)
    assert read.watch_namespaces == ("a", "b")
    assert (read.resync_seconds, read.metrics_poll_seconds) == (3600.0, 2.5)
    fields = {*settings.Settings.__struct_fields__, *(f"prometheus_{field}" for field in Access.__struct_fields__)}
    known = {settings.PREFIX + field.upper() for field in fields - {"prometheus_access"}}
    assert known - set(environment) == set()
    assert set(environment) <= known


def test_the_charts_defaults_are_the_operators_defaults(render: Render) -> None:
    environment = {entry["name"]: entry["value"] for entry in container(render())["env"] if "value" in entry}
    kept = settings.Settings(  # a command line keeps no history and serves no previews, a cluster does both
        history_url="sqlite:////tmp/history.sqlite",
        preview_port=8082,
        preview_key_file="/preview/key",
        preview_service="hyperscale-preview",
        preview_secret="hyperscale-preview",
    )
    assert settings.from_environment(environment) == kept


def test_namespace_and_identity_come_from_the_pod_itself(render: Render) -> None:
    sources = {entry["name"]: entry["valueFrom"] for entry in container(render())["env"] if "valueFrom" in entry}
    fields = {name: source["fieldRef"]["fieldPath"] for name, source in sources.items() if "fieldRef" in source}
    assert fields == {"HYPERSCALE_NAMESPACE": "metadata.namespace", "HYPERSCALE_IDENTITY": "metadata.name"}


def test_probes_ask_the_port_that_the_operator_opens(render: Render) -> None:
    only = container(render())
    ports = {port["name"]: port["containerPort"] for port in only["ports"]}
    assert ports == {"metrics": 9090, "health": 8080, "preview": 8082}
    assert only["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "health"}
    assert only["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "health"}


def test_rendering_twice_gives_the_same_bytes(render_text: Callable[..., str]) -> None:
    values = {"watchNamespaces": ["z", "a", "m"], "commonLabels": {"b": "1", "a": "2"}}
    assert render_text(values) == render_text(values)


def test_the_chart_has_no_hook_and_looks_up_only_what_it_makes_once_and_objects_of_the_former_api() -> None:
    for template in sorted((ROOT / "charts/hyperscale/templates").iterdir()):
        text = re.sub(r"{{/\*.*?\*/}}", "", template.read_text(), flags=re.DOTALL)
        found = [word for word in ("helm.sh/hook", "lookup", "randAlpha", "genCA", "now") if re.search(rf"[ (]{word}", text)]
        made_once = {"agent-token.yaml": ["lookup", "randAlpha"], "preview.yaml": ["lookup", "randAlpha"], "NOTES.txt": ["lookup"]}
        expected = {**made_once, "former-objects.yaml": ["lookup"]}
        assert found == expected.get(template.name, []), template.name


def test_the_charts_crds_are_the_projects_crds(render: Render) -> None:
    rendered = {resource["metadata"]["name"]: resource for resource in render() if resource["kind"] == "CustomResourceDefinition"}
    assert set(rendered) == {
        f"{plural}.{constants.GROUP}" for plural in (constants.JOB_PLURAL, constants.POLICY_PLURAL, constants.TOPOLOGY_PLURAL)
    }
    for path in sorted((ROOT / "crds").glob("*.yaml")):
        source = yaml.safe_load(path.read_text())
        assert rendered[source["metadata"]["name"]]["spec"] == source["spec"]


def test_crds_outlive_the_release_unless_told_otherwise(render: Render) -> None:
    annotation = "helm.sh/resource-policy"
    for values, expected in (({}, "keep"), ({"crds": {"keep": False}}, None)):
        crds = [resource for resource in render(values) if resource["kind"] == "CustomResourceDefinition"]
        assert crds
        assert {crd["metadata"].get("annotations", {}).get(annotation) for crd in crds} == {expected}
    assert not [resource for resource in render({"crds": {"enabled": False}}) if resource["kind"] == "CustomResourceDefinition"]


def test_crds_carry_the_annotations_asked_for(render: Render) -> None:
    wanted = {"argocd.argoproj.io/sync-options": "ServerSideApply=true"}
    crd = next(resource for resource in render({"crds": {"annotations": wanted}}) if resource["kind"] == "CustomResourceDefinition")
    assert crd["metadata"]["annotations"] == wanted | {"helm.sh/resource-policy": "keep"}


@pytest.mark.parametrize(
    ("values", "ports"),
    [
        ({"prometheus": {"url": "http://prometheus.monitoring:9090"}}, [9090]),
        ({"prometheus": {"url": "http://prometheus.monitoring/prefix"}}, [80]),
        ({"prometheus": {"url": "https://prometheus.example"}}, [443]),
        ({"prometheus": {"url": "http://p:80"}, "networkPolicy": {"prometheus": {"ports": [9090, 10902]}}}, [9090, 10902]),
    ],
    ids=["port given", "http", "https", "pods listen elsewhere"],
)
def test_the_network_policy_lets_the_operator_reach_prometheus(render: Render, values: dict[str, Any], ports: list[int]) -> None:
    egress = one(render(values), "NetworkPolicy")["spec"]["egress"]
    assert [[entry["port"] for entry in rule["ports"]] for rule in egress] == [[443, 6443], [53, 53], ports]


def test_without_prometheus_only_the_api_server_and_dns_are_reachable(render: Render) -> None:
    spec = one(render(), "NetworkPolicy")["spec"]
    assert [[entry["port"] for entry in rule["ports"]] for rule in spec["egress"]] == [[443, 6443], [53, 53]]
    assert [[entry["port"] for entry in rule["ports"]] for rule in spec["ingress"]] == [[9090], [8082]]
    assert spec["policyTypes"] == ["Ingress", "Egress"]


def test_everything_selects_the_operators_pod(render: Render) -> None:
    resources = render(
        {
            "metrics": {"serviceMonitor": {"enabled": True}},
            "podLabels": {"app.kubernetes.io/name": "other"},
            "commonLabels": {"team": "gnn"},
        }
    )
    deployment = one(resources, "Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    selectors = [
        deployment["spec"]["selector"]["matchLabels"],
        one(resources, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
        one(resources, "Service", "-metrics")["spec"]["selector"],
        one(resources, "Service", "-preview")["spec"]["selector"],
    ]
    for selector in selectors:
        assert selector.items() <= labels.items()
    assert (
        one(resources, "ServiceMonitor")["spec"]["selector"]["matchLabels"].items()
        <= one(resources, "Service", "-metrics")["metadata"]["labels"].items()
    )
    assert labels["team"] == "gnn"


def test_an_image_is_named_by_digest_where_one_is_given(render: Render) -> None:
    digest = "sha256:" + "0" * 64
    only = container(render({"image": {"registry": "registry.example:5000", "digest": digest}}))
    assert only["image"] == f"registry.example:5000/hyperscale/operator@{digest}"


def test_a_service_account_of_ones_own_is_used_and_not_made(render: Render) -> None:
    resources = render({"serviceAccount": {"create": False, "name": "mine"}, "agent": {"enabled": False}})
    assert not [resource for resource in resources if resource["kind"] == "ServiceAccount"]
    assert one(resources, "Deployment")["spec"]["template"]["spec"]["serviceAccountName"] == "mine"


def test_previews_are_served_under_a_key_that_only_a_role_for_people_reaches(render: Render) -> None:
    resources = render({"preview": {"existingSecret": "brought-along"}})
    pod = one(resources, "Deployment")["spec"]["template"]["spec"]
    volume = next(volume for volume in pod["volumes"] if volume["name"] == "preview")
    assert volume["secret"] == {"secretName": "brought-along", "optional": True, "items": [{"key": "key", "path": "key"}]}
    assert not [resource for resource in resources if resource["kind"] == "Secret"], "no cluster: nothing is made"
    bound = {resource["roleRef"]["name"] for resource in resources if resource["kind"].endswith("RoleBinding")}
    assert not {name for name in bound if "preview" in name}


def test_without_previews_nothing_of_them_is_left(render: Render, render_text: Callable[..., str]) -> None:
    off = {"preview": {"enabled": False}}
    environment = {entry["name"]: entry.get("value") for entry in container(render(off))["env"] if "PREVIEW" in entry["name"]}
    assert environment == {
        "HYPERSCALE_PREVIEW_PORT": "0",
        "HYPERSCALE_PREVIEW_KEY_FILE": "",
        "HYPERSCALE_PREVIEW_SERVICE": "",
        "HYPERSCALE_PREVIEW_SECRET": "",
    }
    without_crds = render_text({**off, "crds": {"enabled": False}})
    assert [line for line in without_crds.splitlines() if "preview" in line] == []


@pytest.mark.parametrize(
    "values",
    [{"preview": {"port": 9090}}, {"preview": {"port": 8081}, "settings": {"topologyPort": 8081}}, {"preview": {"port": 8080}}],
    ids=["metrics", "topology", "health"],
)
def test_two_listeners_do_not_share_a_port(render: Render, values: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="port"):
        render(values)
