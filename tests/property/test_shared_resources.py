"""Whatever exporters, labels and the policy say, shared resources are finite where they must be and never negative."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hyperscale.model.api.policy import Overrides, PolicySpec, UplinkOverride
from hyperscale.model.cluster import Node, Quality, Sample
from hyperscale.model.graph import Machine
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.graph.machine_resources import MIN_LEFT_RATIO, without_own_traffic
from hyperscale.planner.graph.machines_table import INSTANCE_LABELS, INSTANCE_TYPES
from tests.builders.clusters import LEVELS, gpu_node, snapshot

VALUES = st.one_of(st.none(), st.sampled_from([math.nan, math.inf, -1.0, 0.0]), st.floats(-1e3, 1e14))
SAMPLES = st.builds(
    Sample,
    value=VALUES,
    age_seconds=st.just(1.0),
    quality=st.sampled_from(Quality),
    source=st.sampled_from(["", "infiniband", "node-exporter", "override"]),
)
UPLINKS = st.lists(
    st.builds(
        UplinkOverride,
        level=st.sampled_from([*LEVELS, "rack"]),
        domain=st.sampled_from(["", "a", "b", "eu/a", "eu"]),
        oversubscription=st.floats(1.0, 100.0),
    ),
    max_size=3,
)


@st.composite
def nodes(draw: st.DrawFn) -> tuple[Node, ...]:
    count = draw(st.integers(1, 6))
    drawn = []
    for at in range(count):
        fields: dict[str, Any] = {
            "network_bytes_per_second": draw(SAMPLES),
            "network_use_ratio": draw(SAMPLES),
            "network_cards": draw(st.one_of(st.none(), st.integers(1, 64))),
            "labels": {
                INSTANCE_LABELS[0]: draw(st.sampled_from(["", "m5.large", *INSTANCE_TYPES])),
                "rack": draw(st.sampled_from(["", "a", "b"])),
            },
        }
        drawn.append(gpu_node(f"n{at}", free=draw(st.integers(0, 8)), domain=f"eu/{draw(st.sampled_from('ab'))}", **fields))
    return tuple(drawn)


@given(cluster=nodes(), uplinks=UPLINKS, own=st.sets(st.integers(0, 5)))
def test_shared_resources_stay_within_their_bounds(cluster: tuple[Node, ...], uplinks: list[UplinkOverride], own: set[int]) -> None:
    graph = build(snapshot(*cluster), PolicySpec(overrides=Overrides(uplinks=tuple(uplinks))))
    machine, count = graph.machine, len(cluster)
    assert ((machine.rails >= 1) & (machine.rails <= np.maximum(1, [node.allocatable_gpus for node in graph.nodes]))).all()
    assert ((machine.cards_left_ratio >= MIN_LEFT_RATIO) & (machine.cards_left_ratio <= 1.0)).all()
    assert (graph.card_bytes_per_second > 0.0).all()
    assert_uplinks_are_bounded(machine, count)
    others = without_own_traffic(machine, sorted(own & set(range(count))))
    assert (others.cards_left_ratio >= machine.cards_left_ratio).all()
    assert (others.uplink_bytes_per_second >= machine.uplink_bytes_per_second).all()


def assert_uplinks_are_bounded(machine: Machine, count: int) -> None:
    capacity = machine.uplink_capacity_bytes_per_second
    assert capacity is not None
    assert capacity.shape == machine.uplink_bytes_per_second.shape
    assert (machine.uplink_bytes_per_second >= MIN_LEFT_RATIO * capacity).all()
    assert (machine.uplink_bytes_per_second <= capacity).all()
    assert machine.uplink_domains.shape == (len(machine.uplink_names), count)
    assert (machine.uplink_domains < capacity.shape[1]).all()


@given(cluster=nodes())
def test_no_estimated_link_is_faster_than_the_cards_of_its_ends(cluster: tuple[Node, ...]) -> None:
    graph = build(snapshot(*cluster), PolicySpec())
    costs = graph.link_costs(np.arange(len(cluster)))
    bound = np.minimum.outer(graph.card_bytes_per_second, graph.card_bytes_per_second)
    apart = ~np.eye(len(cluster), dtype=bool)
    assert (costs.bandwidth_bytes_per_second <= bound)[apart].all()
    assert (np.isfinite(costs.latency_seconds) & (costs.bandwidth_bytes_per_second > 0))[apart].all()
    assert np.array_equal(costs.bandwidth_bytes_per_second, costs.bandwidth_bytes_per_second.T)


@given(cluster=nodes(), uplinks=UPLINKS)
def test_the_order_of_nodes_does_not_matter(cluster: tuple[Node, ...], uplinks: list[UplinkOverride]) -> None:
    policy = PolicySpec(overrides=Overrides(uplinks=tuple(uplinks)))
    one, other = (build(snapshot(*order), policy).machine for order in (cluster, cluster[::-1]))
    assert one.uplink_names == other.uplink_names
    for name in ("rails", "cards_left_ratio", "uplink_domains", "uplink_bytes_per_second", "card_bytes_per_second"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
