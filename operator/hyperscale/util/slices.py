"""Long work on the event loop in short steps."""

from __future__ import annotations

import asyncio
import time
from typing import Final

SLICE_SECONDS: Final = 0.005
"""Work between two turns of the event loop."""


class Slices:
    """Measures work that began with this object, and lets the event loop turn when it has taken long enough."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    @property
    def due(self) -> bool:
        """Whether the work since the last pause has taken SLICE_SECONDS."""
        return time.perf_counter() - self._began > SLICE_SECONDS

    async def pause(self) -> None:
        """Let the event loop turn, whatever the time."""
        await asyncio.sleep(0)
        self._began = time.perf_counter()

    async def pause_if_due(self) -> None:
        """Let the event loop turn where `due`."""
        if self.due:
            await self.pause()
