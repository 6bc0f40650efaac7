"""What a rank sets for Horovod before it starts."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import msgspec
import pytest
import torch

from benchmarks.threads import run_threads
from hyperscale.model.plan import Prediction
from hyperscale.model.runplan import RunPlan
from hyperscale.training.allreduce import horovod
from hyperscale.training.data.formats.dglbinary import MAGIC, VERSION
from hyperscale.training.engine.full import FullTrainer
from hyperscale.training.partition import local_part
from hyperscale.training.runtime import allocator
from hyperscale.training.runtime.comm import Comm
from hyperscale.training.runtime.contract import Run
from hyperscale.training.worker import estimates, train
from tests.builders.training import a_run, assignment, labelled_graph

STATED = {"HYPERSCALE_DATASET_SOURCE": "persistentVolumeClaim", "HYPERSCALE_DATASET_VERTICES": "100000"}
WIDE = {"HYPERSCALE_DATASET_FEATURE_SIZE": "9000", "HYPERSCALE_DATASET_CLASSES": "10"}


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The process's own, empty but for what keeps torch as it is."""
    found: dict[str, str] = {"OMP_NUM_THREADS": "1"}
    monkeypatch.setattr(os, "environ", found)
    monkeypatch.setattr(allocator, "keep", lambda _: None)
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    return found


@pytest.mark.parametrize(("dataset", "tick"), [("SMILES", "0.05"), ("NPZ", None)])
def test_ranks_on_many_small_graphs_look_for_messages_more_often(variables: dict[str, str], dataset: str, tick: str | None) -> None:
    train.tune(a_run(size=2, HYPERSCALE_DATASET_FORMAT=dataset))
    assert variables.get("HOROVOD_CYCLE_TIME") == tick


@pytest.mark.parametrize(("graphs", "tick"), [(2, "0.05"), (1, None)])
def test_a_file_of_dgls_with_many_graphs_is_known_before_horovod_starts(
    variables: dict[str, str], tmp_path: Path, graphs: int, tick: str | None
) -> None:
    (tmp_path / "g.bin").write_bytes(struct.pack("<QQQQ", MAGIC, VERSION, 2, graphs))
    train.tune(a_run(size=2, HYPERSCALE_DATASET_SOURCE="persistentVolumeClaim", HYPERSCALE_DATASET_PATH=str(tmp_path / "g.bin")))
    assert variables.get("HOROVOD_CYCLE_TIME") == tick


@pytest.mark.parametrize(("labels", "tick"), [("graph-label", "0.05"), ("node-label", None)])
def test_a_folder_of_ogbs_with_many_graphs_is_known_before_horovod_starts(
    variables: dict[str, str], tmp_path: Path, labels: str, tick: str | None
) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / f"{labels}.csv.gz").touch()
    place = str(tmp_path)
    train.tune(
        a_run(size=2, HYPERSCALE_DATASET_SOURCE="persistentVolumeClaim", HYPERSCALE_DATASET_PATH=place, HYPERSCALE_DATASET_FORMAT="OGB")
    )
    assert variables.get("HOROVOD_CYCLE_TIME") == tick


def test_what_the_user_sets_for_horovod_stays(variables: dict[str, str]) -> None:
    variables["HOROVOD_CYCLE_TIME"] = "3"
    train.tune(a_run(size=2, HYPERSCALE_DATASET_FORMAT="SMILES"))
    assert variables["HOROVOD_CYCLE_TIME"] == "3"


def test_stock_horovod_stays_stock_on_many_small_graphs(variables: dict[str, str]) -> None:
    train.tune(a_run(size=2, HYPERSCALE_DATASET_FORMAT="SMILES", HYPERSCALE_ALLREDUCE_SCHEDULE="Default"))
    assert not any(name.startswith("HOROVOD") for name in variables)


def test_gradients_beyond_horovods_threshold_raise_it_so_that_they_may_travel_as_one(variables: dict[str, str]) -> None:
    run = a_run({"hiddenSize": 4096}, None, 0, 2, **STATED, **WIDE)
    train.tune(run)
    threshold = int(variables["HOROVOD_FUSION_THRESHOLD"])
    assert 4 * (9000 * 4096 + 4096 + 4096 * 10 + 10) <= threshold < 4 * 9000 * 4096 + 2**20
    assert horovod.threshold_bytes(variables) == threshold
    assert variables["HOROVOD_DISABLE_GROUP_FUSION"] == "1"


