"""Uplinks of a policy: one figure each, every domain of a level once, in CEL and in Python alike."""

from __future__ import annotations

from typing import Any

import pytest

from hyperscale.model.api.policy import UplinkOverride
from hyperscale.spec.crd import manifests
from hyperscale.spec.parse import SpecError, parse_policy

ZONE = "topology.kubernetes.io/zone"


def uplinks(*entries: dict[str, Any]) -> tuple[UplinkOverride, ...]:
    resource = {"kind": "PlannerPolicy", "metadata": {"name": "default"}, "spec": {"overrides": {"uplinks": list(entries)}}}
    return parse_policy(resource).overrides.uplinks


def test_an_uplink_has_a_level_and_one_figure() -> None:
    given = uplinks({"level": ZONE, "domain": "a", "bytesPerSecond": "100G"}, {"level": ZONE, "oversubscription": "2.5"})
    assert given == (UplinkOverride(ZONE, "a", bytes_per_second=1e11), UplinkOverride(ZONE, "", oversubscription=2.5))


@pytest.mark.parametrize(
    ("entries", "place", "words"),
    [
        (({"level": ZONE},), "spec.overrides.uplinks[0]", "write either bytesPerSecond or oversubscription"),
        (({"level": ZONE, "bytesPerSecond": "1G", "oversubscription": "2"},), "spec.overrides.uplinks[0]", "write either"),
        (
            ({"level": ZONE, "oversubscription": "2"}, {"level": ZONE, "oversubscription": "3"}),
            "spec.overrides.uplinks[1]",
            f"every domain of {ZONE} is given twice; write each domain of a level once",
        ),
        (({"level": ZONE, "oversubscription": "0.5"},), "spec.overrides.uplinks[0].oversubscription", "1"),
        (({"oversubscription": "2"},), "spec.overrides.uplinks[0]", "level"),
        (({"level": "not a label", "oversubscription": "2"},), "spec.overrides.uplinks[0].level", ""),
    ],
)
def test_a_bad_uplink_is_refused_with_its_place(entries: tuple[dict[str, Any], ...], place: str, words: str) -> None:
    with pytest.raises(SpecError) as refused:
        uplinks(*entries)
    assert place in str(refused.value)
    assert words in str(refused.value)


def test_the_resource_definition_has_the_same_rules() -> None:
    policy = next(crd for name, crd in manifests().items() if name.startswith("plannerpolicies"))
    schema = policy["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    entry = schema["properties"]["spec"]["properties"]["overrides"]["properties"]["uplinks"]
    assert entry["x-kubernetes-list-map-keys"] == ["level", "domain"]
    assert entry["items"]["properties"]["domain"]["default"] == ""
    assert entry["items"]["required"] == ["level"]
    assert entry["items"]["x-kubernetes-validations"][0]["rule"] == "has(self.bytesPerSecond) != has(self.oversubscription)"
