from __future__ import annotations

from hyperscale.model.api.policy import QualityLimits
from hyperscale.observe.identity import NodeIndex
from hyperscale.observe.series.links import links
from tests.unit.observe.objects import NOW, raw_node, reading, series

INDEX = NodeIndex([raw_node("a"), raw_node("b")])


def test_each_direction_is_a_link_of_its_own() -> None:
    found, notes = links(
        reading(
            link_latency=(series(0.002, source="b", destination="a"), series(0.001, source="a", destination="b")),
            link_bandwidth=(series(1e9, source="a", destination="b"),),
        ),
        INDEX,
        QualityLimits(),
        NOW,
    )
    assert [(link.source, link.destination, link.latency_seconds.value, link.bandwidth_bytes_per_second.value) for link in found] == [
        ("a", "b", 0.001, 1e9),
        ("b", "a", 0.002, None),
    ]
    assert notes == ()


def test_a_link_that_was_measured_badly_stays_as_unknown() -> None:
    (link,), _ = links(reading(link_latency=(series(float("nan"), source="a", destination="b"),)), INDEX, QualityLimits(), NOW)
    assert (link.latency_seconds.value, link.latency_seconds.fault) == (None, "not a number")


def test_self_loops_and_strangers_are_counted() -> None:
    soup = (series(1, source="a", destination="a"), series(1, source="a", destination="x"), series(1, destination="b"), series(1))
    assert links(reading(link_latency=soup), INDEX, QualityLimits(), NOW) == (
        (),
        ("1 link series lead from a node to itself (a)", "3 link series name no node of this cluster (, x)"),
    )
