"""Values that cannot work are refused with what to write instead; values that people write in more than one form are taken in each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

Render = Any
Json = dict[str, Any]
ROOT = Path(__file__).resolve().parents[3]
DEFAULTS: Json = yaml.safe_load((ROOT / "charts/hyperscale/values.yaml").read_text())
TMP = {"name": "tmp", "emptyDir": {}}
DATA = {"name": "data", "emptyDir": {}}

REFUSED: dict[str, tuple[Json, str]] = {
    "the map on the health port": ({"settings": {"topologyPort": 8080}}, "settings.topologyPort: 8080 is the port of the probes"),
    "the map on the metrics port": ({"settings": {"topologyPort": 9090}}, "settings.topologyPort: 9090 is metrics.port"),
    "the map on a metrics port of one's own": (
        {"settings": {"topologyPort": 9191}, "metrics": {"port": 9191}},
        "settings.topologyPort: 9191 is metrics.port",
    ),
    "the map on a privileged port": ({"settings": {"topologyPort": 80}}, "/settings/topologyPort"),
    "root as user of the pod": ({"podSecurityContext": {"runAsUser": 0}}, "/podSecurityContext/runAsUser"),
    "root as user of the container": ({"securityContext": {"runAsUser": 0}}, "/securityContext/runAsUser"),
    "a container that may be root": ({"securityContext": {"runAsNonRoot": False}}, "/securityContext/runAsNonRoot"),
    "a second volume tmp": ({"extraVolumes": [TMP]}, "extraVolumes: tmp is a volume of the chart"),
    "a volume weights": ({"extraVolumes": [{**TMP, "name": "weights"}]}, "extraVolumes: weights is a volume of the chart"),
    "a volume prometheus": ({"extraVolumes": [{**TMP, "name": "prometheus"}]}, "extraVolumes: prometheus is a volume of the chart"),
    "a volume twice": ({"extraVolumes": [DATA, DATA]}, "extraVolumes: data stands there twice"),
    "a mount of no volume": (
        {"extraVolumeMounts": [{"name": "data", "mountPath": "/data"}]},
        "extraVolumeMounts: no volume is called data",
    ),
    "a mount over the chart's": (
        {"extraVolumes": [DATA], "extraVolumeMounts": [{"name": "data", "mountPath": "/weights/"}]},
        "extraVolumeMounts: /weights is a mount path of the chart",
    ),
    "a mount path twice": (
        {"extraVolumes": [DATA], "extraVolumeMounts": [{"name": "data", "mountPath": "/a"}] * 2},
        "extraVolumeMounts: /a stands there twice",
    ),
    "a variable twice": ({"extraEnv": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}, "extraEnv: A stands there twice"),
    "a variable of the agent twice": (
        {"agent": {"extraEnv": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}},
        "agent.extraEnv: A stands there twice",
    ),
    "a variable that is a list": ({"extraEnv": [{"name": "A", "value": ["x"]}]}, "/extraEnv/0/value"),
    "a pull secret without a name": ({"image": {"pullSecrets": [{"secret": "x"}]}}, "/image/pullSecrets/0"),
    "a registry with a scheme": ({"global": {"imageRegistry": "https://registry.example"}}, "/global/imageRegistry"),
    "a URL with half an IPv6 address": ({"prometheus": {"url": "http://[fd00::1:9090"}}, "/prometheus/url"),
    "a URL with an IPv6 address without brackets": ({"prometheus": {"url": "http://fd00::1:9090"}}, "/prometheus/url"),
    "a port that does not exist": ({"prometheus": {"url": "http://prometheus:99999"}}, "prometheus.url: 99999 is no port"),
    "port 0": ({"agent": {"gpu": {"dcgmUrl": "http://dcgm:0/metrics"}}}, "agent.gpu.dcgmUrl: 0 is no port"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_value_that_cannot_work_is_refused_in_words(render: Render, case: str) -> None:
    values, words = REFUSED[case]
    with pytest.raises(ValueError, match=r"values don't meet|execution error") as refusal:
        render(values)
    assert words in str(refusal.value) or words.strip("/").replace("/", ".") in str(refusal.value)


def workload(resources: list[Json], kind: str = "Deployment") -> Json:
    (found,) = [resource for resource in resources if resource["kind"] == kind]
    return dict(found["spec"]["template"]["spec"])


def test_numbers_and_truths_become_text_in_the_environment(render: Render) -> None:
    """The API server takes text only; helm reads 1000000 as a number and would print 1e+06."""
    given = [("A", 8), ("B", 1000000), ("C", 0.5), ("D", True), ("E", "007"), ("F", 12345678901), ("G", -3), ("H", "")]
    variables = [{"name": name, "value": value} for name, value in given]
    source = {"name": "S", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}
    resources = render({"extraEnv": [*variables, source], "agent": {"extraEnv": variables}})
    expected = {"A": "8", "B": "1000000", "C": "0.5", "D": "true", "E": "007", "F": "12345678901", "G": "-3", "H": ""}
    for kind in ("Deployment", "DaemonSet"):
        (container,) = workload(resources, kind)["containers"]
        assert {entry["name"]: entry["value"] for entry in container["env"] if entry["name"] in expected} == expected
    assert source in workload(resources)["containers"][0]["env"]


@pytest.mark.parametrize("probe", ["livenessProbe", "readinessProbe"])
def test_a_probe_that_is_null_is_left_out(render: Render, probe: str) -> None:
    resources = render({probe: None})
    for kind in ("Deployment", "DaemonSet"):
        (container,) = workload(resources, kind)["containers"]
        assert probe not in container
        assert len({"livenessProbe", "readinessProbe"} & set(container)) == 1


@pytest.mark.parametrize("value", ["limits", "requests"])
def test_without_limits_or_requests_the_pod_is_rendered(render: Render, value: str) -> None:
    (container,) = workload(render({"resources": {value: None}}))["containers"]
    assert value not in container["resources"]


def test_a_user_that_the_platform_picks_is_left_to_it(render: Render) -> None:
    """OpenShift gives each namespace uids of its own and refuses others."""
    for values in ({"podSecurityContext": {"runAsUser": None, "runAsGroup": None, "fsGroup": None}}, {"podSecurityContext": None}):
        resources = render(values)
        for kind in ("Deployment", "DaemonSet"):
            assert "runAsUser" not in (workload(resources, kind).get("securityContext") or {})


IMAGES = ("operator", "agent", "worker")


def images(resources: list[Json]) -> list[str]:
    operator, agent = workload(resources)["containers"][0], workload(resources, "DaemonSet")["containers"][0]
    worker = next(entry["value"] for entry in operator["env"] if entry["name"] == "HYPERSCALE_WORKER_IMAGE")
    return [operator["image"], agent["image"], worker]


def test_a_global_registry_is_that_of_every_image(render: Render) -> None:
    found = images(render({"global": {"imageRegistry": "mirror.example:5000/team"}, "image": {"registry": "docker.io"}}))
    assert found == [f"mirror.example:5000/team/hyperscale/{name}:0.1.0" for name in IMAGES]


def test_a_registry_of_one_image_is_that_images(render: Render) -> None:
    found = images(render({"image": {"registry": "one.example"}, "global": {"imageRegistry": ""}}))
    assert found == ["one.example/hyperscale/operator:0.1.0", "hyperscale/agent:0.1.0", "hyperscale/worker:0.1.0"]


def test_pull_secrets_are_names_or_objects_global_or_not_and_each_once(render: Render) -> None:
    values = {"image": {"pullSecrets": ["a", {"name": "b"}]}, "global": {"imagePullSecrets": [{"name": "a"}, "c"]}}
    for kind in ("Deployment", "DaemonSet"):
        assert workload(render(values), kind)["imagePullSecrets"] == [{"name": "a"}, {"name": "b"}, {"name": "c"}]


def test_values_of_a_parent_chart_are_none_of_ours(render: Render) -> None:
    assert render({"global": {"postgresql": {"enabled": True}, "storageClass": "fast"}}) == render()


@pytest.mark.parametrize(
    ("url", "port"),
    [("http://[fd00::1]:9090", 9090), ("https://[fd00::1]", 443), ("http://[fd00::1]/prefix", 80), ("http://[::ffff:10.0.0.1]:80", 80)],
)
def test_a_url_may_have_an_ipv6_address(render: Render, url: str, port: int) -> None:
    resources = render({"prometheus": {"url": url}})
    (policy,) = [one for one in resources if one["kind"] == "NetworkPolicy" and one["metadata"]["name"] == "hyperscale"]
    assert [entry["port"] for entry in policy["spec"]["egress"][-1]["ports"]] == [port]


def paths(values: Json, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in values.items():
        yield (*above, key)
        if isinstance(value, dict):
            yield from paths(value, (*above, key))


def at(path: tuple[str, ...], value: object) -> Json:
    return {path[0]: at(path[1:], value) if path[1:] else value}


def nulls(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from nulls(item, f"{path}.{key}")
    elif value is None:
        yield path


def test_every_value_may_be_null_or_is_refused_by_name(render_text: Callable[..., str]) -> None:
    """`key:` with nothing behind it takes the default away: then it is empty, or the refusal says which key is missing."""

    def outcome(path: tuple[str, ...]) -> str:
        try:
            text = render_text(at(path, None))
        except ValueError as error:
            words = str(error)
            named = path[-1] in words and "values don't meet" in words
            return "" if named else f"{'.'.join(path)}: {words[:200]}"
        empty = [where for one in yaml.load_all(text, Loader=yaml.CSafeLoader) for where in nulls(one, one["kind"])]
        return f"{'.'.join(path)}: {empty}" if empty else ""

    with ThreadPoolExecutor(4) as pool:
        assert [wrong for wrong in pool.map(outcome, paths(DEFAULTS)) if wrong] == []
