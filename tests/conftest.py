"""What every test has in common: without a C compiler those of the compiled simulator are left out, and the report says so."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

import pytest

NEED_SIMULATOR: Final = (
    "unit/learn/test_hostile_streams.py",
    "unit/learn/test_stream_agents.py",
    "unit/learn/test_streams.py",
    "property/test_queue_twins.py",
)
HAS_SIMULATOR: Final = find_spec("hyperscale.learn.streams._streams") is not None

collect_ignore = [] if HAS_SIMULATOR else list(NEED_SIMULATOR)


def pytest_report_header() -> list[str]:
    """Names what is left out."""
    return [] if HAS_SIMULATOR else [f"the simulator of streams is not compiled (make kernel); left out: {', '.join(NEED_SIMULATOR)}"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The same at the end, where it is seen with -q."""
    for line in pytest_report_header():
        terminalreporter.write_line(line)
