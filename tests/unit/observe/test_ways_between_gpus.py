"""The ways between a node's GPUs that its agent tells, in the snapshot."""

from __future__ import annotations

import pytest

from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import GpuPaths
from hyperscale.model.digest import snapshot_digest
from hyperscale.model.metrics_reading import Series
from hyperscale.observe.prometheus.incremental import IncrementalValidator
from hyperscale.observe.snapshot.build_snapshot import build_snapshot
from hyperscale.observe.snapshot.snapshot_cache import Memory
from tests.unit.observe.objects import NOW, raw_node, reading, series

POLICY = PolicySpec()


def paths_of(*found: Series) -> GpuPaths | None:
    return build_snapshot([raw_node("gpu-a")], [], reading(gpu_paths=found), POLICY, NOW).nodes[0].gpu_paths


def test_a_node_whose_pairs_all_have_nvlinks_is_as_good_as_the_pair_with_the_fewest() -> None:
    assert paths_of(series(17.0, node="gpu-a", kind="NVLink")) == GpuPaths("NVLink", 17)


def test_the_narrowest_way_counts_since_gpus_are_handed_out_blindly() -> None:
    assert paths_of(series(4.0, node="gpu-a", kind="NVLink"), series(1.0, node="gpu-a", kind="System")) == GpuPaths("System")


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf"), 1e9])
def test_an_absurd_number_of_links_tells_nothing(value: float) -> None:
    assert paths_of(series(value, node="gpu-a", kind="NVLink")) is None


def test_old_unknown_and_foreign_ways_tell_nothing() -> None:
    assert paths_of(series(18.0, 1e4, node="gpu-a", kind="NVLink")) is None
    assert paths_of(series(18.0, node="gpu-a", kind="Warp")) is None
    assert paths_of(series(18.0, node="elsewhere", kind="NVLink")) is None
    assert paths_of() is None


def test_ways_that_change_make_another_snapshot_also_from_one_reading_to_the_next() -> None:
    nodes, memory, judge = [raw_node("gpu-a")], Memory(), IncrementalValidator()
    seen = []
    for links in (18.0, 18.0, 9.0):
        told = reading(gpu_paths=(series(links, node="gpu-a", kind="NVLink"),))
        memory.published = judge.figures(told, memory.see(nodes, []), POLICY.limits)
        seen.append(build_snapshot(nodes, [], told, POLICY, NOW, memory=memory))
    assert [one.nodes[0].gpu_paths for one in seen] == [GpuPaths("NVLink", 18), GpuPaths("NVLink", 18), GpuPaths("NVLink", 9)]
    assert snapshot_digest(seen[0]) == snapshot_digest(seen[1]) != snapshot_digest(seen[2])
