"""The plan that is recommended is the one that people's weights rate best now, and a status is written only where that differs."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from hyperscale.control.scheduler.alternative_search import spec_key
from hyperscale.control.status.conditions import derive
from hyperscale.model.decision import Reason, Wait
from hyperscale.model.offers.plan_offers import PlanAlternatives
from hyperscale.model.status import JobStatus
from hyperscale.planner.choice.alternative_plans import offer_of
from tests.builders.seen import MEASURED, job_spec, plan, seen

MANUAL = job_spec(startPolicy="Manual")
FAST = plan("node-a", "node-b")
CHEAP = plan("node-a", "node-c", plan_id="fedcba9876543210")
OFFERS = (
    replace(offer_of(FAST, 100), epoch_seconds=1.0, cost_per_epoch=2.0),
    replace(offer_of(CHEAP, 100), epoch_seconds=2.0, cost_per_epoch=0.5, trades="Less cost.", plan=CHEAP),
)
TIME, COST = (0.9, 0.05, 0.05), (0.05, 0.9, 0.05)


def recommended(before: str = "", **changes: Any) -> str:
    """What the status recommends after a pass over a job whose status recommended `before`."""
    status = JobStatus(plan=FAST, alternatives=PlanAlternatives(spec_key(MANUAL), OFFERS, before))
    state = seen(MANUAL, plan=FAST, plan_recorded=True, metrics=MEASURED, status=status, **changes)
    derived = derive(state, Wait(Reason.AWAITING_APPROVAL))
    assert derived.alternatives is not None
    return derived.alternatives.recommended


@pytest.mark.parametrize(("weights", "best"), [(TIME, FAST.plan_id), (COST, CHEAP.plan_id), (None, "")])
@pytest.mark.parametrize("before", ["", FAST.plan_id, CHEAP.plan_id])
def test_the_recommendation_follows_the_weights_of_now(before: str, weights: tuple[float, float, float] | None, best: str) -> None:
    assert recommended(before, weights=weights, weights_read=True) == best


def test_the_recommendation_stays_until_decisions_are_read_after_a_restart() -> None:
    assert recommended(CHEAP.plan_id, weights=None, weights_read=False) == CHEAP.plan_id


def test_the_status_is_the_same_while_the_weights_are() -> None:
    status = JobStatus(plan=FAST, alternatives=PlanAlternatives(spec_key(MANUAL), OFFERS))
    state = seen(MANUAL, plan=FAST, plan_recorded=True, metrics=MEASURED, status=status, weights=COST, weights_read=True)
    once = derive(state, Wait(Reason.AWAITING_APPROVAL))
    again = replace(state, job=replace(state.job, status=once))
    assert derive(again, Wait(Reason.AWAITING_APPROVAL)) == once
    assert derive(replace(again, plan=replace(again.plan, weights=TIME)), Wait(Reason.AWAITING_APPROVAL)) != once
