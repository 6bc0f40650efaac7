from __future__ import annotations

import pytest

from hyperscale.observe.identity import NodeIndex
from hyperscale.observe.kube.fields import pod_view
from tests.unit.observe.objects import raw_node, raw_pod

NODES = [raw_node("gpu-a"), raw_node("gpu-b.example.com", labels={"kubernetes.io/hostname": "host-b"}), raw_node("gpu-c")]
NODES[0]["status"]["addresses"] = [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "InternalIP", "address": "fd00::1"}]
NODES[1]["status"]["addresses"] = [{"type": "InternalIP", "address": "10.0.0.2"}]
PODS = [
    pod_view(raw_pod("dcgm-exporter-x7k2p", node="gpu-c", namespace="gpu-operator")),
    pod_view(raw_pod("train-worker-0", node="gpu-a", namespace="ml")),
    pod_view(raw_pod("twice", node="gpu-a", namespace="one")),
    pod_view(raw_pod("twice", node="gpu-c", namespace="two")),
    pod_view(raw_pod("gone", node="gpu-c", phase="Succeeded")),
]


@pytest.mark.parametrize(
    ("labels", "node"),
    [
        pytest.param({"node": "gpu-a"}, "gpu-a", id="node"),
        pytest.param({"kubernetes_node": "gpu-a"}, "gpu-a", id="kubernetes_node"),
        pytest.param({"exported_node": "gpu-a"}, "gpu-a", id="exported_node"),
        pytest.param({"Hostname": "gpu-a"}, "gpu-a", id="Hostname, before dcgm-exporter#655"),
        pytest.param({"hostname": "gpu-a"}, "gpu-a", id="hostname, since dcgm-exporter#655"),
        pytest.param({"Hostname": "host-b"}, "gpu-b.example.com", id="hostname label of the node"),
        pytest.param({"Hostname": "gpu-b"}, "gpu-b.example.com", id="short name"),
        pytest.param({"instance": "10.0.0.2:9400"}, "gpu-b.example.com", id="address and port"),
        pytest.param({"instance": "[fd00::1]:9400"}, "gpu-a", id="IPv6 address and port"),
        pytest.param({"instance": "gpu-c:9400"}, "gpu-c", id="name and port"),
        pytest.param({"Hostname": "dcgm-exporter-x7k2p"}, "gpu-c", id="the exporter's pod, dcgm-exporter#78"),
        pytest.param({"node": "gpu-a", "Hostname": "gpu-c"}, "gpu-a", id="the target's label beats the exporter's"),
        pytest.param({"node": "unheard-of", "Hostname": "gpu-c"}, "gpu-c", id="a label that leads nowhere is passed over"),
        pytest.param({"namespace": "ml", "pod": "train-worker-0"}, "gpu-a", id="the pod that uses the GPU"),
        pytest.param({"exported_namespace": "two", "exported_pod": "twice"}, "gpu-c", id="exported_pod"),
        pytest.param({"Hostname": "twice"}, None, id="a pod name that two nodes share"),
        pytest.param({"Hostname": "gone"}, None, id="a pod that is over"),
        pytest.param({"Hostname": "unheard-of"}, None, id="no node of this cluster"),
        pytest.param({"Hostname": ""}, None, id="empty"),
        pytest.param({}, None, id="nothing"),
    ],
)
def test_every_spelling_leads_to_the_node_or_nowhere(labels: dict[str, str], node: str | None) -> None:
    assert NodeIndex(NODES, PODS).of_series(labels) == node


def test_an_address_that_two_nodes_claim_leads_to_neither() -> None:
    nodes = [raw_node("a"), raw_node("b")]
    for node in nodes:
        node["status"]["addresses"] = [{"address": "10.0.0.9"}]
    assert NodeIndex(nodes).node("10.0.0.9") is None


def test_a_name_beats_the_alias_of_another_node() -> None:
    assert NodeIndex([raw_node("a", labels={"kubernetes.io/hostname": "b"}), raw_node("b")]).node("b") == "b"
