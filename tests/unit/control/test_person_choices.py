"""A person prefers or rejects a plan that waits for them, by annotations that may hold anything."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from hyperscale.control.cache.cluster_cache import ClusterCache
from hyperscale.control.cache.records import Key
from hyperscale.control.decide.chain import decide
from hyperscale.control.scheduler.alternative_search import MAX_ANSWER_SECONDS, MAX_TRIES, AlternativeSearch, spec_key
from hyperscale.control.scheduler.control_context import ControlContext
from hyperscale.control.specs.parsed_specs import JobReader
from hyperscale.control.status.conditions import derive
from hyperscale.control.telemetry.metrics import Telemetry
from hyperscale.model import constants
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.decision import CreateMpiJob, Reason, TakeAlternative, Wait
from hyperscale.model.meta import JobMetadata
from hyperscale.model.offers.plan_offers import PlanAlternative, PlanAlternatives, prior_of
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.model.status import JobStatus, StateWord, read_status, to_wire
from hyperscale.planner.choice.alternative_plans import offer_of
from tests.builders.clusters import both_ways, gpu_node, planned, snapshot, training
from tests.builders.seen import MEASURED, UID, changed, job_spec, mpijob, plan, seen

KEY = Key("team", "cora")
MANUAL = job_spec(startPolicy="Manual")
TWO = plan("node-a", "node-b")
OTHER = plan("node-a", "node-c", plan_id="fedcba9876543210")
OFFERED = PlanAlternatives(spec_key(MANUAL), (offer_of(TWO, 100), replace(offer_of(OTHER, 100), trades="Less cost.", plan=OTHER)))
BAD_IDS = ["", "0", "0123456789ABCDEF", "x" * 5000, "\x1b[2J0123456789ab", "../0123456789abc", "\uff10123456789abcdef"]


def noted(**annotations: str) -> JobMetadata:
    """The job's metadata with annotations, e.g. preferred_plan."""
    names = {f"hyperscale.dev/{name.replace('_', '-')}": value for name, value in annotations.items()}
    return JobMetadata(namespace="team", name="cora", uid=UID, generation=1, annotations=names)


def waiting(**changes: Any) -> Any:
    status = JobStatus(plan=TWO, alternatives=OFFERED)
    return seen(**{"job": MANUAL, "plan": TWO, "plan_recorded": True, "status": status, **changes})


def test_a_preferred_alternative_becomes_the_plan_and_waits_for_approval() -> None:
    state = waiting(metadata=noted(preferred_plan=OTHER.plan_id))
    step = decide(state)
    assert isinstance(step, TakeAlternative)
    assert step.plan == OTHER
    after = changed(state, plan=OTHER, metrics=MEASURED)
    then = decide(after)
    assert (then.reason, OTHER.plan_id in then.message) == (Reason.AWAITING_APPROVAL, True)
    status = derive(after, then)
    assert status.plan == OTHER
    assert status.prior_plan == prior_of(TWO)
    assert status.alternatives is not None
    assert [(offer.plan_id, offer.plan) for offer in status.alternatives.offers] == [(TWO.plan_id, TWO), (OTHER.plan_id, None)]
    assert read_status(to_wire(status)) == status
    approved = changed(after, metadata=noted(preferred_plan=OTHER.plan_id, approved_plan=OTHER.plan_id), plan_recorded=True)
    assert isinstance(decide(approved), CreateMpiJob)


def test_the_approval_of_the_plan_before_does_not_start_the_preferred_one() -> None:
    state = waiting(metadata=noted(preferred_plan=OTHER.plan_id, approved_plan=TWO.plan_id), plan=OTHER, metrics=MEASURED)
    assert decide(state).reason == Reason.AWAITING_APPROVAL


def test_a_person_may_go_back_to_the_planners_choice() -> None:
    status = derive(changed(waiting(), plan=OTHER, metrics=MEASURED), Wait(Reason.AWAITING_APPROVAL))
    again = seen(job=MANUAL, plan=OTHER, plan_recorded=True, status=status, metadata=noted(preferred_plan=TWO.plan_id))
    step = decide(again)
    assert isinstance(step, TakeAlternative)
    assert step.plan == TWO


def test_the_search_of_before_does_not_take_the_plan_away_that_was_in_force() -> None:
    status = derive(changed(waiting(), plan=OTHER, metrics=MEASURED), Wait(Reason.AWAITING_APPROVAL))
    state = seen(job=MANUAL, plan=OTHER, plan_recorded=True, status=status)
    later = replace(state, plan=replace(state.plan, alternatives=OFFERED))
    assert derive(later, Wait(Reason.AWAITING_APPROVAL)).alternatives == status.alternatives


def test_an_alternative_that_no_longer_fits_is_told_and_tried_once() -> None:
    state = waiting(metadata=noted(preferred_plan=OTHER.plan_id))
    refused = replace(state, plan=replace(state.plan, preference_fault="it does not fit any more: node-c is full"))
    step = decide(refused)
    assert step.reason == Reason.AWAITING_APPROVAL
    assert f"plan {OTHER.plan_id} was preferred, but it does not fit any more: node-c is full; approve with" in step.message
    assert TWO.plan_id in step.message


