"""The example that forecasts citations: its graph keeps past and future apart, its job is understood, its script learns from the past."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import yaml

from hyperscale.model.api.job import Architecture
from hyperscale.model.api.measured import RESULT_PREFIX, Measured
from hyperscale.spec.crd import REPOSITORY
from hyperscale.spec.parse import parse_job
from tests.builders import ranks
from tests.builders.training import environment

EXAMPLE = REPOSITORY / "examples" / "citation-impact"
CITATIONS = runpy.run_path(str(EXAMPLE / "citations.py"))
TRAIN = runpy.run_path(str(EXAMPLE / "train.py"))
SMALL = 20
"""Papers of the first year."""


@pytest.fixture(scope="module")
def papers() -> Any:
    return CITATIONS["generate"](0, SMALL)[0]


@pytest.fixture(scope="module")
def file(papers: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("citations") / "citations.npz"
    np.savez(path, **CITATIONS["dataset"](papers))
    return path


def variables(file: Path, epochs: int) -> dict[str, str]:
    return {
        "OMP_NUM_THREADS": "1",
        **environment(
            {"architecture": "Custom", "parameters": 2567, "epochs": epochs},
            HYPERSCALE_DATASET_SOURCE="persistentVolumeClaim",
            HYPERSCALE_DATASET_FORMAT="NPZ",
            HYPERSCALE_DATASET_PATH=str(file),
        ),
    }


def lines(printed: str) -> tuple[dict[str, dict[str, float]], Measured]:
    """Errors by method, and the result."""
    errors, result = printed.strip().splitlines()[-2:]
    return json.loads(errors.removeprefix(TRAIN["ERRORS_PREFIX"])), msgspec.json.decode(result.removeprefix(RESULT_PREFIX), type=Measured)


def started(monkeypatch: pytest.MonkeyPatch, told: dict[str, str]) -> int:
    """Exit code of the script in this process."""
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    code: int = TRAIN["main"]()
    return code


def test_what_is_given_of_a_date_would_be_the_same_had_the_world_ended_then(papers: Any) -> None:
    for date in (12, 18, 21):
        whole, cut = CITATIONS["snapshot"](papers, date), CITATIONS["snapshot"](papers.before(date), date)
        assert np.array_equal(whole["features"], cut["features"])
        assert np.array_equal(whole["edges"], cut["edges"])
        assert whole["labels"].sum() > 0
        assert cut["labels"].sum() == 0


def test_labels_of_one_date_end_before_the_next_kind_of_date_begins(papers: Any) -> None:
    train, validation, test = CITATIONS["dates_of"](papers)
    horizon = CITATIONS["HORIZON"]
    assert (max(train) + horizon, validation + horizon, test + horizon) == (validation, test, CITATIONS["YEARS"])


def test_copies_of_the_graph_share_no_edge(papers: Any) -> None:
    arrays = CITATIONS["dataset"](papers)
    changes = np.flatnonzero(np.diff(arrays["features"][:, 4]) > 0.5)  # a paper that is much older than the one before begins a copy
    starts = np.concatenate([[0], changes + 1])
    copy = np.searchsorted(starts, arrays["edges"], side="right")
    assert len(starts) == 5
    assert (copy[:, 0] == copy[:, 1]).all()
    assert {*arrays["split"][arrays["edges"][copy[:, 0] == 5].ravel()]} == {"test"}


def test_the_generated_graph_is_that_of_its_seed_and_cites_the_past_by_cumulative_advantage(papers: Any) -> None:
    again, other = CITATIONS["generate"](0, SMALL)[0], CITATIONS["generate"](1, SMALL)[0]
    assert np.array_equal(papers.cited, again.cited)
    assert not np.array_equal(papers.cited[:1000], other.cited[:1000])
    assert (papers.years[papers.cited] < papers.years[papers.citing]).all()
    count = int((papers.years < 21).sum())
    before, after = papers.citations(0, 21, count), papers.citations(21, 24, count)
    young = papers.years[:count] == 18
    often = before[young] > np.median(before[young])
    assert after[young][often].mean() > 1.5 * after[young][~often].mean()


def test_futures_of_the_generator_begin_at_the_date_and_have_the_mean_of_the_graph(papers: Any) -> None:
    truth = CITATIONS["generate"](0, SMALL)[1]
    drawn = CITATIONS["futures"](papers, truth, 21, 10, 0, SMALL)
    counted = CITATIONS["snapshot"](papers, 21)["labels"]
    assert drawn.shape == (10, len(counted))
    assert drawn.sum(axis=1).mean() == pytest.approx(counted.sum(), rel=0.15)


def test_a_public_graph_is_read_by_its_dates(tmp_path: Path) -> None:
    edges, dates = tmp_path / "edges.txt", tmp_path / "dates.txt"
    edges.write_text("# a comment\nb a\nc a\nc b\na c\nc missing\n")
    dates.write_text("a 1992-01-05\nb\t1993-02-01\nc 1994-03-01\n")
    papers = CITATIONS["read"](edges, dates)
    assert papers.years.tolist() == [1992, 1993, 1994]
    assert sorted(zip(papers.citing.tolist(), papers.cited.tolist(), strict=True)) == [(1, 0), (2, 0), (2, 1)]


@pytest.mark.parametrize(
    ("edges", "dates", "message"),
    [
        ("b a\n", "a soon\nb 1993-01-01\n", "is no date; write YYYY-MM-DD"),
        ("b\n", "a 1992-01-01\n", "has one column; write two"),
        ("x y\n", "a 1992-01-01\n", "give files of one graph"),
        ("b a\n", "a 1992-01-01\nb 1993-01-01\n", "give a graph of more years"),
    ],
)
def test_a_bad_public_graph_is_one_line(edges: str, dates: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "edges.txt").write_text(edges)
    (tmp_path / "dates.txt").write_text(dates)
    command = [sys.executable, str(EXAMPLE / "citations.py"), "--out", "o.npz", "--edges", "edges.txt", "--dates", "dates.txt"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert message in ended.stderr


def test_the_job_states_the_sizes_of_the_graph_and_of_the_network() -> None:
    job = parse_job(yaml.safe_load((EXAMPLE / "job.yaml").read_text(encoding="utf-8")))
    arrays = CITATIONS["dataset"](CITATIONS["generate"](0)[0])
    dataset = job.dataset
    assert job.model.architecture is Architecture.CUSTOM
    assert job.model.parameters == sum(each.numel() for each in TRAIN["Impact"](6).parameters())
    assert (dataset.vertices, dataset.edges) == (len(arrays["labels"]), 2 * len(arrays["edges"]))
    assert (dataset.feature_size, dataset.classes) == (arrays["features"].shape[1], int(arrays["labels"].max()) + 1)


def test_the_network_forecasts_years_that_it_never_saw_better_than_plain_forecasts(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = variables(file, 40) | {"CHECKPOINT_DIR": str(tmp_path), "HYPERSCALE_CHECKPOINT_EVERY_EPOCHS": "40"}
    assert started(monkeypatch, told) == 0
    errors, measured = lines(capsys.readouterr().out)
    assert (measured.epoch, measured.finished) == (40, True)
    for error in ("absolute", "log"):
        assert errors["network"][error] < min(errors["degree"][error], errors["last year"][error])
    assert started(monkeypatch, told | variables(file, 41)) == 0
    again = lines(capsys.readouterr().out)[1]
    assert (again.resumed_epoch, again.epoch) == (40, 41)


def test_a_graph_of_another_kind_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "other.npz"
    np.savez(path, edges=[[0, 1], [1, 2]], features=np.ones((3, 1)), labels=[0, 1, 0], split=["train", "val", "test"])
    assert started(monkeypatch, variables(path, 1)) == 2
    assert "no file of citations.py" in capsys.readouterr().err


@ranks.needs_horovod
def test_two_ranks_forecast_as_one_does(file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    told = {"OMPI_MCA_mpi_yield_when_idle": "1"} | {key: value for key, value in variables(file, 5).items() if not key.startswith("OMPI_")}
    script = (sys.executable, "-m", "hyperscale.training.worker.script", str(EXAMPLE / "train.py"))
    ended = ranks.start(2, script, {**ranks.without_a_job(os.environ), **told})
    assert ended.returncode == 0, ended.stderr[-2000:]
    together = lines(ended.stdout)[0]
    assert started(monkeypatch, variables(file, 5)) == 0
    alone = lines(capsys.readouterr().out)[0]
    # Plain forecasts are sums over all papers wherever they lie; the network's dropout is drawn by each rank.
    assert together["degree"] == pytest.approx(alone["degree"], rel=1e-4)
    assert together["network"]["log"] == pytest.approx(alone["network"]["log"], rel=0.1)
