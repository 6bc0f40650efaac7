"""The program of the inspect Job: it reports what the reader read, and refuses in one line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hyperscale.model.api.datasets import SizeSource
from hyperscale.observe.run_report import read_report
from hyperscale.training.runtime.termination import MESSAGE_VARIABLE
from hyperscale.training.worker import inspect_dataset
from tests.builders.training import environment

EDGES = np.array([[at, at + 1] for at in range(19)])


def variables(file: Path, **more: str) -> dict[str, str]:
    told = environment(
        {"epochs": 2, "hiddenSize": 4},
        HYPERSCALE_DATASET_SOURCE="persistentVolumeClaim",
        HYPERSCALE_DATASET_PATH=str(file),
        HYPERSCALE_DATASET_FORMAT="NPZ",
        HYPERSCALE_PLAN_FILE=str(file.parent / "no-plan.json"),
    )
    return told | more


@pytest.fixture
def message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the program leaves its last words."""
    path = tmp_path / "message"
    monkeypatch.setenv(MESSAGE_VARIABLE, str(path))
    return path


def test_the_report_says_what_was_read_and_the_operator_reads_it(tmp_path: Path, message: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "g.npz"
    np.savez(file, edges=EDGES, features=np.ones((20, 3), dtype=np.float32), labels=np.arange(20) % 4)
    assert inspect_dataset.main(variables(file)) == 0
    report = json.loads(capsys.readouterr().out)
    assert {key: report[key] for key in ("vertices", "featureSize", "classes")} == {"vertices": 20, "featureSize": 3, "classes": 4}
    read = read_report(message.read_text(), "key")
    assert read is not None
    assert (read.vertices, read.edges, read.source, read.dataset_key) == (20, report["edges"], SizeSource.READ, "key")
    assert read.train_vertices == report["trainVertices"] == 12


def test_a_stated_size_that_is_wrong_is_refused_by_its_path(tmp_path: Path, message: Path) -> None:
    file = tmp_path / "g.npz"
    np.savez(file, edges=EDGES, features=np.ones((20, 3), dtype=np.float32), labels=np.arange(20) % 4)
    assert inspect_dataset.main(variables(file, HYPERSCALE_DATASET_VERTICES="5")) == 2
    assert "spec.dataset.vertices: the job states 5" in message.read_text()


def test_a_file_that_is_not_there_is_refused_in_one_line(tmp_path: Path, message: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect_dataset.main(variables(tmp_path / "none.npz")) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert len(message.read_text().splitlines()) == 1
