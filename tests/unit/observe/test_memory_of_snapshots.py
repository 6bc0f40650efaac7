"""What a snapshot leaves for the next is bounded by the cluster of now, and figures of a large one are not judged twice."""

from __future__ import annotations

import pytest

from hyperscale.model.api.policy import PolicySpec, QualityLimits
from hyperscale.model.metrics_reading import MetricsReading
from hyperscale.model.pods import PodView
from hyperscale.observe.identity import NodeIndex
from hyperscale.observe.snapshot import build_snapshot as snapshot_module
from hyperscale.observe.snapshot import snapshot_cache as memory_module
from hyperscale.observe.snapshot.build_snapshot import SnapshotFigures, build_snapshot, judged
from hyperscale.observe.snapshot.snapshot_cache import Memory
from tests.unit.observe.objects import NOW, raw_node, reading, series


def test_nodes_that_are_gone_leave_nothing_behind() -> None:
    memory = Memory()
    for number in range(50):
        memory.see([raw_node(f"spot-{number}")], [PodView("default", f"pod-{number}", node=f"spot-{number}", phase="Running", gpus=1)])
    assert memory._held.keys() == memory._pods_on.keys() == {"spot-49"}
    memory.see([], [])
    assert not memory._held
    assert not memory._pods_on


@pytest.fixture
def judged_before(monkeypatch: pytest.MonkeyPatch) -> tuple[Memory, MetricsReading]:
    """Figures of a large cluster that a thread judged; judging them again is an error."""

    def never(*_: object) -> SnapshotFigures:
        raise AssertionError("judged on the event loop")

    memory, given = Memory(), reading(power=(series(300, node="a", UUID="GPU-1"),))
    memory.published = judged(given, NodeIndex([raw_node("a")]), PolicySpec().limits, NOW)
    monkeypatch.setattr(snapshot_module, "judged", never)
    monkeypatch.setattr(memory_module, "LARGE_SERIES", 0)
    return memory, given


def test_a_large_reading_that_is_stale_as_a_whole_tells_nothing_and_is_not_judged_again(
    judged_before: tuple[Memory, MetricsReading],
) -> None:
    memory, given = judged_before
    fresh, stale = (build_snapshot([raw_node("a")], [], given, PolicySpec(), NOW + age, None, memory) for age in (1, 1000))
    assert (fresh.metrics.available, len(fresh.nodes[0].gpus)) == (True, 1)
    assert (stale.metrics.available, stale.metrics.reason, stale.nodes[0].gpus) == (False, "MetricsStale", ())


def test_a_reading_that_was_stale_for_a_clock_that_ran_ahead_counts_again_once_the_clock_is_right() -> None:
    memory, given = Memory(), reading(power=(series(300, node="a", UUID="GPU-1"),))
    snapshots = [build_snapshot([raw_node("a")], [], given, PolicySpec(), NOW + age, None, memory) for age in (1000, 1)]
    assert [one.metrics.available for one in snapshots] == [False, True]
    assert snapshots[1] == build_snapshot([raw_node("a")], [], given, PolicySpec(), NOW + 1)


def test_limits_that_change_hold_with_the_next_judgement_of_a_large_reading(judged_before: tuple[Memory, MetricsReading]) -> None:
    memory, given = judged_before
    policy = PolicySpec(limits=QualityLimits(max_age_seconds=60))
    assert build_snapshot([raw_node("a")], [], given, policy, NOW + 1, None, memory).metrics.available
    assert memory.outdated
