"""The recipes of CONTRIBUTING.md name at most four files each; files, folders and names in them exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "operator/hyperscale"
MAX_FILES = 4
SECTION = (ROOT / "CONTRIBUTING.md").read_text().partition("## Five common changes\n")[2].partition("\n## ")[0]
RECIPES = dict(part.split("\n", 1) for part in SECTION.split("### ")[1:])
PATH = re.compile(r"`([\w./]+(?:\.py|\.md|/|\.importlinter))`")
NAME = re.compile(r"`([A-Za-z_]+)(?:\([\w, ]*\))?`")


def entries(recipe: str) -> list[str]:
    """The source files of a recipe, one a list entry."""
    return [line.removeprefix("- ") for line in RECIPES[recipe].splitlines() if line.startswith("- ")]


def place(path: str) -> Path:
    """A path of a recipe: below the package, or in the root of the repository."""
    return ROOT / path if (ROOT / path).exists() else PACKAGE / path


def test_the_five_changes_of_a_contributor_have_a_recipe() -> None:
    print("\n".join(f"{len(entries(recipe))} files: {recipe}" for recipe in RECIPES))
    assert list(RECIPES) == ["A policy check", "A metric source", "A planner", "A CRD field", "A CLI command"]


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_takes_at_most_four_files(recipe: str) -> None:
    assert 1 <= len(entries(recipe)) <= MAX_FILES


@pytest.mark.parametrize("recipe", RECIPES)
def test_what_a_recipe_names_exists(recipe: str) -> None:
    assert [path for path in PATH.findall(RECIPES[recipe]) if not place(path).exists()] == []
    for entry in entries(recipe):
        files = [place(path) for path in PATH.findall(entry) if path.endswith(".py")]
        for name in NAME.findall(entry.partition(":")[2]):
            assert not files or any(re.search(rf"\b{name}\b", file.read_text()) for file in files), f"{entry}: {name}"


def test_where_the_glossary_says_that_a_term_shows_there_is_such_a_place() -> None:
    rows = [line.split("|") for line in (ROOT / "docs/reference/glossary.md").read_text().splitlines() if line.startswith("| ")]
    paths = [path for row in rows if len(row) == 5 for path in re.findall(r"`([a-z_]+/[a-z_/]*)`", row[3])]
    assert len(paths) >= 8
    assert [path for path in paths if not place(path).exists() and not place(f"{path}.py").exists()] == []


def test_the_names_of_recipes_for_new_modules_exist_too() -> None:
    text = "\n".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    folders = [entry for recipe in RECIPES for entry in entries(recipe) if entry.startswith("`") and entry.split("`")[1].endswith("/")]
    assert len(folders) >= 4
    for entry in folders:
        for name in NAME.findall(entry.partition(":")[2]):
            assert re.search(rf"\b{name}\b", text), f"{entry}: {name}"
