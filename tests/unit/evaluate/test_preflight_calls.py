"""The filter of system calls, the addresses behind them, and what the audit hook sees in its place."""

from __future__ import annotations

import errno
import os
import socket
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperscale.evaluate.preflight.trial_types import Said, TrialEvent
from hyperscale.evaluate.preflight.watching.addresses import Address, Reach, address_of
from hyperscale.evaluate.preflight.watching.audited import Audit
from hyperscale.evaluate.preflight.watching.call_filter import program
from hyperscale.evaluate.preflight.watching.call_table import (
    ARM,
    CLONE_THREAD,
    FORKS,
    PATH_CALLS,
    PRIORITIES,
    REFUSED,
    SCHEDULING,
    SIGNALS,
    TALKS,
    WAITS,
    X86,
    Machine,
)
from hyperscale.evaluate.preflight.watching.name_queries import leaves_machine, name_of
from hyperscale.evaluate.preflight.watching.process_paths import absolute

ALLOW, NOTIFY, ERROR, KILL = 0x7FFF0000, 0x7FC00000, 0x00050000, 0x80000000


def verdict(machine: Machine, call: int, *arguments: int, audit: int | None = None) -> int:
    """What the kernel would do: the program on a seccomp_data."""
    padded = [*arguments, 0, 0, 0, 0, 0, 0][:6]
    data = struct.pack("=iIQ6Q", call, machine.audit if audit is None else audit, 0, *padded)
    lines, place, register = program(machine), 0, 0
    while True:
        code, true, false, value = lines[place]
        place += 1
        if code == 0x06:
            return value
        if code == 0x20:
            register = struct.unpack_from("=I", data, value)[0]
        else:
            holds = {0x15: register == value, 0x35: register >= value, 0x45: bool(register & value)}[code]
            place += true if holds else false


@pytest.mark.parametrize("machine", [X86, ARM])
def test_every_call_of_the_table_is_watched_or_refused(machine: Machine) -> None:
    for name, number in machine.calls.items():
        if name in REFUSED:
            assert verdict(machine, number) == ERROR | REFUSED[name]
        elif name in (*FORKS, *SIGNALS, *TALKS, *WAITS) or (name in PATH_CALLS and PATH_CALLS[name].flags is None):
            assert verdict(machine, number) == NOTIFY


@pytest.mark.parametrize("machine", [X86, ARM])
def test_an_open_that_only_reads_and_a_thread_cost_nothing(machine: Machine) -> None:
    for flags, expected in ((os.O_RDONLY, ALLOW), (os.O_WRONLY, NOTIFY), (os.O_RDWR, NOTIFY), (os.O_RDONLY | os.O_CREAT, NOTIFY)):
        assert verdict(machine, machine.calls["openat"], 0, 0, flags) == expected
    assert verdict(machine, machine.calls["clone"], CLONE_THREAD | 0x100) == ALLOW
    assert verdict(machine, machine.calls["clone"], 17) == NOTIFY


@pytest.mark.parametrize("machine", [X86, ARM])
def test_only_limits_that_are_set_on_another_process_are_watched(machine: Machine) -> None:
    call, pointer = machine.calls["prlimit64"], 0x7F0000000000
    for process, new, expected in ((0, pointer, ALLOW), (7, 0, ALLOW), (7, pointer, NOTIFY), (7, 0x1000, NOTIFY), (0, 0, ALLOW)):
        assert verdict(machine, call, process, 7, new, pointer) == expected


@pytest.mark.parametrize("machine", [X86, ARM])
def test_no_descriptor_has_the_kernel_signal_a_process(machine: Machine) -> None:
    for name, refused, allowed in (("fcntl", (8, 10, 15), (1, 3, 4, 6, 1030)), ("ioctl", (0x8901, 0x8902), (0x5401, 0x541B, 0x8903))):
        assert {verdict(machine, machine.calls[name], 3, each, 7) for each in refused} == {ERROR | errno.EPERM}
        assert {verdict(machine, machine.calls[name], 3, each, 7) for each in allowed} == {ALLOW}


