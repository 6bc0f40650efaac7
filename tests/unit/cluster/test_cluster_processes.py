"""Processes of a cluster directory are started once, found again, and ended to the last."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from e2e.cluster.processes import MARKER, Identity, ProcessError, ProcessTable, Record, identity_of


@pytest.fixture
def table(tmp_path: Path) -> Iterator[ProcessTable]:
    found = ProcessTable(tmp_path)
    yield found
    found.stop_all(1.0)


def _sleeper(table: ProcessTable, name: str = "sleeper") -> Identity:
    return table.start(name, ["sleep", "60"])


def test_a_started_process_is_found_by_another_table_of_the_directory(table: ProcessTable, tmp_path: Path) -> None:
    started = _sleeper(table)
    assert ProcessTable(tmp_path).identity("sleeper") == started
    assert os.getpgid(started.pid) == started.pid, "a group of its own"


def test_stop_ends_it_and_forgets_it(table: ProcessTable) -> None:
    started = _sleeper(table)
    table.stop("sleeper")
    assert identity_of(started.pid) is None
    assert table.names() == ()


def test_a_process_that_ignores_sigterm_is_killed_after_the_grace(table: ProcessTable, tmp_path: Path) -> None:
    code = "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)"
    started = table.start("stubborn", [sys.executable, "-c", code])
    while "ready" not in table.tail("stubborn"):
        pass
    table.stop("stubborn", signal.SIGTERM, 0.2)
    assert identity_of(started.pid) is None


def test_a_recycled_pid_is_not_touched(table: ProcessTable, tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as stranger:
        (tmp_path / "run").mkdir()
        record = Record(stranger.pid, 1, ("sleep",))
        (tmp_path / "run" / "etcd.json").write_bytes(msgspec.json.encode(record))
        assert table.identity("etcd") is None
        table.stop_all(0.2)
        assert stranger.poll() is None
        stranger.kill()


def test_a_process_without_a_record_is_found_by_its_environment(table: ProcessTable, tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], env={**os.environ, MARKER: str(tmp_path)}) as unrecorded:
        table.stop_all(1.0)
        assert identity_of(unrecorded.pid) is None


def test_another_directorys_processes_are_left_alone(table: ProcessTable, tmp_path: Path) -> None:
    other = ProcessTable(tmp_path / "other")
    started = _sleeper(other)
    table.stop_all(0.2)
    assert identity_of(started.pid) == started
    other.stop_all(1.0)


def test_an_ended_process_is_reported_with_the_end_of_its_log(table: ProcessTable) -> None:
    started = table.start("brief", [sys.executable, "-c", "print('no such file: etcd.conf'); raise SystemExit(1)"])
    while identity_of(started.pid) is not None:
        pass
    with pytest.raises(ProcessError, match=r"brief ended unexpectedly(.|\n)*no such file: etcd\.conf"):
        table.require("brief")


def test_a_torn_record_counts_as_not_running(table: ProcessTable, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "etcd.json").write_text('{"pid": 1')
    assert table.identity("etcd") is None
    assert table.names() == ("etcd",)
