"""Preflights in the chain of checks and in the status: what holds a start, what only advises, and what nothing is learned from.

Longer than other modules: one stage of preflights, so that what holds a start stands beside what only advises.
"""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from msgspec.structs import replace

from hyperscale.control.controller.context import ReconcileContext, events_for, is_progress
from hyperscale.control.decide.chain import decide
from hyperscale.control.lifecycle.preflight_outcome import HOLD_SECONDS, is_open, may_begin, outcome_of
from hyperscale.control.status.conditions import derive
from hyperscale.model.api.condition import Condition
from hyperscale.model.api.job import StartPolicy
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.api.preflight import is_held, preflight_key
from hyperscale.model.api.preflight_report import PreflightFault, PreflightOutcome, PreflightStatus
from hyperscale.model.decision import CreateMpiJob, EnsureInspection, MakePlan, Reason, Stop, Wait
from hyperscale.model.meta import JobMetadata
from hyperscale.model.observed.owned_objects import BatchJobView
from hyperscale.model.observed.reconcile_input import ReconcileInput, SpecFault
from hyperscale.model.pods import OOM_KILLED, PREFLIGHT, PodView
from hyperscale.model.status import JobStatus, StateWord, read_status, to_wire
from hyperscale.spec.plausible import is_status
from hyperscale.util.rfc3339 import timestamp
from tests.builders.seen import MEASURED, UID, changed, condition, job_spec, mpijob, plan, seen, status

NOW: Final = 1_000_000.0
METADATA: Final = JobMetadata(namespace="team", name="cora", uid=UID, generation=1)
REQUIRED: Final = job_spec(preflight="Require")
ADVISED: Final = job_spec(preflight="Advise")
KEY: Final = "0011223344556677"
VIEW: Final = BatchJobView(uid="preflight-uid", owner_uid=UID, key=KEY, created=timestamp(NOW - 10.0))
TWO: Final = plan("node-a", "node-b")
WELL: Final = '{"sentence": "3 steps went well", "steps": 3, "stepSeconds": 0.25, "peakMemoryBytes": 1000, "deterministic": true}'
NAN: Final = '{"sentence": "the loss is NaN after step 2; lower the learning rate", "fault": "NotFinite", "steps": 2}'


def tried(view: BatchJobView | None = None, **changes: Any) -> ReconcileInput:
    """A job whose preflight is required."""
    return seen(**{"job": REQUIRED, "preflight_key": KEY, "preflight": view, **changes})


def pod(**changes: Any) -> PodView:
    view = PodView(namespace="team", name="cora-preflight-x", owner_uid=VIEW.uid, owner_kind="Job", job_name="cora", role=PREFLIGHT)
    return replace(view, **{"labels": {"hyperscale.dev/preflight-key": KEY}, **changes})


def ended(text: str = WELL, phase: str = "Succeeded", view: BatchJobView = VIEW, **changes: Any) -> ReconcileInput:
    """Its pod has ended and left `text` behind."""
    return tried(view, **{"preflight_pods": (pod(phase=phase, termination=text),), **changes})


def told(look: ReconcileInput) -> Condition:
    """The condition after the pass."""
    (condition,) = [one for one in derive(look, decide(look)).conditions if one.type == "Preflight"]
    return condition


def summary(look: ReconcileInput) -> tuple[str, str]:
    return told(look).status, told(look).reason


def test_a_required_preflight_comes_before_any_plan_so_that_it_holds_no_gpu() -> None:
    decision = decide(tried())
    assert isinstance(decision, Wait)
    assert decision.reason == Reason.PREFLIGHTING
    assert derive(tried(), decision).plan is None


def test_a_plan_of_an_earlier_spec_is_given_back_while_new_code_is_tried() -> None:
    look = tried(plan=TWO, plan_recorded=True, status=status(StateWord.PLANNED, condition("Planned"), plan=TWO))
    decision = decide(look)
    assert decision.reason == Reason.PREFLIGHTING
    assert derive(look, decision).plan is None


