from __future__ import annotations

from typing import Any

import pytest

from hyperscale.control.render.mpijob import render
from hyperscale.control.render.release import launcher_release_patch, release_patch
from hyperscale.model import constants
from hyperscale.model.api.job import PlacementMode
from hyperscale.model.pods import PodView
from tests.builders.placement import DEFAULTS, job, metadata, plan

STRICT, PREFERRED, ADVISORY = PlacementMode.STRICT, PlacementMode.PREFERRED, PlacementMode.ADVISORY


def pod(*gates: str, selector: dict[str, str] | None = None, uid: str = "u1") -> PodView:
    return PodView(namespace="team-a", name="cora-worker-0", uid=uid, gates=gates, node_selector=selector or {})


def test_the_patch_tests_the_pod_and_its_gate_before_it_takes_the_gate_away() -> None:
    patch = release_patch(pod("other/gate", constants.PLACEMENT_GATE), "host-1", STRICT)
    assert patch[:3] == [
        {"op": "test", "path": "/metadata/uid", "value": "u1"},
        {"op": "test", "path": "/spec/schedulingGates/1", "value": {"name": constants.PLACEMENT_GATE}},
        {"op": "remove", "path": "/spec/schedulingGates/1"},
    ]


def test_a_strict_rank_is_bound_to_its_host_beside_the_selectors_that_are_there() -> None:
    alone = release_patch(pod(constants.PLACEMENT_GATE), "host-1", STRICT)[-1]
    beside = release_patch(pod(constants.PLACEMENT_GATE, selector={"pool": "gnn"}), "host-1", STRICT)[-1]
    assert alone == {"op": "add", "path": "/spec/nodeSelector", "value": {"kubernetes.io/hostname": "host-1"}}
    assert beside == {"op": "add", "path": "/spec/nodeSelector/kubernetes.io~1hostname", "value": "host-1"}


@pytest.mark.parametrize("mode", [STRICT, PREFERRED])
def test_a_host_that_a_queue_has_chosen_is_kept(mode: PlacementMode) -> None:
    patch = release_patch(pod(constants.PLACEMENT_GATE, selector={"kubernetes.io/hostname": "host-2"}), "host-1", mode)
    assert [step["op"] for step in patch] == ["test", "test", "remove"]


def test_an_advisory_rank_is_only_let_go() -> None:
    assert [step["op"] for step in release_patch(pod(constants.PLACEMENT_GATE), "host-1", ADVISORY)] == ["test", "test", "remove"]


def test_a_preferred_rank_asks_for_its_host_before_all_others() -> None:
    mpijob = render(metadata(), job(placement={"mode": "Preferred"}), plan("a"), DEFAULTS)
    spec = mpijob["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]
    added = release_patch(pod(constants.PLACEMENT_GATE), "host-1", PREFERRED)[-1]
    steps = added["path"].split("/")[2:]
    assert steps.pop() == "0"
    place: Any = spec
    for step in steps:
        place = place[step]
    assert isinstance(place, list), "the rendered pod has the list that the patch adds to"
    assert added["value"]["weight"] == 100
    assert added["value"]["preference"]["matchExpressions"] == [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["host-1"]}]


def test_nothing_is_patched_when_the_gate_is_open() -> None:
    assert release_patch(pod("other/gate"), "host-1", STRICT) == []
    assert launcher_release_patch(pod(constants.PLACEMENT_GATE)) == []


def test_the_launchers_gate_is_opened_without_choosing_a_node() -> None:
    assert launcher_release_patch(pod(constants.LAUNCHER_GATE, uid="")) == [
        {"op": "test", "path": "/spec/schedulingGates/0", "value": {"name": constants.LAUNCHER_GATE}},
        {"op": "remove", "path": "/spec/schedulingGates/0"},
    ]
