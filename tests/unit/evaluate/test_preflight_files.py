"""Files of a trial wherever the code puts them: they count, and none stays; nor does a process when the watcher itself is killed."""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hyperscale.evaluate.preflight.sandboxes import works
from hyperscale.evaluate.preflight.trial_types import Limits, Sandbox, TrialRequest
from hyperscale.evaluate.preflight.trials import TrialError, observe
from hyperscale.evaluate.preflight.watching import orphans
from hyperscale.evaluate.preflight.watching.folder_removal import remove_folder
from hyperscale.evaluate.preflight.watching.process_tree import children, descendants
from hyperscale.evaluate.preflight.watching.stored_files import MAX_LEVELS, folder_bytes, unnamed_bytes
from hyperscale.model.api.preflight_report import PreflightFault
from tests.debian import bring_bubblewrap

bring_bubblewrap()
SECONDS = 60.0
TOO_MUCH = 1 << 60
AROUND = (
    Sandbox.NONE,
    pytest.param(Sandbox.BUBBLEWRAP, marks=pytest.mark.skipif(not works(Sandbox.BUBBLEWRAP), reason="bwrap or its user namespaces")),
)


def nested(folder: Path, levels: int) -> None:
    """Folders in folders; the innermost has a file of 1 MiB."""
    place = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d" * 100, dir_fd=place)
        inner = os.open("d" * 100, os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    file = os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=place)
    os.write(file, bytes(1 << 20))
    os.close(file)
    os.close(place)


def as_anyone(does: Callable[[], bool]) -> bool:
    """What it says in a process that no capability lets into closed folders."""
    child = os.fork()
    if not child:
        none = ctypes.create_string_buffer(bytes(24), 24)
        lost = ctypes.CDLL(None).capset(struct.pack("=Ii", 0x20080522, 0), none) == 0
        os._exit(0 if lost and does() else 1)
    return os.waitpid(child, 0)[1] == 0


def test_files_beyond_the_longest_path_count(tmp_path: Path) -> None:
    nested(tmp_path, 60)
    assert 1 << 20 <= folder_bytes(str(tmp_path)) < 2 << 20


def test_what_is_too_deep_or_closed_counts_as_too_much(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    nested(tmp_path / "deep", MAX_LEVELS + 1)
    assert folder_bytes(str(tmp_path / "deep")) > TOO_MUCH
    (tmp_path / "closed" / "below").mkdir(parents=True)
    assert folder_bytes(str(tmp_path / "closed")) < TOO_MUCH
    for closed in ("closed/below", "closed"):
        (tmp_path / closed).chmod(0)
        assert as_anyone(lambda: folder_bytes(str(tmp_path / "closed")) > TOO_MUCH)
    assert folder_bytes(str(tmp_path / "none")) > TOO_MUCH


def test_open_files_without_a_name_count_once(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as opened, (tmp_path / "named").open("wb") as named:
        for file in (opened, named):
            file.write(bytes(1 << 20))
            file.flush()
        (tmp_path / "file").unlink()
        device = os.fstat(opened.fileno()).st_dev
        assert 1 << 20 <= unnamed_bytes([os.getpid(), os.getpid()])[device] < 2 << 20


def test_a_folder_of_any_depth_and_mode_is_removed_and_nothing_that_it_leads_to(tmp_path: Path) -> None:
    folder, precious = tmp_path / "scratch", tmp_path / "precious"
    for place in (folder, precious):
        place.mkdir()
    (precious / "file").touch(0o640)
    for name in ("link", "dangling"):
        (folder / name).symlink_to(precious if name == "link" else tmp_path / "none")
    nested(folder, 3000)
    for name in ("closed", "writable"):
        (folder / name / "below").mkdir(parents=True)
        (folder / name / "below" / "file").touch()
        (folder / name / "below").chmod(0)
        (folder / name).chmod(0 if name == "closed" else 0o300)
    folder.chmod(0o500)
    assert as_anyone(lambda: remove_folder(str(folder)))
    assert [each.name for each in tmp_path.iterdir()] == ["precious"]
    assert (precious / "file").stat().st_mode & 0o777 == 0o640


def test_a_folder_that_is_a_link_or_gone_is_left(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    assert not remove_folder(str(tmp_path / "link"))
    assert (tmp_path / "precious").is_dir()
    assert remove_folder(str(tmp_path / "none"))


def test_a_report_comes_and_no_folder_stays_however_deep_the_code_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    script, scratch = tmp_path / "own.py", tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr("tempfile.tempdir", None)
    script.write_text("import os\nfor _ in range(1050):\n    os.mkdir('d')\n    os.chdir('d')\n1 / 0\n")
    limits = Limits(seconds=SECONDS, memory_bytes=1536 << 20, processes=8)
    observation = observe(TrialRequest(script=str(script), readable=(str(tmp_path),), limits=limits))
    assert observation.faults[0].kind is PreflightFault.CRASHED
    assert not list(scratch.iterdir())


@pytest.mark.parametrize("sandbox", AROUND)
def test_nothing_is_left_when_the_watcher_is_killed(tmp_path: Path, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    script, scratch = tmp_path / "own.py", tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr("tempfile.tempdir", None)
    script.write_text(
        "import ctypes, os, time\nif not os.fork():\n    os.setsid()\n    ctypes.CDLL(None).prctl(15, b'orphan')\ntime.sleep(600)\n"
    )
    limits = Limits(seconds=SECONDS, memory_bytes=1536 << 20, processes=8)
    request = TrialRequest(script=str(script), readable=(str(tmp_path),), limits=limits, sandbox=sandbox)
    found: list[int] = []
    killer = threading.Thread(target=kill_watcher, args=(str(script), found))
    killer.start()
    with pytest.raises(TrialError, match="no answer"):
        observe(request)
    killer.join()
    assert len(found) >= 3, "the watcher, the tried process and its child"
    until(lambda: not any(Path(f"/proc/{each}").exists() for each in found))
    assert not list(scratch.iterdir())
    assert not orphans.is_adopting()


def kill_watcher(script: str, found: list[int]) -> None:
    """Kill it as soon as the tried code has forked."""
    until(lambda: any(script in line_of(each) and name_of(each) == "orphan" for each in descendants(os.getpid())))
    watcher = next(each for each in children(os.getpid()) if "trial_watcher" in line_of(each))
    found += [watcher, *descendants(watcher)]
    os.kill(watcher, signal.SIGKILL)


def name_of(process: int) -> str:
    """As it calls itself; "" for one that is gone."""
    try:
        return Path(f"/proc/{process}/comm").read_text().strip()
    except OSError:
        return ""


def line_of(process: int) -> str:
    """The command line; "" for one that is gone."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.05)


def test_children_of_the_callers_own_are_no_orphans_of_a_trial() -> None:
    idle = [sys.executable, "-c", "import time; time.sleep(600)"]
    with subprocess.Popen(idle, start_new_session=True) as earlier, subprocess.Popen(idle) as later:
        try:
            orphans.end_orphans([earlier.pid])
            assert (earlier.poll(), later.poll()) == (None, None)
            orphans.end_orphans([])
            assert later.poll() is None
            assert earlier.pid not in children(os.getpid())
        finally:
            for each in (earlier, later):
                each.kill()
