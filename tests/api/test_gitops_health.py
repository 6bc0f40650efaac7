"""The health checks of docs/install.md, run as Argo CD runs Lua and as Flux evaluates CEL, on statuses that the operator writes."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from e2e.cluster.binaries import GITOPS_TOOL, ensure
from hyperscale.control.status.conditions import derive
from hyperscale.model.decision import Decision, Reason, Stop, Wait
from hyperscale.model.observed.owned_objects import MpiJobView
from hyperscale.model.observed.reconcile_input import ReconcileInput
from hyperscale.model.plan import Infeasible
from hyperscale.model.status import JobStatus, StateWord, to_wire
from tests.builders.seen import mpijob, plan, seen

INSTALL = (Path(__file__).resolve().parents[2] / "docs" / "install.md").read_text()
LUA = re.search(r"```lua\n(.*?)```", INSTALL, re.DOTALL)
FLUX = re.search(r"```yaml\n(healthCheckExprs:.*?)```", INSTALL, re.DOTALL)

DEGRADED = {
    Reason.INVALID_SPEC,
    Reason.INVALID_POD_TEMPLATE,
    Reason.NAME_CONFLICT,
    Reason.DATASET_UNREADABLE,
    Reason.PARTITIONING_FAILED,
    Reason.PLAN_CHANGES_EXHAUSTED,
    Reason.WORKER_LOST,
    Reason.FAILED,
}
SUSPENDED = {Reason.AWAITING_APPROVAL, Reason.SUSPENDED, Reason.SUSPENDED_EXTERNALLY, Reason.RESUMED_EXTERNALLY}
HEALTHY = {Reason.START_POLICY_NEVER, Reason.RUNNING, Reason.SUCCEEDED}
"""Of the others only those whose MPIJob runs are Healthy; the rest is on its way, and Progressing."""

RUNNING = {"type": "Running", "status": "True", "reason": "MPIJobRunning"}
RUNS = {"Running": (True, "MPIJobRunning", "MPIJob team/cora is running.")}
MPIJOBS: dict[str, MpiJobView | None] = {
    "none": None,
    "suspended": mpijob(suspended=True, queue="gpu"),
    "starting": mpijob(),
    "running": mpijob(conditions=RUNS),
    "succeeded": mpijob(conditions={"Succeeded": (True, "MPIJobSucceeded", "MPIJob team/cora successfully completed.")}),
    "failed": mpijob(conditions={"Failed": (True, "BackoffLimitExceeded", "Job has reached the backoff limit")}),
}

ENDS = {Reason.RUNNING: "running", Reason.SUCCEEDED: "succeeded", Reason.FAILED: "failed"}
"""Reasons that only one state of the MPIJob gives."""


class Case(NamedTuple):
    """One status that the operator writes."""

    name: str
    reason: Reason
    status: JobStatus

    @property
    def object(self) -> dict[str, Any]:
        return {"metadata": {"name": "cora", "generation": 1}, "status": json.loads(json.dumps(to_wire(self.status)))}

    @property
    def messages(self) -> set[str]:
        return {condition.message for condition in self.status.conditions}


def cases() -> Iterator[Case]:
    """Every reason with every state of the MPIJob, and the planner's own reasons."""
    for reason in Reason:
        kind = Stop if reason in DEGRADED | {Reason.SUCCEEDED, Reason.DELETED} else Wait
        for name, job in MPIJOBS.items():
            if name != ENDS.get(reason, name) or (name in ("succeeded", "failed") and reason not in ENDS):
                continue
            yield case(f"{reason}-{name}", kind(reason, f"because of {reason}"), seen(plan=plan("a", "b"), plan_recorded=True, mpijob=job))
    for refusal in ("InsufficientGPUs", "NodesCannotReachEachOther"):
        look = seen(refusal=Infeasible(reason=refusal, message="needs 8, 6 are free"))
        yield case(refusal, Wait(Reason.NO_PLAN, "needs 8, 6 are free"), look)


