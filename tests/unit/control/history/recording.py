"""A recorder at work on runs that wait for it, and what it says of those that the database does not keep."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from hyperscale.control.history.recorder import RunRecorder
from hyperscale.control.history.runs_table import FinishedRun
from hyperscale.control.specs.parsed_specs import JobReader
from hyperscale.control.telemetry.metrics import Telemetry


class Desk:
    """A recorder of a database, and runs that wait for it."""

    def __init__(self, url: str, *runs: FinishedRun) -> None:
        self.telemetry, self.reader = Telemetry(), JobReader()
        self.recorder = RunRecorder(self.reader, self.telemetry, url, 5, lambda: 5000.0)
        for run in runs:
            self.wait(run)

    def wait(self, run: FinishedRun) -> None:
        self.recorder._waiting[run.uid] = run
        self.recorder._something.set()

    def work_until(self, done: Callable[[], bool], seconds: float = 30.0) -> None:
        async def play() -> None:
            working = asyncio.create_task(self.recorder.run())
            try:
                async with asyncio.timeout(seconds):
                    while not done():  # noqa: ASYNC110 - it sends no event
                        await asyncio.sleep(0.02)
            finally:
                working.cancel()

        asyncio.run(play())

    def work(self) -> None:
        """Until no run waits."""
        self.work_until(lambda: not self.recorder._waiting)

    @property
    def failures(self) -> float:
        counted: float = self.telemetry.history_failures._value.get()
        return counted


def named(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the log says of rows that cannot be kept."""
    return [record.getMessage() for record in caplog.records if "cannot be kept" in record.getMessage()]
