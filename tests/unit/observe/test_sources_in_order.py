"""Of several sources of one figure the first in the precedence counts, and the snapshot says which it was."""

from __future__ import annotations

import math

import pytest

from hyperscale.model.api.policy import LinkOverride, NodeOverride, Overrides, PolicySpec
from hyperscale.model.cluster import ClusterSnapshot, Gpu, Link, Origin, Quality
from hyperscale.model.digest import snapshot_digest
from hyperscale.model.metrics_reading import Series
from hyperscale.observe.identity import RANKS, rank
from hyperscale.observe.kube import overrides as overrides_module
from hyperscale.observe.snapshot.build_snapshot import build_snapshot
from tests.unit.observe.objects import NOW, raw_node, reading, series

AGENT = "10.0.0.7:9465"
DCGM = "10.0.0.7:9400"
ZONE = "topology.kubernetes.io/zone"
NODES = [
    raw_node(name, labels={ZONE: zone, "nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.memory": "15360"})
    for name, zone in (("gpu-a", "z1"), ("gpu-b", "z1"), ("gpu-c", "z2"))
]


NONE = Overrides()


def seen(overrides: Overrides = NONE, /, **figures: tuple[Series, ...]) -> ClusterSnapshot:
    return build_snapshot(NODES, [], reading(**figures), PolicySpec(overrides=overrides), NOW)


def both(agent: float, dcgm: float) -> dict[str, tuple[Series, ...]]:
    label = {"Hostname": "gpu-a", "UUID": "GPU-1"}
    return {
        "agent_state": (series(1, instance=AGENT),),
        "temperature": (series(agent, instance=AGENT, **label), series(dcgm, instance=DCGM, **label)),
    }


def gpu(snapshot: ClusterSnapshot) -> Gpu:
    return snapshot.nodes[0].gpus[0]


def link(snapshot: ClusterSnapshot, source: str = "gpu-a", destination: str = "gpu-b") -> Link:
    return next(one for one in snapshot.links if (one.source, one.destination) == (source, destination))


def test_the_order_of_origins_is_the_precedence() -> None:
    assert [origin for origin in Origin if rank(origin) < rank(Origin.GFD)] == [
        Origin.OVERRIDE,
        Origin.AGENT,
        Origin.DCGM,
        Origin.PROMETHEUS,
        Origin.INFINIBAND,
        Origin.NODE_EXPORTER,
    ]
    assert rank("somebody") == len(RANKS)


def test_agent_and_dcgm_exporter_on_one_node_do_not_contradict_each_other() -> None:
    sample = gpu(seen(NONE, **both(61, 60))).temperature_celsius
    assert (sample.value, sample.source, sample.quality) == (61.0, "agent", Quality.MEASURED)


@pytest.mark.parametrize("agent", [math.nan, -1.0, 1e9])
def test_where_the_agent_has_no_usable_figure_dcgm_exporter_counts(agent: float) -> None:
    sample = gpu(seen(NONE, **both(agent, 60))).temperature_celsius
    assert (sample.value, sample.source) == (60.0, "dcgm")


def test_two_exporters_of_one_kind_that_differ_cancel_each_other() -> None:
    label = {"Hostname": "gpu-a", "UUID": "GPU-1"}
    sample = gpu(seen(temperature=(series(61, instance="x:9400", **label), series(60, instance="y:9400", **label)))).temperature_celsius
    assert (sample.value, sample.fault, sample.source) == (None, "duplicate series disagree", "dcgm")


def test_an_exporter_that_knows_only_the_index_speaks_of_the_same_gpu() -> None:
    snapshot = seen(
        temperature=(series(60, Hostname="gpu-a", gpu="0", UUID="GPU-1"),),
        power=(series(100, Hostname="gpu-a", gpu="0"),),
    )
    assert [one.uuid for one in snapshot.nodes[0].gpus] == ["GPU-1"]
    assert gpu(snapshot).power_watts.value == 100.0


def test_links_of_agents_count_before_those_of_others() -> None:
    pair = {"source": "gpu-a", "destination": "gpu-b"}
    snapshot = seen(
        agent_state=(series(1, instance=AGENT),),
        link_bandwidth=(series(2e9, instance="ping:80", **pair), series(1e9, instance=AGENT, **pair)),
        link_latency=(series(1e-3, instance="ping:80", **pair),),
    )
    found = link(snapshot)
    assert (found.bandwidth_bytes_per_second.value, found.bandwidth_bytes_per_second.source) == (1e9, "agent")
    assert found.latency_seconds.source == "prometheus"


def test_labels_are_named_as_the_source_of_what_they_tell() -> None:
    assert seen().nodes[0].sources == {"gpuProduct": "gfd", "gpuMemoryBytes": "gfd", "domains": "labels"}


def test_an_administrators_word_on_a_node_counts_before_its_labels() -> None:
    word = NodeOverride("gpu-a", gpu_product="NVIDIA-L4", gpu_memory=23_000 * 2**20, network_bytes_per_second=1e9, topology={ZONE: "z9"})
    node = seen(Overrides(nodes=(word,))).nodes[0]
    assert (node.gpu_product, node.gpu_memory_bytes, node.network_bytes_per_second.value) == ("NVIDIA-L4", 23_000 * 2**20, 1e9)
    assert node.domains == ("z9",)
    assert node.sources == {"gpuProduct": "override", "gpuMemoryBytes": "override", "domains": "override"}
    assert node.labels[ZONE] == "z1"  # what a pod's node selector sees


