"""What a watcher answers to calls that reach for files, processes and addresses of others. The test's own process asks.

Longer than other modules: one list of calls, so that what is refused stands beside what is let through.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from hyperscale.evaluate.preflight.trial_record import TrialRecord
from hyperscale.evaluate.preflight.trial_types import Limits, Said, TrialEvent
from hyperscale.evaluate.preflight.watching import shared_names, stored_files
from hyperscale.evaluate.preflight.watching.addresses import Reach
from hyperscale.evaluate.preflight.watching.call_watch import PRETENDED, CallWatch
from hyperscale.evaluate.preflight.watching.process_paths import ProcessPaths
from hyperscale.evaluate.preflight.watching.process_tree import descendants, resident_bytes
from hyperscale.evaluate.preflight.watching.shared_names import SharedNames
from hyperscale.evaluate.preflight.watching.stored_files import folder_bytes, held_bytes, memory_folder_bytes
from hyperscale.model.api.preflight_report import PreflightFault

AT_FDCWD = 2**64 - 100
EXIT_THREAD = {"x86_64": 60, "aarch64": 93}.get(platform.machine(), 60)


def sockaddr(host: str, port: int) -> bytes:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    head = struct.pack("=H", family) + struct.pack("!H", port)
    return head + (bytes(4) + socket.inet_pton(family, host) + bytes(4) if ":" in host else socket.inet_aton(host) + bytes(8))


class Asked:
    """A watch whose calls come from this process."""

    def __init__(self, *writable: str, isolated: bool = False) -> None:
        self.watch = CallWatch(-1, writable, Reach((), isolated=isolated, folders=writable), 4, isolated)
        self.events: list[TrialEvent] = []

    def path(self, call: str, *texts: str) -> int:
        """The error of a call whose arguments are paths."""
        kept = [ctypes.create_string_buffer(os.fsencode(text), 4096) for text in texts]
        return self.watch._judge(call, os.getpid(), [*map(ctypes.addressof, kept), 0, 0, 0, 0], self.events)

    def at_path(self, call: str, path: str) -> int:
        """The error of a call on a socket in a folder."""
        place = ctypes.create_string_buffer(struct.pack("=H", socket.AF_UNIX) + os.fsencode(path) + b"\0")
        return self.watch._judge(call, os.getpid(), [9, ctypes.addressof(place), len(place), 0, 0, 0], self.events)

    def bound(self, own: socket.socket, host: str, port: int) -> int:
        """The error of a bind."""
        place = ctypes.create_string_buffer(sockaddr(host, port))
        return self.watch._judge("bind", os.getpid(), [own.fileno(), ctypes.addressof(place), len(place), 0, 0, 0], self.events)

    def listens(self, own: socket.socket) -> int:
        return self.watch._judge("listen", os.getpid(), [own.fileno(), 5, 0, 0, 0, 0], self.events)

    def written(self) -> list[str]:
        return [event.text for event in self.events if event.kind is Said.WROTE]


@pytest.fixture(name="shared")
def shared_fixture(tmp_path: Path) -> tuple[SharedNames, Path]:
    folder = tmp_path / "shm"
    folder.mkdir()
    return SharedNames(f"{folder}/"), folder


def test_only_names_that_a_trial_makes_directly_in_shared_memory_are_its_own(shared: tuple[SharedNames, Path], tmp_path: Path) -> None:
    names, folder = shared
    (folder / "of_another").write_text("x")
    (tmp_path / "precious").write_text("x")
    (folder / "link").symlink_to(tmp_path)
    assert names.claim(f"{folder}/own")
    assert names.claim(f"{folder}/own")
    for file in ("of_another", "link", "link/precious", "own/below", "..", "."):
        assert not names.claim(f"{folder}/{file}")


def test_the_end_of_a_trial_removes_its_own_names_and_follows_no_link(shared: tuple[SharedNames, Path], tmp_path: Path) -> None:
    names, folder = shared
    (folder / "of_another").write_text("x")
    (tmp_path / "precious").write_text("x")
    for file in ("own", "link", "folder", "never_made"):
        assert names.claim(f"{folder}/{file}")
    (folder / "own").write_bytes(bytes(8192))
    (folder / "link").symlink_to(tmp_path)
    (folder / "folder").mkdir()
    assert not names.claim(f"{folder}/link/precious")
    assert names.stored_bytes() >= 8192
    names.clean()
    assert [file.name for file in folder.iterdir()] == ["of_another"]
    assert (tmp_path / "precious").exists()


def test_names_of_a_trial_are_bounded_but_those_that_are_gone_make_room(
    shared: tuple[SharedNames, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    names, folder = shared
    monkeypatch.setattr(shared_names, "MAX_SHARED", 2)
    for file in ("a", "b"):
        assert names.claim(f"{folder}/{file}")
        (folder / file).touch()
    assert not names.claim(f"{folder}/c")
    (folder / "a").unlink()
    assert names.claim(f"{folder}/c")


def test_a_refused_path_through_a_link_in_shared_memory_is_told(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x")
    link = Path(f"/dev/shm/preflight-test-{os.getpid()}")  # noqa: S108 - a place that is watched
    link.symlink_to(tmp_path)
    try:
        asked = Asked()
        assert asked.path("creat", f"{link}/precious") == errno.EACCES
        assert asked.written()
        asked.watch.shared.clean()
        assert (tmp_path / "precious").exists()
    finally:
        link.unlink()


@pytest.mark.parametrize("isolated", [False, True])
def test_a_link_in_its_own_folder_leads_to_no_socket_of_another(tmp_path: Path, isolated: bool) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "link").symlink_to(tmp_path / "agent.sock")
    asked = Asked(f"{own}/", isolated=isolated)
    assert asked.at_path("connect", f"{own}/listener") == 0
    for path in ("link", "../agent.sock", f"{os.path.relpath(tmp_path, own)}/agent.sock"):
        assert asked.at_path("connect", f"{own}/{path}") == errno.ECONNREFUSED
    assert {event.text for event in asked.events} == {f"unix:{tmp_path}/agent.sock"}


def test_a_path_that_is_no_text_is_told_in_characters_of_a_report(tmp_path: Path) -> None:
    asked = Asked(f"{tmp_path}/")
    asked.path("creat", os.fsdecode(b"/opt/\xff"))
    asked.written()[0].encode()


def test_paths_lead_where_the_kernel_would_go(tmp_path: Path) -> None:
    paths = ProcessPaths(os.getpid(), own_root=False)
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "deep").symlink_to("a/b")
    (tmp_path / "loop").symlink_to("loop")
    assert paths.resolved(f"{tmp_path}/deep/../x") == f"{tmp_path}/a/x"
    assert paths.resolved(f"{tmp_path}/deep", last=False) == f"{tmp_path}/deep"
    assert paths.resolved(f"/proc/self/root{tmp_path}/x") == f"{tmp_path}/x"
    assert paths.resolved(f"/proc/{os.getpid()}/task/{os.getpid()}/cwd/x") == f"{os.getcwd()}/x"
    assert paths.resolved("/proc/thread-self/mem") == "/proc/self/mem"
    with (tmp_path / "file").open("w") as opened:
        assert paths.resolved(f"/dev/fd/{opened.fileno()}") == f"{tmp_path}/file"
    read, write = os.pipe()
    assert paths.resolved(f"/proc/self/fd/{write}").startswith("pipe:[")
    os.close(read)
    os.close(write)
    with pytest.raises(OSError, match="links"):
        paths.resolved(f"{tmp_path}/loop/x")


@pytest.mark.parametrize("call", ["kill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "prlimit64"])
def test_processes_of_others_get_no_signal_and_no_limit(call: str) -> None:
    asked = Asked()
    for process, error in ((os.getppid(), errno.EPERM), (os.getpid(), 0)):
        assert asked.watch._judge(call, os.getpid(), [process, 9, 1, 0, 0, 0], asked.events) == error


def test_a_process_whose_first_thread_ended_is_counted_measured_and_killed() -> None:
    program = (
        "import ctypes, os, threading\n"
        "held = b'x' * (32 << 20)\n"
        "threading.Thread(target=lambda: ctypes.CDLL(None).pause()).start()\n"
        "os.write(1, b'.')\n"
        f"ctypes.CDLL(None).syscall({EXIT_THREAD}, 0)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            child.stdout.read(1)
            while _state(child.pid) != "Z":
                pass
            assert child.pid in descendants(os.getpid())
            assert resident_bytes([child.pid]) > 32 << 20
            assert resident_bytes([child.pid, child.pid]) > 64 << 20
        finally:
            child.kill()
    assert child.pid not in descendants(os.getpid())


def _state(process: int) -> str:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize(("host", "becomes"), [("0.0.0.0", "127.0.0.1"), ("192.0.2.7", "127.0.0.1"), ("127.0.0.3", "127.0.0.3")])  # noqa: S104
def test_a_socket_that_waits_is_bound_to_loopback_by_the_watcher(host: str, becomes: str) -> None:
    asked = Asked()
    with socket.socket() as own:
        assert asked.bound(own, host, 0) == PRETENDED
        assert own.getsockname()[0] == becomes
        assert asked.listens(own) == PRETENDED
        with socket.create_connection(own.getsockname()):
            pass
    assert asked.events == []


def test_a_socket_of_either_kind_of_address_waits_where_both_find_it() -> None:
    asked = Asked()
    with socket.socket(socket.AF_INET6) as own:
        own.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        assert asked.bound(own, "::", 0) == PRETENDED
        assert own.getsockname()[0] == "::ffff:127.0.0.1"
        assert asked.listens(own) == PRETENDED


def test_other_ports_and_what_was_never_bound_are_refused_and_told() -> None:
    asked = Asked()
    with socket.socket() as own:
        assert asked.bound(own, "0.0.0.0", 45454) == errno.EACCES  # noqa: S104
        assert asked.bound(own, "127.0.0.1", 6006) == errno.EACCES
        assert asked.listens(own) == errno.EACCES
    assert [event.text for event in asked.events] == ["0.0.0.0:45454", "127.0.0.1:6006", "0.0.0.0:0 (to listen)"]


def test_no_family_is_no_way_around(tmp_path: Path) -> None:
    asked, place = Asked(f"{tmp_path}/"), ctypes.create_string_buffer(bytes(16))
    arguments = [9, ctypes.addressof(place), 16, 0, 0, 0]
    assert asked.watch._judge("bind", os.getpid(), arguments, asked.events) == errno.EAFNOSUPPORT
    assert asked.at_path("bind", f"{tmp_path}/own") == 0
    assert asked.at_path("bind", "/run/another") == errno.EACCES
    assert asked.at_path("bind", "\0abstract") == errno.EACCES


def test_a_network_of_its_own_has_any_port() -> None:
    asked = Asked(isolated=True)
    with socket.socket() as own:
        assert (asked.bound(own, "0.0.0.0", 45454), asked.listens(own)) == (0, 0)  # noqa: S104


def test_the_kernel_too_keeps_ports_and_signals_where_it_can() -> None:
    program = (
        "import os, socket\n"
        "from hyperscale.evaluate.preflight.watching import landlock\n"
        "print('signals (Landlock)' in landlock.restrict(['/tmp'], network=True))\n"
        "try: socket.socket().bind(('127.0.0.1', 0)); socket.socket().bind(('127.0.0.1', 46006))\n"
        "except PermissionError: print('no port')\n"
        "try: os.kill(os.getppid(), 0)\n"
        "except PermissionError: print('no signal')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    holds, *kept = done.stdout.split("\n")
    if holds != "True":
        pytest.skip("Landlock of Linux before 6.12")
    assert kept == ["no port", "no signal", ""]


@pytest.mark.parametrize("isolated", [False, True])
def test_a_way_through_its_own_process_ends_where_the_file_is(tmp_path: Path, isolated: bool) -> None:
    own, of_another = tmp_path / "own", tmp_path / "precious"
    own.mkdir()
    of_another.write_text("x")
    (own / "link").symlink_to("/proc/self/root")
    asked = Asked(f"{own}/", isolated=isolated)
    with of_another.open() as opened, (own / "mine").open("w") as mine:
        for path in (
            f"/proc/self/root{of_another}",
            f"/proc/thread-self/root{of_another}",
            f"/proc/self/task/{os.getpid()}/root{of_another}",
            f"/proc/self/cwd/{os.path.relpath(of_another)}",
            f"/proc/self/fd/{opened.fileno()}",
            f"/dev/fd/{opened.fileno()}",
            f"{own}/link{of_another}",
            "/proc/self/attr/current",
        ):
            assert asked.path("creat", path) == errno.EACCES, path
        assert len(asked.written()) == 8
        for path in ("/proc/self/mem", "/proc/self/clear_refs", f"/proc/self/fd/{mine.fileno()}", f"/proc/self/root{own}/x"):
            assert asked.path("creat", path) == 0, path


def test_another_name_of_a_file_is_a_way_to_write_to_it(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (tmp_path / "precious").write_text("x")
    asked = Asked(f"{own}/")
    assert asked.path("link", f"{tmp_path}/precious", f"{own}/x") == errno.EACCES
    assert asked.written() == [f"{tmp_path}/precious"]
    assert asked.path("link", f"{own}/x", f"{own}/y") == 0


def test_dots_after_a_link_leave_the_folder_that_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "link").symlink_to("/usr/lib")
    assert Asked(f"{tmp_path}/own/").path("creat", f"{tmp_path}/own/link/../x") == errno.EACCES


def test_all_files_of_a_trial_count_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "outside").symlink_to("/usr")
    for place in ("a", "deep/b"):
        (tmp_path / place).write_bytes(bytes(1 << 20))
    assert 2 << 20 <= folder_bytes(str(tmp_path)) < 3 << 20
    record = TrialRecord(Limits(file_bytes=2 << 20))
    assert not record.stored(2 << 20)
    assert record.stored((2 << 20) + 1)
    assert record.faults[0].kind is PreflightFault.CRASHED
    monkeypatch.setattr(stored_files, "MAX_FILES", 2)
    assert folder_bytes(str(tmp_path)) > 1 << 60


def test_file_systems_in_memory_count_once() -> None:
    once = held_bytes("", ("/usr",))
    assert once == held_bytes("", ("/usr", "/usr/lib", "/nowhere")) > 0
    assert memory_folder_bytes([os.getpid()], ("/usr",)) == 0, "the root of this machine is no root of the trial's own"


@pytest.mark.parametrize("call", ["chmod", "lchown", "setxattr", "lsetxattr", "removexattr", "lremovexattr"])
def test_owners_modes_and_attributes_of_files_of_others_stay(call: str, tmp_path: Path) -> None:
    asked = Asked(f"{tmp_path}/")
    assert asked.path(call, f"{tmp_path}/own") == 0
    assert asked.path(call, "/etc/hosts") == errno.EACCES
    assert asked.written() == ["/etc/hosts"]
