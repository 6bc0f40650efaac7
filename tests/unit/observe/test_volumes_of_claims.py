"""From which nodes a volume can be reached, as the scheduler's volume plugins read it."""

from __future__ import annotations

from typing import Any

import pytest

from hyperscale.observe.kube.volume_rules import class_name, class_rules, volume_name, volume_rules
from hyperscale.planner.problem.affinity import meets
from tests.builders.clusters import gpu_node

ZONE = "topology.kubernetes.io/zone"
HERE, THERE = gpu_node("here", domain="eu/a"), gpu_node("there", domain="eu/b")
IN_A = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a"]}]}


def volume(*terms: dict[str, Any], **labels: str) -> dict[str, Any]:
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": list(terms)}}} if terms else {}
    return {"metadata": {"name": "pv", "labels": {key.replace("__", "/"): value for key, value in labels.items()}}, "spec": affinity}


@pytest.mark.parametrize(
    ("found", "reachable"),
    [
        (volume(IN_A), {"here"}),
        (volume(), {"here", "there"}),
        (volume(IN_A, {"matchExpressions": [{"key": ZONE, "operator": "Exists"}]}), {"here", "there"}),
        ({"metadata": {"labels": {ZONE: "a"}}, "spec": {}}, {"here"}),
        ({"metadata": {"labels": {ZONE: "a__b"}}, "spec": {}}, {"here", "there"}),
        ({"metadata": {"labels": {ZONE: "c"}}, "spec": {}}, set()),
        ({}, {"here", "there"}),
        ({"spec": {"nodeAffinity": "everywhere"}}, {"here", "there"}),
    ],
    ids=["zonal", "anywhere", "two ways", "zone label", "regional label", "another zone", "nothing told", "not readable"],
)
def test_a_volume_can_be_reached_from_the_nodes_that_it_allows(found: dict[str, Any], reachable: set[str]) -> None:
    rules = volume_rules(found, "state")
    assert {node.name for node in (HERE, THERE) if all(meets(node, rule) for rule in rules)} == reachable
    assert all((rule.reason, rule.source) == ("Volume", 'PersistentVolumeClaim "state"') for rule in rules)


def test_an_unbound_claim_goes_where_its_class_may_make_volumes() -> None:
    topologies = [{"matchLabelExpressions": [{"key": ZONE, "values": ["a", "c"]}]}]
    (rule,) = class_rules({"allowedTopologies": topologies}, "state")
    assert meets(HERE, rule)
    assert not meets(THERE, rule)
    assert class_rules({"volumeBindingMode": "WaitForFirstConsumer"}, "state") == ()


def test_a_claim_names_its_volume_or_its_class() -> None:
    assert volume_name({"spec": {"volumeName": "pv-1", "storageClassName": "fast"}}) == "pv-1"
    assert volume_name({"spec": {}}) == ""
    assert class_name({"spec": {"storageClassName": "fast"}}) == "fast"
    assert class_name({}) == ""