def test_what_passed_is_planned_in_the_same_pass() -> None:
    assert isinstance(decide(ended()), MakePlan)
    written = derive(ended(), decide(ended())).preflight
    assert written == PreflightStatus(
        KEY, PreflightOutcome.PASSED, "Passed", "3 steps went well", 3, 0.25, peak_memory_bytes=1000, deterministic=True
    )
    assert summary(ended()) == ("True", "Passed")


def test_what_passed_starts_without_its_job_and_its_pod() -> None:
    passed = JobStatus(preflight=PreflightStatus(KEY, PreflightOutcome.PASSED, "Passed", "well"))
    look = tried(status=passed, plan=TWO, plan_recorded=True, metrics=MEASURED)
    assert isinstance(decide(look), CreateMpiJob)
    assert not is_open(look)


@pytest.mark.parametrize("fault", list(PreflightFault))
def test_a_fault_stops_the_start_with_its_reason_and_sentence(fault: PreflightFault) -> None:
    look = ended(f'{{"sentence": "write less", "fault": "{fault}"}}', phase="Failed")
    decision = decide(look)
    assert decision == Stop(Reason.PREFLIGHT_FAILED, f"{fault}: write less")
    assert summary(look) == ("False", fault)
    assert {"Stalled", "Planned"} <= {one.type for one in derive(look, decision).conditions}


def test_a_fault_stops_the_start_until_another_spec_is_there() -> None:
    failed = derive(ended(NAN, "Failed"), decide(ended(NAN, "Failed")))
    assert isinstance(decide(tried(status=failed)), Stop)
    again = tried(status=failed, preflight_key="8899aabbccddeeff")
    assert decide(again).reason == Reason.PREFLIGHTING
    assert is_open(again)
    assert derive(again, decide(again)).preflight is None


@pytest.mark.parametrize(
    ("text", "phase"),
    [
        ("", "Failed"),
        ("Traceback (most recent call last):\n  KeyError", "Failed"),
        ("[" * 4096, "Failed"),
        (WELL.replace("3,", "-3,", 1), "Succeeded"),
        (WELL.replace("0.25", "1e999"), "Succeeded"),
        (WELL.replace("1000", "1e30"), "Succeeded"),
        (WELL.replace("3 steps went well", " "), "Succeeded"),
        (WELL.replace("3 steps went well", "x" * 1025), "Succeeded"),
        (f'{{"sentence": "x", "addresses": {["a"] * 17}}}'.replace("'", '"'), "Succeeded"),
        (NAN.replace("NotFinite", "NoSuchFault"), "Failed"),
        (WELL + " " * 4096, "Succeeded"),
        (NAN, "Succeeded"),
    ],
)
def test_a_report_that_is_none_or_contradicts_the_end_of_its_pod_starts_nothing(text: str, phase: str) -> None:
    done = replace(VIEW, succeeded=phase == "Succeeded", failed=phase == "Failed")
    look = ended(text, phase, done)
    decision = decide(look)
    assert isinstance(decision, Stop)
    assert decision.reason == Reason.PREFLIGHT_UNKNOWN
    assert "hyperscale.dev/preflight-again" in decision.message
    assert summary(look) == ("Unknown", "ReportUnreadable")
    written = derive(look, decision)
    assert is_status(written)
    assert read_status(to_wire(written)) == written


def test_a_pod_that_had_nothing_to_try_says_why_and_starts_nothing() -> None:
    look = ended('{"sentence": "not tried: spec.model.script: no file /srv/train.py"}', "Failed")
    decision = decide(look)
    assert isinstance(decision, Stop)
    assert "no file /srv/train.py" in decision.message
    assert summary(look) == ("Unknown", "NotTried")


def test_words_of_the_code_cannot_reach_a_terminal_as_commands() -> None:
    report = {"sentence": "\x1b[31mred\nsecond line", "fault": "Crashed", "filesWritten": ["/tmp/\x07a"]}  # noqa: S108 - a text
    written = derive(look := ended(json.dumps(report), "Failed"), decide(look))
    assert written.preflight is not None
    assert (written.preflight.sentence, written.preflight.files_written) == ("?[31mred second line", ("/tmp/?a",))  # noqa: S108
    assert is_status(written)


