"""Whatever was measured: estimates are finite, leave what was measured alone, and do not depend on what was asked together."""

from __future__ import annotations

from itertools import permutations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperscale.model.cluster import Link
from hyperscale.model.graph import ClusterGraph
from hyperscale.planner.graph.cluster_graph import build
from tests.builders.clusters import POLICY, gpu_node, link, snapshot

CLUSTERS = (st.integers(0, 2**32 - 1), st.integers(3, 24), st.floats(0.05, 0.9), st.booleans())
"""Arguments of `measured_in_part`."""


def measured_in_part(seed: int, count: int, share: float, labels: bool) -> tuple[ClusterGraph, dict[tuple[str, str], Link]]:
    """A cluster of which about `share` of the links are measured, and those links; with labels most nodes name a domain."""
    rng = np.random.default_rng(seed)
    names = [f"n{at:02d}" for at in range(count)]
    domains = [("eu/a", "eu/b", "us/a", "")[int(at)] if labels else "" for at in rng.integers(0, 4, count)]
    nodes = [gpu_node(name, domain=domain) if domain else gpu_node(name) for name, domain in zip(names, domains, strict=True)]
    links = {
        (a, b): link(a, b, float(10 ** rng.uniform(-5, 0)), float(10 ** rng.uniform(6, 10)))
        for a, b in permutations(names, 2)
        if rng.random() < share
    }
    return build(snapshot(*nodes, links=tuple(links[pair] for pair in sorted(links))), POLICY), links


@settings(max_examples=40, deadline=None)
@given(*CLUSTERS)
def test_estimates_are_finite_and_above_zero(seed: int, count: int, share: float, labels: bool) -> None:
    graph, _ = measured_in_part(seed, count, share, labels)
    costs = graph.link_costs(np.arange(count))
    assert np.isfinite(costs.latency_seconds).all()
    assert (costs.latency_seconds > 0).all()
    assert np.isfinite(costs.bandwidth_bytes_per_second).all()
    assert (costs.bandwidth_bytes_per_second > 0).all()


@settings(max_examples=40, deadline=None)
@given(*CLUSTERS)
def test_estimates_change_nothing_that_was_measured(seed: int, count: int, share: float, labels: bool) -> None:
    graph, links = measured_in_part(seed, count, share, labels)
    costs = graph.link_costs(np.arange(count))
    for (a, b), one in links.items():
        assert costs.latency_seconds[graph.index[a], graph.index[b]] == one.latency_seconds.value
        assert costs.bandwidth_bytes_per_second[graph.index[a], graph.index[b]] == one.bandwidth_bytes_per_second.value


@settings(max_examples=40, deadline=None)
@given(*CLUSTERS)
def test_an_estimate_does_not_depend_on_which_links_are_asked_together(seed: int, count: int, share: float, labels: bool) -> None:
    graph, _ = measured_in_part(seed, count, share, labels)
    costs = graph.link_costs(np.arange(count))
    some = np.random.default_rng(seed).permutation(count)[: max(1, count // 2)]
    assert np.allclose(graph.link_costs(some).latency_seconds, costs.latency_seconds[np.ix_(some, some)], rtol=1e-12)


@settings(max_examples=40, deadline=None)
@given(*CLUSTERS)
def test_errors_of_estimates_are_shares_of_one(seed: int, count: int, share: float, labels: bool) -> None:
    graph, _ = measured_in_part(seed, count, share, labels)
    everyone = np.arange(count)
    for errors in graph.link_errors_between(everyone, everyone):
        assert ((errors >= 0) & (errors <= 1)).all()
