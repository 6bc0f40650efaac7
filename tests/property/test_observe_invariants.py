from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from hyperscale.model.api.policy import PolicySpec, QualityLimits
from hyperscale.model.cluster import AbsentLink, ClusterSnapshot, Gpu, Link, MetricsState, Node, Quality, Sample, Taint
from hyperscale.model.digest import snapshot_digest
from hyperscale.model.metrics_reading import FIGURES, MetricsReading, Series, Verdict
from hyperscale.observe.files.bounded import SnapshotError
from hyperscale.observe.files.snapshot_files import MAX_SAMPLES, MAX_TAKEN_AT, encode_snapshot, read_snapshot, write_snapshot
from hyperscale.observe.identity import NODE_LABELS
from hyperscale.observe.kube.demand import pod_demand
from hyperscale.observe.kube.fields import pod_view
from hyperscale.observe.kube.node_labels import detect_levels, domains
from hyperscale.observe.quality import Point, judge, rules
from hyperscale.observe.snapshot.build_snapshot import build_snapshot, gpu_samples, link_samples

NOW = 1_800_000_000.0
FAST = settings(max_examples=50, deadline=None)
RULES = rules(QualityLimits())

numbers = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0.0, -0.0, 1.0, 50.0, math.nan, math.inf, -math.inf, 1.8446744073709552e19, 2147483632.0, 140737488355328.0]),
    st.floats(0, 100),
)
times = st.one_of(numbers, st.floats(NOW - 300, NOW + 300))
points = st.builds(Point, numbers, times)

node_names = st.sampled_from(["a", "b", "c"])
texts = st.one_of(node_names, st.sampled_from(["", "x", "a:9400", "exporter-1", "10.0.0.1:9400"]), st.text(max_size=8))
label_keys = st.sampled_from([*NODE_LABELS, "UUID", "uuid", "gpu", "GPU_I_ID", "pod", "namespace", "source", "destination"])
series = st.builds(Series, st.dictionaries(label_keys, texts, max_size=6), numbers, times)
readings = st.builds(
    MetricsReading,
    st.just(NOW),
    st.just(MetricsState(available=True)),
    st.dictionaries(st.sampled_from(FIGURES), st.lists(series, max_size=12).map(tuple), max_size=9),
)


def raw_node(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": name}},
        "status": {"allocatable": {"nvidia.com/gpu": "8"}, "addresses": [{"address": f"10.0.0.{ord(name)}"}]},
    }


NODES = [raw_node(name) for name in "abc"]


def honest(sample: Sample) -> bool:
    """A finite value of 0 or more, or none with a reason."""
    if sample.value is None:
        return sample.quality is Quality.UNKNOWN and bool(sample.fault)
    return sample.quality is not Quality.UNKNOWN and math.isfinite(sample.value) and sample.value >= 0 and sample.fault is None


@FAST
@given(st.sampled_from(FIGURES), st.lists(points, max_size=6))
def test_any_points_amount_to_a_finite_value_or_to_unknown_with_a_reason(figure: str, given_points: list[Point]) -> None:
    sample = judge(given_points, RULES[figure], NOW, 120.0)
    assert honest(sample)
    assert sample.age_seconds is None or (math.isfinite(sample.age_seconds) and sample.age_seconds >= 0)


@FAST
@given(st.sampled_from(FIGURES), st.lists(points, max_size=6))
@example("gpu_utilization", [Point(1.0, NOW - 120.0, "", Verdict(middle=0.0))])
def test_zero_is_answered_only_where_zero_was_measured_now_or_in_the_median_of_the_past(figure: str, given_points: list[Point]) -> None:
    sample = judge(given_points, RULES[figure], NOW, 120.0)
    if sample.value == 0.0 and not RULES[figure].whole:
        middles = [point.verdict.middle for point in given_points if point.verdict is not None and point.verdict.middle is not None]
        measured = [point.value for point in given_points] + middles  # a median of earlier readings was measured too
        assert any(0 <= value * RULES[figure].scale < 1e-300 for value in measured)


@FAST
@given(st.sampled_from(FIGURES), st.lists(points, max_size=6))
def test_the_order_of_points_does_not_matter(figure: str, given_points: list[Point]) -> None:
    assert judge(given_points, RULES[figure], NOW, 120.0) == judge(given_points[::-1], RULES[figure], NOW, 120.0)


@FAST
@given(readings)
def test_any_soup_of_series_gives_a_snapshot_whose_figures_are_honest_and_which_survives_its_file(reading: MetricsReading) -> None:
    snapshot = build_snapshot(NODES, [], reading, PolicySpec(), NOW)
    samples = [sample for node in snapshot.nodes for gpu in node.gpus for sample in gpu_samples(gpu)]
    samples += [sample for link in snapshot.links for sample in link_samples(link)]
    assert all(honest(sample) for sample in samples)
    assert all(link.source != link.destination for link in snapshot.links)
    with tempfile.TemporaryDirectory() as directory:
        write_snapshot(Path(directory) / "s.json", snapshot)
        again = read_snapshot(Path(directory) / "s.json")
    assert again == snapshot
    assert encode_snapshot(again) == encode_snapshot(snapshot)
    assert snapshot_digest(again) == snapshot_digest(snapshot)


names = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=12)
amounts = st.floats(0, 1e18, allow_subnormal=False)


def good(values: st.SearchStrategy[float]) -> st.SearchStrategy[Sample]:
    return st.one_of(
        st.builds(Sample, values, st.none() | amounts, st.sampled_from([Quality.MEASURED, Quality.ESTIMATED]), st.none() | names),
        st.builds(Sample, st.none(), st.none() | amounts, st.just(Quality.UNKNOWN), names),
    )


