"""Reads metrics from Prometheus at intervals and publishes them to the cache, all but the last step in threads."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial

from hyperscale.control.cache.snapshot_source import SnapshotSource
from hyperscale.control.telemetry.metrics import Telemetry
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.metrics_reading import MetricsReading
from hyperscale.observe.identity import NodeIndex
from hyperscale.observe.kube.fields import is_gpu_node
from hyperscale.observe.prometheus.incremental import IncrementalValidator
from hyperscale.observe.prometheus.reader import PrometheusReader
from hyperscale.observe.snapshot.build_snapshot import SnapshotFigures
from hyperscale.util.threads import in_daemon_thread

_LOG = logging.getLogger(__name__)


class MetricsPoll:
    """One reading after the other."""

    def __init__(
        self,
        snapshots: SnapshotSource,
        reader: PrometheusReader,
        policy: Callable[[], PolicySpec],
        telemetry: Telemetry,
        interval_seconds: float,
    ) -> None:
        """policy: the default policy as it is now."""
        self._snapshots = snapshots
        self._reader = reader
        self._policy = policy
        self._telemetry = telemetry
        self._interval_seconds = interval_seconds
        self._judging = IncrementalValidator()
        self._reason = snapshots.reading.state.reason

    async def run(self) -> None:
        """Read at every interval, and judge the last reading again when nodes come or go; until cancelled."""
        while True:
            due = time.monotonic() + self._interval_seconds
            while (left := due - time.monotonic()) > 0:
                await asyncio.sleep(min(1.0, left))
                if self._snapshots.memory.outdated:  # nodes came or went
                    await self.judge_again()
            await self.read()

    async def read(self) -> None:
        """Read and judge all figures in a thread: neither a stalled Prometheus nor 400,000 series may hold up the event loop."""
        policy = self._policy()
        reading = await in_daemon_thread(partial(self._reader.read, policy, time.time()))
        await self._judge(reading, policy)
        for query in reading.state.failed_queries:
            self._telemetry.query_failures.labels(query=query).inc()

    async def judge_again(self) -> None:
        """Judge the last reading by the nodes and the policy of now."""
        await self._judge(self._snapshots.reading, self._policy())

    async def _judge(self, reading: MetricsReading, policy: PolicySpec) -> None:
        """In a thread too: what every series says of which node."""
        nodes, pods = self._snapshots.names()

        def judged() -> SnapshotFigures:
            return self._judging.figures(reading, NodeIndex(filter(is_gpu_node, nodes), pods), policy.limits)

        figures = await in_daemon_thread(judged)
        if figures.state.reason != self._reason and (nodes or not reading.state.available):
            self._reason = figures.state.reason
            _LOG.info("metrics: %s", figures.state.reason, extra={"detail": figures.state.message})
        await self._snapshots.publish_metrics(figures, policy)
