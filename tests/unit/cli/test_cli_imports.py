"""What a command imports decides how fast it answers: `--help` takes the standard library alone, an offline plan three libraries."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from hyperscale.cli.main import COMMANDS
from tests.unit.cli.cli_samples import Files, files_fixture

__all__ = ["files_fixture"]

PLAN_LIBRARIES = {"_yaml", "cython_runtime", "msgspec", "numpy", "safetensors", "typing_extensions", "yaml"}
"""safetensors holds the weights of the learned planner."""
PLAN_ROOMS = {"cli", "control.render", "control.specs", "model", "observe", "planner", "spec", "util"}
SCRIPT = """
import json, sys
before = set(sys.modules)
from hyperscale.cli.main import main
code = main(sys.argv[1:])
print(json.dumps([code, sorted(set(sys.modules) - before)]), file=sys.stderr)
"""


def imported(*argv: str) -> set[str]:
    """Modules that a new process imports for a command, without those of the standard library."""
    environment = {"PATH": os.environ["PATH"]}
    ran = subprocess.run([sys.executable, "-c", SCRIPT, *argv], capture_output=True, text=True, check=True, env=environment)
    code, modules = json.loads(ran.stderr.splitlines()[-1])
    assert code == 0, ran.stderr
    return {module for module in modules if module.partition(".")[0] not in sys.stdlib_module_names}


def libraries(modules: set[str]) -> set[str]:
    """Packages that the modules are of; what Cython adds with each compiled module is none."""
    return {module.partition(".")[0] for module in modules if not module.startswith("_cython_")}


def rooms(modules: set[str]) -> set[str]:
    """Rooms of ours by the first part of their names; of `control` by the first two."""
    ours = [module.split(".")[1:] for module in modules if module.startswith("hyperscale.")]
    return {".".join(parts[:2]) if parts[0] == "control" else parts[0] for parts in ours if parts != ["control"]}


@pytest.mark.parametrize("argv", [("--help",), *((command, "--help") for command in sorted(COMMANDS))], ids=" ".join)
def test_help_imports_the_command_line_and_the_standard_library_alone(argv: tuple[str, ...]) -> None:
    modules = imported(*argv)
    assert libraries(modules) == {"hyperscale"}
    assert rooms(modules) == {"cli", "util"}


def test_an_offline_plan_imports_neither_training_nor_the_operators_libraries(files: Files) -> None:
    modules = imported("plan", "-f", files.job, "--snapshot", files.snapshot)
    assert libraries(modules) <= {"hyperscale", *PLAN_LIBRARIES}
    assert rooms(modules) <= PLAN_ROOMS
