"""Authority, credentials and tenant of Prometheus: mounted as files, named by the environment, refused where they contradict each other."""

from __future__ import annotations

from typing import Any

import pytest

from hyperscale.control.settings import from_environment
from hyperscale.observe.prometheus.credentials import Access

Render = Any
URL = "https://thanos.monitoring:9091"


def pod(resources: list[dict[str, Any]]) -> dict[str, Any]:
    label = "app.kubernetes.io/component"
    (found,) = [one for one in resources if one["kind"] == "Deployment" and one["metadata"]["labels"][label] == "operator"]
    return dict(found["spec"]["template"]["spec"])


def files(spec: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Path in the container -> (object, key)."""
    (volume,) = [one for one in spec["volumes"] if one["name"] == "prometheus"]
    (mount,) = [one for one in spec["containers"][0]["volumeMounts"] if one["name"] == "prometheus"]
    assert (mount["readOnly"], "subPath" in mount) == (True, False)
    found: dict[str, tuple[str, str]] = {}
    for source in volume["projected"]["sources"]:
        ((kind, what),) = source.items()
        assert "optional" not in what, "a pod without its credentials must not start"
        found |= {f"{mount['mountPath']}/{item['path']}": (f"{kind} {what['name']}", item["key"]) for item in what["items"]}
    return found


def access(spec: dict[str, Any]) -> Access:
    return from_environment({entry["name"]: entry.get("value", str(2**40)) for entry in spec["containers"][0]["env"]}).prometheus_access


def test_every_file_that_the_operator_is_told_of_is_mounted(render: Render) -> None:
    auth = {"basicSecret": "login", "usernameKey": "user", "passwordKey": "pass"}
    spec = pod(
        render({"prometheus": {"url": URL, "tls": {"caSecret": "trust"}, "auth": auth, "tenant": "a|b", "tenantHeader": "THANOS-TENANT"}})
    )
    found = access(spec)
    assert files(spec) == {
        found.ca_file: ("secret trust", "ca.crt"),
        found.username_file: ("secret login", "user"),
        found.password_file: ("secret login", "pass"),
    }
    assert (found.tenant, found.tenant_header, found.token_file) == ("a|b", "THANOS-TENANT", "")


def test_a_bearer_token_and_an_authority_of_a_configmap_are_mounted(render: Render) -> None:
    tls = {"caConfigMap": "openshift-service-ca.crt", "caKey": "service-ca.crt"}
    spec = pod(render({"prometheus": {"url": URL, "tls": tls, "auth": {"bearerSecret": "reader"}}}))
    found = access(spec)
    assert files(spec) == {
        found.ca_file: ("configMap openshift-service-ca.crt", "service-ca.crt"),
        found.token_file: ("secret reader", "token"),
    }


def test_without_any_of_it_nothing_is_mounted_and_nothing_is_told(render: Render) -> None:
    spec = pod(render({"prometheus": {"url": URL}}))
    assert access(spec) == Access()
    assert [volume["name"] for volume in spec["volumes"]] == ["tmp", "preview"]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "two authorities": ({"url": URL, "tls": {"caSecret": "a", "caConfigMap": "b"}}, "prometheus.tls: caSecret and caConfigMap"),
    "two kinds of login": ({"url": URL, "auth": {"bearerSecret": "a", "basicSecret": "b"}}, "prometheus.auth: a request carries"),
    "an authority without TLS": (
        {"url": "http://p:9090", "tls": {"caSecret": "a"}},
        "prometheus.tls: an authority is of use with an https",
    ),
    "a login nowhere": ({"auth": {"bearerSecret": "a"}}, "prometheus.url: is empty, but"),
    "a tenant of two lines": ({"url": URL, "tenant": "a\nb"}, "/prometheus/tenant"),
    "a credential as header": ({"url": URL, "tenantHeader": "authorization"}, "/prometheus/tenantHeader"),
    "a token in the values": ({"url": URL, "auth": {"bearerToken": "x"}}, "bearerToken"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_values_that_contradict_each_other_are_refused(render: Render, case: str) -> None:
    values, words = REFUSED[case]
    with pytest.raises(ValueError, match=r"values don't meet|execution error") as refusal:
        render({"prometheus": values})
    assert words in str(refusal.value) or words.strip("/").replace("/", ".") in str(refusal.value)