def possible(field: str) -> st.SearchStrategy[Sample]:
    return good(st.floats(0, MAX_SAMPLES[field], allow_subnormal=False))


latencies, bandwidths = possible("latency_seconds"), possible("bandwidth_bytes_per_second")
gpus = st.builds(Gpu, names, *(possible(field) for field in Gpu.__struct_fields__[1:]))


@st.composite
def snapshots(draw: st.DrawFn) -> ClusterSnapshot:
    levels = tuple(draw(st.lists(names, max_size=3)))
    found = sorted(draw(st.sets(names, min_size=1, max_size=4)))
    nodes = tuple(
        Node(
            name=name,
            gpu_product=draw(st.none() | names),
            gpu_memory_bytes=draw(st.none() | st.integers(0, 2**50)),
            allocatable_gpus=draw(st.integers(0, 64)),
            requested_gpus=draw(st.integers(0, 64)),
            ready=draw(st.booleans()),
            taints=tuple(draw(st.lists(st.builds(Taint, names, names), max_size=2))),
            labels=draw(st.dictionaries(names, names, max_size=3)),
            domains=tuple(draw(names | st.just("")) for _ in levels),
            gpus=tuple(draw(st.lists(gpus, max_size=2))),
        )
        for name in found
    )
    pairs = [(source, destination) for source in found for destination in found if source != destination and draw(st.booleans())]
    return ClusterSnapshot(
        taken_at=draw(st.floats(0, MAX_TAKEN_AT, allow_subnormal=False)),
        nodes=nodes,
        links=tuple(Link(source, destination, draw(latencies), draw(bandwidths)) for source, destination in pairs),
        levels=levels,
        absent_links=draw(st.sampled_from(AbsentLink)),
    )


@FAST
@given(snapshots())
def test_every_snapshot_survives_its_file(snapshot: ClusterSnapshot) -> None:
    with tempfile.TemporaryDirectory() as directory:
        write_snapshot(Path(directory) / "s.json", snapshot)
        assert read_snapshot(Path(directory) / "s.json") == snapshot


@FAST
@given(snapshots(), st.binary(max_size=40), st.integers(0, 10_000), st.integers(0, 200))
def test_a_damaged_file_is_read_or_refused_in_one_line(snapshot: ClusterSnapshot, damage: bytes, place: int, cut: int) -> None:
    content = encode_snapshot(snapshot)
    place %= len(content)
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "s.json"
        file.write_bytes(content[:place] + damage + content[place + cut :])
        assert "\n" not in refusal(file)


def refusal(file: Path) -> str:
    """Why the file is refused; "" when it is read, and then every figure in it is honest."""
    try:
        snapshot = read_snapshot(file)
    except SnapshotError as error:
        return str(error)
    assert all(
        link_sample.value is None or math.isfinite(link_sample.value) for link in snapshot.links for link_sample in link_samples(link)
    )
    return ""


json_like = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
matrix_keys = st.sampled_from(
    ["delay_ms", "latency_seconds", "bandwidth_gbps", "nodes", "devices", "region", "gpus", "products", "gpu_memory_bytes"]
)


@FAST
@given(st.dictionaries(matrix_keys, json_like | st.just([[0, 1], [1, 0]]), min_size=1))
def test_any_json_under_the_keys_of_a_matrix_is_read_or_refused_in_one_line(wire: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "m.json"
        file.write_text(json.dumps(wire))
        assert "\n" not in refusal(file)


@FAST
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["topology.kubernetes.io/region", "topology.kubernetes.io/zone", "cloud.provider.com/topology-rack"]), texts
        ),
        max_size=6,
    )
)
def test_nodes_in_one_narrow_domain_are_in_one_wide_domain_too(labels: list[dict[str, str]]) -> None:
    levels = detect_levels(labels)
    found = [domains(one, levels) for one in labels]
    for left in found:
        for right in found:
            shared = [place for place in range(len(levels)) if left[place] and left[place] == right[place]]
            for place in range(max(shared, default=0)):
                assert left[place] == right[place]


requests = st.fixed_dictionaries({}, optional={"nvidia.com/gpu": st.integers(0, 8).map(str), "cpu": st.integers(0, 8000).map("{}m".format)})
containers = st.lists(
    st.fixed_dictionaries({"resources": st.fixed_dictionaries({"requests": requests})}, optional={"restartPolicy": st.just("Always")}),
    max_size=4,
)


@FAST
@given(containers, containers)
def test_a_pod_never_holds_less_than_its_containers_ask_for(main: list[dict[str, Any]], init: list[dict[str, Any]]) -> None:
    demand = pod_demand({"containers": main, "initContainers": init})
    for name, scale in (("nvidia.com/gpu", 1.0), ("cpu", 0.001)):
        asked = [float(str(one["resources"]["requests"].get(name, "0")).rstrip("m")) * scale for one in (*main, *init)]
        assert demand.get(name, 0.0) >= sum(asked[: len(main)]) - 1e-9
        assert demand.get(name, 0.0) >= max(asked, default=0.0) - 1e-9
        assert demand.get(name, 0.0) <= sum(asked) + 1e-9


@FAST
@given(st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), st.just({}) | st.none()))
def test_a_pod_with_parts_missing_is_still_a_pod(raw: dict[str, Any]) -> None:
    assert pod_view(raw).gpus == 0