def test_a_pod_of_another_owner_reports_nothing() -> None:
    forged = pod(owner_uid="forged", phase="Succeeded", termination=WELL)
    assert decide(tried(VIEW, preflight_pods=(forged,))).reason == Reason.PREFLIGHTING


@pytest.mark.parametrize("view", [replace(VIEW, key="other"), replace(VIEW, deleting=True)], ids=["other code", "going"])
def test_a_job_for_other_code_says_nothing_of_this(view: BatchJobView) -> None:
    look = ended(view=view)
    assert decide(look).reason == Reason.PREFLIGHTING
    assert is_open(look)


def test_a_job_that_cannot_be_read_is_named() -> None:
    assert summary(tried(BatchJobView("", "", "", failed=True, message="nested too deeply"))) == ("Unknown", "ReportUnreadable")


def test_a_pod_that_finds_no_node_is_named_while_it_waits_and_at_the_end_of_its_time() -> None:
    waits = (pod(unschedulable="0/3 nodes are available: 3 Insufficient memory"),)
    look = tried(VIEW, preflight_pods=waits)
    assert summary(look) == ("Unknown", "Unschedulable")
    assert "3 Insufficient memory" in decide(look).message
    late = changed(look, now=NOW + HOLD_SECONDS)
    assert isinstance(decide(late), Stop)
    assert summary(late) == ("Unknown", "Unschedulable")


@pytest.mark.parametrize("pods", [(), (pod(phase="Running"),)], ids=["no pod", "endless"])
def test_the_hold_ends_by_the_time_of_its_job_whether_or_not_the_job_controller_says_so(pods: tuple[PodView, ...]) -> None:
    look = tried(VIEW, preflight_pods=pods)
    assert isinstance(decide(look), Wait)
    late = changed(look, now=NOW - 10.0 + HOLD_SECONDS + 1.0)
    assert isinstance(decide(late), Stop)
    assert summary(late) == ("Unknown", "TimedOut")
    overdue = tried(replace(VIEW, failed=True, overdue=True), preflight_pods=pods)
    assert summary(overdue) == ("Unknown", "TimedOut")


def test_the_time_of_a_hold_is_that_of_the_api_server() -> None:
    look = tried(replace(VIEW, created=timestamp(NOW + 300.0)), now=NOW + HOLD_SECONDS, server_ahead_seconds=250.0)
    assert isinstance(decide(look), Wait)
    assert isinstance(decide(changed(look, server_ahead_seconds=301.0)), Stop)


def test_an_evicted_pod_is_named() -> None:
    look = tried(replace(VIEW, failed=True), preflight_pods=(pod(phase="Failed", reason="Evicted"),))
    assert summary(look) == ("Unknown", "Evicted")


def test_an_evicted_pod_whose_job_makes_another_says_nothing_yet() -> None:
    assert isinstance(decide(tried(VIEW, preflight_pods=(pod(phase="Failed", reason="Evicted"),))), Wait)


def test_a_pod_killed_at_the_memory_of_a_worker_is_a_fault_and_at_a_limit_of_our_own_says_nothing() -> None:
    limited = job_spec(preflight="Require", workers={"maxReplicas": 2, "resources": {"limits": {"memory": "8Gi"}}})
    assert summary(ended(OOM_KILLED, "Failed", job=limited)) == ("False", "OutOfMemory")
    assert "8Gi" in decide(ended(OOM_KILLED, "Failed", job=limited)).message
    assert summary(ended(OOM_KILLED, "Failed")) == ("Unknown", "OutOfMemory")


