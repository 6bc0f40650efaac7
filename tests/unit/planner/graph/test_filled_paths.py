"""One GPU fills a path that is narrower than its own network cards; only wider paths need several GPUs at once."""

from __future__ import annotations

from typing import Any

import pytest

from hyperscale.model.cluster import Link, Origin, Quality, Sample
from hyperscale.planner.graph.cluster_graph import build
from tests.builders.clusters import POLICY, both_ways, gpu_node, planned, snapshot, training

ETHERNET: dict[str, Any] = {
    "network_cards": 8,
    "network_bytes_per_second": Sample(25e9, 3.0, Quality.MEASURED, source=Origin.NODE_EXPORTER),
}
INFINIBAND: dict[str, Any] = ETHERNET | {"network_bytes_per_second": Sample(25e9, 3.0, Quality.MEASURED, source=Origin.INFINIBAND)}
NAMES = [f"n{at}" for at in range(4)]


def rails(links: tuple[Link, ...] = (), zones: tuple[str, ...] = ("eu/a",), **fields: Any) -> list[int]:
    nodes = (gpu_node(name, free=8, domain=zones[at % len(zones)], **fields) for at, name in enumerate(NAMES))
    return list(build(snapshot(*nodes, links=links), POLICY).machine.rails.tolist())


@pytest.mark.parametrize(("gigabytes", "needed"), [(3.0, 1), (25.0, 1), (25.1, 2), (100.0, 4), (200.0, 8), (900.0, 8)])
def test_as_many_gpus_fill_a_measured_path_as_its_width_needs(gigabytes: float, needed: int) -> None:
    assert rails(both_ways(NAMES, bandwidth_bytes_per_second=gigabytes * 1e9), **ETHERNET) == [needed] * 4


def test_the_fastest_path_of_each_node_counts() -> None:
    links = both_ways(NAMES[:2], bandwidth_bytes_per_second=100e9) + both_ways(NAMES[2:], bandwidth_bytes_per_second=1e9)
    apart = tuple(one for a in NAMES[:2] for b in NAMES[2:] for one in both_ways([a, b], bandwidth_bytes_per_second=1e9))
    assert rails(links + apart, **ETHERNET) == [4, 4, 1, 1]


def test_all_cards_of_a_fabric_take_all_its_gpus() -> None:
    assert rails(**INFINIBAND) == [8] * 4


def test_a_fabric_that_reaches_no_other_node_takes_one() -> None:
    links = both_ways(NAMES, bandwidth_bytes_per_second=1.25e9)
    assert rails(links, zones=("eu/a", "eu/b", "eu/c", "eu/d"), **INFINIBAND) == [1] * 4


def test_an_unmeasured_path_is_as_wide_as_its_level_says() -> None:
    assert rails(**ETHERNET) == [1] * 4, "a zone's estimate is less than one card"


def test_more_cards_do_not_make_a_slow_path_slower() -> None:
    links, job = both_ways(NAMES, bandwidth_bytes_per_second=3e9), training(workers={"minReplicas": 4, "maxReplicas": 4})
    seconds = {
        planned(snapshot(*(gpu_node(name, free=1, **ETHERNET | {"network_cards": cards}) for name in NAMES), links=links), job).objective
        for cards in (1, 8)
    }
    assert len(seconds) == 1
