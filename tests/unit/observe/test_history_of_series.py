"""What a series' own past says of its newest point."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from hyperscale.model.api.policy import PolicySpec, QualityLimits
from hyperscale.model.cluster import ClusterSnapshot, Gpu, MetricsState, Sample
from hyperscale.model.metrics_reading import MetricsReading, Series
from hyperscale.observe.quality import FROZEN
from hyperscale.observe.series.debounce import History, advance
from hyperscale.observe.snapshot.build_snapshot import build_snapshot
from tests.unit.observe.objects import NOW, raw_node

LIMITS = QualityLimits(freeze_readings=5)
NODES = [raw_node(name) for name in ("gpu-a", "gpu-b", "gpu-c")]
PERIOD = 15.0
Figures = dict[str, tuple[Series, ...]]


def at(moment: int, value: float, /, **labels: str) -> Series:
    return Series(labels, value, NOW + moment * PERIOD)


def run(readings: Iterable[Figures], history: History | None = None) -> tuple[ClusterSnapshot, History]:
    """The snapshot after the last of these readings, PERIOD apart."""
    history = {} if history is None else history
    snapshot = None
    for moment, figures in enumerate(readings):
        now = NOW + moment * PERIOD
        reading, history = advance(history, MetricsReading(now, MetricsState(True), figures), LIMITS)
        snapshot = build_snapshot(NODES, [], reading, PolicySpec(limits=LIMITS), now)
    assert snapshot is not None
    return snapshot, history


def gpu_reading(moment: int, use: float, celsius: float, watts: float) -> Figures:
    label = {"node": "gpu-a", "UUID": "GPU-1"}
    return {
        "gpu_utilization": (at(moment, use, **label),),
        "temperature": (at(moment, celsius, **label),),
        "power": (at(moment, watts, **label),),
    }


def gpu(snapshot: ClusterSnapshot) -> Gpu:
    return snapshot.nodes[0].gpus[0]


def link(*values: float, figure: str = "link_latency", agent: bool = False) -> Sample:
    """The sample of one link after readings of these values."""
    label = {"source": "gpu-a", "destination": "gpu-b", "instance": "10.0.0.1:9465"}

    def state(moment: int) -> Figures:
        return {"agent_state": (at(moment, 1, instance="10.0.0.1:9465"),)} if agent else {}

    snapshot, _ = run({figure: (at(moment, value, **label),), **state(moment)} for moment, value in enumerate(values))
    found = snapshot.links[0]
    return found.latency_seconds if figure == "link_latency" else found.bandwidth_bytes_per_second


def test_an_exporter_that_repeats_a_busy_gpu_under_new_timestamps_is_not_believed() -> None:
    snapshot, _ = run(gpu_reading(moment, 87, 71, 388.25) for moment in range(7))
    assert {sample.fault for sample in (gpu(snapshot).utilization_ratio, gpu(snapshot).power_watts, gpu(snapshot).temperature_celsius)} == {
        FROZEN
    }
    assert (snapshot.metrics.available, snapshot.metrics.reason) == (False, "MetricsStale")


@pytest.mark.parametrize(
    ("use", "watts"),
    [
        pytest.param([87] * 7, [388.25 + moment / 10 for moment in range(7)], id="power moves"),
        pytest.param([2] * 7, [61.5] * 7, id="an idle GPU may well stay the same"),
        pytest.param([87] * 5, [388.25] * 5, id="not often enough"),
    ],
)
def test_a_gpu_that_merely_works_steadily_is_believed(use: list[float], watts: list[float]) -> None:
    snapshot, _ = run(gpu_reading(moment, percent, 71, watt) for moment, (percent, watt) in enumerate(zip(use, watts, strict=True)))
    assert gpu(snapshot).utilization_ratio.value == use[-1] / 100


def test_the_same_scrape_read_often_is_not_frozen() -> None:
    snapshot, _ = run(gpu_reading(0, 87, 71, 388.25) for _ in range(8))
    assert gpu(snapshot).utilization_ratio.value == 0.87


def test_a_figure_that_leaves_its_history_at_once_waits_until_it_is_confirmed() -> None:
    waiting = link(0.0001, 0.0001, 0.0001, 0.1)
    assert (waiting.value, waiting.fault) == (None, "left its own history by about ×1e+3 at once; not confirmed yet")
    assert link(0.0001, 0.0001, 0.0001, 0.1, 0.1).value is None
    assert link(0.0001, 0.0001, 0.0001, 0.1, 0.1, 0.1).value == 0.1


def test_a_single_outlier_leaves_nothing_behind() -> None:
    assert link(0.0001, 0.0001, 0.0001, 0.1, 0.0001).value == 0.0001
    assert link(0.0001, 0.0001, 0.0001, 0.1, 5.0, 0.1, 5.0).value is None


@pytest.mark.parametrize("factor", [3, 10, 50])
def test_an_altered_link_of_an_agent_is_seen_at_once(factor: float) -> None:
    assert link(1e9, 1e9, 1e9, 1e9 / factor, figure="link_bandwidth", agent=True).value == 1e9 / factor


def test_links_of_other_exporters_are_the_median_of_their_window() -> None:
    assert link(1.0e9, 1.1e9, 0.4e9, figure="link_bandwidth").value == 1.0e9
    assert link(1.0e9, 1.0e9, 0.5e9, 0.5e9, figure="link_bandwidth").value == 0.5e9


def test_confidence_falls_as_readings_differ() -> None:
    assert link(1.0e9, 1.0e9, 1.0e9, figure="link_bandwidth").confidence == 1.0
    assert link(1.0e9, 1.5e9, 0.5e9, figure="link_bandwidth").confidence == pytest.approx(0.3)


def every_pair(moment: int, factor: float) -> Figures:
    names = ("gpu-a", "gpu-b", "gpu-c")
    pairs = [(a, b) for a in names for b in names if a != b]
    return {"link_latency": tuple(at(moment, factor * (1 + place) * 1e-5, source=a, destination=b) for place, (a, b) in enumerate(pairs))}


def test_a_changed_unit_is_not_confirmed_by_a_few_readings() -> None:
    snapshot, history = run(every_pair(moment, 1.0 if moment < 5 else 1000.0) for moment in range(20))
    assert {one.latency_seconds.value for one in snapshot.links} == {None}
    snapshot, _ = run((every_pair(moment, 1.0) for moment in range(1)), history)
    snapshot, _ = run(every_pair(moment, 1.0 if moment < 5 or moment >= 20 else 1000.0) for moment in range(21))
    assert all(one.latency_seconds.value is not None for one in snapshot.links)


def test_series_may_come_and_go_and_change_their_order() -> None:
    def figures(moment: int, *names: str) -> Figures:
        return {"link_latency": tuple(at(moment, 1e-4, source="gpu-a", destination=name) for name in names)}

    snapshot, history = run([figures(0, "gpu-b"), figures(1, "gpu-c", "gpu-b"), figures(2, "gpu-b", "gpu-c"), figures(3, "gpu-c")])
    assert [one.latency_seconds.value for one in snapshot.links] == [1e-4]
    assert len(history["link_latency"].labels) == 1


def test_points_that_are_no_figures_leave_no_trace() -> None:
    bad = float("nan"), float("inf"), -1.0, 1e300
    assert link(1e-4, 1e-4, *bad, 2e-4).value == 1e-4
    assert link(1e-4, 1e-4, bad[0]).fault == "not a number"


def test_forty_thousand_series_take_little_memory_and_the_same_labels_are_recognised() -> None:
    labels = [{"node": f"n{number // 8}", "UUID": f"GPU-{number}"} for number in range(40_000)]
    history: History = {}
    for moment in range(3):
        series = tuple(Series(one, 50.0, NOW + moment) for one in labels)
        reading = MetricsReading(NOW + moment, MetricsState(True), dict.fromkeys(("gpu_utilization", "temperature", "power"), series))
        _, history = advance(history, reading, QualityLimits())
    arrays = [array for track in history.values() for array in vars(track).values() if isinstance(array, np.ndarray)]
    assert sum(array.nbytes for array in arrays) < 16 * 2**20
    assert history["power"].same.min() == 2
