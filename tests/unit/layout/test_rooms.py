"""The package shows the way of the data: few rooms, small folders, one name for one file."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[3] / "operator/hyperscale"
MAX_ROOMS = 14
MAX_MODULES = 20
"""In one folder, without `__init__`."""
MAX_NAMES_TWICE = 10
MAX_MODULE_LINES = 300
MAX_FUNCTION_LINES = 40
LONG_MODULES = {"model/api/job.py"}
"""Longer modules; the docstring of each says why."""
LONG_FUNCTIONS = {"control/controller/reconciler.py: _look", "observe/kube/fields.py: node_view"}
"""Longer functions: each builds one object, with one line for each of its fields."""
KOPF_INTERNALS = {"control/controller/handlers.py"}
"""The one module that uses kopf's private packages."""


def sources(folder: Path) -> list[str]:
    """Names of the modules in a folder, compiled ones included."""
    return sorted({path.stem for path in folder.iterdir() if path.suffix in (".py", ".pyx") and path.stem != "__init__"})


def folders() -> list[Path]:
    """Every folder with modules."""
    return sorted(path.parent for path in PACKAGE.rglob("__init__.py"))


def test_the_root_holds_the_entry_point_and_the_rooms_alone() -> None:
    assert sources(PACKAGE) == ["__main__"]
    rooms = [folder.name for folder in folders() if folder.parent == PACKAGE]
    print(f"{len(rooms)} rooms: {', '.join(rooms)}")
    assert len(rooms) <= MAX_ROOMS


def test_no_folder_holds_more_modules_than_a_reader_can_survey() -> None:
    sizes = {str(folder.relative_to(PACKAGE)): len(sources(folder)) for folder in folders()}
    largest = sorted(sizes.items(), key=lambda entry: -entry[1])[:5]
    print(f"{sum(sizes.values())} modules in {len(sizes)} folders; the largest: {', '.join(f'{name} {size}' for name, size in largest)}")
    assert {name: size for name, size in sizes.items() if size > MAX_MODULES} == {}


def test_file_names_are_told_apart_without_their_folder() -> None:
    names = Counter(name for folder in folders() for name in sources(folder))
    twice = sorted(name for name, count in names.items() if count > 1)
    print(f"{len(twice)} file names twice: {', '.join(twice)}")
    assert len(twice) <= MAX_NAMES_TWICE


def test_every_room_says_what_comes_in_and_what_goes_out() -> None:
    for folder in folders():
        said = ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
        assert said, folder
        name = str(folder.relative_to(PACKAGE))
        if "/" in name:
            assert re.search(r"\bIn: .*\bOut: ", said, re.DOTALL), f"{name}: {said}"


def test_modules_are_short_enough_to_read_at_once() -> None:
    sizes = {str(path.relative_to(PACKAGE)): len(path.read_text().splitlines()) for path in PACKAGE.rglob("*.py")}
    longest = sorted(sizes.items(), key=lambda entry: -entry[1])[:5]
    print(f"{sum(sizes.values())} lines in {len(sizes)} files; the longest: {', '.join(f'{name} {size}' for name, size in longest)}")
    assert {name for name, size in sizes.items() if size > MAX_MODULE_LINES} <= LONG_MODULES
    for name in LONG_MODULES:
        assert "Longer than other modules" in (ast.get_docstring(ast.parse((PACKAGE / name).read_text())) or ""), name


def function_lengths() -> dict[str, int]:
    """Lines of every function by module and name, the longest of a name; signature and docstring count, decorators do not."""
    lengths: Counter[str] = Counter()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                name = f"{path.relative_to(PACKAGE)}: {node.name}"
                lengths[name] = max(lengths[name], (node.end_lineno or node.lineno) - node.lineno + 1)
    return lengths


def test_functions_fit_on_one_screen() -> None:
    lengths = function_lengths()
    longest = sorted(lengths.items(), key=lambda entry: -entry[1])[:5]
    print(f"{len(lengths)} names of functions; the longest: {', '.join(f'{name} {size}' for name, size in longest)}")
    assert {name for name, size in lengths.items() if size > MAX_FUNCTION_LINES} <= LONG_FUNCTIONS


def private_imports(path: Path) -> list[str]:
    """Private names of other modules that a module imports; compiled modules, which begin with an underscore, are none."""
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith(("hyperscale", "kopf")):
            continue
        dotted = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
        private = [part for part in dotted if re.match(r"_[a-z]", part)]
        found += [f"{node.module}: {part}" for part in private if not list(PACKAGE.rglob(f"{part}.pyx"))]
    return found


def test_no_module_takes_private_names_of_another() -> None:
    taken = {str(path.relative_to(PACKAGE)): private for path in sorted(PACKAGE.rglob("*.py")) if (private := private_imports(path))}
    assert {name: private for name, private in taken.items() if name not in KOPF_INTERNALS} == {}
    assert all("kopf" in one for name in KOPF_INTERNALS for one in taken[name]), "nothing but kopf's"
