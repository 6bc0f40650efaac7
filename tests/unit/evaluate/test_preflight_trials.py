"""Code of authors in a limited process: a handful of the corpus; `benchmarks/preflight.py` runs all of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hyperscale.evaluate.preflight.sandboxes import works
from hyperscale.evaluate.preflight.trial_types import Limits, Sandbox, TrialRequest
from hyperscale.evaluate.preflight.trials import base_environment, observe
from hyperscale.model.api.preflight_report import PreflightFault
from tests.builders.preflights import CORPUS, MEMORY_BYTES, case, cases, tried, wrong
from tests.debian import bring_bubblewrap

pytest.importorskip("torch")
bring_bubblewrap()
SECONDS = 60.0
LIMITS = Limits(seconds=SECONDS, memory_bytes=MEMORY_BYTES, processes=8)
AROUND = (
    Sandbox.NONE,
    pytest.param(Sandbox.BUBBLEWRAP, marks=pytest.mark.skipif(not works(Sandbox.BUBBLEWRAP), reason="bwrap or its user namespaces")),
)


def request_of(script: str, sandbox: Sandbox, **changes: object) -> TrialRequest:
    fields = {"script": str(CORPUS / script), "readable": (str(CORPUS),), "limits": LIMITS, "sandbox": sandbox}
    return TrialRequest(**(fields | changes))  # type: ignore[arg-type]


def test_the_corpus_has_twenty_that_fail_in_every_way_and_ten_sound_ones() -> None:
    faulty = [one for one in cases() if not one.sound]
    assert (len(faulty), len(cases()) - len(faulty)) == (20, 10)
    assert {one.fault for one in faulty} == set(PreflightFault)
    assert all((CORPUS / str(one.model.script)).is_file() for one in cases() if one.model.script is not None)


@pytest.mark.parametrize("sandbox", AROUND)
def test_code_that_lies_forges_no_report_finds_no_secret_and_hides_no_file(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFLIGHT_SECRET", "x")
    observation = observe(request_of("forger.py", sandbox))
    assert [(fault.kind, fault.text) for fault in observation.faults[:1]] == [(PreflightFault.WROTE_OUTSIDE, "/opt/preflight-was-here")]
    assert not Path("/opt/preflight-was-here").exists()
    assert observation.limits


def test_a_fork_bomb_ends_with_all_of_its_processes_without_any_sandbox() -> None:
    observation = observe(request_of("fork_bomb.py", Sandbox.NONE))
    assert observation.faults[0].kind is PreflightFault.TOO_MANY_PROCESSES
    assert not _processes("fork_bomb.py")


@pytest.mark.parametrize("name", ["shape_step_3"])
def test_a_crash_is_told_with_its_step_and_its_last_line(name: str) -> None:
    sandbox = Sandbox.BUBBLEWRAP if works(Sandbox.BUBBLEWRAP) else Sandbox.NONE
    assert wrong(case(name), tried(case(name), sandbox, SECONDS)) == ()


@pytest.mark.parametrize(
    ("line", "says"),
    [("print('no data in x'); sys.exit(3)", "exit code 3: no data in x"), ("sys.exit('no data\\n in y')", "the message 'no data in y'")],
)
def test_the_cause_of_an_exit_is_told(tmp_path: Path, line: str, says: str) -> None:
    script = tmp_path / "exits.py"
    script.write_text(f"import sys\n{line}\n")
    observation = observe(request_of(str(script), Sandbox.NONE, readable=(str(tmp_path),)))
    assert [(fault.kind, fault.text) for fault in observation.faults] == [(PreflightFault.CRASHED, f"it ended with {says}")]


def test_nothing_is_left_when_the_caller_is_killed(tmp_path: Path) -> None:
    program = (
        "import sys, msgspec; from hyperscale.evaluate.preflight.trials import observe; "
        "from hyperscale.evaluate.preflight.trial_types import REQUESTS; observe(REQUESTS.decode(sys.argv[1]))"
    )
    import msgspec

    request = msgspec.json.encode(request_of("endless_loop.py", Sandbox.NONE)).decode()
    environment = {**os.environ, **base_environment(), "TMPDIR": str(tmp_path)}
    caller = subprocess.Popen([sys.executable, "-c", program, request], env=environment)
    _until(lambda: bool(_processes("endless_loop.py", "tried_code")) and bool(list(tmp_path.iterdir())))
    caller.send_signal(signal.SIGKILL)
    caller.wait()
    _until(lambda: not _processes("endless_loop.py", "tried_code") and not list(tmp_path.iterdir()))


def test_the_environment_of_a_trial_has_nothing_of_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setenv("KUBECONFIG", "x")
    assert not {"AWS_SECRET_ACCESS_KEY", "KUBECONFIG"} & set(base_environment())


def _processes(*words: str) -> list[int]:
    """Those of this user whose command line has all words, but not this test's own."""
    ids = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = Path("/proc", entry, "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if all(word in line for word in (*words, "hyperscale.evaluate.preflight", str(CORPUS))):
            ids.append(int(entry))
    return ids


def _until(holds: object) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.05)