def case(name: str, decision: Decision, look: ReconcileInput) -> Case:
    return Case(name, Reason(decision.reason), derive(look, decision))


CASES = list(cases())
ALL = pytest.mark.parametrize("one", CASES, ids=[one.name for one in CASES])


def answers(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What Argo CD and Flux say of each object."""
    assert LUA is not None
    assert FLUX is not None
    (checks,) = yaml.safe_load(FLUX[1])["healthCheckExprs"]
    question = {"lua": LUA[1], **{kind: checks.get(kind, "") for kind in ("inProgress", "failed", "current")}, "objects": objects}
    ran = subprocess.run([ensure(GITOPS_TOOL) / "gitops"], input=json.dumps(question), capture_output=True, text=True, check=True)
    found: list[dict[str, Any]] = json.loads(ran.stdout)
    return found


@pytest.fixture(scope="module", name="told")
def told_fixture() -> dict[str, dict[str, Any]]:
    return dict(zip((one.name for one in CASES), answers([one.object for one in CASES]), strict=True))


def expected(one: Case) -> str:
    """By the tables above; what has failed or is stalled is Degraded whatever else is true."""
    if one.reason in DEGRADED or any(kind.type in ("Stalled", "Failed") and kind.status == "True" for kind in one.status.conditions):
        return "Degraded"
    if one.reason in HEALTHY or one.status.state is StateWord.RUNNING:
        return "Healthy"
    return "Suspended" if one.reason in SUSPENDED else "Progressing"


def test_every_state_and_every_reason_is_among_the_cases() -> None:
    assert {one.reason for one in CASES} == set(Reason)
    assert {one.status.state for one in CASES} == set(StateWord)


@ALL
def test_argo_cd_shows_the_health_of_every_reason(one: Case, told: dict[str, dict[str, Any]]) -> None:
    assert told[one.name]["lua"]["status"] == expected(one)


@ALL
def test_the_message_is_that_of_a_condition_and_of_the_reason_where_one_carries_it(one: Case, told: dict[str, dict[str, Any]]) -> None:
    message = told[one.name]["lua"]["message"]
    carried = {condition.message for condition in one.status.conditions if condition.reason == one.status.reason and condition.message}
    assert message
    assert message in (carried or one.messages)


def test_a_job_that_waits_for_approval_says_how_to_approve_it(told: dict[str, dict[str, Any]]) -> None:
    assert told["AwaitingApproval-none"]["lua"] == {"status": "Suspended", "message": "because of AwaitingApproval"}


def test_a_preempted_job_leaves_the_application_progressing(told: dict[str, dict[str, Any]]) -> None:
    assert told["Preempted-suspended"]["lua"]["status"] == "Progressing"


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"status": {}},
        {"status": {"observedGeneration": 0, "conditions": [RUNNING, {"type": "Suspended", "status": "False", "reason": "NotSuspended"}]}},
        {"metadata": {"generation": 1, "deletionTimestamp": "2026-01-01T00:00:00Z"}},
    ],
    ids=["new", "empty", "stale", "deleting"],
)
def test_what_the_operator_has_not_answered_to_is_progressing(state: dict[str, Any]) -> None:
    running = next(one for one in CASES if one.name == "Running-running").object if "metadata" in state else {}
    (answer,) = answers([{"metadata": {"generation": 1}, **running, **state}])
    assert answer["lua"]["status"] == "Progressing"
    assert answer["lua"]["message"]


@ALL
def test_flux_waits_as_argo_cd_does_and_fails_at_once_where_only_a_person_can_help(one: Case, told: dict[str, dict[str, Any]]) -> None:
    outcome = {"Degraded": "Failed", "Healthy": "Current", "Suspended": "InProgress", "Progressing": "InProgress"}
    assert told[one.name]["flux"] == outcome[expected(one)]
