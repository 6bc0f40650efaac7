"""When a pod ends, its GPUs' last readings say nothing about them any more."""

from __future__ import annotations

from typing import Any

import pytest

from hyperscale.control.cache.cluster_cache import ClusterCache
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot, Quality
from hyperscale.model.metrics_reading import Series
from hyperscale.observe.kube.fields import pod_view
from hyperscale.observe.series.recently_freed import ENDED, KEPT_SECONDS, Release, Releases
from hyperscale.observe.snapshot.build_snapshot import build_snapshot
from tests.unit.observe.objects import NOW, raw_node, raw_pod, reading, series

EXPORTER = raw_pod("dcgm-x", "gpu-a", namespace="monitoring")


def busy(number: int, percent: float = 90, age: float = 10.0, /, **labels: str) -> Series:
    return series(percent, age, node="gpu-a", UUID=f"GPU-{number}", **labels)


def seen(pods: list[dict[str, Any]], releases: tuple[Release, ...], *given: Series, gpus: int = 2) -> ClusterSnapshot:
    used = tuple(Series(one.labels, 70_000.0, one.timestamp) for one in given)
    views = [pod_view(pod) for pod in pods]
    facts = reading(gpu_utilization=given, memory_used=used)
    return build_snapshot([raw_node("gpu-a", gpus)], views, facts, PolicySpec(), NOW, {"gpu-a": releases})


def use(snapshot: ClusterSnapshot) -> list[float | None]:
    return [gpu.utilization_ratio.value for gpu in snapshot.nodes[0].gpus]


def test_a_reading_from_before_the_end_of_the_pod_is_not_the_gpus_use_now() -> None:
    snapshot = seen([], (Release(NOW - 1, 2),), busy(0), busy(1))
    gpu = snapshot.nodes[0].gpus[0]
    assert use(snapshot) == [0.0, 0.0]
    assert (gpu.utilization_ratio.quality, gpu.utilization_ratio.source) == (Quality.ESTIMATED, "pods")
    assert (gpu.memory_used_bytes.value, gpu.memory_used_bytes.fault) == (None, ENDED)


def test_exporters_repeat_what_they_collected_so_a_reading_just_after_the_end_is_void_too() -> None:
    assert use(seen([], (Release(NOW - 20, 2),), busy(0), busy(1))) == [0.0, 0.0]
    assert use(seen([], (Release(NOW - 60, 2),), busy(0), busy(1))) == [0.9, 0.9]


def test_only_as_many_gpus_as_were_given_back_are_taken_for_idle() -> None:
    other = raw_pod("other", "gpu-a", 2)
    assert sorted(map(str, use(seen([other], (Release(NOW - 1, 2),), *map(busy, range(4)), gpus=4)))) == ["0.0", "0.0", "0.9", "0.9"]


def test_gpus_that_the_next_pod_holds_already_keep_their_readings() -> None:
    following = raw_pod("next", "gpu-a", 2)
    assert use(seen([following], (Release(NOW - 1, 2),), busy(0), busy(1))) == [0.9, 0.9]


def test_somebody_elses_work_on_a_free_gpu_stays_in_sight() -> None:
    assert use(seen([], (), busy(0), busy(1, 3))) == [0.9, 0.03]


@pytest.mark.parametrize("prefix", ["", "exported_"])
def test_a_reading_that_names_its_pod_tells_which_gpus_were_given_back(prefix: str) -> None:
    def named(pod: str) -> dict[str, str]:
        target = {"namespace": "monitoring", "pod": "dcgm-x"} if prefix else {}
        return {**target, f"{prefix}namespace": "ml", f"{prefix}pod": pod}

    pods = [EXPORTER, raw_pod("stays", "gpu-a", 1)]
    snapshot = seen(pods, (Release(NOW - 1, 1),), busy(0, 90, **named("stays")), busy(1, 80, **named("gone")))
    assert use(snapshot) == [0.9, 0.0]


def test_the_exporters_own_pod_holds_no_gpu() -> None:
    labels = {"namespace": "monitoring", "pod": "dcgm-x"}
    assert use(seen([EXPORTER], (Release(NOW - 1, 2),), busy(0, **labels), busy(1, **labels))) == [0.0, 0.0]


def test_an_idle_reading_is_kept() -> None:
    snapshot = seen([], (Release(NOW - 1, 2),), busy(0, 2), busy(1, 0))
    assert use(snapshot) == [0.02, 0.0]
    assert snapshot.nodes[0].gpus[0].utilization_ratio.quality is Quality.MEASURED


@pytest.mark.parametrize("ends", ["deleted", "succeeded", "not in the listing"])
def test_the_world_takes_gpus_for_idle_as_soon_as_their_pod_has_ended(ends: str) -> None:
    world = ClusterCache(clock=lambda: NOW)
    world.replace("Node", [raw_node("gpu-a", 2)])
    holding = raw_pod("rank-0", "gpu-a", 2)
    world.see_pod(holding)
    world.snapshots.reading = reading(gpu_utilization=(busy(0), busy(1)))
    assert use(world.snapshot(PolicySpec(), NOW)) == [0.9, 0.9]
    if ends == "deleted":
        world.see_pod(holding, deleted=True)
    elif ends == "succeeded":
        world.see_pod({**holding, "status": {"phase": "Succeeded"}})
    else:
        world.replace("Pod", [])
    assert use(world.snapshot(PolicySpec(), NOW)) == [0.0, 0.0]


def test_old_ends_are_forgotten() -> None:
    releases = Releases()
    for number in range(100):
        releases.note("gpu-a", 1, NOW + number * KEPT_SECONDS)
    assert releases.by_node() == {"gpu-a": (Release(NOW + 99 * KEPT_SECONDS, 1),)}
    releases.forget(NOW + 101 * KEPT_SECONDS)
    assert releases.by_node() == {}
