"""Ports of one node: which are judged, and from how many on their number says nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from hyperscale.model.api.policy import QualityLimits
from hyperscale.model.cluster import MetricsState, Sample
from hyperscale.model.metrics_reading import MetricsReading, Series
from hyperscale.observe.identity import NodeIndex
from hyperscale.observe.quality import Point, judge
from hyperscale.observe.series.network_cards import MAX_COUNTED, MAX_PORTS, NodeNetwork, networks

RATE = 1.25e9


def network_of(devices: dict[str, float]) -> NodeNetwork:
    series = tuple(Series({"node": "a", "device": device}, rate, 1000.0) for device, rate in devices.items())
    reading = MetricsReading(1000.0, MetricsState(available=True), {"network_speed": series})
    return networks(reading, NodeIndex([{"metadata": {"name": "a"}}]), QualityLimits(), 1001.0)["a"]


def test_more_equal_cards_than_any_node_has_are_an_unknown_number() -> None:
    most = network_of({f"eth{number}": RATE for number in range(MAX_COUNTED)})
    more = network_of({f"eth{number}": RATE for number in range(MAX_COUNTED + 1)})
    assert (most.cards, most.together.value) == (MAX_COUNTED, MAX_COUNTED * RATE)
    assert more.cards is None
    assert more.bytes_per_second.value == more.together.value == RATE


def test_no_more_ports_than_a_bound_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = []

    def counted(points: Sequence[Point], *further: Any) -> Sample:
        judged.append(points)
        return judge(points, *further)

    monkeypatch.setattr("hyperscale.observe.series.network_cards.judge", counted)
    parts = {f"eth0.{number:05d}": 8.0 * RATE for number in range(5000)}
    assert network_of({**parts, "eth1": 9.0 * RATE}).bytes_per_second.value == 9.0 * RATE
    assert MAX_PORTS <= len(judged) <= 3 * MAX_PORTS
