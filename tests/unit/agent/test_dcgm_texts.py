from __future__ import annotations

import pytest

from hyperscale.model.api.policy import MetricQueries, QualityLimits
from hyperscale.model.cluster import Gpu
from hyperscale.model.metrics_reading import MetricsReading
from hyperscale.observe.identity import NodeIndex
from hyperscale.observe.kube.fields import pod_view
from hyperscale.observe.series.dcgm import MIG_FAULT, gpus_by_node
from tests.unit.agent import dcgmtexts as texts
from tests.unit.agent.expositiontext import samples, scraped
from tests.unit.observe.objects import NOW, raw_node, raw_pod

NODE = "gpu-a"
EXPORTER = "nvidia-dcgm-exporter-cwbcm"
PODS = [
    raw_pod(EXPORTER, NODE, namespace="gpu-operator"),
    raw_pod("nvidia-dcgm-exporter-zz9aa", "gpu-b", namespace="gpu-operator"),
    raw_pod("gnn-worker-0", NODE, gpus=1),
    raw_pod("gnn-worker-1", NODE, gpus=1),
]
INDEX = NodeIndex([raw_node(NODE), raw_node("gpu-b")], [pod_view(pod) for pod in PODS])
_XID_WORDS = ',err_code="43",err_msg="GPU stopped processing"'
OWN_TARGET = {"job": "dcgm", "instance": "10.244.1.7:9400", "namespace": "gpu-operator", "pod": EXPORTER, "container": "exporter"}
PLAIN_TARGET = {"job": "dcgm", "instance": "10.244.1.7:9400"}


def gpus(reading: MetricsReading) -> dict[str, tuple[Gpu, ...]]:
    found, _ = gpus_by_node(reading, INDEX, QualityLimits(), NOW)
    return found


def shown(gpu: Gpu) -> dict[str, float | None]:
    return {
        "utilization": gpu.utilization_ratio.value,
        "used": gpu.memory_used_bytes.value,
        "total": gpu.memory_total_bytes.value,
        "celsius": gpu.temperature_celsius.value,
        "watts": gpu.power_watts.value,
        "xid": gpu.last_xid.value,
    }


WHOLE = [
    {"utilization": 0.92, "used": 51049 * 2**20, "total": 81559 * 2**20, "celsius": 61.0, "watts": 403.125, "xid": 0.0},
    {"utilization": 0.0, "used": 49 * 2**20, "total": 81559 * 2**20, "celsius": 33.0, "watts": 71.482, "xid": 43.0},
]
WITHOUT_RESERVED = [{**one, "total": total * 2**20} for one, total in zip(WHOLE, (81049, 81049), strict=True)]

VERSIONS = {
    "2.x, nodes only by the pods": (texts.before_hostnames(("gnn-worker-0", "gnn-worker-1")), True, WITHOUT_RESERVED),
    "2.x, scraped without honorLabels": (texts.before_hostnames(("gnn-worker-0", "")), False, WITHOUT_RESERVED),
    "3.x, Hostname is the node": (texts.with_capital_hostname(NODE, reserved=False, bus_ids=False), True, WITHOUT_RESERVED),
    "3.x, Hostname is the exporter's pod (dcgm-exporter#129)": (
        texts.with_capital_hostname(EXPORTER, reserved=False),
        True,
        WITHOUT_RESERVED,
    ),
    "4.x, Hostname is the node": (texts.with_capital_hostname(NODE), True, WHOLE),
    "4.x, Hostname is the exporter's pod (gpu-operator#1545)": (texts.with_capital_hostname(EXPORTER), True, WHOLE),
    "4.x, Hostname is localhost (dcgm-exporter#572)": (texts.with_capital_hostname("localhost"), False, WHOLE),
    "after dcgm-exporter#655, hostname is the node": (texts.with_small_hostname(NODE), True, WHOLE),
    "after dcgm-exporter#655, hostname is the exporter's pod": (texts.with_small_hostname(EXPORTER), True, WHOLE),
    "after dcgm-exporter#655, scraped without honorLabels": (texts.with_small_hostname(NODE), False, WHOLE),
}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_operator_reads_the_text_of_every_version(version: str) -> None:
    text, honor_labels, expected = VERSIONS[version]
    found = gpus(scraped(text, OWN_TARGET if not honor_labels else PLAIN_TARGET, honor_labels=honor_labels))
    assert [gpu.uuid for gpu in found[NODE]] == list(texts.UUIDS)
    assert [shown(gpu) for gpu in found[NODE]] == [pytest.approx(one) for one in expected]
    assert found.keys() == {NODE}