@pytest.mark.parametrize("name", BAD_IDS)
@pytest.mark.parametrize("annotation", ["preferred_plan", "rejected_plan", "approved_plan"])
def test_what_is_no_plan_id_starts_and_changes_nothing(name: str, annotation: str) -> None:
    step = decide(waiting(metadata=noted(**{annotation: name})))
    assert step.reason == Reason.AWAITING_APPROVAL
    assert len(step.message) < 600


def test_a_plan_that_was_never_offered_is_not_taken() -> None:
    step = decide(waiting(metadata=noted(preferred_plan="0" * 16)))
    assert step.reason == Reason.AWAITING_APPROVAL
    assert "is none of the alternatives" in step.message
    forged = replace(OFFERED, offers=(OFFERED.offers[0], replace(OFFERED.offers[1], plan=replace(OTHER, plan_id="1" * 16))))
    status = JobStatus(plan=TWO, alternatives=forged)
    assert decide(waiting(status=status, metadata=noted(preferred_plan=OTHER.plan_id))).reason == Reason.AWAITING_APPROVAL


def test_a_rejected_plan_does_not_start_though_it_is_approved() -> None:
    notes = noted(rejected_plan=TWO.plan_id, rejected_because="too\ndear\x1b[2J" + "x" * 2000, approved_plan=TWO.plan_id)
    state = waiting(metadata=notes)
    step = decide(state)
    assert step.reason == Reason.REJECTED_BY_PERSON
    assert step.message.startswith(f"plan {TWO.plan_id} was rejected (too dear?[2Jxxx")
    assert f"prefer one of {OTHER.plan_id}" in step.message
    assert len(step.message) < 600
    assert step.message.isprintable()
    status = derive(state, step)
    conditions = {one.type: (one.status, one.reason) for one in status.conditions}
    assert conditions["Approved"] == ("False", "RejectedByPerson")
    assert conditions["Stalled"] == ("True", "RejectedByPerson")
    assert status.state is StateWord.PLANNED


def test_another_plan_than_the_rejected_one_waits_for_approval() -> None:
    notes = noted(rejected_plan=TWO.plan_id)
    assert decide(waiting(plan=OTHER, metadata=notes, metrics=MEASURED)).reason == Reason.AWAITING_APPROVAL
    both = noted(rejected_plan=TWO.plan_id, preferred_plan=OTHER.plan_id)
    assert isinstance(decide(waiting(metadata=both)), TakeAlternative), "preferring another ends the rejection"


def test_an_automatic_job_follows_no_preference_and_a_running_one_no_rejection() -> None:
    notes = noted(preferred_plan=OTHER.plan_id)
    assert isinstance(decide(waiting(job=job_spec(), metadata=notes)), CreateMpiJob)
    running = waiting(mpijob=mpijob(), metadata=noted(preferred_plan=OTHER.plan_id, rejected_plan=TWO.plan_id))
    assert decide(running).reason not in (Reason.REJECTED_BY_PERSON, Reason.ALTERNATIVE_PREFERRED)


def test_a_status_of_an_automatic_job_has_no_alternatives_and_no_prior_plan() -> None:
    state = seen(plan=OTHER, metrics=MEASURED, status=JobStatus(plan=TWO))
    status = derive(state, decide(state))
    assert (status.alternatives, status.prior_plan) == (None, None)


def test_alternatives_to_another_plan_are_void() -> None:
    third = plan("node-d", "node-e", plan_id="1111111111111111")
    status = derive(changed(waiting(), plan=third, metrics=MEASURED), Wait(Reason.AWAITING_APPROVAL))
    assert status.alternatives is None
    assert status.prior_plan == prior_of(TWO)


NAMES = ["a", "b", "c"]
CLUSTER = snapshot(*(gpu_node(name, free=2) for name in NAMES), links=both_ways(NAMES))
TRAINING = training(startPolicy="Manual")
CHOICE = planned(CLUSTER, TRAINING)


class SamePlanner:
    """Answers as told, or as the planners do on CLUSTER."""

    def __init__(self, failure: Exception | Infeasible | None = None) -> None:
        self.failure, self.asked = failure, list[PlanRequest]()

    async def plan(self, request: PlanRequest, snapshot: ClusterSnapshot, policy: PolicySpec) -> Plan | Infeasible:
        self.asked.append(request)
        if isinstance(self.failure, Exception):
            raise self.failure
        fixed = {"workers_fixed": request.workers_fixed, "excluded_nodes": request.excluded_nodes}
        return self.failure or planned(CLUSTER, request.job, policy, **fixed)