@pytest.mark.parametrize(
    ("reason", "kind"),
    [(Reason.QUOTA_EXCEEDED, Wait), (Reason.FORBIDDEN, Wait), (Reason.NAME_CONFLICT, Stop), (Reason.INVALID_POD_TEMPLATE, Stop)],
)
def test_what_the_api_server_refuses_is_named_and_holds_the_start(reason: Reason, kind: type) -> None:
    look = tried(preflight_refusal=SpecFault("", "no", reason))
    decision = decide(look)
    assert isinstance(decision, kind)
    assert (decision.reason, decision.message) == (reason, "no")
    assert summary(look) == ("Unknown", reason)
    assert is_open(look)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"preflight": VIEW, "preflight_pods": (pod(phase="Running"),)},
        {"preflight": VIEW, "preflight_pods": (pod(phase="Failed", termination=NAN),)},
        {"preflight": replace(VIEW, failed=True)},
        {"preflight_refusal": SpecFault("", "no", Reason.NAME_CONFLICT)},
    ],
    ids=["not begun", "running", "fault", "nothing learned", "refused"],
)
def test_advice_never_keeps_a_job_from_its_start(changes: dict[str, Any]) -> None:
    look = seen(ADVISED, preflight_key=KEY, **changes)
    assert isinstance(decide(look), MakePlan)
    planned = changed(look, plan=TWO, plan_recorded=True, metrics=MEASURED)
    assert isinstance(decide(planned), CreateMpiJob)
    assert derive(planned, decide(planned)).plan == TWO
    assert told(planned).status in ("False", "Unknown")


def test_advice_on_a_gang_that_starts_comes_late_and_is_told() -> None:
    starting = seen(ADVISED, preflight_key=KEY, plan=TWO, plan_recorded=True, mpijob=mpijob())
    assert may_begin(starting)
    late = changed(starting, preflight=VIEW, preflight_pods=(pod(phase="Failed", termination=NAN),), mpijob=mpijob(conditions=RUNS))
    assert decide(late).reason == Reason.RUNNING
    assert summary(late) == ("False", "NotFinite")


RUNS: Final = {"Running": (True, "MPIJobRunning", "")}


@pytest.mark.parametrize("job", [REQUIRED, ADVISED], ids=["Require", "Advise"])
@pytest.mark.parametrize(
    "conditions",
    [RUNS, {"Succeeded": (True, "MPIJobSucceeded", "")}, {"Failed": (True, "MPIJobFailed", "")}],
    ids=["running", "succeeded", "failed"],
)
def test_a_running_gang_and_a_finished_run_are_never_touched(job: Any, conditions: dict[str, Any]) -> None:
    before = seen(job_spec(), plan=TWO, plan_recorded=True, mpijob=mpijob(conditions=conditions))
    look = seen(job, preflight_key=KEY, plan=TWO, plan_recorded=True, mpijob=mpijob(conditions=conditions))
    assert decide(look) == decide(before)
    assert not is_open(look)
    assert derive(look, decide(look)) == derive(before, decide(before))


def test_what_was_learned_stays_when_the_gang_runs_and_after_its_end() -> None:
    passed = JobStatus(preflight=PreflightStatus(KEY, PreflightOutcome.PASSED, "Passed", "well"))
    for conditions in (RUNS, {"Succeeded": (True, "MPIJobSucceeded", "")}):
        look = tried(status=passed, plan=TWO, plan_recorded=True, mpijob=mpijob(conditions=conditions), preflight_key="another")
        assert derive(look, decide(look)).preflight == passed.preflight


def test_a_restarted_operator_finds_a_preflight_of_a_running_gang_by_its_pod() -> None:
    look = seen(ADVISED, preflight_key=KEY, plan=TWO, plan_recorded=True, mpijob=mpijob(conditions=RUNS))
    assert not is_open(look)
    assert is_open(changed(look, preflight_pods=(pod(phase="Running"),)))


@pytest.mark.parametrize(
    "look",
    [
        tried(job=job_spec(preflight="Require", runPolicy={"suspend": True})),
        tried(deleting=True),
        tried(inspection_key="sizes"),
        tried(status=status(StateWord.FAILED)),
    ],
    ids=["suspended", "being deleted", "size unknown", "ended"],
)
def test_nothing_is_tried_of_a_job_that_is_not_to_start_or_not_to_be_planned_yet(look: ReconcileInput) -> None:
    assert not may_begin(look)
    assert not is_open(look)


def test_sizes_are_read_before_code_is_tried() -> None:
    assert isinstance(decide(tried(inspection_key="sizes")), EnsureInspection)


def test_without_a_preflight_there_is_no_word_of_one() -> None:
    off = seen(status=JobStatus(preflight=PreflightStatus(KEY, PreflightOutcome.FAILED, "Crashed", "boom")))
    written = derive(off, decide(off))
    assert written.preflight is None
    assert "Preflight" not in {one.type for one in written.conditions}
    assert outcome_of(off) is None


