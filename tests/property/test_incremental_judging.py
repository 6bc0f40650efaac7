"""Judging what changed gives what judging everything gives; a snapshot with a memory is the one without."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import MetricsState
from hyperscale.model.metrics_reading import MetricsReading, Series
from hyperscale.observe.files.snapshot_files import encode_snapshot
from hyperscale.observe.identity import NodeIndex
from hyperscale.observe.kube.fields import pod_view
from hyperscale.observe.prometheus.incremental import IncrementalValidator
from hyperscale.observe.snapshot.build_snapshot import build_snapshot, judged
from hyperscale.observe.snapshot.snapshot_cache import Memory
from tests.unit.observe.objects import NOW, raw_node, raw_pod

POLICY = PolicySpec()
NODES = [raw_node(f"n{number}") for number in range(3)]
GPU_LABELS = [
    {"Hostname": f"n{node}", "UUID": f"GPU-{node}-{gpu}", "gpu": str(gpu), **({"GPU_I_ID": "1"} if (node, gpu) == (2, 1) else {})}
    for node in range(3)
    for gpu in range(2)
]
GPU_LABELS += [
    {"Hostname": "stranger", "UUID": "GPU-x"},
    {"Hostname": "n1"},
    {"Hostname": "n0", "gpu": "1"},
    {"Hostname": "n2", "gpu": "7"},
]
LINK_LABELS = [{"source": f"n{a}", "destination": f"n{b}"} for a in range(3) for b in range(3)] + [{"source": "n0", "destination": "far"}]
VALUES = st.sampled_from([0.0, 1.0, 50.0, 99.0, 1e9, float("nan"), -1.0])


@st.composite
def readings(draw: st.DrawFn) -> list[MetricsReading]:
    """Readings of the same things, ten seconds apart; each scraped at once, so that ages are exact."""
    made = []
    moment = NOW
    before: dict[tuple[str, int], float] = {}
    for _ in range(draw(st.integers(1, 4))):
        series: dict[str, tuple[Series, ...]] = {}
        for figure, labels in (("power", GPU_LABELS), ("temperature", GPU_LABELS), ("link_latency", LINK_LABELS)):
            kept = draw(st.sets(st.integers(0, len(labels) - 1), min_size=len(labels) - 2)) if draw(st.booleans()) else range(len(labels))
            found = []
            for at in sorted(kept):
                if (figure, at) not in before or draw(st.integers(0, 3)) == 0:
                    before[figure, at] = draw(VALUES)
                found.append(Series(labels[at], before[figure, at], moment))
            found += found[:1] if draw(st.integers(0, 3)) == 0 else []
            series[figure] = tuple(reversed(found)) if draw(st.integers(0, 5)) == 0 else tuple(found)
        made.append(MetricsReading(taken_at=moment, state=MetricsState(True), series=series))
        moment += 10.0
    return made


@settings(max_examples=50, deadline=None)
@given(readings())
def test_what_is_judged_step_by_step_equals_what_is_judged_at_once(given_readings: list[MetricsReading]) -> None:
    judge = IncrementalValidator()
    for reading in given_readings:
        stepwise = judge.figures(reading, NodeIndex(NODES), POLICY.limits)
        at_once = judged(reading, NodeIndex(NODES), POLICY.limits, reading.taken_at)
        assert repr(stepwise.gpus) == repr(at_once.gpus) or dict(stepwise.gpus) == dict(at_once.gpus)
        assert stepwise.links == at_once.links
        assert stepwise.state == at_once.state


@settings(max_examples=50, deadline=None)
@given(readings(), st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 4)), max_size=12), st.data())
def test_a_snapshot_with_a_memory_is_the_one_without(
    given_readings: list[MetricsReading], moves: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    judge, memory = IncrementalValidator(), Memory()
    pods: dict[str, Any] = {}
    for reading in given_readings:
        memory.published = judge.figures(reading, NodeIndex(NODES), POLICY.limits)
        for node, pod, gpus in moves:
            if gpus == 4:
                pods.pop(f"p{pod}", None)
            else:
                pods[f"p{pod}"] = pod_view(raw_pod(f"p{pod}", node=f"n{node}", gpus=gpus))
            nodes = NODES if data.draw(st.booleans()) else NODES[:2]
            with_memory = build_snapshot(nodes, pods.values(), reading, POLICY, reading.taken_at, None, memory)
            assert encode_snapshot(with_memory) == encode_snapshot(build_snapshot(nodes, pods.values(), reading, POLICY, reading.taken_at))


def test_a_gpu_whose_labels_or_figures_change_is_judged_and_no_other() -> None:
    judge, labels = IncrementalValidator(), [{"Hostname": f"n{at % 3}", "UUID": f"GPU-{at}"} for at in range(12)]
    judged_units = []
    for moment, values in enumerate(([1.0] * 12, [1.0] * 12, [1.0] * 11 + [2.0])):
        series = tuple(Series(one, value, NOW + 10 * moment) for one, value in zip(labels, values, strict=True))
        judge.figures(MetricsReading(NOW + 10 * moment, MetricsState(True), {"gpu_utilization": series}), NodeIndex(NODES), POLICY.limits)
        judged_units.append(judge.judged_units)
    labels[5] = {**labels[5], "exported_pod": "trainer", "exported_namespace": "ml"}
    series = (*series[:5], Series(labels[5], 1.0, NOW + 30), *series[6:])
    figures = judge.figures(MetricsReading(NOW + 30, MetricsState(True), {"gpu_utilization": series}), NodeIndex(NODES), POLICY.limits)
    assert [*judged_units, judge.judged_units] == [12, 0, 1, 1]
    assert figures.holders == {"n2": {"GPU-5": ("ml", "trainer")}}
    assert {node: [gpu.uuid for gpu in gpus] for node, gpus in figures.gpus.items()} == {
        f"n{node}": sorted(f"GPU-{at}" for at in range(node, 12, 3)) for node in range(3)
    }


def test_equal_label_sets_are_the_same_series_whichever_objects_hold_them() -> None:
    judge, labels = IncrementalValidator(), [{"Hostname": f"n{at % 3}", "UUID": f"GPU-{at}"} for at in range(12)]
    judged_units = []
    for values in ([1.0] * 12, [1.0] * 12, [2.0] + [1.0] * 11):
        series = tuple(Series(dict(one), value, NOW) for one, value in zip(labels, values, strict=True))
        judge.figures(MetricsReading(NOW, MetricsState(True), {"gpu_utilization": series}), NodeIndex(NODES), POLICY.limits)
        judged_units.append(judge.judged_units)
    assert judged_units == [12, 0, 1]


def test_an_age_that_moves_on_while_nothing_is_scraped_is_told_and_ends_as_stale() -> None:
    judge = IncrementalValidator()
    labels = {"Hostname": "n0", "UUID": "GPU-0"}
    seen = []
    for later in (0.0, 10.0, 20.0, 200.0):
        reading = MetricsReading(
            taken_at=NOW + later, state=MetricsState(True), series={"power": (Series(labels, 300.0, NOW),), "temperature": ()}
        )
        seen.append(judge.figures(reading, NodeIndex(NODES), POLICY.limits))
    ages = [figures.gpus["n0"][0].power_watts.age_seconds for figures in seen]
    assert ages == [0.0, 0.0, 20.0, 200.0]
    assert seen[-1].state.reason == "MetricsStale"


def test_a_node_that_comes_gets_its_figures_with_the_next_judgement() -> None:
    judge = IncrementalValidator()
    reading = MetricsReading(
        taken_at=NOW, state=MetricsState(True), series={"power": tuple(Series(labels, 300.0, NOW) for labels in GPU_LABELS[:6:2])}
    )
    assert set(judge.figures(reading, NodeIndex(NODES[:1]), POLICY.limits).gpus) == {"n0"}
    assert set(judge.figures(reading, NodeIndex(NODES), POLICY.limits).gpus) == {"n0", "n1", "n2"}
    assert set(judge.figures(reading, NodeIndex(NODES[1:]), POLICY.limits).gpus) == {"n1", "n2"}
