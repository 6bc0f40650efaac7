"""`hyperscale approve`, `reject` and `prefer` on a real API server: this very plan, of a job as it was read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from e2e.cluster.api import Api, Object
from e2e.cluster.control_plane import ControlPlane
from hyperscale.cli.live import LiveCluster
from hyperscale.model.evaluation import EvaluationStatus, StageState, StageSummary
from hyperscale.model.offers.plan_offers import PlanAlternatives, prior_of
from hyperscale.model.status import JobStatus, read_status, to_wire
from hyperscale.planner.choice.alternative_plans import offer_of
from tests.api.conftest import GROUP
from tests.builders.seen import condition, last_step, plan
from tests.unit.cli.cli_samples import Ran, run

JOBS = f"{GROUP}/namespaces/default/gnntrainingjobs"
NAME = "waits"
TWO = plan("node-a", "node-b")
OTHER = plan("node-a", "node-c", plan_id="fedcba9876543210")
OFFERED = PlanAlternatives("0" * 16, (offer_of(TWO, 100), replace(offer_of(OTHER, 100), trades="Less cost.", plan=OTHER)))
SPEC: Object = {
    "model": {"architecture": "GCN"},
    "dataset": {"source": {"builtin": {"name": "Cora"}}},
    "workers": {"maxReplicas": 2},
    "startPolicy": "Manual",
}


@pytest.fixture(name="job")
def job_fixture(api: Api) -> Iterator[str]:
    """Path of a job whose plan waits for a person."""
    path = f"{JOBS}/{NAME}"
    api.create(JOBS, {"apiVersion": "hyperscale.dev/v1alpha1", "kind": "GNNTrainingJob", "metadata": {"name": NAME}, "spec": SPEC})
    try:
        yield report(api, path, "AwaitingApproval")
    finally:
        api.delete(path)


def report(api: Api, path: str, reason: str) -> str:
    """Write the status as the operator does."""
    evaluation = EvaluationStatus(TWO.plan_id, (StageSummary("proof", StageState.PASSED, 1.0),))
    status = JobStatus(
        observed_generation=1,
        plan=TWO,
        conditions=(last_step(reason), condition("Evaluated")),
        evaluation=evaluation,
        alternatives=OFFERED,
        prior_plan=prior_of(OTHER),
    )
    api.patch(f"{path}/status", {"status": to_wire(status)})
    return path


def ask(plane: ControlPlane, command: str, *more: str) -> Ran:
    return run(command, NAME, *more, "-n", "default", "--kubeconfig", str(plane.kubeconfig))


def approve(plane: ControlPlane, *more: str) -> Ran:
    return ask(plane, "approve", *more)


def notes_of(api: Api, path: str) -> dict[str, Any]:
    found: dict[str, Any] = api.get(path)["metadata"].get("annotations") or {}
    return found


def test_the_plan_that_waits_is_approved_with_the_reason(api: Api, plane: ControlPlane, job: str) -> None:
    ran = approve(plane, "--because", "checked\nwith the team", "-o", "json")
    assert (ran.code, ran.err) == (0, "")
    assert json.loads(ran.out)["planId"] == TWO.plan_id
    assert notes_of(api, job) == {
        "hyperscale.dev/approved-plan": TWO.plan_id,
        "hyperscale.dev/approved-because": "checked with the team",
    }
    assert "because" not in json.loads(approve(plane, "-o", "json").out)
    assert notes_of(api, job) == {"hyperscale.dev/approved-plan": TWO.plan_id}


def test_another_plan_than_the_one_named_is_not_approved(api: Api, plane: ControlPlane, job: str) -> None:
    ran = approve(plane, "--plan", "0" * 16)
    assert ran.code == 2
    assert f"its plan is {TWO.plan_id} now" in ran.err
    assert notes_of(api, job) == {}


def test_a_job_that_does_not_wait_is_not_approved(api: Api, plane: ControlPlane, job: str) -> None:
    report(api, job, "StartPolicyNever")
    ran = approve(plane)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "no plan waits for approval: it is Planned (StartPolicyNever)" in ran.err
    assert notes_of(api, job) == {}


def test_a_dry_run_shows_what_the_plan_changes_and_writes_nothing(api: Api, plane: ControlPlane, job: str) -> None:
    ran = approve(plane, "--dry-run")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("Would be approved (nothing was written)")
    assert f"Against plan {OTHER.plan_id}" in ran.out
    assert "Nodes added: node-b." in ran.out
    assert "ALTERNATIVES" in ran.out
    assert notes_of(api, job) == {}


def test_a_rejected_plan_is_named_with_the_reason_and_may_be_approved_after_all(api: Api, plane: ControlPlane, job: str) -> None:
    assert approve(plane).code == 0
    ran = ask(plane, "reject", "--because", "too\x1b dear", "-o", "json")
    assert (ran.code, ran.err) == (0, "")
    assert json.loads(ran.out) == {"job": f"default/{NAME}", "planId": TWO.plan_id, "because": "too? dear", "alternatives": [OTHER.plan_id]}
    assert notes_of(api, job) == {"hyperscale.dev/rejected-plan": TWO.plan_id, "hyperscale.dev/rejected-because": "too? dear"}
    report(api, job, "RejectedByPerson")
    assert approve(plane).code == 0
    assert notes_of(api, job) == {"hyperscale.dev/approved-plan": TWO.plan_id}
    assert "not '0000'" in ask(plane, "reject", "--plan", "0000").err


def test_an_alternative_is_preferred_with_what_it_changes(api: Api, plane: ControlPlane, job: str) -> None:
    dry = ask(plane, "prefer", OTHER.plan_id, "--dry-run")
    assert (dry.code, dry.err) == (0, "")
    assert "Nodes left: node-b." in dry.out
    assert notes_of(api, job) == {}
    ran = ask(plane, "prefer", OTHER.plan_id, "--because", "cost", "-o", "json")
    assert (ran.code, ran.err) == (0, "")
    assert json.loads(ran.out)["difference"]["nodesAdded"] == ["node-c"]
    assert notes_of(api, job) == {"hyperscale.dev/preferred-plan": OTHER.plan_id, "hyperscale.dev/preferred-because": "cost"}
    assert ask(plane, "prefer", OTHER.plan_id, "--approve").code == 0
    assert notes_of(api, job) == {"hyperscale.dev/preferred-plan": OTHER.plan_id, "hyperscale.dev/approved-plan": OTHER.plan_id}
    assert approve(plane).code == 0
    assert notes_of(api, job) == {"hyperscale.dev/approved-plan": TWO.plan_id}, "approval of the plan in force ends the preference"


@pytest.mark.parametrize("wanted", [TWO.plan_id, "0" * 16, "../../x", "\x1b[2J", "x" * 5000])
def test_what_is_no_alternative_is_not_preferred(api: Api, plane: ControlPlane, job: str, wanted: str) -> None:
    ran = ask(plane, "prefer", wanted)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert len(ran.err) < 700
    assert notes_of(api, job) == {}


def test_the_api_server_keeps_alternatives_and_the_prior_plan(api: Api, job: str) -> None:
    status = read_status(api.get(job)["status"])
    assert status.alternatives == OFFERED
    assert status.prior_plan == prior_of(OTHER)


class Meddler:
    """Changes the job each time that it is about to be written."""

    def __init__(self, api: Api, path: str, times: int, **body: Object) -> None:
        self.api, self.path, self.left, self.body = api, path, times, body

    def meddle(self, monkeypatch: pytest.MonkeyPatch) -> None:
        whole = LiveCluster.object

        def after_a_change(cluster: LiveCluster, path: str, *more: Any, **named: Any) -> Any:
            if named.get("method") == "PATCH" and self.left > 0:
                self.left -= 1
                sub, body = ("/status", {"status": {"restarts": self.left}}) if not self.body else ("", self.body)
                self.api.patch(f"{self.path}{sub}", body)
            return whole(cluster, path, *more, **named)

        monkeypatch.setattr(LiveCluster, "object", after_a_change)


def test_a_status_that_is_written_meanwhile_is_no_change(api: Api, plane: ControlPlane, job: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Meddler(api, job, 2).meddle(monkeypatch)
    ran = approve(plane)
    assert (ran.code, ran.err) == (0, "")
    assert notes_of(api, job) == {"hyperscale.dev/approved-plan": TWO.plan_id}


@pytest.mark.parametrize(
    "body",
    [{"spec": {"queueWeight": 7}}, {"metadata": {"annotations": {"hyperscale.dev/rejected-plan": TWO.plan_id}}}],
    ids=["spec", "another decision"],
)
def test_a_spec_or_a_decision_that_changes_meanwhile_is_not_decided_on(
    api: Api, plane: ControlPlane, job: str, monkeypatch: pytest.MonkeyPatch, body: Object
) -> None:
    Meddler(api, job, 1, **body).meddle(monkeypatch)
    ran = approve(plane)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "changed while it was read" in ran.err
    assert "hyperscale.dev/approved-plan" not in notes_of(api, job)


def test_an_absent_job_and_a_long_reason_are_one_line(plane: ControlPlane, job: str) -> None:
    assert "is not in the cluster" in run("approve", "absent", "-n", "default", "--kubeconfig", str(plane.kubeconfig)).err
    assert "write at most 1000" in approve(plane, "--because", "x" * 1001).err
    assert "is no name" in run("approve", "a/../b", "-n", "default", "--kubeconfig", str(plane.kubeconfig)).err
    assert job


def test_the_api_server_keeps_the_evaluation_in_the_status(api: Api, job: str) -> None:
    assert api.get(job)["status"]["evaluation"] == {
        "planId": TWO.plan_id,
        "stages": [{"stage": "proof", "state": "Passed", "score": 1.0}],
    }
