"""What the agents' scenario stands on: packets that wait as long as they should, echoes, figures read back, tools that are missing."""

from __future__ import annotations

import os
import socket
import struct
from itertools import permutations
from pathlib import Path

import pytest

from e2e import horovod
from e2e.cluster.real import agents, delay, direct, ground
from e2e.cluster.real.slots import SLOTS, Slot
from e2e.cluster.topology import AGENTS_FILE, DEFAULT_FILE, LinkTable, load, measured_pairs, with_agents, with_real

NEAR, FAR = ("10.88.0.0/24", "10.88.1.0/24"), ("10.88.0.0/24", "10.88.2.0/24")


def packet(source: str, destination: str, content: bytes = b"") -> bytes:
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(content), 0, 0, 64, 17, 0)
    return header + socket.inet_aton(source) + socket.inet_aton(destination) + content


@pytest.fixture
def line(tmp_path: Path) -> delay.Line:
    delay.write(tmp_path / "delays.json", {NEAR: 0.001, FAR: 0.005})
    return delay.Line(tmp_path / "delays.json")


def test_each_packet_waits_as_long_as_its_link_says(line: delay.Line) -> None:
    far, near = packet("10.88.0.2", "10.88.2.2"), packet("10.88.0.2", "10.88.1.2")
    line.take(far, 10.0)
    line.take(near, 10.0)
    assert line.due(10.0009) is None
    assert line.wait_seconds(10.0) == pytest.approx(0.001)
    assert line.due(10.001) == near
    assert line.due(10.004) is None
    assert line.due(10.005) == far


def test_packets_of_a_link_keep_their_order_also_when_it_gets_shorter(line: delay.Line, tmp_path: Path) -> None:
    first, second = (packet("10.88.0.2", "10.88.2.2", content) for content in (b"1", b"2"))
    line.take(first, 10.0)
    delay.write(tmp_path / "delays.json", {FAR: 0.0})
    line.look()
    line.take(second, 10.001)
    assert [line.due(10.004), line.due(10.005), line.due(10.005)] == [None, first, second]


def test_a_packet_of_no_known_link_goes_on_at_once_and_what_is_no_packet_is_dropped(line: delay.Line) -> None:
    other = packet("10.88.3.2", "10.88.1.2")
    for content in (b"", b"\x60" + bytes(60), other):
        line.take(content, 10.0)
    assert [line.due(10.0), line.due(11.0)] == [other, None]


def test_a_full_line_drops_what_comes(line: delay.Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delay, "MAX_WAITING", 2)
    for number in range(4):
        line.take(packet("10.88.0.2", "10.88.1.2", bytes([number])), 10.0)
    assert [(line.due(11.0) or b"-")[-1:] for _ in range(3)] == [b"\0", b"\1", b"-"]


def test_an_echo_request_adds_up_to_nothing() -> None:
    """RFC 1071: the sum over a message with its checksum is all ones."""
    message = struct.pack("!BBHHH", 8, 0, 0, 4711, 3) + bytes(range(56))
    whole = message[:2] + struct.pack("!H", direct._checksum(message)) + message[4:]
    assert direct._checksum(whole) == 0


def test_the_agents_links_are_all_different_each_way_and_left_to_the_agents() -> None:
    topology = load(AGENTS_FILE)
    links = LinkTable(topology)
    names = [machine.name for machine in topology.real]
    rates = {links.figures(one, other).bandwidth_gbit_per_second for one in names for other in names if one != other}
    assert len(rates) == len(names) * (len(names) - 1)
    assert measured_pairs(topology) == []


def test_links_between_real_nodes_beside_simulated_ones_are_left_to_agents_where_that_is_asked() -> None:
    topology = with_real(load(DEFAULT_FILE))
    real = {machine.name for machine in topology.real}
    left = set(measured_pairs(topology)) - set(measured_pairs(with_agents(topology)))
    assert left == set(permutations(real, 2))


def test_detours_of_two_clusters_never_meet() -> None:
    slots = [Slot(number) for number in range(SLOTS)]
    assert len({slot.detour for slot in slots}) == SLOTS
    assert len({number for slot in slots for number in (slot.table, slot.table + 1)}) == 2 * SLOTS


def test_figures_are_read_back_by_their_labels_in_any_order() -> None:
    text = '# TYPE m gauge\nm{source="a",destination="b"} 1.5\nm{destination="a",source="b"} 2e-3\nm_total{source="a",destination="b"} 9\n'
    assert agents.figures(text, "m") == {("a", "b"): 1.5, ("b", "a"): 0.002}


def test_commands_in_system_folders_are_found_whatever_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tool = tmp_path / "iptables"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setattr(ground, "PACKAGES", {"iptables": "iptables", "surely-not-there": "missing"})
    monkeypatch.setattr(ground, "PLUGINS", tmp_path)
    (tmp_path / "bridge").touch()
    monkeypatch.setattr(ground, "SYSTEM_FOLDERS", (str(tmp_path),))
    monkeypatch.setenv("PATH", "/nowhere")
    assert ground._absent() == ["missing"]
    ground._find_system_commands()
    ground._find_system_commands()
    assert os.environ["PATH"] == f"/nowhere:{tmp_path}"


def test_who_cannot_install_is_told_which_packages_horovod_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(horovod.BuildError, match=r"install g\+\+ libopenmpi-dev make openmpi-bin openssh-client"):
        horovod.ensure_mpi()
