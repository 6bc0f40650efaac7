"""What network cards carry bounds the bandwidth that is estimated, never one that was measured."""

from __future__ import annotations

import numpy as np

from hyperscale.planner.graph.cluster_graph import build
from tests.builders.clusters import POLICY, gpu_node, link, measured, snapshot


def test_an_estimated_bandwidth_is_no_more_than_both_cards_carry() -> None:
    nodes = (
        gpu_node("a", network_bytes_per_second=measured(1.25e8)),
        gpu_node("b", network_bytes_per_second=measured(1e12)),
        gpu_node("c"),
    )
    costs = build(snapshot(*nodes, links=(link("c", "a", 1e-4, 5e8),)), POLICY).link_costs(np.arange(3))
    free = build(snapshot(gpu_node("a"), gpu_node("b"), gpu_node("c")), POLICY).link_costs(np.arange(3))
    bandwidth = costs.bandwidth_bytes_per_second
    assert bandwidth[0, 1] == bandwidth[1, 0] == 1.25e8
    assert bandwidth[1, 2] == free.bandwidth_bytes_per_second[1, 2]
    assert bandwidth[2, 0] == 5e8
    assert bandwidth[0, 0] == free.bandwidth_bytes_per_second[0, 0]
