"""The projection of a snapshot into ClusterTopology.status."""

from __future__ import annotations

from itertools import permutations

import msgspec
import pytest
from msgspec.structs import replace

from hyperscale.model.api.topology import TopologyStatus, topology_status
from hyperscale.model.cluster import ClusterSnapshot, Link, Node, Quality, Sample


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
    assert (link.quality, link.age_seconds, link.latency_seconds, link.bandwidth_bytes_per_second) == (Quality.UNKNOWN, 9.0, 0.001, None)


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