def test_both_spellings_of_one_cluster_that_is_being_upgraded_are_read_together() -> None:
    old = scraped(texts.with_capital_hostname(NODE), PLAIN_TARGET)
    new = scraped(texts.with_small_hostname("gpu-b"), PLAIN_TARGET)
    both = MetricsReading(old.taken_at, old.state, {figure: (*old.series[figure], *new.series[figure]) for figure in old.series})
    found = gpus(both)
    assert {node: [shown(gpu) for gpu in listed] for node, listed in found.items()} == {NODE: WHOLE, "gpu-b": WHOLE}


def test_labels_that_some_versions_add_split_no_gpu() -> None:
    text = texts.with_capital_hostname(NODE)
    lines = [
        line.replace("} ", ',DCGM_FI_PROCESS_NAME="/usr/bin/dcgm-exporter"' + (_XID_WORDS if "XID" in line else "") + "} ")
        for line in text.splitlines()
    ]
    assert [shown(gpu) for gpu in gpus(scraped("\n".join(lines) + "\n", PLAIN_TARGET))[NODE]] == WHOLE


def test_the_names_of_1_x_are_read_by_other_queries() -> None:
    text = f'# TYPE dcgm_gpu_utilization gauge\ndcgm_gpu_utilization{{gpu="0",uuid="{texts.UUIDS[0]}",node_name="x"}} 92\n'
    found = scraped(text, {**PLAIN_TARGET, "node": NODE}, queries=MetricQueries(gpu_utilization="dcgm_gpu_utilization"))
    assert [(gpu.uuid, gpu.utilization_ratio.value) for gpu in gpus(found)[NODE]] == [(texts.UUIDS[0], 0.92)]


def test_a_blank_of_dcgm_is_unknown() -> None:
    text = texts.with_capital_hostname(NODE).replace(f"}} {texts.VALUES['DCGM_FI_DEV_GPU_TEMP'][0]}\n", f"}} {texts.BLANK}\n", 1)
    sample = gpus(scraped(text, PLAIN_TARGET))[NODE][0].temperature_celsius
    assert sample.value is None
    assert sample.fault


def test_instances_of_mig_are_no_gpus_and_the_whole_one_beside_them_is() -> None:
    found = gpus(scraped(texts.with_mig(NODE), PLAIN_TARGET))[NODE]
    assert [gpu.utilization_ratio.fault for gpu in found] == [MIG_FAULT, None]
    assert shown(found[1]) == WHOLE[1]


def test_links_and_switches_beside_the_gpus_do_no_harm() -> None:
    text = texts.with_capital_hostname(NODE) + texts.with_links(NODE)
    assert "DCGM_FI_DEV_NVLINK_BANDWIDTH_L0" in samples(text)
    assert [shown(gpu) for gpu in gpus(scraped(text, PLAIN_TARGET))[NODE]] == WHOLE


def test_the_spelling_of_link_series_names_the_same_gpu() -> None:
    spelled = (
        texts.with_capital_hostname(NODE)
        .replace("UUID=", "gpu_uuid=")
        .replace("modelName=", "model_name=")
        .replace("Hostname=", "hostname=")
    )
    assert [gpu.uuid for gpu in gpus(scraped(spelled, PLAIN_TARGET))[NODE]] == list(texts.UUIDS)
