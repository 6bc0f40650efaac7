"""The example of a user's own script: its job is understood, and it trains, stops and continues under the contract."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import torch
import yaml

from benchmarks.threads import solo
from hyperscale.model.api.job import Architecture
from hyperscale.model.api.measured import RESULT_PREFIX, Measured
from hyperscale.spec.crd import REPOSITORY
from hyperscale.spec.parse import parse_job
from tests.builders import ranks
from tests.builders.training import a_run, environment

EXAMPLE = REPOSITORY / "examples" / "own-script"


SCRIPT = (sys.executable, "-m", "hyperscale.training.worker.script")


def example(directory: Path, epochs: int) -> dict[str, str]:
    told = environment(
        {"architecture": "Custom", "parameters": 5000, "epochs": epochs},
        HYPERSCALE_DATASET_SOURCE="generated",
        HYPERSCALE_DATASET_PATH="SBM?vertices=300&edges=2400&featureSize=40&classes=4",
        CHECKPOINT_DIR=str(directory),
        HYPERSCALE_CHECKPOINT_EVERY_EPOCHS="5",
    )
    return {"OMP_NUM_THREADS": "1", **told}


def run(directory: Path, epochs: int) -> Measured:
    command = [sys.executable, "-W", "ignore", str(EXAMPLE / "train.py")]
    ended = subprocess.run(command, env={**os.environ, **example(directory, epochs)}, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    return msgspec.json.decode(ended.stdout.removeprefix(RESULT_PREFIX), type=Measured)


def test_the_examples_job_is_parsed() -> None:
    job = parse_job(yaml.safe_load((EXAMPLE / "job.yaml").read_text(encoding="utf-8")))
    assert job.model.architecture is Architecture.CUSTOM
    assert job.model.script == "own-script/train.py"


def test_the_example_takes_the_ranks_own_gpu_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    script = runpy.run_path(str(EXAMPLE / "train.py"))
    run = a_run({"architecture": "Custom", "parameters": 5}, OMPI_COMM_WORLD_LOCAL_RANK="1")
    assert script["device_of"](run, solo()) == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", lambda _: None)
    assert script["device_of"](run, solo()) == torch.device("cuda", 1)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Measured]:
    """Ten epochs of one process, and where its checkpoints are."""
    directory = tmp_path_factory.mktemp("checkpoints")
    return directory, run(directory, 10)


def test_the_example_learns_and_goes_on_from_its_checkpoint(first: tuple[Path, Measured]) -> None:
    directory, begun = first
    assert (begun.epoch, begun.resumed_epoch) == (10, None)
    second = run(directory, 40)
    assert (second.epoch, second.resumed_epoch, second.finished) == (40, 10, True)
    assert second.loss is not None
    assert second.loss < (begun.loss or 0.0)
    assert second.accuracy == pytest.approx(1.0, abs=0.5)


@ranks.needs_horovod
def test_two_ranks_of_the_example_train_as_one_process_does(first: tuple[Path, Measured], tmp_path: Path) -> None:
    # A rank that waits leaves its processor time to the other, as it does in hyperscale.training.worker.train.
    told = {"OMPI_MCA_mpi_yield_when_idle": "1", "HYPERSCALE_SHARES": "0.7,0.3", "HYPERSCALE_TERMINATION_LOG": str(tmp_path / "message")}
    told |= {name: value for name, value in example(tmp_path / "own", 10).items() if not name.startswith("OMPI_COMM")}
    ended = ranks.start(2, [*SCRIPT, str(EXAMPLE / "train.py")], {**ranks.without_a_job(os.environ), **told})
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert ended.stdout.count(RESULT_PREFIX) == 1, "rank 0 alone reports"
    measured = msgspec.json.decode((tmp_path / "message").read_bytes(), type=Measured)
    assert (measured.epoch, measured.finished) == (10, True)
    # The sums are over all training vertices wherever they lie; only dropout is drawn by each rank.
    assert measured.loss == pytest.approx(first[1].loss, rel=0.2)
