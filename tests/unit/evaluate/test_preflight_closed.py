"""Ways to other processes and to more memory that a trial finds closed: what the watcher answers, and whole trials."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

import hyperscale
from hyperscale.evaluate.preflight.sandboxes import python_folders, works
from hyperscale.evaluate.preflight.trial_types import Limits, Observation, Sandbox, TrialRequest
from hyperscale.evaluate.preflight.trials import observe
from hyperscale.evaluate.preflight.watching.addresses import Reach
from hyperscale.evaluate.preflight.watching.call_table import PRIORITIES, SCHEDULING
from hyperscale.evaluate.preflight.watching.call_watch import CallWatch
from tests.debian import bring_bubblewrap

bring_bubblewrap()
AROUND = (
    Sandbox.NONE,
    pytest.param(Sandbox.BUBBLEWRAP, marks=pytest.mark.skipif(not works(Sandbox.BUBBLEWRAP), reason="bwrap or its user namespaces")),
)


def tried(folder: Path, text: str, sandbox: Sandbox) -> Observation:
    """What a trial of this script shows."""
    pytest.importorskip("torch")
    script = folder / "own.py"
    script.write_text(text)
    limits = Limits(seconds=60.0, memory_bytes=1536 << 20, processes=8)
    return observe(TrialRequest(script=str(script), readable=(str(folder),), limits=limits, sandbox=sandbox))


@pytest.fixture(name="child")
def child_fixture() -> Iterator[int]:
    """A process below this one, as the tried one is below its watcher."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    yield child
    os.close(write)
    os.close(read)
    os.waitpid(child, 0)


@pytest.mark.parametrize("name", SCHEDULING)
def test_the_pace_of_processes_of_others_stays(name: str, child: int) -> None:
    for own, answers in ((False, (errno.EPERM, 0, 0)), (True, (0, 0, 0))):
        watch = CallWatch(-1, (), Reach((), isolated=own), 4, own)
        assert tuple(watch._judge(name, child, [each, 0, 0, 0, 0, 0], []) for each in (os.getppid(), child, 0)) == answers


@pytest.mark.parametrize("name", PRIORITIES)
def test_neither_a_group_nor_a_user_is_a_way_to_the_priority_of_others(name: str, child: int) -> None:
    watch = CallWatch(-1, (), Reach((), isolated=False), 4, own_processes=False)
    one, group = PRIORITIES[name]
    for kind, target, error in (
        (one, os.getppid(), errno.EPERM),
        (one, child, 0),
        (one, 0, 0),
        (group, 0, 0),
        (group, os.getpgid(0), errno.EPERM),
        (group + 1, 0, errno.EPERM),
        (group + 1, os.getuid(), errno.EPERM),
    ):
        assert watch._judge(name, child, [kind, target, 19, 0, 0, 0], []) == error, (kind, target)


def test_a_thread_of_its_own_is_no_other_process() -> None:
    program = "import threading, time; t = threading.Thread(target=time.sleep, args=(60,)); t.start(); print(t.native_id, flush=True)"
    watch = CallWatch(-1, (), Reach((), isolated=False), 4, own_processes=False)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            thread = int(child.stdout.readline())
            assert watch._judge("sched_setaffinity", child.pid, [thread, 0, 0, 0, 0, 0], []) == 0
            assert watch._judge("sched_setaffinity", child.pid, [threading.get_native_id(), 0, 0, 0, 0, 0], []) == errno.EPERM
        finally:
            child.kill()


@pytest.mark.parametrize("sandbox", AROUND)
def test_code_finds_every_way_closed_and_goes_on(tmp_path: Path, sandbox: Sandbox) -> None:
    observation = tried(tmp_path, WAYS, sandbox)
    assert [fault.text for fault in observation.faults] == ["it ended with the message 'EPERM EPERM ENOSYS EPERM'"]


def test_a_trial_has_the_folders_of_the_path_but_none_that_this_program_lies_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library, program = tmp_path / "library", Path(hyperscale.__file__).parents[1]
    library.mkdir()
    finder = types.ModuleType("__editable___of_author_finder")
    vars(finder)["MAPPING"] = {"own": str(library / "src")}
    (library / "src").mkdir()
    monkeypatch.setitem(sys.modules, finder.__name__, finder)
    monkeypatch.setattr(sys, "path", [*sys.path, str(library), str(tmp_path / "none"), str(program), ""])
    folders = python_folders()
    assert {str(library), str(library / "src")} <= set(folders)
    assert not {str(tmp_path / "none"), str(program), "", "/"} & set(folders)


WAYS = """
import ctypes, errno, fcntl, os, socket, sys
libc, answers = ctypes.CDLL(None, use_errno=True), []
def answer(call):
    try:
        call()
    except OSError as error:
        answers.append(errno.errorcode[error.errno])
    else:
        answers.append("done")
def clone():
    if libc.syscall({"x86_64": 56}.get(os.uname().machine, 220), 0x50000011, 0, 0, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "clone")
    os._exit(0)
own, _ = socket.socketpair()
answer(lambda: fcntl.fcntl(own, 8, os.getppid()))
answer(lambda: fcntl.fcntl(own, 10, 9))
answer(lambda: os.memfd_create("x"))
answer(clone)
os.sched_setaffinity(0, os.sched_getaffinity(0))
os.nice(1)
sys.exit(" ".join(answers))
"""