@pytest.mark.parametrize("machine", [X86, ARM])
def test_a_new_process_gets_no_namespace_of_its_own(machine: Machine) -> None:
    for bit in (17, 25, 26, 27, 28, 29, 30):
        for others in (17, CLONE_THREAD):
            assert verdict(machine, machine.calls["clone"], 1 << bit | others) == ERROR | errno.EPERM


@pytest.mark.parametrize("machine", [X86, ARM])
def test_memory_that_no_process_has_mapped_is_not_given(machine: Machine) -> None:
    for name in ("memfd_create", "memfd_secret"):
        assert verdict(machine, machine.calls[name]) == ERROR | errno.ENOSYS


@pytest.mark.parametrize("machine", [X86, ARM])
def test_the_pace_of_other_processes_is_watched(machine: Machine) -> None:
    for name in SCHEDULING:
        assert [verdict(machine, machine.calls[name], process) for process in (0, 7)] == [ALLOW, NOTIFY]
    for name in PRIORITIES:
        assert verdict(machine, machine.calls[name]) == NOTIFY


def test_a_signal_with_a_value_is_a_signal() -> None:
    for name, x86, arm in (("rt_sigqueueinfo", 129, 138), ("rt_tgsigqueueinfo", 297, 240)):
        assert (verdict(X86, x86), verdict(ARM, arm)) == (NOTIFY, NOTIFY)
        assert name in SIGNALS


def test_what_would_stay_on_the_machine_is_refused() -> None:
    for x86, arm in ((29, 194), (64, 190), (68, 186), (240, 180)):
        assert (verdict(X86, x86), verdict(ARM, arm)) == (ERROR | errno.ENOSYS, ERROR | errno.ENOSYS)


@given(st.integers(0, 600))
def test_calls_that_the_table_does_not_name_are_allowed(number: int) -> None:
    if number not in X86.calls.values():
        assert verdict(X86, number) == ALLOW


def test_the_tables_of_other_architectures_are_no_way_around() -> None:
    assert verdict(X86, 42, audit=ARM.audit) == KILL
    assert verdict(X86, 0x40000000 + 42) == ERROR | errno.ENOSYS


def sockaddr(host: str, port: int) -> bytes:
    if ":" in host:
        return struct.pack("=H", socket.AF_INET6) + struct.pack("!HI", port, 0) + socket.inet_pton(socket.AF_INET6, host) + bytes(4)
    return struct.pack("=H", socket.AF_INET) + struct.pack("!H", port) + socket.inet_aton(host) + bytes(8)


def test_addresses_are_read_as_the_kernel_reads_them() -> None:
    assert address_of(sockaddr("192.0.2.1", 443)) == Address("192.0.2.1", 443)
    assert address_of(sockaddr("2001:db8::1", 80)) == Address("2001:db8::1", 80)
    assert address_of(sockaddr("::ffff:192.0.2.1", 80)) == Address("192.0.2.1", 80)
    assert address_of(struct.pack("=H", socket.AF_UNIX) + b"/run/x.sock\0") == Address("/run/x.sock", None)
    assert address_of(struct.pack("=H", socket.AF_NETLINK) + bytes(10)) is None


def test_only_the_datas_address_is_reached() -> None:
    reach = Reach(("store.example.com:9000",), isolated=False, resolve=lambda host, port: ["192.0.2.7"])
    assert reach.allows(Address("192.0.2.7", 9000))
    assert not reach.allows(Address("192.0.2.7", 22))
    assert not reach.allows(Address("192.0.2.8", 9000))
    assert not reach.allows(Address("127.0.0.1", 5432))
    assert reach.allows(Address("127.0.0.1", 29500))


def test_a_name_that_cannot_be_looked_up_reaches_nothing() -> None:
    def fails(host: str, port: int) -> list[str]:
        raise OSError("no name server")

    assert not Reach(("store:9000",), isolated=False, resolve=fails).allows(Address("192.0.2.7", 9000))


