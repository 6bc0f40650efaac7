"""Trainings that were killed, and folders that hold something else: they go on where they stood, or one line says why not."""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from hyperscale.cli.training import learn_command
from hyperscale.learn.agents import ppo
from hyperscale.learn.agents.qnetwork import HIDDEN
from hyperscale.learn.agents.qnetwork import load as load_layers
from hyperscale.learn.agents.qnetwork import save as save_layers
from hyperscale.learn.constructor.network import Constructor
from hyperscale.learn.constructor.train_constructor import CHECKPOINT, ConstructorConfig, Mark, _load, _save
from hyperscale.learn.lesson import LessonError, LessonProgress, reading
from hyperscale.learn.streams import training
from hyperscale.learn.streams.episodes import EpisodeBatch, Training, collect
from hyperscale.learn.streams.training import train
from tests.unit.cli.cli_samples import run

STREAMS = "checkpoint.safetensors"
SHIPPED = Path(str(resources.files("hyperscale.planner.learned") / "weights"))


def fresh() -> tuple[Constructor, torch.optim.AdamW]:
    model = Constructor()
    return model, torch.optim.AdamW(model.parameters())


def test_a_constructor_goes_on_from_the_step_of_its_tensors(tmp_path: Path) -> None:
    config = ConstructorConfig(seed=3)
    model, optimizer = fresh()
    _save(tmp_path, Mark(config, 40), model, optimizer)
    assert [entry.name for entry in tmp_path.iterdir()] == [CHECKPOINT], "one file: no kill parts the step from the tensors"
    other, _ = fresh()
    assert _load(tmp_path, config, other, optimizer) == 40
    assert all(torch.equal(tensor, other.state_dict()[name]) for name, tensor in model.state_dict().items())
    with pytest.raises(LessonError, match="has other settings"):
        _load(tmp_path, ConstructorConfig(seed=4), other, optimizer)


@pytest.mark.parametrize("content", [b"", b"\xff" * 100, b"\x08\0\0\0\0\0\0\0{}      "], ids=["empty", "noise", "nothing inside"])
def test_torn_checkpoints_are_one_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / CHECKPOINT).write_bytes(content)
    model, optimizer = fresh()
    with pytest.raises(LessonError, match=r"checkpoint\.safetensors is damaged, or of another lesson"):
        _load(tmp_path, ConstructorConfig(), model, optimizer)
    (tmp_path / STREAMS).write_bytes(content)
    with pytest.raises(LessonError, match=r"checkpoint\.safetensors is damaged, or of another lesson"):
        train(Training(), tmp_path, lambda _: None, resume=True)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"seed": 2}, "another --seed; use the same, or"),
        ({"steps": 5, "start": "b"}, "other --start weights, other --steps; use the same, or"),
        ({"history": "b", "nodes": 9, "sequences": 3}, "another history or cluster; use the same: leave --history and --snapshot out"),
        ({"rate": 1e-5}, "the settings of another release; use the same, or"),
    ],
)
def test_a_checkpoint_of_another_training_says_what_differs_and_how_to_go_on(changed: dict[str, Any], words: str, tmp_path: Path) -> None:
    asked = Training(steps=1, sequences=2, jobs=20, start="a", history="a")
    train(asked, tmp_path, lambda _: None)
    with pytest.raises(LessonError, match=f"is of a training with {words}.*name another folder$"):
        train(replace(asked, **changed), tmp_path, lambda _: None, resume=True)


def test_what_a_reader_raises_says_one_line(tmp_path: Path) -> None:
    (tmp_path / "c").touch()
    with pytest.raises(LessonError, match=r"damaged, or of another lesson \(two lines\)") as caught, reading(tmp_path / "c"):
        raise RuntimeError("two\nlines")
    assert "\n" not in str(caught.value)


def test_a_policy_of_another_seed_is_not_gone_on_from(tmp_path: Path) -> None:
    save_file({"asked": np.array([1, 500])}, tmp_path / ppo.CHECKPOINT)
    with pytest.raises(LessonError, match="is of --seed 1 --steps 500; use the same"):
        ppo._restore(None, tmp_path, np.array([2, 500]))  # type: ignore[arg-type] # never reached


