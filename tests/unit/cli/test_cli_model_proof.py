"""`hyperscale evaluate --stage proof` tries the model too, where the training extra is there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.cli.cli_samples import Files, Ran, files_fixture, job, run

__all__ = ["files_fixture"]

MODULE = """
import torch
from torch import nn

class Sound(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(100, 47)

    def forward(self, graph, x):
        print("not part of the answer")
        return self.layer(x)

class Unused(Sound):
    def __init__(self):
        super().__init__()
        self.spare = nn.Linear(3, 3)

def leaves():
    raise SystemExit("bye")
"""


def proof(files: Files, *more: str, **changes: Any) -> tuple[Ran, dict[str, Any]]:
    at = files.write("model-job.yaml", yaml.safe_dump(job(**changes)))
    ran = run("evaluate", "-f", at, "--snapshot", files.snapshot, "--futures", "200", "-o", "json", *more)
    stages = json.loads(ran.out)["stages"] if ran.out else [{}]
    return ran, dict(stages[0])


@pytest.mark.parametrize("architecture", ["GCN", "GraphSAGE", "GAT"])
def test_the_networks_of_the_workers_are_tried(files: Files, architecture: str) -> None:
    pytest.importorskip("torch")
    ran, stage = proof(files, "--stage", "proof", model={"architecture": architecture, "hiddenSize": 16})
    assert (ran.code, stage["state"]) == (0, "Passed")
    assert stage["findings"][-1].startswith("The model was tried on a small graph")


def test_without_the_training_extra_the_proof_says_what_is_missing(files: Files) -> None:
    """In a process of its own: a package imported twice leaves the later tests with a half of it."""
    at = files.write("model-job.yaml", yaml.safe_dump(job()))
    script = "import sys; sys.modules['torch'] = None\nfrom hyperscale.cli.main import main\nsys.exit(main(sys.argv[1:]))"
    question = ("evaluate", "-f", at, "--snapshot", files.snapshot, "--futures", "200", "-o", "json", "--stage", "proof")
    environment = {"PYTHONPATH": ":".join(sys.path)}
    ran = subprocess.run([sys.executable, "-c", script, *question], capture_output=True, text=True, check=False, env=environment)
    assert ran.returncode == 0, ran.stderr
    stage = json.loads(ran.stdout)["stages"][0]
    assert stage["state"] == "Passed"
    assert stage["findings"] == [
        "The model is not checked: it needs torch; install the extra, in a copy of the repository: pip install '.[worker]'."
    ]


def test_a_custom_model_is_not_checked_until_it_is_named(files: Files) -> None:
    _, stage = proof(files, "--stage", "proof", model={"architecture": "Custom", "parameters": 1000})
    assert any("name it with --model FILE.py:NAME" in finding for finding in stage["findings"])


def test_a_model_of_its_own_is_tried_and_its_faults_end_the_proof(files: Files, tmp_path: Path) -> None:
    pytest.importorskip("dgl")
    (tmp_path / "mine.py").write_text(MODULE)
    sound, stage = proof(files, "--model", f"{tmp_path}/mine.py:Sound")
    assert (sound.code, stage["state"]) == (0, "Passed")
    unused, stage = proof(files, "--model", f"{tmp_path}/mine.py:Unused")
    assert (unused.code, stage["state"], stage["sentence"]) == (1, "Failed", "the model does not train")
    assert "none reaches spare.weight" in stage["findings"][0]
    for target, words in (
        (f"{tmp_path}/mine.py:leaves", "--model: the model ends the process when it runs (bye)"),
        (f"{tmp_path}/mine.py:Nothing", "has no 'Nothing'"),
        (f"{tmp_path}/none.py:Sound", "No such file"),
        ("Sound", "write FILE.py:NAME"),
    ):
        ran, _ = proof(files, "--model", target)
        assert (ran.code, ran.err.count("\n")) == (2, 1)
        assert words in ran.err


def test_weights_beyond_what_can_be_tried_are_said_and_not_tried(files: Files) -> None:
    wide = {"architecture": "GCN", "hiddenSize": 8192, "layers": 3, "fanouts": [5, 5, 5], "batchSize": 32}
    ran, stage = proof(files, "--stage", "proof", model=wide)
    assert (ran.code, stage["state"]) == (0, "Passed")
    assert "are more than the 50000000 that are tried" in stage["findings"][0]
