"""`hyperscale evaluate --stage preflight`: when the job's code runs, and what is printed about it."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from hyperscale.cli.evaluate import tried_job
from hyperscale.evaluate.preflight.sandboxes import SandboxError
from hyperscale.evaluate.preflight.trial_types import Fault, Observation, TrialRequest
from hyperscale.evaluate.preflight.try_job import preflight
from hyperscale.model.api.preflight_report import PreflightFault
from hyperscale.training.data.available_memory import limit_bytes
from tests.builders.seen import job_spec
from tests.unit.cli.cli_samples import Files, Ran, files_fixture, run

__all__ = ["files_fixture"]

pytest.importorskip("torch")
WELL = Observation(steps=5, losses=("0x1.0p+0",) * 5, step_seconds=(0.1,) * 5, peak_bytes=1 << 20, limits=("memory",))
BAD = Observation(faults=(Fault(PreflightFault.NOT_FINITE, "the loss is nan", 2),), steps=1)


@pytest.fixture(name="requests")
def requests_fixture(monkeypatch: pytest.MonkeyPatch) -> list[TrialRequest]:
    return _instead(monkeypatch, WELL)


def _instead(monkeypatch: pytest.MonkeyPatch, outcome: Observation) -> list[TrialRequest]:
    """No code runs: every trial has this outcome; the requests."""
    asked: list[TrialRequest] = []

    def watch(request: TrialRequest) -> Observation:
        asked.append(request)
        return outcome

    monkeypatch.setattr(tried_job, "preflight", partial(preflight, watch=watch))
    return asked


def evaluated(files: Files, *more: str) -> Ran:
    return run("evaluate", "-f", files.job, "--snapshot", files.snapshot, "--futures", "200", *more)


def tried(files: Files, *more: str) -> Ran:
    return evaluated(files, "--stage", "preflight", "--sandbox", "none", *more)


def test_the_jobs_code_runs_only_where_the_stage_is_named(files: Files, requests: list[TrialRequest]) -> None:
    ran = evaluated(files)
    assert (ran.code, len(requests)) == (0, 0)
    assert "preflight" not in ran.out
    assert tried(files).code == 0
    assert len(requests) == 2


def test_the_outcome_comes_with_the_largest_settings_of_each_product(files: Files, requests: list[TrialRequest]) -> None:
    lines = tried(files).out.splitlines()
    stage = next(line for line in lines if line.startswith("preflight"))
    assert stage.split()[1:4] == ["Passed", "1.000", "1.000"]
    assert "5 steps of 0.1 s each went well" in stage
    assert any(line.startswith("PRODUCT") and "FAN-OUT" in line for line in lines)
    document: dict[str, Any] = json.loads(tried(files, "-o", "json").out)
    assert all(fit["settings"] >= 1_000_000 >= 1 <= fit["fitting"] for fit in document["fits"])
    assert [each["stage"] for each in document["stages"]] == ["preflight"]


def test_a_fault_ends_with_one(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _instead(monkeypatch, BAD)
    ran = tried(files, "--preflight-seconds", "7")
    assert ran.code == 1
    assert "NotFinite: NaN or infinity in step 2: the loss is nan" in ran.out
    assert [request.limits.seconds for request in asked] == [7.0]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--data", "/absent"), "--data: '/absent' is no folder"),
        (("--preflight-seconds", "0"), "is no number from 1 to"),
        (("--sandbox", "jail"), "invalid choice: 'jail'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_tried_is_one_line(files: Files, requests: list[TrialRequest], more: tuple[str, ...], words: str) -> None:
    ran = tried(files, *more)
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err


def test_a_sandbox_that_cannot_be_had_is_said(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(wanted: str) -> None:
        raise SandboxError("bwrap starts nothing here")

    monkeypatch.setattr(tried_job, "choose", fails)
    ran = tried(files)
    assert (ran.code, ran.out) == (2, "")
    assert "--sandbox: bwrap starts nothing here" in ran.err


def test_a_limit_beyond_all_memory_is_that_of_this_machine() -> None:
    beyond = job_spec(workers={"maxReplicas": 1, "resources": {"limits": {"memory": "8Ei"}}})
    small = job_spec(workers={"maxReplicas": 1, "resources": {"limits": {"memory": "64Mi"}}})
    assert tried_job._limits(beyond, 45.0).memory_bytes == limit_bytes()
    assert tried_job._limits(small, 45.0).memory_bytes == 64 << 20
