"""NVML for the agent's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.agent.fakenvml import FakeNvml, compiled, played


@pytest.fixture(scope="session")
def library() -> Path:
    """The compiled library; its folder is an LD_LIBRARY_PATH."""
    return compiled()


@pytest.fixture
def nvml() -> Iterator[FakeNvml]:
    """pynvml in this process, on a library that the test steers."""
    with played() as fake:
        yield fake