class SearchStage:
    """A search whose jobs are looked at one by one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, failure: Exception | Infeasible | None = None) -> None:
        self.woken: list[Key] = []
        self.planner = SamePlanner(failure)
        cache = ClusterCache()
        monkeypatch.setattr(cache, "snapshot", lambda policy, now: CLUSTER)
        context = ControlContext(cache, JobReader(), Telemetry(), lambda: 1_800_000_000.0, self.woken.append)
        self.search = AlternativeSearch(context, self.planner, lambda key, job, policy, snapshot: PlanRequest(str(key), job))

    async def consider(self, **changes: Any) -> PlanAlternatives | None:
        """Look at the job, and let the search work off its questions."""
        state = seen(**{"job": TRAINING, "plan": CHOICE, "plan_recorded": True, **changes})
        self.search.consider(KEY, state, PolicySpec())
        working = asyncio.create_task(self.search.run())
        for _ in range(50):
            await asyncio.sleep(0)
        working.cancel()
        return self.search.view(KEY)


async def test_alternatives_are_searched_once_for_each_plan_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = SearchStage(monkeypatch)
    offered = await stage.consider()
    assert offered is not None
    assert offered.offers[0].plan_id == CHOICE.plan_id
    assert len(offered.offers) > 1
    asked = len(stage.planner.asked)
    await stage.consider()
    assert len(stage.planner.asked) == asked > 0
    assert stage.woken == [KEY]
    other = offered.offers[1].plan
    await stage.consider(plan=other)
    assert len(stage.planner.asked) == asked, "a plan that was offered has its alternatives"
    await stage.consider(job=replace(TRAINING, queue_weight=7))
    assert len(stage.planner.asked) > asked


async def test_after_a_restart_the_status_says_what_was_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    offered = await SearchStage(monkeypatch).consider()
    later = SearchStage(monkeypatch)
    await later.consider(status=JobStatus(plan=CHOICE, alternatives=offered))
    assert later.planner.asked == []


@pytest.mark.parametrize("changes", [{"job": training()}, {"plan": None}, {"mpijob": mpijob()}, {"metadata": None}])
async def test_no_alternatives_are_searched_where_no_person_decides(monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]) -> None:
    stage = SearchStage(monkeypatch)
    if "metadata" in changes:
        preview = JobMetadata(namespace="team", name="cora", uid=UID, generation=1, labels={constants.PREVIEW_LABEL: "true"})
        changes = {"metadata": preview, "job": training(startPolicy="Never")}
    assert await stage.consider(**changes) is None
    assert stage.planner.asked == []


@pytest.mark.parametrize("failure", [ValueError("no"), MemoryError(), Infeasible("PlannerFailed", "hangs")])
async def test_a_failing_planner_ends_the_search_and_nothing_else(monkeypatch: pytest.MonkeyPatch, failure: Any) -> None:
    monkeypatch.setattr("hyperscale.control.scheduler.alternative_search.RETRY_SECONDS", 0.0)
    stage = SearchStage(monkeypatch, failure)
    assert await stage.consider() is None
    assert len(stage.planner.asked) == 1
    for _ in range(MAX_TRIES + 2):
        await asyncio.sleep(0.001)
        assert await stage.consider() is None
    assert len(stage.planner.asked) == MAX_TRIES, "it is tried again, and not for ever"
    assert stage.woken == [KEY] * (MAX_TRIES - 1)


async def test_a_search_that_failed_once_finds_alternatives_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hyperscale.control.scheduler.alternative_search.RETRY_SECONDS", 0.0)
    stage = SearchStage(monkeypatch, ValueError("busy"))
    assert await stage.consider() is None
    stage.planner.failure = None
    await asyncio.sleep(0.001)
    offered = await stage.consider()
    assert offered is not None
    assert len(offered.offers) > 1


async def test_a_planner_that_hangs_is_left_before_others_wait_long(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_ANSWER_SECONDS < 2.0
    monkeypatch.setattr("hyperscale.control.scheduler.alternative_search.MAX_ANSWER_SECONDS", 0.02)
    stage, asked = SearchStage(monkeypatch), asyncio.Event()

    async def hang(*_: object) -> Plan:
        stage.planner.asked.append(PlanRequest("team/cora", TRAINING))
        asked.set()
        await asyncio.sleep(3600.0)
        return CHOICE

    monkeypatch.setattr(stage.planner, "plan", hang)
    stage.search.consider(KEY, seen(job=TRAINING, plan=CHOICE, plan_recorded=True), PolicySpec())
    working = asyncio.create_task(stage.search.run())
    async with asyncio.timeout(10.0):
        await asked.wait()
        async with stage.search._lock:
            assert len(stage.planner.asked) == 1
    working.cancel()
    assert stage.search.view(KEY) is None


async def test_a_forgotten_job_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = SearchStage(monkeypatch)
    await stage.consider()
    stage.search.forget(KEY)
    assert stage.search.view(KEY) is None


def test_an_offer_says_what_is_compared() -> None:
    assert offer_of(TWO, 100) == PlanAlternative(TWO.plan_id, 2, 2, 2, 1.0, offer_of(TWO, 100).failure_risk)
