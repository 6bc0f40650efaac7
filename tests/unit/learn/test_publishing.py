"""The gate in front of weights, and the command around it."""

from __future__ import annotations

import sys
from importlib import resources
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

from hyperscale.cli.training import learn_command
from hyperscale.learn.lesson import Assignment, LessonError, LessonProgress, LessonVerdict
from hyperscale.learn.publish import publish
from hyperscale.learn.streams.stream_lesson import write_files
from hyperscale.planner.queue.queue_agent import load_agent
from hyperscale.planner.queue.wait_bounds import PATIENCE_COSTS
from tests.unit.cli.cli_samples import run


def write_weights(folder: Path, content: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "constructor.safetensors").write_text(content)
    (folder / "constructor.json").write_text(f'{{"of": "{content}"}}')


@pytest.fixture
def lesson(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A lesson that writes its seed as weights and accepts those above 5."""
    module = ModuleType("tests_lesson")

    def train(assignment: Assignment, report: object) -> tuple[Path, ...]:
        assert callable(report)
        report(LessonProgress(1, 1, 0.0, {"loss": 0.5}))
        write_weights(assignment.folder, str(assignment.seed))
        return (assignment.folder / "constructor.json",)

    def judge(candidate: Path, in_use: Path | None, seed: int) -> LessonVerdict:
        if not (candidate / "constructor.safetensors").is_file():
            raise LessonError("no weights to judge; train first")
        value = int((candidate / "constructor.safetensors").read_text())
        return LessonVerdict(value > 5, f"scored {value}", {"score": float(value)})

    module.train, module.judge = train, judge  # type: ignore[attr-defined] # a module has what is put into it
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(learn_command.MODULES, "constructor", module.__name__)
    return module


def test_accepted_weights_are_copied_with_their_manifest(tmp_path: Path, lesson: ModuleType) -> None:
    ran = run("learn", "constructor", "--out", str(tmp_path / "out"), "--seed", "7", "--publish", str(tmp_path / "used"))
    assert ran.code == 0
    assert (tmp_path / "used" / "constructor.safetensors").read_text() == "7"
    assert (tmp_path / "used" / "constructor.json").read_text() == '{"of": "7"}'
    assert "accepted: scored 7" in ran.out
    assert "1/1" in ran.err


def test_weights_that_lose_leave_those_in_use_alone(tmp_path: Path, lesson: ModuleType) -> None:
    write_weights(tmp_path / "used", "9")
    ran = run("learn", "constructor", "--out", str(tmp_path / "out"), "--seed", "3", "--publish", str(tmp_path / "used"))
    assert ran.code == 1
    assert "refused: scored 3" in ran.out
    assert (tmp_path / "used" / "constructor.safetensors").read_text() == "9"


def test_judging_without_weights_says_what_to_do(tmp_path: Path, lesson: ModuleType) -> None:
    ran = run("learn", "constructor", "--out", str(tmp_path), "--evaluate-only")
    assert ran.code == 2
    assert ran.err.splitlines() == ["hyperscale: no weights to judge; train first"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, lesson: ModuleType) -> None:
    (tmp_path / "file").write_text("")
    ran = run("learn", "constructor", "--out", str(tmp_path / "file" / "out"))
    assert ran.code == 2
    assert len(ran.err.splitlines()) == 1
    assert "--out" in ran.err


def test_learning_without_its_packages_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(learn_command.MODULES, "dqn", "no_such_package")
    ran = run("learn", "dqn", "--out", str(tmp_path))
    assert ran.code == 2
    assert "pip install '.[learn]'" in ran.err


def test_the_gate_itself_refuses_whatever_the_command_thinks(tmp_path: Path) -> None:
    write_weights(tmp_path / "new", "1")
    with pytest.raises(LessonError, match="worse by far"):
        publish("constructor", tmp_path / "new", tmp_path / "used", LessonVerdict(False, "worse by far"))
    assert not (tmp_path / "used").exists()


def test_a_manifest_without_weights_is_not_published(tmp_path: Path) -> None:
    write_weights(tmp_path / "new", "1")
    (tmp_path / "new" / "constructor.safetensors").unlink()
    with pytest.raises(LessonError, match=r"no constructor\.safetensors"):
        publish("constructor", tmp_path / "new", tmp_path / "used", LessonVerdict(True, "fine"))


@pytest.mark.parametrize(("patience_costs", "beaten"), [(PATIENCE_COSTS, True), (PATIENCE_COSTS / 2, False)])
def test_weights_that_know_the_rule_of_another_release_need_not_be_beaten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patience_costs: float, beaten: bool
) -> None:
    used = tmp_path / "used"
    shipped = load_agent(resources.files("hyperscale.planner.learned") / "weights").manifest
    prior = msgspec.structs.replace(shipped.prior, patience_costs=patience_costs)
    content = (resources.files("hyperscale.planner.learned") / "weights" / "stream.safetensors").read_bytes()
    write_files(used, content, msgspec.structs.replace(shipped, prior=prior))
    asked: list[Path | None] = []
    module = ModuleType("tests_streams")

    def judge(candidate: Path, in_use: Path | None, seed: int) -> LessonVerdict:
        asked.append(in_use)
        return LessonVerdict(False, "", {})

    module.train, module.judge = None, judge  # type: ignore[attr-defined] # a module has what is put into it
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(learn_command.MODULES, "streams", module.__name__)
    run("learn", "streams", "--out", str(tmp_path / "out"), "--publish", str(used), "--evaluate-only")
    assert (asked == [used]) is beaten


def test_accepted_weights_that_the_operator_would_not_use_are_not_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = resources.files("hyperscale.planner.learned") / "weights"
    old = msgspec.structs.replace(load_agent(shipped).manifest, long_runs=0.0)
    write_files(tmp_path / "out", (shipped / "stream.safetensors").read_bytes(), old)
    module = ModuleType("tests_accepting")
    module.train, module.judge = None, lambda *_: LessonVerdict(True, "", {})  # type: ignore[attr-defined] # a module has what is put into it
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(learn_command.MODULES, "streams", module.__name__)
    ran = run("learn", "streams", "--out", str(tmp_path / "out"), "--publish", str(tmp_path / "used"), "--evaluate-only")
    assert ran.code == 2
    assert ran.err.splitlines() == [
        f"hyperscale: --publish: the weights in {tmp_path / 'out'} were made under another release's rule or bounds; train again"
    ]
    assert not (tmp_path / "used").exists()
