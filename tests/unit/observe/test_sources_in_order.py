"""Of several sources of one figure the first in the precedence counts, and the snapshot says which it was."""

from __future__ import annotations

import math
from typing import Any

import pytest

from hyperscale.model.api.policy import LinkOverride, NodeOverride, Overrides, PolicySpec, UplinkOverride
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


def test_equal_fastest_cards_are_counted_and_share_their_use() -> None:
    node = seen(
        network_speed=(card("gpu-a", "eth0", 1.25e9), *(card("gpu-a", f"enp{at}s0f0np0", 1.25e10) for at in range(4))),
        network_sent=(card("gpu-a", "enp0s0f0np0", 1.25e10), *(card("gpu-a", f"enp{at}s0f0np0", 0.0) for at in (1, 2, 3))),
    ).nodes[0]
    assert (node.network_bytes_per_second.value, node.network_cards) == (1.25e10, 4)
    assert node.network_use_ratio.value == pytest.approx(0.2)


def test_infiniband_ports_of_one_speed_are_counted() -> None:
    ports = tuple(series(5e10, instance="gpu-a:9100", device=f"mlx5_{at}", port="1") for at in range(8))
    slow = series(1.25e9, instance="gpu-a:9100", device="mlx5_8", port="1")
    node = seen(infiniband_speed=(*ports, slow)).nodes[0]
    assert (node.network_bytes_per_second.value, node.network_cards) == (5e10, 8)


@pytest.mark.parametrize(
    ("devices", "cards"),
    [
        (("eth0", "eth1"), 2),
        (("eth0", "eth0.100", "vlan200"), 1),
        (("eth0", "eth0v0", "eth0v1", "macvlan1"), 1),
        (("enp1s0f0np0", "enp1s0f1np1", "enp1s0f0np0v3"), 2),
        (("eth0", "eth1", "bond0"), 1),
        (("eth0", "eth1", "bond0", "bond0.7", "bond1"), 2),
        (("ib0", "ib1", "eth0"), 1),
        (("ib0", "ib1"), 1),
    ],
)
def test_devices_that_repeat_a_card_are_not_counted(devices: tuple[str, ...], cards: int) -> None:
    node = seen(network_speed=tuple(card("gpu-a", device, 3.125e9) for device in devices)).nodes[0]
    assert (node.network_bytes_per_second.value, node.network_cards) == (3.125e9, cards)


def test_a_link_may_be_as_fast_as_all_cards_together() -> None:
    cards = tuple(card(node, f"eth{at}", 1.25e9) for node in ("gpu-a", "gpu-b") for at in range(4))
    snapshot = seen(
        network_speed=cards,
        link_bandwidth=(series(4.5e9, source="gpu-a", destination="gpu-b"), series(9e9, source="gpu-b", destination="gpu-a")),
    )
    there, back = (link(snapshot, *ends).bandwidth_bytes_per_second for ends in (("gpu-a", "gpu-b"), ("gpu-b", "gpu-a")))
    assert (there.value, there.quality) == (4.5e9, Quality.MEASURED)
    assert (back.value, back.quality) == (5e9, Quality.ESTIMATED)


def test_the_administrator_says_how_many_cards_there_are_or_what_all_carry() -> None:
    speed = tuple(card("gpu-a", f"eth{at}", 1.25e9) for at in range(2))

    def cards(**figures: Any) -> tuple[float | None, int | None]:
        node = seen(Overrides(nodes=(NodeOverride("gpu-a", **figures),)), network_speed=speed).nodes[0]
        return node.network_bytes_per_second.value, node.network_cards

    assert cards() == (1.25e9, 2)
    assert cards(network_cards=8) == (1.25e9, 8)
    assert cards(network_bytes_per_second=4e11) == (4e11, None)
    assert cards(network_bytes_per_second=5e10, network_cards=8) == (5e10, 8)


def test_an_uplink_of_a_domain_that_is_not_there_is_said() -> None:
    uplinks = (
        UplinkOverride(ZONE, "z1", oversubscription=2.0),
        UplinkOverride(ZONE, oversubscription=3.0),
        UplinkOverride(ZONE, "z99", bytes_per_second=1e9),
    )
    message = seen(Overrides(uplinks=uplinks)).metrics.message
    assert "uplinks name no domain of this cluster (z99 of " in message
    assert "z1 of" not in message


def test_no_link_is_faster_than_the_cards_at_its_ends() -> None:
    snapshot = seen(
        network_speed=(card("gpu-a", "eth0", 1.25e9), card("gpu-b", "eth0", 1.25e8)),
        link_bandwidth=(series(9e8, source="gpu-a", destination="gpu-b"), series(1.3e9, source="gpu-a", destination="gpu-c")),
    )
    clipped, sound = (link(snapshot, "gpu-a", end).bandwidth_bytes_per_second for end in ("gpu-b", "gpu-c"))
    assert (clipped.value, clipped.quality, clipped.source, clipped.confidence) == (1.25e8, Quality.ESTIMATED, "node-exporter", 0.5)
    assert (sound.value, sound.quality) == (1.3e9, Quality.MEASURED)


def test_where_figures_came_from_changes_no_plan() -> None:
    plain = seen(temperature=(series(60, Hostname="gpu-a", UUID="GPU-1"),), network_speed=(card("gpu-a", "eth0", 1.25e9),))
    busy = seen(
        temperature=(series(60, Hostname="gpu-a", UUID="GPU-1", instance=AGENT),),
        agent_state=(series(1, instance=AGENT),),
        network_speed=(card("gpu-a", "eth0", 1.25e9),),
    )
    assert snapshot_digest(plain) == snapshot_digest(busy)
    assert plain != busy


def test_how_busy_networks_are_is_part_of_what_a_plan_depends_on() -> None:
    speed = (card("gpu-a", "eth0", 1.25e9),)
    digests = {snapshot_digest(seen(network_speed=speed, network_sent=(card("gpu-a", "eth0", sent),))) for sent in (0.0, 1e7, 1.25e9)}
    assert len(digests) == 2
    assert snapshot_digest(seen(network_speed=speed)) not in digests
