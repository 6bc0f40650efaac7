"""A job of two ranks whose second rank the scheduler leaves out, before and after all its ranks are released."""

from __future__ import annotations

from typing import Any

from hyperscale.model.api.condition import Condition
from hyperscale.model.observed.reconcile_input import ReconcileInput
from hyperscale.model.status import JobStatus, StateWord, StatusRefusedNode, StatusScheduling
from hyperscale.util.rfc3339 import timestamp
from tests.builders.seen import mpijob, plan, seen, status, worker

NOW = 1_000_000.0
TIMEOUT = 300
WORDS = "0/12 nodes are available: 1 Insufficient rdma/hca, 11 node(s) didn't match Pod's node affinity/selector."
TWO = plan("node-a", "node-b")
RELEASED = Condition("Placed", "False", "SchedulingTimeout")


def at(seconds: float) -> str:
    return timestamp(NOW + seconds)


def waiting(since: float, **changes: Any) -> ReconcileInput:
    """Rank 0 runs, rank 1 is refused; when that was first seen, in seconds before now."""
    known = StatusScheduling(waiting_start_time=at(-since))
    base = {
        "mpijob": mpijob(),
        "plan": TWO,
        "plan_recorded": True,
        "pods": (worker(0, node="node-a", ready=True), worker(1, unschedulable=WORDS)),
        "status": status(StateWord.STARTING, scheduling=known),
        "now": NOW,
    }
    return seen(**{**base, **changes})


def released(releases: int = 1, ago: float = 1000.0, **changes: Any) -> ReconcileInput:
    """The release is written down."""
    refused = (StatusRefusedNode("node-b", WORDS, at(-ago)),)
    known = StatusScheduling(releases=releases, last_release_time=at(-ago), message=f"cora-worker-1: {WORDS}", refused=refused)
    base = {
        "mpijob": mpijob(),
        "plan": TWO,
        "plan_recorded": True,
        "pods": (worker(0, node="node-a", ready=True), worker(1, unschedulable=WORDS)),
        "status": status(StateWord.STARTING, RELEASED, scheduling=known),
        "released": True,
        "release_recorded": True,
        "now": NOW,
    }
    return seen(**{**base, **changes})


def gone(**changes: Any) -> ReconcileInput:
    """Its MPIJob is suspended and the pods are gone."""
    return released(**{"mpijob": mpijob(suspended=True), "pods": (), **changes})


def placed(told: JobStatus) -> Condition:
    return next(each for each in told.conditions if each.type == "Placed")


QUEUED = mpijob(queue="gold", suspend_intent=True)
