"""The agents as the chart renders them: confined, in reach of one another only, and never two exporters of the same GPU by default."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperscale.agent import agent_settings
from hyperscale.agent.probe import probe_settings

Render = Any
VALUES = yaml.safe_load((Path(__file__).resolve().parents[3] / "charts/hyperscale/values.yaml").read_text())

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown key": ({"port": 9465}, "port"),
    "an unknown mode of GPU readings": ({"gpu": {"mode": "maybe"}}, "/agent/gpu/mode"),
    "an old mode of GPU readings": ({"gpu": {"mode": "auto"}}, "'Auto', 'Always', 'Never'"),
    "an old mode that YAML 1.1 reads as a boolean": ({"gpu": {"mode": True}}, "'Auto', 'Always', 'Never'"),
    "an exporter's URL without scheme": ({"gpu": {"dcgmUrl": "10.0.0.7:9400"}}, "/agent/gpu/dcgmUrl"),
    "a Secret in capitals": ({"token": {"existingSecret": "Token"}}, "/agent/token/existingSecret"),
    "no key of the Secret": ({"token": {"key": ""}}, "/agent/token/key"),
    "a setting with a value of its own": ({"extraEnv": [{"name": "HYPERSCALE_AGENT_GPU", "value": "Always"}]}, "/agent/extraEnv/0/name"),
    "a port that the probes and the Service do not know": (
        {"extraEnv": [{"name": "HYPERSCALE_AGENT_METRICS_PORT", "value": "9500"}]},
        "/agent/extraEnv/0/name",
    ),
    "no agent may be renewed": ({"maxUnavailable": 0}, "/agent/maxUnavailable"),
    "more than all agents": ({"maxUnavailable": "120%"}, "/agent/maxUnavailable"),
}


def parts(resources: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The agents' objects by kind."""
    label = "app.kubernetes.io/component"
    return {resource["kind"]: resource for resource in resources if resource["metadata"].get("labels", {}).get(label) == "agent"}


def pod(resources: list[dict[str, Any]]) -> dict[str, Any]:
    return dict(parts(resources)["DaemonSet"]["spec"]["template"]["spec"])


def environment(resources: list[dict[str, Any]]) -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in pod(resources)["containers"][0]["env"] if "value" in entry}


@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_value_of_the_agents_is_refused_with_its_path(render: Render, case: str) -> None:
    values, path = REFUSED[case]
    with pytest.raises(ValueError, match="values don't meet") as refusal:
        render({"agent": values})
    assert path in str(refusal.value)


def test_agents_run_under_the_restricted_profile_and_take_no_gpu_and_nothing_of_the_host(render: Render) -> None:
    found = pod(render())
    (only,) = found["containers"]
    assert found["securityContext"] == VALUES["podSecurityContext"]
    assert only["securityContext"] == VALUES["securityContext"]
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(found)
    assert [set(volume) - {"name"} for volume in found["volumes"]] == [{"secret"}]
    assert not [name for limits in only["resources"].values() for name in limits if "nvidia" in name]
    assert only["resources"]["limits"]["memory"] == only["resources"]["requests"]["memory"]
    assert found["enableServiceLinks"] is False


def test_nvml_comes_without_a_gpu_and_not_at_all_where_readings_are_off(render: Render) -> None:
    on = environment(render())
    assert (on["NVIDIA_VISIBLE_DEVICES"], on["NVIDIA_DRIVER_CAPABILITIES"]) == ("all", "utility")
    off = environment(render({"agent": {"gpu": {"mode": "Never"}}}))
    assert (off["NVIDIA_VISIBLE_DEVICES"], off["HYPERSCALE_AGENT_GPU"]) == ("void", "Never")


def test_by_default_gpu_readings_are_left_to_the_gpu_operators_exporter(render: Render) -> None:
    found = environment(render())
    assert found["HYPERSCALE_AGENT_GPU"] == "Auto"
    assert found["HYPERSCALE_AGENT_DCGM_URL"] == "http://nvidia-dcgm-exporter.gpu-operator.svc:9400/metrics"


def test_the_agents_read_every_variable_that_is_rendered(render: Render) -> None:
    found = environment(render({"agent": {"links": {"budgetBytesPerSecond": 5_000_000}, "gpu": {"mode": "Always"}}}))
    rendered = {name for name in found if name.startswith(agent_settings.PREFIX)}
    known = {*agent_settings.AgentSettings.__struct_fields__, *probe_settings.LinkSettings.__struct_fields__}
    assert rendered <= {agent_settings.PREFIX + name.upper() for name in known}
    links = probe_settings.from_environment(found)
    assert (links.links, links.budget_bytes_per_second, links.service) == ("on", 5e6, "hyperscale-agent")
    assert agent_settings.from_environment(found).gpu == "Always"