@pytest.mark.parametrize(
    ("model", "sizes"),
    [({"hiddenSize": 4096}, {}), ({"hiddenSize": 16}, WIDE), ({"hiddenSize": 4096}, WIDE | {"HYPERSCALE_DATASET_FORMAT": "SMILES"})],
    ids=["sizes unknown", "small gradients", "another model"],
)
def test_horovods_threshold_stays_where_nothing_says_that_it_is_too_low(
    variables: dict[str, str], model: dict[str, object], sizes: dict[str, str]
) -> None:
    train.tune(a_run(model, None, 0, 2, **STATED, **sizes))
    assert "HOROVOD_FUSION_THRESHOLD" not in variables
    assert horovod.threshold_bytes(variables) == 128 * 2**20


def test_the_users_threshold_stays_and_is_the_one_that_groups_are_made_for(variables: dict[str, str]) -> None:
    variables["HOROVOD_FUSION_THRESHOLD"] = "1000"
    train.tune(a_run({"hiddenSize": 4096}, None, 0, 2, **STATED, **WIDE))
    assert variables["HOROVOD_FUSION_THRESHOLD"] == "1000"
    assert horovod.threshold_bytes(variables) == 1000
    assert horovod.threshold_bytes({"HOROVOD_FUSION_THRESHOLD": "64MB"}) == 128 * 2**20


def test_no_buffer_of_horovods_outgrows_what_a_larger_message_could_gain(variables: dict[str, str]) -> None:
    train.tune(a_run({"parameters": 10**12}, size=2))
    assert int(variables["HOROVOD_FUSION_THRESHOLD"]) == 2**30


@pytest.mark.parametrize(
    ("model", "compression"),
    [("GCN", "None"), ("GCN", "FP16"), ("GraphSAGE", "None"), ("GAT", "None")],
)
def test_stated_sizes_give_the_bytes_that_the_models_gradients_have(model: str, compression: str) -> None:
    stated = {"HYPERSCALE_DATASET_FEATURE_SIZE": "7", "HYPERSCALE_DATASET_CLASSES": "3", "HYPERSCALE_COMPRESSION": compression}
    run = a_run({"architecture": model, "layers": 3}, None, 0, 1, **STATED, **stated)

    def sent(comm: Comm) -> int:
        part = local_part(labelled_graph(1), assignment(1, 40, 1), 0, 1)
        return sum(FullTrainer(run, comm, part, torch.device("cpu")).gradients.bytes.values())

    assert run_threads(1, sent) == [estimates.gradient_bytes(run)]


def test_builtin_graphs_need_no_stated_sizes() -> None:
    assert estimates.gradient_bytes(a_run({"hiddenSize": 16})) == 4 * (1433 * 16 + 16 + 16 * 7 + 7)


def planned(directory: Path, epoch_seconds: float, batch: int | None = None, **variables: str) -> Run:
    plan = RunPlan(1, "a/b", "id", 0, 2, (), Prediction(epoch_seconds, 0.0))
    (directory / "plan.json").write_bytes(msgspec.json.encode(plan))
    model = {} if batch is None else {"batchSize": batch, "fanouts": [5, 5]}
    return a_run(model, None, 0, 2, HYPERSCALE_PLAN_FILE=str(directory / "plan.json"), **variables)


@pytest.mark.parametrize(
    ("epoch_seconds", "batch", "tick"),
    [(0.15, None, "0.15"), (0.001, None, "0.1"), (60.0, None, "0.2"), (6.0, 1000, "0.12"), (60.0, 1000, "0.2")],
)
def test_on_cuda_ticks_are_as_short_as_the_predicted_step_asks_for(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, epoch_seconds: float, batch: int | None, tick: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    train.tune(planned(tmp_path, epoch_seconds, batch, **STATED, HYPERSCALE_DATASET_TRAIN_VERTICES="100000"))
    assert variables["HOROVOD_CYCLE_TIME"] == tick


def test_without_a_prediction_ticks_on_cuda_are_a_fifth_of_horovods(variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    train.tune(a_run(size=2))
    assert variables["HOROVOD_CYCLE_TIME"] == "0.2"


def test_no_step_is_predicted_where_the_planner_counted_vertices_that_nobody_stated(tmp_path: Path) -> None:
    elsewhere = {"HYPERSCALE_DATASET_SOURCE": "persistentVolumeClaim", "HYPERSCALE_DATASET_PATH": "/data/graph"}
    assert estimates.step_seconds(planned(tmp_path, 6.0, 1000, **elsewhere)) is None
    assert estimates.step_seconds(planned(tmp_path, 6.0, 1000, **elsewhere, HYPERSCALE_DATASET_VERTICES="10000")) == 2.0
    assert estimates.step_seconds(planned(tmp_path, 6.0, 10)) == 6.0 / 7, "Cora's 140 by 20"
    assert estimates.step_seconds(planned(tmp_path, 0.0)) is None