def test_a_bad_edit_forgets_nothing() -> None:
    before = JobStatus(preflight=PreflightStatus(KEY, PreflightOutcome.FAILED, "Crashed", "boom"))
    look = changed(seen(status=before), job=None, fault=SpecFault("spec.model", "bad"))
    assert derive(look, decide(look)).preflight == before.preflight


@pytest.mark.parametrize(
    "spec",
    [
        {"model": {"architecture": "GCN", "hiddenSize": 64}},
        {"workers": {"minReplicas": 2, "maxReplicas": 4, "template": {"spec": {"containers": [{"image": "x:2"}]}}}},
        {"dataset": {"source": {"builtin": {"name": "PubMed"}}}},
        {"checkpoint": {"claimName": "state"}},
    ],
    ids=["model", "image", "data", "checkpoints"],
)
def test_another_code_is_tried_again(spec: dict[str, Any]) -> None:
    assert preflight_key(job_spec(preflight="Require", **spec), METADATA) != preflight_key(REQUIRED, METADATA)


@pytest.mark.parametrize(
    "spec", [{"queueWeight": 5}, {"startPolicy": "Manual"}, {"recovery": {"maxPlanChanges": 1}}, {"preflight": "Advise"}]
)
def test_what_no_rank_sees_of_a_spec_is_not_tried_again(spec: dict[str, Any]) -> None:
    assert preflight_key(job_spec(**{"preflight": "Require", **spec}), METADATA) == preflight_key(REQUIRED, METADATA)


def test_a_person_may_ask_for_the_same_code_once_more() -> None:
    again = replace(METADATA, annotations={"hyperscale.dev/preflight-again": "2"})
    assert preflight_key(REQUIRED, again) != preflight_key(REQUIRED, METADATA)


def test_nothing_is_tried_where_it_is_off_or_only_a_question_of_the_command_line() -> None:
    assert preflight_key(job_spec(), METADATA) == ""
    question = replace(METADATA, labels={"hyperscale.dev/preview": "true"})
    assert preflight_key(replace(REQUIRED, start_policy=StartPolicy.NEVER), question) == ""
    assert not is_held(replace(REQUIRED, start_policy=StartPolicy.NEVER), question, None)
    assert is_held(REQUIRED, question, None), "a job that starts is tried, whatever its labels say"


def test_a_job_is_held_until_this_very_code_has_passed() -> None:
    key = preflight_key(REQUIRED, METADATA)
    assert is_held(REQUIRED, METADATA, None)
    assert is_held(REQUIRED, METADATA, PreflightStatus("other", PreflightOutcome.PASSED, "Passed", "well"))
    assert is_held(REQUIRED, METADATA, PreflightStatus(key, PreflightOutcome.UNKNOWN, "TimedOut", "late"))
    assert not is_held(REQUIRED, METADATA, PreflightStatus(key, PreflightOutcome.PASSED, "Passed", "well"))
    assert not is_held(ADVISED, METADATA, None)


def test_the_end_of_a_preflight_is_written_at_once_and_is_one_event() -> None:
    look = ended(NAN, "Failed")
    after = derive(look, decide(look))
    assert not is_progress(look.job.status, replace(look.job.status, preflight=after.preflight))
    run = ReconcileContext(("team", "cora"), PolicySpec(), NOW)  # type: ignore[arg-type]
    (event,) = events_for(run, look, decide(look), look.job.status, after)
    assert (event.reason, event.warning) == ("PreflightFailed", True)
    assert events_for(run, changed(look, status=after), decide(look), after, after) == []


def test_advice_is_an_event_beside_that_of_the_pass() -> None:
    look = ended(NAN, "Failed", job=ADVISED)
    run = ReconcileContext(("team", "cora"), PolicySpec(), NOW)  # type: ignore[arg-type]
    run.plan = TWO
    events = events_for(run, look, decide(look), look.job.status, derive(look, decide(look)))
    assert [event.reason for event in events] == ["PreflightFailed", "Planned"]
    assert events[0].message.startswith("NotFinite: the loss is NaN")
