"""Snapshots that verdicts refer to: told apart by number, so that no waiting job keeps one."""

from __future__ import annotations

from hyperscale.control.scheduler.queue_entry import SnapshotNumbers
from hyperscale.model.api.policy import PolicySpec
from tests.builders.clusters import POLICY, snapshot

OTHER = PolicySpec(tolerance_percent=2)


def test_snapshots_of_two_policies_are_told_apart_by_turns() -> None:
    numbers, mine, theirs = SnapshotNumbers(), snapshot(), snapshot()
    first = numbers.of(mine, POLICY), numbers.of(theirs, OTHER)
    assert first[0] != first[1]
    assert (numbers.of(mine, POLICY), numbers.of(theirs, OTHER)) == first


def test_only_the_last_snapshot_of_a_policy_is_kept() -> None:
    numbers, mine = SnapshotNumbers(), snapshot()
    first = numbers.of(mine, POLICY)
    assert numbers.of(snapshot(), POLICY) > first
    assert numbers.of(mine, POLICY) > first
