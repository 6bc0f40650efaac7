"""What every test has in common: those whose compiled module or package is missing are left out, and the report says so."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest
from hypothesis import settings

# The same tests every time, so that a red run is the change's; `make test-long` draws others. No timing decides.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("random", print_blob=True, deadline=None)
settings.load_profile("repeatable")

NEED: Final = {
    "hyperscale.learn.streams._streams": (
        "unit/learn/test_hostile_streams.py",
        "unit/learn/test_stream_agents.py",
        "unit/learn/test_streams.py",
        "property/test_queue_twins.py",
    ),
    # The twin answers, but takes minutes.
    "hyperscale.planner.assign._assign": ("unit/planner/test_tasks_at_once.py",),
    # Packages of `worker`, `learn` and `dev`, which the extra `test` goes without (`make test-pythons`).
    "dgl": ("unit/learn", "unit/training/modelgraph", "unit/cli/test_cli_analyze.py"),
    "ortools": ("unit/benchmarks/test_placement_peers.py",),
    "pyarrow": ("unit/training/data", "unit/cli/test_cli_data.py", "property/test_data_hostile.py"),
    "pymetis": ("unit/training/partition", "property/test_partition_invariants.py"),
    "torch": (
        "unit/training/worker",
        "unit/benchmarks/test_stream_seeds.py",
        "property/test_fusion_equivalence.py",
        "property/test_molecules_kernels.py",
        "property/test_queue_twins.py",
        "property/test_worker_gradients.py",
    ),
}
MISSING: Final = [module for module in NEED if find_spec(module) is None]

UNKNOWN: Final = [file for files in NEED.values() for file in files if not (Path(__file__).parent / file).exists()]
assert not UNKNOWN, f"no such test: {UNKNOWN}"

collect_ignore = [file for module in MISSING for file in NEED[module]]


def pytest_report_header() -> list[str]:
    """Names what is left out."""
    reasons = {module: "not compiled (make kernel)" if module.startswith("hyperscale.") else "not installed" for module in MISSING}
    return [f"{module} is {reason}; left out: {', '.join(NEED[module])}" for module, reason in reasons.items()]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The same at the end, where it is seen with -q."""
    for line in pytest_report_header():
        terminalreporter.write_line(line)
