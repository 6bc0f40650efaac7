"""Links that were not measured: which way of estimating is chosen, what it may change and what not."""

from __future__ import annotations

import numpy as np
import pytest

from hyperscale.model.cluster import AbsentLink, Link
from hyperscale.model.graph import ClusterGraph
from hyperscale.planner.graph import completion, coordinates
from hyperscale.planner.graph.cluster_graph import build
from tests.builders.clusters import POLICY, both_ways, gpu_node, link, snapshot

RACKS = ("eu/a", "eu/b", "us/a", "us/b")
LATENCY = {("eu/a", "eu/b"): 2e-4, ("eu/a", "us/a"): 4e-2, ("eu/a", "us/b"): 9e-2, ("eu/b", "us/a"): 5e-2, ("eu/b", "us/b"): 1e-1}
LATENCY |= {("us/a", "us/b"): 7e-4} | {(rack, rack): 3e-5 for rack in RACKS}


def cluster(hidden: frozenset[int], labels: bool = True, absent: AbsentLink = AbsentLink.ESTIMATE) -> ClusterGraph:
    """Four racks of five nodes; every pair whose number is not hidden was measured both ways."""
    nodes = [gpu_node(f"n{at:02d}", domain=RACKS[at // 5]) if labels else gpu_node(f"n{at:02d}") for at in range(20)]
    links: list[Link] = []
    pairs = [(a, b) for a in range(20) for b in range(a + 1, 20)]
    for number, (a, b) in enumerate(pairs):
        seconds = LATENCY[tuple(sorted((RACKS[a // 5], RACKS[b // 5])))]  # type: ignore[index] # two of them
        if number not in hidden:
            links += both_ways([f"n{a:02d}", f"n{b:02d}"], latency_seconds=seconds)
    return build(snapshot(*nodes, links=tuple(sorted(links, key=lambda one: (one.source, one.destination))), absent=absent), POLICY)


def truth() -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    seconds = [[LATENCY[tuple(sorted((RACKS[a // 5], RACKS[b // 5])))] for b in range(20)] for a in range(20)]  # type: ignore[index]
    return np.array(seconds)


HALF = frozenset(np.random.default_rng(4).permutation(190)[:95].tolist())
ALL = np.arange(20)


@pytest.mark.parametrize("labels", [True, False])
def test_half_of_the_links_tell_the_other_half_with_labels_and_without(labels: bool) -> None:
    graph = cluster(HALF, labels)
    found = graph.link_costs(ALL).latency_seconds
    beside = ~np.eye(20, dtype=bool)
    assert float(np.median(np.abs(found / truth() - 1)[beside])) < 0.01
    assert float((np.abs(found / truth() - 1)[beside] < 0.15).mean()) > 0.95


def test_measured_figures_stay_as_they_are_to_the_last_bit() -> None:
    graph = cluster(HALF)
    costs = graph.link_costs(ALL)
    assert costs.measured.sum() == 190
    assert np.array_equal(costs.latency_seconds[costs.measured], truth()[costs.measured])


def test_the_error_to_expect_is_stated_and_nothing_where_it_was_measured() -> None:
    graph = cluster(HALF)
    latency, _ = graph.link_errors_between(ALL, ALL)
    measured = graph.link_costs(ALL).measured
    assert not latency[measured].any()
    assert ((latency >= 0) & (latency <= 1)).all()
    assert latency[~measured & ~np.eye(20, dtype=bool)].max() < 0.2


def test_where_nothing_was_measured_anything_may_be() -> None:
    graph = build(snapshot(gpu_node("a"), gpu_node("b")), POLICY)
    latency, bandwidth = graph.link_errors_between(np.arange(2), np.arange(2))
    assert latency[0, 1] == bandwidth[0, 1] == 1.0
    assert graph.estimates is None


def test_a_source_that_lists_every_link_gets_no_estimate() -> None:
    graph = cluster(HALF, absent=AbsentLink.UNREACHABLE)
    assert graph.estimates is None
    assert not graph.link_costs(ALL).reachable.all()


def test_the_same_links_give_the_same_estimates_in_any_order_of_nodes() -> None:
    first, second = cluster(HALF), cluster(HALF)
    assert np.array_equal(first.link_costs(ALL).latency_seconds, second.link_costs(ALL).latency_seconds)
    rows, columns = np.array([3, 17, 8]), np.array([0, 19])
    part = first.link_costs_between(rows, columns).latency_seconds
    assert np.array_equal(part, first.link_costs(ALL).latency_seconds[np.ix_(rows, columns)])


def test_directions_that_differ_are_estimated_apart() -> None:
    names = [f"n{at:02d}" for at in range(12)]
    nodes = [gpu_node(name, domain="eu/a" if at < 6 else "eu/b") for at, name in enumerate(names)]
    links = [
        link(a, b, 1e-4, 1e9 if at < 6 <= other else 1e8)
        for at, a in enumerate(names)
        for other, b in enumerate(names)
        if (at < 6) != (other < 6) and (at + other) % 2
    ]
    costs = build(snapshot(*nodes, links=tuple(links)), POLICY).link_costs(np.arange(12))
    assert costs.bandwidth_bytes_per_second[0, 6] == pytest.approx(1e9)
    assert costs.bandwidth_bytes_per_second[6, 0] == pytest.approx(1e8)


def test_estimates_stay_near_the_range_of_what_was_measured() -> None:
    rng = np.random.default_rng(1)
    names = [f"n{at:02d}" for at in range(15)]
    links = [
        link(a, b, float(10 ** rng.uniform(-4, -1)), float(10 ** rng.uniform(7, 10)))
        for a in names
        for b in names
        if a != b and rng.random() < 0.3
    ]
    costs = build(snapshot(*(gpu_node(name) for name in names), links=tuple(links)), POLICY).link_costs(np.arange(15))
    beside = ~np.eye(15, dtype=bool)
    assert costs.latency_seconds[beside].min() > 4e-5
    assert costs.latency_seconds[beside].max() < 0.25
    assert np.isfinite(costs.bandwidth_bytes_per_second).all()


def test_coordinates_find_places_whose_distances_are_the_latencies() -> None:
    rng = np.random.default_rng(0)
    places = rng.normal(0, 0.03, (30, 2))
    pairs = np.array([(a, b) for a in range(30) for b in range(30) if a != b])
    seconds = 0.002 + np.linalg.norm(places[pairs[:, 0]] - places[pairs[:, 1]], axis=1)
    shown = rng.random(len(pairs)) < 0.5
    found = coordinates.fit(30, pairs[shown, 0], pairs[shown, 1], np.log(seconds[shown]))
    guess = np.exp(found.pair_logarithms(pairs[~shown, 0], pairs[~shown, 1]))
    assert float(np.median(np.abs(guess / seconds[~shown] - 1))) < 0.1


def test_few_links_leave_the_tiers_as_they_are() -> None:
    nothing = np.full(4, np.nan)
    figures = np.full(4, 1e-3)
    tiers = (np.array([1e-3, 1e-4]), np.array([1e9, 1e10]))
    keys, tier = np.array([1, 2, 3, 4]), np.zeros(4, dtype=np.int64)
    assert completion.fit(np.zeros((4, 0), dtype=np.int64), keys, tier, (figures, nothing), tiers) is None


def test_between_domains_that_nobody_measured_the_stated_error_is_that_of_the_tier() -> None:
    pairs = [(a, b) for a in range(20) for b in range(a + 1, 20)]
    between = frozenset(number for number, (a, b) in enumerate(pairs) if {a // 5, b // 5} in ({0, 3}, {1, 2}))
    graph = cluster(between)
    latency, _ = graph.link_errors_between(ALL, ALL)
    assert latency[0, 19] > 0.1  # the region pair's median stands in for other pairs of zones
    assert latency[0, 19] == latency[6, 12]