def test_the_charts_defaults_are_the_agents_defaults(render: Render) -> None:
    found = environment(render())
    kept = probe_settings.from_environment({"HYPERSCALE_AGENT_TOKEN_FILE": found["HYPERSCALE_AGENT_TOKEN_FILE"]})
    assert probe_settings.from_environment(found) == kept


def test_agents_run_on_gpu_nodes_tainted_or_not(render: Render) -> None:
    found = pod(render())
    assert found["nodeSelector"] == {"nvidia.com/gpu.present": "true"}
    assert found["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert "runtimeClassName" not in found
    assert pod(render({"agent": {"runtimeClassName": "nvidia"}}))["runtimeClassName"] == "nvidia"


def test_every_selector_of_the_agents_finds_their_pods_and_none_finds_the_operators(render: Render) -> None:
    resources = render({"agent": {"podLabels": {"app.kubernetes.io/component": "other"}, "metrics": {"podMonitor": {"enabled": True}}}})
    found = parts(resources)
    labels = found["DaemonSet"]["spec"]["template"]["metadata"]["labels"]
    selectors = [
        found["DaemonSet"]["spec"]["selector"]["matchLabels"],
        found["Service"]["spec"]["selector"],
        found["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
        found["PodMonitor"]["spec"]["selector"]["matchLabels"],
    ]
    deployment = next(resource for resource in resources if resource["kind"] == "Deployment")
    operators = deployment["spec"]["template"]["metadata"]["labels"]
    for selector in selectors:
        assert selector.items() <= labels.items()
        assert not selector.items() <= operators.items()
    assert not deployment["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_probes_come_from_agents_only_and_agents_reach_little_else(render: Render) -> None:
    policy = parts(render())["NetworkPolicy"]["spec"]
    metrics, links = policy["ingress"]
    assert (metrics["ports"], "from" in metrics) == ([{"port": 9465, "protocol": "TCP"}], False)
    assert {entry["port"] for entry in links["ports"]} == {9466}
    assert links["from"] == [{"podSelector": policy["podSelector"]}]
    assert [sorted({entry["port"] for entry in rule["ports"]}) for rule in policy["egress"]] == [[9466], [443, 6443], [53, 9400]]
    assert policy["egress"][0]["to"] == links["from"]


def test_without_links_an_agent_has_no_token_no_secret_and_no_way_out_but_to_the_exporter(render: Render) -> None:
    resources = render({"agent": {"links": {"enabled": False}}})
    found = pod(resources)
    assert found["automountServiceAccountToken"] is False
    assert "volumes" not in found
    policy = parts(resources)["NetworkPolicy"]["spec"]
    assert [sorted({entry["port"] for entry in rule["ports"]}) for rule in policy["egress"]] == [[53, 9400]]
    assert len(policy["ingress"]) == 1


def test_prometheus_is_asked_by_annotations_unless_told_otherwise(render: Render) -> None:
    metadata = parts(render({"agent": {"podAnnotations": {"a": "b"}}}))["DaemonSet"]["spec"]["template"]["metadata"]
    wanted = {"prometheus.io/scrape": "true", "prometheus.io/port": "9465", "prometheus.io/path": "/metrics", "a": "b"}
    assert metadata["annotations"] == wanted
    silent = parts(render({"agent": {"metrics": {"annotations": False}}}))["DaemonSet"]["spec"]["template"]["metadata"]
    assert "annotations" not in silent
    monitored = parts(render({"agent": {"metrics": {"podMonitor": {"enabled": True}}}}))
    assert "annotations" not in monitored["DaemonSet"]["spec"]["template"]["metadata"]  # scraped twice, figures disagree


def test_rendered_without_a_cluster_no_token_is_made_and_the_agents_wait_for_one(render: Render, render_text: Callable[..., str]) -> None:
    resources = render()
    assert not [resource for resource in resources if resource["kind"] == "Secret"]
    (volume,) = pod(resources)["volumes"]
    expected = {"secretName": "hyperscale-agent-token", "items": [{"key": "token", "path": "token"}], "optional": True}
    assert volume["secret"] == expected
    assert render_text() == render_text()


def test_a_secret_of_ones_own_is_mounted(render: Render) -> None:
    (volume,) = pod(render({"agent": {"token": {"existingSecret": "mine", "key": "shared"}}}))["volumes"]
    assert volume["secret"]["secretName"] == "mine"
    assert volume["secret"]["items"] == [{"key": "shared", "path": "token"}]


def test_without_agents_nothing_of_them_is_rendered(render: Render) -> None:
    assert not parts(render({"agent": {"enabled": False}}))
