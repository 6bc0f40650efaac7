"""Events, listings and answers arrive in any order: what is newer stays, what was deleted stays deleted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperscale.control.cache.cluster_cache import ClusterCache
from hyperscale.control.cache.intake import JOB, MPIJOB, NODE, POD
from hyperscale.control.cache.listings import Versions
from hyperscale.control.cache.records import Key
from tests.unit.control.test_world import CORA, OTHER, cache, free, job, mpijob, node, pod


def finished(name: str, *, on: str, version: int) -> dict[str, Any]:
    resource = pod(name, on=on, version=version, job="")
    resource["status"]["phase"] = "Succeeded"
    return resource


def test_a_pod_that_finished_while_a_listing_was_read_holds_nothing() -> None:
    seen = cache()
    seen.see_pod(pod("other", on="node-a", version=5, job=""))
    seen.see_pod(finished("other", on="node-a", version=8))
    seen.replace(POD, [pod("other", on="node-a", version=5, job="")], version=6)
    assert free(seen, OTHER)["node-a"] == 2


def test_a_pod_that_was_deleted_while_a_listing_was_read_stays_deleted() -> None:
    seen = cache()
    seen.see_pod(pod("other", on="node-a", version=5, job=""))
    seen.see_pod(pod("other", on="node-a", version=8, job=""), deleted=True)
    seen.replace(POD, [pod("other", on="node-a", version=5, job="")], version=6)
    assert free(seen, OTHER)["node-a"] == 2


def test_a_pod_that_was_bound_while_a_listing_was_read_holds_its_gpus() -> None:
    seen = cache()
    seen.see_pod(pod("other", version=5, job=""))
    seen.see_pod(pod("other", on="node-a", version=8, job=""))
    seen.replace(POD, [pod("other", version=5, job="")], version=6)
    assert free(seen, OTHER)["node-a"] == 1


def test_a_node_that_recovered_while_a_listing_was_read_is_not_unreachable() -> None:
    lost = node("node-a", version=5)
    lost["spec"] = {"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]}
    seen = cache()
    seen.see_node(lost)
    seen.see_node(node("node-a", version=8))
    seen.replace(NODE, [lost, node("node-b")], version=6)
    assert seen.snapshots.unreachable_nodes(frozenset({"node.kubernetes.io/unreachable"})) == ()


def test_a_late_event_does_not_set_a_node_back() -> None:
    seen = cache()
    assert seen.see_node(node("node-a", gpus=1, version=8))
    assert not seen.see_node(node("node-a", gpus=2, version=5))
    assert free(seen, OTHER)["node-a"] == 1


def test_a_node_that_was_deleted_is_not_brought_back_by_an_older_listing() -> None:
    seen = cache()
    seen.see_node(node("node-a", version=8), deleted=True)
    seen.replace(NODE, [node("node-a"), node("node-b")], version=6)
    assert free(seen, OTHER) == {"node-b": 2}


@pytest.mark.parametrize(("kind", "see"), [(JOB, "see_job"), (MPIJOB, "see_mpijob"), (POD, "see_pod")])
def test_an_event_from_before_a_listing_that_lacks_the_object_brings_nothing_back(kind: str, see: str) -> None:
    seen = cache()
    made = {JOB: job("late", version=4), MPIJOB: mpijob("late", version=4), POD: pod("late", on="node-a", version=4)}[kind]
    seen.replace(kind, [], version=9)
    getattr(seen, see)(made)
    assert Key("team", "late") not in seen.jobs
    assert seen.mpijob_named(Key("team", "late")) is None
    assert free(seen, OTHER)["node-a"] == 2


def test_what_a_listing_of_one_namespace_lacks_is_not_gone_from_others() -> None:
    seen = cache()
    elsewhere = job("there", version=3)
    elsewhere["metadata"]["namespace"] = "elsewhere"
    seen.see_job(elsewhere)
    seen.replace_listing(seen.listings.begin(JOB, "team", 9))
    assert seen.jobs.keys() == {Key("elsewhere", "there")}


def test_resource_versions_that_went_back_are_believed() -> None:
    seen = cache()
    seen.replace(MPIJOB, [mpijob(version=900)], version=1000)
    seen.replace(MPIJOB, [mpijob(version=30, suspended=True)], version=40)
    assert seen.mpijobs[CORA].suspended


def test_the_index_of_pods_by_job_shrinks_with_the_pods() -> None:
    seen = cache()
    for number in range(100):
        seen.see_pod(pod(f"p-{number}", version=1, job=f"job-{number}"))
        seen.see_pod(pod(f"p-{number}", version=2, job=f"job-{number}"), deleted=True)
    assert len(seen.snapshots.pods) == 0
    assert not seen.snapshots.pods._of_job


class _Truth:
    """The history of one object: at which versions it was there, and how."""

    def __init__(self, lives: list[bool]) -> None:
        self.lives = lives

    def at(self, version: int) -> bool:
        return version > 0 and self.lives[version - 1]

    def event(self, version: int) -> tuple[dict[str, Any], bool] | None:
        """The event of a version: the pod bound (it is there), or deleted; None where nothing happened."""
        before, now = self.at(version - 1), self.at(version)
        if not now and not before:
            return None
        return pod("p", on="node-a", version=version, job=""), not now

    def listed(self, version: int) -> list[dict[str, Any]]:
        return [pod("p", on="node-a", version=version, job="")] if self.at(version) else []


@given(lives=st.lists(st.booleans(), min_size=1, max_size=6), data=st.data())
def test_in_whatever_order_news_arrives_the_newest_stays(lives: list[bool], data: st.DataObject) -> None:
    truth, last = _Truth(lives), len(lives)
    events = [version for version in range(1, last + 1) if truth.event(version) is not None]
    listings = data.draw(st.lists(st.integers(0, last), max_size=3).map(sorted))
    news = data.draw(st.permutations([*(("event", version) for version in events), *(("list", version) for version in set(listings))]))
    seen = ClusterCache()
    highest = 0
    for kind, version in news:
        if kind == "event":
            made = truth.event(version)
            assert made is not None
            seen.see_pod(made[0], deleted=made[1])
        elif version >= highest:  # listings of one kind come one after the other
            highest = version
            seen.replace(POD, truth.listed(version), version=version)
    whole = len(events) > 0 or highest == last
    if whole:
        assert (len(seen.snapshots.pods) == 1) == truth.at(last)


def test_a_version_that_is_known_already_is_no_news_but_the_same_again_is() -> None:
    versions = Versions()
    key = Key("team", "cora")
    assert [versions.admit(key, version) for version in (3, 2, 3, 4)] == [True, False, True, True]
