"""Lives of nodes: what ends one, what does not, and what a later process makes of them."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hyperscale.control.history import nodes_table
from hyperscale.control.history.node_watch import HEALTHY, MIN_DOWN_SECONDS, MISSED, NOT_READY, PLANNED, UNREACHABLE, NodeWatch
from hyperscale.control.history.run_store import RunStore
from hyperscale.evaluate.calibration.lessons import NodeLife
from hyperscale.observe.kube.projection import narrow_node
from hyperscale.util.rfc3339 import timestamp

START = 1_790_000_000.0


def node(
    name: str = "n1", ready: str = "True", since: float = START - 1e6, *, cordoned: bool = False, gpus: int = 4, taint: str = ""
) -> dict[str, Any]:
    return narrow_node(
        {
            "metadata": {"name": name, "uid": name, "labels": {"nvidia.com/gpu.product": "H100"} if gpus else {}},
            "spec": {"unschedulable": cordoned, "taints": [{"key": taint, "effect": "NoSchedule"}] if taint else None},
            "status": {
                "allocatable": {"nvidia.com/gpu": str(gpus)},
                "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": timestamp(since), "lastHeartbeatTime": "now"}],
            },
        }
    )


def watching(*lives: NodeLife) -> NodeWatch:
    watch = NodeWatch()
    watch.begin(lives)
    return watch


def ended(watch: NodeWatch) -> list[tuple[str, float, str]]:
    return [
        (each.node, (each.remove_seconds or 0.0) - START, each.cause) for each in watch.pending.values() if each.remove_seconds is not None
    ]


def test_a_node_begins_its_life_when_it_is_seen_and_idle_looks_note_nothing() -> None:
    watch = watching()
    nodes = [node(), node("cpu", gpus=0)]
    watch.look(nodes, START)
    assert list(watch.pending.values()) == [NodeLife("n1", "H100", START)]
    watch.pending.clear()
    watch.look(nodes, START + 1e6)
    assert watch.pending == {}


@pytest.mark.parametrize(("ready", "cause"), [("False", NOT_READY), ("Unknown", UNREACHABLE)])
def test_a_node_that_stays_down_failed_when_it_went_down(ready: str, cause: str) -> None:
    watch = watching()
    watch.look([node()], START)
    for after in (100.0, 115.0, 161.0, 200.0):
        watch.look([node(ready=ready, since=START + 99.0)], START + after)
    assert ended(watch) == [("n1", 100.0, cause)]
    watch.look([node(since=START + 300.0)], START + 301.0)
    assert [each.insert_seconds - START for each in watch.pending.values()] == [0.0, 301.0]


def test_a_short_unreadiness_is_no_failure_now_nor_for_a_later_process() -> None:
    watch = watching()
    watch.look([node()], START)
    watch.look([node(ready="Unknown", since=START + 999.0)], START + 1000.0)
    watch.look([node(since=START + 1020.0)], START + 1021.0)
    assert [cause for _, _, cause in ended(watch)] == [HEALTHY]
    later = watching(*watch.pending.values())
    later.look([node(since=START + 1020.0)], START + 5000.0)
    assert later.pending == {}


def test_a_failure_while_no_operator_ran_shows_in_the_time_of_the_last_transition() -> None:
    watch = watching(NodeLife("n1", "H100", START))
    watch.look([node(since=START + 500.0)], START + 900.0)
    assert ended(watch) == [("n1", 500.0, MISSED)]


def test_people_who_cordon_or_remove_a_node_end_its_life_without_a_failure() -> None:
    watch = watching()
    watch.look([node(), node("n2")], START)
    watch.look([node(cordoned=True), node("n2")], START + 10.0)
    assert ended(watch) == [], "a cordoned node is still in service"
    watch.look([node(ready="False", cordoned=True)], START + 20.0)
    assert ended(watch) == [("n1", 20.0, PLANNED), ("n2", 20.0, PLANNED)]


def test_a_node_that_is_removed_after_it_went_down_failed() -> None:
    watch = watching()
    watch.look([node()], START)
    watch.look([node(ready="Unknown")], START + 10.0)
    watch.look([], START + 10.0 + MIN_DOWN_SECONDS)
    assert ended(watch) == [("n1", 10.0, UNREACHABLE)]


def test_a_node_that_is_shut_down_and_removed_at_once_is_no_failure() -> None:
    watch = watching()
    watch.look([node()], START)
    watch.look([node(ready="Unknown")], START + 10.0)
    watch.look([], START + 25.0)
    assert ended(watch) == [("n1", 10.0, PLANNED)]


@pytest.mark.parametrize("taint", ["ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted"])
def test_a_node_that_an_autoscaler_takes_out_is_no_failure_however_long_that_takes(taint: str) -> None:
    for later in ([node(ready="Unknown", taint=taint)], []):
        watch = watching()
        watch.look([node()], START)
        watch.look([node(taint=taint)], START + 10.0)
        assert ended(watch) == [], "it is still in service"
        watch.look([node(ready="Unknown", taint=taint)], START + 20.0)
        watch.look(later, START + 500.0)
        assert ended(watch) == [("n1", 20.0, PLANNED)]
    failing = watching()
    for after in (0.0, 10.0, 500.0):
        failing.look([node(ready="True" if not after else "Unknown", taint="node.kubernetes.io/unreachable")], START + after)
    assert ended(failing) == [("n1", 10.0, UNREACHABLE)]


def test_a_node_whose_device_plugin_fails_is_still_there() -> None:
    watch = watching()
    watch.look([node()], START)
    watch.look([node(gpus=0)], START + 10.0)
    assert ended(watch) == []


@pytest.mark.parametrize("text", ["", "yesterday", "2026"])
def test_a_time_that_is_none_is_unknown(text: str) -> None:
    watch = watching(NodeLife("n1", "H100", START))
    odd = node()
    odd["status"]["conditions"][0]["lastTransitionTime"] = text
    watch.look([odd], START + 900.0)
    assert watch.pending == {}


def test_nothing_is_noted_before_earlier_lives_were_read() -> None:
    watch = NodeWatch()
    watch.look([node()], START)
    assert (watch.begun, watch.pending) == (False, {})


def test_lives_are_kept_by_cluster_and_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes_table, "MAX_LIVES", 3)
    with closing(RunStore(f"sqlite:///{tmp_path}/h")) as store:
        opened = NodeLife("a", "H100", 1.0)
        store.keep_lives("one", [opened])
        store.keep_lives("other", [NodeLife("a", "T4", 1.0)])
        closed = NodeLife("a", "H100", 1.0, 5.0, NOT_READY)
        store.keep_lives("one", [closed])
        assert store.node_lives("one") == (closed,)
        later = [NodeLife("a", "H100", 10.0 + number, 20.0 + number, NOT_READY) for number in range(5)]
        store.keep_lives("one", later)
        assert store.node_lives("one") == tuple(later[2:])
        assert len(store.node_lives("other")) == 1
        store.prune(23.5)
        assert store.node_lives("one") == tuple(later[4:])
