"""The projection of a snapshot into ClusterTopology.status."""

from __future__ import annotations

from itertools import permutations

import msgspec
import pytest
from msgspec.structs import replace

from hyperscale.control.topology.topology_changes import settled
from hyperscale.model.api.topology import LinkQuality, TopologySource, TopologyStatus, topology_status
from hyperscale.model.cluster import ClusterSnapshot, Link, MetricsState, Node, Origin, Quality, Sample
from hyperscale.observe.kube.topology_object import links_of


def cluster(count: int) -> ClusterSnapshot:
    names = [f"node-{index:02}" for index in range(count)]
    return ClusterSnapshot(
        taken_at=0.0,
        nodes=tuple(Node(name, None, None, allocatable_gpus=4, requested_gpus=1, schedulable=name != "node-00") for name in names),
        links=tuple(
            Link(a, b, Sample(0.001, 3.0, Quality.MEASURED), Sample(None, 9.0, Quality.UNKNOWN, "stale"))
            for a in names
            for b in names
            if a != b
        ),
    )


def test_counts_cover_everything_and_a_cordoned_node_has_no_free_gpus() -> None:
    status = topology_status(cluster(3))
    assert (status.node_count, status.link_count, status.gpu_count, status.free_gpu_count) == (3, 6, 12, 6)
    assert [node.free_gpus for node in status.nodes] == [0, 3, 3]


def test_a_link_is_as_good_as_its_worse_figure_and_as_old_as_its_older() -> None:
    link = topology_status(cluster(2)).links[0]
    assert (link.quality, link.age_seconds, link.latency_seconds, link.bandwidth_bytes_per_second) == (
        LinkQuality.UNKNOWN,
        9.0,
        0.001,
        None,
    )


def test_a_link_that_nothing_gets_through_is_dead_and_read_back_as_measured() -> None:
    dead = Link("node-00", "node-01", Sample(None, 9.0, Quality.UNKNOWN, "no answer"), Sample(0.0, 3.0, Quality.MEASURED))
    status = topology_status(replace(cluster(2), links=(dead,)))
    assert status.links[0].quality is LinkQuality.DEAD
    (read,) = links_of(status, 0.0)
    assert (read.bandwidth_bytes_per_second.value, read.bandwidth_bytes_per_second.quality) == (0.0, Quality.MEASURED)


def test_sources_are_words_of_the_api_and_other_words_of_files_are_left_out() -> None:
    figures = [Sample(1e-3, 1.0, Quality.MEASURED, source=source) for source in ("node-exporter", "agent", "a file's own")]
    links = (Link("node-00", "node-01", figures[0], figures[1]), Link("node-01", "node-00", figures[2], figures[1]))
    found = [link.sources for link in topology_status(replace(cluster(2), links=links)).links]
    assert found == [(TopologySource.AGENT, TopologySource.NODE_EXPORTER), (TopologySource.AGENT,)]
    assert {origin.name for origin in Origin} == {source.name for source in TopologySource}


def test_the_state_of_the_metrics_is_a_condition_that_keeps_its_time_until_it_changes() -> None:
    states = (MetricsState(True, failed_queries=("power",)), MetricsState(True), MetricsState(False, "PrometheusTimeout", "no answer"))
    first, second, third = (topology_status(replace(cluster(2), taken_at=60.0 * at, metrics=state)) for at, state in enumerate(states))
    assert first.metrics == states[0]
    wire = msgspec.to_builtins(first)
    assert (wire["snapshotTime"], wire["failedQueries"], wire["freeGPUCount"]) == ("1970-01-01T00:00:00Z", ("power",), 3)
    (kept,), (changed,) = settled(second, first).conditions, settled(third, first).conditions
    assert (kept.type, kept.status, kept.last_transition_time) == ("MetricsAvailable", "True", "1970-01-01T00:00:00Z")
    assert (changed.status, changed.reason, changed.last_transition_time) == ("False", "PrometheusTimeout", "1970-01-01T00:02:00Z")
    assert third.metrics == states[2]


@pytest.mark.parametrize("max_bytes", [0, 100, 1000, 5000, 10**6])
def test_what_is_listed_fits_and_nodes_come_before_links(max_bytes: int) -> None:
    status = topology_status(cluster(10), max_bytes)
    assert len(msgspec.json.encode(status.nodes)) + len(msgspec.json.encode(status.links)) <= max_bytes + 4
    assert len(status.nodes) == 10 or status.links == ()
    assert (status.node_count, status.link_count) == (10, 90)


def test_absent_figures_are_absent_on_the_wire_and_come_back_as_none() -> None:
    wire = msgspec.to_builtins(topology_status(cluster(2)))
    assert "bandwidthBytesPerSecond" not in wire["links"][0]
    assert msgspec.convert(wire, TopologyStatus) == topology_status(cluster(2))


MANY = [f"node-{number:03d}" for number in range(60)]
MEASURED = Sample(1e-4, 1.0, Quality.MEASURED)
TOO_MANY_LINKS = ClusterSnapshot(
    taken_at=0.0,
    nodes=tuple(Node(name, None, None, 8, 0) for name in MANY),
    links=tuple(Link(one, other, MEASURED, MEASURED) for one, other in permutations(MANY, 2)),
    levels=(),
)
"""More links than fit into `ROOM`."""
ROOM = 60_000


def listed_pairs(snapshot: ClusterSnapshot) -> list[tuple[str, str]]:
    return [(link.source, link.destination) for link in topology_status(snapshot, ROOM).links]


def test_links_that_do_not_all_fit_are_a_sorted_sample_of_all_nodes() -> None:
    pairs = listed_pairs(TOO_MANY_LINKS)
    assert pairs == sorted(set(pairs))
    assert 300 < len(pairs) < len(TOO_MANY_LINKS.links) / 2
    assert {source for source, _ in pairs} == set(MANY)


def test_links_of_the_sample_are_listed_both_ways() -> None:
    pairs = set(listed_pairs(TOO_MANY_LINKS))
    assert sum((other, one) in pairs for one, other in pairs) >= len(pairs) - 1


def test_the_sample_hardly_changes_when_few_links_go() -> None:
    pairs = set(listed_pairs(TOO_MANY_LINKS))
    fewer = set(listed_pairs(replace(TOO_MANY_LINKS, links=TOO_MANY_LINKS.links[100:])))
    assert len(pairs & fewer) > 0.9 * len(pairs)
