"""The newest reading of the GPUs, kept by a task of its own: a call into the driver that never returns blocks no request."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from hyperscale.agent.agent_settings import AgentSettings
from hyperscale.agent.gpus.gpu_reading import Reading
from hyperscale.agent.state import OFF, STARTING, AgentState, DriverCondition
from hyperscale.util.threads import in_daemon_thread

if TYPE_CHECKING:
    from hyperscale.agent.gpus.nvml_calls import Call

_LOG = logging.getLogger("hyperscale.agent.gpu")

STALE_READINGS: Final = 3
"""Figures older than that many intervals are not served: old figures look like frozen ones."""
PATHS_SECONDS: Final = 60.0
"""Interval between readings where DCGM exports the figures: NVML is opened for the paths between GPUs and closed at once."""
_NOTHING_TO_READ: Final = frozenset(
    {DriverCondition.NO_LIBRARY, DriverCondition.NO_DRIVER, DriverCondition.NO_GPU, DriverCondition.VERSION_MISMATCH}
)

_NO_MATTER_TO_DCGM: Final = frozenset({DriverCondition.READY, DriverCondition.NO_LIBRARY, DriverCondition.NO_PERMISSION})
"""States in which an exporter with a driver of its own gives all figures; in the others it would have none either."""


class Source(Protocol):
    """What reads GPUs: `nvml.Nvml`."""

    call: Call

    def read(self, now: float, *, figures: bool = True) -> Reading:
        """All GPUs; may never return."""


class Poller:
    """Reads in a daemon thread, one reading at a time, and keeps the last one."""

    def __init__(self, source: Source | None, settings: AgentSettings, clock: Callable[[], float]) -> None:
        """source: None where GPU readings are off; clock: monotonic seconds."""
        self._source = source
        self._settings = settings
        self._clock = clock
        self._work: asyncio.Task[Reading] | None = None
        self._started_at = 0.0
        self._latest = Reading(taken_at=clock(), state=STARTING if source else OFF)
        self._told: AgentState | None = None
        self._left_to_dcgm = False
        self._changed = asyncio.Event()
        self.seconds = 0.0
        """What the last finished reading took."""

    @property
    def latest(self) -> Reading:
        """The last reading, or why there is none that can be served."""
        age = self._clock() - self._latest.taken_at
        if self._source and self._latest.gpus and age > STALE_READINGS * self._period + self._settings.nvml_deadline_seconds:
            return self._without_gpus(AgentState(DriverCondition.STALLED, f"the last reading is {age:.0f} s old"))
        return self._latest

    @property
    def left_to_dcgm(self) -> bool:
        """Whether a DCGM exporter serves this node's figures; then only the ways between GPUs are read, and seldom."""
        return self._left_to_dcgm

    @left_to_dcgm.setter
    def left_to_dcgm(self, left: bool) -> None:
        if left != self._left_to_dcgm:
            self._left_to_dcgm = left
            self._changed.set()

    @property
    def _period(self) -> float:
        """Seconds from one reading to the next."""
        if self._latest.state.condition in _NOTHING_TO_READ:
            return self._settings.retry_seconds
        return max(self._settings.interval_seconds, PATHS_SECONDS) if self._left_to_dcgm else self._settings.interval_seconds

    @property
    def state(self) -> AgentState:
        """State of the GPU readings."""
        state = self.latest.state
        if not self.left_to_dcgm or state.condition not in _NO_MATTER_TO_DCGM:
            return state
        served = "a DCGM exporter serves the figures of this node's GPUs"
        untold = "" if state.condition is DriverCondition.READY else f"; the ways between them are not known: {state.message}"
        return AgentState(DriverCondition.LEFT_TO_DCGM, served + untold)

    async def run(self) -> None:
        """Read for ever."""
        while self._source:
            self._changed.clear()
            await self.poll()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._period):
                    await self._changed.wait()

    async def poll(self) -> Reading:
        """One reading, or after the deadline what is known without it; one that is still under way is waited for, never doubled."""
        if self._source is None:
            return self._latest
        if self._work is None:
            self._started_at = self._clock()
            read = partial(self._source.read, self._started_at, figures=not self.left_to_dcgm)
            self._work = asyncio.create_task(in_daemon_thread(read))
        done, _ = await asyncio.wait({self._work}, timeout=self._settings.nvml_deadline_seconds)
        self._latest = self._finished(self._work) if done else self._stalled()
        self._tell(self.state)
        return self._latest

    def _finished(self, work: asyncio.Task[Reading]) -> Reading:
        self._work = None
        self.seconds = self._clock() - self._started_at
        try:
            return work.result()
        except Exception as error:  # whatever a foreign library raises must not end the agent
            _LOG.exception("reading the GPUs failed")
            return self._without_gpus(AgentState(DriverCondition.UNREADABLE, f"{type(error).__name__}: {error}"[:300]))

    def _stalled(self) -> Reading:
        doing = self._source.call.doing if self._source else ""
        waited = self._clock() - self._started_at
        return self._without_gpus(AgentState(DriverCondition.STALLED, f"{doing or 'NVML'} has not returned for {waited:.0f} s"))

    def _without_gpus(self, state: AgentState) -> Reading:
        return Reading(taken_at=self._clock(), state=state, driver=self._latest.driver, errors=self._latest.errors)

    def _tell(self, state: AgentState) -> None:
        """Log what changed; a stall's growing age is no change."""
        if self._told is None or self._told.condition is not state.condition:
            good = state.condition in {DriverCondition.READY, DriverCondition.LEFT_TO_DCGM, DriverCondition.OFF}
            _LOG.log(logging.INFO if good else logging.WARNING, state.line)
        self._told = state
