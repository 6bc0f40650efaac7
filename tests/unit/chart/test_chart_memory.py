"""The container's memory holds the operator and the planner at its limit: values that cannot be true together are refused."""

from __future__ import annotations

from typing import Any

import pytest

from hyperscale.control import settings
from hyperscale.control.settings import SettingsError
from hyperscale.util.quantity import parse_bytes

Render = Any
MIB = 2**20


def container(resources: list[dict[str, Any]]) -> dict[str, Any]:
    label = "app.kubernetes.io/component"
    (deployment,) = [one for one in resources if one["kind"] == "Deployment" and one["metadata"]["labels"][label] == "operator"]
    (only,) = deployment["spec"]["template"]["spec"]["containers"]
    return dict(only)


def environment(only: dict[str, Any]) -> dict[str, str]:
    """As the kubelet resolves it."""
    found: dict[str, str] = {}
    for entry in only["env"]:
        source = entry.get("valueFrom", {}).get("resourceFieldRef")
        if source is None:
            found[entry["name"]] = entry.get("value", "from the pod")
        else:
            assert source == {"resource": "limits.memory", "divisor": "1"}
            found[entry["name"]] = str(parse_bytes(str(only["resources"]["limits"]["memory"])))
    return found


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"resources": {"limits": {"memory": "512Mi"}, "requests": {"memory": "512Mi"}}},
        {"resources": {"limits": {"memory": 4294967296}}},
        {"resources": {"limits": {"memory": "2G"}}, "settings": {"plannerMemoryBytes": 1700000000}},
    ],
    ids=["defaults", "a small container", "a number of bytes", "a limit of one's own"],
)
def test_planner_and_operator_fit_into_the_containers_limit(render: Render, values: dict[str, Any]) -> None:
    only = container(render(values))
    limit = parse_bytes(str(only["resources"]["limits"]["memory"]))
    given = settings.from_environment(environment(only))
    planner, evaluation = settings.planner_limit_bytes(given), settings.evaluation_limit_bytes(given)
    assert 256 * MIB <= planner <= limit - settings.MIN_OPERATOR_BYTES
    assert 64 * MIB <= evaluation <= limit - planner - settings.MIN_OPERATOR_BYTES / 2


@pytest.mark.parametrize("memory", ["1Gi", 1073741824, "1073741824"])
def test_a_planner_that_leaves_the_operator_too_little_is_refused_by_the_chart(render: Render, memory: str | int) -> None:
    with pytest.raises(ValueError, match=r"settings\.plannerMemoryBytes: 2147483648 does not fit .* write at most 864026624"):
        render({"resources": {"limits": {"memory": memory}}, "settings": {"plannerMemoryBytes": 2 * 2**30}})


def test_a_container_too_small_for_both_is_refused_by_the_chart(render: Render) -> None:
    with pytest.raises(ValueError, match=r"resources\.limits\.memory: 300Mi is too small .* write at least 512Mi"):
        render({"resources": {"limits": {"memory": "300Mi"}}})


def test_the_operator_refuses_what_the_chart_could_not_see() -> None:
    """A LimitRange or a vertical autoscaler sets the container's limit after helm has rendered the pod."""
    given = {"HYPERSCALE_PLANNER_MEMORY_BYTES": str(2**30), "HYPERSCALE_CONTAINER_MEMORY_BYTES": str(2**30)}
    with pytest.raises(SettingsError, match=r"^HYPERSCALE_PLANNER_MEMORY_BYTES: 1073741824 bytes .* write at most 864026624"):
        settings.from_environment(given)


def test_without_a_known_container_the_planner_gets_what_it_is_given() -> None:
    assert settings.planner_limit_bytes(settings.from_environment({})) == 0
    assert settings.planner_limit_bytes(settings.from_environment({"HYPERSCALE_PLANNER_MEMORY_BYTES": "5000000000"})) == 5_000_000_000
    assert settings.evaluation_limit_bytes(settings.from_environment({})) == settings.EVALUATION_MEMORY_BYTES