def test_layers_of_another_agent_are_refused(tmp_path: Path) -> None:
    layers = {
        "0.weight": np.zeros((HIDDEN, 5), np.float32),
        "0.bias": np.zeros(HIDDEN, np.float32),
        "2.weight": np.zeros((3, HIDDEN), np.float32),
        "2.bias": np.zeros(3, np.float32),
    }
    save_layers("dqn", layers, tmp_path)
    assert sorted(load_layers("dqn", tmp_path)) == sorted(layers)
    for odd in ({"0.weight": layers["0.weight"]}, {**layers, "2.bias": np.zeros(4, np.float32)}):
        save_layers("dqn", odd, tmp_path)
        with pytest.raises(LessonError, match="holds other layers"):
            load_layers("dqn", tmp_path)


def test_a_checkpoint_is_never_overwritten_by_a_training_from_the_start(tmp_path: Path) -> None:
    (tmp_path / STREAMS).write_text("hours of work")
    ran = run("learn", "streams", "--out", str(tmp_path), "--steps", "1")
    assert ran.code == 2
    assert "add --resume to go on, or name another folder" in ran.err
    assert (tmp_path / STREAMS).read_text() == "hours of work"


@pytest.mark.parametrize("lesson", ["constructor", "streams", "ppo"])
def test_resuming_where_nothing_was_begun_is_refused(lesson: str, tmp_path: Path) -> None:
    ran = run("learn", lesson, "--out", str(tmp_path / "out"), "--resume", "--steps", "1")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "to go on from; leave --resume out to begin" in ran.err


def test_weights_in_use_that_are_not_there_are_not_silently_others(tmp_path: Path) -> None:
    ran = run("learn", "streams", "--out", str(tmp_path), "--evaluate-only", "--baseline", str(tmp_path))
    assert ran.code == 2
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("option", ["--baseline", "--publish"])
def test_weights_in_use_that_cannot_be_read_are_found_before_the_first_step(option: str, tmp_path: Path) -> None:
    used = tmp_path / "used"
    used.mkdir()
    (used / "stream.json").write_text("{")
    ran = run("learn", "streams", "--out", str(tmp_path / "out"), "--steps", "1", option, str(used))
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert f"{option}: cannot read the weights in" in ran.err
    assert not (tmp_path / "out").exists()


def test_weights_of_an_earlier_release_in_the_place_to_publish_are_replaced_not_compared_with(tmp_path: Path) -> None:
    used = tmp_path / "used"
    shutil.copytree(SHIPPED, used)
    manifest = json.loads((used / "stream.json").read_text())
    (used / "stream.json").write_text(json.dumps({**manifest, "features": manifest["features"] - 1}))
    arguments = argparse.Namespace(lesson="queue", baseline=None, publish=str(used))
    assert learn_command._baseline(arguments) == SHIPPED
    (used / "stream.json").write_text(json.dumps(manifest))
    assert learn_command._baseline(arguments) == used


def test_a_place_to_publish_that_cannot_be_written_is_found_before_the_first_step(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ran = run("learn", "streams", "--out", str(tmp_path / "out"), "--steps", "1", "--publish", str(tmp_path / "file" / "weights"))
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "--publish: cannot write to" in ran.err
    assert not (tmp_path / "out").exists()


def test_slow_steps_leave_checkpoints_by_the_clock_and_the_same_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = Training(steps=3, sequences=2, jobs=20)
    kept: list[int] = []
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)

    def report(reached: LessonProgress) -> None:
        kept.append(int(load_file(tmp_path / "slow" / STREAMS)["counts"][0]) if reached.step > 1 else 0)

    slow = train(few, tmp_path / "slow", report)
    assert kept == [0, 1, 2]
    monkeypatch.undo()
    assert np.array_equal(slow, train(few, tmp_path / "fast", lambda _: None))


def test_who_interrupts_a_training_learns_what_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "CHECKPOINT_STEPS", 1)
    steps = iter((True, True, False))

    def played(*given: Any) -> EpisodeBatch:
        if not next(steps):
            raise KeyboardInterrupt
        return collect(*given)

    monkeypatch.setattr(training, "collect", played)
    ran = run("learn", "streams", "--out", str(tmp_path), "--steps", "9")
    assert ran.code == 130
    assert (
        f"interrupted; {tmp_path / STREAMS} keeps what was learned up to that checkpoint; add --resume to the same command to go on"
        in ran.err
    )


def test_a_streams_checkpoint_is_whole_after_every_write(tmp_path: Path) -> None:
    train(Training(steps=1), tmp_path, lambda _: None)
    assert load_file(tmp_path / STREAMS)["counts"][0] == 1
    assert not (tmp_path / f".{STREAMS}").exists()
