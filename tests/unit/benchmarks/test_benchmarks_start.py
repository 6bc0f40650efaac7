"""Every benchmark starts as a script and as a module, from whatever folder; a missed goal is its exit code."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from benchmarks.common import Row, goal, report

FOLDER = Path(__file__).resolve().parents[3] / "benchmarks"
SCRIPTS = sorted(path for path in FOLDER.glob("*.py") if '__name__ == "__main__"' in path.read_text())


def _steps(path: Path) -> list[str]:
    """What the file does on import, in order: "path" where it puts the repository on the path, "neighbour" where it imports one."""
    steps: list[str] = []
    for statement in ast.parse(path.read_text()).body:
        if isinstance(statement, ast.ImportFrom) and (statement.module or "").partition(".")[0] == "benchmarks":
            steps.append("neighbour")
        elif ast.unparse(statement).startswith("sys.path.insert(0,"):
            steps.append("path")
    return steps


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_that_imports_its_neighbours_puts_the_repository_on_the_path_first(path: Path) -> None:
    steps = _steps(path)
    assert "neighbour" not in steps or steps[0] == "path"


def test_there_are_scripts_to_look_at() -> None:
    assert len(SCRIPTS) > 10


@pytest.mark.parametrize(("value", "code"), [(1.0, 0), (1.1, 1)])
def test_a_missed_goal_is_the_exit_code(value: float, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert report([Row("b", "case", "ours", "seconds", 1.0, "s"), goal("b", "case", "ours", value, 1.0, "ratio")], None) == code
    assert ("NO" in capsys.readouterr().out) == bool(code)
