"""What each extra brings, and what a program says where one is missing."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from hyperscale.observe.files.snapshot_files import write_snapshot
from hyperscale.util import extras
from tests.unit.cli.cli_samples import snapshot

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "operator/hyperscale"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
HEAVY = {"dgl", "kopf", "kubernetes", "matplotlib", "networkx", "scipy", "sqlalchemy", "torch"}

ALONE = """
import importlib.abc, runpy, sys
allowed = set(sys.argv[1].split(","))
class Refusal(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names and top not in allowed:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Refusal())
sys.argv = sys.argv[2:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def pins(name: str) -> set[str]:
    return set(re.findall(r"^([a-z0-9._-]+)==", (ROOT / f"requirements/{name}.lock").read_text(), re.MULTILINE))


def tops(lock: str) -> set[str]:
    """Modules that the packages of a lock bring."""
    names = {"hyperscale"}
    for package in pins(lock):
        try:
            files = importlib.metadata.files(package) or ()
        except importlib.metadata.PackageNotFoundError:  # of another system
            continue
        names |= {file.parts[0].partition(".")[0] for file in files if file.suffix in (".py", ".so")}
    return names


def run(lock: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A program in an environment that holds the packages of one lock."""
    command = [sys.executable, "-c", ALONE, ",".join(sorted(tops(lock))), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def distributions(extra: str) -> set[str]:
    """What an extra names, and what these name themselves."""
    direct = {Requirement(text).name for text in PROJECT["optional-dependencies"][extra]} - {"hyperscale"}
    texts = [text for name in direct for text in importlib.metadata.requires(name) or ()]
    return {re.sub(r"[-_.]+", "-", name).lower() for name in direct | {Requirement(text).name for text in texts if "extra ==" not in text}}


def imported() -> set[str]:
    """Top-level modules that the shipped code imports and that are neither Python's nor ours."""
    names: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module.partition(".")[0])
    return names - sys.stdlib_module_names - {"hyperscale"}


BY_IMAGE_ONLY = {"cloudpickle", "horovod", "mtkahypar"}
"""No extra brings these: an image compiles or adds them, and the code that asks for them says so."""


def test_every_imported_package_is_in_the_core_or_has_an_extra() -> None:
    core = tops("core")
    assert imported() - core - BY_IMAGE_ONLY <= extras.EXTRA_OF.keys()
    assert not core & extras.EXTRA_OF.keys()


@pytest.mark.parametrize("module", sorted(extras.EXTRA_OF))
def test_the_named_extra_brings_the_package(module: str) -> None:
    owners = {re.sub(r"[-_.]+", "-", name).lower() for name in importlib.metadata.packages_distributions().get(module, ())}
    if not owners:
        pytest.skip(f"{module} is not installed here")
    assert owners & distributions(extras.EXTRA_OF[module])


def test_the_core_is_small() -> None:
    assert pins("core") == {"msgspec", "numpy", "pyyaml", "safetensors"}


@pytest.mark.parametrize(
    ("lock", "absent"),
    [
        ("operator", {"dgl", "matplotlib", "stable-baselines3", "tensorboard", "torch"}),
        ("agent", HEAVY),
        ("worker", {"kopf", "kubernetes", "matplotlib", "sqlalchemy", "stable-baselines3", "tensorboard"}),
        ("learn", {"kopf", "kubernetes", "sqlalchemy"}),
        ("test", {"dgl", "stable-baselines3", "torch"}),
    ],
)
def test_a_lock_holds_no_package_of_another_task(lock: str, absent: set[str]) -> None:
    assert not pins(lock) & absent


@pytest.fixture
def known(tmp_path: Path) -> str:
    file = tmp_path / "cluster.json"
    write_snapshot(file, snapshot())
    return str(file)


CORA = str(ROOT / "examples/cora-gcn.yaml")
ARXIV = str(ROOT / "examples/arxiv-sage-s3.yaml")


@pytest.mark.parametrize("files", [(CORA,), (CORA, ARXIV)], ids=["one job", "two jobs"])
def test_the_core_alone_plans_as_the_whole_environment_does(files: tuple[str, ...], known: str) -> None:
    arguments = [part for file in files for part in ("-f", file)]
    whole, alone = (run(lock, "hyperscale.cli.main", "plan", *arguments, "--snapshot", known, "-o", "json") for lock in ("dev", "core"))
    assert (alone.returncode, alone.stderr) == (whole.returncode, whole.stderr) == (0, whole.stderr)
    assert alone.stdout == whole.stdout


def test_the_core_alone_describes_a_cluster(known: str, tmp_path: Path) -> None:
    page, graph = str(tmp_path / "page.html"), str(tmp_path / "graph.graphml")
    shown = run("core", "hyperscale.cli.main", "topology", "--snapshot", known, "--html", page, "--graphml", graph)
    assert shown.returncode == 0, shown.stderr
    for command in (["version"], ["--help"], ["snapshot", "--help"]):
        ended = run("core", "hyperscale.cli.main", *command)
        assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize(
    ("extra", "arguments"),
    [
        ("cluster", ("plan", "-f", CORA)),
        ("cluster", ("doctor",)),
        ("cluster", ("topology",)),
        ("cluster", ("snapshot", "-o", "OUT")),
        ("cluster", ("explain", "cora")),
        ("history", ("history", "--url", "sqlite:///x")),
        ("learn", ("learn", "dqn", "--out", "OUT")),
        ("planner", ("analyze", str(ROOT / "examples/own-script/train.py"))),
        ("worker", ("analyze", "gcn")),
        ("worker", ("partition", "Cora", "--partitions", "2", "--out", "OUT")),
    ],
)
def test_a_command_without_its_extra_names_it_in_one_line(extra: str, arguments: tuple[str, ...], known: str, tmp_path: Path) -> None:
    places = {"KNOWN": known, "OUT": str(tmp_path / "out")}
    ended = run("core", "hyperscale.cli.main", *(places.get(one, one) for one in arguments))
    assert (ended.returncode, ended.stdout) == (2, ""), ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    assert ended.stderr.rstrip().endswith(f"pip install '.[{extra}]'"), ended.stderr


@pytest.mark.parametrize(
    ("extra", "module"),
    [
        ("operator", "hyperscale"),
        ("agent", "hyperscale.agent"),
        ("worker", "hyperscale.training.worker.train"),
    ],
)
def test_a_process_without_its_extra_names_it_in_one_line(extra: str, module: str) -> None:
    ended = run("core", module)
    assert (ended.returncode, ended.stdout) == (2, ""), ended.stderr
    assert len(ended.stderr.splitlines()) == 1, ended.stderr
    assert ended.stderr.rstrip().endswith(f"pip install '.[{extra}]'"), ended.stderr


def test_no_text_tells_to_install_the_project_of_the_same_name_from_the_index() -> None:
    """PyPI's `hyperscale` is another project: who follows such a line runs a stranger's code."""
    texts = [*(ROOT / "operator").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    assert [str(text) for text in texts if re.search(r"pip install ['\"]?hyperscale", text.read_text())] == []
