"""Checkpoints: atomic, checked, of this model only; a resumed run continues as the first would have."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch

from benchmarks.threads import run_threads
from hyperscale.model.api.measured import Measured
from hyperscale.training.engine.checkpoint import Checkpoint, CheckpointError, CheckpointProgress, Checkpoints
from hyperscale.training.engine.full import FullTrainer
from hyperscale.training.engine.loop import Loop
from hyperscale.training.engine.report import Reporter
from hyperscale.training.partition import local_part
from hyperscale.training.runtime.comm import Comm
from tests.builders.training import a_run, assignment, labelled_graph

TENSORS = {"model.weight": torch.arange(6.0).reshape(2, 3), "optimizer.0.step": torch.tensor(4.0)}


def a_store(directory: Path, model: str = "GCN 1") -> Checkpoints:
    return Checkpoints(directory, "default/training", model)


def latest_of(store: Checkpoints) -> Checkpoint:
    found = store.latest()
    assert found is not None
    return found


AVERAGED = {"averageDecay": 0.9, "learningRateSchedule": "Cosine"}


def train(
    directory: Path, workers: int, epochs: int, hidden: int = 5, hyper: dict[str, object] | None = None
) -> list[tuple[Measured, dict[str, torch.Tensor]]]:
    graph, cut = labelled_graph(3), assignment(3, 40, workers)

    def rank(comm: Comm) -> tuple[Measured, dict[str, torch.Tensor]]:
        run = a_run(
            {"epochs": epochs, "hiddenSize": hidden},
            {"dropout": 0.4} | (hyper or {}),
            rank=comm.rank,
            size=comm.size,
            CHECKPOINT_DIR=str(directory),
            HYPERSCALE_CHECKPOINT_EVERY_EPOCHS="2",
        )
        trainer = FullTrainer(run, comm, local_part(graph, cut, comm.rank, comm.size), torch.device("cpu"))
        result = Loop(run, comm, trainer, Reporter(run)).train()
        return result, {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}

    return run_threads(workers, rank)


def test_the_last_two_checkpoints_are_kept_and_the_newest_is_read_back(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    for epoch in (1, 2, 3):
        store.save(CheckpointProgress(epoch=epoch, best_test=0.5), TENSORS, workers=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["epoch-00000002", "epoch-00000003"]
    found = latest_of(a_store(tmp_path))
    assert found.manifest.progress == CheckpointProgress(epoch=3, best_test=0.5)
    assert all(torch.equal(found.tensors[name], TENSORS[name]) for name in TENSORS)


def test_a_half_written_checkpoint_is_never_seen(tmp_path: Path) -> None:
    a_store(tmp_path).save(CheckpointProgress(epoch=1), TENSORS, workers=1)
    shutil.copytree(tmp_path / "epoch-00000001", tmp_path / ".epoch-00000002.77")
    assert latest_of(a_store(tmp_path)).manifest.progress.epoch == 1
    assert not (tmp_path / ".epoch-00000002.77").exists()


@pytest.mark.parametrize("damage", ["cut", "flip", "manifest", "gone"])
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]) -> None:
    store = a_store(tmp_path)
    store.save(CheckpointProgress(epoch=1), TENSORS, workers=1)
    last = store.save(CheckpointProgress(epoch=2), TENSORS, workers=1)
    state = last / "state.safetensors"
    data = bytearray(state.read_bytes())
    if damage == "cut":
        state.write_bytes(data[:-5])
    elif damage == "flip":
        data[-1] ^= 1
        state.write_bytes(data)
    elif damage == "manifest":
        (last / "manifest.json").write_text('{"version": 1')
    else:
        state.unlink()
    assert latest_of(store).manifest.progress.epoch == 1
    assert "epoch-00000002 is damaged" in capsys.readouterr().err


def test_a_checkpoint_of_another_model_is_refused_and_left_alone(tmp_path: Path) -> None:
    a_store(tmp_path).save(CheckpointProgress(epoch=1), TENSORS, workers=1)
    with pytest.raises(CheckpointError, match=r"^CHECKPOINT_DIR: .*another model \(GCN 1\), this job trains GAT 2; use an empty directory"):
        a_store(tmp_path, "GAT 2").latest()
    assert (tmp_path / "epoch-00000001").is_dir()


def test_a_checkpoint_of_another_job_is_refused_and_left_alone(tmp_path: Path) -> None:
    a_store(tmp_path).save(CheckpointProgress(epoch=1), TENSORS, workers=1)
    with pytest.raises(CheckpointError, match=r"is of job default/training, this is default/other; give each job a volume of its own"):
        Checkpoints(tmp_path, "default/other", "GCN 1").latest()
    assert (tmp_path / "epoch-00000001").is_dir()


def test_damaged_later_checkpoints_do_not_push_out_those_that_are_written_after_them(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    store.save(CheckpointProgress(epoch=1), TENSORS, workers=1)
    for epoch in (8, 9):
        (store.save(CheckpointProgress(epoch=epoch), TENSORS, workers=1) / "state.safetensors").write_bytes(b"")
    (tmp_path / "epoch-notes").mkdir()
    again = a_store(tmp_path)
    assert again.latest() is None
    for epoch in (1, 2, 3):
        again.save(CheckpointProgress(epoch=epoch), TENSORS, workers=1)
        assert latest_of(again).manifest.progress.epoch == epoch
    assert sorted(path.name for path in tmp_path.iterdir()) == ["epoch-00000002", "epoch-00000003", "epoch-notes"]


def test_a_full_volume_is_one_line_and_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = a_store(tmp_path)
    store.save(CheckpointProgress(epoch=1), TENSORS, workers=1)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(CheckpointError, match=r"No space left on device; the volume must have room for \d+ bytes"):
        store.save(CheckpointProgress(epoch=2), TENSORS, workers=1)
    monkeypatch.undo()
    assert latest_of(a_store(tmp_path)).manifest.progress.epoch == 1
    assert [path.name for path in tmp_path.iterdir()] == ["epoch-00000001"]


def test_a_directory_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match=r"^CHECKPOINT_DIR: "):
        a_store(tmp_path / "file" / "below")


def test_a_resumed_run_ends_with_the_same_weights_to_the_last_bit(tmp_path: Path) -> None:
    whole = train(tmp_path / "whole", 2, 6)
    train(tmp_path / "parts", 2, 4)
    resumed = train(tmp_path / "parts", 2, 6)
    assert [result.resumed_epoch for result, _ in resumed] == [4, 4]
    for (first, weights), (second, again) in zip(whole, resumed, strict=True):
        assert (first.loss, first.accuracy, first.epoch) == (second.loss, second.accuracy, 6)
        assert all(torch.equal(weights[name], again[name]) for name in weights)


def test_a_killed_run_goes_on_with_its_learning_rates_and_its_averaged_weights(tmp_path: Path) -> None:
    whole = train(tmp_path, 2, 6, hyper=AVERAGED)
    shutil.rmtree(tmp_path / "epoch-00000006")
    resumed = train(tmp_path, 2, 6, hyper=AVERAGED)
    assert [result.resumed_epoch for result, _ in resumed] == [4, 4]
    for (first, weights), (second, again) in zip(whole, resumed, strict=True):
        assert (first.loss, first.accuracy) == (second.loss, second.accuracy)
        assert all(torch.equal(weights[name], again[name]) for name in weights)


def test_another_number_of_workers_goes_on_from_the_same_checkpoint(tmp_path: Path) -> None:
    train(tmp_path, 3, 4)
    resumed = train(tmp_path, 2, 6)
    assert {result.resumed_epoch for result, _ in resumed} == {4}
    assert {result.epoch for result, _ in resumed} == {6}
    document = msgspec.json.decode((tmp_path / "epoch-00000006" / "manifest.json").read_bytes())
    assert document["workers"] == 2


def test_a_finished_run_that_is_started_again_only_reports(tmp_path: Path) -> None:
    (first, _), *_ = train(tmp_path, 2, 4)
    (again, _), *_ = train(tmp_path, 2, 4)
    assert (again.accuracy, again.epoch, again.resumed_epoch, again.finished) == (first.accuracy, 4, 4, True)
    assert again.epoch_seconds is None


def test_every_rank_gets_the_error_of_a_foreign_checkpoint(tmp_path: Path) -> None:
    train(tmp_path, 2, 2)
    with pytest.raises(CheckpointError, match="another model"):
        train(tmp_path, 2, 4, hidden=6)


def test_the_same_seed_and_workers_give_the_same_bits(tmp_path: Path) -> None:
    one, two = (train(tmp_path / name, 3, 4) for name in "ab")
    assert all(torch.equal(one[0][1][name], two[0][1][name]) for name in one[0][1])
    assert not np.isnan(one[0][0].loss or float("nan"))
