"""`hyperscale prefer` says what starts the job, and promises no start where nothing starts it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from hyperscale.model import constants
from hyperscale.model.offers.plan_offers import PlanAlternatives
from hyperscale.model.status import JobStatus, to_wire
from hyperscale.planner.choice.alternative_plans import offer_of
from tests.builders.seen import last_step, plan
from tests.unit.cli.api_server import World, kubeconfig, serving
from tests.unit.cli.cli_samples import Ran, run

TWO = plan("node-a", "node-b")
OTHER = plan("node-a", "node-c", plan_id="fedcba9876543210")
OFFERED = PlanAlternatives("0" * 16, (offer_of(TWO, 100), replace(offer_of(OTHER, 100), trades="Less cost.", plan=OTHER)))
PATH = f"/apis/{constants.API_VERSION}/namespaces/team-a/gnntrainingjobs/cora"


@pytest.fixture(name="prefer")
def prefer_fixture(tmp_path: Path) -> Iterator[Callable[..., Ran]]:
    """Runs `prefer` on a job of a start policy, whose last step has a reason."""
    served = World()
    with serving(served) as url:
        config = kubeconfig(tmp_path, url)

        def prefer(start_policy: str, reason: str, *more: str) -> Ran:
            status = JobStatus(observed_generation=1, plan=TWO, conditions=(last_step(reason),), alternatives=OFFERED)
            served.objects[PATH] = {
                "kind": constants.JOB_KIND,
                "metadata": {"name": "cora", "namespace": "team-a", "uid": "u", "generation": 1},
                "spec": {"startPolicy": start_policy},
                "status": to_wire(status),
            }
            return run("prefer", "cora", OTHER.plan_id, "--dry-run", *more, "--kubeconfig", config)

        yield prefer


@pytest.mark.parametrize("reason", ["StartPolicyNever", "RejectedByPerson"])
def test_no_start_is_promised_where_the_start_policy_is_never(prefer: Callable[..., Ran], reason: str) -> None:
    ran = prefer("Never", reason)
    assert (ran.code, ran.err) == (0, "")
    assert "It does not start: spec.startPolicy is Never; write spec.startPolicy: Manual." in ran.out
    assert "approved" not in ran.out
    refused = prefer("Never", reason, "--approve")
    assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert "--approve: spec.startPolicy is Never; write spec.startPolicy: Manual" in refused.err


def test_a_manual_job_may_be_approved_with_the_preference(prefer: Callable[..., Ran]) -> None:
    assert prefer("Manual", "AwaitingApproval", "--approve").code == 0
    assert "does not start" not in prefer("Manual", "AwaitingApproval").out
