"""What the command line costs: seconds until it answers, and megabytes of what it installs.

Seconds are of new processes, the median of several; `processor` is user and system time, which other work on the machine changes less.
Megabytes (10^6 bytes) are of the files in the wheels, without the bytecode that Python writes later: HyperScale and every package that it
needs by pyproject.toml and the metadata of what is installed here. Run it where the packages of `requirements/test.lock` are.
"""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import clusters, common  # noqa: E402 - a script's own folder, not the repository, is on the path
from benchmarks.common import Row  # noqa: E402
from hyperscale.observe.files.snapshot_files import write_snapshot  # noqa: E402

BENCHMARK: Final = "sizes"
PROGRAM: Final = Path(sys.executable).with_name("hyperscale")
HELP_SECONDS: Final = 0.1
PLAN_SECONDS: Final = 0.5
CLI_MEGABYTES: Final = 150.0
NODES: Final = 47
EXTRAS: Final = {"no extra": (), "extra cluster": ("cluster",), "extra planner": ("planner",)}
"""Installations of the command line; the goal is for the first, which plans from files, and for the one that asks a cluster."""
WITH_GOAL: Final = ("no extra", "extra cluster")


def main() -> int:
    """Measure all; the exit code of `common.report`."""
    arguments = common.parser(__doc__ or "")
    arguments.add_argument("--seed", type=int, default=0, help="of the generated cluster, e.g. --seed 1")
    given = arguments.parse_args()
    return common.report([*_times(given.seed, 5 if given.quick else 15), *_packages()], given.json)


def _times(seed: int, rounds: int) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        snapshot = Path(folder) / "cluster.json"
        write_snapshot(snapshot, clusters.generated(NODES, seed).snapshot)
        plan = ("plan", "-f", str(ROOT / "examples" / "plan-only.yaml"), "--snapshot", str(snapshot))
        for case, command, limit in (("--help", ("--help",), HELP_SECONDS), (f"plan, {NODES} nodes", plan, PLAN_SECONDS)):
            _seconds(command)  # writes bytecode
            taken = [_seconds(command) for _ in range(rounds)]
            wall = common.median([seconds for seconds, _ in taken])
            yield Row(BENCHMARK, case, "hyperscale", "wall", wall, "s", seed)
            yield Row(BENCHMARK, case, "hyperscale", "processor", common.median([seconds for _, seconds in taken]), "s", seed)
            yield common.goal(BENCHMARK, case, "hyperscale", wall, limit, "s")


def _seconds(command: Sequence[str]) -> tuple[float, float]:
    """Wall and processor time of a command; raises CalledProcessError where it fails."""
    before, begin = os.times(), time.perf_counter()
    subprocess.run([str(PROGRAM), *command], stdout=subprocess.DEVNULL, check=True)
    wall, after = time.perf_counter() - begin, os.times()
    return wall, after.children_user - before.children_user + after.children_system - before.children_system


def _packages() -> Iterator[Row]:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    compiled = f"*{sysconfig.get_config_var('EXT_SUFFIX')}"
    own = sum(file.stat().st_size for pattern in ("*.py", compiled) for file in (ROOT / "operator/hyperscale").rglob(pattern))
    for case, extras in EXTRAS.items():
        wanted = [*project["dependencies"], *(text for extra in extras for text in project["optional-dependencies"][extra])]
        sizes = {name: _bytes(name) for name in _closure(wanted)}
        total = (own + sum(sizes.values())) / 1e6
        yield Row(BENCHMARK, case, "all", "installed", total, "MB")
        for name in sorted(sizes, key=lambda name: -sizes[name])[:4]:
            yield Row(BENCHMARK, case, name, "installed", sizes[name] / 1e6, "MB")
        if case in WITH_GOAL:
            yield common.goal(BENCHMARK, case, "all", total, CLI_MEGABYTES, "MB")


def _closure(texts: Sequence[str]) -> set[str]:
    """Names of the packages that these requirements bring."""
    pending, seen = [Requirement(text) for text in texts], set[tuple[str, frozenset[str]]]()
    while pending:
        wanted = pending.pop()
        known = (wanted.name.lower(), frozenset(wanted.extras))
        if known in seen:
            continue
        seen.add(known)
        for requirement in map(Requirement, importlib.metadata.requires(wanted.name) or ()):
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *wanted.extras)):
                pending.append(requirement)
    return {name for name, _ in seen}


def _bytes(package: str) -> int:
    """Of the files in its wheel."""
    files = importlib.metadata.files(package) or ()
    found = [Path(str(file.locate())) for file in files if "__pycache__" not in file.parts]
    return sum(file.stat().st_size for file in found if file.is_file())


if __name__ == "__main__":
    sys.exit(main())
