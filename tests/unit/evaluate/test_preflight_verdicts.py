"""From what a watcher saw to one report: faults are never taken back, a report fits a termination message."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hyperscale.evaluate.pipeline.evaluation_question import TriedJob
from hyperscale.evaluate.pipeline.preflight_stage import judge_preflight
from hyperscale.evaluate.preflight import pod_main
from hyperscale.evaluate.preflight.job_trial import Surroundings, TrialInputError, trial_of
from hyperscale.evaluate.preflight.memory_forecast import TrialPeak, gpu_bytes, line_of, too_small
from hyperscale.evaluate.preflight.trial_record import TrialRecord
from hyperscale.evaluate.preflight.trial_types import MAX_EVENTS, Fault, Limits, Observation, Said, Sandbox, TrialEvent, TrialRequest
from hyperscale.evaluate.preflight.trials import TrialError
from hyperscale.evaluate.preflight.try_job import preflight
from hyperscale.evaluate.preflight.verdict import asked_bytes, report_of
from hyperscale.model.api.job import Architecture, CheckpointSpec, ModelSpec
from hyperscale.model.api.preflight_report import MAX_REPORT_BYTES, PreflightFault, PreflightReport
from hyperscale.model.evaluation import StageState
from tests.builders.clusters import gpu_node, planned, snapshot, training
from tests.builders.preflights import CORPUS, job_of

LIMITS = Limits(steps=3, seconds=10.0, memory_bytes=1 << 30)
WELL = Observation(steps=3, losses=("0x1.0p+0", "0x1.8p-1", "0x1.0p-1"), step_seconds=(0.1, 0.2, 0.3), peak_bytes=1 << 20, seconds=2.0)
CUSTOM = ModelSpec(Architecture.CUSTOM, parameters=10, script="sound_plain.py")


def test_no_word_of_the_code_hides_what_the_watcher_found() -> None:
    floods = [TrialEvent(Said.WROTE, f"/nothing/{number}") for number in range(MAX_EVENTS + 1)]
    for told in ([TrialEvent(Said.DONE)], floods):
        made = record(*told)
        made.take_watched(TrialEvent(Said.ADDRESS, "192.0.2.1:80"))
        made.take_watched(TrialEvent(Said.WROTE, "/opt/outside"))
        observation = made.observation(3.0)
        assert observation.addresses == ("192.0.2.1:80",)
        assert observation.written[0] == "/opt/outside"
        assert {fault.kind for fault in observation.faults} >= {PreflightFault.USED_NETWORK, PreflightFault.WROTE_OUTSIDE}


def test_words_of_the_code_are_printable_in_every_field() -> None:
    evil = "\x1b]0;pwn\x07\x1b[2J\x9b31m\u202eevil\udcff"
    fault = Fault(PreflightFault.CRASHED, f"RuntimeError: {evil}", 1)
    report = report_of(Observation(faults=(fault,), idle=(evil,), written=(evil,), addresses=(evil,), limits=(evil,)), None, LIMITS)
    texts = (report.sentence, *report.idle_parameters, *report.files_written, *report.addresses, *report.limits_held)
    assert len(texts) == 5
    assert all(text.isprintable() and "evil" in text for text in texts)


def record(*events: TrialEvent) -> TrialRecord:
    made = TrialRecord(LIMITS)
    made.take(TrialEvent(Said.READY, limits=("memory",)), 1.0)
    for place, event in enumerate(events):
        made.take(event, 2.0 + place)
    return made


def test_good_news_after_a_fault_takes_nothing_back() -> None:
    made = record(TrialEvent(Said.ADDRESS, "192.0.2.1:9"), *(TrialEvent(Said.STEP, step=at) for at in (1, 2, 3)), TrialEvent(Said.DONE))
    made.ended(0, "")
    report = report_of(made.observation(3.0), None, LIMITS)
    assert report.fault is PreflightFault.USED_NETWORK
    assert report.addresses == ("192.0.2.1:9",)
    assert report.limits_held == ("memory",)


def test_the_first_fault_is_the_reports() -> None:
    made = record(TrialEvent(Said.STEP, step=1), TrialEvent(Said.WROTE, "/etc/x"), TrialEvent(Said.ERROR, "OSError: no", 2))
    assert [(fault.kind, fault.step) for fault in made.faults] == [(PreflightFault.WROTE_OUTSIDE, 2), (PreflightFault.CRASHED, 2)]


@pytest.mark.parametrize(("code", "words", "says"), [(0, "", "exit code 0"), (-11, "", "signal 11"), (139, "x\nlast\n", "signal 11: last")])
def test_an_end_without_a_word_is_a_crash(code: int, words: str, says: str) -> None:
    made = record(TrialEvent(Said.STEP, step=1))
    made.ended(code, words)
    assert [(fault.kind, fault.text, fault.step) for fault in made.faults] == [(PreflightFault.CRASHED, f"it ended with {says}", 2)]


def test_code_that_never_trains_does_not_pass() -> None:
    made = record(TrialEvent(Said.DONE))
    made.ended(0, "")
    assert made.faults[0].kind is PreflightFault.CRASHED


def test_time_is_over_without_a_fault_while_steps_still_come() -> None:
    slow = record(TrialEvent(Said.STEP, step=1, seconds=6.0))
    slow.out_of_time(9.0)
    stuck = record(TrialEvent(Said.STEP, step=1, seconds=0.1))
    stuck.out_of_time(10.0)
    never = TrialRecord(LIMITS)
    never.out_of_time(10.0)
    assert slow.faults == []
    assert [(fault.kind, fault.step) for fault in stuck.faults] == [(PreflightFault.TIMED_OUT, 2)]
    assert "author's code" in never.faults[0].text


def test_an_exit_code_is_told_with_the_last_words() -> None:
    made = record(TrialEvent(Said.ERROR, "it ended with exit code 3", 1), TrialEvent(Said.DONE))
    made.ended(0, "reading\nno such dataset: /data/x\n\n")
    assert made.faults[0].text == "it ended with exit code 3: no such dataset: /data/x"
    told = record(TrialEvent(Said.ERROR, "it ended with the message 'no data'", 1), TrialEvent(Said.DONE))
    told.ended(0, "reading\n")
    assert told.faults[0].text == "it ended with the message 'no data'"
    assert "give it what it asks for" in report_of(told.observation(1.0), None, LIMITS).sentence


def test_a_trial_that_never_came_to_the_code_says_nothing_of_the_code() -> None:
    slow, large, ended = TrialRecord(LIMITS), TrialRecord(LIMITS), TrialRecord(LIMITS)
    slow.out_of_time(10.0)
    assert large.resident(LIMITS.memory_bytes + 1)
    assert "did not come to the author's code within 10 s; try again" in slow.unstarted(-9, "")
    assert "raise the memory limit of spec.workers.resources" in large.unstarted(-9, "")
    assert ended.unstarted(1, "bwrap:\n no  namespaces\n") == "bwrap: no namespaces"
    assert "before the author's code" in ended.unstarted(1, "")
    assert ended.unstarted(1, "Traceback (most recent call last):\n  File x\nImportError: no y\n") == "ImportError: no y"
    begun = record()
    begun.out_of_time(10.0)
    assert begun.unstarted(-9, "") == ""


def test_a_repetition_that_does_not_start_takes_nothing_from_the_first_trial() -> None:
    trials = iter((WELL, None))

    def watch(request: TrialRequest) -> Observation:
        if (trial := next(trials)) is None:
            raise TrialError("too busy")
        return trial

    around = Surroundings(Sandbox.NONE, str(CORPUS), None)
    report = preflight("team/cora", job_of(ModelSpec(Architecture.GCN)), replace(LIMITS, seconds=100.0), around, watch=watch).report
    assert (report.fault, report.steps, report.deterministic) == (None, 3, None)


def test_parameters_without_a_gradient_are_a_fault_of_their_own() -> None:
    report = report_of(replace(WELL, idle=("a.weight", "b.bias")), None, LIMITS)
    assert report.fault is PreflightFault.NO_GRADIENT
    assert "a.weight, b.bias" in report.sentence


def test_losses_are_compared_to_the_bit_over_the_steps_that_both_took() -> None:
    shorter = replace(WELL, losses=WELL.losses[:2])
    other = replace(WELL, losses=(WELL.losses[0], "0x1.8000001p-1"))
    assert report_of(WELL, shorter, LIMITS).deterministic is True
    assert report_of(WELL, other, LIMITS).deterministic is False
    assert report_of(WELL, replace(WELL, losses=()), LIMITS).deterministic is None
    assert report_of(WELL, None, LIMITS).deterministic is None


@given(st.lists(st.text(max_size=300), max_size=30), st.text(max_size=2000), st.sampled_from(PreflightFault))
def test_every_report_fits_a_termination_message_and_is_valid(names: list[str], text: str, kind: PreflightFault) -> None:
    clean = tuple(name.encode(errors="replace").decode() for name in names)
    trial = Observation(faults=(Fault(kind, text[:600], 2),), steps=1, idle=clean, written=clean, addresses=clean, limits=clean[:16])
    body = msgspec.json.encode(report_of(trial, None, LIMITS))
    assert len(body) <= MAX_REPORT_BYTES
    assert msgspec.json.decode(body, type=PreflightReport).fault is kind


def test_what_was_asked_for_is_read_from_messages_of_torch_and_numpy() -> None:
    assert asked_bytes("you tried to allocate 2147483648 bytes. Error code 12") == 2**31
    assert asked_bytes("Unable to allocate 3.00 GiB for an array") == 3 << 30
    assert asked_bytes("killed") is None


def watched(*answers: Observation) -> tuple[list[TrialRequest], Any]:
    asked: list[TrialRequest] = []

    def watch(request: TrialRequest) -> Observation:
        asked.append(request)
        return answers[min(len(asked), len(answers)) - 1]

    return asked, watch


def test_sound_steps_are_taken_twice_and_faulty_ones_once() -> None:
    asked, watch = watched(WELL)
    report = preflight("team/x", job_of(ModelSpec(Architecture.GCN)), LIMITS, Surroundings(), watch=watch).report
    assert (len(asked), report.deterministic) == (2, True)
    assert asked[0].seed == asked[1].seed
    assert (report.predicted_gpu_bytes or 0) > 0
    faulty, watch = watched(replace(WELL, faults=(Fault(PreflightFault.CRASHED, "no", 1),)))
    assert preflight("team/x", job_of(ModelSpec(Architecture.GCN)), LIMITS, Surroundings(), watch=watch).report.fault is not None
    assert len(faulty) == 1


def test_an_own_script_on_a_stand_in_is_tried_at_two_sizes_and_its_memory_extrapolated() -> None:
    job = replace(training(), model=CUSTOM)
    asked, watch = watched(replace(WELL, peak_bytes=300 << 20), WELL, replace(WELL, peak_bytes=200 << 20))
    found = preflight("team/x", job, LIMITS, Surroundings(script_dir=str(CORPUS)), watch=watch)
    vertices = [int(request.environment["HYPERSCALE_DATASET_VERTICES"]) for request in asked]
    assert vertices[0] == vertices[1] > vertices[2]
    whole = gpu_bytes(job, 1.0, 1, found.peaks)
    assert whole is not None
    assert whole > 20 * (300 << 20)
    assert "generated graph" in found.report.sentence


def test_peaks_of_two_sizes_make_a_line_and_close_ones_none() -> None:
    line = line_of([TrialPeak(0.1, 20.0), TrialPeak(0.2, 30.0)])
    assert line is not None
    assert line.bytes(1.0) == pytest.approx(110.0)
    assert line_of([TrialPeak(0.1, 20.0), TrialPeak(0.11, 30.0)]) is None
    assert line_of([TrialPeak(0.1, 20.0)]) is None


def test_a_product_of_the_plan_that_is_too_small_is_told_before_the_gang_starts() -> None:
    cluster = snapshot(gpu_node("n0", product="Tesla-T4"))
    job = replace(training(), model=CUSTOM)
    plan = planned(cluster, training())
    small = replace(cluster, nodes=tuple(replace(node, gpu_memory_bytes=1 << 30) for node in cluster.nodes))
    peaks = (TrialPeak(0.1, 2e8), TrialPeak(0.2, 4e8))
    assert too_small(job, plan, cluster, peaks) == ()
    sentences = too_small(job, plan, small, peaks)
    assert len(sentences) == 1
    assert sentences[0].startswith("Tesla-T4: with 100 % of the vertices")
    stage = judge_preflight(TriedJob(report_of(WELL, None, LIMITS), sentences))
    assert (stage.state, stage.score) == (StageState.FAILED, 0.0)


def test_the_stage_fails_with_a_fault_warns_of_other_losses_and_is_skipped_where_nothing_ran() -> None:
    good, other = report_of(WELL, WELL, LIMITS), replace(report_of(WELL, WELL, LIMITS), deterministic=False)
    bad = replace(good, fault=PreflightFault.CRASHED)
    states = [judge_preflight(None if report is None else TriedJob(report)).state for report in (good, other, bad, None)]
    assert states == [StageState.PASSED, StageState.WARNED, StageState.FAILED, StageState.SKIPPED]


def test_a_trial_has_the_jobs_contract_and_no_more_of_its_data_than_it_has_room_for() -> None:
    trial = trial_of("team/x", training(checkpoint=CheckpointSpec(claim_name="kept")), LIMITS, Surroundings(Sandbox.BUBBLEWRAP))
    variables = trial.request.environment
    assert trial.scale < 0.1
    assert variables["HYPERSCALE_DATASET_SOURCE"] == "generated"
    assert variables["CHECKPOINT_DIR"] == "/checkpoints"
    mean = int(variables["HYPERSCALE_DATASET_EDGES"]) / int(variables["HYPERSCALE_DATASET_VERTICES"])
    assert mean == pytest.approx(123_718_280 / 2_449_029, rel=1e-3)


def test_data_at_hand_are_used_as_they_are(tmp_path: Path) -> None:
    trial = trial_of("team/x", training(), LIMITS, Surroundings(Sandbox.BUBBLEWRAP, data=str(tmp_path)))
    assert (trial.scale, trial.note, trial.request.data) == (1.0, "", str(tmp_path))
    assert trial.request.environment["HYPERSCALE_DATASET_PATH"] == "/data"


def test_a_script_that_is_not_there_is_bad_input() -> None:
    with pytest.raises(TrialInputError, match=r"spec\.model\.script: no file .*--script-dir"):
        trial_of("team/x", job_of(replace(CUSTOM, script="gone.py")), LIMITS, Surroundings(script_dir=str(CORPUS)))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is not JSON"),
        ("[1]", "is no object"),
        ('{"model": {}}', "architecture"),
        ('{"spec": {}, "kind": "Pod"}', "write GNNTrainingJob"),
    ],
)
def test_the_pod_says_in_its_report_why_a_spec_cannot_be_tried(text: str, says: str, tmp_path: Path) -> None:
    spec, report = tmp_path / "job.json", tmp_path / "report"
    spec.write_text(text)
    assert pod_main.main(["--spec", str(spec), "--report", str(report)]) == pod_main.EXIT_BAD_INPUT
    assert says in json.loads(report.read_text())["sentence"]


def test_the_pods_report_replaces_what_the_code_wrote_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, report = tmp_path / "job.json", tmp_path / "report"
    spec.write_bytes(msgspec.json.encode(job_of(ModelSpec(Architecture.GCN))))
    report.write_text('{"sentence":"all is well"}' + " " * 5000)
    failing = replace(WELL, faults=(Fault(PreflightFault.NOT_FINITE, "the loss is nan", 2),))
    monkeypatch.setattr(pod_main, "preflight", lambda *args, **named: preflight(*args, **named, watch=lambda request: failing))
    assert pod_main.main(["--spec", str(spec), "--seconds", "5", "--report", str(report)]) == pod_main.EXIT_FAULT
    assert json.loads(report.read_text())["fault"] == "NotFinite"


def test_in_a_pod_the_code_finds_the_variables_of_its_template_and_nearly_all_of_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, report = tmp_path / "job.json", tmp_path / "report"
    spec.write_bytes(msgspec.json.encode(job_of(ModelSpec(Architecture.GCN))))
    asked, watch = watched(WELL)
    monkeypatch.setenv("FROM_TEMPLATE", "yes")
    monkeypatch.setenv("HYPERSCALE_JOB", "another")
    monkeypatch.setenv("HYPERSCALE_SHARES", "0.5,0.5")
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    monkeypatch.setattr(pod_main, "limit_bytes", lambda: 8 << 30)
    monkeypatch.setattr(pod_main, "preflight", lambda *args, **named: preflight(*args, **named, watch=watch))
    assert pod_main.main(["--spec", str(spec), "--seconds", "5", "--report", str(report)]) == pod_main.EXIT_PASSED
    assert asked[0].environment["FROM_TEMPLATE"] == "yes"
    assert asked[0].environment["HYPERSCALE_JOB"] == "default/job"
    assert {"PYTHONHASHSEED", "HYPERSCALE_SHARES"}.isdisjoint(asked[0].environment), "one rank is tried"
    assert asked[0].limits.memory_bytes == (8 << 30) - pod_main.OWN_BYTES
