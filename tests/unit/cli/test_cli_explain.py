"""`hyperscale explain`: every reason of the operator has a meaning for people; what waits, why, and what to do."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from hyperscale.cli.explain.explanation import ExplainedJob, RecordedEvent, explain
from hyperscale.cli.explain.meanings import MEANINGS
from hyperscale.control.status.conditions import degraded
from hyperscale.model.api.condition import Condition, ConditionStatus
from hyperscale.model.api.datasets import DatasetStatus, SizeSource
from hyperscale.model.cluster import MetricsState
from hyperscale.model.decision import Reason
from hyperscale.model.plan import Plan
from hyperscale.model.status import JobStatus, ReadyCount, StateWord, to_wire
from tests.builders.clusters import GIB, refused, training
from tests.builders.seen import last_step
from tests.builders.seen import status as told
from tests.unit.cli.cli_samples import Files, files_fixture, job, run
from tests.unit.planner.test_refusals import AWAY, CASES, LARGE_GRAPH, beside, flat, need

__all__ = ["files_fixture"]


def condition(kind: str, status: ConditionStatus, reason: str, message: str = "") -> Condition:
    return Condition(kind, status, reason, message, observed_generation=1, last_transition_time="2026-01-01T10:00:00Z")


def record(status: JobStatus | None, **changed: Any) -> ExplainedJob:
    fields: dict[str, Any] = {"name": "cora", "namespace": "team-a", "generation": 1, "deleting": False, "status": status, "events": ()}
    return ExplainedJob(**{**fields, **changed})


def status(reason: str, state: StateWord = StateWord.PENDING, conditions: tuple[Condition, ...] = (), **fields: Any) -> JobStatus:
    """A status whose last step has the reason; of an ended job the reason is that of its state."""
    summary = () if state in (StateWord.SUCCEEDED, StateWord.FAILED) else (last_step(reason),)
    return told(state, *summary, *conditions, **{"observed_generation": 1, **fields})


def written(state: JobStatus, files: Files, name: str = "job-with-status.json") -> str:
    return files.write(name, json.dumps({**job(), "status": to_wire(state)}))


@pytest.mark.parametrize("reason", sorted(Reason))
def test_every_reason_of_the_operator_says_what_happens(reason: Reason) -> None:
    explained = explain(record(status(reason=str(reason))))
    assert explained.summary[0] == MEANINGS[reason].happens
    assert "{" not in " ".join((*explained.summary, *explained.advice))


@pytest.mark.parametrize("reason", sorted({case[3] for case in CASES} | {"PlannerFailed"}))
def test_every_reason_why_there_is_no_plan_says_what_happens_and_what_to_do(reason: str) -> None:
    explained = explain(record(status(reason=reason)))
    assert explained.summary[0] == MEANINGS[reason].happens
    assert explained.advice


def test_advice_on_a_graph_that_no_free_gpu_holds_is_the_planners_own() -> None:
    """Memory of the container is not what is short: `spec.workers.resources` changes nothing."""
    seen = beside(flat(4, gpu_memory_bytes=4 * GIB), *AWAY)
    refusal = refused(seen, training(**{**need(2), "dataset": LARGE_GRAPH}))
    advice = " ".join(explain(record(status(reason=refusal.reason))).advice)
    for field in ("spec.workers.maxReplicas", "spec.model.batchSize"):
        assert field in refusal.message
        assert field in advice
    assert "resources" not in advice


def test_a_reason_of_a_newer_operator_is_passed_on() -> None:
    explained = explain(record(status(reason="Teleporting", state=StateWord.STARTING)))
    assert explained.summary[0] == "The job is starting (Teleporting)."


def test_a_job_without_status_waits_for_the_operator() -> None:
    explained = explain(record(None))
    assert explained.waits_for == "the operator"
    assert explained.advice


def test_the_message_of_the_condition_that_carries_the_reason_is_told() -> None:
    message = "needs 8 GPUs with at least 24 GiB; 6 found. Try workers.maxReplicas: 6."
    state = status(reason="InsufficientGPUs", conditions=(condition("Planned", "False", "InsufficientGPUs", message),))
    explained = explain(record(state))
    assert explained.summary[1].lower() == message.lower()
    assert explained.waits_for == "free GPUs"
    assert "plans it again when GPUs" in explained.advice[0]


def test_sizes_that_were_read_are_told_and_stated_ones_are_not() -> None:
    read = DatasetStatus(2708, 10556, 1433, 7, SizeSource.READ, "k")
    sentence = "The graph was read: 2,708 vertices, 10,556 directed edges, 1,433 features a vertex, 7 classes."
    assert sentence in explain(record(status(reason="Planning", dataset=read))).summary
    stated = msgspec.structs.replace(read, source=SizeSource.SPEC)
    assert sentence not in explain(record(status(reason="Planning", dataset=stated))).summary


def test_a_bad_spec_repeats_the_field_and_asks_to_correct_it() -> None:
    state = status(
        reason=Reason.INVALID_SPEC, conditions=(condition("Stalled", "True", "InvalidSpec", "spec.workers.maxReplicas: 2 is below min"),)
    )
    explained = explain(record(state))
    assert "Spec.workers.maxReplicas: 2 is below min." in explained.summary
    assert explained.advice == ("Correct the field that the message names.",)


def test_approval_says_how_to_approve() -> None:
    message = "approve with: kubectl annotate --overwrite gnntj cora -n team-a hyperscale.dev/approved-plan=abc"
    state = status(
        reason=Reason.AWAITING_APPROVAL, state=StateWord.PLANNED, conditions=(condition("Approved", "False", "AwaitingApproval", message),)
    )
    explained = explain(record(state))
    assert explained.advice == (f"A{message[1:]}",)
    assert explained.waits_for == "approval"


def test_a_failed_job_tells_the_failure_of_the_mpijob() -> None:
    state = status(
        reason=Reason.FAILED,
        state=StateWord.FAILED,
        conditions=(condition("Failed", "True", "BackoffLimitExceeded", "the launcher failed"),),
    )
    explained = explain(record(state))
    assert "The launcher failed." in explained.summary
    assert "kubectl logs -n team-a" in explained.advice[0]


def test_progress_of_the_ranks_is_counted() -> None:
    explained = explain(record(status(reason=Reason.STARTING, state=StateWord.STARTING, workers=ReadyCount(planned=4, placed=3, ready=1))))
    assert "3 of 4 ranks are bound to a node, 1 are ready." in explained.summary


@pytest.mark.parametrize("state", [StateWord.PLANNED, StateWord.RUNNING, StateWord.SUCCEEDED])
def test_what_was_found_out_about_the_plan_is_told_until_the_run_has_ended(state: StateWord) -> None:
    found = condition("Evaluated", "True", "NoRisksFound", "takes 60 s (50 s to 90 s)")
    summary = explain(record(status(reason=Reason.RUNNING, state=state, conditions=(found,)))).summary
    assert ("The plan was evaluated: takes 60 s (50 s to 90 s)." in summary) == (state is not StateWord.SUCCEEDED)


def test_a_spec_that_is_newer_than_the_status_is_told() -> None:
    explained = explain(record(status(reason=Reason.RUNNING), generation=4))
    assert "The spec is newer (generation 4) than what the operator has answered to (1)." in explained.summary


def test_a_plan_made_with_less_is_told(files: Files) -> None:
    plan = _plan(files)
    state = status(
        reason=Reason.RUNNING,
        state=StateWord.RUNNING,
        plan=plan,
        conditions=(degraded(MetricsState(available=False, reason="PrometheusUnreachable", message="connection refused"), plan),),
    )
    explained = explain(record(state))
    assert any("(PrometheusUnreachable): connection refused" in sentence for sentence in explained.summary)


def test_a_job_that_is_being_deleted_says_so_whatever_its_reason() -> None:
    assert explain(record(status(reason=Reason.RUNNING), deleting=True)).summary[0].startswith("The job is being deleted")


def test_only_the_newest_events_are_kept() -> None:
    events = tuple(RecordedEvent("Normal", "Planned", f"number {index}", 1, f"2026-01-01T00:00:{index:02d}Z") for index in range(30))
    explained = explain(record(status(reason=Reason.RUNNING), events=events))
    assert [event.message for event in explained.events] == [f"number {index}" for index in range(22, 30)]


def test_the_table_shows_the_plan_rank_by_rank(files: Files) -> None:
    plan = _plan(files)
    ran = run("explain", "-f", written(status(reason=Reason.RUNNING, state=StateWord.RUNNING, plan=plan), files))
    assert (ran.code, ran.err) == (0, "")
    assert "The job is training." in ran.out
    assert f"Plan {plan.plan_id} by Heuristic" in ran.out
    for worker in plan.workers:
        assert worker.node in ran.out
    for reason in plan.reasons:
        assert reason in ran.out


def test_json_holds_the_documented_keys(files: Files) -> None:
    document = json.loads(run("explain", "-f", written(status(reason=Reason.RUNNING), files), "-o", "json").out)
    assert document.keys() == {
        "job",
        "state",
        "reason",
        "summary",
        "waitsFor",
        "advice",
        "plan",
        "conditions",
        "events",
        "alternatives",
        "difference",
    }
    assert document["job"] == "team-a/products"


def test_a_list_holds_jobs_and_their_events(files: Files) -> None:
    other = {**job(), "metadata": {"name": "other", "namespace": "team-a"}}
    event = {"kind": "Event", "reason": "Placed", "message": "here", "involvedObject": {"name": "products"}}
    stray = {"kind": "Event", "reason": "Placed", "message": "elsewhere", "involvedObject": {"name": "other"}}
    path = files.write("list.json", json.dumps({"kind": "List", "items": [job(), other, event, stray]}))
    assert "write the name of one of them" in run("explain", "-f", path).err
    ran = run("explain", "products", "-f", path)
    assert ran.code == 0
    assert "here" in ran.out
    assert "elsewhere" not in ran.out


def test_a_status_that_is_not_ours_is_named_with_its_place(files: Files) -> None:
    path = files.write("odd.json", json.dumps({**job(), "status": {"observedGeneration": 1, "planChanges": "many"}}))
    ran = run("explain", "-f", path)
    assert ran.code == 2
    assert "status.planChanges" in ran.err
    assert ran.err.count("\n") == 1


def test_messages_of_the_cluster_cannot_move_the_cursor(files: Files) -> None:
    state = status(reason=Reason.RUNNING, conditions=(condition("Running", "True", "Running", "\x1b[2Jgone\r\nnext"),))
    ran = run("explain", "-f", written(state, files))
    assert "\x1b" not in ran.out
    assert "\r" not in ran.out
    assert "gone" in ran.out


def _plan(files: Files) -> Plan:
    return msgspec.json.decode(files.plan("-o", "json").out, type=Plan)


@pytest.mark.parametrize(
    ("kind", "reason", "sentence"),
    [
        ("True", "Passed", "The preflight passed: 5 steps went well."),
        ("False", "NotFinite", "The preflight found a fault (NotFinite): 5 steps went well."),
        ("Unknown", "Running", "The preflight says nothing of the code yet (Running): 5 steps went well."),
    ],
)
def test_a_preflight_beside_the_start_is_a_sentence(kind: ConditionStatus, reason: str, sentence: str) -> None:
    explained = explain(record(status("Starting", StateWord.STARTING, (condition("Preflight", kind, reason, "5 steps went well"),))))
    assert sentence in explained.summary


def test_a_start_that_a_preflight_stopped_says_so_once_and_what_to_do() -> None:
    told_twice = (condition("Preflight", "False", "Crashed", "boom"), condition("Stalled", "True", "PreflightFailed", "Crashed: boom"))
    explained = explain(record(status("PreflightFailed", StateWord.PENDING, told_twice)))
    assert [sentence for sentence in explained.summary if "boom" in sentence] == ["Crashed: boom."]
    assert "spec.preflight: Advise" in explained.advice[0]