def test_an_administrators_word_on_a_link_counts_before_measurements_and_in_both_directions() -> None:
    measured = (series(1e-3, source="gpu-a", destination="gpu-b"),)
    word = LinkOverride("gpu-a", "gpu-b", latency_nanoseconds=50_000)
    snapshot = seen(Overrides(links=(word,)), link_latency=measured)
    assert [link(snapshot, *pair).latency_seconds.value for pair in (("gpu-a", "gpu-b"), ("gpu-b", "gpu-a"))] == [5e-5, 5e-5]
    assert link(snapshot).latency_seconds.source == "override"
    one_way = seen(Overrides(links=(LinkOverride("gpu-a", "gpu-b", latency_nanoseconds=50_000, one_way=True),)))
    assert [(one.source, one.destination) for one in one_way.links] == [("gpu-a", "gpu-b")]


def test_a_word_on_domains_holds_for_all_their_nodes_and_a_word_on_nodes_before_it() -> None:
    domains = LinkOverride("z1", "z2", level=ZONE, bandwidth_bytes_per_second=1e8)
    nodes = LinkOverride("gpu-b", "gpu-c", bandwidth_bytes_per_second=2e8)
    found = seen(Overrides(links=(domains, nodes))).links
    assert {(one.source, one.destination): one.bandwidth_bytes_per_second.value for one in found} == {
        ("gpu-a", "gpu-c"): 1e8,
        ("gpu-c", "gpu-a"): 1e8,
        ("gpu-b", "gpu-c"): 2e8,
        ("gpu-c", "gpu-b"): 2e8,
    }
    inside = seen(Overrides(links=(LinkOverride("z1", "z1", level=ZONE, latency_nanoseconds=10_000),))).links
    assert [(one.source, one.destination) for one in inside] == [("gpu-a", "gpu-b"), ("gpu-b", "gpu-a")]


def test_a_word_that_fits_nothing_is_said_to(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = seen(Overrides(links=(LinkOverride("gpu-a", "gone", latency_nanoseconds=10_000),)))
    assert "an override names no link of this cluster (gpu-a to gone)" in snapshot.metrics.message
    monkeypatch.setattr(overrides_module, "MAX_PAIRS", 2)
    snapshot = seen(Overrides(links=(LinkOverride("z1", "z2", level=ZONE, latency_nanoseconds=10_000),)))
    assert len(snapshot.links) == 2
    assert "describe more than 2 pairs" in snapshot.metrics.message


def card(node: str, device: str, value: float) -> Series:
    return series(value, instance=f"{node}:9100", device=device)


def test_the_fastest_card_of_a_node_is_its_networks_speed() -> None:
    node = seen(
        network_speed=(card("gpu-a", "eth0", 1.25e9), card("gpu-a", "eth1", 3.125e9), card("gpu-a", "eth2", -125000)),
        network_sent=(card("gpu-a", "eth1", 1.5e9), card("gpu-a", "eth0", 1e9)),
        network_received=(card("gpu-a", "eth1", 1e8),),
    ).nodes[0]
    assert (node.network_bytes_per_second.value, node.network_bytes_per_second.source) == (3.125e9, "node-exporter")
    assert node.network_use_ratio.value == 0.5


def test_infiniband_ports_are_told_apart_and_count_where_they_are_faster() -> None:
    ports = tuple(series(2.5e10, instance="gpu-a:9100", device="mlx5_0", port=port) for port in ("1", "2"))
    node = seen(network_speed=(card("gpu-a", "eth0", 1.25e9),), infiniband_speed=ports).nodes[0]
    assert (node.network_bytes_per_second.value, node.network_bytes_per_second.source) == (2.5e10, "infiniband")


def test_no_link_is_faster_than_the_cards_at_its_ends() -> None:
    snapshot = seen(
        network_speed=(card("gpu-a", "eth0", 1.25e9), card("gpu-b", "eth0", 1.25e8)),
        link_bandwidth=(series(9e8, source="gpu-a", destination="gpu-b"), series(1.3e9, source="gpu-a", destination="gpu-c")),
    )
    clipped, sound = (link(snapshot, "gpu-a", end).bandwidth_bytes_per_second for end in ("gpu-b", "gpu-c"))
    assert (clipped.value, clipped.quality, clipped.source, clipped.confidence) == (1.25e8, Quality.ESTIMATED, "node-exporter", 0.5)
    assert (sound.value, sound.quality) == (1.3e9, Quality.MEASURED)


def test_where_figures_came_from_and_how_busy_networks_are_changes_no_plan() -> None:
    plain = seen(temperature=(series(60, Hostname="gpu-a", UUID="GPU-1"),), network_speed=(card("gpu-a", "eth0", 1.25e9),))
    busy = seen(
        temperature=(series(60, Hostname="gpu-a", UUID="GPU-1", instance=AGENT),),
        agent_state=(series(1, instance=AGENT),),
        network_speed=(card("gpu-a", "eth0", 1.25e9),),
        network_sent=(card("gpu-a", "eth0", 1.25e9),),
    )
    assert snapshot_digest(plain) == snapshot_digest(busy)
    assert plain != busy
