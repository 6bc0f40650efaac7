"""Commands of the pages that need files only run as the pages have them, and print what the pages show."""

from __future__ import annotations

import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace

from hyperscale.control.history.run_store import RunStore
from hyperscale.training.data.formats import builtin
from tests.builders.history import RUN
from tests.reference import page_commands
from tests.unit.cli.cli_samples import run

ROOT = page_commands.ROOT
FORMER_JOB = {
    "apiVersion": "hyperscale.dev/v1alpha1",
    "kind": "GNNTrainingJob",
    "metadata": {"name": "former"},
    "spec": {
        "model": {"architecture": "GCN"},
        "dataset": {"source": {"builtin": {"name": "Cora"}}},
        "workers": {"min": 1, "max": 4},
        "planOnly": True,
    },
}
EVENTS = "location,insert,remove,cause\n" + "".join(f"node-{unit},0,{86_400 * (20 + unit)},memory\n" for unit in range(30))
NET = """
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(1433, 7)

    def forward(self, graph, x):
        return self.layer(x)
"""
WRITTEN = {
    "--report": "<!doctype html>",
    "--certificate": "checker of plans",
    "--svg": "<svg",
    "--html": "<!doctype html>",
    "--graphml": "<graphml",
    "--out": "startPolicy: Never",
}
"""What the file that a flag names holds afterwards."""
NEEDS = {"analyze GAT": "dgl", "--model": "dgl", "partition": "pymetis", "--stage preflight": "torch"}
COMMANDS = [(page, command) for page, each in page_commands.FILES.items() for command in each]


def record_runs(url: str) -> None:
    """Twelve runs of two planners, of graphs and workers of several sizes."""
    history = RunStore(url)
    sizes = [(planner, size) for planner in ("Heuristic", "Random") for size in range(1, 7)]
    history.record(
        [
            replace(RUN, uid=f"{planner}-{size}", planner=planner, vertices=1000 * size, workers=1 + size % 3, measured_seconds=size * 1.5)
            for planner, size in sizes
        ]
    )
    history.close()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the repository as far as the pages use it, with a data set and a former job."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "graphs").mkdir()
    (tmp_path / "graphs/cora.npz").symlink_to(builtin.FOLDER / "cora.npz")
    (tmp_path / "jobs.yaml").write_text(yaml.safe_dump(FORMER_JOB))
    (tmp_path / "train.py").write_text(NET)
    (tmp_path / "events.csv").write_text(EVENTS)
    record_runs(f"sqlite:///{tmp_path}/history.sqlite")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("page", "command"), COMMANDS, ids=[f"{page}: {command[:60]}" for page, command in COMMANDS])
def test_a_command_on_files_runs_and_prints_what_its_page_shows(folder: Path, page: str, command: str) -> None:
    for part, package in NEEDS.items():
        if part in command and find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    form = page_commands.FILES[page][command]
    words = shlex.split(form.run or command)
    ran = run(*words[1:])
    assert ran.code in form.codes, ran.err
    shown = page_commands.transcript((ROOT / "docs" / page).read_text(), command)
    printed = [re.sub(r"taken .+ ago", "taken … ago", " ".join(line.split())) for line in ran.out.splitlines() if line.strip()]
    assert not shown or printed == shown
    for flag, text in WRITTEN.items():
        if flag in words:
            assert text in (folder / words[words.index(flag) + 1]).read_text()[:4000]


def test_the_pages_show_the_output_of_some_commands() -> None:
    shown = [page_commands.transcript((ROOT / "docs" / page).read_text(), command) for page, command in COMMANDS]
    assert sum(1 for lines in shown if lines) >= 3
