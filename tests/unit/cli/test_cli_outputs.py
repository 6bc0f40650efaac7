"""Where a command writes: full volumes, closed streams and readers that leave lose nothing that stood there, and say one line."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hyperscale import __version__
from hyperscale.cli import spinner
from hyperscale.cli.exit_codes import InputError
from hyperscale.cli.files import replaced
from tests.unit.cli.cli_samples import run


@pytest.fixture(name="graph")
def graph_fixture(tmp_path: Path) -> str:
    file = tmp_path / "graph.npz"
    np.savez(file, edges=np.random.default_rng(0).integers(0, 50, (200, 2)))
    return str(file)


def fail_halfway(file: Path) -> None:
    with replaced(str(file), "--out") as fresh:
        fresh.write_text("half")
        raise OSError(28, "no room")


def test_what_stood_there_stays_where_writing_fails(tmp_path: Path) -> None:
    file = tmp_path / "kept"
    file.write_text("before")
    with pytest.raises(InputError, match=r"--out: cannot write .*: no room; name another file"):
        fail_halfway(file)
    assert file.read_text() == "before"
    assert [entry.name for entry in tmp_path.iterdir()] == ["kept"]


def test_a_replaced_file_keeps_its_mode_and_its_links(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("before")
    file.chmod(0o640)
    link.symlink_to(file)
    with replaced(str(link), "--out") as fresh:
        fresh.write_text("after")
    assert link.is_symlink()
    assert file.read_text() == "after"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


@pytest.mark.skipif(not stat.S_ISCHR(os.stat("/dev/full").st_mode), reason="/dev/full is no device")
def test_a_full_device_is_one_line_and_still_there(graph: str, tmp_path: Path) -> None:
    pytest.importorskip("pymetis")
    full = tmp_path / "full"
    full.symlink_to("/dev/full")
    for command in (("partition", graph, "--partitions", "2"), ("data", "generate", "SBM", "--vertices", "100", "--edges", "400")):
        ran = run(*command, "--out", str(full))
        assert ran.code == 2
        assert ran.err == f"hyperscale: --out: cannot write '{full}': No space left on device; name another file\n"
        assert full.is_symlink(), "parquet.write_table deletes what it could not write"


def test_an_empty_name_of_a_file_to_write_is_refused(graph: str) -> None:
    pytest.importorskip("pymetis")
    assert "'' is no file name" in run("partition", graph, "--partitions", "2", "--out", "").err
    assert "'' is no file name" in run("data", "generate", "SBM", "--vertices", "9", "--edges", "8", "--out", "").err


def test_an_answer_that_does_not_fit_its_device_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run([sys.executable, "-m", "hyperscale.cli.main", "version"], stdout=full, stderr=subprocess.PIPE, check=False)
    assert ran.returncode == 2
    assert ran.stderr.decode() == "hyperscale: standard output: No space left on device; name another place\n"


def test_closed_streams_are_no_internal_error() -> None:
    command = [sys.executable, "-m", "hyperscale.cli.main"]
    shell = ["/bin/sh", "-c", 'exec "$@" >&-', "sh"]
    ran = subprocess.run([*shell, *command, "version"], stderr=subprocess.PIPE, check=False)
    assert (ran.returncode, ran.stderr.decode()) == (2, "hyperscale: standard output is closed; write it to a file, or to /dev/null\n")
    shell[2] = 'exec "$@" 2>&-'
    ran = subprocess.run([*shell, *command, "nonsense"], stdout=subprocess.PIPE, check=False)
    assert (ran.returncode, ran.stdout) == (2, b"")


def test_version_as_json() -> None:
    assert json.loads(run("version", "-o", "json").out) == {"version": __version__}


def test_long_work_says_what_it_does_and_a_pipe_hears_nothing_of_it(graph: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pymetis")
    told: list[str] = []
    monkeypatch.setattr(spinner, "say", told.append)
    assert run("partition", graph, "--partitions", "2").err == ""
    assert told[0].startswith(f"reading {graph}, ")
    assert told[1].startswith("cutting 50 vertices and ")
    assert run("data", "generate", "SBM", "--vertices", "100", "--edges", "400", "--out", str(tmp_path / "x.npz")).err == ""
    assert told[2:] == [f"generating 100 vertices and 400 edges, then writing {tmp_path}/x.npz"]


REFUSED = {
    "a device without end, as gradients": (("allreduce", "/dev/zero", "--alpha", "0", "--beta", "0"), "is larger than"),
    "a device without end, as a script": (("analyze", "/dev/zero"), "is larger than 4 MiB"),
    "a device without end, as data": (("data", "inspect", "/dev/zero", "--format", "NPZ"), "is no file and no folder"),
    "a name that no system takes": (("data", "inspect", "/" + "a" * 300, "--format", "CSV"), "no such file or folder"),
    "no name": (("data", "inspect", ""), "DATA: is empty"),
    "shares whose sum overflows, one tiny": (("partition", "Cora", "--shares", "1e308,1e308,1"), "less than 1e-06 of another"),
    "half an edge": (("data", "generate", "SBM", "--vertices", "9", "--edges", "7", "--out", "x.npz"), "--edges: 7 is odd"),
    "more classes than vertices": (
        ("data", "generate", "SBM", "--vertices", "9", "--edges", "8", "--classes", "10", "--out", "x.npz"),
        "--classes: 10 are more than the 9 vertices; write at most 9",
    ),
    "too many vertices": (
        ("data", "generate", "RMAT", "--vertices", "99999999999", "--edges", "8", "--out", "x.npz"),
        "--vertices: 99999999999 are more than 2147483647",
    ),
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_odd_input_is_one_line(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, words = REFUSED[name]
    ran = run(*arguments)
    assert ran.code == 2, ran
    assert ran.err.count("\n") == 1
    assert words in ran.err


def test_scripts_that_python_cannot_parse_are_one_line(tmp_path: Path) -> None:
    for content, words in ((b"x=" + b"-" * 200_000 + b"1", "cannot be read as Python: "), (b"a\0b", "null bytes")):
        (tmp_path / "s.py").write_bytes(content)
        ran = run("analyze", str(tmp_path / "s.py"))
        assert (ran.code, ran.err.count("\n")) == (2, 1)
        assert words in ran.err
        assert "None" not in ran.err


def test_tables_of_gradients_from_a_spreadsheet_are_read_and_two_columns_of_one_name_are_not(tmp_path: Path) -> None:
    file = tmp_path / "layers.csv"
    costs = ("--alpha", "1e-4", "--beta", "1e-9")
    file.write_text("\ufeffname,bytes,ready_seconds\r\na,1000,0.1\r\n", encoding="utf-8")
    assert run("allreduce", str(file), *costs).code == 0
    file.write_text("name,name,bytes,ready_seconds\na,b,1000,0.1\n")
    assert "line 1: two columns of one name" in run("allreduce", str(file), *costs).err
