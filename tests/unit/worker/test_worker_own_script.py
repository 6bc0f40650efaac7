"""The example of a user's own script: its job is understood, and it trains, stops and goes on under the contract."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import yaml

from hyperscale.crd import REPOSITORY
from hyperscale.model.job import Architecture
from hyperscale.model.measured import RESULT_PREFIX, Measured
from hyperscale.spec import parse_job
from tests.builders.training import environment

EXAMPLE = REPOSITORY / "examples" / "own-script"


def run(directory: Path, epochs: int) -> Measured:
    variables = environment(
        {"architecture": "Custom", "parameters": 5000, "epochs": epochs},
        HYPERSCALE_DATASET_SOURCE="generated",
        HYPERSCALE_DATASET_PATH="SBM?vertices=300&edges=2400&featureSize=40&classes=4",
        CHECKPOINT_DIR=str(directory),
        HYPERSCALE_CHECKPOINT_EVERY_EPOCHS="5",
    )
    command = [sys.executable, "-W", "ignore", str(EXAMPLE / "train.py")]
    ended = subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1", **variables}, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    return msgspec.json.decode(ended.stdout.removeprefix(RESULT_PREFIX), type=Measured)


def test_the_examples_job_is_parsed() -> None:
    job = parse_job(yaml.safe_load((EXAMPLE / "job.yaml").read_text(encoding="utf-8")))
    assert job.model.architecture is Architecture.CUSTOM
    assert job.model.script == "own-script/train.py"


def test_the_example_learns_and_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    first = run(tmp_path, 10)
    assert (first.epoch, first.resumed_epoch) == (10, None)
    second = run(tmp_path, 40)
    assert (second.epoch, second.resumed_epoch, second.finished) == (40, 10, True)
    assert second.loss is not None
    assert second.loss < (first.loss or 0.0)
    assert second.accuracy == pytest.approx(1.0, abs=0.5)
