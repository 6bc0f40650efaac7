"""Worker pods that are not created, or not created again: the job is released like one that the scheduler leaves out."""

from __future__ import annotations

from typing import Any

import pytest

from hyperscale.control.decide.chain import decide
from hyperscale.control.lifecycle.unscheduled import begun
from hyperscale.control.status.conditions import derive
from hyperscale.model.decision import Reason, ReleaseGang, Wait
from hyperscale.model.status import StateWord
from tests.builders.seen import mpijob, status, worker
from tests.unit.control.timeout_cases import QUEUED, TIMEOUT, at, placed, released, waiting

GONE = "2 of 2 worker pods (cora-worker-0, cora-worker-1) do not exist"


@pytest.mark.parametrize(
    ("pods", "said"),
    [((), GONE), ((worker(0, gated=True),), "1 of 2 worker pods (cora-worker-1) do not exist")],
    ids=["none", "some"],
)
def test_ranks_whose_pods_never_come_are_released_as_one_too(pods: tuple[Any, ...], said: str) -> None:
    first = waiting(0, pods=pods, status=status(StateWord.STARTING))
    told = derive(first, decide(first))
    assert told.scheduling is not None
    assert told.scheduling.waiting_start_time == at(0)
    still = decide(waiting(100, pods=pods))
    assert isinstance(still, Wait)
    assert still.retry_after_seconds == TIMEOUT - 100
    decision = decide(waiting(TIMEOUT, pods=pods))
    assert isinstance(decision, ReleaseGang)
    assert said in decision.message
    assert f"{TIMEOUT} s after" in decision.message
    assert begun(waiting(TIMEOUT, pods=pods)).refused == ()


def test_who_has_to_create_the_pods_is_said() -> None:
    silent = decide(waiting(TIMEOUT, pods=()))
    assert "mpi-operator has not taken up the MPIJob" in silent.message
    taken = decide(waiting(TIMEOUT, pods=(), mpijob=mpijob(conditions={"Created": (True, "MPIJobCreated", "")})))
    assert "kubectl get events -n team" in taken.message


@pytest.mark.parametrize("changes", [{"suspended": True}, {"gated": False}, {"conditions": {"Succeeded": (True, "", "")}}], ids=str)
def test_pods_that_need_not_be_there_are_not_missed(changes: dict[str, Any]) -> None:
    look = waiting(TIMEOUT, pods=(), mpijob=mpijob(**changes))
    decision = decide(look)
    assert not isinstance(decision, ReleaseGang)
    known = derive(look, decision).scheduling
    assert known is None or not known.waiting_start_time


@pytest.mark.parametrize("pods", [(), (worker(0, gated=True),)], ids=["none", "some"])
def test_in_a_queue_released_ranks_are_not_planned_before_their_pods_are_back(pods: tuple[Any, ...]) -> None:
    look = released(mpijob=QUEUED, pods=pods)
    decision = decide(look)
    assert isinstance(decision, Wait)
    assert decision.reason == Reason.SCHEDULING_TIMEOUT
    assert placed(derive(look, decision)).reason == "SchedulingTimeout"