@pytest.mark.parametrize("isolated", [False, True])
def test_sockets_in_folders_are_reached_below_its_own_folders_alone(isolated: bool) -> None:
    reach = Reach((), isolated=isolated, folders=("/scratch/",))
    assert reach.allows(Address("/scratch/pymp/listener", None))
    assert not reach.allows(Address("/srv/agent.sock", None))
    assert not reach.allows(Address("/scratch-of-another/x", None))


def test_a_readable_folder_within_its_own_stays_that_of_another() -> None:
    reach = Reach((), isolated=True, folders=("/home/",), closed=("/home/project",))
    assert reach.allows(Address("/home/listener", None))
    assert reach.allows(Address("/home/project-2/listener", None))
    assert not reach.allows(Address("/home/project/agent.sock", None))


def test_an_abstract_socket_is_one_of_its_network_and_no_path_looks_like_one() -> None:
    abstract = address_of(struct.pack("=H", socket.AF_UNIX) + b"\0X11")
    path = address_of(struct.pack("=H", socket.AF_UNIX) + b"@/../agent.sock\0")
    assert abstract is not None
    assert path is not None
    assert (abstract.text, abstract.is_path, path.is_path) == ("unix:@X11", False, True)
    assert Reach((), isolated=True).allows(abstract)
    assert not Reach((), isolated=False).allows(abstract)
    assert not Reach((), isolated=True).allows(path)


def test_a_loopback_of_its_own_is_no_other_machine() -> None:
    assert Reach((), isolated=True).allows(Address("127.0.0.1", 5432))
    assert not Reach((), isolated=True).allows(Address("127.0.0.1", 53))


@given(st.binary(max_size=80))
def test_any_bytes_are_a_query_or_none(query: bytes) -> None:
    assert isinstance(name_of(query), str)


def test_the_name_of_a_query_is_read_and_ones_own_leaves_no_machine() -> None:
    query = bytes(12) + b"\x06models\x07example\x03org\x00" + bytes(4)
    assert name_of(query) == "models.example.org"
    assert leaves_machine("models.example.org")
    assert not leaves_machine(socket.gethostname())
    assert not leaves_machine("1.0.0.127.in-addr.arpa")


def test_relative_paths_are_those_of_the_process(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute(os.getpid(), -100, "a/../b") == str(tmp_path / "b")
    assert absolute(os.getpid(), -100, "//etc/../opt/x") == "/opt/x"


def test_without_a_filter_the_hook_refuses_what_it_sees(tmp_path: Any) -> None:
    events: list[TrialEvent] = []
    hook = Audit(events.append, (f"{tmp_path}/",), 2, alone=True, reachable=frozenset({"store"}))._hook
    hook("open", (str(tmp_path / "x"), "w", 0))
    hook("open", ("/etc/passwd", "r", 0))
    hook("socket.connect", (None, ("store", 443)))
    hook("os.fork", ())
    assert events == []
    for event, arguments in (
        ("open", ("/etc/x", "w", 0)),
        ("os.mkdir", ("/x", 0o777, -1)),
        ("socket.connect", (None, ("192.0.2.1", 80))),
        ("socket.getaddrinfo", ("example.com", 80, 0, 0, 0)),
        ("os.fork", ()),
    ):
        with pytest.raises((PermissionError, ConnectionRefusedError, BlockingIOError)):
            hook(event, arguments)
    assert [event.kind for event in events] == [Said.WROTE, Said.WROTE, Said.ADDRESS, Said.ADDRESS, Said.PROCESSES]


def test_the_hook_too_follows_own_paths_to_the_real_file(tmp_path: Any) -> None:
    events: list[TrialEvent] = []
    hook = Audit(events.append, (f"{tmp_path}/", "/proc/self/"), 2, alone=True, reachable=frozenset())._hook
    hook("open", ("/proc/self/mem", "w", 0))
    hook("open", (f"/proc/self/root{tmp_path}/x", "w", 0))
    outside = "/proc/self/root" + "/srv/x"
    for event, arguments in (("open", (outside, "w", 0)), ("os.link", ("/etc/hosts", f"{tmp_path}/x", -1, -1))):
        with pytest.raises(PermissionError):
            hook(event, arguments)
