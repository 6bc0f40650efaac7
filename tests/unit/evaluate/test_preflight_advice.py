"""What people read of code that a trial cannot judge: it asks for a GPU, or trains in child processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from hyperscale.evaluate.pipeline.evaluation_question import TriedJob
from hyperscale.evaluate.pipeline.preflight_stage import judge_preflight
from hyperscale.evaluate.preflight import pod_main
from hyperscale.evaluate.preflight.trial_types import Fault, Limits, Observation, Sandbox, TrialRequest
from hyperscale.evaluate.preflight.trials import observe
from hyperscale.evaluate.preflight.try_job import Preflight
from hyperscale.evaluate.preflight.verdict import report_of
from hyperscale.model.api.job import Architecture, ModelSpec
from hyperscale.model.api.preflight_report import PreflightFault
from hyperscale.model.evaluation import StageState
from hyperscale.observe.run_report import read_preflight
from tests.builders.preflights import CORPUS, job_of

LIMITS = Limits(seconds=60.0, memory_bytes=1536 << 20, processes=8)
TEXTS = (
    "AssertionError: Torch not compiled with CUDA enabled (train.py, line 5)",
    "RuntimeError: No CUDA GPUs are available",
    "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU",
    "ValueError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!",
    "RuntimeError: nccl2 requires at least one CUDA device",
    "RuntimeError: Distributed package doesn't have NCCL built in",
    "RuntimeError: Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False.",
    "AcceleratorError: CUDA error: no CUDA-capable device is detected",
    "it ended with exit code 1: RuntimeError: No CUDA GPUs are available",
)


def observed(text: str, kind: PreflightFault = PreflightFault.CRASHED) -> Observation:
    return Observation(faults=(Fault(kind, text, 1),))


def tried(folder: Path, text: str) -> Observation:
    """What a trial of this script shows."""
    pytest.importorskip("torch")
    script = folder / "own.py"
    script.write_text(text)
    environment = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
    return observe(TrialRequest(str(script), environment, (str(folder),), limits=LIMITS, sandbox=Sandbox.NONE))


@pytest.mark.parametrize("text", TEXTS)
def test_code_that_asks_for_a_gpu_is_not_judged_and_reads_what_to_write(text: str) -> None:
    report = report_of(observed(text), None, LIMITS)
    assert (report.fault, report.needs_gpu) == (None, True)
    assert "runs on the processor" in report.sentence
    assert 'torch.device("cuda" if torch.cuda.is_available() else "cpu")' in report.sentence
    assert "gloo" in report.sentence
    stage = judge_preflight(TriedJob(report))
    assert (stage.state, stage.sentence) == (StageState.SKIPPED, report.sentence)


@pytest.mark.parametrize("text", ["RuntimeError: CUDA out of memory", "ValueError: bad device cuda", "KeyError: 'NCCL'"])
def test_other_words_of_cuda_are_a_crash(text: str) -> None:
    report = report_of(observed(text), None, LIMITS)
    assert (report.fault, report.needs_gpu) == (PreflightFault.CRASHED, False)


def test_a_fault_before_it_stays() -> None:
    wrote = Fault(PreflightFault.WROTE_OUTSIDE, "/opt/x", 1)
    report = report_of(replace(observed(TEXTS[0]), faults=(wrote, *observed(TEXTS[0]).faults)), None, LIMITS)
    assert (report.fault, report.needs_gpu) == (PreflightFault.WROTE_OUTSIDE, False)
    assert not report_of(observed(TEXTS[0], PreflightFault.NOT_FINITE), None, LIMITS).needs_gpu


def test_the_pod_says_so_with_an_exit_code_and_a_report_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, place = tmp_path / "job.json", tmp_path / "report"
    spec.write_bytes(msgspec.json.encode(job_of(ModelSpec(Architecture.GCN))))

    def judged(*_: Any, **__: Any) -> Preflight:
        return Preflight(report_of(observed(TEXTS[0]), None, LIMITS), ())

    monkeypatch.setattr(pod_main, "preflight", judged)
    assert pod_main.main(["--spec", str(spec), "--report", str(place), "--script-dir", str(CORPUS)]) == pod_main.EXIT_NEEDS_GPU
    report = read_preflight(place.read_text())
    assert report is not None
    assert (report.fault, report.needs_gpu) == (None, True)


@pytest.mark.parametrize("line", ["torch.randn(3, device='cuda')", "torch.distributed.init_process_group('nccl', rank=0, world_size=1)"])
def test_what_torch_says_without_a_gpu_is_understood(line: str, tmp_path: Path) -> None:
    assert report_of(tried(tmp_path, f"import torch, torch.distributed\n{line}\n"), None, LIMITS).needs_gpu


@pytest.mark.parametrize(
    ("line", "says"), [("subprocess.run([sys.executable, '-c', ''], check=True)", True), ("print('no training')", False)]
)
def test_steps_in_child_processes_are_not_watched_and_the_report_says_so(line: str, says: bool, tmp_path: Path) -> None:
    observation = tried(tmp_path, f"import subprocess, sys\n{line}\n")
    assert "no optimizer stepped" in observation.faults[0].text
    assert ("name the script that trains, not a launcher" in observation.faults[0].text) is says


@pytest.mark.parametrize(
    "text",
    [
        "it ended with exit code 1: warning: No CUDA GPUs are available, training on the CPU",
        "it ended with signal 11: no GPUs found, training on the CPU",
    ],
)
def test_a_note_before_an_end_of_another_cause_asks_for_no_gpu(text: str) -> None:
    report = report_of(observed(text), None, LIMITS)
    assert (report.fault, report.needs_gpu) == (PreflightFault.CRASHED, False)
