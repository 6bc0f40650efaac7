"""Progress of running jobs, from Prometheus into their status: bounded in how often it is asked for and how much is written."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from hyperscale.control.cache.cluster_cache import ClusterCache
from hyperscale.control.cache.records import Key
from hyperscale.model.api.measured import Measured
from hyperscale.observe.prometheus.progress_query import read_progress
from hyperscale.observe.prometheus.reader import PrometheusReader, QueryError
from hyperscale.util.threads import in_daemon_thread

_LOG = logging.getLogger(__name__)

QUERY_SECONDS: Final = 5.0
"""One query of a few series a job; longer, and the next one is due."""
MOST_WRITES: Final = 100
"""Jobs whose status changes after one query; those told longest ago go first. A thousand jobs must not mean a hundred writes a second."""


class ProgressWatch:
    """Asks while jobs run, and wakes the jobs that got on."""

    def __init__(
        self,
        cache: ClusterCache,
        reader: PrometheusReader,
        interval_seconds: float,
        clock: Callable[[], float],
        wake: Callable[[Key], None],
    ) -> None:
        """clock: Unix seconds; wake: asks for a reconcile of a job that made progress."""
        self._cache = cache
        self._reader = reader
        self._interval_seconds = interval_seconds
        self._clock = clock
        self._told_at: dict[Key, float] = {}
        self._fault = ""
        self._wake = wake

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(self._interval_seconds)
            if self._running():
                await self.poll()

    async def poll(self) -> None:
        """Ask once; a query that fails is logged when it begins to fail, and changes nothing."""
        try:
            progress = await in_daemon_thread(partial(read_progress, self._reader, QUERY_SECONDS))
        except QueryError as error:
            if self._fault != error.reason:
                _LOG.warning("the progress of running jobs is not known: %s", error)
            self._fault = error.reason
            return
        self._fault = ""
        self.take({Key(*job): measured for job, measured in progress.items()})

    def take(self, progress: dict[Key, Measured]) -> None:
        """What running jobs said just now."""
        running = self._running()
        self._told_at = {key: at for key, at in self._told_at.items() if key in running}
        changed = [key for key in running if key in progress and progress[key] != self._cache.progress.get(key)]
        for key in sorted(changed, key=lambda key: (self._told_at.get(key, 0.0), key))[:MOST_WRITES]:
            self._cache.progress[key] = progress[key]
            self._told_at[key] = self._clock()
            self._wake(key)

    def _running(self) -> set[Key]:
        return {key for key, view in self._cache.live.items() if key in self._cache.jobs and view.is_true("Running") and not view.suspended}
